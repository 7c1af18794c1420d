//! Distribution of the number A of Poisson arrivals in a random time: a_k = P(A = k), P(A > k) and E[(A - k)^+].
//!
//! Tails are sums of tails, never 1 - cdf, so that they keep their relative accuracy.

use netcliff_core::math;

/// Distribution of a time with a given mean.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeShape {
    /// Exponential.
    Exponential,
    /// Constant.
    Deterministic,
    /// Sum of this number of exponentials.
    Erlang(u32),
    /// Lognormal with this coefficient of variation.
    Lognormal(f64),
    /// One of two exponentials: (probability, mean / mean of the whole).
    Hyperexponential([(f64, f64); 2]),
    /// One of several constants, as (probability, multiple of the mean).
    Parts(Vec<(f64, f64)>),
}

impl TimeShape {
    /// Squared coefficient of variation of the time.
    pub fn squared_variation(&self) -> f64 {
        match self {
            Self::Exponential => 1.0,
            Self::Deterministic => 0.0,
            Self::Erlang(stages) => 1.0 / f64::from(*stages),
            Self::Lognormal(cv) => cv * cv,
            Self::Hyperexponential(phases) => {
                phases.iter().map(|(share, mean)| 2.0 * share * mean * mean).sum::<f64>() - 1.0
            }
            Self::Parts(parts) => parts.iter().map(|(share, time)| share * (time - 1.0) * (time - 1.0)).sum(),
        }
    }
}

/// Probabilities below this are left out, as they cannot change any result.
const NOTHING: f64 = 1e-300;
/// Trapezoid nodes for the lognormal's normal variable: -9..9 in steps of 1/12, with an error below 1e-15 for smooth
/// integrands.
const NODES: i32 = 108;
const STEP: f64 = 1.0 / 12.0;

/// Largest number of geometric parts whose tails are summed in closed form.
const FEW: usize = 8;

/// The distribution for k = 0..=most.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalCounts {
    /// P(A = k); entries beyond the last are 0 or above `most`.
    pub equal: Vec<f64>,
    /// P(A > k).
    pub above: Vec<f64>,
    /// E[(A - k)^+].
    pub excess: Vec<f64>,
    /// (w, r) pairs such that P(A > k) = sum of w r^(k+1), if a few pairs suffice; empty otherwise. With pairs, a sum
    /// over tails takes one operation per pair and step.
    pub geometric: Vec<(f64, f64)>,
}

/// If the mean exceeds this multiple of the largest stored k, only the beginning of the distribution is computed. The
/// whole would not fit into memory, and less than a quarter of it is used.
const FAR: f64 = 4.0;

impl ArrivalCounts {
    /// Distribution up to `most` for a time whose mean is `load` mean interarrival times.
    pub fn new(shape: &TimeShape, load: f64, most: usize) -> Self {
        let zeros = || vec![0.0; most + 1];
        let mut counts = Self { equal: zeros(), above: zeros(), excess: zeros(), geometric: Vec::new() };
        counts.add_shape(shape, 1.0, load);
        counts
    }

    /// Like [`Self::new`], for a mixture such as frame sizes: with probability `share` the time's mean is multiplied by
    /// `factor`. `parts` are (share, factor); the shares have sum 1, the mean factor is 1. Empty `parts`: no mixture.
    pub fn mixture(shape: &TimeShape, load: f64, parts: &[(f64, f64)], most: usize) -> Self {
        if parts.is_empty() {
            return Self::new(shape, load, most);
        }
        let zeros = || vec![0.0; most + 1];
        let mut counts = Self { equal: zeros(), above: zeros(), excess: zeros(), geometric: Vec::new() };
        for (share, factor) in parts {
            counts.add_shape(shape, *share, load * factor);
        }
        if counts.geometric.len() > FEW {
            counts.geometric.clear();
        }
        counts
    }

    fn add_shape(&mut self, shape: &TimeShape, share: f64, load: f64) {
        match shape {
            TimeShape::Exponential => {
                self.add_geometric(share, load);
            }
            TimeShape::Deterministic => self.add(share, load, &poisson(load, self.equal.len() - 1)),
            TimeShape::Erlang(stages) => {
                let k = f64::from(*stages);
                let up = load / (k + load);
                // Ratios of the negative binomial: a_(j+1) / a_j = up (k + j) / (j + 1).
                let ratio = |j: f64| up * (k + j) / (j + 1.0);
                if load > FAR * self.equal.len() as f64 {
                    self.add_beginning(share, load, -k * math::ln_1p(load / k), ratio);
                } else {
                    self.add(share, load, &by_ratio(((k - 1.0) * up / (1.0 - up)).floor(), ratio));
                }
            }
            TimeShape::Lognormal(cv) => {
                let sigma = math::ln_1p(cv * cv).sqrt();
                let nodes: Vec<(f64, f64)> = (-NODES..=NODES)
                    .map(|i| f64::from(i) * STEP)
                    .map(|z| (math::exp(-0.5 * z * z), load * math::exp(sigma * z - 0.5 * sigma * sigma)))
                    .collect();
                let total: f64 = nodes.iter().map(|(weight, _)| weight).sum();
                for (weight, mean) in nodes {
                    self.add(share * weight / total, mean, &poisson(mean, self.equal.len() - 1));
                }
            }
            TimeShape::Hyperexponential(phases) => {
                for (phase, mean) in phases {
                    self.add_geometric(share * phase, load * mean);
                }
            }
            TimeShape::Parts(parts) => {
                for (part, time) in parts {
                    let mean = load * time;
                    self.add(share * part, mean, &poisson(mean, self.equal.len() - 1));
                }
            }
        }
    }

