//! One trial: real packets at one load for a set time, turned into an [`Outcome`](netcliff_core::Outcome) and into the
//! counts that calibration regresses on.

mod outcome;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;

use netcliff_core::finding::Settings;
use netcliff_host::cpu::heartbeat::{Heartbeat, Pause, Turns, Visit};
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{self, CpuMeter, CpuSplit, MeterError, MeterSpec, Preference, Watch};
use netcliff_host::nic::landing::vectors;
use netcliff_host::nic::losses::Losses;
use netcliff_host::nic::neighbour::Received;
use netcliff_host::testbed::netns::Side;
use netcliff_packets::WireError;
use netcliff_packets::clock::ClockStamp;
use netcliff_packets::frame::{Checksum, FrameSpec};
use netcliff_packets::generator::GeneratorConfig;
use netcliff_packets::replay::Replay;
use netcliff_packets::run::{SinkWith, WireFailure, WireRun, run_to};
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::sink::{SinkConfig, Work};
use netcliff_packets::source::{LocalSource, Source, Timing};
use netcliff_packets::thread::Placement;
use netcliff_packets::transmit::Method;
use netcliff_remote::load::{Load, LoadRequest};

use crate::rig::{Between, Rig};

pub use outcome::poll_time;
use watching::{Gate, Metered, Pinned};

/// A trial: its shape and its load.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSpec {
    /// Everything but the load.
    pub shape: TrialShape,
    /// Offered load (pps).
    pub rate_pps: f64,
}

/// Frames to send and ways to receive them, at any load.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialShape {
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// CPU time that the application spends per packet in addition to reading it (s).
    pub work_s: f64,
    /// Requested receive buffer (bytes).
    pub receive_buffer_bytes: u64,
    /// Length of the measured window (s).
    pub seconds: f64,
    /// Seed of the schedule.
    pub seed: u64,
    /// Capture whose times, sizes and flows are sent, scaled to the load, instead of `arrivals` and `frame_bytes`;
    /// generators on other hosts ignore it.
    pub replay: Option<Arc<Replay>>,
}

impl TrialSpec {
    /// The load in the form that senders receive.
    pub(crate) fn paced(&self, timing: Timing) -> Load {
        let TrialShape { arrivals, seed, .. } = self.shape;
        Load::Paced { arrivals, rate_pps: self.rate_pps, seed, timing }
    }
}

impl TrialShape {
    /// A trial of this length (s) with these settings, without a capture.
    pub fn of(settings: &Settings, seconds: f64) -> Self {
        Self {
            arrivals: settings.arrivals,
            frame_bytes: settings.frame_bytes,
            work_s: settings.work_s,
            receive_buffer_bytes: settings.receive_buffer_bytes,
            seconds,
            seed: settings.seed,
            replay: None,
        }
    }

    /// The trial at a load (pps).
    pub fn at(self, rate_pps: f64) -> TrialSpec {
        TrialSpec { shape: self, rate_pps }
    }

    /// The capture to send. `None` if there is none, or if `frame_bytes` differs from the capture's mean frame size:
    /// the cost per byte is measured with frames of constant size.
    fn replayed(&self) -> Option<&Arc<Replay>> {
        self.replay.as_ref().filter(|replay| replay.mean_bytes() == self.frame_bytes as usize)
    }
}

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Stopped by the user.
    #[error("stopped")]
    Stopped,
    /// Sender or sink failed; the error contains the counts up to the failure.
    #[error("at {rate_pps:.0} pps: {source}")]
    Wire {
        /// The load of the trial.
        rate_pps: f64,
        /// The failure.
        source: Box<WireFailure>,
    },
    /// Something that the trial depends on changed during it, so that it measured something else.
    #[error("at {rate_pps:.0} pps: {what}")]
    Changed {
        /// The load of the trial.
        rate_pps: f64,
        /// Sentence on the change.
        what: String,
    },
    /// The testbed failed.
    #[error(transparent)]
    Testbed(#[from] netcliff_host::testbed::TestbedError),
    /// CPU time could not be accounted.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

/// Results of one trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The configuration.
    pub spec: TrialSpec,
    /// Both ends' reports and the accounting of every packet.
    pub wire: WireRun,
    /// CPU shares of the host under test; `None` without a meter.
    pub cpu: Option<CpuSplit>,
    /// Packets read by the application while the meter ran.
    pub metered_delivered: u64,
    /// Share of the host's CPU that the hypervisor took during the trial.
    pub steal_share: f64,
    /// Intervals of the window in which the hypervisor or another cause outside the host took its CPU away; `None` if
    /// not measured.
    pub host_pauses: Option<Vec<Pause>>,
    /// Intervals of the window in which the hypervisor or another cause outside the sender took its CPU away; `None` if
    /// not measured.
    pub sender_pauses: Option<Vec<Pause>>,
    /// Intervals of the window in which other tasks had the host's CPU; `None` if not measured.
    pub visits: Option<Vec<Visit>>,
    /// Numbers of packets that the interface received, and that it dropped for lack of space; `None` in a testbed,
    /// where the sender's calls report drops.
    pub received: Option<Received>,
    /// Losses counted by the device's driver; empty in a testbed.
    pub losses: Losses,
    /// Number of interrupts of the device, by interrupt line.
    pub vectors: BTreeMap<u32, u64>,
    /// Other external influences.
    pub outside: Outside,
}

