//! A [`Bench`] that remembers of each trial of a run what disturbed it and how fast the machine was.

use std::collections::BTreeMap;
use std::time::Instant;

use netcliff_core::Figure;
use netcliff_core::finding::{ClockJump, Disturbance, Drift, MOST_TASKS, Pauses, Speed, SpeedAt, TaskTime};
use netcliff_wire::generator::STALL_NS;

use super::experienced::Measured;
use super::fluid::Away;
use crate::bench::{Bench, Counts, Observation, Outside, SenderCeiling, Span, Visit};
use crate::calibrate::{Costs, FEWEST, FULL_LOSS, Trials, poll_line};
use crate::stats;
use crate::trial::{TrialError, TrialSpec};

/// The counter's rate in a trial may differ by so much from the median of the run: reading it is good for 1e-5 in a trial of 0.1 s.
const STEADY_RATE: f64 = 1e-4;
/// A machine that slept for less was not suspended: the clocks are read microseconds apart (s).
const LEAST_SUSPEND_S: f64 = 1e-3;
/// Fewest trials with a speed that make a drift.
const FEWEST_SPEEDS: usize = FEWEST;

/// Loss up to which a trial's packets are taken to have cost what undisturbed ones do.
const LITTLE_LOSS: f64 = 0.01;
/// Share of the highest such load from which on costs are those of the cliff: a packet costs less, the more a poll finds.
const HIGH_LOADS: f64 = 0.7;

/// What the trials are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Rough,
    Calibration,
    Search,
    Sweep,
    /// A trial with the CPU idling the other way.
    Idle,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Rough => "rough",
            Self::Calibration => "calibration",
            Self::Search => "search",
            Self::Sweep => "sweep",
            Self::Idle => "idle",
        }
    }
}

/// Passes everything on to another bench.
pub struct Recorder<'a> {
    bench: &'a mut dyn Bench,
    began: Instant,
    stage: Stage,
    /// Costs, with the trial that they are of.
    calibrated: Option<(Costs, TrialSpec)>,
    seen: Vec<Seen>,
}

/// What is kept of a trial.
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
    /// Other tasks on the host's CPU.
    visits: Option<Vec<Visit>>,
    steal_share: f64,
    packet_s: Option<f64>,
}

impl<'a> Recorder<'a> {
    /// Nothing seen yet.
    pub fn new(bench: &'a mut dyn Bench) -> Self {
        Self { bench, began: Instant::now(), stage: Stage::Rough, calibrated: None, seen: Vec::new() }
    }

    /// What trials like `base` should take.
    pub fn calibrated(&mut self, costs: Costs, base: TrialSpec) {
        self.calibrated = Some((costs, base));
    }

    /// See [`Speed::slowness`].
    fn slowness_of(&self, seen: &Seen) -> Option<f64> {
        let (costs, base) = self.calibrated.as_ref()?;
        // Trials that lost much count, too: of loads near the cliff they are the slow ones.
        costs.slowness(seen.counts.as_ref().filter(|_| is_like(&seen.spec, base))?, seen.loss)
    }

    /// The trials from now on are for this.
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    fn keep(&mut self, observation: &Observation) {
        let at_s = self.began.elapsed().as_secs_f64();
        let seen = Seen::of(observation, at_s, self.stage);
        self.log(observation, &seen);
        self.seen.push(seen);
    }

    /// What a trial was like, for `NETCLIFF_LOG=debug`: with where in it packets were lost, and what its CPU did.
    fn log(&self, observation: &Observation, seen: &Seen) {
        let counts = seen.counts.clone().unwrap_or_default();
        let Counts { elapsed_s, protocol_s, interrupt_s, application_s, idle_s, other_s, .. } = counts;
        let Counts { packets, polls, interrupts, delivered, wakeups, .. } = counts;
        tracing::debug!(
            stage = ?self.stage,
            rate_pps = seen.spec.rate_pps,
            loss = seen.loss,
            slowness = self.slowness_of(seen),
            lost_by_slot = ?observation.slots.slots.iter().map(|slot| slot.lost).collect::<Vec<_>>(),
            elapsed_s,
            protocol_s,
            interrupt_s,
            application_s,
            idle_s,
            other_s,
            packets,
            polls,
            interrupts,
            delivered,
            wakeups,
            visits = ?seen.visits.iter().flatten().map(|v| (v.at.from_s, v.at.length_s, &v.task)).collect::<Vec<_>>(),
            pauses = ?seen.host.iter().flatten().map(|p| (p.from_s, p.length_s)).collect::<Vec<_>>(),
            "trial"
        );
    }

