//! One measurement: a generator against a sink, and where every packet went.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::WireError;
use crate::generator::{GeneratorConfig, SenderFailure, SenderReport, Span, Window};
use crate::latency::Latency;
use crate::sink::{Application, Sink, SinkConfig, SinkFailure, SinkReport};
use crate::source::{Here, Part, Source};

/// Time from the order to the first frame \[ns\]: waking the generator's thread takes less.
pub(crate) const LEAD_NS: u64 = 50_000_000;
/// How often the ends are checked [ms].
const WATCH_MS: u64 = 5;

/// How long a measurement takes, in the schedule's own time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Load before the window \[s\].
    pub warmup_s: f64,
    /// The window \[s\].
    pub measured_s: f64,
    /// Load behind the window, so that its last packets still meet load \[s\].
    pub cooldown_s: f64,
    /// Longest wait for packets that are still on the way \[s\].
    pub drain_s: f64,
}

impl Timing {
    /// The measured time with a warm-up of 10 % (at least 20 ms), a cool-down of 20 ms, and a drain of
    /// one second.
    pub fn measured(measured_s: f64) -> Self {
        Self { warmup_s: (0.1 * measured_s).max(0.02), measured_s, cooldown_s: 0.02, drain_s: 1.0 }
    }

    /// The span of a run that begins after a lead \[ns\].
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

/// Where the packets of the window went: offered = delivered + refused + sender + elsewhere, with
/// `socket` a part of `elsewhere` whose edges are those of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PacketAccounting {
    /// Offered by the generator.
    pub offered: u64,
    /// Read by the sink.
    pub delivered: u64,
    /// Refused by the receiver's backlog, as told to the generator.
    pub refused: u64,
    /// Lost in the sender (full send buffer, port unreachable).
    pub sender: u64,
    /// Neither read nor refused nor lost in the sender: the socket's drops, and anything unknown.
    pub elsewhere: u64,
    /// Dropped by the sink's socket, over the whole run; `None` if the kernel does not report.
    pub run_socket_drops: Option<u64>,
    /// Packets of the whole run with no known cause of loss: offered - refused - sender - delivered - socket
    /// drops. Losses inside the receiver that only its own counters tell (softnet, IP, checksum).
    pub run_unexplained: Option<i64>,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct WireRun {
    /// The generator's side.
    pub sender: SenderReport,
    /// The sink's side.
    pub sink: SinkReport,
    /// Where the window's packets went.
    #[serde(rename = "fate")]
    pub accounting: PacketAccounting,
    /// Length of the window, up to the last frame if the run was stopped in it \[s\].
    pub measured_s: f64,
    /// What each generator on another host did.
    #[serde(skip)]
    pub parts: Vec<Part>,
}

impl WireRun {
    /// Offered load in the window [packets/s], by intended send times: true to the wire only if
    /// `sender.kept_up`. `None` if the run was stopped before the window.
    pub fn offered_pps(&self) -> Option<f64> {
        (self.measured_s > 0.0).then(|| self.accounting.offered as f64 / self.measured_s)
    }

    /// Delivered load in the window: packets *offered in it* that were read [packets/s]. As
    /// [`Self::offered_pps`].
    pub fn delivered_pps(&self) -> Option<f64> {
        (self.measured_s > 0.0).then(|| self.accounting.delivered as f64 / self.measured_s)
    }

    /// Share of the window's packets that were not read; `None` if none were offered.
    pub fn loss_fraction(&self) -> Option<f64> {
        let offered = self.accounting.offered;
        (offered > 0).then(|| (offered - self.accounting.delivered.min(offered)) as f64 / offered as f64)
    }
}

/// A measurement that broke off, with what each side had measured.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WireFailure {
    /// Why.
    #[source]
    pub reason: WireError,
    /// The generator's side, if it had started.
    pub sender: Option<Box<SenderReport>>,
    /// The sink's side, if it had started.
    pub sink: Option<Box<SinkReport>>,
}

impl From<WireError> for WireFailure {
    fn from(reason: WireError) -> Self {
        Self { reason, sender: None, sink: None }
    }
}

/// Measures: starts the sink, then the generator, waits for both, and accounts for every packet.
///
/// `stop` ends it early (Ctrl-C): what was measured is still returned. `watch` is called every few
/// milliseconds with the frames offered and the packets delivered so far.
///
/// # Errors
/// Either end can not be set up, or dies on the way; what was measured until then is in the error.
pub fn run(
    generator: GeneratorConfig,
    sink: SinkConfig,
    schedule: impl Iterator<Item = u64> + Send + 'static,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    let application = sink.work.application(&sink.heartbeat)?;
    run_with(generator, sink, application, schedule, timing, stop, watch)
}

/// As [`run`], with an application of the caller's.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    generator: GeneratorConfig,
    sink: SinkConfig,
    application: Box<dyn Application>,
    schedule: impl Iterator<Item = u64> + Send + 'static,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    run_from(&mut Here::new(generator, schedule), sink, application, timing, stop, watch)
}

/// As [`run_with`], with frames from any source.
///
/// # Errors
/// As [`run`].
pub fn run_from(
    source: &mut dyn Source,
    sink: SinkConfig,
    application: Box<dyn Application>,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    run_to(source, vec![(sink, application)], timing, stop, watch)
}

/// A sink's configuration and what its application does.
pub type SinkWith = (SinkConfig, Box<dyn Application>);

