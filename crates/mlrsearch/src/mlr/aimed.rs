//! Selects loads for goals with long full trials, one of which suffices to uphold a load (RFC 2544's throughput).
//!
//! An unsteady device loses nothing in a full trial only at a load that it carries in every second of the trial.
//! Bisection down to this load would need a full trial for each step. Short trials are cheap and predict it:
//!
//! 1. A search with short trials only, to the width of the goal.
//! 2. A few more short trials just above its bounds. They give centre and spread of the capacity ([`super::spread`]),
//!    and so the aim: the load at which half of the full trials lose nothing ([`super::belief`]). One or two of them
//!    suffice to show that a device has no noise.
//! 3. A full trial at the aim. If a load within the width of the upper bound is likely enough to be upheld, the trial
//!    is made at that load, because it then ends the search.
//! 4. Once a full trial upholds a load: short trials just above it, within the width, until one loses, which gives the
//!    upper bound. If none loses within the length of a full trial, the next full trial is at a higher load.
//!
//! Every trial updates the belief. If this does not find the bounds, the stages of `mlr` take over.

use statrs::distribution::{ContinuousCDF, Normal};

use super::belief::Belief;
use super::spread::{self, Spread};
use super::{End, Goal, State};
use crate::trial::{Range, Trial};

/// This selection of loads is used if a full trial is at least this number of times as long as a short trial.
const WORTH: f64 = 10.0;
/// Longest total time of the trials that measure the spread, as a share of a full trial's length. The search time over
/// the devices of bench/rfc2544 changes little from a sixth to a half.
const LEARNING: f64 = 1.0 / 3.0;
/// Distance of the trials that measure the spread above the centre, in deviations: most of these trials lose, and lose
/// little.
const ABOVE: f64 = 0.5;
/// Factor by which the standard error of the aim is enlarged: it is computed for normally distributed capacities, and
/// real capacities need not be normal.
const CAUTION: f64 = 1.5;
/// Rise of the load, in deviations, that multiplies the lower tail of a normal distribution by e, near the smallest of
/// 60 values (the seconds of a minute).
const SCALE: f64 = 0.4;
/// Lowest probability that a full trial upholds a load within the width of the upper bound, at which this load is
/// tried: if upheld, it ends the search. A lower load is more likely to be upheld, but then still needs an upper bound.
const LIKELY: f64 = 0.35;
/// Number of failed trials after which the steps down grow, and a shorter trial precedes each full one.
const PATIENCE: u32 = 3;
/// Length of a shorter trial that precedes a full one ([`PATIENCE`]), as a share of a full trial's length.
const FIRST: f64 = 0.25;
/// Largest number of steps of this selection of loads; after that the stages of `mlr` continue.
const MOST: u32 = 12;

/// True for goals that this selection of loads is for.
pub(super) fn is_for(goal: &Goal) -> bool {
    goal.exceed_ratio == 0.0
        && goal.duration_sum_s <= goal.final_trial_s
        && goal.final_trial_s >= WORTH * goal.initial_trial_s
}

/// Searches for one goal. `None` if this does not find the bounds, so that the stages have to continue the search.
pub(super) fn pursue<E>(state: &mut State<'_, E>, goal: &Goal) -> Result<Option<End>, E> {
    let short = Goal { final_trial_s: goal.initial_trial_s, duration_sum_s: goal.initial_trial_s, ..*goal };
    if state.narrow(&short, None)? != End::Regular {
        return Ok(None);
    }
    let (_, Some(upper_pps)) = state.loads.bounds(&short) else { return Ok(None) };
    let per_full = Normal::standard().inverse_cdf(0.5f64.powf(short.final_trial_s / goal.final_trial_s));
    match learn(state, goal, upper_pps, per_full)? {
        Some(spread) => Aim::new(state, goal, spread, per_full).settle(),
        None => Ok(None),
    }
}

