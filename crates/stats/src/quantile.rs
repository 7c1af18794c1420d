//! The load at which a given share of trials fails, from all trials at all loads.
//!
//! [`of`] fits a logistic curve in the logarithm of the load by maximum likelihood. Its interval comes from the profile
//! of the likelihood (Wilks 1938).
//!
//! [`crossing`] assumes only that failing becomes more likely with the load: isotonic regression (Ayer et al. 1955, "An
//! empirical distribution function for sampling with incomplete information"), with the interval of the likelihood ratio
//! (Banerjee and Wellner 2001, "Likelihood ratio tests for monotone functions"). The interval is for loads that were
//! chosen independently of the results. A search chooses loads by results: for simulated searches of `find` on a host
//! with pauses, the interval contained the true load in 353 of 500 runs.
//!
//! If failing is random over a wide range of loads, a search with few trials per load ends near its start. The
//! likelihood of the same trials does not depend on how the loads were chosen.

use netcliff_core::Figure;
use statrs::distribution::{ContinuousCDF, Normal};

/// Search grid: numbers of points for the load and for the width of the curve, range of the width (in logarithms: from
/// 0.3 % to a factor of e), and factor by which the grid exceeds the tried loads. The load has two grids: over all
/// loads, then over those that are likely by the first grid.
const LOADS: usize = 61;
const WIDTHS: usize = 9;
const WIDTH_LOW: f64 = 0.003;
const WIDTH_HIGH: f64 = 1.0;
const BEYOND: f64 = 1.5;

/// The load with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The most likely value.
    pub value: f64,
    /// Lower end of the interval. `None` if the interval extends beyond the grid.
    pub low: Option<f64>,
    /// Upper end of the interval. `None` if the interval extends beyond the grid.
    pub high: Option<f64>,
}

/// The load at which a trial fails with probability `share`, from `trials` (load, and whether the trial failed). `None`
/// if all trials failed or none did, or if `share` is below 0.1 or above 0.9, which few trials cannot resolve.
pub fn of(trials: &[(f64, bool)], share: f64, confidence: f64) -> Option<Quantile> {
    let failed = trials.iter().filter(|(_, failed)| *failed).count();
    if failed == 0 || failed == trials.len() || !(0.1..=0.9).contains(&share) {
        return None;
    }
    let logs: Vec<(f64, bool)> = trials.iter().map(|(load, failed)| (load.ln(), *failed)).collect();
    let low = logs.iter().map(|(x, _)| *x).fold(f64::INFINITY, f64::min) - BEYOND.ln();
    let high = logs.iter().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max) + BEYOND.ln();
    let offset = (share / (1.0 - share)).ln();
    let quantile = Normal::standard().inverse_cdf(0.5 + confidence / 2.0);
    let likely = |low: f64, high: f64| {
        let at = move |place: usize| low + (high - low) * place as f64 / (LOADS - 1) as f64;
        let profile: Vec<f64> = (0..LOADS).map(|place| best_width(&logs, at(place), offset)).collect();
        let best = (0..LOADS).max_by(|&a, &b| profile[a].total_cmp(&profile[b]))?;
        let inside = |place: &usize| profile[*place] >= profile[best] - quantile * quantile / 2.0;
        Some((at, best, (0..LOADS).find(inside)?, (0..LOADS).rev().find(inside)?))
    };
    let (at, _, first, last) = likely(low, high)?;
    let (fine, best, begin, end) = likely(at(first.saturating_sub(1)), at((last + 1).min(LOADS - 1)))?;
    Some(Quantile {
        value: fine(best).exp(),
        low: (first > 0).then(|| fine(begin).exp()),
        high: (last + 1 < LOADS).then(|| fine(end).exp()),
    })
}

