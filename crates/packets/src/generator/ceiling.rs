//! The highest rate of the generator: sends without a schedule.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::{Generator, GeneratorConfig, SenderFailure, SenderReport, Span, Window};
use crate::clock;
use crate::error::WireError;
use crate::port::SendOutcome;
use crate::schedule::{Arrivals, Schedule};
use crate::transmit::Method;

/// Time from the command to the first frame \[ns\].
const LEAD_NS: u64 = 20_000_000;
/// Longest measurement \[s\].
const LONGEST_S: f64 = 10.0;

/// The highest rate of the generator itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// How frames were handed to the kernel.
    pub method: Method,
    /// Rate at which frames were offered, accepted or refused [packets/s].
    pub offered_pps: f64,
    /// What happened to the frames.
    pub frames: SendOutcome,
    /// Number of times the ring had no free slot.
    pub ring_full: u64,
    /// Duration of the measurement \[s\].
    pub seconds: f64,
}

/// Sends for `seconds` as fast as the generator can, in bursts of `max_burst`. With `config.most_pps`, sends on a
/// schedule of that rate instead.
///
/// The frames carry `config.frame.run_id`. Use another id than the measurement's, so that a sink counts them as
/// foreign. The result depends on the receiver, because a refused frame takes the sender another time than an accepted
/// one.
///
/// # Errors
/// `seconds` is not in 0.01 ..= 10, or the generator fails.
pub fn ceiling(config: GeneratorConfig, seconds: f64, stop: Arc<AtomicBool>) -> Result<Ceiling, SenderFailure> {
    if !(0.01..=LONGEST_S).contains(&seconds) {
        let accepted = format!("0.01 to {LONGEST_S} s");
        return Err(WireError::setting("seconds", seconds, accepted).into());
    }
    let duration_ns = clock::ns_from_s(seconds).unwrap_or_default();
    let most_pps = config.most_pps;
    let generator = Generator::prepare(config, stop)?;
    let start_ns = clock::monotonic_ns() + LEAD_NS;
    let span = Span {
        start_ns,
        duration_ns,
        max_frames: None,
        window: Window { from_ns: start_ns, to_ns: start_ns + duration_ns },
    };
    let report = match most_pps {
        // Every frame is due at once; the generator stops at the end of the span.
        None => generator.start(std::iter::repeat(0), span)?,
        Some(most_pps) => generator.start(Schedule::new(Arrivals::Constant, most_pps, 0, 0)?, span)?,
    };
    let report = report.join()?;
    summarise(report.method, &report, start_ns).ok_or_else(|| sent_nothing(&report, seconds).into())
}

/// Explains why no frame left, as far as the generator knows.
fn sent_nothing(report: &SenderReport, seconds: f64) -> WireError {
    let why = match () {
        () if report.stopped => "it was stopped".to_owned(),
        () if report.ring_full > 0 => format!("the interface took none of them (ring full {} times)", report.ring_full),
        () => format!(
            "it got no CPU time when they were due ({:.1} ms late at its end): leave it a CPU, or choose one with --cpu",
            1e3 * report.behind_s
        ),
    };
    WireError::Changed(format!("the generator sent no frame in {seconds} s: {why}"))
}

fn summarise(method: Method, report: &SenderReport, start_ns: u64) -> Option<Ceiling> {
    let seconds = report.last_kick_ns?.checked_sub(start_ns)? as f64 * 1e-9;
    Some(Ceiling {
        method,
        offered_pps: report.frames.total() as f64 / seconds,
        frames: report.frames,
        ring_full: report.ring_full,
        seconds,
    })
}