/// Standard error of the aim, in deviations of the capacity, as for a quantile of a normal distribution.
fn error(spread: &Spread, per_full: f64) -> f64 {
    ((1.0 + per_full * per_full / 2.0) / spread.samples as f64).sqrt()
}

/// Makes short trials until the aim is known to a quarter of the width, or a limit is reached ([`LEARNING`] or the
/// search's time). `None` if a trial is void, or fewer than two trials lost a little.
fn learn<E>(state: &mut State<'_, E>, goal: &Goal, upper_pps: f64, per_full: f64) -> Result<Option<Spread>, E> {
    let at_most = (LEARNING * goal.final_trial_s / goal.initial_trial_s) as u32;
    for taken in 0.. {
        let spread = spread::of(&state.tester.trials, goal.initial_trial_s, goal.loss_ratio);
        let known = |spread: &Spread| {
            taken > 0 && spread.lost >= 3 && spread.deviation * error(spread, per_full) < goal.width / 4.0
        };
        if taken >= at_most || spread.as_ref().is_some_and(known) || state.is_out_of_time() {
            return Ok(spread);
        }
        // These trials stay at or above the upper bound: a loss below it would make that load the bound.
        let above = spread.map_or(0.0, |spread| spread.centre_pps * (1.0 + ABOVE * spread.deviation));
        let load_pps = upper_pps.max(above).min(state.tester.range.max_pps);
        if state.trial(goal.initial_trial_s, load_pps)?.is_none() {
            return Ok(None);
        }
    }
    Ok(None)
}

struct Aim<'s, 'a, E> {
    state: &'s mut State<'a, E>,
    goal: &'s Goal,
    belief: Belief,
    /// Standard error and scale that the belief started with.
    start: (f64, f64),
    /// True if the device shows no noise.
    is_steady: bool,
    /// Number of trials that did not uphold the goal, counting full trials and the shorter ones before them.
    failed: u32,
    /// Number of moves to a higher load because no short trial just above an upheld load lost.
    climbed: u32,
}

impl<'s, 'a, E> Aim<'s, 'a, E> {
    fn new(state: &'s mut State<'a, E>, goal: &'s Goal, spread: Spread, per_full: f64) -> Self {
        // The fit underestimates the deviation by about the factor 1 + 1/samples.
        let deviation = spread.deviation * (1.0 + 1.0 / spread.samples as f64);
        let low = (1.0 - per_full * deviation).max(0.05);
        let least = goal.width / 8.0;
        let error = (CAUTION * spread.deviation * error(&spread, per_full) / low).max(least);
        let start = (error, (SCALE * deviation / low).max(least));
        let aim_pps = low * spread.centre_pps;
        let mut belief = Belief::new(aim_pps, start.0, start.1, goal.final_trial_s, goal.initial_trial_s);
        // Trials of earlier goals count, too.
        for trial in state.tester.trials.iter().filter(|trial| trial.duration_s > goal.initial_trial_s) {
            belief.hear(trial, goal.loss_ratio);
        }
        let is_steady = per_full * spread.deviation < goal.width / 4.0;
        Self { state, goal, belief, start, is_steady, failed: 0, climbed: 0 }
    }