/// Logarithm of the likelihood at `place`, for the best width.
fn best_width(trials: &[(f64, bool)], place: f64, offset: f64) -> f64 {
    let ratio = (WIDTH_HIGH / WIDTH_LOW).powf(1.0 / (WIDTHS - 1) as f64);
    let likelihood = |width: f64| -> f64 {
        let one = |(x, failed): &(f64, bool)| {
            let odds = (x - place) / width + offset;
            // ln of the logistic function, without overflow.
            let signed = if *failed { -odds } else { odds };
            -(signed.max(0.0) + (-signed.abs()).exp().ln_1p())
        };
        trials.iter().map(one).sum()
    };
    (0..WIDTHS).map(|step| likelihood(WIDTH_LOW * ratio.powi(step as i32))).fold(f64::NEG_INFINITY, f64::max)
}

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;
/// 95 % quantile of twice the logarithm of the likelihood ratio in the limit of many trials (Banerjee and Wellner 2001,
/// table 2). It is not that of the chi-squared distribution, because the probability of failing is not a curve with
/// parameters.
const RATIO: f64 = 2.27;

/// Trials at one load.
#[derive(Debug, Clone, Copy)]
struct Level {
    load: f64,
    trials: f64,
    failed: f64,
}

impl Level {
    fn share(&self) -> f64 {
        self.failed / self.trials
    }
}

/// Returns the load at which a trial fails with probability `share`, from `trials` (load, and whether the trial failed):
/// the middle (geometric mean) between the loads where the fitted probability crosses `share`. `None` if the fitted
/// probability does not cross it: all trials failed, say, or none did.
pub fn crossing(trials: &[(f64, bool)], share: f64) -> Option<Figure> {
    let levels = levels(trials);
    let fitted = isotonic(&levels);
    let below = fitted.iter().take_while(|p| **p < share).count();
    let above = fitted.iter().position(|p| *p > share)?;
    // Loads between which the probability crosses the share, or at which it equals the share.
    let (first, last) = (levels[below.checked_sub(1)?].load, levels[above].load);
    let best = likelihood(&levels, &fitted);
    // With the crossing between two loads, the constrained fit is the unconstrained one, limited on either side.
    let is_likely = |at: &usize| {
        let limited = fitted.iter().enumerate().map(|(level, p)| if level < *at { p.min(share) } else { p.max(share) });
        2.0 * (best - likelihood(&levels, &limited.collect::<Vec<_>>())) <= RATIO
    };
    let low = (0..=levels.len()).find(is_likely).map_or(0, |at| at.saturating_sub(1));
    let high = (0..=levels.len()).rev().find(is_likely).map_or(levels.len(), |at| at).min(levels.len() - 1);
    Some(Figure::between((first * last).sqrt(), levels[low].load, levels[high].load, CONFIDENCE))
}

/// Counts the trials at each load, in ascending order.
fn levels(trials: &[(f64, bool)]) -> Vec<Level> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut levels: Vec<Level> = Vec::new();
    for (load, failed) in sorted {
        let failed = f64::from(u8::from(failed));
        match levels.last_mut() {
            Some(level) if level.load == load => {
                level.trials += 1.0;
                level.failed += failed;
            }
            _ => levels.push(Level { load, trials: 1.0, failed }),
        }
    }
    levels
}

