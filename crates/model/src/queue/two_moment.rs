//! Finite queues of which only two moments of the input and service are known.

use super::geometric::Geometric;
use netcliff_core::math;

/// A queue with `places` waiting places and load `rho`, approximated by a diffusion with reflecting ends.
/// `variability`: variance of the net work per arrival, divided by the squared mean service (1 + cv^2 of service for
/// M/G/1 at rho = 1).
///
/// Formula of Gelenbe (1975): loss = rho (1-rho) e^(K x) / (1 - rho^2 e^(K x)), x = -2 (1-rho) / variability. Exact in
/// heavy traffic. For M/M/1/K (variability = 1 + rho) within 10 % for losses above 1e-9 at rho > 0.9.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoMoment {
    rho: f64,
    variability: f64,
    places: f64,
}

impl TwoMoment {
    /// The queue; rho >= 0 (may be infinite), variability > 0, places >= 1.
    pub fn new(rho: f64, variability: f64, places: u64) -> Self {
        Self { rho, variability, places: places as f64 }
    }

    /// ln of the ratio of neighbouring states' probabilities.
    fn x(&self) -> f64 {
        -2.0 * (1.0 - self.rho) / self.variability
    }

    /// Share of arrivals lost, in [0, 1].
    pub fn loss(&self) -> f64 {
        let Self { rho, variability, places } = *self;
        if rho == 0.0 {
            return 0.0;
        }
        if !rho.is_finite() {
            return 1.0;
        }
        let gap = 1.0 - rho;
        if gap.abs() < 1e-9 {
            // Limit at rho = 1: gap / (1 - rho^2 e^(K x)) -> 1 / (2 + K dx/drho), where dx/drho = 2 / variability.
            return 1.0 / (2.0 + 2.0 * places / variability);
        }
        // rho^2 e^(K x) = e^y; for y > 0 numerator and denominator are divided by e^y.
        let y = places * self.x() + 2.0 * math::ln(rho);
        let loss = if y <= 0.0 { gap / rho * math::exp(y) / -math::exp_m1(y) } else { -gap / rho / -math::exp_m1(-y) };
        loss.clamp(0.0, 1.0)
    }

    /// Mean number waiting. Below rho = 1: the mean of a truncated geometric distribution whose untruncated mean is
    /// `unbounded`, the mean of the infinite queue. Above rho = 1: the mean of the diffusion.
    pub fn mean_waiting(&self, unbounded: f64) -> f64 {
        if !self.rho.is_finite() {
            return self.places;
        }
        let terms = self.places as u64 + 1;
        let x = if self.rho >= 1.0 { self.x() } else { -math::ln_1p(1.0 / unbounded) };
        Geometric { x, terms }.mean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::birth_death::Mm1b;

    #[test]
    fn near_the_exact_loss_of_mm1k_and_monotone() {
        for places in [10_u64, 100, 5000] {
            let mut last = 0.0;
            for step in 1..400 {
                let rho = f64::from(step) * 0.005 + 0.5;
                let loss = TwoMoment::new(rho, 1.0 + rho, places).loss();
                let exact = Mm1b::new(rho, 1.0, places + 1).blocking();
                assert!(loss >= last && loss <= 1.0, "{rho} {places} {loss} {last}");
                if rho > 0.9 && exact > 1e-9 {
                    assert!(math::ln(loss / exact).abs() < 0.1, "{rho} {places} {loss} {exact}");
                }
                last = loss;
            }
        }
    }
}
