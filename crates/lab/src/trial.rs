//! One trial: real packets at one load for a set time, turned into an [`Outcome`] and into the counts that
//! calibration regresses on.

use std::time::Instant;

use netcliff_core::{CpuShares, Figure, Latency, Loss, Outcome};
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{self, CpuMeter, CpuSplit, MeterError, MeterSpec, PollCell, PollKind, Preference, Watch};
use netcliff_host::testbed::netns::Side;
use netcliff_wire::frame::{Checksum, FrameSpec};
use netcliff_wire::generator::GeneratorConfig;
use netcliff_wire::run::{Timing, WireFailure, WireRun, run};
use netcliff_wire::schedule::{Arrivals, Schedule};
use netcliff_wire::sink::{SinkConfig, Work};
use netcliff_wire::thread::Placement;
use netcliff_wire::transmit::Method;

use crate::bench::{Counts, Observation, PollTime};
use crate::rig::Rig;

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
    /// What was asked.
    pub spec: TrialSpec,
    /// Both ends' reports and every packet's fate.
    pub wire: WireRun,
    /// The host under test's CPU, where a meter ran.
    pub cpu: Option<CpuSplit>,
    /// Packets the application read while the meter ran.
    pub metered_delivered: u64,
    /// Share of the host's CPU that the hypervisor took during the trial.
    pub steal_share: f64,
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

/// Offers the load and measures. `watch` gets the packets offered and delivered so far.
///
/// # Errors
/// See [`TrialError`]; a trial stopped by the rig's flag is an error too, since its window is incomplete.
pub fn trial(
    rig: &Rig,
    spec: &TrialSpec,
    mut meter: Option<&mut Meter>,
    mut watch: impl FnMut(u64, u64),
) -> Result<Trial, TrialError> {
    let timing = Timing::measured(spec.seconds);
    let fail = |source: WireFailure| TrialError::Wire { rate_pps: spec.rate_pps, source: Box::new(source) };
    let schedule =
        Schedule::new(spec.arrivals, spec.rate_pps, spec.seed, 0).map_err(|error| fail(WireFailure::from(error)))?;
    let (generator, sink) = ends(rig, spec);
    let mut gate = Gate::new(&timing);
    let mut metered = Metered::default();
    let before = SystemStamp::now()?;
    // This thread watches every few milliseconds: beside the sender, never on the CPU under test.
    let _pinned = Pinned::to(rig.sender_cpu);
    let wire = run(generator, sink, schedule, timing, &rig.stop, |sent, delivered| {
        watch(sent, delivered);
        if let Some(meter) = meter.as_deref_mut() {
            metered.follow(gate.pass(sent), meter, delivered);
        }
    });
    if rig.stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(TrialError::Stopped);
    }
    let wire = wire.map_err(fail)?;
    let shares = before.until(&SystemStamp::now()?);
    let steal_share = shares.iter().find(|own| own.cpu == rig.host_cpu as usize).map_or(0.0, |own| own.steal);
    let cpu = metered.result.transpose()?;
    Ok(Trial { spec: spec.clone(), wire, cpu, metered_delivered: metered.delivered, steal_share })
}

pub(crate) fn ends(rig: &Rig, spec: &TrialSpec) -> (GeneratorConfig, SinkConfig) {
    let (source_mac, destination_mac) = rig.macs();
    let (source, destination) = rig.addresses();
    // Different runs must not take each other's late packets for their own.
    let run_id = (spec.seed as u32) ^ (spec.rate_pps as u32).rotate_left(7);
    let frame = FrameSpec {
        source_mac,
        destination_mac,
        source,
        destination,
        frame_bytes: spec.frame_bytes as usize,
        checksum: Checksum::default(),
        run_id,
    };
    let mut generator = GeneratorConfig::new(rig.sender_interface(), frame);
    generator.placement =
        Placement { netns: rig.netns(Side::Sender), cpu: Some(rig.sender_cpu as usize), ..Placement::default() };
    if !rig.is_netns() {
        generator.method = Method::Socket;
    }
    let mut sink = SinkConfig::new(destination, run_id);
    sink.placement =
        Placement { netns: rig.netns(Side::HostUnderTest), cpu: Some(rig.host_cpu as usize), ..Placement::default() };
    sink.receive_buffer_bytes = Some(spec.receive_buffer_bytes as usize);
    sink.work = if spec.work_s > 0.0 { Work::CpuTime(spec.work_s) } else { Work::None };
    (generator, sink)
}

