//! A [`Bench`] that records the disturbances and the machine's speed in each trial of a run.

mod summary;

use std::cell::RefCell;
use std::time::Instant;

use netcliff_core::ledger::Ledger;

use super::fluid::{Away, Measured};
use super::plan::Progress;
use super::spent::Clock;
use crate::calibrate::{Costs, FEWEST, FULL_LOSS, Trials, is_warm, poll_line};
use netcliff_trial::bench::{Bench, Counts, Handlers, Observation, RoundTrips, SenderCeiling, Span, Visit};
use netcliff_trial::trial::{Outside, TrialError, TrialShape, TrialSpec};

/// Loss up to which a trial's packets count as having their usual costs.
const LITTLE_LOSS: f64 = 0.01;
/// Trials from this share of the highest load that lost little count as trials near the cliff: the more packets a poll
/// finds, the less a packet costs.
const HIGH_LOADS: f64 = 0.7;

/// Purpose of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Rough,
    Calibration,
    /// Trials of a check below its cliff.
    Below,
    Search,
    Sweep,
    /// A trial in the other idle mode.
    Idle,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Rough => "rough",
            Self::Calibration => "calibration",
            Self::Below => "below",
            Self::Search => "search",
            Self::Sweep => "sweep",
            Self::Idle => "idle",
        }
    }
}

/// Forwards every call to another bench and records its trials.
pub struct Recorder<'a> {
    bench: &'a mut dyn Bench,
    began: Instant,
    clock: Clock,
    stage: Stage,
    /// Calibrated costs, and the trial that they apply to.
    calibrated: Option<(Costs, TrialShape)>,
    seen: Vec<Seen>,
}

/// Record of a trial.
struct Seen {
    at_s: f64,
    stage: Stage,
    spec: TrialSpec,
    outside: Outside,
    loss: f64,
    counts: Option<Counts>,
    /// Pauses of the host's CPU.
    host: Option<Vec<Span>>,
    /// Lengths of the pauses of the sender's CPU and of its stalls (s).
    sender: Option<Vec<f64>>,
    stalls: Vec<f64>,
    /// Visits of other tasks to the host's CPU.
    visits: Option<Vec<Visit>>,
    steal_share: f64,
    packet_s: Option<f64>,
}

impl<'a> Recorder<'a> {
    /// A recorder without trials.
    pub fn new(bench: &'a mut dyn Bench) -> Self {
        let (began, clock) = (Instant::now(), Clock::default());
        Self { bench, began, clock, stage: Stage::Rough, calibrated: None, seen: Vec::new() }
    }

    /// A recorder of a run's trials, whose time it counts with the run's clock.
    pub fn of_run(bench: &'a mut dyn Bench, progress: &RefCell<Progress<'_>>) -> Self {
        Self { clock: progress.borrow().clock.clone(), ..Self::new(bench) }
    }

    /// Sets the costs that are expected of trials with the frames and work of `base`.
    pub fn calibrated(&mut self, costs: Costs, base: TrialShape) {
        self.calibrated = Some((costs, base));
    }

    /// CPU time of a trial divided by its expected CPU time, see [`Speed::slowness`]; `None` if no expected costs apply
    /// to the trial.
    fn slowness_of(&self, seen: &Seen) -> Option<f64> {
        let (costs, base) = self.calibrated.as_ref()?;
        // Trials with heavy loss count, too: near the cliff, slow trials are the ones that lose.
        costs.slowness(seen.counts.as_ref().filter(|_| is_like(&seen.spec, base))?, seen.loss)
    }

