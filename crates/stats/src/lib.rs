//! Statistics for measurements: means with Student intervals, least squares, quantiles, and comparisons.

use netcliff_core::math::two_sided_t;
use netcliff_core::{Figure, Interval};
use statrs::distribution::{Binomial, ChiSquared, ContinuousCDF as _, DiscreteCDF};

pub mod chance;
pub mod contrast;
pub mod few;
pub mod hurst;
mod least_squares;
pub mod quantile;

pub use least_squares::{Fit, Line, fit_non_negative, fit_non_negative_robust, least_squares};

/// Confidence of all intervals of measurements.
pub const CONFIDENCE: f64 = 0.95;

/// Two-sided Student quantile for `degrees` of freedom at [`CONFIDENCE`].
pub fn student(degrees: usize) -> f64 {
    student_at(degrees, CONFIDENCE)
}

/// Two-sided Student quantile for `degrees` of freedom at `confidence`.
pub fn student_at(degrees: usize, confidence: f64) -> f64 {
    two_sided_t(confidence, degrees)
}

/// Returns the value of `sorted` below which a share `share` (0 to below 1) of the values lies. `None` without values,
/// or if `share` is 1.
pub fn at_share(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get((share * sorted.len() as f64) as usize).copied()
}

/// Mean of repeats with its Student interval at [`CONFIDENCE`]. A single value has no interval. `None` without values.
pub fn mean(values: &[f64]) -> Option<Figure> {
    mean_at(values, CONFIDENCE)
}

/// Mean of repeats with its Student interval at `confidence`. A single value has no interval. `None` without values.
pub fn mean_at(values: &[f64], confidence: f64) -> Option<Figure> {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    match n {
        0 => None,
        1 => Some(Figure::exact(mean)),
        _ => {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            Some(Figure::sampled(mean, student_at(n - 1, confidence) * (variance / n as f64).sqrt(), confidence))
        }
    }
}

/// Median of repeats with the interval of order statistics that covers it with at least [`CONFIDENCE`]. With fewer than
/// 6 repeats: the whole range, with its actual confidence. `None` without values.
pub fn median(values: &[f64]) -> Option<Figure> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let middle = middle(&sorted)?;
    if n == 1 {
        return Some(Figure::exact(middle));
    }
    let (inward, coverage) = inward(n);
    Some(Figure::between(middle, sorted[inward], sorted[n - 1 - inward], coverage))
}

/// The value below which the share `share` (above 0, below 1) of the values lies, with the interval of order statistics
/// that covers this quantile of their distribution with at least [`CONFIDENCE`]. With too few values: an interval that
/// ends at the smallest or largest value, with its actual confidence. `None` without values.
pub fn quantile_at(values: &[f64], share: f64) -> Option<Figure> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n < 2 {
        return sorted.first().map(|value| Figure::exact(*value));
    }
    let below = Binomial::new(share, n as u64).ok()?;
    let outside = (1.0 - CONFIDENCE) / 2.0;
    // The l-th sorted value is at most the quantile if at least l values are at most the quantile. Half of the error
    // probability is on each side.
    let few = (0..n as u64).take_while(|few| below.cdf(*few) <= outside).count();
    let many = (1..=n as u64).rev().take_while(|many| below.sf(many - 1) <= outside).count();
    let (low_at, high_at) = (few.max(1) - 1, n - many.max(1));
    let coverage = below.cdf(high_at as u64) - below.cdf(low_at as u64);
    let middle = if share == 0.5 { middle(&sorted)? } else { sorted[((share * n as f64) as usize).min(n - 1)] };
    Some(Figure::between(middle, sorted[low_at], sorted[high_at], coverage.max(0.0)))
}

/// The middle of sorted values. `None` without values.
fn middle(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    (n > 0).then(|| if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 })
}

/// Number of the `n` sorted values outside the interval of order statistics on each side, and the confidence with which
/// the interval covers the median: at least [`CONFIDENCE`] for `n` of 6 or more.
fn inward(n: usize) -> (usize, f64) {
    // Coverage of (x_(k+1), x_(n-k)) is 1 - 2 P(Binomial(n, 1/2) <= k).
    let half_to_n = 0.5f64.powi(n as i32);
    let (mut tail, mut choose, mut inward, mut coverage) = (half_to_n, 1.0, 0usize, 1.0 - 2.0 * half_to_n);
    while inward + 1 < n / 2 {
        choose *= (n - inward) as f64 / (inward + 1) as f64;
        let next = tail + choose * half_to_n;
        if 1.0 - 2.0 * next < CONFIDENCE {
            break;
        }
        (tail, inward) = (next, inward + 1);
        coverage = 1.0 - 2.0 * tail;
    }
    (inward, coverage)
}

