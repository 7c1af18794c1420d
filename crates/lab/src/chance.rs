//! Seeded random numbers for simulated devices.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// From a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) as f64 + 0.5) * 2f64.powi(-53)
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }
}

/// Quantile of the standard normal distribution.
pub(crate) fn normal_quantile(p: f64) -> f64 {
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
