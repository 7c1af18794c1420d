//! One measurement: a generator sends to a sink, and every packet is accounted for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::WireError;
use crate::generator::{GeneratorConfig, SenderFailure, SenderReport, Window};
use crate::latency::Latency;
use crate::sink::{Application, QUIET_HERE_NS, QUIET_NS, Sink, SinkConfig, SinkFailure, SinkReport};
use crate::source::{LEAD_NS, LocalSource, Part, Source, Timing};

/// Interval between checks of both ends [ms].
const WATCH_MS: u64 = 5;

/// Where the packets of the window went: offered = delivered + refused + sender + elsewhere. Packets that the sink's
/// socket dropped are a part of `elsewhere`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PacketAccounting {
    /// Packets offered by the generator.
    pub offered: u64,
    /// Packets read by the sink.
    pub delivered: u64,
    /// Packets refused by the receiver's backlog, as the kernel reported to the generator.
    pub refused: u64,
    /// Packets lost in the sender (full send buffer, port unreachable).
    pub sender: u64,
    /// Packets neither read nor refused nor lost in the sender: the socket's drops, and losses of unknown cause.
    pub elsewhere: u64,
    /// Packets dropped by the sink's socket over the whole run. `None` if the kernel does not report them.
    pub run_socket_drops: Option<u64>,
    /// Packets of the whole run with no known cause of loss: offered - refused - sender - delivered - socket drops.
    /// These are losses inside the receiver that only its own counters show (softnet, IP, checksum).
    pub run_unexplained: Option<i64>,
}

/// The result of one measurement.
#[derive(Debug, Clone, Serialize)]
pub struct WireRun {
    /// Report of the generator.
    pub sender: SenderReport,
    /// Report of the sink.
    pub sink: SinkReport,
    /// Where the window's packets went.
    #[serde(rename = "fate")]
    pub accounting: PacketAccounting,
    /// Length of the window \[s\]; if the run was stopped within it, up to the last frame.
    pub measured_s: f64,
    /// What each generator on another host did.
    #[serde(skip)]
    pub parts: Vec<Part>,
}

impl WireRun {
    /// Offered load in the window [packets/s], by intended send times. It equals the load on the wire only if
    /// `sender.kept_up`. `None` if the run was stopped before the window.
    pub fn offered_pps(&self) -> Option<f64> {
        (self.measured_s > 0.0).then(|| self.accounting.offered as f64 / self.measured_s)
    }

    /// Delivered load in the window [packets/s]: packets *offered in the window* that were read. `None` as for
    /// [`Self::offered_pps`].
    pub fn delivered_pps(&self) -> Option<f64> {
        (self.measured_s > 0.0).then(|| self.accounting.delivered as f64 / self.measured_s)
    }

    /// Share of the window's packets that were not read. `None` if none were offered.
    pub fn loss_fraction(&self) -> Option<f64> {
        let offered = self.accounting.offered;
        (offered > 0).then(|| (offered - self.accounting.delivered.min(offered)) as f64 / offered as f64)
    }
}

/// A measurement that failed, with the results of each end so far.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WireFailure {
    /// Why the measurement failed.
    #[source]
    pub reason: WireError,
    /// Report of the generator. `None` if it had not started.
    pub sender: Option<Box<SenderReport>>,
    /// Report of the sink. `None` if it had not started.
    pub sink: Option<Box<SinkReport>>,
}

impl From<WireError> for WireFailure {
    fn from(reason: WireError) -> Self {
        Self { reason, sender: None, sink: None }
    }
}

/// Measures: starts the sink, then the generator, waits for both, and accounts for every packet.
///
/// `stop` ends the measurement early (Ctrl-C); the results so far are still returned. `watch` is called every few
/// milliseconds with the numbers of frames offered and packets delivered so far.
///
/// # Errors
/// An end cannot be set up, or fails during the run; the error contains what was measured before.
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

/// Like [`run`], with the caller's application.
///
/// # Errors
/// See [`run`].
pub fn run_with(
    generator: GeneratorConfig,
    sink: SinkConfig,
    application: Box<dyn Application>,
    schedule: impl Iterator<Item = u64> + Send + 'static,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    run_from(&mut LocalSource::new(generator, schedule), sink, application, timing, stop, watch)
}

/// Like [`run_with`], with frames from any source.
///
/// # Errors
/// See [`run`].
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

/// The configuration of a sink, and its application.
pub type SinkWith = (SinkConfig, Box<dyn Application>);

/// Like [`run_from`], with several sinks that read different flows. Their reports are added up.
///
/// # Errors
/// See [`run`].
pub fn run_to(
    source: &mut dyn Source,
    sinks: Vec<SinkWith>,
    timing: Timing,
    stop: &Arc<AtomicBool>,
    watch: impl FnMut(u64, u64),
) -> Result<WireRun, WireFailure> {
    timing.span_after(LEAD_NS)?;
    // Each sink has its own stop flag, because it must still drain after the generator was stopped.
    let spawn = |(sink, application): SinkWith| Sink::spawn_with(sink, application, Arc::default());
    let sinks = sinks.into_iter().map(spawn).collect::<Result<Vec<Sink>, _>>()?;
    let outcome = start(source, &sinks, timing).map(|window| {
        wait(source, &sinks, stop, watch);
        (source.finish(), window)
    });
    let drain_s = if outcome.is_ok() { timing.drain_s } else { 0.0 };
    let quiet_ns = if source.shares_clock() { QUIET_HERE_NS } else { QUIET_NS };
    let received = finish(sinks, drain_s, quiet_ns).map(|report| by_clock_of(source, report));
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

/// Waits until no sink has received a packet for `quiet_ns`, at most for `drain_s` in total, and then adds up the
/// sinks' reports.
fn finish(sinks: Vec<Sink>, drain_s: f64, quiet_ns: u64) -> Result<SinkReport, SinkFailure> {
    let began = Instant::now();
    let left_s = || (drain_s - began.elapsed().as_secs_f64()).max(0.0);
    let mut whole: Option<SinkReport> = None;
    let mut failed = None;
    for outcome in sinks.into_iter().map(|sink| sink.finish_after(left_s(), quiet_ns)) {
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

/// Removes latencies that compare the clocks of two hosts, unless both ends share a clock.
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

/// Waits until the generator ends. A sink that failed or the caller's stop flag stops the generator.
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
    let lost_here = |frames: &crate::port::SendOutcome| frames.sender_full + frames.unreachable;
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

/// Combines two results of which at least one failed. The sink's error takes precedence, because a failed sink stops
/// the generator.
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
