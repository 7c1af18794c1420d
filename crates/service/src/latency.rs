//! [`ResponseModel`]: response times over load, by simulation with the costs of a request.
//!
//! The lightest calibrated load gives the time that a request spends outside of queues: the path, the requester and the
//! wake-ups of both. The other loads give the variability of the work of a request: the coefficient of variation whose
//! simulated mean response times fit the measured ones best. Quantiles are not fitted.

use netcliff_core::service::{PredictedResponse, ResponseTimes};
use netcliff_core::{Engine, Figure, Host, Point, Scheme, Service};
use netcliff_sim::SimEngine;

use crate::costs::traffic;

/// Coefficients of variation that are tried for the work of a request.
const VARIATIONS: [f64; 7] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5];
/// Packets per simulated load.
const PACKETS: u64 = 100_000;
/// Largest load, as a share of the capacity, from which the variability is fitted. Above it, a small error of a request's
/// cost changes the response times more than the variability does.
const MOST_FITTED: f64 = 0.9;

/// Response times of requests (s).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    mean_s: f64,
    p50_s: f64,
    p99_s: f64,
}

impl Times {
    /// Distance of the 99th percentile from the median (s).
    fn spread_s(&self) -> f64 {
        (self.p99_s - self.p50_s).max(0.0)
    }
}

/// Computes response times at loads that the service carries.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseModel {
    host: Host,
    scheme: Scheme,
    /// Mean time outside of queues (s).
    path_s: f64,
    /// Distance of the 99th percentile of this time from its median (s).
    path_spread_s: f64,
    seed: u64,
}

impl ResponseModel {
    /// Fits the model to `measured`: (load (requests/s), response times) of trials without pauses, at several loads up to
    /// `capacity_rps`. `None`: there are fewer than two loads, or the simulator does not support the host.
    pub fn fit(
        host: &Host,
        scheme: &Scheme,
        measured: &[(f64, ResponseTimes)],
        capacity_rps: f64,
        seed: u64,
    ) -> Option<Self> {
        let measured = by_load(measured);
        let ((lightest_rps, lightest), others) = measured.split_first()?;
        let fitted: Vec<_> = others.iter().filter(|(rps, _)| *rps <= MOST_FITTED * capacity_rps).collect();
        if fitted.is_empty() {
            return None;
        }
        let tried = |cv: f64| {
            let service = if cv > 0.0 { Service::Lognormal { cv } } else { Service::Deterministic };
            let mut model = Self {
                host: Host { service, ..host.clone() },
                scheme: scheme.clone(),
                path_s: 0.0,
                path_spread_s: 0.0,
                seed,
            };
            let light = model.simulated(*lightest_rps)?;
            model.path_s = lightest.mean_s - light.mean_s;
            model.path_spread_s = (lightest.spread_s().powi(2) - light.spread_s().powi(2)).max(0.0).sqrt();
            let error = |(rps, times): &&(f64, Times)| {
                let mean_s = model.simulated(*rps)?.mean_s + model.path_s;
                Some((mean_s.max(1e-9) / times.mean_s).ln().powi(2))
            };
            let error: Option<Vec<f64>> = fitted.iter().map(error).collect();
            Some((error?.iter().sum::<f64>(), model))
        };
        let best = VARIATIONS.into_iter().filter_map(tried).min_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, model)| model)
    }

    /// Simulated times from the arrival of a request to the end of the work on it; `None`: the simulator has none.
    fn simulated(&self, rps: f64) -> Option<Times> {
        let engine = SimEngine::with_packets(self.seed, PACKETS);
        let outcome = engine.evaluate(&Point::of(&self.host, &self.scheme, &traffic(), rps)).ok()?;
        let latency = outcome.latency_s?;
        let work_s = self.host.application_s.unwrap_or(0.0);
        let to_end = |figure: Option<Figure>| Some(figure?.value + work_s);
        Some(Times { mean_s: to_end(latency.mean)?, p50_s: to_end(latency.p50)?, p99_s: to_end(latency.p99)? })
    }

    /// Response times at a load (requests/s). The distances of both parts' 99th percentiles from their medians add as
    /// standard deviations of independent times do. `None`: the simulator has none.
    pub fn at(&self, rate_rps: f64) -> Option<PredictedResponse> {
        let times = self.simulated(rate_rps)?;
        let p50_s = times.p50_s + self.path_s;
        let p99_s = p50_s + times.spread_s().hypot(self.path_spread_s);
        Some(PredictedResponse { rate_rps, p50_s, p99_s })
    }
}

