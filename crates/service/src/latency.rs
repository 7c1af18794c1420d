//! [`ResponseModel`]: response times over load, by simulation with the costs of a request.
//!
//! The lightest calibrated load gives the time that a request spends outside of queues: the path, the requester and the
//! wake-ups of both. The 90th percentiles at all calibrated loads give the variability of the work of a request, which
//! includes that the requester sends in bursts while its own CPU is busy. Medians and 99th percentiles at other loads are
//! not fitted.

use netcliff_core::service::ServiceTrial;
use netcliff_core::{Engine, Figure, Host, Point, Scheme, Service, Traffic};
use netcliff_sim::SimEngine;
use netcliff_stats::median;

/// Distributions that are tried for the work of a request, by rising variability.
const WORKS: [Service; 8] = [
    Service::Deterministic,
    Service::Erlang { stages: 8 },
    Service::Erlang { stages: 4 },
    Service::Erlang { stages: 3 },
    Service::Erlang { stages: 2 },
    Service::Exponential,
    Service::Hyperexponential { cv: 1.5 },
    Service::Hyperexponential { cv: 2.5 },
];
/// Packets per simulated load.
const PACKETS: u64 = 100_000;
/// Largest load, as a share of the capacity, from which the variability is fitted. Above it, a small error of a request's
/// cost changes the response times more than the variability does.
const MOST_FITTED: f64 = 0.8;

/// Response times at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// Load (requests/s).
    pub rate_rps: f64,
    /// Median (s).
    pub p50_s: f64,
    /// 90th percentile (s).
    pub p90_s: f64,
    /// 99th percentile (s).
    pub p99_s: f64,
}

impl Times {
    /// Medians over the trials of each load, by load in ascending order.
    pub fn by_load<'a>(trials: impl Iterator<Item = &'a ServiceTrial>) -> Vec<Self> {
        let of = |trial: &ServiceTrial| {
            let times = trial.times?;
            Some(Self { rate_rps: trial.rate_rps, p50_s: times.p50_s, p90_s: times.p90_s, p99_s: times.p99_s })
        };
        let mut all: Vec<Self> = trials.filter_map(of).collect();
        all.sort_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps));
        let middle = |same: &[Self], of: fn(&Self) -> f64| {
            median(&same.iter().map(of).collect::<Vec<_>>()).map_or(0.0, |figure| figure.value)
        };
        let of_load = |same: &[Self]| Self {
            rate_rps: same[0].rate_rps,
            p50_s: middle(same, |times| times.p50_s),
            p90_s: middle(same, |times| times.p90_s),
            p99_s: middle(same, |times| times.p99_s),
        };
        all.chunk_by(|a, b| a.rate_rps == b.rate_rps).map(of_load).collect()
    }
}

/// Computes response times at loads that the service carries.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseModel {
    host: Host,
    scheme: Scheme,
    /// Time outside of queues (s).
    path_s: f64,
    seed: u64,
}

impl ResponseModel {
    /// Fits the model to `measured`, times at several loads in ascending order, of which the busiest CPU carries at most
    /// `capacity_rps`. `None`: there are fewer than two loads to fit, or the simulator does not support the host.
    pub fn fit(host: &Host, scheme: &Scheme, measured: &[Times], capacity_rps: f64, seed: u64) -> Option<Self> {
        let fitted: Vec<&Times> =
            measured.iter().filter(|times| times.rate_rps <= MOST_FITTED * capacity_rps).collect();
        if fitted.len() < 2 {
            return None;
        }
        let tried = |service: Service| {
            let host = Host { service, ..host.clone() };
            let mut model = Self { host, scheme: scheme.clone(), path_s: 0.0, seed };
            let computed: Option<Vec<Times>> = fitted.iter().map(|times| model.at(times.rate_rps)).collect();
            let computed = computed?;
            model.path_s = fitted[0].p50_s - computed[0].p50_s;
            let error =
                |(own, times): (&Times, &&Times)| ((own.p90_s + model.path_s).max(1e-9) / times.p90_s).ln().abs();
            Some((computed.iter().zip(&fitted).map(error).sum::<f64>(), model))
        };
        let best = WORKS.into_iter().filter_map(tried).min_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, model)| model)
    }

    /// Response times at a load (requests/s). `None`: the simulator has none.
    pub fn at(&self, rate_rps: f64) -> Option<Times> {
        let engine = SimEngine::with_packets(self.seed, PACKETS);
        let outcome = engine.evaluate(&Point::of(&self.host, &self.scheme, &traffic(), rate_rps)).ok()?;
        let latency = outcome.latency_s?;
        // The simulated latency ends when the service takes a request.
        let outside_s = self.host.application_s.unwrap_or(0.0) + self.path_s;
        let to_end = |figure: Option<Figure>| Some(figure?.value + outside_s);
        let (p50_s, p90_s, p99_s) = (to_end(latency.p50)?, to_end(latency.p90)?, to_end(latency.p99)?);
        Some(Times { rate_rps, p50_s, p90_s, p99_s })
    }
}