/// External influences on a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outside {
    /// Shortest detectable pause of a CPU (s); `None` if pauses are not measured.
    pub shortest_pause_s: Option<f64>,
    /// Share of the sender's CPU that the hypervisor took.
    pub sender_steal_share: f64,
    /// Speed of the host's CPU: iterations of fixed work per second of undisturbed time; `None` if the CPU was not kept
    /// awake, or had no time for enough iterations.
    pub turns_per_s: Option<f64>,
    /// Time in which the machine was suspended (s).
    pub suspended_s: f64,
    /// Nanoseconds of the kernel's clock per tick of the CPU's counter; `None` if the counter is not used.
    pub ns_per_tick: Option<f64>,
}

/// Heartbeats of the threads of a trial, by which pauses of the CPUs are detected.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats {
    /// Heartbeat of the CPU under test, from the sink and from the loop that keeps the CPU awake.
    pub host: Heartbeat,
    /// Heartbeat of the sender's CPU.
    pub sender: Heartbeat,
}

impl Heartbeats {
    /// Creates the heartbeats that `meter` watches. If it does not measure pauses, only the loop that keeps the CPU
    /// awake uses one.
    pub fn new(rig: &Rig, meter: Option<&Meter>) -> Self {
        let of = |cpu: u32| meter.and_then(|meter| meter.heartbeat(cpu as usize));
        let (host, sender) =
            (of(rig.host_cpu).unwrap_or_else(Heartbeat::plain), of(rig.sender_cpu).unwrap_or_default());
        // The sender spins, so that its CPU never idles.
        sender.set_kept_awake(true);
        Self { host, sender }
    }
}

/// A meter is shared by successive trials: attaching it takes longer than a short trial.
pub type Meter = Box<dyn CpuMeter>;

/// Starts the preferred meter for the CPU of the host under test; the application is this process's thread there.
///
/// # Errors
/// No method works.
pub fn meter(rig: &Rig, preference: Preference) -> Result<cpu::Choice, MeterError> {
    let spec = MeterSpec { cpus: vec![rig.host_cpu as usize], watch: vec![Watch::Process(std::process::id())] };
    cpu::choose(preference, &spec)
}

/// Smallest number of loop iterations from which the CPU's speed is estimated: about a millisecond of iterations.
const LEAST_TURNS: u64 = 3000;

/// Maximum number of attempts to start a trial. An attempt fails if the sender gets no CPU by its start time.
const STARTS: u32 = 4;
/// Time from the order to send to the first frame, in the first attempt \[ns\]. Later attempts use the sender's
/// default, which is longer.
const FIRST_LEAD_NS: u64 = 15_000_000;

/// Offers the load and measures. `watch` receives the numbers of packets offered and delivered so far.
///
/// # Errors
/// See [`TrialError`]. A trial stopped by the rig's flag is an error, too, because its window is incomplete.
pub fn trial(
    rig: &Rig,
    spec: &TrialSpec,
    mut meter: Option<&mut Meter>,
    heartbeats: &Heartbeats,
    mut watch: impl FnMut(u64, u64),
) -> Result<Trial, TrialError> {
    let mut lead_ns = Some(FIRST_LEAD_NS);
    until_started(|| once(rig, spec, meter.as_deref_mut(), heartbeats, lead_ns.take(), &mut watch))
}

/// Runs `attempt` and returns its result. If the sender could not start in time, nothing was measured, and `attempt`
/// runs again, up to [`STARTS`] times in all.
///
/// # Errors
/// The error of the last attempt.
pub(crate) fn until_started<T>(mut attempt: impl FnMut() -> Result<T, TrialError>) -> Result<T, TrialError> {
    let missed = |outcome: &Result<T, TrialError>| {
        let Err(TrialError::Wire { source, .. }) = outcome else { return false };
        matches!(source.reason, WireError::StartMissed { .. })
    };
    for _ in 1..STARTS {
        let outcome = attempt();
        if !missed(&outcome) {
            return outcome;
        }
    }
    attempt()
}