/// Which part of a run it is, seen from the packets sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Window,
    After,
}

/// Tells the window from the time since the first packet.
struct Gate {
    first: Option<Instant>,
    from_s: f64,
    to_s: f64,
}

impl Gate {
    fn new(timing: &Timing) -> Self {
        Self { first: None, from_s: timing.warmup_s, to_s: timing.warmup_s + timing.measured_s }
    }

    fn pass(&mut self, sent: u64) -> Phase {
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

/// Marks the meter when the window begins and reads it when it ends.
#[derive(Default)]
struct Metered {
    at_mark: Option<u64>,
    delivered: u64,
    result: Option<Result<CpuSplit, MeterError>>,
}

impl Metered {
    fn follow(&mut self, phase: Phase, meter: &mut Meter, delivered: u64) {
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

/// Keeps the calling thread on one CPU and lets it go where it could before when dropped.
struct Pinned {
    before: Option<nix::sched::CpuSet>,
}

impl Pinned {
    fn to(cpu: u32) -> Self {
        let this = nix::unistd::Pid::from_raw(0);
        let before = nix::sched::sched_getaffinity(this).ok();
        let mut only = nix::sched::CpuSet::new();
        // Best effort: unpinned, the watching thread disturbs a little more.
        let _ = only.set(cpu as usize).and_then(|()| nix::sched::sched_setaffinity(this, &only));
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), before);
        }
    }
}

impl Trial {
    /// What calibration and search need of it.
    pub fn observation(&self) -> Observation {
        Observation {
            spec: self.spec.clone(),
            outcome: self.outcome(),
            loss: self.loss(),
            sender_kept_up: self.sender_kept_up(),
            offered_share: match (self.wire.sender.achieved_pps, self.wire.sender.intended_pps) {
                (Some(achieved), Some(intended)) if intended > 0.0 => achieved / intended,
                _ => 0.0,
            },
            lateness_p99_s: self.wire.sender.lateness.quantile_s(0.99),
            steal_share: self.steal_share,
            counts: self.counts(),
        }
    }

    /// Times and events for the regression; None unless the meter tells softirq from application time.
    fn counts(&self) -> Option<Counts> {
        let split = self.cpu.as_ref().filter(|split| split.method == cpu::Method::Ebpf)?;
        let time_s = |share: Option<f64>| share.map(|share| share * split.elapsed_s);
        let delivered = self.metered_delivered as f64;
        let in_window = self.wire.sink.window_delivered.max(1) as f64;
        let table = split.polls.as_ref();
        let busy = |cell: &&PollCell| cell.kind == PollKind::FirstFromBusy;
        Some(Counts {
            elapsed_s: split.elapsed_s,
            protocol_s: time_s(split.shares.protocol)?,
            interrupt_s: time_s(split.shares.interrupt)?,
            application_s: time_s(split.shares.application)?,
            packets: split.counters.backlog_packets? as f64,
            polls: split.counters.backlog_polls? as f64,
            interrupts: split.counters.ipis? as f64,
            delivered,
            // Counted over the window by the sink; the meter's interval is the same to a few milliseconds.
            wakeups: self.wire.sink.wakeups().unwrap_or(0) as f64 * delivered / in_window,
            busy_interrupts: table.map_or(0.0, |t| t.cells.iter().filter(busy).map(|cell| cell.polls as f64).sum()),
            poll_times: table.map(|table| table.cells.iter().filter_map(poll_time).collect()).unwrap_or_default(),
            tail_s: table.map_or(0.0, |table| table.tail_s),
        })
    }

    /// Share of the offered packets that was not read.
    pub fn loss(&self) -> f64 {
        self.wire.loss_fraction().unwrap_or(1.0)
    }

    /// True if the sender offered what it should, so that a loss is the receiver's.
    pub fn sender_kept_up(&self) -> bool {
        self.wire.sender.kept_up
    }