/// Packets of a link that is no limit.
pub(crate) fn traffic() -> Traffic {
    Traffic { link_bps: 1e12, ..Traffic::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::Napi;
    use netcliff_core::service::{ResponseTimes, TrialPurpose};

    /// A service whose requests take 12 us each with this variability, behind 30 us of path.
    fn service(service: Service) -> ResponseModel {
        let host = Host {
            protocol_s: 3e-6,
            application_s: Some(9e-6),
            ring: 1000,
            socket_buffer: 250,
            service,
            ..Host::default()
        };
        let scheme = Scheme::Napi(Napi { backlog: true, ..Napi::default() });
        ResponseModel { host, scheme, path_s: 30e-6, seed: 7 }
    }

    /// From the calibrated loads, the model recovers path and variability, and with them the times at other loads.
    #[test]
    fn times_at_other_loads_are_those_of_the_service() {
        for known in [Service::Erlang { stages: 4 }, Service::Exponential, Service::Hyperexponential { cv: 1.5 }] {
            let truth = service(known.clone());
            let host = Host { service: Service::Deterministic, ..truth.host.clone() };
            let measured = [20e3, 40e3, 55e3].map(|load| truth.at(load).unwrap());
            let model = ResponseModel::fit(&host, &truth.scheme, &measured, 1.0 / 12e-6, 1).unwrap();
            assert_eq!(model.host.service, known);
            assert!((model.path_s / 30e-6 - 1.0).abs() < 0.05, "{model:?}");
            let (computed, real) = (model.at(60e3).unwrap(), truth.at(60e3).unwrap());
            assert!((computed.p50_s / real.p50_s - 1.0).abs() < 0.1, "{computed:?} {real:?}");
            assert!((computed.p99_s / real.p99_s - 1.0).abs() < 0.2, "{computed:?} {real:?}");
        }
    }

    #[test]
    fn one_load_does_not_tell_the_variability() {
        let truth = service(Service::Deterministic);
        let measured = [20e3, 40e3].map(|load| truth.at(load).unwrap());
        let fit = |measured: &[Times], capacity_rps| {
            ResponseModel::fit(&truth.host, &truth.scheme, measured, capacity_rps, 1)
        };
        assert!(fit(&measured, 80e3).is_some());
        assert!(fit(&measured[..1], 80e3).is_none());
        // The other load is too close to the capacity.
        assert!(fit(&measured, 42e3).is_none());
    }

    #[test]
    fn trials_of_a_load_count_by_their_medians() {
        let trial = |rate_rps: f64, p50_s: f64| ServiceTrial {
            rate_rps,
            times: Some(ResponseTimes {
                mean_s: p50_s,
                p50_s,
                p90_s: 2.0 * p50_s,
                p99_s: 3.0 * p50_s,
                p999_s: 4.0 * p50_s,
                max_s: 5.0 * p50_s,
            }),
            lateness_p99_s: Some(1e-6),
            purpose: TrialPurpose::Calibration,
            window_s: 0.5,
            requests: 1,
            answers: 1,
            late_answers: 0,
            wrong_answers: 0,
            unanswered: 0,
            excluded: 0,
            paused_s: 0.0,
            kept: true,
            kept_with_pauses: None,
            void: None,
            requester_busy: 0.1,
            idle: None,
        };
        let trials = [trial(2e3, 9e-5), trial(1e3, 5e-5), trial(1e3, 4e-5), trial(1e3, 9e-3)];
        let all = Times::by_load(trials.iter());
        assert_eq!(
            all.iter().map(|times| (times.rate_rps, times.p50_s)).collect::<Vec<_>>(),
            [(1e3, 5e-5), (2e3, 9e-5)]
        );
        assert_eq!(all[0].p99_s, 3.0 * 5e-5);
    }
}