/// The median of each time over the trials of a load, by load in ascending order.
fn by_load(measured: &[(f64, ResponseTimes)]) -> Vec<(f64, Times)> {
    let mut measured = measured.to_vec();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = |trials: &[(f64, ResponseTimes)], of: fn(&ResponseTimes) -> f64| {
        let times: Vec<f64> = trials.iter().map(|(_, times)| of(times)).collect();
        netcliff_stats::median(&times).map_or(0.0, |figure| figure.value)
    };
    let of_load = |trials: &[(f64, ResponseTimes)]| {
        let times = Times {
            mean_s: median(trials, |times| times.mean_s),
            p50_s: median(trials, |times| times.p50_s),
            p99_s: median(trials, |times| times.p99_s),
        };
        (trials[0].0, times)
    };
    measured.chunk_by(|a, b| a.0 == b.0).map(of_load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::Napi;

    /// Requests of 12 us each, 30 us of path with a 99th percentile of 70 us, and this variability.
    fn measured(service: Service) -> (Host, Scheme, Vec<(f64, ResponseTimes)>, ResponseModel) {
        let host = Host {
            protocol_s: 3e-6,
            application_s: Some(9e-6),
            ring: 1000,
            socket_buffer: 250,
            ..Host::default()
        };
        let scheme = Scheme::Napi(Napi { backlog: true, ..Napi::default() });
        let truth = ResponseModel {
            host: Host { service, ..host.clone() },
            scheme: scheme.clone(),
            path_s: 30e-6,
            path_spread_s: 40e-6,
            seed: 7,
        };
        let trial = |rps: f64| {
            let (times, seen) = (truth.simulated(rps).unwrap(), truth.at(rps).unwrap());
            let mean_s = times.mean_s + truth.path_s;
            let (p50_s, p99_s) = (seen.p50_s, seen.p99_s);
            (rps, ResponseTimes { mean_s, p50_s, p90_s: p99_s, p99_s, p999_s: p99_s, max_s: p99_s })
        };
        let all = [20e3, 40e3, 55e3].map(trial).to_vec();
        (host, scheme, all, truth)
    }

    /// The model recovers path and variability, and with them a load that was not calibrated.
    #[test]
    fn times_at_other_loads_are_those_of_the_service() {
        for service in [Service::Deterministic, Service::Lognormal { cv: 0.5 }, Service::Lognormal { cv: 1.5 }] {
            let (host, scheme, all, truth) = measured(service.clone());
            let model = ResponseModel::fit(&host, &scheme, &all, 1.0 / 12e-6, 1).unwrap();
            assert_eq!(model.host.service, service);
            assert!((model.path_s / 30e-6 - 1.0).abs() < 0.1, "{model:?}");
            let (seen, known) = (model.at(70e3).unwrap(), truth.at(70e3).unwrap());
            assert!((seen.p50_s / known.p50_s - 1.0).abs() < 0.1, "{seen:?} {known:?}");
            assert!((seen.p99_s / known.p99_s - 1.0).abs() < 0.2, "{seen:?} {known:?}");
        }
    }

    #[test]
    fn one_load_does_not_tell_the_variability() {
        let (host, scheme, all, _) = measured(Service::Deterministic);
        assert!(ResponseModel::fit(&host, &scheme, &all[..1], 1.0 / 12e-6, 1).is_none());
        // All other loads are too close to the capacity.
        assert!(ResponseModel::fit(&host, &scheme, &all, 30e3, 1).is_none());
    }
}
