//! M/M/1/B: Poisson arrivals, one exponential server, B places including the one in service.

use super::geometric::Geometric;
use netcliff_core::math;

/// The queue M/M/1/B in equilibrium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mm1b {
    arrival: f64,
    service: f64,
    states: Geometric,
}

impl Mm1b {
    /// Makes the queue; requires arrival rate > 0, service rate > 0 and `places` >= 1.
    pub fn new(arrival: f64, service: f64, places: u64) -> Self {
        Self { arrival, service, states: Geometric::with_ratio(arrival / service, places + 1) }
    }

    /// P(n packets present).
    pub fn probability(&self, n: u64) -> f64 {
        self.states.weight(n) / self.states.sum()
    }

    /// P(all places are taken): share of arrivals lost.
    pub fn blocking(&self) -> f64 {
        self.probability(self.states.terms - 1)
    }

    /// P(idle).
    pub fn idle(&self) -> f64 {
        self.probability(0)
    }

    /// P(busy), as a sum of positive terms rather than 1 - P(idle).
    pub fn busy(&self) -> f64 {
        self.states.tail(1)
    }

    /// Departures per unit of time: service rate x P(busy).
    pub fn throughput(&self) -> f64 {
        // At low load arrival x P(not full) is accurate, at high load service x P(busy).
        if self.arrival <= self.service { self.arrival * self.states.truncated().0 } else { self.service * self.busy() }
    }

    /// Mean number present.
    pub fn mean_present(&self) -> f64 {
        self.states.mean()
    }

    /// Mean time from acceptance to departure, by Little's law.
    pub fn mean_sojourn(&self) -> f64 {
        self.mean_present() / self.throughput()
    }

    /// Distribution of the number of packets that an accepted arrival finds: geometric over 0..B-1.
    pub fn found(&self) -> Geometric {
        Geometric { x: self.states.x, terms: self.states.terms - 1 }
    }

    /// Service rate.
    pub fn service(&self) -> f64 {
        self.service
    }
}

impl Geometric {
    /// Returns P(n < terms - 1) and P(n = terms - 1), each as a sum of positive terms.
    pub fn truncated(&self) -> (f64, f64) {
        let last = self.weight(self.terms - 1) / self.sum();
        if self.terms == 1 {
            return (0.0, 1.0);
        }
        let head = Self { x: self.x, terms: self.terms - 1 };
        // Scale of the first terms: their largest weight is 1 for x <= 0, otherwise e^-x relative to the whole.
        let scale = if self.x <= 0.0 { 1.0 } else { math::exp(-self.x) };
        (scale * head.sum() / self.sum(), last)
    }
}
