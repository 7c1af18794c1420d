//! The cliff as experienced, by model and simulation: the host's own, lowered by the pauses that its CPU had while it was searched.
//!
//! A trial has a highest load at which its pauses lose no more than the target; the cliff is the load that as many trials do not reach
//! as the definition allows: a quantile over trials. For the model these are the measured trials with their own pauses, as a fluid
//! through ring and socket; in simulation some of these trials, with the CPU's pauses at their own times. Pauses come in bouts: spread over
//! all trials they would disturb each of them.

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::finding::{ByEngine, PauseBudget};
use netcliff_core::host::PauseTimes;
use netcliff_core::{EngineFailure, Figure, Host};
use netcliff_model::pauses;
use netcliff_sim::SimEngine;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::engines::Predictor;
use super::fluid::{self, Away, Fluid, Measured};
use super::reading;
use netcliff_mlrsearch::Goal;
use netcliff_stats::quantile_at;

/// Trials simulated: their median has an interval of 96 %.
const TRIALS: usize = 15;
/// Steps of the search for the highest load of a trial by the model.
const HALVINGS: u32 = 24;
/// Resolution of loads in simulation; a trial that passes this little below the host's own cliff is taken to pass there.
const WIDTH: f64 = 0.01;
/// No load is tried below this share of the host's own cliff.
const LOWEST: f64 = 0.01;
/// Shares of the cliff at which the longest pause without loss is reported.
const BUDGET_SHARES: [f64; 2] = [0.5, 0.9];

/// A trial to simulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// Start and length of the pauses of its CPU by their start (s); those that touch are one.
    spans_s: Vec<(f64, f64)>,
    /// What it passes without them: the host's own cliff, or what other tasks leave of it (pps).
    at_most_pps: f64,
}

impl Paused {
    /// The simulator has no pause that leaves softirqs running: what other tasks leave of the cliff at `own_pps` is the fluid's answer.
    fn of(trial: &[Away], computed: &Predictor, own_pps: f64, goal: &Goal, trial_s: f64) -> Self {
        let (mut spans_s, mut visits) = (Vec::<(f64, f64)>::new(), Vec::new());
        for away in trial {
            match (away, spans_s.last_mut()) {
                (Away::Application(_), _) => visits.push(*away),
                (Away::Cpu(at), Some((from_s, length_s))) if at.from_s <= *from_s + *length_s => {
                    *length_s = length_s.max(at.from_s + at.length_s - *from_s);
                }
                (Away::Cpu(at), _) => spans_s.push((at.from_s, at.length_s)),
            }
        }
        let at_most_pps = fluid_passes_pps(computed, own_pps, &visits, trial_s, goal);
        Self { spans_s, at_most_pps }
    }

    /// A host with these pauses in a trial of this length (s).
    fn on(&self, host: &Host, trial_s: f64) -> Result<Host, EngineFailure> {
        let failed = |why: &dyn std::fmt::Display| EngineFailure::Failed(format!("pauses of a trial: {why}").into());
        let times = PauseTimes::recorded(self.spans_s.clone()).map_err(|error| failed(&error))?;
        // Only for what computes with means; the trial has them at their own times.
        let every_s = trial_s / self.spans_s.len() as f64;
        Ok(Host { pause_s: None, pause_every_s: Some(every_s), pause_times: Some(times), ..host.clone() })
    }
}

/// The quantile over the highest loads of trials. Two independent errors make its interval: which trials there were, and that of the own cliff, which
/// moves the figure as it moves the fluid's: `by_fluid` returns the highest loads for an own cliff (pps), `fluid_pps` those at `own`.
fn over_trials(
    highest_pps: &[f64],
    fluid_pps: &[f64],
    own: &Figure,
    exceed: f64,
    by_fluid: impl Fn(f64) -> Vec<f64>,
) -> Option<Figure> {
    let found = quantile_at(highest_pps, exceed)?;
    let (Some(sampled), Some(of_own)) = (found.interval, own.interval) else { return Some(found) };
    let at_own = quantile_at(fluid_pps, exceed)?.value;
    let moved = |end: f64| Some(found.value * (quantile_at(&by_fluid(end), exceed)?.value / at_own - 1.0));
    let below = (found.value - sampled.low).hypot(moved(of_own.low)?.min(0.0));
    let above = (sampled.high - found.value).hypot(moved(of_own.high)?.max(0.0));
    let confidence = sampled.confidence.min(of_own.confidence);
    Some(Figure::between(found.value, found.value - below, found.value + above, confidence))
}

/// The highest load that each trial passes as a fluid, of a host whose own cliff is at `own_pps` (pps).
fn by_fluid(computed: &Predictor, own_pps: f64, measured: &Measured, goal: &Goal) -> Vec<f64> {
    let highest = |trial: &Vec<Away>| fluid_passes_pps(computed, own_pps, trial, measured.trial_s, goal);
    measured.trials.iter().map(highest).collect()
}

