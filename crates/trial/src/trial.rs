//! One trial: real packets at one load for a set time, turned into an [`Outcome`](netcliff_core::Outcome) and into the counts that
//! calibration regresses on.

mod outcome;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;

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

/// What to send and how to receive it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSpec {
    /// Offered load (pps).
    pub rate_pps: f64,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// CPU time the application spends a packet beyond reading it (s).
    pub work_s: f64,
    /// Receive buffer to ask for (bytes).
    pub receive_buffer_bytes: u64,
    /// Length of the measured window (s).
    pub seconds: f64,
    /// Seed of the schedule.
    pub seed: u64,
    /// Times, sizes and flows of a capture, at the load, instead of `arrivals` and `frame_bytes`; not by a generator elsewhere.
    pub replay: Option<Arc<Replay>>,
}

impl TrialSpec {
    /// The capture to send; None for frames of another size, by which the cost of a byte is measured.
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
    /// Sender or sink failed; what was measured until then is inside.
    #[error("at {rate_pps:.0} pps: {source}")]
    Wire {
        /// The load of the trial.
        rate_pps: f64,
        /// The failure.
        source: Box<WireFailure>,
    },
    /// What it depends on changed meanwhile: it measured something else.
    #[error("at {rate_pps:.0} pps: {what}")]
    Changed {
        /// The load of the trial.
        rate_pps: f64,
        /// A sentence.
        what: String,
    },
    /// The testbed failed.
    #[error(transparent)]
    Testbed(#[from] netcliff_host::testbed::TestbedError),
    /// CPU time could not be accounted.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

/// What one trial measured.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The configuration.
    pub spec: TrialSpec,
    /// Both ends' reports and the accounting of every packet.
    pub wire: WireRun,
    /// The host under test's CPU, where a meter ran.
    pub cpu: Option<CpuSplit>,
    /// Packets the application read while the meter ran.
    pub metered_delivered: u64,
    /// Share of the host's CPU that the hypervisor took during the trial.
    pub steal_share: f64,
    /// Intervals in the window in which the host's CPU was taken away from outside; None: not measured.
    pub host_pauses: Option<Vec<Pause>>,
    /// The same of the sender's CPU.
    pub sender_pauses: Option<Vec<Pause>>,
    /// Intervals in the window in which other tasks had the host's CPU; None: not measured.
    pub visits: Option<Vec<Visit>>,
    /// Packets that the interface received, and that it had no room for; None in a testbed, where the sender is told.
    pub received: Option<Received>,
    /// What its driver counted as lost.
    pub losses: Losses,
    /// Its interrupts by number.
    pub vectors: BTreeMap<u32, u64>,
    /// Other external influences.
    pub outside: Outside,
}

/// External influences on a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outside {
    /// Shortest detectable pause of a CPU (s); None: pauses are not measured.
    pub shortest_pause_s: Option<f64>,
    /// Share of the sender's CPU that the hypervisor took.
    pub sender_steal_share: f64,
    /// Iterations of fixed work that the host's CPU did a second of undisturbed time; None: not kept awake, or no time for it.
    pub turns_per_s: Option<f64>,
    /// Time in which the machine was suspended (s).
    pub suspended_s: f64,
    /// Nanoseconds of the kernel's clock a tick of the CPU's counter; None: the counter is not used.
    pub ns_per_tick: Option<f64>,
}

/// Heartbeats of the threads of a trial, by which pauses of the CPUs are detected.
#[derive(Debug, Clone, Default)]
pub struct Heartbeats {
    /// Of the CPU under test: the sink, and the loop that keeps it awake.
    pub host: Heartbeat,
    /// Of the sender's CPU.
    pub sender: Heartbeat,
}

impl Heartbeats {
    /// Heartbeats of this meter, or of the loop alone if the meter does not measure pauses.
    pub fn new(rig: &Rig, meter: Option<&Meter>) -> Self {
        let of = |cpu: u32| meter.and_then(|meter| meter.heartbeat(cpu as usize));
        let (host, sender) =
            (of(rig.host_cpu).unwrap_or_else(Heartbeat::plain), of(rig.sender_cpu).unwrap_or_default());
        // It spins.
        sender.set_kept_awake(true);
        Self { host, sender }
    }
}

/// Meters live across trials: attaching costs more than a short trial.
pub type Meter = Box<dyn CpuMeter>;

/// Starts the preferred meter for the host under test's CPU; the application is this process's thread there.
///
/// # Errors
/// No method works.
pub fn meter(rig: &Rig, preference: Preference) -> Result<cpu::Choice, MeterError> {
    let spec = MeterSpec { cpus: vec![rig.host_cpu as usize], watch: vec![Watch::Process(std::process::id())] };
    cpu::choose(preference, &spec)
}

/// Fewest turns of the loop for a measure of the CPU's speed: a millisecond or so of them.
const LEAST_TURNS: u64 = 3000;