/// As [`run_from`], with several sinks, each of which reads flows of its own; their reports are added up.
///
/// # Errors
/// As [`run`].
pub fn run_to(
    source: &mut dyn Source,
    sinks: Vec<SinkWith>,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    timing.span_after(LEAD_NS)?;
    // Sinks have flags of their own: they must outlive a stopped generator to drain.
    let spawn = |(sink, application): SinkWith| Sink::spawn_with(sink, application, Arc::default());
    let sinks = sinks.into_iter().map(spawn).collect::<Result<Vec<Sink>, _>>()?;
    let outcome = start(source, &sinks, timing).map(|window| {
        wait(source, &sinks, stop, watch);
        (source.finish(), window)
    });
    let drain_s = if outcome.is_ok() { timing.drain_s } else { 0.0 };
    let received = finish(sinks, drain_s).map(|report| by_clock_of(source, report));
    let (sent, window) = match outcome {
        Ok(outcome) => outcome,
        Err(reason) => return Err(failure(Err(reason.into()), received)),
    };
    match (sent, received) {
        (Ok(sender), Ok(sink)) => {
            let measured_s = measured_s(&sender, window);
            Ok(WireRun { accounting: account(&sender, &sink), sender, sink, measured_s, parts: source.parts() })
        }
        (sent, received) => Err(failure(sent, received)),
    }
}

/// Lets all sinks drain, the first one's time being everyone's, and adds up what they measured.
fn finish(sinks: Vec<Sink>, drain_s: f64) -> Result<SinkReport, SinkFailure> {
    let began = Instant::now();
    let left_s = || (drain_s - began.elapsed().as_secs_f64()).max(0.0);
    let mut whole: Option<SinkReport> = None;
    let mut failed = None;
    for outcome in sinks.into_iter().map(|sink| sink.finish(left_s())) {
        let report = match outcome {
            Ok(report) => report,
            Err(SinkFailure { reason, measured }) => {
                failed.get_or_insert(reason);
                let Some(report) = measured else { continue };
                *report
            }
        };
        match &mut whole {
            Some(whole) => whole.add(&report),
            None => whole = Some(report),
        }
    }
    match (failed, whole) {
        (None, Some(report)) => Ok(report),
        (reason, whole) => Err(SinkFailure {
            reason: reason.unwrap_or_else(|| WireError::died("sink", &"there was none")),
            measured: whole.map(Box::new),
        }),
    }
}

/// Times from one host's clock to another's are none.
fn by_clock_of(source: &dyn Source, report: SinkReport) -> SinkReport {
    if source.shares_clock() {
        return report;
    }
    SinkReport { end_to_end: Latency::new(), send_to_kernel: Latency::new(), ..report }
}

fn start(source: &mut dyn Source, sinks: &[Sink], timing: Timing) -> Result<Window, WireError> {
    let windows = source.prepare(timing)?;
    let first = windows.first().copied().ok_or_else(|| WireError::died("generator", &"there was none"))?;
    sinks.iter().for_each(|sink| sink.measure_each(windows.clone()));
    source.start()?;
    Ok(first)
}

/// Watches both ends until the generator ends; a dead sink or the caller's flag stops it.
fn wait(source: &mut dyn Source, sinks: &[Sink], stop: &AtomicBool, mut watch: impl FnMut(u64, u64)) {
    while !source.is_finished() {
        if stop.load(Ordering::Relaxed) || sinks.iter().any(Sink::is_finished) {
            source.stop();
        }
        let delivered = sinks.iter().map(|sink| sink.progress().delivered.load(Ordering::Relaxed)).sum();
        watch(source.sent(), delivered);
        std::thread::sleep(Duration::from_millis(WATCH_MS));
    }
}

fn measured_s(sender: &SenderReport, window: Window) -> f64 {
    let to_ns = match sender.last_kick_ns {
        Some(last_ns) if sender.stopped => window.to_ns.min(last_ns),
        _ => window.to_ns,
    };
    Window { to_ns, ..window }.length_s()
}

fn account(sender: &SenderReport, sink: &SinkReport) -> PacketAccounting {
    let lost_here = |frames: &crate::transmit::SendOutcome| frames.sender_full + frames.unreachable;
    let window = &sender.window_frames;
    let known = sink.window_delivered + window.refused + lost_here(window);
    let accepted = sender.frames.accepted as i64;
    PacketAccounting {
        offered: sender.window_offered,
        delivered: sink.window_delivered,
        refused: window.refused,
        sender: lost_here(window),
        elsewhere: sender.window_offered.saturating_sub(known),
        run_socket_drops: sink.socket_drops,
        run_unexplained: sink.socket_drops.map(|drops| accepted - sink.delivered as i64 - drops as i64),
    }
}

/// Joins two outcomes of which at least one failed. The sink's reason comes first: its death is what
/// stops the generator.
fn failure(sent: Result<SenderReport, SenderFailure>, received: Result<SinkReport, SinkFailure>) -> WireFailure {
    let (sender, sender_reason) = match sent {
        Ok(report) => (Some(Box::new(report)), None),
        Err(failure) => (failure.measured, Some(failure.reason)),
    };
    let (sink, sink_reason) = match received {
        Ok(report) => (Some(Box::new(report)), None),
        Err(failure) => (failure.measured, Some(failure.reason)),
    };
    WireFailure {
        reason: sink_reason.or(sender_reason).unwrap_or_else(|| WireError::died("sink", &"no reason was given")),
        sender,
        sink,
    }
}