    /// Adds the distribution for an exponential time, with a `weight`.
    fn add_geometric(&mut self, weight: f64, load: f64) {
        let (stay, up) = (1.0 / (1.0 + load), load / (1.0 + load));
        self.geometric.push((weight, up));
        let mut power = weight;
        for k in 0..self.equal.len() {
            self.equal[k] += stay * power;
            power *= up;
            self.above[k] += power;
            self.excess[k] += power * (1.0 + load);
        }
    }

    /// Adds, with a `weight`, a distribution whose mean lies far above all entries, given by ln p_0 and the ratios
    /// p_(k+1)/p_k. Almost all probability lies above the entries, so that tails follow by subtraction.
    fn add_beginning(&mut self, weight: f64, mean: f64, none_ln: f64, ratio: impl Fn(f64) -> f64) {
        let (mut value_ln, mut above, mut excess) = (none_ln, 1.0, mean);
        for k in 0..self.equal.len() {
            let value = math::exp(value_ln);
            above -= value;
            self.equal[k] += weight * value;
            self.above[k] += weight * above;
            self.excess[k] += weight * excess;
            excess -= above;
            value_ln += math::ln(ratio(k as f64));
        }
    }

    /// Adds a distribution given by its mean and its probabilities from `first` on, with a `weight`.
    fn add(&mut self, weight: f64, mean: f64, (first, probabilities): &(usize, Vec<f64>)) {
        let most = self.equal.len() - 1;
        for k in 0..(*first).min(most + 1) {
            self.above[k] += weight;
            self.excess[k] += weight * (mean - k as f64).max(0.0);
        }
        let (mut above, mut excess) = (0.0, 0.0);
        for (i, probability) in probabilities.iter().enumerate().rev() {
            let k = first + i;
            excess += above;
            if k <= most {
                self.equal[k] += weight * probability;
                self.above[k] += weight * above;
                self.excess[k] += weight * excess;
            }
            above += probability;
        }
    }
}

/// Poisson probabilities (first k, probabilities); empty if all above [`NOTHING`] lie beyond `most`.
fn poisson(mean: f64, most: usize) -> (usize, Vec<f64>) {
    if mean > most as f64 + 40.0 * mean.sqrt() + 40.0 {
        return (most + 1, Vec::new());
    }
    by_ratio(mean.floor(), |k| mean / (k + 1.0))
}

/// A distribution from the ratios p_(k+1) / p_k, built from its `mode` outwards: (first k, probabilities).
fn by_ratio(mode: f64, ratio: impl Fn(f64) -> f64) -> (usize, Vec<f64>) {
    let mut low = Vec::new();
    let (mut k, mut value) = (mode, 1.0);
    while k > 0.0 {
        k -= 1.0;
        value /= ratio(k);
        if value < NOTHING {
            break;
        }
        low.push(value);
    }
    let first = mode as usize - low.len();
    let mut probabilities: Vec<f64> = low.into_iter().rev().collect();
    (k, value) = (mode, 1.0);
    while value > NOTHING {
        probabilities.push(value);
        value *= ratio(k);
        k += 1.0;
    }
    let total: f64 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|p| *p /= total);
    (first, probabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_sum_and_match_their_means() {
        let shapes = [
            TimeShape::Exponential,
            TimeShape::Deterministic,
            TimeShape::Erlang(4),
            TimeShape::Lognormal(0.5),
            TimeShape::Lognormal(1.5),
            TimeShape::Parts(vec![(0.2, 0.0), (0.4, 0.5), (0.4, 2.0)]),
        ];
        for shape in &shapes {
            for load in [1e-6, 0.3, 1.0, 7.0, 900.0] {
                let counts = ArrivalCounts::new(shape, load, 400);
                let total: f64 = counts.equal.iter().sum::<f64>() + counts.above[400];
                assert!((total - 1.0).abs() < 1e-12, "{shape:?} {load} {total}");
                assert!((counts.excess[0] / load - 1.0).abs() < 1e-9, "{shape:?} {load} {}", counts.excess[0]);
                for k in 0..400 {
                    assert!((counts.above[k] - counts.above[k + 1] - counts.equal[k + 1]).abs() < 1e-14);
                }
            }
        }
        // A mean far above all entries, computed by the beginning only, gives the same result as the whole
        // distribution.
        for (stages, load) in [(1, 900.0), (3, 900.0), (40, 700.0)] {
            let few = ArrivalCounts::new(&TimeShape::Erlang(stages), load, 150);
            let all = ArrivalCounts::new(&TimeShape::Erlang(stages), load, 4000);
            for k in 0..150 {
                for (a, b) in [(&few.equal, &all.equal), (&few.above, &all.above), (&few.excess, &all.excess)] {
                    assert!((a[k] / b[k] - 1.0).abs() < 1e-10, "{stages} {load} {k}: {} {}", a[k], b[k]);
                }
            }
        }
        assert!(ArrivalCounts::new(&TimeShape::Erlang(3), 1e15, 10).above[9] > 1.0 - 1e-12);
        let erlang = ArrivalCounts::new(&TimeShape::Erlang(1), 0.8, 10);
        let exponential = ArrivalCounts::new(&TimeShape::Exponential, 0.8, 10);
        assert!((erlang.above[9] / exponential.above[9] - 1.0).abs() < 1e-12);
    }
}
