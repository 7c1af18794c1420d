//! The sender: a pinned thread that sends each frame at its scheduled time, whatever the receiver does.
//!
//! It spins on `CLOCK_MONOTONIC`. Frames that are due together (because the generator was late, or because the schedule
//! says so) leave in one kick (one handover to the kernel) of at most `max_burst` frames. The report has burst sizes
//! and lateness, and [`SenderReport::kept_up`] says whether the offered load was really offered.
//!
//! A frame that the next hop's queue refuses is a loss of the *receiver*; it counts as offered and is never sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use netcliff_host::cpu::heartbeat::Heartbeat;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::WireError;
use crate::frame::FrameSpec;
use crate::thread::Placement;
use crate::transmit::{self, Method, Transmit};

mod ceiling;
mod limits;
mod pace;
mod report;
mod round_trips;
#[cfg(test)]
mod tests;

pub use ceiling::{Ceiling, ceiling};
pub use limits::{BUCKET_NS, Lease, RateLimits, RateShare};
pub use report::{Gap, SenderFailure, SenderReport, SentSlot};
use round_trips::Answers;

/// Default number of frames per kick when catching up. A kick of 32 frames takes about 30 us, so the clock is read at
/// least this often; 32 frames are a small part of a backlog of 1000.
pub const DEFAULT_MAX_BURST: usize = 32;
/// A sender whose 99th percentile of lateness exceeds this bound did not keep up. At 1 Mpps, 100 packets are due in 100
/// us: a tenth of the default backlog of 1000, so that catching up cannot overflow it.
pub const DEFAULT_LATENESS_BOUND_S: f64 = 100e-6;
/// Smallest ratio of achieved to intended rate with which a sender kept up.
pub const KEPT_UP_SHARE: f64 = 0.995;

/// Length of a slot, in which packets are counted \[ns\]. At 300 kpps a slot holds 3000 packets, so that a loss of 1e-3
/// shows in one slot. A pause of a millisecond affects a few slots of a trial, not all.
pub const SLOT_NS: u64 = 10_000_000;
/// A sender that does not read its clock for this long was interrupted \[ns\]. A kick of 32 frames takes a third of
/// this time.
pub const STALL_NS: u64 = netcliff_core::verdict::LATE_NS;
/// Largest number of slots counted in a run: one hour.
const MOST_SLOTS: u64 = 360_000;
/// Largest number of stalls stored for a run; later ones are only counted.
const MOST_STALLS: usize = 10_000;

/// The configuration of a generator.
#[derive(Debug, Clone)]
pub struct GeneratorConfig {
    /// Placement of the thread. It spins, so give it a CPU that nothing else uses.
    pub placement: Placement,
    /// How frames are handed to the kernel.
    pub method: Method,
    /// Interface to send into (not used by [`Method::Socket`]).
    pub interface: String,
    /// The frames.
    pub frame: FrameSpec,
    /// Most frames per kick.
    pub max_burst: usize,
    /// Bound on the 99th percentile of lateness for [`SenderReport::kept_up`] \[s\].
    pub lateness_bound_s: f64,
    /// Heartbeat of the running thread, which reveals pauses of its CPU.
    pub heartbeat: Heartbeat,
    /// Highest rate [packets/s], even when the generator catches up. `None`: no limit. In any time T at most the number
    /// of frames that are due at this rate in T + [`BUCKET_NS`] are sent.
    pub most_pps: Option<f64>,
    /// The generator's share of a rate limit that several generators have in common. `None`: no common limit.
    pub share: Option<Arc<RateShare>>,
    /// Ends the generator when the lease expires; the end that requested it extends the lease.
    pub lease: Lease,
    /// Whether to receive the sink's answers; not possible with [`Method::Socket`].
    pub round_trips: bool,
}

impl GeneratorConfig {
    /// The default configuration for these frames into this interface.
    pub fn new(interface: impl Into<String>, frame: FrameSpec) -> Self {
        Self {
            placement: Placement::default(),
            method: Method::default(),
            interface: interface.into(),
            frame,
            max_burst: DEFAULT_MAX_BURST,
            lateness_bound_s: DEFAULT_LATENESS_BOUND_S,
            heartbeat: Heartbeat::default(),
            most_pps: None,
            share: None,
            lease: Lease::default(),
            round_trips: false,
        }
    }
}

/// When a run starts, which part of it counts, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Time of offset 0 of the schedule [ns of `CLOCK_MONOTONIC`].
    pub start_ns: u64,
    /// Length of the run \[ns\]; frames due later are not sent.
    pub duration_ns: u64,
    /// Largest number of frames to send. `None`: all that are due.
    pub max_frames: Option<u64>,
    /// Frames whose *intended* send time lies in this window are counted as offered.
    pub window: Window,
}

/// A half-open span of intended send times [ns of `CLOCK_MONOTONIC`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First instant in the window.
    pub from_ns: u64,
    /// First instant after the window.
    pub to_ns: u64,
}

impl Window {
    /// Whether a frame with this intended send time belongs to the window.
    #[inline]
    pub fn contains(&self, intended_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&intended_ns)
    }

    /// Index of the slot of [`SLOT_NS`] that contains `intended_ns`, from 0. `None` outside the window.
    #[inline]
    pub fn slot(&self, intended_ns: u64) -> Option<usize> {
        self.contains(intended_ns).then(|| ((intended_ns - self.from_ns) / SLOT_NS) as usize)
    }

    /// Number of slots of [`SLOT_NS`] in the window, for the first hour; the last one may be shorter.
    pub fn slots(&self) -> usize {
        self.to_ns.saturating_sub(self.from_ns).div_ceil(SLOT_NS).min(MOST_SLOTS) as usize
    }

    /// Length of the window \[s\].
    pub fn length_s(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 * 1e-9
    }
}