/// Most starts of a trial whose sender had no CPU when it was to start.
const STARTS: u32 = 4;
/// Time from the order to send to the first frame at the first start \[ns\]. A sender that had no CPU by then is given more.
const FIRST_LEAD_NS: u64 = 15_000_000;

/// Offers the load and measures. `watch` gets the packets offered and delivered so far.
///
/// # Errors
/// See [`TrialError`]; a trial stopped by the rig's flag is an error too, since its window is incomplete.
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

/// Result of `attempt`. A sender that was kept from starting has measured nothing: it begins anew, a few times.
///
/// # Errors
/// The last attempt's.
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
    let timing = Timing::measured(spec.seconds);
    let fail = |source: WireFailure| TrialError::Wire { rate_pps: spec.rate_pps, source: Box::new(source) };
    let failed = |error: WireError| fail(WireFailure::from(error));
    let (sending, sinks) = ends(rig, spec, timing);
    let mut with: Vec<SinkWith> = Vec::new();
    for (place, mut sink) in sinks.into_iter().enumerate() {
        // Pauses are looked for on the CPU of the first.
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
    // This thread watches every few milliseconds: beside the sender, never on the CPU under test.
    let _pinned = Pinned::to(rig.watching_cpu());
    let run = |source: &mut dyn Source| {
        run_to(source, with, timing, &rig.stop, |sent, delivered| {
            watch(sent, delivered);
            if let Some(meter) = meter.as_deref_mut() {
                // How far a generator elsewhere is comes late.
                metered.follow(gate.pass(sent.max(delivered)), meter, delivered);
            }
        })
    };
    let wire = match sending {
        Sending::Here(generator) => {
            let schedule: Box<dyn Iterator<Item = u64> + Send> = match spec.replayed() {
                Some(replay) => Box::new(Arc::clone(replay).times(spec.rate_pps)),
                None => Box::new(Schedule::new(spec.arrivals, spec.rate_pps, spec.seed, 0).map_err(failed)?),
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
    // The window is by the sender's clock, and so is all that is kept of the trial.
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

/// Makes sure that a trial at this load (pps), which has just ended, was not stopped and measured what it was to measure.
///
/// # Errors
/// [`TrialError::Stopped`], [`TrialError::Changed`].
pub(crate) fn undisturbed(rig: &Rig, rate_pps: f64) -> Result<(), TrialError> {
    if rig.stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(TrialError::Stopped);
    }
    rig.changed().map_or(Ok(()), |what| Err(TrialError::Changed { rate_pps, what }))
}

/// What a device counted: packets, what was lost, interrupts by number.
type Counted = (Option<Received>, Losses, BTreeMap<u32, u64>);

/// What the device under test has counted since an earlier reading.
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

/// None below [`LEAST_TURNS`].
fn turns_per_s(from: Turns, to: Turns) -> Option<f64> {
    let (count, ns) = (to.count - from.count, to.ns - from.ns);
    (count >= LEAST_TURNS).then(|| count as f64 * 1e9 / ns.max(1) as f64)
}

/// Who sends the frames of a trial.
pub(crate) enum Sending<'a> {
    /// A generator in this process.
    Here(Box<GeneratorConfig>),
    /// Some in agents.
    There(&'a Between, Vec<LoadRequest>),
}

/// Sender and sinks of a trial: one application for each queue that the load reaches.
pub(crate) fn ends<'a>(rig: &'a Rig, spec: &TrialSpec, timing: Timing) -> (Sending<'a>, Vec<SinkConfig>) {
    let (source, destination) = rig.addresses();
    // Different runs must not take each other's late packets for their own.
    let run_id = (spec.seed as u32) ^ (spec.rate_pps as u32).rotate_left(7);
    let frame_bytes = spec.frame_bytes as usize;
    let mut sink = SinkConfig::new(destination, run_id);
    sink.placement =
        Placement { netns: rig.netns(Side::HostUnderTest), cpu: Some(rig.host_cpu as usize), ..Placement::default() };
    sink.receive_buffer_bytes = Some(spec.receive_buffer_bytes as usize);
    sink.work = if spec.work_s > 0.0 { Work::CpuTime(spec.work_s) } else { Work::None };
    if let Some(between) = rig.between() {
        let load = Load::Paced { arrivals: spec.arrivals, rate_pps: spec.rate_pps, seed: spec.seed, timing };
        sink.more_runs = between.more_runs(run_id);
        let sinks = between.queues().iter().map(|queue| {
            let mut sink = sink.clone();
            sink.bind.set_port(queue.port);
            // Where a CPU was named, all applications are on it.
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
        replay: spec.replayed().cloned(),
    };
    let mut generator = GeneratorConfig::new(rig.sender_interface(), frame);
    generator.placement =
        Placement { netns: rig.netns(Side::Sender), cpu: Some(rig.sender_cpu as usize), ..Placement::default() };
    if rig.is_loopback() {
        generator.method = Method::Socket;
    }
    (Sending::Here(Box::new(generator)), vec![sink])
}