/// The most likely probabilities of failing that do not decrease with the load: neighbours that decrease are pooled.
fn isotonic(levels: &[Level]) -> Vec<f64> {
    let mut pools: Vec<(Level, usize)> = Vec::new();
    for level in levels {
        let mut pool = (*level, 1);
        while let Some((before, size)) = pools.pop_if(|(before, _)| before.share() >= pool.0.share()) {
            pool = (
                Level { trials: before.trials + pool.0.trials, failed: before.failed + pool.0.failed, ..before },
                size + pool.1,
            );
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|(pool, size)| std::iter::repeat_n(pool.share(), *size)).collect()
}

/// Logarithm of the likelihood of the trials with these probabilities of failing.
fn likelihood(levels: &[Level], fitted: &[f64]) -> f64 {
    let term = |count: f64, p: f64| if count > 0.0 { count * p.ln() } else { 0.0 };
    let one = |(level, p): (&Level, &f64)| term(level.failed, *p) + term(level.trials - level.failed, 1.0 - p);
    levels.iter().zip(fitted).map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn trials_that_change_sides_at_one_load_put_it_there() {
        let trials: Vec<(f64, bool)> = (1..=40).map(|k| (1e4 * f64::from(k), k > 20)).collect();
        let found = of(&trials, 0.5, 0.95).unwrap();
        assert!((found.value / 205e3 - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.low.is_some_and(|low| low > 150e3) && found.high.is_some_and(|high| high < 260e3), "{found:?}");
    }

    #[test]
    fn trials_of_one_kind_say_nothing() {
        assert_eq!(of(&[(1e5, true), (2e5, true)], 0.5, 0.95), None);
        assert_eq!(of(&[(1e5, false)], 0.5, 0.95), None);
        assert_eq!(of(&[(1e5, false), (2e5, true)], 0.0, 0.95), None);
    }

    #[test]
    fn a_sharp_change_is_between_its_two_loads() {
        let trials: Vec<(f64, bool)> = (1..=40).map(|k| (f64::from(k), k > 20)).collect();
        let crossing = crossing(&trials, 0.5).unwrap();
        let ends = crossing.interval.unwrap();
        assert!((20.0..21.0).contains(&crossing.value), "{crossing:?}");
        assert!(ends.low >= 18.0 && ends.low <= 20.0 && ends.high >= 21.0 && ends.high <= 23.0, "{crossing:?}");
    }

    #[test]
    fn without_a_crossing_there_is_no_load() {
        assert!(crossing(&[], 0.5).is_none());
        assert!(crossing(&[(1.0, false), (2.0, false)], 0.5).is_none());
        assert!(crossing(&[(1.0, true), (2.0, true)], 0.5).is_none());
        assert!(crossing(&[(1.0, true), (2.0, false)], 0.5).is_none(), "less likely at the higher load");
    }

    /// Three of ten trials fail at all loads up to 50, and all trials above: half of them fail at 50, where a logistic
    /// curve would not have it.
    #[test]
    fn the_probability_need_not_follow_a_curve() {
        let mut chance = Chance::new(1);
        let mut trial = |_| {
            let load = 10.0 + 60.0 * chance.uniform();
            (load, load > 50.0 || chance.uniform() < 0.3)
        };
        let trials: Vec<(f64, bool)> = (0..200).map(&mut trial).collect();
        let crossing = crossing(&trials, 0.5).unwrap();
        assert!((45.0..52.0).contains(&crossing.value), "{crossing:?}");
    }

    /// Seed 2, 400 samples of 60 trials whose probability of failing rises from 0 to 1 between 0 and 100: coverage of the
    /// interval with a nominal probability of 0.95 (standard error 0.011).
    #[test]
    fn the_interval_contains_the_true_load() {
        let mut chance = Chance::new(2);
        let mut covered = |_: i32| {
            let mut trial = |_: i32| {
                let load = 100.0 * chance.uniform();
                (load, chance.uniform() < load / 100.0)
            };
            let trials: Vec<(f64, bool)> = (0..60).map(&mut trial).collect();
            let ends = crossing(&trials, 0.5).unwrap().interval.unwrap();
            ends.low <= 50.0 && 50.0 <= ends.high
        };
        let share = (0..400).filter(|number| covered(*number)).count() as f64 / 400.0;
        assert!(share >= 0.91, "{share}");
    }

    /// The fit is the most likely one: no other non-decreasing probabilities of a coarse grid are more likely.
    #[test]
    fn no_other_probabilities_are_more_likely() {
        let trials = [
            (1.0, true),
            (1.0, false),
            (2.0, false),
            (3.0, true),
            (3.0, false),
            (4.0, false),
            (4.0, true),
            (5.0, true),
        ];
        let levels = levels(&trials);
        let best = likelihood(&levels, &isotonic(&levels));
        let grid: Vec<f64> = (1..20).map(|k| f64::from(k) / 20.0).collect();
        let mut all = vec![Vec::new()];
        for _ in &levels {
            let longer = |some: Vec<f64>| {
                let last = some.last().copied().unwrap_or(0.0);
                let add = move |p: &f64| [some.as_slice(), &[*p]].concat();
                grid.iter().filter(move |p| **p >= last).map(add).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        assert!(all.iter().all(|other| likelihood(&levels, other) <= best + 1e-9));
    }
}
