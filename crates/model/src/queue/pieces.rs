//! [`Pieces`]: weights by level as runs with a constant ratio, so that a transform of a million levels costs as much as
//! one of a few runs.
//!
//! Far from their ends, queues have geometric levels, so that a few runs represent all of them. Weights without this
//! form are stored one by one.

use crate::queue::complex;
use num_complex::Complex64;

/// Levels at either end are left out if their weights sum to less than this share of the total; the sixth digit of
/// quantiles does not change.
const LEFT_OUT: f64 = 1e-14;
/// Relative difference from the run's ratio up to which a weight belongs to the run.
const NEAR: f64 = 1e-10;
/// Cost of storing and evaluating a run, as a multiple of the cost of a single weight (approximate).
const COST_OF_A_RUN: usize = 24;

/// Weights w_n of levels n.
#[derive(Debug, Clone, PartialEq)]
pub struct Pieces {
    /// The first level that is used.
    first: usize,
    form: Form,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    /// The weights one by one.
    All(Vec<f64>),
    /// (weight of the first level, ratio, number of levels) of each run, in order.
    Runs(Vec<(f64, f64, usize)>),
}

impl Pieces {
    /// Makes the pieces from `weights[n]`, n = 0, 1, ..., all at least 0.
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let from_front = negligible(weights.iter(), LEFT_OUT * total);
        let from_back = negligible(weights.iter().rev(), LEFT_OUT * total);
        let kept = weights.get(from_front..weights.len() - from_back).unwrap_or(&[]);
        let form = match runs(kept, kept.len() / COST_OF_A_RUN) {
            Some(runs) => Form::Runs(runs),
            None => Form::All(kept.to_vec()),
        };
        Self { first: from_front, form }
    }

    /// Approximate number of operations of a [`Pieces::transform`].
    pub fn cost(&self) -> usize {
        match &self.form {
            Form::All(weights) => weights.len(),
            Form::Runs(runs) => runs.len() * COST_OF_A_RUN,
        }
    }

    /// Sum of w_n x^n, for |x| <= 1.
    pub fn transform(&self, x: Complex64) -> Complex64 {
        let zero = Complex64::new(0.0, 0.0);
        let sum = match &self.form {
            Form::All(weights) => weights.iter().rev().fold(zero, |sum, weight| sum * x + *weight),
            Form::Runs(runs) => runs.iter().rev().fold(zero, |later, (weight, ratio, levels)| {
                *weight * geometric(x * *ratio, *levels) + later * x.powu(*levels as u32)
            }),
        };
        sum * x.powu(self.first as u32)
    }
}

/// Number of leading weights whose sum is below `most`.
fn negligible<'a>(weights: impl Iterator<Item = &'a f64>, most: f64) -> usize {
    let mut sum = 0.0;
    weights
        .take_while(|weight| {
            sum += **weight;
            sum <= most
        })
        .count()
}

/// Divides the weights into runs; `None` if more than `most` runs are needed.
fn runs(weights: &[f64], most: usize) -> Option<Vec<(f64, f64, usize)>> {
    let mut runs = Vec::new();
    let mut rest = weights;
    while let Some((first, later)) = rest.split_first() {
        if runs.len() >= most {
            return None;
        }
        let ratio = if *first > 0.0 { later.first().map_or(0.0, |next| next / first) } else { 0.0 };
        let mut expected = *first;
        let near = |weight: &&f64| {
            expected *= ratio;
            (**weight - expected).abs() <= NEAR * **weight
        };
        let levels = 1 + later.iter().take_while(near).count();
        runs.push((*first, ratio, levels));
        rest = &rest[levels..];
    }
    Some(runs)
}

/// 1 + y + ... + y^(n-1).
fn geometric(y: Complex64, n: usize) -> Complex64 {
    let one = Complex64::new(1.0, 0.0);
    let gap = one - y;
    let terms = n as f64;
    if complex::norm(gap) * terms < 1e-4 {
        // Sum of (1 - gap)^k to second order: the remainder is below 1e-13 of the sum.
        let (pairs, triples) = (0.5 * (terms - 1.0), (terms - 1.0) * (terms - 2.0) / 6.0);
        return terms * (one - gap * pairs + gap * gap * triples);
    }
    (one - y.powu(n as u32)) / gap
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term_by_term(weights: &[f64], x: Complex64) -> Complex64 {
        weights.iter().rev().fold(Complex64::new(0.0, 0.0), |sum, weight| sum * x + *weight)
    }

    /// Tests rising, constant and falling runs, weights without such a form, and all of them in sequence.
    #[test]
    fn transforms_are_those_of_all_weights() {
        let run = |first: f64, ratio: f64, levels: i32| (0..levels).map(move |k| first * ratio.powi(k));
        let odd: Vec<f64> = (0..500).map(|k| 1e-3 * (1.0 + f64::from(k * k % 7))).collect();
        let joined: Vec<f64> = run(1e-18, 1.1, 400).chain(run(0.04, 1.0, 3000)).chain(run(0.03, 0.99, 2000)).collect();
        let mixed: Vec<f64> = joined.iter().copied().chain(odd.iter().copied()).collect();
        for (weights, few) in [(joined, true), (odd, false), (mixed, false), (run(1.0, 0.5, 9).collect(), false)] {
            let total: f64 = weights.iter().sum();
            let pieces = Pieces::new(&weights);
            assert_eq!(pieces.cost() < 200, few || weights.len() < 200, "{}", pieces.cost());
            for (re, im) in [(1.0, 0.0), (0.999, 0.01), (0.3, -0.9), (1.0 - 1e-9, 1e-9), (0.99999, 3e-4)] {
                let x = Complex64::new(re, im);
                let error = (pieces.transform(x) - term_by_term(&weights, x)).norm();
                assert!(error < 1e-9 * total, "{re} {im}: {error}");
            }
        }
        assert_eq!(Pieces::new(&[]).transform(Complex64::new(1.0, 0.0)).re, 0.0);
    }
}
