//! Truncated geometric weights e^(n x), n = 0..terms-1, where x = ln(ratio) may have either sign.

use crate::queue::complex;
use netcliff_core::math;
use num_complex::Complex64;

/// y / (e^y - 1), continuous at 0.
fn bernoulli(y: f64) -> f64 {
    if y.abs() < 1e-300 { 1.0 } else { y / math::exp_m1(y) }
}

/// L(y) = coth y - 1/y, continuous at 0 (odd, between -1 and 1).
pub fn langevin(y: f64) -> f64 {
    if y.abs() < 0.05 {
        // Series up to y^9: below this limit the next term is smaller than 1e-17, while the closed form loses eps/y.
        let s = y * y;
        return y * (1.0 / 3.0 + s * (-1.0 / 45.0 + s * (2.0 / 945.0 + s * (-1.0 / 4725.0 + s * 2.0 / 93555.0))));
    }
    1.0 / math::tanh(y) - 1.0 / y
}

/// Sum of e^(n x) over n = 0..terms-1, for x <= 0 (between 1 and `terms`).
fn sum_decreasing(x: f64, terms: f64) -> f64 {
    // (1 - e^(terms x)) / (1 - e^x) = terms * bernoulli(x) / bernoulli(terms x).
    if x == f64::NEG_INFINITY { 1.0 } else { terms * bernoulli(x) / bernoulli(terms * x) }
}

/// Weights e^(n x) for n = 0..terms-1, scaled so that the largest is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Geometric {
    /// x = ln(ratio of neighbouring weights).
    pub x: f64,
    /// Number of weights, at least 1.
    pub terms: u64,
}

impl Geometric {
    /// Makes weights whose neighbours have this `ratio` (> 0).
    pub fn with_ratio(ratio: f64, terms: u64) -> Self {
        Self { x: math::ln(ratio), terms }
    }

    /// Weight of `n`, relative to the largest.
    pub fn weight(&self, n: u64) -> f64 {
        let steps = if self.x <= 0.0 { n as f64 } else { n as f64 - (self.terms - 1) as f64 };
        if steps == 0.0 { 1.0 } else { math::exp(steps * self.x) }
    }

    /// Sum of the weights, between 1 and `terms`.
    pub fn sum(&self) -> f64 {
        sum_decreasing(-self.x.abs(), self.terms as f64)
    }

    /// Mean of n under the normalised weights: (terms-1)/2 + (terms L(terms x/2) - L(x/2))/2.
    pub fn mean(&self) -> f64 {
        let terms = self.terms as f64;
        if self.x < -1.0 {
            // For very small ratios the difference below would cancel; the direct sum then needs only two terms.
            let ratio = math::exp(self.x);
            let cut = terms * math::exp(terms * self.x) / -math::exp_m1(terms * self.x);
            return (ratio / -math::exp_m1(self.x) - cut).max(0.0);
        }
        (0.5 * (terms - 1.0) + 0.5 * (terms * langevin(0.5 * terms * self.x) - langevin(0.5 * self.x))).max(0.0)
    }

    /// E[y^n] under the normalised weights, for |y| <= 1.
    pub fn transform(&self, y: Complex64) -> Complex64 {
        let terms = self.terms as f64;
        let top = if self.terms == 1 { y } else { complex::pow(y, terms) };
        // Numerator terms relative to the largest weight, which is the first for x <= 0 and the last for x > 0.
        let (first, after_last) = if self.x <= 0.0 {
            (1.0, math::exp(terms * self.x))
        } else {
            (math::exp(-(terms - 1.0) * self.x), math::exp(self.x))
        };
        (first - after_last * top) / (1.0 - math::exp(self.x) * y) / self.sum()
    }

    /// P(n >= m) under the normalised weights.
    pub fn tail(&self, m: u64) -> f64 {
        if m >= self.terms {
            return 0.0;
        }
        let part = Self { x: self.x, terms: self.terms - m };
        // Relative to the largest weight, the tail's largest is its first, e^(m x), for x <= 0, and the last weight, 1,
        // for x > 0.
        let scale = if self.x <= 0.0 { self.weight(m) } else { 1.0 };
        scale * part.sum() / self.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_plain_sums() {
        for ratio in [1e-9, 0.1, 0.9, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1.1, 3.0, 1e6] {
            for terms in [1_u64, 2, 3, 10, 64] {
                let geometric = Geometric::with_ratio(ratio, terms);
                let weights: Vec<f64> = (0..terms).map(|n| geometric.weight(n)).collect();
                let sum: f64 = weights.iter().sum();
                let mean: f64 = weights.iter().enumerate().map(|(n, w)| n as f64 * w).sum::<f64>() / sum;
                let near = |got: f64, want: f64| (got - want).abs() <= 2e-13 * want.abs().max(1e-300);
                assert!(near(geometric.sum(), sum), "sum {ratio} {terms}");
                assert!(near(geometric.mean(), mean), "mean {ratio} {terms}: {} {mean}", geometric.mean());
                let tail: f64 = weights[terms as usize / 2..].iter().sum::<f64>() / sum;
                assert!(near(geometric.tail(terms / 2), tail), "tail {ratio} {terms}");
            }
        }
    }

    #[test]
    fn huge_and_critical_keeps_its_digits() {
        let geometric = Geometric::with_ratio(1.0, 1_000_001);
        assert_eq!(geometric.sum(), 1_000_001.0);
        assert!((geometric.mean() - 500_000.0).abs() < 1e-6);
    }
}
