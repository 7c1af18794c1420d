//! Progress of a trial as seen by its watching thread: the phase, and the meter's readings in the window.

use std::time::Instant;

use netcliff_host::cpu::{CpuSplit, MeterError};
use netcliff_host::system;
use netcliff_packets::source::Timing;

use super::Meter;

/// Phase of a run: before, in or after the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Before,
    Window,
    After,
}

/// Determines the phase from the time since the first packet was reported as sent or delivered.
pub(super) struct Gate {
    first: Option<Instant>,
    from_s: f64,
    to_s: f64,
}

impl Gate {
    pub(super) fn new(timing: &Timing) -> Self {
        Self { first: None, from_s: timing.warmup_s, to_s: timing.warmup_s + timing.measured_s }
    }

    pub(super) fn pass(&mut self, sent: u64) -> Phase {
        if sent == 0 {
            return Phase::Before;
        }
        let since_s = self.first.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
        match since_s {
            s if s < self.from_s => Phase::Before,
            s if s < self.to_s => Phase::Window,
            _ => Phase::After,
        }
    }
}

/// Marks the meter at the start of the window and reads it at the end.
#[derive(Default)]
pub(super) struct Metered {
    at_mark: Option<u64>,
    /// Packets delivered while the meter ran.
    pub(super) delivered: u64,
    pub(super) result: Option<Result<CpuSplit, MeterError>>,
}

impl Metered {
    pub(super) fn follow(&mut self, phase: Phase, meter: &mut Meter, delivered: u64) {
        match (phase, self.at_mark, &self.result) {
            (Phase::Window, None, None) => match meter.mark() {
                Ok(()) => self.at_mark = Some(delivered),
                Err(error) => self.result = Some(Err(error)),
            },
            (Phase::After, Some(at_mark), None) => {
                self.delivered = delivered.saturating_sub(at_mark);
                let first = |splits: Vec<CpuSplit>| splits.into_iter().next();
                self.result = meter.read().map(first).transpose();
            }
            _ => {}
        }
    }
}

/// Binds the calling thread to one CPU; dropping it restores the previous CPUs.
pub(super) struct Pinned {
    before: Option<Vec<usize>>,
}

impl Pinned {
    pub(super) fn to(cpu: u32) -> Self {
        let before = system::cpus_of_thread(0).ok();
        // Failure is ignored: an unbound watching thread disturbs slightly more.
        let _ = system::bind_thread(0, &[cpu as usize]);
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = system::bind_thread(0, before);
        }
    }
}
