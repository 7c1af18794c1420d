//! A bench whose trials another makes, for tests.

use netcliff_trial::bench::{Bench, Observation, SenderCeiling};
use netcliff_trial::trial::{TrialError, TrialSpec};

/// `observe` makes the trials on `host`, which answers all else.
pub struct Through<B, F> {
    /// What is loaded.
    pub host: B,
    /// A trial of it.
    pub observe: F,
}

impl<B, F> Bench for Through<B, F>
where
    B: Bench,
    F: FnMut(&mut B, &TrialSpec, bool) -> Result<Observation, TrialError>,
{
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        (self.observe)(&mut self.host, spec, metered)
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        self.host.ceiling(frame_bytes)
    }

    fn socket_capacity(&mut self, spec: &TrialSpec) -> Result<Option<f64>, TrialError> {
        self.host.socket_capacity(spec)
    }

    fn ring_slots(&self) -> Option<u64> {
        self.host.ring_slots()
    }

    fn cpu_method(&self) -> Result<String, String> {
        self.host.cpu_method()
    }
}