/// The cliff as experienced by the model, whose own cliff of the host is at `own`; None without a trial.
pub fn by_model(computed: &Predictor, own: &Figure, measured: &Measured, goal: &Goal) -> Option<Figure> {
    let fluid = |own_pps: f64| by_fluid(computed, own_pps, measured, goal);
    let highest = fluid(own.value);
    over_trials(&highest, &highest, own, goal.exceed_ratio, fluid)
}

/// The highest load that a trial passes as a fluid, up to the host's own cliff at `own_pps`.
fn fluid_passes_pps(computed: &Predictor, own_pps: f64, trial: &[Away], trial_s: f64, goal: &Goal) -> f64 {
    highest_pps(own_pps, |load_pps| {
        let lost: f64 = Fluid::of(computed, own_pps, load_pps).lost(trial, trial_s).iter().sum();
        lost <= goal.loss_ratio * load_pps * trial_s
    })
}

/// The highest load that passes, up to a cliff (pps).
fn highest_pps(cliff_pps: f64, passes: impl Fn(f64) -> bool) -> f64 {
    if passes(cliff_pps) {
        return cliff_pps;
    }
    let (mut low, mut high) = (LOWEST * cliff_pps, cliff_pps);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}

/// The host's own cliff over that of the same host without any disturbance: the after-effect of disturbances that outlasts the drain
/// left out by the own reading, such as a full socket whose packets cost more (docs/theory/pauses.md, Two cliffs of one host). By the
/// fluid, of a host whose undisturbed cliff is at `cliff_pps`, read as the trials of the searches are; None without a usable trial.
fn left_behind(
    computed: &Predictor,
    cliff_pps: f64,
    measured: &Measured,
    goal: &Goal,
    capacity_pps: f64,
) -> Option<f64> {
    let left = |trial: &Vec<Away>, load_pps: f64| {
        let lost = Fluid::of(computed, cliff_pps, load_pps).lost(trial, measured.trial_s);
        reading::left(&lost, fluid::SLOT_S, trial.iter().map(Away::at), load_pps, capacity_pps)
    };
    let highest = |trial: &Vec<Away>| {
        left(trial, cliff_pps)?;
        let passes = |load_pps: f64| left(trial, load_pps).is_some_and(|loss| loss <= goal.loss_ratio);
        Some(highest_pps(cliff_pps, passes))
    };
    let highest: Vec<f64> = measured.trials.iter().filter_map(highest).collect();
    Some(quantile_at(&highest, goal.exceed_ratio)?.value / cliff_pps)
}

/// Applies the after-effect of disturbances to both engines' own cliffs; returns the undisturbed ones. None without a usable trial.
pub fn disturbed(
    computed: &Predictor,
    cliffs: &mut ByEngine<Figure>,
    measured: &Measured,
    goal: &Goal,
    capacity_pps: f64,
) -> Option<ByEngine<Figure>> {
    let undisturbed = ByEngine { wire: None, ..cliffs.clone() };
    let share = left_behind(computed, undisturbed.model.or(undisturbed.sim)?.value, measured, goal, capacity_pps)?;
    cliffs.model = cliffs.model.map(|cliff| moved(cliff, share));
    cliffs.sim = cliffs.sim.map(|cliff| moved(cliff, share));
    Some(undisturbed)
}

/// A cliff with that after-effect: the figure moves within its interval, or moves its lower end.
fn moved(cliff: Figure, share: f64) -> Figure {
    let value = share * cliff.value;
    match cliff.interval {
        Some(ends) => Figure::between(value, ends.low.min(value), ends.high, ends.confidence),
        None => Figure::exact(value),
    }
}

/// A cliff with all pauses, which is at most the host's own: nothing that takes a CPU raises it. Both are quantiles over trials, of which the own
/// reading leaves some out, so that chance alone may have put it above.
pub(super) fn at_most(experienced: Figure, own: Option<Figure>) -> Figure {
    let Some(own) = own.filter(|own| experienced.value > own.value) else { return experienced };
    let Some(ends) = experienced.interval else { return Figure::exact(own.value) };
    let highest = own.interval.map_or(own.value, |own| own.high);
    Figure::between(own.value, ends.low.min(own.value), ends.high.min(highest).max(own.value), ends.confidence)
}