/// Counters of a running generator, for a progress bar.
#[derive(Debug, Default)]
pub struct SenderProgress {
    /// Frames offered so far.
    pub sent: AtomicU64,
}

type Outcome = Result<SenderReport, SenderFailure>;
/// The command to a prepared thread: the schedule to follow, and the span of the run.
type ScheduleCommand = (Box<dyn Iterator<Item = u64> + Send>, Span);

/// A generator thread that is placed, has opened its socket, and waits for a schedule.
#[derive(Debug)]
pub struct Generator {
    thread: JoinHandle<Outcome>,
    orders: Sender<ScheduleCommand>,
    progress: Arc<SenderProgress>,
}

/// A generator that is sending.
#[derive(Debug)]
pub struct RunningGenerator {
    thread: JoinHandle<Outcome>,
    progress: Arc<SenderProgress>,
}

impl Generator {
    /// Starts the thread, applies the placement and opens the socket. `stop` ends a run early.
    ///
    /// # Errors
    /// See [`Placement::enter`] and [`transmit::open`].
    pub fn prepare(config: GeneratorConfig, stop: Arc<AtomicBool>) -> Result<Self, WireError> {
        if config.lateness_bound_s.is_nan() || config.lateness_bound_s <= 0.0 {
            return Err(WireError::setting(
                "lateness_bound_s",
                config.lateness_bound_s,
                "a positive number of seconds",
            ));
        }
        let (orders, inbox) = channel();
        let (ready, is_ready) = channel();
        let progress = Arc::new(SenderProgress::default());
        let theirs = Arc::clone(&progress);
        let thread = std::thread::Builder::new()
            .name("netcliff-send".into())
            .spawn(move || serve(&config, &stop, &theirs, &ready, &inbox))
            .map_err(|e| WireError::system("start the generator thread", e))?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Self { thread, orders, progress }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(join_error(thread)),
        }
    }

    /// Starts sending. `schedule` returns offsets from `span.start_ns` \[ns\], never decreasing.
    ///
    /// # Errors
    /// The thread has died.
    pub fn start(
        self,
        schedule: impl Iterator<Item = u64> + Send + 'static,
        span: Span,
    ) -> Result<RunningGenerator, WireError> {
        if self.orders.send((Box::new(schedule), span)).is_err() {
            return Err(join_error(self.thread));
        }
        Ok(RunningGenerator { thread: self.thread, progress: self.progress })
    }
}

impl RunningGenerator {
    /// Counters that the running generator updates.
    pub fn progress(&self) -> &SenderProgress {
        &self.progress
    }

    /// Whether the generator has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the run.
    ///
    /// # Errors
    /// The start time was missed, the interface went away, or the thread died.
    pub fn join(self) -> Outcome {
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => Err(WireError::died("generator", panic.as_ref()).into()),
        }
    }
}

fn join_error(thread: JoinHandle<Outcome>) -> WireError {
    match thread.join() {
        Err(panic) => WireError::died("generator", panic.as_ref()),
        Ok(Err(failure)) => failure.reason,
        Ok(Ok(_)) => WireError::died("generator", &"it ended before it was to send"),
    }
}

/// The body of the generator thread.
fn serve(
    config: &GeneratorConfig,
    stop: &AtomicBool,
    progress: &SenderProgress,
    ready: &Sender<Result<(), WireError>>,
    inbox: &Receiver<ScheduleCommand>,
) -> Outcome {
    let (mut transmitter, answers) = match open(config) {
        Ok(opened) => opened,
        Err(error) => {
            // `prepare` gets the error from the channel, and drops this thread and its result.
            let _ = ready.send(Err(error));
            return Err(WireError::died("generator", &"it could not be set up").into());
        }
    };
    let _ = ready.send(Ok(()));
    let Ok((schedule, span)) = inbox.recv() else {
        return Err(WireError::died("generator", &"it was dropped before it was started").into());
    };
    let now = clock::monotonic_ns();
    if now > span.start_ns {
        let late_s = (now - span.start_ns) as f64 * 1e-9;
        return Err(WireError::StartMissed { late_s }.into());
    }
    let method = transmitter.method(config.method);
    let outcome = pace::follow(transmitter.as_mut(), schedule, span, config, stop, clock::monotonic_ns, |sent| {
        progress.sent.store(sent, Ordering::Relaxed);
    });
    match outcome {
        Ok(report) => match answers.map(|answers| answers.read(span.window)).transpose() {
            Ok(round_trips) => Ok(SenderReport { method, round_trips: round_trips.flatten(), ..report }),
            Err(reason) => Err(SenderFailure { reason, measured: Some(Box::new(report)) }),
        },
        Err(SenderFailure { reason, measured }) => {
            let measured = measured.map(|report| Box::new(SenderReport { method, ..*report }));
            Err(SenderFailure { reason, measured })
        }
    }
}

fn open(config: &GeneratorConfig) -> Result<(Box<dyn Transmit>, Option<Answers>), WireError> {
    config.placement.enter()?;
    let transmitter = transmit::open(config.method, &config.interface, &config.frame, config.max_burst)?;
    let answers = config.round_trips.then(|| Answers::open(&config.frame, config.method)).transpose()?;
    Ok((transmitter, answers))
}
