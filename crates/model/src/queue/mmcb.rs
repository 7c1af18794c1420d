//! M/M/c/B: Poisson arrivals, c exponential servers, B places including those in service.
//!
//! p_n is proportional to the product of arrival / (min(n, c) service). It is built from its mode outwards, so that
//! nothing overflows and small probabilities stay accurate. O(B) operations.

use netcliff_core::math;

/// The queue M/M/c/B in equilibrium.
#[derive(Debug, Clone, PartialEq)]
pub struct Mmcb {
    arrival: f64,
    service: f64,
    servers: usize,
    probabilities: Vec<f64>,
}

impl Mmcb {
    /// Makes the queue; requires arrival rate > 0, service rate of one server > 0, `servers` >= 1 and `places` >=
    /// `servers`. Otherwise `None`.
    pub fn new(arrival: f64, service: f64, servers: usize, places: usize) -> Option<Self> {
        let positive = |rate: f64| rate.is_finite() && rate > 0.0;
        if !positive(arrival) || !positive(service) || servers == 0 || places < servers {
            return None;
        }
        // p_n / p_(n-1) falls with n: the mode is the last n at which it is at least 1.
        let ratio = |n: usize| arrival / (n.min(servers) as f64 * service);
        let mode = if ratio(servers) >= 1.0 { places } else { ((arrival / service) as usize).min(servers) };
        let mut probabilities = vec![0.0; places + 1];
        probabilities[mode] = 1.0;
        for n in (0..mode).rev() {
            probabilities[n] = probabilities[n + 1] / ratio(n + 1);
        }
        for n in mode + 1..=places {
            probabilities[n] = probabilities[n - 1] * ratio(n);
        }
        let total = sum(&probabilities);
        probabilities.iter_mut().for_each(|p| *p /= total);
        Some(Self { arrival, service, servers, probabilities })
    }

    /// P(n packets present), n = 0..=B.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// Share of arrivals lost.
    pub fn blocking(&self) -> f64 {
        self.probabilities[self.probabilities.len() - 1]
    }

    /// Mean number of busy servers.
    pub fn mean_busy(&self) -> f64 {
        self.probabilities.iter().enumerate().map(|(n, p)| n.min(self.servers) as f64 * p).sum()
    }

    /// Departures per unit of time.
    pub fn throughput(&self) -> f64 {
        self.service * self.mean_busy()
    }

    /// Mean number present.
    pub fn mean_present(&self) -> f64 {
        self.probabilities.iter().enumerate().map(|(n, p)| n as f64 * p).sum()
    }

    /// Mean time from acceptance to departure, by Little's law.
    pub fn mean_sojourn(&self) -> f64 {
        self.mean_present() / self.throughput()
    }

    /// P(an accepted arrival waits longer than `time`), time >= 0. An arrival that finds n >= c packets waits for n-c+1
    /// departures at c times the service rate: P = sum over n of P(it finds n) P(fewer than n-c+1 departures in
    /// `time`), with positive terms only.
    pub fn waits_longer(&self, time: f64) -> f64 {
        let places = self.probabilities.len() - 1;
        let accepted: f64 = self.probabilities[..places].iter().sum();
        let departures = self.servers as f64 * self.service * time;
        // P(at most k departures) for k = 0, 1, ..., from the logarithms of the terms: no underflow for any time.
        let (mut at_most, mut log_factorial) = (0.0, 0.0);
        let mut waiting = 0.0;
        for (k, found) in self.probabilities[self.servers.min(places)..places].iter().enumerate() {
            if k > 0 {
                log_factorial += math::ln(k as f64);
            }
            let exponent =
                if departures > 0.0 { k as f64 * math::ln(departures) - departures - log_factorial } else { 0.0 };
            at_most += if departures > 0.0 || k == 0 { math::exp(exponent) } else { 0.0 };
            waiting += found * at_most;
        }
        waiting / accepted
    }

    /// Arrival rate.
    pub fn arrival(&self) -> f64 {
        self.arrival
    }
}

/// Sums in blocks, so that a million terms do not lose accuracy.
fn sum(terms: &[f64]) -> f64 {
    terms.chunks(512).map(|part| part.iter().sum::<f64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::birth_death::Mm1b;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs().max(1e-300)
    }

    #[test]
    fn one_server_is_mm1b() {
        for rho in [1e-6, 0.3, 1.0, 1.7, 1e4] {
            for places in [1, 2, 40, 1000] {
                let (many, one) = (Mmcb::new(rho, 1.0, 1, places).unwrap(), Mm1b::new(rho, 1.0, places as u64));
                assert!(near(many.blocking(), one.blocking()), "{rho} {places}");
                assert!((many.mean_present() - one.mean_present()).abs() <= 1e-10 * one.mean_present());
                assert!((many.throughput() / one.throughput() - 1.0).abs() < 1e-10);
            }
        }
    }

    /// Erlang's loss formula: 10 servers, 5 erlang, no waiting places: B(10, 5) = 0.018385 (tables).
    #[test]
    fn erlang_b() {
        let queue = Mmcb::new(5.0, 1.0, 10, 10).unwrap();
        assert!((queue.blocking() - 0.018385).abs() < 1e-6, "{}", queue.blocking());
        assert_eq!(queue.waits_longer(0.0), 0.0);
    }

    /// Erlang's delay formula with many places: C(10, 5) = 0.036105, and waits are exponential with rate c mu - lambda.
    #[test]
    fn erlang_c() {
        let queue = Mmcb::new(5.0, 1.0, 10, 400).unwrap();
        let waits = queue.waits_longer(0.0);
        assert!((waits - 0.036105).abs() < 1e-6, "{waits}");
        for time in [0.1, 1.0, 3.0_f64] {
            let expected = waits * math::exp(-5.0 * time);
            assert!((queue.waits_longer(time) / expected - 1.0).abs() < 1e-9, "{time}");
        }
    }

    #[test]
    fn impossible_queues_are_none() {
        for (arrival, service, servers, places) in
            [(0.0, 1.0, 1, 1), (1.0, f64::NAN, 1, 1), (1.0, 1.0, 0, 1), (1.0, 1.0, 3, 2)]
        {
            assert!(Mmcb::new(arrival, service, servers, places).is_none());
        }
    }

    #[test]
    fn conservation_at_extremes() {
        for rho in [1e-9, 1e-3, 7.99, 8.0, 8.01, 1e6] {
            for places in [8, 64, 100_000] {
                let queue = Mmcb::new(rho, 1.0, 8, places).unwrap();
                let total = sum(queue.probabilities());
                assert!((total - 1.0).abs() < 1e-12 && queue.probabilities().iter().all(|p| *p >= 0.0));
                let accepted: f64 = queue.probabilities()[..places].iter().sum::<f64>() * queue.arrival();
                assert!((accepted / queue.throughput() - 1.0).abs() < 1e-9, "{rho} {places}");
            }
        }
    }
}