    /// The trial as an outcome.
    pub fn outcome(&self) -> Outcome {
        let fate = &self.wire.fate;
        let share = |count: u64| (fate.offered > 0).then(|| Figure::exact(count as f64 / fate.offered as f64));
        let delivered_pps = self.wire.delivered_pps();
        let frame_bits = 8.0 * f64::from(self.spec.frame_bytes);
        let cpu = self.cpu.as_ref();
        let count = |pick: fn(&cpu::Counters) -> Option<u64>| {
            cpu.and_then(|split| pick(&split.counters).map(|n| Figure::exact(n as f64 / split.elapsed_s)))
        };
        Outcome {
            offered_pps: self.wire.offered_pps().map(Figure::exact),
            throughput_pps: delivered_pps.map(Figure::exact),
            goodput_bps: delivered_pps.map(|pps| Figure::exact(pps * frame_bits)),
            loss_fraction: self.wire.loss_fraction().map(Figure::exact),
            loss: Some(Loss { ring: share(fate.refused), socket: share(fate.elsewhere), sender: share(fate.sender) }),
            latency_s: latency(&self.wire),
            latency_to: Some("application".to_owned()),
            cpu: cpu.map(shares),
            cpu_method: cpu.map(|split| split.method.to_string()),
            interrupts_per_s: count(|c| Some(c.ipis? + c.device_interrupts.unwrap_or(0))),
            polls_per_s: count(|c| c.backlog_polls),
            packets_per_poll: cpu.and_then(|split| {
                let (packets, polls) = (split.counters.backlog_packets?, split.counters.backlog_polls?);
                (polls > 0).then(|| Figure::exact(packets as f64 / polls as f64))
            }),
            transmitted: None,
            packets_in_system: None,
            precision: None,
            applications: Vec::new(),
            queues: Vec::new(),
            notes: self.notes(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.sender_kept_up() {
            notes.push("the sender did not keep up with its schedule: loss is not the receiver's alone".to_owned());
        }
        if self.steal_share > 0.01 {
            notes.push(format!("the hypervisor took {:.1} % of the host's CPU", 100.0 * self.steal_share));
        }
        notes
    }
}

/// A cell of one size as a regression can use it; None for further polls of a softirq, which are few.
pub(crate) fn poll_time(cell: &PollCell) -> Option<PollTime> {
    let single = cell.work_high == Some(cell.work_low) && cell.polls > 0;
    let first = matches!(cell.kind, PollKind::FirstFromIdle | PollKind::FirstFromBusy);
    let polls = cell.polls as f64;
    let mean_s = cell.total_s / polls;
    (single && first).then(|| PollTime {
        packets: f64::from(cell.work_low),
        polls,
        mean_s,
        variance_s2: (cell.total_squared_s2 / polls - mean_s * mean_s).max(0.0),
        from_idle: cell.kind == PollKind::FirstFromIdle,
    })
}

/// From the kernel's receive timestamp, taken before the backlog, to the application's read: the same span as
/// in model and simulation.
fn latency(wire: &WireRun) -> Option<Latency> {
    let summary = wire.sink.kernel_to_read.summary().or_else(|| wire.sink.end_to_end.summary())?;
    Some(Latency {
        mean: Some(summary.mean_s.into()),
        p50: Some(summary.p50_s.into()),
        p90: Some(summary.p90_s.into()),
        p99: Some(summary.p99_s.into()),
        p999: Some(summary.p999_s.into()),
        max: Some(summary.max_s.into()),
    })
}

/// The meter's classes as the vocabulary's: what is neither interrupt, protocol nor application counts as
/// available to others, since another task could have had it.
fn shares(split: &CpuSplit) -> CpuShares {
    let shares = &split.shares;
    let figure = |share: Option<f64>| share.map(Figure::exact);
    let available = shares.available.or_else(|| {
        let rest = [shares.idle, shares.other, shares.unaccounted];
        rest.iter().any(Option::is_some).then(|| rest.iter().flatten().sum())
    });
    CpuShares {
        interrupt: figure(shares.interrupt),
        poll: figure(
            shares.ksoftirqd.map(|own| own + shares.softirq_other.unwrap_or(0.0) + shares.transmit.unwrap_or(0.0)),
        ),
        protocol: figure(shares.protocol),
        application: figure(shares.application),
        available: figure(available),
    }
}