    /// What came from outside, given the share of the searches' slots that the host's own cliff leaves out; None before the first trial.
    pub fn disturbance(&self, left_out: f64) -> Option<Disturbance> {
        if self.seen.is_empty() {
            return None;
        }
        // With the CPU idling the other way other pauses show.
        let trials: Vec<&Seen> = self.seen.iter().filter(|seen| seen.stage != Stage::Idle).collect();
        let shortest_s = trials.iter().find_map(|seen| seen.outside.shortest_pause_s).unwrap_or(0.0);
        let host = pauses(&trials, shortest_s, |seen| Some((lengths_s(seen.host.as_ref()?.iter()), seen.steal_share)));
        let sender = pauses(&trials, shortest_s, |seen| Some((seen.sender.clone()?, seen.outside.sender_steal_share)));
        let visits = pauses(&trials, shortest_s, |seen| {
            Some((lengths_s(seen.visits.as_ref()?.iter().map(|visit| &visit.at)), 0.0))
        });
        let stalls = pauses(&trials, STALL_NS as f64 * 1e-9, |seen| Some((seen.stalls.clone(), 0.0)));
        Some(Disturbance {
            measured_s: trials.iter().map(|seen| seen.spec.seconds).sum(),
            trials: trials.len() as u32,
            host,
            sender,
            other_tasks: visits.map(|visits| Pauses { steal_share: None, ..visits }),
            tasks: tasks(trials.iter().filter_map(|seen| seen.visits.as_ref()).flatten()),
            sender_stalls: stalls.map(|stalls| Pauses { steal_share: None, ..stalls }),
            left_out,
            clock_jumps: clock_jumps(&self.seen),
        })
    }

    /// Pauses of the host's CPU and visits of other tasks in the searches' trials of this length (s); None where none tells.
    pub fn in_searches(&self, trial_s: f64) -> Option<Measured> {
        let asked = |seen: &&Seen| seen.stage == Stage::Search && seen.spec.seconds == trial_s;
        let trials: Vec<Vec<Away>> = self.seen.iter().filter(asked).filter_map(Seen::away).collect();
        (!trials.is_empty()).then(|| Measured::of(trials, trial_s))
    }

    /// How fast the CPU was; None where no trial tells.
    pub fn speed(&self) -> Option<Speed> {
        let at = |seen: &Seen| SpeedAt {
            at_s: seen.at_s,
            stage: seen.stage.name().to_owned(),
            load_pps: seen.spec.rate_pps,
            turns_per_s: seen.outside.turns_per_s,
            packet_s: seen.packet_s,
            slowness: self.slowness_of(seen),
        };
        let told = |seen: &&Seen| seen.outside.turns_per_s.is_some() || seen.packet_s.is_some();
        let trials: Vec<SpeedAt> = self.seen.iter().filter(told).map(at).collect();
        (!trials.is_empty()).then(|| Speed {
            turns_per_s: self.median_of(Stage::Search, |seen| seen.outside.turns_per_s),
            packet_s: self.median_of(Stage::Search, |seen| seen.packet_s),
            slowness: self.median_of(Stage::Search, |seen| self.slowness_of(seen)),
            demand_s: self.median_of(Stage::Search, |seen| seen.counts.as_ref()?.demand_s()),
            demand_empty_s: stats::median(&demands_s(&self.at_present().empty)),
            demand_full_s: self
                .median_of(Stage::Search, |seen| seen.counts.as_ref().filter(|_| seen.loss > FULL_LOSS)?.demand_s()),
            trials,
        })
    }

