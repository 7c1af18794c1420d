//! MLRsearch (RFC 9971): several goals in one search; each trial counts for all goals.
//!
//! The RFC leaves open which loads are tried. This implementation proceeds as follows:
//!
//! 1. If the throughput is unknown: a few short trials from the highest load down, each at the forwarding rate of the
//!    trial before. If it is roughly known: a trial there ([`Mlr::start_pps`]).
//! 2. For a goal of which one full trial upholds a load, such as RFC 2544's: `aimed`.
//! 3. For other goals, and if `aimed` does not find the bounds: stages of growing trials (`Goal::stages`). Each stage
//!    first confirms the bounds of the stage before. While a bound is missing, it moves outwards by doubling steps;
//!    with both bounds it halves the interval (by ratio).
//!
//! A load is tried only until it is classified.

mod aimed;
mod belief;
mod spread;

use netcliff_core::Invalid;

use super::load::{Class, Loads};
use super::{End, Found, Goal, Searched};
use crate::trial::{Answer, Range, Request, Tester, Trial};

/// Parameters of a search: goals, range of loads, and time limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlr {
    /// The goals.
    pub goals: Vec<Goal>,
    /// Loads that may be tried.
    pub range: Range,
    /// First load (pps), if the throughput is known to within a few widths. `None`: the highest load of the range.
    pub start_pps: Option<f64>,
    /// Trial time after which the search ends with the bounds it has (s); `None`: no limit.
    pub at_most_s: Option<f64>,
}

impl Mlr {
    /// Refuses invalid values.
    ///
    /// # Errors
    /// There is no goal, a goal is invalid, or the range is empty.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.goals.is_empty() {
            return Err(Invalid::new("goals", 0, "at least one"));
        }
        if !(self.range.min_pps > 0.0 && self.range.max_pps > self.range.min_pps && self.range.max_pps.is_finite()) {
            let range = format!("{} to {} pps", self.range.min_pps, self.range.max_pps);
            return Err(Invalid::new("loads", range, "above 0, the highest above the lowest"));
        }
        self.goals.iter().try_for_each(Goal::check)
    }
}

/// Searches for all goals. `ask` makes a whole trial; its arguments are length (s) and load (pps).
///
/// # Errors
/// The errors of `ask`.
pub fn search<E>(mlr: &Mlr, ask: &mut dyn FnMut(f64, f64) -> Result<Answer, E>) -> Result<Searched, E> {
    searched(mlr, None, &mut |request| ask(request.duration_s, request.load_pps))
}

/// Like [`search`], with a tester that may end a trial as soon as its result is decided ([`Request::most_lost`]).
///
/// # Errors
/// The errors of `ask`.
pub fn search_deciding<E>(mlr: &Mlr, ask: &mut dyn FnMut(Request) -> Result<Answer, E>) -> Result<Searched, E> {
    searched(mlr, decided_by(&mlr.goals), ask)
}

fn searched<E>(
    mlr: &Mlr,
    decided_by: Option<f64>,
    ask: &mut dyn FnMut(Request) -> Result<Answer, E>,
) -> Result<Searched, E> {
    let start_pps = mlr.start_pps.map(|pps| pps.clamp(mlr.range.min_pps, mlr.range.max_pps));
    let tester = Tester::new(mlr.range, ask);
    let mut state = State { tester, loads: Loads::default(), start_pps, at_most_s: mlr.at_most_s, decided_by };
    if start_pps.is_none() {
        state.descend(&mlr.goals)?;
    }
    let mut ends = vec![End::OutOfTime; mlr.goals.len()];
    // Trials for a later goal may move the bounds of an earlier goal, which is then searched again.
    for _ in 0..ROUNDS {
        for (goal, end) in mlr.goals.iter().zip(&mut ends) {
            *end = state.pursue(goal)?;
        }
        if mlr.goals.iter().zip(&ends).all(|(goal, end)| !end.is_regular() || state.is_narrow(goal)) {
            break;
        }
    }
    let found = mlr.goals.iter().zip(ends).map(|(goal, end)| state.found(goal, end)).collect();
    let State { tester, .. } = state;
    Ok(Searched { found, trials: tester.trials, void_trials: tester.void_trials, trial_time_s: tester.spent_s })
}

