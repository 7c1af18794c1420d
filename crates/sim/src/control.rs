//! A control variate (a value with known mean that is correlated with the result) for the mean latency: the random
//! surplus of work that the packets of a replication bring.
//!
//! Near the cliff, half the variance of the mean latency is chance in the offered load: a replication with short gaps
//! and long service times waits longer. The expected means of both are known, so that regression over the replications
//! removes the effect of the deviations (Lavenberg and Welch 1981). In M/M/1 at load rho, the mean latency 1/(mu -
//! lambda) moves by rho/(1 - rho) times the relative surplus, whose variance over n packets is 2/n: half of the
//! variance of the waiting times as rho tends to 1 (docs/theory/statistics.md).

use netcliff_core::Point;
use netcliff_core::math;
use netcliff_core::traffic::Arrivals;

use crate::clock::Clock;
use crate::tally::{Account, Counts};

/// Expected means of the gaps and service times of a point (ticks).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expected {
    gap: f64,
    service: f64,
}

impl Expected {
    /// Computes the means. `None` if a mean is not known, or differs much from the average over the length of a run:
    /// requires Poisson arrivals, and a host whose protocol processing only handles received packets, each with its own
    /// time.
    pub(crate) fn of(point: &Point, clock: Clock) -> Option<Self> {
        let host = &point.host;
        let application = host.application_s.is_some();
        let more = host.wakeup_s > 0.0 || host.cold_protocol_s > 0.0 || host.socket_drop_cost != 1.0;
        if application && more {
            return None;
        }
        if point.traffic.arrivals != Arrivals::Poisson || host.transmit_s.is_some() || host.queues.is_some() {
            return None;
        }
        let gap_s = 1.0 / point.rate_pps()?;
        let service_s = host.mean_service_s(&point.traffic.size);
        let tick_s = clock.seconds(1.0);
        Some(Self { gap: gap_s / tick_s, service: service_s / tick_s })
    }

    /// Relative surplus of the work per second that these packets brought, compared with its expectation. `None`
    /// without packets.
    pub(crate) fn surplus(&self, counts: &Counts) -> Option<f64> {
        if counts.offered == 0 || counts.processed == 0 {
            return None;
        }
        let gap = counts.at as f64 / counts.offered as f64;
        let service = counts.cpu[Account::Protocol as usize] as f64 / counts.processed as f64;
        Some(math::ln(service / self.service) - math::ln(gap / self.gap))
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::Host;

    use super::*;
    use crate::batch::Batch;
    use crate::engine::{Effort, SimEngine};

    const SCHEMES: [&str; 9] = [
        "ideal",
        "interrupt",
        "disable-enable",
        "disable-enable:merged=true",
        "polling:period=20us,quota=3",
        "napi-2007",
        "coalesce:frames=8,usecs=50us,masked=true",
        "napi",
        "hybrid",
    ];

    fn batch(scheme: &str, load_pps: f64, replications: u64) -> Batch {
        let point = Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), load_pps);
        let effort = Effort::Exactly(20_000 * replications);
        let engine = SimEngine { seed: 11, effort, replications, ..SimEngine::default() };
        engine.sample(&point, &crate::executor::LocalExecutor).expect("it is computed here").0
    }

    /// Costs that an application adds to protocol time (wake-ups, cold caches) depend on the state of the host, not
    /// only on the packets. As part of the control variate they would bias the mean latency.
    #[test]
    fn costs_that_are_no_packets_own_leave_no_control() {
        let clock = Clock::new(1e5, 1000);
        for (setting, known) in [
            ("context_switch=2us", true),
            ("wakeup=1us", false),
            ("cold_protocol=1us", false),
            ("socket_drop_cost=0.5", false),
        ] {
            let mut host = Host { application_s: Some(2e-6), ..Host::pentium4_2530mhz() };
            host.set(setting).unwrap();
            let point = Point::poisson(host, "napi".parse().unwrap(), 1e5);
            assert_eq!(Expected::of(&point, clock).is_some(), known, "{setting}");
        }
    }

    /// The control assumes that protocol processing consists of service times only. A scheme that charged other work to
    /// it would shift its mean latency.
    #[test]
    fn the_surplus_is_zero_on_average_under_every_scheme_and_load() {
        for scheme in SCHEMES {
            for load_pps in [20e3, 90e3, 300e3] {
                let each = batch(scheme, load_pps, 60).controls().unwrap();
                let count = each.len() as f64;
                let mean = each.iter().sum::<f64>() / count;
                let square: f64 = each.iter().map(|x| (x - mean).powi(2)).sum();
                let error = (square / (count - 1.0) / count).sqrt();
                assert!(mean.abs() < 4.0 * error, "{scheme} at {load_pps}: {mean} +- {error}");
            }
        }
    }
}