fn once(
    rig: &Rig,
    spec: &TrialSpec,
    mut meter: Option<&mut Meter>,
    heartbeats: &Heartbeats,
    lead_ns: Option<u64>,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<Trial, TrialError> {
    let timing = Timing::measured(spec.shape.seconds);
    let fail = |source: WireFailure| TrialError::Wire { rate_pps: spec.rate_pps, source: Box::new(source) };
    let failed = |error: WireError| fail(WireFailure::from(error));
    let (sending, sinks) = ends(rig, &spec.shape, spec.paced(timing));
    let mut with: Vec<SinkWith> = Vec::new();
    for (place, mut sink) in sinks.into_iter().enumerate() {
        // Pauses are measured on the CPU of the first queue.
        if place == 0 {
            sink.heartbeat = heartbeats.host.clone();
        }
        let application = sink.work.application(&sink.heartbeat).map_err(failed)?;
        with.push((sink, application));
    }
    let (clocks, turns) = (ClockStamp::now(), heartbeats.host.turns());
    let mut gate = Gate::new(&timing);
    let mut metered = Metered::default();
    let counted = rig.between().map(|between| (between.received(), between.losses(), vectors(&between.nic().name)));
    let before = SystemStamp::now()?;
    // This thread checks the trial every few milliseconds: it shares the sender's CPU and never runs on the CPU under
    // test.
    let _pinned = Pinned::to(rig.watching_cpu());
    let run = |source: &mut dyn Source| {
        run_to(source, with, timing, &rig.stop, |sent, delivered| {
            watch(sent, delivered);
            if let Some(meter) = meter.as_deref_mut() {
                // The packets sent by a generator on another host are reported late, so that the first delivered packet
                // may start the phases.
                metered.follow(gate.pass(sent.max(delivered)), meter, delivered);
            }
        })
    };
    let wire = match sending {
        Sending::Here(generator) => {
            let schedule: Box<dyn Iterator<Item = u64> + Send> = match spec.shape.replayed() {
                Some(replay) => Box::new(Arc::clone(replay).times(spec.rate_pps)),
                None => {
                    Box::new(Schedule::new(spec.shape.arrivals, spec.rate_pps, spec.shape.seed, 0).map_err(failed)?)
                }
            };
            let heartbeat = heartbeats.sender.clone();
            let source = LocalSource::new(GeneratorConfig { heartbeat, ..*generator }, schedule);
            run(&mut match lead_ns {
                Some(lead_ns) => source.after(lead_ns),
                None => source,
            })
        }
        Sending::There(between, requests) => {
            let mut carriers = between.carriers();
            run(&mut Between::source(&mut carriers, requests))
        }
    };
    undisturbed(rig, spec.rate_pps)?;
    let wire = wire.map_err(fail)?;
    let shares = before.until(&SystemStamp::now()?);
    let steal_of = |cpu: u32| shares.iter().find(|own| own.cpu == cpu as usize).map_or(0.0, |own| own.steal);
    let cpu = metered.result.transpose()?;
    let clocks = clocks.until(&ClockStamp::now());
    // The window and all results of the trial are in the sender's clock.
    let ahead_ns = if rig.between().is_some() { wire.sink.clock_ahead_ns.unwrap_or(0) } else { 0 };
    let window = wire.sink.window.map(|window| (window.from_ns, window.to_ns));
    let here = window.map(|(from, to)| (from.saturating_add_signed(ahead_ns), to.saturating_add_signed(ahead_ns)));
    let by_sender = |pause: Pause| Pause {
        from_ns: pause.from_ns.saturating_add_signed(-ahead_ns),
        to_ns: pause.to_ns.saturating_add_signed(-ahead_ns),
    };
    let paused = |heartbeat: &Heartbeat| {
        let (from, to) = here.filter(|_| heartbeat.shortest_ns().is_some() && heartbeat.is_kept_awake())?;
        Some(heartbeat.pauses(from, to).into_iter().map(by_sender).collect())
    };
    let visits = here.and_then(|(from, to)| heartbeats.host.visits(from, to));
    let is_elsewhere = rig.between().is_some();
    let (received, losses, vectors) = counted_since(rig, counted);
    Ok(Trial {
        spec: spec.clone(),
        cpu,
        metered_delivered: metered.delivered,
        steal_share: steal_of(rig.host_cpu),
        host_pauses: paused(&heartbeats.host),
        sender_pauses: if is_elsewhere { None } else { paused(&heartbeats.sender) },
        visits: visits
            .map(|visits| visits.into_iter().map(|visit| Visit { time: by_sender(visit.time), ..visit }).collect()),
        received,
        losses,
        vectors,
        outside: Outside {
            shortest_pause_s: heartbeats.host.shortest_ns().map(|ns| ns as f64 * 1e-9),
            sender_steal_share: if is_elsewhere { 0.0 } else { steal_of(rig.sender_cpu) },
            turns_per_s: turns_per_s(turns, heartbeats.host.turns()),
            suspended_s: clocks.suspended_s,
            ns_per_tick: clocks.ns_per_tick,
        },
        wire,
    })
}

/// Checks that a trial at this load (pps), which has just ended, was not stopped and that nothing it depends on
/// changed.
///
/// # Errors
/// [`TrialError::Stopped`], [`TrialError::Changed`].
pub(crate) fn undisturbed(rig: &Rig, rate_pps: f64) -> Result<(), TrialError> {
    if rig.stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(TrialError::Stopped);
    }
    rig.changed().map_or(Ok(()), |what| Err(TrialError::Changed { rate_pps, what }))
}

