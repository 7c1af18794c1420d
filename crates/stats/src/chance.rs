//! Seeded random numbers for simulated devices.

use netcliff_core::math::SplitMix64;

/// Draws of several distributions.
#[derive(Debug, Clone)]
pub struct Chance(SplitMix64);

impl Chance {
    /// Makes a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }
}

/// Quantile of the standard normal distribution.
pub fn normal_quantile(p: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().inverse_cdf(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 1, 10 000 draws: mean and variance within five standard errors (false alarm 6e-7 each).
    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut chance = Chance::new(1);
        let count = 10_000;
        let error = 5.0 / f64::from(count).sqrt();
        let mut mean =
            |draw: fn(&mut Chance) -> f64| (0..count).map(|_| draw(&mut chance)).sum::<f64>() / f64::from(count);
        assert!((mean(Chance::uniform) - 0.5).abs() < error / 12f64.sqrt());
        assert!((mean(Chance::exponential) - 1.0).abs() < error);
        assert!(mean(Chance::normal).abs() < error);
        assert!((mean(|chance| chance.normal().powi(2)) - 1.0).abs() < error * 2f64.sqrt());
    }
}