    fn median_of(&self, stage: Stage, of: impl Fn(&Seen) -> Option<f64>) -> Option<Figure> {
        let values: Vec<f64> = self.seen.iter().filter(|seen| seen.stage == stage).filter_map(of).collect();
        stats::median(&values)
    }

    fn median_of_enough(&self, stage: Stage, of: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
        let enough = self.seen.iter().filter(|seen| seen.stage == stage && of(seen).is_some()).count() >= FEWEST_SPEEDS;
        self.median_of(stage, of).filter(|_| enough).map(|figure| figure.value)
    }

    /// The searches' trials of the calibrated set-up that tell what packets cost where the cliff is: those that lost next to nothing, at the
    /// higher ones of their loads, and those that kept the socket full.
    pub fn at_present(&self) -> Trials {
        let Some((_, base)) = &self.calibrated else { return Trials::default() };
        let like = |seen: &&Seen| seen.stage == Stage::Search && is_like(&seen.spec, base);
        let empty: Vec<&Seen> = self.seen.iter().filter(like).filter(|seen| seen.loss <= LITTLE_LOSS).collect();
        let highest_pps = empty.iter().map(|seen| seen.spec.rate_pps).fold(0.0, f64::max);
        let high = empty.into_iter().filter(|seen| seen.spec.rate_pps >= HIGH_LOADS * highest_pps);
        let full = self.seen.iter().filter(like).filter(|seen| seen.loss > FULL_LOSS);
        Trials { empty: high.filter_map(Seen::told).collect(), full: full.filter_map(Seen::told).collect() }
    }

    /// How the speed changed; None with too few trials that tell one.
    pub fn drift(&self) -> Option<Drift> {
        let by_costs = |seen: &Seen| self.slowness_of(seen).map(f64::recip);
        let by_turns = |seen: &Seen| seen.outside.turns_per_s;
        self.drift_of(by_costs).or_else(|| self.drift_of(by_turns))
    }

    fn drift_of(&self, speed: impl Fn(&Seen) -> Option<f64>) -> Option<Drift> {
        let of = |seen: &Seen| Some((seen.at_s, speed(seen).filter(|_| seen.stage != Stage::Idle)?));
        let speeds: Vec<(f64, f64)> = self.seen.iter().filter_map(of).collect();
        let (share, scatter) = line(&speeds)?;
        let [search, calibration] =
            [Stage::Search, Stage::Calibration].map(|stage| self.median_of_enough(stage, &speed));
        let search_over_calibration = search.zip(calibration).map(|(search, calibration)| search / calibration - 1.0);
        Some(Drift { share, scatter, search_over_calibration })
    }
}

impl Seen {
    fn of(observation: &Observation, at_s: f64, stage: Stage) -> Self {
        let window_s = observation.spec.seconds;
        // The sender also tells the stalls of warm-up and cool-down.
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

/// Who took how much, the longest first.
fn tasks<'a>(visits: impl Iterator<Item = &'a Visit>) -> Vec<TaskTime> {
    let mut by_name: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
    for visit in visits {
        let (count, total_s) = by_name.entry(&visit.task).or_default();
        *count += 1;
        *total_s += visit.at.length_s;
    }
    let told = |(task, (count, total_s)): (&str, (u64, f64))| TaskTime { task: task.to_owned(), count, total_s };
    let mut tasks: Vec<TaskTime> = by_name.into_iter().map(told).collect();
    tasks.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    tasks.truncate(MOST_TASKS);
    tasks
}

fn demands_s(trials: &[Counts]) -> Vec<f64> {
    trials.iter().filter_map(Counts::demand_s).collect()
}

/// The same frames and the same work.
fn is_like(spec: &TrialSpec, base: &TrialSpec) -> bool {
    (spec.work_s, spec.frame_bytes) == (base.work_s, base.frame_bytes)
}

impl Seen {
    /// Its counts, where something was.
    fn told(&self) -> Option<Counts> {
        self.counts.clone().filter(|c| c.packets > 0.0 && c.delivered > 0.0)
    }