    /// Assigns trials from now on to this stage.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    fn keep(&mut self, observation: &Observation) {
        let at_s = self.began.elapsed().as_secs_f64();
        let seen = Seen::of(observation, at_s, self.stage);
        self.log(observation, &seen);
        self.seen.push(seen);
    }

    /// Logs a trial for `NETCLIFF_LOG=debug`: its losses by time slot, and its CPU times and counts.
    fn log(&self, observation: &Observation, seen: &Seen) {
        let counts = seen.counts.clone().unwrap_or_default();
        let Counts { elapsed_s, protocol_s, interrupt_s, application_s, idle_s, other_s, .. } = counts;
        let Counts { packets, polls, interrupts, busy_interrupts, softirq_interrupts, delivered, wakeups, .. } = counts;
        let Handlers { time_s: handlers_s, count: handlers } = counts.handlers();
        let Counts { looks, look_s, hit_looks, hit_look_s, look_hits, undisturbed_work_s, .. } = counts;
        let TrialSpec { shape: TrialShape { work_s, frame_bytes, .. }, rate_pps } = seen.spec;
        tracing::debug!(
            stage = ?self.stage,
            rate_pps,
            work_s,
            frame_bytes,
            loss = seen.loss,
            slowness = self.slowness_of(seen),
            lost_by_slot = ?observation.slots.slots.iter().map(|slot| slot.lost).collect::<Vec<_>>(),
            elapsed_s,
            protocol_s,
            interrupt_s,
            handlers_s,
            handlers,
            application_s,
            idle_s,
            other_s,
            packets,
            polls,
            interrupts,
            busy_interrupts,
            softirq_interrupts,
            delivered,
            wakeups,
            looks,
            look_s,
            hit_looks,
            hit_look_s,
            look_hits,
            undisturbed_work_s,
            visits = ?seen.visits.iter().flatten().map(|v| (v.at.from_s, v.at.length_s, &v.task)).collect::<Vec<_>>(),
            pauses = ?seen.host.iter().flatten().map(|p| (p.from_s, p.length_s)).collect::<Vec<_>>(),
            "trial"
        );
    }

    /// Pauses of the host's CPU and visits of other tasks in the searches' trials of this length (s); `None` if they
    /// were not measured.
    pub fn in_searches(&self, trial_s: f64) -> Option<Measured> {
        let asked = |seen: &&Seen| seen.stage == Stage::Search && seen.spec.shape.seconds == trial_s;
        let trials: Vec<Vec<Away>> = self.seen.iter().filter(asked).filter_map(Seen::away).collect();
        (!trials.is_empty()).then(|| Measured::of(trials, trial_s))
    }

    /// Trials of the searches with the calibrated frames and work, which show the costs near the cliff: trials with
    /// almost no loss (with a NIC only trials with warm packets) at the higher loads, or at all loads if fewer than
    /// [`FEWEST`] are at the higher ones; and trials with heavy loss, whose socket was full.
    pub fn at_present(&self) -> Trials {
        self.of_stages(&[Stage::Search])
    }

    /// Like [`Self::at_present`], with a check's trials below its cliff added.
    pub fn near_and_below(&self) -> Trials {
        self.of_stages(&[Stage::Search, Stage::Below])
    }

    fn of_stages(&self, stages: &[Stage]) -> Trials {
        let Some((costs, base)) = &self.calibrated else { return Trials::default() };
        let like = |seen: &&Seen| stages.contains(&seen.stage) && is_like(&seen.spec, base);
        let counts_of = |seen: Vec<&Seen>| seen.into_iter().filter_map(Seen::usable).collect::<Vec<Counts>>();
        let warm = |seen: &Seen| costs.backlog || seen.counts.as_ref().is_some_and(is_warm);
        let is_empty = |seen: &&Seen| seen.loss <= LITTLE_LOSS && warm(seen);
        let empty: Vec<&Seen> = self.seen.iter().filter(like).filter(is_empty).collect();
        let highest_pps = empty.iter().map(|seen| seen.spec.rate_pps).fold(0.0, f64::max);
        let high =
            counts_of(empty.iter().copied().filter(|seen| seen.spec.rate_pps >= HIGH_LOADS * highest_pps).collect());
        let empty = if high.len() < FEWEST { counts_of(empty) } else { high };
        Trials { empty, full: counts_of(self.seen.iter().filter(like).filter(|seen| seen.loss > FULL_LOSS).collect()) }
    }
}

impl Seen {
    fn of(observation: &Observation, at_s: f64, stage: Stage) -> Self {
        let window_s = observation.spec.shape.seconds;
        // The sender also reports stalls before and after the measured window.
        let in_window = |span: &&Span| span.from_s < window_s && span.from_s + span.length_s > 0.0;
        let lengths = |spans: &Vec<Span>| lengths_s(spans.iter().filter(in_window));
        let within = |spans: &Vec<Span>| spans.iter().filter(in_window).copied().collect();
        let slots = &observation.slots;
        let counts = observation.counts.as_ref();
        Self {
            at_s,
            stage,
            spec: observation.spec.clone(),
            outside: observation.outside,
            loss: observation.loss(),
            counts: counts.map(|counts| Counts { poll_times: Vec::new(), ..counts.clone() }),
            host: slots.host_pauses.as_ref().map(within),
            sender: slots.sender_pauses.as_ref().map(lengths),
            stalls: lengths(&slots.sender_stalls),
            visits: slots.visits.as_ref().map(|visits| visits.iter().filter(|v| in_window(&&v.at)).cloned().collect()),
            steal_share: observation.steal_share,
            packet_s: counts.and_then(|c| Some(poll_line(&c.poll_times, c.polls, c.tail_s)?[0])).filter(|s| *s > 0.0),
        }
    }
}

/// Whether a trial has the work and frame size of `base`.
fn is_like(spec: &TrialSpec, base: &TrialShape) -> bool {
    (spec.shape.work_s, spec.shape.frame_bytes) == (base.work_s, base.frame_bytes)
}

impl Seen {
    /// The trial's counts; `None` if it was not metered, or no packet was processed or read.
    fn usable(&self) -> Option<Counts> {
        self.counts.clone().filter(|c| c.packets > 0.0 && c.delivered > 0.0)
    }

    /// Intervals in which the application had no CPU; `None` if pauses were not measured.
    fn away(&self) -> Option<Vec<Away>> {
        let visits = self.visits.iter().flatten().map(|visit| Away::Application(visit.at));
        Some(self.host.as_ref()?.iter().copied().map(Away::Cpu).chain(visits).collect())
    }
}

fn lengths_s<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<f64> {
    spans.map(|span| span.length_s).collect()
}

impl Bench for Recorder<'_> {
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        let observation = self.clock.trial(spec.shape.seconds, || self.bench.observe(spec, metered))?;
        self.keep(&observation);
        Ok(observation)
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        // At the sender's maximum, the whole time of a trial is measured.
        self.clock.trial(f64::INFINITY, || self.bench.ceiling(frame_bytes))
    }

    fn socket_capacity(&mut self, shape: &TrialShape) -> Result<Option<f64>, TrialError> {
        self.clock.trial(f64::INFINITY, || self.bench.socket_capacity(shape))
    }

    fn ledger(&mut self, spec: &TrialSpec) -> Result<Option<Ledger>, TrialError> {
        self.clock.trial(spec.shape.seconds, || self.bench.ledger(spec))
    }

    fn round_trips(&mut self, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        self.clock.trial(spec.shape.seconds, || self.bench.round_trips(spec))
    }

    fn ring_slots(&self) -> Option<u64> {
        self.bench.ring_slots()
    }

    fn cpu_method(&self) -> Result<String, String> {
        self.bench.cpu_method()
    }
}