struct State<'a, E> {
    tester: Tester<'a, E>,
    loads: Loads,
    /// See [`Mlr::start_pps`].
    start_pps: Option<f64>,
    at_most_s: Option<f64>,
    /// See [`decided_by()`]; also `None` if the tester makes whole trials only.
    decided_by: Option<f64>,
}

/// Loss ratio above which a single trial, however short, fails its load for every goal. `None` if a goal allows some
/// trials to lose more (`exceed_ratio` above 0), because the length of each trial then matters.
fn decided_by(goals: &[Goal]) -> Option<f64> {
    goals
        .iter()
        .all(|goal| goal.exceed_ratio == 0.0)
        .then(|| goals.iter().map(|goal| goal.loss_ratio).fold(0.0, f64::max))
}

/// Largest number of passes over all goals.
const ROUNDS: u32 = 4;
/// Largest number of steps from the highest load down, each to the forwarding rate of the step before.
const DESCENTS: u32 = 2;
/// Near a known throughput, a trial that lost moves the search down by at most this number of widths on account of its
/// loss: a single disturbed trial may lose most of its frames.
const FARTHEST: i32 = 8;

impl<E> State<'_, E> {
    fn trial(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<f64>, E> {
        let Some(trial) = self.tester.trial(duration_s, load_pps)? else { return Ok(None) };
        self.loads.add(trial);
        Ok(Some(trial.forwarding_pps()))
    }

    /// Makes a trial that may end as soon as it fails its load for every goal. `None` if all repeats were void.
    fn decided(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<Trial>, E> {
        let Some(loss_ratio) = self.decided_by else {
            let made = self.trial(duration_s, load_pps)?;
            return Ok(made.and_then(|_| self.tester.trials.last().copied()));
        };
        let Some(trial) = self.tester.decided(duration_s, load_pps, loss_ratio)? else { return Ok(None) };
        self.loads.add(trial);
        Ok(Some(trial))
    }

    /// Makes short trials from the highest load down, each at the forwarding rate of the trial before, which for most
    /// devices is near the throughput.
    fn descend(&mut self, goals: &[Goal]) -> Result<(), E> {
        let shortest_s = goals.iter().map(|goal| goal.initial_trial_s).fold(f64::INFINITY, f64::min);
        let loss_ratio = goals.iter().map(|goal| goal.loss_ratio).fold(f64::INFINITY, f64::min);
        let mut load = self.tester.range.max_pps;
        for _ in 0..=DESCENTS {
            let Some(forwarded) = self.trial(shortest_s, load)? else {
                load = load.min(self.tester.range.max_pps);
                if self.tester.too_slow() {
                    return Ok(());
                }
                continue;
            };
            let next = (forwarded / (1.0 - loss_ratio)).clamp(self.tester.range.min_pps, self.tester.range.max_pps);
            if next >= load {
                return Ok(());
            }
            load = next;
        }
        Ok(())
    }

    fn is_narrow(&self, goal: &Goal) -> bool {
        matches!(self.loads.bounds(goal), (Some(lower), Some(upper)) if upper - lower <= goal.width * upper)
    }

    fn is_out_of_time(&self) -> bool {
        self.at_most_s.is_some_and(|limit_s| self.tester.spent_s >= limit_s)
    }

    fn pursue(&mut self, goal: &Goal) -> Result<End, E> {
        if self.is_narrow(goal) {
            return Ok(End::Regular);
        }
        if aimed::is_for(goal)
            && let Some(end) = aimed::pursue(self, goal)?
        {
            return Ok(end);
        }
        let stages = goal.stages();
        let mut end = End::OutOfTime;
        for (at, stage) in stages.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &stages[at]);
            end = self.narrow(stage, before)?;
            // A coarse stage that ended at the lowest or highest load does not end the search: a finer stage may decide
            // otherwise.
            if matches!(end, End::OutOfTime | End::SenderTooSlow) {
                break;
            }
        }
        Ok(end)
    }

    /// Makes trials until the bounds of `stage` are as close as its width, or the search cannot go on. `before`: the
    /// stage before it, whose bounds are tried first.
    fn narrow(&mut self, stage: &Goal, before: Option<&Goal>) -> Result<End, E> {
        let (mut steps_down, mut steps_up) = (0, 0);
        // Steps double if the throughput is roughly known; otherwise they quadruple.
        let growth = if self.start_pps.is_some() { 1 } else { 2 };
        loop {
            if self.is_out_of_time() {
                return Ok(End::OutOfTime);
            }
            let Range { min_pps, max_pps } = self.tester.range;
            let hint = before.map_or((None, None), |before| self.loads.bounds(before));
            let load = match self.loads.bounds(stage) {
                _ if self.tester.too_slow() => return Ok(End::SenderTooSlow),
                _ if self.is_narrow(stage) => return Ok(End::Regular),
                (_, Some(upper)) if upper <= min_pps => return Ok(End::BelowMinimum),
                (Some(lower), _) if lower >= max_pps => return Ok(self.tester.at_highest),
                (Some(lower), Some(upper)) => self.between(lower, upper, hint),
                (None, Some(upper)) => {
                    let stepped = upper * (1.0 - stage.width).powi(1 << steps_down.min(12));
                    let stepped = stepped.min(self.carried(upper, stage));
                    steps_down += growth;
                    hint.0.filter(|low| *low < upper).unwrap_or(0.0).max(stepped).max(min_pps)
                }
                (Some(lower), None) => {
                    let stepped = lower / (1.0 - stage.width).powi(1 << steps_up.min(12));
                    steps_up += growth;
                    hint.1.filter(|high| *high > lower).unwrap_or(f64::INFINITY).min(stepped).min(max_pps)
                }
                (None, None) => match hint {
                    (Some(bound), _) | (None, Some(bound)) => bound,
                    (None, None) => self.start_pps.unwrap_or(max_pps),
                },
            };
            self.classify(load.min(max_pps), stage)?;
        }
    }

    /// Estimates the throughput (pps) of a device that failed the goal at `upper_pps`: the geometric mean of load and
    /// forwarding rate, but at most [`FARTHEST`] widths below the load. Above its throughput, a device forwards between
    /// that throughput and its square divided by the load (livelock). Infinite if no throughput was known.
    fn carried(&self, upper_pps: f64, stage: &Goal) -> f64 {
        let Some(load) = self.loads.get(upper_pps).filter(|_| self.start_pps.is_some()) else { return f64::INFINITY };
        let (sent, lost) =
            load.trials.iter().fold((0, 0), |(sent, lost), trial| (sent + trial.sent, lost + trial.lost));
        let forwarded = 1.0 - lost.min(sent) as f64 / sent.max(1) as f64;
        upper_pps * forwarded.sqrt().max((1.0 - stage.width).powi(FARTHEST))
    }

    /// Next load between two bounds: a bound of the stage before, if it lies between them, because confirming it may
    /// end the stage; otherwise the geometric mean.
    fn between(&self, lower: f64, upper: f64, hint: (Option<f64>, Option<f64>)) -> f64 {
        let inside = |load: &f64| *load > lower && *load < upper;
        hint.0.filter(inside).or(hint.1.filter(inside)).unwrap_or_else(|| (lower * upper).sqrt())
    }

    /// Makes trials at a load until it is classified, the sender does not reach it, or the time limit is reached.
    fn classify(&mut self, load: f64, stage: &Goal) -> Result<(), E> {
        while self.loads.class(load, stage) == Class::Undecided {
            if self.is_out_of_time() {
                return Ok(());
            }
            // Trials of the shortest length run to their end: they measure how much a load loses, and cost little.
            let made = if stage.final_trial_s > stage.initial_trial_s {
                self.decided(stage.final_trial_s, load)?.is_some()
            } else {
                self.trial(stage.final_trial_s, load)?.is_some()
            };
            if !made {
                return Ok(());
            }
        }
        Ok(())
    }

    fn found(&self, goal: &Goal, end: End) -> Found {
        let (lower_pps, upper_pps) = self.loads.bounds(goal);
        let throughput_pps = lower_pps.and_then(|pps| Some(self.loads.get(pps)?.conditional_pps(goal)));
        Found { lower_pps, upper_pps, throughput_pps, end }
    }
}