    /// When the application had no CPU; None where nobody tells the pauses.
    fn away(&self) -> Option<Vec<Away>> {
        let visits = self.visits.iter().flatten().map(|visit| Away::Application(visit.at));
        Some(self.host.as_ref()?.iter().copied().map(Away::Cpu).chain(visits).collect())
    }
}

fn lengths_s<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<f64> {
    spans.map(|span| span.length_s).collect()
}

/// Over the trials that tell; None where none does.
fn pauses<'a>(
    trials: &[&'a Seen],
    shortest_s: f64,
    of: impl Fn(&'a Seen) -> Option<(Vec<f64>, f64)>,
) -> Option<Pauses> {
    let (mut lengths, mut measured_s, mut stolen_s, mut told) = (Vec::new(), 0.0, 0.0, false);
    for seen in trials {
        let Some((own, steal_share)) = of(seen) else { continue };
        told = true;
        lengths.extend(own);
        measured_s += seen.spec.seconds;
        stolen_s += steal_share * seen.spec.seconds;
    }
    let steal_share = if measured_s > 0.0 { stolen_s / measured_s } else { 0.0 };
    told.then(|| Pauses { steal_share: Some(steal_share), ..Pauses::of(&lengths, measured_s, shortest_s) })
}

fn clock_jumps(seen: &[Seen]) -> Vec<ClockJump> {
    let rates: Vec<f64> = seen.iter().filter_map(|seen| seen.outside.ns_per_tick).collect();
    let usual = stats::median(&rates).map(|figure| figure.value);
    let jump = |seen: &Seen| {
        let jump = |what| Some(ClockJump { at_s: seen.at_s, what });
        if seen.outside.suspended_s > LEAST_SUSPEND_S {
            return jump(format!("the machine slept for {:.3} s", seen.outside.suspended_s));
        }
        let off = seen.outside.ns_per_tick? / usual? - 1.0;
        if off.abs() <= STEADY_RATE {
            return None;
        }
        jump(format!(
            "the CPU's counter ran {:.0} ppm {} against the kernel's clock than in the median of the run: the clock was set, or the \
             virtual machine was moved",
            1e6 * off.abs(),
            if off < 0.0 { "faster" } else { "slower" }
        ))
    };
    seen.iter().filter_map(jump).collect()
}

/// Change from the first moment to the last and scatter about it, both over the mean, of (time, value) by least squares.
fn line(points: &[(f64, f64)]) -> Option<(Figure, f64)> {
    if points.len() < FEWEST_SPEEDS {
        return None;
    }
    let count = points.len() as f64;
    let middle = points.iter().map(|(t, _)| t).sum::<f64>() / count;
    let rows: Vec<Vec<f64>> = points.iter().map(|(t, _)| vec![1.0, t - middle]).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    // At the middle of the times the line has the mean of the values.
    let (line, inverse) = stats::least_squares(&rows, &values)?;
    let (mean, slope) = (line[0], line[1]);
    let squares: f64 = rows.iter().zip(&values).map(|(row, v)| (v - mean - slope * row[1]).powi(2)).sum();
    let variance = squares / (count - 2.0);
    let length = points.last()?.0 - points.first()?.0;
    let half = stats::student(points.len() - 2) * (variance * inverse[1][1]).sqrt() * length / mean;
    (mean > 0.0).then(|| (Figure::sampled(slope * length / mean, half, stats::CONFIDENCE), variance.sqrt() / mean))
}

impl Bench for Recorder<'_> {
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        let observation = self.bench.observe(spec, metered)?;
        self.keep(&observation);
        Ok(observation)
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        self.bench.ceiling(frame_bytes)
    }

    fn socket_capacity(&mut self, spec: &TrialSpec) -> Result<Option<f64>, TrialError> {
        self.bench.socket_capacity(spec)
    }

    fn ring_slots(&self) -> Option<u64> {
        self.bench.ring_slots()
    }

    fn cpu_method(&self) -> Result<String, String> {
        self.bench.cpu_method()
    }
}