    fn settle(mut self) -> Result<Option<End>, E> {
        for _ in 0..MOST {
            if self.state.is_narrow(self.goal) {
                return Ok(Some(End::Regular));
            }
            if self.state.is_out_of_time() {
                return Ok(Some(End::OutOfTime));
            }
            let (lower, upper) = self.state.loads.bounds(self.goal);
            let load_pps = match (lower, upper) {
                (Some(lower), _) if self.finds_upper(lower)? => continue,
                (Some(lower), upper) => self.above(lower, upper),
                (None, Some(upper)) => self.below(upper),
                (None, None) => self.belief.load(0.5),
            };
            let Range { min_pps, max_pps } = self.state.tester.range;
            if !(load_pps > min_pps && load_pps < max_pps) {
                return Ok(None);
            }
            let goes_first = lower.is_none() && (self.is_steady || self.failed >= PATIENCE);
            if goes_first && self.is_upheld(FIRST * self.goal.final_trial_s, load_pps)? != Some(true) {
                continue;
            }
            if self.is_upheld(self.goal.final_trial_s, load_pps)?.is_none() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Highest load (pps) that lies within the width of `lower_pps` as its upper bound, reduced a little against
    /// rounding.
    fn just_above(&self, lower_pps: f64) -> f64 {
        lower_pps / (1.0 - self.goal.width) * (1.0 - 1e-12)
    }

    /// Makes short trials just above a lower bound, until a trial loses more than the goal permits, or their total
    /// length is the length of a full trial (for a steady device: one trial). True if a trial lost more.
    fn finds_upper(&mut self, lower_pps: f64) -> Result<bool, E> {
        let load_pps = self.just_above(lower_pps);
        // Further short trials of a steady device would repeat the first: a buffer hides the loss from all of them.
        let most = if self.is_steady { 1 } else { (self.goal.final_trial_s / self.goal.initial_trial_s) as u32 };
        for _ in 0..most {
            if load_pps > self.state.tester.range.max_pps || self.state.is_out_of_time() {
                return Ok(false);
            }
            match self.asked(self.goal.initial_trial_s, load_pps)? {
                Some(trial) if trial.loss_ratio() > self.goal.loss_ratio => return Ok(true),
                Some(trial) => self.belief.hear(&trial, self.goal.loss_ratio),
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns the load of the next full trial (pps), above `lower_pps`. It is used if a full trial upheld `lower_pps`
    /// and short trials just above it lost nothing.
    fn above(&mut self, lower_pps: f64, upper_pps: Option<f64>) -> f64 {
        let least = self.just_above(lower_pps);
        let stepped = lower_pps / (1.0 - self.goal.width).powi(1 << self.climbed.min(10)) * (1.0 - 1e-12);
        self.climbed += 1;
        let load_pps = self.belief.load(0.5).max(stepped);
        let Some(upper) = upper_pps else { return load_pps.max(least) };
        load_pps.min(upper * (1.0 - self.goal.width)).min(f64::midpoint(lower_pps, upper).max(least))
    }

    /// Returns the load of the next full trial (pps), below `upper_pps`, the lowest load that failed.
    fn below(&self, upper_pps: f64) -> f64 {
        let widths = 1 << self.failed.saturating_sub(PATIENCE).min(10);
        let near = upper_pps * (1.0 - self.goal.width).powi(widths);
        if self.belief.upheld(near) >= LIKELY { near } else { near.min(self.belief.load(0.5)) }
    }

    /// Makes a trial and returns whether the trial upheld the goal; `None` if all repeats were void.
    fn is_upheld(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<bool>, E> {
        // A steady device gets the whole trial: its forwarding rate becomes the aim if the trial fails.
        let made =
            if self.is_steady { self.asked(duration_s, load_pps) } else { self.state.decided(duration_s, load_pps) };
        let Some(trial) = made? else { return Ok(None) };
        let upheld = trial.loss_ratio() <= self.goal.loss_ratio;
        self.failed = if upheld { self.failed } else { self.failed + 1 };
        if self.is_steady && !upheld {
            // A long trial shows losses that short trials hide, for instance behind a buffer: its forwarding rate is
            // the better aim.
            let (error, scale) = self.start;
            let aim_pps = trial.forwarding_pps().min(load_pps * (1.0 - self.goal.width / 2.0));
            let Goal { final_trial_s, initial_trial_s, .. } = *self.goal;
            self.belief = Belief::new(aim_pps, error, scale, final_trial_s, initial_trial_s);
        } else if !upheld && trial.duration_s < duration_s {
            self.belief.hear_ended(&trial);
        } else {
            self.belief.hear(&trial, self.goal.loss_ratio);
        }
        Ok(Some(upheld))
    }

    fn asked(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<Trial>, E> {
        let had = self.state.trial(duration_s, load_pps)?;
        Ok(had.and_then(|_| self.state.tester.trials.last().copied()))
    }
}
