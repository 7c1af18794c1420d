//! Cliffs including disturbances, by model and simulation: the host's own cliff, lowered by the pauses of its CPU
//! during the search.
//!
//! Each trial has a highest load at which its pauses lose no more than the target. The cliff is a quantile of these
//! loads over the trials: the share of failing trials that the definition of the cliff allows. The model computes all
//! measured trials with their own pauses, as a fluid that flows through ring and socket; the simulator computes some of
//! these trials, with the CPU's pauses at their measured times. Pauses come in bursts: if they were spread over all
//! trials, they would disturb each of them.

use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::finding::{ByEngine, PauseBudget};
use netcliff_core::{EngineFailure, Figure};
use netcliff_model::pauses;
use netcliff_sim::{SimEngine, SimulatedTrial, TRIAL_LOWEST};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use serde::{Deserialize, Serialize};

use super::engines::Predictor;
use super::fluid::{self, Away, Fluid, Measured};
use super::reading;
use netcliff_mlrsearch::Goal;
use netcliff_stats::quantile_at;

/// Number of simulated trials: the interval of their median has a confidence of 96 %.
const TRIALS: usize = 15;
/// Number of halvings in the model's search for the highest load of a trial.
const HALVINGS: u32 = 24;
/// Shares of the cliff at which the longest pause without loss is reported.
const BUDGET_SHARES: [f64; 2] = [0.5, 0.9];

/// A measured trial to be simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// (start, length) of the pauses of the trial's CPU (s), in order; adjacent pauses are merged.
    spans_s: Vec<(f64, f64)>,
    /// Highest load that the trial can pass without the pauses in `spans_s` (pps): the host's own cliff, or less
    /// because other tasks ran on its CPU.
    at_most_pps: f64,
}

impl Paused {
    /// Prepares a measured trial for simulation. The simulator has no pause during which softirqs run, so the effect of
    /// other tasks on the cliff at `own_pps` (pps) is computed by the fluid model.
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
}

/// Quantile over the highest loads of trials. Its interval combines two independent errors: the choice of trials, and
/// the error of the host's own cliff, which is assumed to move this quantile as it moves the quantile of the fluid
/// model. `by_fluid` returns the trials' highest loads in the fluid model for a given own cliff (pps); `fluid_pps` are
/// these loads for `own`. `None` without a trial.
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

/// Highest load that each trial passes as a fluid, for a host with its own cliff at `own_pps` (pps).
fn by_fluid(computed: &Predictor, own_pps: f64, measured: &Measured, goal: &Goal) -> Vec<f64> {
    let highest = |trial: &Vec<Away>| fluid_passes_pps(computed, own_pps, trial, measured.trial_s, goal);
    measured.trials.iter().map(highest).collect()
}

/// The model's cliff including disturbances, given the host's own cliff `own` by the model; `None` without a measured
/// trial.
pub fn by_model(computed: &Predictor, own: &Figure, measured: &Measured, goal: &Goal) -> Option<Figure> {
    let fluid = |own_pps: f64| by_fluid(computed, own_pps, measured, goal);
    let highest = fluid(own.value);
    over_trials(&highest, &highest, own, goal.exceed_ratio, fluid)
}

/// Highest load (pps) that a trial passes as a fluid, at most the host's own cliff `own_pps`.
fn fluid_passes_pps(computed: &Predictor, own_pps: f64, trial: &[Away], trial_s: f64, goal: &Goal) -> f64 {
    highest_pps(own_pps, |load_pps| {
        let lost: f64 = Fluid::of(computed, own_pps, load_pps).lost(trial, trial_s).iter().sum();
        lost <= goal.loss_ratio * load_pps * trial_s
    })
}

/// Bisects for the highest load for which `passes` is true, at most `cliff_pps` (pps).
fn highest_pps(cliff_pps: f64, passes: impl Fn(f64) -> bool) -> f64 {
    if passes(cliff_pps) {
        return cliff_pps;
    }
    let (mut low, mut high) = (TRIAL_LOWEST * cliff_pps, cliff_pps);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}

/// Returns the host's own cliff divided by the cliff without any disturbance, by the fluid model. The ratio is below 1
/// if after-effects of disturbances last longer than the drain that the evaluation for the own cliff excludes, such as
/// a full socket whose packets cost more (docs/theory/pauses.md, Two cliffs of one host). The fluid's host has its
/// undisturbed cliff at `cliff_pps`, and its trials are evaluated like the trials of the searches. `None` without a
/// usable trial.
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

/// Multiplies both engines' own cliffs by the after-effect of disturbances ([`left_behind`]); returns the undisturbed
/// cliffs. `None` without a usable trial; the cliffs then stay unchanged.
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

/// Multiplies a cliff by `share`, the after-effect of disturbances. If the result is below the interval, the lower end
/// of the interval becomes equal to the result.
fn moved(cliff: Figure, share: f64) -> Figure {
    let value = share * cliff.value;
    match cliff.interval {
        Some(ends) => Figure::between(value, ends.low.min(value), ends.high, ends.confidence),
        None => Figure::exact(value),
    }
}

/// Limits a cliff including disturbances to the host's own cliff: nothing that takes CPU time raises the cliff. Both
/// are quantiles over trials, but computed from different trials, so that the cliff including disturbances may exceed
/// the own cliff by chance.
pub(super) fn at_most(experienced: Figure, own: Option<Figure>) -> Figure {
    let Some(own) = own.filter(|own| experienced.value > own.value) else { return experienced };
    let Some(ends) = experienced.interval else { return Figure::exact(own.value) };
    let highest = own.interval.map_or(own.value, |own| own.high);
    Figure::between(own.value, ends.low.min(own.value), ends.high.min(highest).max(own.value), ends.confidence)
}

/// The simulated cliff including disturbances, given the host's own cliff `own` by simulation; `None` if `stop` was
/// set.
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

/// Highest load that each trial passes in simulation (pps); `None` if `stop` was set.
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
        let host = computed.host.with_pauses_at(&trial.spans_s, trial_s)?;
        let paused = Predictor { host, ..computed.clone() };
        let simulated = SimulatedTrial { number: number as u64, length_s: trial_s, loss: goal.loss_ratio };
        let point_at = |load_pps| Ok(paused.sim_point(load_pps));
        let engine = SimEngine { seed: paused.seed, ..SimEngine::default() };
        engine.highest_of_trial(&simulated, trial.at_most_pps, &point_at, &|| stop.load(Ordering::Relaxed))
    };
    trials.par_iter().enumerate().map(highest).collect()
}

/// The simulated trials of [`highest_of_trials`], in the form sent to the computing process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Job {
    /// Trials with pauses.
    Trials {
        /// The predictor, without the pauses.
        computed: Box<Predictor>,
        /// Pauses of each trial, which the serialised host does not contain.
        paused: Vec<Paused>,
        /// Goal that a passed trial meets.
        goal: Goal,
        /// Length of a trial (s).
        trial_s: f64,
    },
}

/// Both engines' cliffs including disturbances; `None` for an engine without an own cliff, for the simulator also after
/// `stop` or a failure. Also returns the reason if the simulator failed.
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

/// Returns, for shares of a cliff, the longest pause that loses no packet, and the number of measured pauses that were
/// longer (`None` if pauses were not measured). Loads that the host cannot serve are omitted.
pub fn budget(computed: &Predictor, cliff_pps: f64, measured: Option<&Measured>) -> Vec<PauseBudget> {
    let at = |share: f64| {
        let load_pps = share * cliff_pps;
        let budget = pauses::budget(&computed.host, computed.mean_frame_bytes(), load_pps)?;
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
