//! M/M/1/B: Poisson arrivals, one exponential server, B places with the one in service.

use super::geometric::Geometric;
use netcliff_core::math;

/// M/M/1/B in statistical equilibrium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mm1b {
    arrival: f64,
    service: f64,
    states: Geometric,
}

impl Mm1b {
    /// Arrival rate > 0, service rate > 0, `places` >= 1.
    pub fn new(arrival: f64, service: f64, places: u64) -> Self {
        Self { arrival, service, states: Geometric::with_ratio(arrival / service, places + 1) }
    }

    /// P(n present).
    pub fn probability(&self, n: u64) -> f64 {
        self.states.weight(n) / self.states.sum()
    }

    /// P(all places taken), the share of arrivals lost.
    pub fn blocking(&self) -> f64 {
        self.probability(self.states.terms - 1)
    }

    /// P(idle).
    pub fn idle(&self) -> f64 {
        self.probability(0)
    }

    /// P(busy), summed rather than 1 - P(idle).
    pub fn busy(&self) -> f64 {
        self.states.tail(1)
    }

    /// Departures a unit of time: service rate x P(busy).
    pub fn throughput(&self) -> f64 {
        // Near-empty, arrival x P(not full) is the exact one; near-full, service x P(busy) is.
        if self.arrival <= self.service { self.arrival * self.states.truncated().0 } else { self.service * self.busy() }
    }

    /// Mean number present.
    pub fn mean_present(&self) -> f64 {
        self.states.mean()
    }

    /// Mean time from acceptance to departure (Little).
    pub fn mean_sojourn(&self) -> f64 {
        self.mean_present() / self.throughput()
    }

    /// What an accepted arrival finds: geometric over 0..B-1.
    pub fn found(&self) -> Geometric {
        Geometric { x: self.states.x, terms: self.states.terms - 1 }
    }

    /// Service rate.
    pub fn service(&self) -> f64 {
        self.service
    }
}

impl Geometric {
    /// P(n < terms - 1) and P(n = terms - 1), each summed from positive terms.
    pub fn truncated(&self) -> (f64, f64) {
        let last = self.weight(self.terms - 1) / self.sum();
        if self.terms == 1 {
            return (0.0, 1.0);
        }
        let head = Self { x: self.x, terms: self.terms - 1 };
        // The head's largest weight is 1 for x <= 0, else e^-x on the whole's scale.
        let scale = if self.x <= 0.0 { 1.0 } else { math::exp(-self.x) };
        (scale * head.sum() / self.sum(), last)
    }
}