/// Summary of several bracketings of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracketed {
    /// Median of the geometric middles. `None` if at least half of the bracketings are open on one side.
    pub value: Option<f64>,
    /// Lower end of the interval. `None` if it is open.
    pub low: Option<f64>,
    /// Upper end of the interval. `None` if it is open.
    pub high: Option<f64>,
    /// Confidence of the interval; 0 for a single bracketing, whose interval is the bracketing itself.
    pub confidence: f64,
}

/// The interval of order statistics over bracketings of one value. Each is a pair of a lower and an upper end, both
/// above 0, or `None` if open. If each end is on its side of the value with a probability of at least 1/2,
/// independently of the other bracketings, the interval covers the value with at least its confidence. `None` without a
/// bracketing.
pub fn bracketed(brackets: &[(Option<f64>, Option<f64>)]) -> Option<Bracketed> {
    let n = brackets.len();
    let sorted = |mut ends: Vec<f64>| {
        ends.sort_by(f64::total_cmp);
        ends
    };
    let lower = sorted(brackets.iter().map(|(lower, _)| lower.unwrap_or(0.0)).collect());
    let upper = sorted(brackets.iter().map(|(_, upper)| upper.unwrap_or(f64::INFINITY)).collect());
    let both = |(lower, upper): &(Option<f64>, Option<f64>)| match (lower, upper) {
        (Some(lower), Some(upper)) => (lower * upper).sqrt(),
        (_, None) => f64::INFINITY,
        (None, Some(_)) => 0.0,
    };
    let value = middle(&sorted(brackets.iter().map(both).collect()))?;
    let known = |end: f64| (end > 0.0 && end.is_finite()).then_some(end);
    let (inward, coverage) = if n == 1 { (0, 0.0) } else { inward(n) };
    Some(Bracketed {
        value: known(value),
        low: known(lower[inward]),
        high: known(upper[n - 1 - inward]),
        confidence: coverage,
    })
}

/// Ratio of two sums over time slices, with the Student interval of its delete-one jackknife. The interval is missing
/// if fewer than three slices have a count above 0. `None` if the sum of the divisors is 0.
pub fn ratio(over: &[f64], under: &[f64]) -> Option<Figure> {
    let slices: Vec<(f64, f64)> =
        over.iter().copied().zip(under.iter().copied()).filter(|(x, n)| *x > 0.0 || *n > 0.0).collect();
    let (x, n) = slices.iter().fold((0.0, 0.0), |(x, n), slice| (x + slice.0, n + slice.1));
    if n <= 0.0 {
        return None;
    }
    let without: Vec<f64> =
        slices.iter().filter(|slice| n - slice.1 > 0.0).map(|slice| (x - slice.0) / (n - slice.1)).collect();
    let count = without.len();
    if count < 3 {
        return Some(Figure::exact(x / n));
    }
    let mean = without.iter().sum::<f64>() / count as f64;
    let spread: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    let error = ((count - 1) as f64 / count as f64 * spread).sqrt();
    Some(Figure::sampled(x / n, student(count - 1) * error, CONFIDENCE))
}

/// The interval that covers the mean of a Poisson count with [`CONFIDENCE`]. Source: Garwood 1936, by quantiles of chi
/// squared.
pub fn poisson(count: u64) -> Interval {
    let outside = (1.0 - CONFIDENCE) / 2.0;
    let quantile = |degrees: u64, p: f64| {
        ChiSquared::new(degrees as f64).map_or(f64::NAN, |chi_squared| chi_squared.inverse_cdf(p) / 2.0)
    };
    let low = if count == 0 { 0.0 } else { quantile(2 * count, outside) };
    Interval { low, high: quantile(2 * count + 2, 1.0 - outside), confidence: CONFIDENCE }
}

#[cfg(test)]
mod tests;