/// Counters of a device: packets, losses, number of interrupts by interrupt line.
type Counted = (Option<Received>, Losses, BTreeMap<u32, u64>);

/// Increase of the device's counters since an earlier snapshot.
fn counted_since(rig: &Rig, earlier: Option<Counted>) -> Counted {
    let Some((between, (packets, lost, interrupts))) = rig.between().zip(earlier) else { return Counted::default() };
    let received = packets.zip(between.received()).map(|(before, after)| Received {
        packets: after.packets.saturating_sub(before.packets),
        missed: after.missed.saturating_sub(before.missed),
    });
    let rose = |(irq, now): (u32, u64)| Some((irq, now.checked_sub(*interrupts.get(&irq)?)?));
    let vectors = vectors(&between.nic().name).into_iter().filter_map(rose).collect();
    (received, between.losses().since(&lost), vectors)
}

/// Iterations per second of undisturbed time; `None` below [`LEAST_TURNS`].
fn turns_per_s(from: Turns, to: Turns) -> Option<f64> {
    let (count, ns) = (to.count - from.count, to.ns - from.ns);
    (count >= LEAST_TURNS).then(|| count as f64 * 1e9 / ns.max(1) as f64)
}

/// Senders of a trial.
pub(crate) enum Sending<'a> {
    /// A generator in this process.
    Here(Box<GeneratorConfig>),
    /// Generators in agents.
    There(&'a Between, Vec<LoadRequest>),
}

/// Sender and sinks of a trial: one application per queue that the load reaches.
pub(crate) fn ends<'a>(rig: &'a Rig, shape: &TrialShape, load: Load) -> (Sending<'a>, Vec<SinkConfig>) {
    let (source, destination) = rig.addresses();
    // Runs need different ids, so that none counts another's late packets as its own.
    let by_load = match load {
        Load::Paced { rate_pps, .. } => (rate_pps as u32).rotate_left(7),
        Load::FlatOut { .. } => 0,
    };
    let run_id = (shape.seed as u32) ^ by_load;
    let frame_bytes = shape.frame_bytes as usize;
    let mut sink = SinkConfig::new(destination, run_id);
    sink.placement =
        Placement { netns: rig.netns(Side::HostUnderTest), cpu: Some(rig.host_cpu as usize), ..Placement::default() };
    sink.receive_buffer_bytes = Some(shape.receive_buffer_bytes as usize);
    sink.work = if shape.work_s > 0.0 { Work::CpuTime(shape.work_s) } else { Work::None };
    if let Some(between) = rig.between() {
        sink.more_runs = between.more_runs(run_id);
        let sinks = between.queues().iter().map(|queue| {
            let mut sink = sink.clone();
            sink.bind.set_port(queue.port);
            // If the option named a CPU, all applications run on it.
            if between.queues().len() > 1 && !rig.host_cpu_named {
                sink.placement.cpu = queue.cpu.or(Some(rig.host_cpu)).map(|cpu| cpu as usize);
            }
            sink
        });
        let requests = between.requests(frame_bytes, run_id, rig.far_sender_cpu, load);
        return (Sending::There(between, requests), sinks.collect());
    }
    let (source_mac, destination_mac) = rig.macs();
    let frame = FrameSpec {
        source_mac,
        destination_mac,
        source,
        destination,
        more_flows: Vec::new(),
        vlan: None,
        frame_bytes,
        checksum: Checksum::default(),
        run_id,
        replay: shape.replayed().cloned(),
    };
    let mut generator = GeneratorConfig::new(rig.sender_interface(), frame);
    generator.placement =
        Placement { netns: rig.netns(Side::Sender), cpu: Some(rig.sender_cpu as usize), ..Placement::default() };
    if rig.is_loopback() {
        generator.method = Method::Socket;
    }
    (Sending::Here(Box::new(generator)), vec![sink])
}
