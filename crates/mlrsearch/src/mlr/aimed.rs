//! The selection of loads where a full trial costs many short ones and a single one upholds a load (RFC 2544's throughput).
//!
//! An unsteady device loses nothing in a full trial only at a load that all of its seconds carry, and bisection down to there pays
//! a full trial for each step. Short trials are cheap and show where that load will be:
//!
//! 1. Short trials alone find their own bounds within the width.
//! 2. A few more just above them give centre and spread ([`super::spread`]), and these the aim: the load of which half of the full
//!    trials lose nothing ([`super::belief`]). A device without noise shows itself here after one or two.
//! 3. A full trial at the aim, or within the width of the upper bound wherever that is likely enough to be upheld: then it is the last.
//! 4. Once one is upheld, short trials just above it, within the width, until one loses: that is the upper bound. Only where none
//!    does within the length of a full trial, the next full one is further up.
//!
//! Every trial goes into the belief. Where it leads nowhere the stages take over.

use statrs::distribution::{ContinuousCDF, Normal};

use super::belief::Belief;
use super::spread::{self, Spread};
use super::{End, Goal, State};
use crate::trial::{Range, Trial};

/// Fewer short trials in a full one than this are not worth a detour.
const WORTH: f64 = 10.0;
/// Of the length of a full trial, at most this share goes into learning the spread. The time that the devices of
/// bench/rfc2544 take changes little from a sixth to a half.
const LEARNING: f64 = 1.0 / 3.0;
/// Trials for the spread are made so many deviations above the centre: most of them lose, and lose little.
const ABOVE: f64 = 0.5;
/// The aim's standard error is taken as so many times what normal capacities would give: they need not be.
const CAUTION: f64 = 1.5;
/// Relative rise of the load, in deviations, that multiplies a normal distribution's lower tail by e where a minute's minimum lies.
const SCALE: f64 = 0.4;
/// A load within the width of the upper bound is tried if a full trial upholds it with this probability: that ends the search,
/// where a lower one is more likely to be upheld and then still needs its upper bound.
const LIKELY: f64 = 0.35;
/// After so many full trials that lost, distances grow, and a shorter trial goes first.
const PATIENCE: u32 = 3;
/// Its length over a full one's.
const FIRST: f64 = 0.25;
/// Full trials after which the stages take over.
const MOST: u32 = 12;

/// True for goals that this selection is for.
pub(super) fn is_for(goal: &Goal) -> bool {
    goal.exceed_ratio == 0.0
        && goal.duration_sum_s <= goal.final_trial_s
        && goal.final_trial_s >= WORTH * goal.initial_trial_s
}

/// Searches for one goal; None where the stages have to go on from what was found.
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

/// Standard error of the aim, in deviations of the capacity: that of a normal distribution's quantile.
fn error(spread: &Spread, per_full: f64) -> f64 {
    ((1.0 + per_full * per_full / 2.0) / spread.samples as f64).sqrt()
}

/// Short trials until the aim is known to a quarter of the width, or as well as is worth it.
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
        // Learning stays at or above the upper bound: a load below it that loses would become the bound.
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
    /// The device showed no noise.
    is_steady: bool,
    /// Loads in turn that a full trial, or one that went first, did not uphold.
    failed: u32,
    /// Loads above an upheld one to which the search went since none just above it lost.
    climbed: u32,
}

impl<'s, 'a, E> Aim<'s, 'a, E> {
    fn new(state: &'s mut State<'a, E>, goal: &'s Goal, spread: Spread, per_full: f64) -> Self {
        // The fit's deviation is too small by about one part in its samples.
        let deviation = spread.deviation * (1.0 + 1.0 / spread.samples as f64);
        let low = (1.0 - per_full * deviation).max(0.05);
        let least = goal.width / 8.0;
        let error = (CAUTION * spread.deviation * error(&spread, per_full) / low).max(least);
        let start = (error, (SCALE * deviation / low).max(least));
        let aim_pps = low * spread.centre_pps;
        let mut belief = Belief::new(aim_pps, start.0, start.1, goal.final_trial_s, goal.initial_trial_s);
        // Also those of earlier goals.
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

    /// The lowest load that is an upper bound within the width of `lower_pps`, short of a rounding.
    fn just_above(&self, lower_pps: f64) -> f64 {
        lower_pps / (1.0 - self.goal.width) * (1.0 - 1e-12)
    }

    /// Short trials just above a lower bound, until one loses or they took as long as a full one.
    fn finds_upper(&mut self, lower_pps: f64) -> Result<bool, E> {
        let load_pps = self.just_above(lower_pps);
        // A second short trial of a steady device shows what the first did: a buffer hides the loss from all of them.
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

    /// The load of the next full trial above one that was upheld and has no loss just above it.
    fn above(&mut self, lower_pps: f64, upper_pps: Option<f64>) -> f64 {
        let least = self.just_above(lower_pps);
        let stepped = lower_pps / (1.0 - self.goal.width).powi(1 << self.climbed.min(10)) * (1.0 - 1e-12);
        self.climbed += 1;
        let load_pps = self.belief.load(0.5).max(stepped);
        let Some(upper) = upper_pps else { return load_pps.max(least) };
        load_pps.min(upper * (1.0 - self.goal.width)).min(f64::midpoint(lower_pps, upper).max(least))
    }

    /// The load of the next full trial below the lowest that loses.
    fn below(&self, upper_pps: f64) -> f64 {
        let widths = 1 << self.failed.saturating_sub(PATIENCE).min(10);
        let near = upper_pps * (1.0 - self.goal.width).powi(widths);
        if self.belief.upheld(near) >= LIKELY { near } else { near.min(self.belief.load(0.5)) }
    }

    /// Whether a trial upheld the goal; None where the sender did not reach the load.
    fn is_upheld(&mut self, duration_s: f64, load_pps: f64) -> Result<Option<bool>, E> {
        // What a steady device forwards in a long trial is nearer than what it does in a short one.
        let made =
            if self.is_steady { self.asked(duration_s, load_pps) } else { self.state.decided(duration_s, load_pps) };
        let Some(trial) = made? else { return Ok(None) };
        let upheld = trial.loss_ratio() <= self.goal.loss_ratio;
        self.failed = if upheld { self.failed } else { self.failed + 1 };
        if self.is_steady && !upheld {
            // Longer trials see what short ones do not, a buffer that fills: what this one forwarded is nearer.
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
