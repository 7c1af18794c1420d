//! Sources of the frames of a measurement: a generator in this process, or one in an agent on another host
//! (`remote::load`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::WireError;
use crate::generator::{Generator, GeneratorConfig, RunningGenerator, SenderFailure, SenderReport, Span, Window};
use crate::transmit::Method;

/// Time from the command to send to the first frame \[ns\]. Waking the generator's thread takes less.
pub(crate) const LEAD_NS: u64 = 50_000_000;

/// Durations of the phases of a measurement, on the schedule's time axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Duration of the load before the window \[s\].
    pub warmup_s: f64,
    /// Length of the window \[s\].
    pub measured_s: f64,
    /// Duration of the load after the window, so that its last packets still meet load \[s\].
    pub cooldown_s: f64,
    /// Longest wait for packets that are still on the path \[s\].
    pub drain_s: f64,
}

impl Timing {
    /// A window of `measured_s`, with a warm-up of 10 % (at least 20 ms), a cool-down of 20 ms, and a drain of one
    /// second.
    pub fn measured(measured_s: f64) -> Self {
        Self { warmup_s: (0.1 * measured_s).max(0.02), measured_s, cooldown_s: 0.02, drain_s: 1.0 }
    }

    /// The span of a run that starts `lead_ns` from now.
    pub(crate) fn span_after(&self, lead_ns: u64) -> Result<Span, WireError> {
        let ns = |what, seconds: f64| {
            clock::ns_from_s(seconds)
                .filter(|ns| *ns <= 3_600_000_000_000)
                .ok_or_else(|| WireError::setting(what, seconds, "0 to 3600 s"))
        };
        let (warmup, measured) = (ns("warmup_s", self.warmup_s)?, ns("measured_s", self.measured_s)?);
        let cooldown = ns("cooldown_s", self.cooldown_s)?;
        ns("drain_s", self.drain_s)?;
        if measured == 0 {
            return Err(WireError::setting("measured_s", self.measured_s, "more than 0 s"));
        }
        let start_ns = clock::monotonic_ns() + lead_ns;
        let from_ns = start_ns + warmup;
        Ok(Span {
            start_ns,
            duration_ns: warmup + measured + cooldown,
            max_frames: None,
            window: Window { from_ns, to_ns: from_ns + measured },
        })
    }
}

/// Sends the frames of one measurement.
pub trait Source {
    /// Prepares for sending; call it once. Returns the measured windows of intended send times: one for each generator,
    /// in the order of their run ids, by the clock that stamps its frames.
    ///
    /// # Errors
    /// The generator cannot be set up.
    fn prepare(&mut self, timing: Timing) -> Result<Vec<Window>, WireError>;

    /// Starts sending.
    ///
    /// # Errors
    /// The generator is gone.
    fn start(&mut self) -> Result<(), WireError>;

    /// Number of frames offered so far, as far as it is known at this end.
    fn sent(&mut self) -> u64;

    /// Whether the generator has ended.
    fn is_finished(&mut self) -> bool;

    /// Ends the generator before the end of its schedule.
    fn stop(&mut self);

    /// Waits until the generator has ended, and returns its report.
    ///
    /// # Errors
    /// The generator failed; the error contains what it had measured.
    fn finish(&mut self) -> Result<SenderReport, SenderFailure>;

    /// What each generator on another host did; complete once all have ended. Empty for a generator in this process.
    fn parts(&self) -> Vec<Part> {
        Vec::new()
    }

    /// Whether the frames are stamped by this host's `CLOCK_MONOTONIC`.
    fn shares_clock(&self) -> bool;
}

/// One generator's part of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name of the generator's host.
    pub at: String,
    /// How frames were handed to the kernel.
    pub method: Method,
    /// Rate of the schedule [packets/s].
    pub intended_pps: Option<f64>,
    /// Rate at which frames were offered [packets/s].
    pub achieved_pps: Option<f64>,
    /// Number of the generator's stalls.
    pub stalls: u64,
    /// Length of the longest stall \[s\].
    pub longest_stall_s: f64,
}

impl Part {
    /// Summarises the report of a generator at the host `at`.
    pub fn of(at: String, report: &SenderReport) -> Self {
        let lengths = report.stalls.iter().map(|stall| stall.to_ns.saturating_sub(stall.from_ns));
        Self {
            at,
            method: report.method,
            intended_pps: report.intended_pps,
            achieved_pps: report.achieved_pps,
            stalls: report.stalls.len() as u64,
            longest_stall_s: lengths.max().unwrap_or(0) as f64 * 1e-9,
        }
    }
}

/// A generator in this process, used for one measurement.
#[derive(Debug)]
pub struct LocalSource<S> {
    config: GeneratorConfig,
    stop: Arc<AtomicBool>,
    lead_ns: u64,
    state: State<S>,
}

#[derive(Debug)]
enum State<S> {
    New(S),
    Ready(Generator, S, Span),
    Running(RunningGenerator),
    Over,
}

impl<S: Iterator<Item = u64> + Send + 'static> LocalSource<S> {
    /// Prepares a generator that follows `schedule`.
    pub fn new(config: GeneratorConfig, schedule: S) -> Self {
        Self { config, stop: Arc::default(), lead_ns: LEAD_NS, state: State::New(schedule) }
    }

    /// Sets the time between the generator's readiness and the first frame \[ns\].
    #[must_use]
    pub fn after(self, lead_ns: u64) -> Self {
        Self { lead_ns, ..self }
    }
}

/// The error of a source whose methods are called in the wrong order: a defect of the program.
fn out_of_turn() -> WireError {
    WireError::died("generator", &"it was used out of turn")
}

impl<S: Iterator<Item = u64> + Send + 'static> Source for LocalSource<S> {
    fn prepare(&mut self, timing: Timing) -> Result<Vec<Window>, WireError> {
        let State::New(schedule) = std::mem::replace(&mut self.state, State::Over) else { return Err(out_of_turn()) };
        let generator = Generator::prepare(self.config.clone(), Arc::clone(&self.stop))?;
        let span = timing.span_after(self.lead_ns)?;
        self.state = State::Ready(generator, schedule, span);
        Ok(vec![span.window])
    }

    fn start(&mut self) -> Result<(), WireError> {
        let State::Ready(generator, schedule, span) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(out_of_turn());
        };
        self.state = State::Running(generator.start(schedule, span)?);
        Ok(())
    }

    fn sent(&mut self) -> u64 {
        let State::Running(running) = &self.state else { return 0 };
        running.progress().sent.load(Ordering::Relaxed)
    }

    fn is_finished(&mut self) -> bool {
        let State::Running(running) = &self.state else { return true };
        running.is_finished()
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn finish(&mut self) -> Result<SenderReport, SenderFailure> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Running(running) => running.join(),
            _ => Err(out_of_turn().into()),
        }
    }

    fn shares_clock(&self) -> bool {
        true
    }
}
