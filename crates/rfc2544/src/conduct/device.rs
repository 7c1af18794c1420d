//! [`Device`]: a device under test, and the results of its trials.

use crate::tester::stamps::Absent;
use netcliff_core::ledger::TrialLedger;
use netcliff_packets::latency::Latency as Histogram;

use crate::cost::Predicted;
use crate::report::{Pacing, Seen};
use crate::settings::FrameSize;
use netcliff_mlrsearch::trial::{Answer, Request};

/// A device under test: one frame size at a time, one trial after the other.
pub trait Device {
    /// Why a measurement failed.
    type Error: std::fmt::Display;

    /// Sets the frames that follow.
    ///
    /// # Errors
    /// They cannot be sent here.
    fn frames(&mut self, frame: FrameSize) -> Result<(), Self::Error>;

    /// Measures the sender's rate flat out (pps, each way).
    ///
    /// # Errors
    /// Stopped, or a port went away.
    fn sender_pps(&mut self) -> Result<f64, Self::Error>;

    /// A trial; loads are each way. Once it has lost more than the request allows it may end, and is then as long as it was.
    ///
    /// # Errors
    /// Stopped, or a port went away: the trial is void.
    fn trial(&mut self, request: Request) -> Result<Measured, Self::Error>;

    /// Sends so many frames as fast as the sender can.
    ///
    /// # Errors
    /// As [`Device::trial`].
    fn burst(&mut self, frames: u64) -> Result<Burst, Self::Error>;

    /// Speed of its line (bit/s), of two the slower; None: it has none, as a veth, whatever speed it reports.
    fn line_bps(&self) -> Option<f64> {
        None
    }

    /// The throughput that follows from what frames cost the device's CPU at half of the one found (pps); None if the device's CPU cannot
    /// be observed.
    ///
    /// # Errors
    /// As [`Device::trial`].
    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, Self::Error> {
        let _ = throughput_pps;
        Ok(None)
    }

    /// A trial at a load (pps, each way) that accounts for all its frames; None: the device cannot. It is apart from the others, because to
    /// be told of each drop costs time.
    ///
    /// # Errors
    /// As [`Device::trial`].
    fn ledger(&mut self, load_pps: f64) -> Result<Option<TrialLedger>, Self::Error> {
        let _ = load_pps;
        Ok(None)
    }
}

/// Result of a trial.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Result for the searches.
    pub answer: Answer,
    /// Counts of this trial.
    pub seen: Seen,
    /// How well the schedule was kept.
    pub pacing: Option<Pacing>,
    /// Latency of every frame.
    pub latency: Option<Histogram>,
    /// The frame in the middle.
    pub tagged: Tagged,
}

/// Latency of a trial's tagged frames: means over the directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tagged {
    /// By the requested clock (s); None: one of them was lost or lacks a stamp.
    pub latency_s: Option<f64>,
    /// How far that may be off by bringing the clocks of both ends together (s).
    pub uncertainty_s: Option<f64>,
    /// From before they were written (s), if stamps were requested.
    pub application_s: Option<f64>,
    /// By the kernel's stamps (s), if those of hardware were requested.
    pub kernel_s: Option<f64>,
    /// Stamps that did not come back.
    pub absent: Absent,
}

/// Result of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Every frame was forwarded.
    pub complete: bool,
    /// Rate at which it was sent (pps).
    pub burst_pps: f64,
}
