//! The load at which a given share of trials fails, from all trials at all loads. A logistic curve in the logarithm of
//! the load is fitted by maximum likelihood. The interval comes from the profile of the likelihood (Wilks 1938).
//!
//! If failing is random over a wide range of loads, a search with few trials per load ends near its start. The
//! likelihood of the same trials does not depend on how the loads were chosen.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
