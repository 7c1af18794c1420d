//! [`Device`]: a device under test, and the results of its trials.

use crate::tester::stamps::Absent;
use netcliff_core::ledger::TrialLedger;
use netcliff_packets::latency::Latency as Histogram;

use crate::cost::Predicted;
use crate::report::{Pacing, Seen};
use crate::settings::FrameSize;
use netcliff_mlrsearch::trial::{Answer, Request};

/// A device under test. It makes one trial at a time, with one frame size at a time.
pub trait Device {
    /// Why a measurement failed.
    type Error: std::fmt::Display;

    /// Sets the frames of the following trials.
    ///
    /// # Errors
    /// The frames cannot be sent here.
    fn frames(&mut self, frame: FrameSize) -> Result<(), Self::Error>;

    /// Measures the sender's highest rate (pps, each way).
    ///
    /// # Errors
    /// The run was stopped, or a port went away.
    fn sender_pps(&mut self) -> Result<f64, Self::Error>;

    /// Makes a trial. The request's load applies to each direction. The trial may end early once it has lost more than
    /// the request allows; the result has its actual length.
    ///
    /// # Errors
    /// The run was stopped, or a port went away: the trial is void.
    fn trial(&mut self, request: Request) -> Result<Measured, Self::Error>;

    /// Sends `frames` frames as fast as the sender can.
    ///
    /// # Errors
    /// See [`Device::trial`].
    fn burst(&mut self, frames: u64) -> Result<Burst, Self::Error>;

    /// Speed of the slower port's line (bit/s). `None` if a port has no physical line: a veth has none, whatever speed
    /// it reports.
    fn line_bps(&self) -> Option<f64> {
        None
    }

    /// Predicts the throughput from the cost of a frame on the device's CPU, measured at half of `throughput_pps`.
    /// `None` if that CPU cannot be observed.
    ///
    /// # Errors
    /// See [`Device::trial`].
    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, Self::Error> {
        let _ = throughput_pps;
        Ok(None)
    }

    /// Makes a separate trial at a load (pps, each way) in which all frames are accounted for. It is separate because
    /// tracing each drop costs time. `None` if the device does not support it.
    ///
    /// # Errors
    /// See [`Device::trial`].
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
    /// Counts of the trial's frames.
    pub seen: Seen,
    /// Accuracy of the sender's schedule.
    pub pacing: Option<Pacing>,
    /// Latency of every frame.
    pub latency: Option<Histogram>,
    /// Latency of the tagged frame.
    pub tagged: Tagged,
}

/// Latency of a trial's tagged frames: means over the directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tagged {
    /// Latency by the requested clock (s). `None` if a tagged frame was lost or lacks a timestamp.
    pub latency_s: Option<f64>,
    /// Uncertainty of the latency from relating the clocks of both ends (s).
    pub uncertainty_s: Option<f64>,
    /// Latency from before the frame was written (s), if kernel or hardware timestamps were requested.
    pub application_s: Option<f64>,
    /// Latency by the kernel's timestamps (s), if hardware timestamps were requested.
    pub kernel_s: Option<f64>,
    /// Timestamps that were not reported.
    pub absent: Absent,
}

/// Result of a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Whether every frame was forwarded.
    pub complete: bool,
    /// Rate of the burst (pps).
    pub burst_pps: f64,
}
