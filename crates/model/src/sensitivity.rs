//! Which cost is worth attacking: how the cliff, the latency and the CPU move with each of a host's costs.
//!
//! Central differences: each cost is multiplied by e^(+-h), h = 1 %, so that a result is an elasticity: percent of
//! change a percent of cost. The truncation error is of the order h^2, a ten-thousandth of the result; the cliff's
//! own search (1e-5) adds 1e-3.

use netcliff_core::{Engine, EngineFailure, Host, Point};

/// h: half the logarithmic distance of the two evaluations.
pub const STEP: f64 = 0.01;

/// A host's cost that can be varied.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// The key of `--set`.
    pub key: &'static str,
    get: fn(&mut Host) -> Option<&mut f64>,
}

/// Every cost with the key that sets it.
pub const COSTS: &[Cost] = &[
    Cost { key: "interrupt", get: |host| Some(&mut host.interrupt_s) },
    Cost { key: "protocol", get: |host| Some(&mut host.protocol_s) },
    Cost { key: "per_byte", get: |host| Some(&mut host.per_byte_s) },
    Cost { key: "mask", get: |host| Some(&mut host.mask_s) },
    Cost { key: "poll", get: |host| Some(&mut host.poll_s) },
    Cost { key: "application", get: |host| host.application_s.as_mut() },
    Cost { key: "context_switch", get: |host| Some(&mut host.context_switch_s) },
    Cost { key: "wakeup", get: |host| Some(&mut host.wakeup_s) },
    Cost { key: "interrupt_latency", get: |host| Some(&mut host.interrupt_latency_s) },
    Cost { key: "cold_protocol", get: |host| Some(&mut host.cold_protocol_s) },
    Cost { key: "cold_application", get: |host| Some(&mut host.cold_application_s) },
    Cost { key: "pause", get: |host| host.pause_s.as_mut() },
];

/// Elasticities (relative change over relative change of the cost).
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity {
    /// The cost's key.
    pub key: &'static str,
    /// Of the cliff; -0.4: a cost 1 % higher puts it 0.4 % lower.
    pub cliff: f64,
    /// Of the mean latency at the point.
    pub latency: Option<f64>,
    /// Change of the CPU's available share at the point for a cost e times as high (1).
    pub available: Option<f64>,
}

/// The sensitivities of `point` to every cost above zero, the most telling for the cliff first.
pub fn sensitivities(engine: &dyn Engine, point: &Point, loss: f64) -> Result<Vec<Sensitivity>, EngineFailure> {
    let mut found = Vec::new();
    for cost in COSTS {
        if (cost.get)(&mut point.host.clone()).is_none_or(|value| *value <= 0.0) {
            continue;
        }
        let scaled = |factor: f64| {
            let mut host = point.host.clone();
            if let Some(value) = (cost.get)(&mut host) {
                *value *= factor;
            }
            Point { host, ..point.clone() }
        };
        let (less, more) = (scaled((-STEP).exp()), scaled(STEP.exp()));
        let cliff = |at: &Point| crate::cliff(engine, &at.host, &at.scheme, &at.traffic, loss).map(|found| found.pps);
        let figures = |at: &Point| -> Result<(Option<f64>, Option<f64>), EngineFailure> {
            let outcome = engine.evaluate(at)?;
            let latency = outcome.latency_s.and_then(|latency| latency.mean).map(|figure| figure.value.ln());
            Ok((latency, outcome.cpu.and_then(|cpu| cpu.available).map(|figure| figure.value)))
        };
        let (low, high) = (figures(&less)?, figures(&more)?);
        let slope = |low: Option<f64>, high: Option<f64>| Some((high? - low?) / (2.0 * STEP));
        found.push(Sensitivity {
            key: cost.key,
            cliff: (cliff(&more)? / cliff(&less)?).ln() / (2.0 * STEP),
            latency: slope(low.0, high.0),
            available: slope(low.1, high.1),
        });
    }
    found.sort_by(|a, b| b.cliff.abs().total_cmp(&a.cliff.abs()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelEngine;
    use netcliff_core::Traffic;

    /// The cliff of an ideal host is its service rate: elasticity -1 over its two parts, 0 for the rest.
    #[test]
    fn ideal_host() {
        let host = Host { ring: 100_000, per_byte_s: 1e-8, ..Host::pentium4_2530mhz() };
        let point = Point { host, scheme: "ideal".parse().unwrap(), traffic: Traffic::poisson(50e3) };
        let found = sensitivities(&ModelEngine::default().without_quantiles(), &point, 1e-4).unwrap();
        let of = |key: &str| found.iter().find(|one| one.key == key).unwrap();
        assert!((of("protocol").cliff + of("per_byte").cliff + 1.0).abs() < 3e-3);
        assert!(of("interrupt").cliff.abs() < 2e-3);
        assert_eq!(found[0].key, "protocol");
        // V = 1 - rho: its slope with ln(protocol) is -lambda x protocol.
        assert!((of("protocol").available.unwrap() + 50e3 * 5.25e-6).abs() < 1e-4);
    }
}
