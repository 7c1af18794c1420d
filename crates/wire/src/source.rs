//! Where the frames of a measurement come from: a generator in this process, or one in an agent of another host
//! ([`crate::load`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::WireError;
use crate::generator::{Generator, GeneratorConfig, RunningGenerator, SenderFailure, SenderReport, Span, Window};
use crate::run::{LEAD_NS, Timing};
use crate::transmit::Method;

/// What sends the frames of one measurement after the other.
pub trait Source {
    /// Gets ready to send, once, and says which intended send times are the measured window: by the clock that stamps the frames, one for
    /// each generator, in the order of their run ids.
    ///
    /// # Errors
    /// It cannot be set up.
    fn prepare(&mut self, timing: Timing) -> Result<Vec<Window>, WireError>;

    /// Lets it send.
    ///
    /// # Errors
    /// It is gone.
    fn start(&mut self) -> Result<(), WireError>;

    /// Frames offered so far, as far as it is known here.
    fn sent(&mut self) -> u64;

    /// Whether it has ended.
    fn is_finished(&mut self) -> bool;

    /// Ends it before its time.
    fn stop(&mut self);

    /// Waits for its end.
    ///
    /// # Errors
    /// It failed on the way; what it had measured is in the error.
    fn finish(&mut self) -> Result<SenderReport, SenderFailure>;

    /// What each generator on another host did, once they have ended.
    fn parts(&self) -> Vec<Part> {
        Vec::new()
    }

    /// False where the frames are stamped by another clock than this host's `CLOCK_MONOTONIC`.
    fn shares_clock(&self) -> bool;
}

/// One generator's part of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where it is.
    pub at: String,
    /// How frames were handed over.
    pub method: Method,
    /// Rate of its schedule [packets/s].
    pub intended_pps: Option<f64>,
    /// Rate at which they were offered [packets/s].
    pub achieved_pps: Option<f64>,
    /// Its stalls.
    pub stalls: u64,
    /// The longest \[s\].
    pub longest_stall_s: f64,
}

impl Part {
    /// That of a report.
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

/// A generator in this process, for one measurement.
#[derive(Debug)]
pub struct Here<S> {
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

impl<S: Iterator<Item = u64> + Send + 'static> Here<S> {
    /// A generator that follows this schedule.
    pub fn new(config: GeneratorConfig, schedule: S) -> Self {
        Self { config, stop: Arc::default(), lead_ns: LEAD_NS, state: State::New(schedule) }
    }

    /// With this time from its readiness to the first frame \[ns\].
    #[must_use]
    pub(crate) fn after(self, lead_ns: u64) -> Self {
        Self { lead_ns, ..self }
    }
}

/// A source that is used out of turn: an error of the program.
fn out_of_turn() -> WireError {
    WireError::died("generator", &"it was used out of turn")
}

impl<S: Iterator<Item = u64> + Send + 'static> Source for Here<S> {
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
