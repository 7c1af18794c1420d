//! Uniformization: the effect of a Markov chain during a constant time, as a mixture of powers of the jump matrix, with
//! jumps at one rate. All terms are positive.

use super::arrivals::{ArrivalCounts, TimeShape};

/// A Poisson variable with this mean exceeds the returned number with a probability below 1e-17.
pub fn furthest(mean: f64) -> f64 {
    mean + 12.0 * mean.sqrt() + 40.0
}

/// Weights of the number of jumps during a time: `ends` for the state at the end, `spent_s` for the time spent in
/// states.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// Rate of jumps, including those that do not change the state (1/s).
    pub rate: f64,
    /// `[n]`: P(n jumps).
    pub ends: Vec<f64>,
    /// `[n]`: P(more than n jumps) / rate (s).
    pub spent_s: Vec<f64>,
}

impl Mixture {
    /// Computes the mixture for jumps at `rate` (1/s) during a time (s).
    pub fn over(rate: f64, time_s: f64) -> Self {
        let counts = poisson(rate * time_s);
        Self { rate, spent_s: counts.above.iter().map(|tail| tail / rate).collect(), ends: counts.equal }
    }

    /// Returns the mixture without the numbers of jumps that are exceeded with a probability below `rarest`. The
    /// remaining probabilities in `ends` are scaled to sum 1.
    #[must_use]
    pub fn without(mut self, rarest: f64) -> Self {
        let last = self.spent_s.iter().position(|spent_s| spent_s * self.rate < rarest);
        let kept = last.map_or(self.ends.len(), |last| last + 1);
        self.ends.truncate(kept);
        self.spent_s.truncate(kept);
        let all: f64 = self.ends.iter().sum();
        self.ends.iter_mut().for_each(|share| *share /= all);
        self
    }
}

/// Distribution of a Poisson number with this mean, up to negligible probabilities.
pub fn poisson(mean: f64) -> ArrivalCounts {
    ArrivalCounts::new(&TimeShape::Deterministic, mean, furthest(mean) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_matters_is_further() {
        for mean in [1e-3, 1.0, 30.0, 2e3, 1e5] {
            let counts = poisson(mean);
            let last = counts.above.last().expect("counts");
            assert!(*last < 1e-17, "{mean}: {last}");
        }
    }

    #[test]
    fn the_weights_are_those_of_the_whole_time() {
        for mixture in [Mixture::over(3e5, 1e-4), Mixture::over(3e5, 1e-4).without(1e-15)] {
            let (ends, spent_s) = (mixture.ends.iter().sum::<f64>(), mixture.spent_s.iter().sum::<f64>());
            assert!((ends - 1.0).abs() < 1e-12 && (spent_s - 1e-4).abs() < 1e-15, "{ends}, {spent_s}");
            assert_eq!(mixture.ends.len(), mixture.spent_s.len());
        }
    }
}