/// The cliff as experienced in simulation, whose own cliff of the host is at `own`; None if `stop` was set meanwhile.
///
/// # Errors
/// The simulator does not support the point.
pub fn in_simulation(
    computed: &Predictor,
    own: &Figure,
    measured: &Measured,
    goal: &Goal,
    stop: &AtomicBool,
) -> Result<Option<Figure>, EngineFailure> {
    if measured.trials.iter().all(Vec::is_empty) {
        return Ok(Some(*own));
    }
    let of = |trial: &Vec<Away>| Paused::of(trial, computed, own.value, goal, measured.trial_s);
    let trials: Vec<Paused> = measured.some(TRIALS).into_iter().map(of).collect();
    let found = highest_of_trials(computed, &trials, goal, measured.trial_s, stop)?;
    let fluid = |own_pps: f64| by_fluid(computed, own_pps, measured, goal);
    Ok(found.and_then(|highest| over_trials(&highest, &fluid(own.value), own, goal.exceed_ratio, fluid)))
}

/// The highest load that each trial passes in simulation (pps); None if `stop` is set.
///
/// # Errors
/// The simulator does not support the point.
pub fn highest_of_trials(
    computed: &Predictor,
    trials: &[Paused],
    goal: &Goal,
    trial_s: f64,
    stop: &AtomicBool,
) -> Result<Option<Vec<f64>>, EngineFailure> {
    let (boxed, sent) = (|| Box::new(computed.clone()), || trials.to_vec());
    let job = || Job::Trials { computed: boxed(), paused: sent(), goal: *goal, trial_s };
    if let Some(answer) = computed.elsewhere.ask(job) {
        return answer;
    }
    let highest = |(number, trial): (usize, &Paused)| {
        if trial.spans_s.is_empty() {
            return Ok(Some(trial.at_most_pps));
        }
        let paused = Predictor { host: trial.on(&computed.host, trial_s)?, ..computed.clone() };
        Trial { paused: &paused, goal, trial_s, number: number as u64 }.highest(trial.at_most_pps, stop)
    };
    trials.par_iter().enumerate().map(highest).collect()
}

/// A simulated trial: one measured trial's pauses, the same at every load.
struct Trial<'a> {
    paused: &'a Predictor,
    goal: &'a Goal,
    trial_s: f64,
    number: u64,
}

impl Trial<'_> {
    fn passes(&self, load_pps: f64) -> Result<bool, EngineFailure> {
        let engine = SimEngine { seed: self.paused.seed, ..SimEngine::default() };
        let packets = (load_pps * self.trial_s).ceil() as u64;
        Ok(engine.trial_loss(&self.paused.sim_point(load_pps), self.number, packets)? <= self.goal.loss_ratio)
    }

    /// The highest load that it passes, up to `most_pps`; None once `stop` is set.
    fn highest(&self, most_pps: f64, stop: &AtomicBool) -> Result<Option<f64>, EngineFailure> {
        let (mut low, mut high) = (LOWEST * most_pps, most_pps);
        if self.passes((1.0 - WIDTH) * most_pps)? {
            return Ok(Some(most_pps));
        }
        while high / low > 1.0 + WIDTH {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let middle = (low * high).sqrt();
            if self.passes(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }
}

/// The simulated trials of [`highest_of_trials`], as they are sent to the process that computes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Job {
    /// Trials with pauses.
    Trials {
        /// Without the pauses.
        computed: Box<Predictor>,
        /// The pauses of each trial, which a host that is sent does not hold.
        paused: Vec<Paused>,
        /// What a trial passes.
        goal: Goal,
        /// Length of a trial (s).
        trial_s: f64,
    },
}

/// Both engines' cliffs as experienced, if they have an own cliff and `stop` is not set; and why the simulator failed, if it did.
pub fn by_engines(
    computed: &Predictor,
    own: &ByEngine<Figure>,
    measured: &Measured,
    goal: &Goal,
    stop: &AtomicBool,
) -> (ByEngine<Figure>, Option<EngineFailure>) {
    let model = own.model.and_then(|own| by_model(computed, &own, measured, goal));
    let simulated = own.sim.and_then(|own| {
        let (measured, goal) = (measured.clone(), *goal);
        computed
            .unless_stopped(stop, move |computed, unwanted| in_simulation(computed, &own, &measured, &goal, unwanted))
    });
    let (sim, failure) = match simulated {
        Some(Ok(sim)) => (sim, None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    (ByEngine { model, sim, wire: None }, failure)
}

/// The longest pauses without loss at shares of a cliff, with how many pauses were longer where they were measured.
pub fn budget(computed: &Predictor, cliff_pps: f64, measured: Option<&Measured>) -> Vec<PauseBudget> {
    let at = |share: f64| {
        let load_pps = share * cliff_pps;
        let budget = pauses::budget(&computed.host, computed.frame_bytes(), load_pps)?;
        let longer = |measured: &Measured| {
            measured.lengths_s().iter().filter(|length_s| **length_s > budget.longest_s).count() as u64
        };
        let pauses::Budget { longest_s, first } = budget;
        Some(PauseBudget { share, load_pps, longest_s, first, longer: measured.map(longer) })
    };
    BUDGET_SHARES.into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests;
