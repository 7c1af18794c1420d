//! Sensitivities: how the cliff, the latency and the CPU change with each of a host's costs. [`analyse`] computes them
//! together with the cliff and the livelock index.
//!
//! Central differences: each cost is multiplied by e^(+-h), so that a result is an elasticity: percent of change per
//! percent of the cost. For latency and CPU h = 1 %. The cliff is searched once. Its change follows, by the implicit
//! function theorem, from the loss there with the cost, or the load, up to 0.1 % higher and lower. The truncation error
//! is of the order h^2 in both cases. If the loss jumps over its bound, a cliff is searched for each cost instead, with
//! h = 1 %; the width of these searches (1e-5) adds an error of 1e-3.

use netcliff_core::analysis::{Analysis, CostSensitivity};
use netcliff_core::host::{Key, TABLE};
use netcliff_core::math;
use netcliff_core::{Engine, EngineFailure, Host, Load, Point, Scheme, Traffic};

/// h: half the difference of the cost's logarithm between the two evaluations.
pub const STEP: f64 = 0.01;

/// A cost of a host that can be varied.
#[derive(Debug, Clone, Copy)]
pub struct Cost(&'static Key);

/// Lists all costs that can be varied: first the CPU times that grow if cores are shared, then the others.
pub fn costs() -> impl Iterator<Item = Cost> {
    let of = |is_cpu: bool| {
        TABLE.iter().filter(move |key| key.role.varied && key.role.grows_on_shared_core == is_cpu).map(Cost)
    };
    of(true).chain(of(false))
}

impl Cost {
    /// Name of the cost in `--set`.
    pub fn key(&self) -> &'static str {
        self.0.name
    }

    /// Value of the cost on `host`; `None` if the host does not have this cost.
    pub fn of(&self, host: &Host) -> Option<f64> {
        self.0.time_mut(&mut host.clone()).map(|value| *value)
    }
}

/// Largest factor between the loss at a cliff and the bound; a larger one means that the loss jumps there.
const AT_BOUND: f64 = 1.1;

/// Smallest relative step for the cliff's elasticities; equals the width of a search.
const LEAST_STEP: f64 = 1e-5;

/// Relative step of [`cliff_slopes`], and the largest step for the cliff's elasticities: at a steep cliff it changes
/// the loss by some percent.
const SMALL_STEP: f64 = 1e-3;

/// Computes the slope of the cliff with each cost of `keys` that the host has. `point` must lie on its own cliff.
/// Returns (key, d ln(cliff)/d cost) (1/s; per byte: B/s), by the implicit function theorem from the loss: -(d ln
/// loss/d cost)/(d ln loss/d ln load), with one point per cost and two for the load. `losses` returns the losses of
/// points in their order and may evaluate them in parallel. Errors: `losses` fails, or nothing is lost at the point.
pub fn cliff_slopes(
    point: &Point,
    keys: &[&str],
    losses: impl FnOnce(&[Point]) -> Result<Vec<f64>, EngineFailure>,
) -> Result<Vec<(&'static str, f64)>, EngineFailure> {
    let load_pps = point.rate_pps().ok_or_else(|| EngineFailure::Failed("the offered rate is not known".into()))?;
    let more = point.at_pps(load_pps * math::exp(SMALL_STEP));
    let bytes = point.traffic.size.mean_bytes().unwrap_or(64.0);
    let service_s = point.host.mean_service_s(&point.traffic.size);
    let mut points = vec![point.clone(), more];
    let mut steps = Vec::new();
    for cost in costs().filter(|cost| keys.contains(&cost.key())) {
        let mut host = point.host.clone();
        let Some(value) = cost.0.time_mut(&mut host) else { continue };
        // A cost of zero cannot be scaled: it is increased by a share of a packet's whole cost instead.
        let whole = if *value > 0.0 { *value } else { service_s / if cost.key() == "per_byte" { bytes } else { 1.0 } };
        let step = SMALL_STEP * whole;
        *value += step;
        steps.push((cost.key(), step));
        points.push(Point { host, ..point.clone() });
    }
    let ln_losses: Vec<f64> = losses(&points)?.into_iter().map(math::ln).collect();
    let [here, more, each @ ..] = ln_losses.as_slice() else { return Ok(Vec::new()) };
    if ln_losses.iter().any(|ln_loss| !ln_loss.is_finite()) {
        return Err(EngineFailure::Failed("nothing is lost at this load: it is no cliff".into()));
    }
    let by_load = (more - here) / SMALL_STEP;
    Ok(steps.iter().zip(each).map(|((key, step), there)| (*key, -(there - here) / step / by_load)).collect())
}

/// Elasticities with respect to one cost: relative change / relative change of the cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity {
    /// Key of the cost.
    pub key: &'static str,
    /// Elasticity of the cliff. -0.4: a cost 1 % higher puts the cliff 0.4 % lower.
    pub cliff: f64,
    /// Elasticity of the mean latency at the point; `None` if the outcome has no latency.
    pub latency: Option<f64>,
    /// Change of the CPU's available share at the point, per unit of ln(cost); `None` if the outcome has no CPU shares.
    pub available: Option<f64>,
}

/// The sensitivities of `point` to all costs above zero, largest effect on the cliff first.
pub fn sensitivities(engine: &dyn Engine, point: &Point, loss: f64) -> Result<Vec<Sensitivity>, EngineFailure> {
    let mut found = Vec::new();
    let cliff = |at: &Point| crate::cliff(engine, &at.host, &at.scheme, &at.traffic, loss).map(|found| found.pps);
    let cliff_pps = cliff(point)?;
    // ln(loss) of a host at `factor` times the cliff.
    let ln_loss = |host: &Host, factor: f64| -> Result<f64, EngineFailure> {
        let at = Point { host: host.clone(), ..point.at_pps(factor * cliff_pps) };
        let lost = engine.evaluate(&at)?.loss_fraction.map_or(0.0, |figure| figure.value);
        Ok(math::ln(lost))
    };
    let here = ln_loss(&point.host, 1.0)?;
    let steepness = ((ln_loss(&point.host, math::exp(LEAST_STEP))? - here) / LEAST_STEP).abs();
    // Chosen so that at a steep cliff the loss changes by a tenth.
    let step = (0.1 / steepness).clamp(LEAST_STEP, SMALL_STEP);
    let by_load = ln_loss(&point.host, math::exp(step))? - ln_loss(&point.host, math::exp(-step))?;
    let off = (here - math::ln(loss)).abs();
    let is_smooth = by_load.is_finite() && by_load > 0.0 && off <= math::ln(AT_BOUND).max(2.0 * LEAST_STEP * steepness);
    for cost in costs() {
        if cost.of(&point.host).is_none_or(|value| value <= 0.0) {
            continue;
        }
        let scaled = |factor: f64| {
            let mut host = point.host.clone();
            if let Some(value) = cost.0.time_mut(&mut host) {
                *value *= factor;
            }
            Point { host, ..point.clone() }
        };
        let (less, more) = (scaled(math::exp(-STEP)), scaled(math::exp(STEP)));
        let figures = |at: &Point| -> Result<(Option<f64>, Option<f64>), EngineFailure> {
            let outcome = engine.evaluate(at)?;
            let latency = outcome.latency_s.and_then(|latency| latency.mean).map(|figure| math::ln(figure.value));
            Ok((latency, outcome.cpu.and_then(|cpu| cpu.available).map(|figure| figure.value)))
        };
        let (low, high) = (figures(&less)?, figures(&more)?);
        let by_cost = || -> Result<f64, EngineFailure> {
            let (less, more) = (scaled(math::exp(-step)), scaled(math::exp(step)));
            Ok(ln_loss(&more.host, 1.0)? - ln_loss(&less.host, 1.0)?)
        };
        let elasticity = match is_smooth.then(by_cost).transpose()?.filter(|by_cost| by_cost.is_finite()) {
            Some(by_cost) => -by_cost / by_load,
            None => math::ln(cliff(&more)? / cliff(&less)?) / (2.0 * STEP),
        };
        let slope = |low: Option<f64>, high: Option<f64>| Some((high? - low?) / (2.0 * STEP));
        found.push(Sensitivity {
            key: cost.key(),
            cliff: elasticity,
            latency: slope(low.0, high.0),
            available: slope(low.1, high.1),
        });
    }
    found.sort_by(|a, b| b.cliff.abs().total_cmp(&a.cliff.abs()));
    Ok(found)
}

/// Results to compute in addition to the outcome of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Loss fraction (0 to 1) that defines the cliff.
    pub loss: f64,
    /// True: compute the sensitivities to all costs too, which takes about ten times as long as a cliff.
    pub sensitivities: bool,
}

/// Computes cliff, livelock index and, if wanted, sensitivities of a host. Latency and CPU are evaluated at `load` or,
/// if it is `None`, at half the cliff. Also returns the point at that load.
pub fn analyse(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    load: Option<Load>,
    question: Question,
) -> Result<(Point, Analysis), EngineFailure> {
    let cliff_pps = crate::cliff(engine, host, scheme, traffic, question.loss)?.pps;
    let livelock = crate::livelock_index(engine, host, scheme, traffic, cliff_pps)?;
    let load = load.unwrap_or(Load::Pps(0.5 * cliff_pps));
    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic: traffic.clone(), load };
    let found = if question.sensitivities { sensitivities(engine, &point, question.loss)? } else { Vec::new() };
    let by_cost = |one: Sensitivity| CostSensitivity {
        cost: one.key.to_owned(),
        cliff: one.cliff,
        latency: one.latency,
        available: one.available,
    };
    let analysis = Analysis {
        cliff_pps,
        loss_target: question.loss,
        livelock,
        step: question.sensitivities.then_some(STEP),
        sensitivities: found.into_iter().map(by_cost).collect(),
    };
    Ok((point, analysis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelEngine;
    use netcliff_core::{Load, Traffic};

    /// The cliff of an ideal host is its service rate: the elasticities of the two parts of the service have sum -1,
    /// and all others are 0.
    #[test]
    fn ideal_host() {
        let host = Host { ring: 100_000, per_byte_s: 1e-8, ..Host::pentium4_2530mhz() };
        let point = Point::poisson(host, "ideal".parse().unwrap(), 50e3);
        let found = sensitivities(&ModelEngine::default().without_quantiles(), &point, 1e-4).unwrap();
        let of = |key: &str| found.iter().find(|one| one.key == key).unwrap();
        assert!((of("protocol").cliff + of("per_byte").cliff + 1.0).abs() < 3e-3);
        assert!(of("interrupt").cliff.abs() < 2e-3);
        assert_eq!(found[0].key, "protocol");
        // V = 1 - rho: its slope with ln(protocol) is -lambda x protocol.
        assert!((of("protocol").available.unwrap() + 50e3 * 5.25e-6).abs() < 1e-4);
    }

    /// Elasticities from the loss at the cliff equal the elasticities from searching a cliff for each changed cost.
    #[test]
    fn slopes_at_the_cliff_are_those_of_the_cliff() {
        let engine = ModelEngine::default();
        let host = Host { application_s: Some(2e-6), wakeup_s: 0.0, ..Host::pentium4_2530mhz() };
        let (scheme, traffic) = ("napi:weight=16,backlog=true".parse().unwrap(), Traffic::default());
        let cliff = crate::cliff(&engine, &host, &scheme, &traffic, 1e-3).unwrap();
        let point = Point { host, scheme, traffic, load: Load::Pps(cliff.pps) };
        let searched = sensitivities(&engine, &point, 1e-3).unwrap();
        let keys: Vec<&str> = searched.iter().map(|cost| cost.key).collect();
        let losses = |points: &[Point]| -> Result<Vec<f64>, EngineFailure> {
            points.iter().map(|point| Ok(engine.evaluate(point)?.loss_fraction.unwrap().value)).collect()
        };
        for (key, slope) in cliff_slopes(&point, &keys, losses).unwrap() {
            let cost = costs().find(|cost| cost.key() == key).unwrap().of(&point.host).unwrap();
            let elasticity = searched.iter().find(|cost| cost.key == key).unwrap().cliff;
            assert!((slope * cost - elasticity).abs() < 0.01, "{key}: {} and {elasticity}", slope * cost);
        }
        // A cost of zero has a slope, too. Without losses there is no slope, but an error.
        assert!(cliff_slopes(&point, &["wakeup"], losses).unwrap()[0].1 < 0.0);
        let idle = point.at_pps(1.0);
        assert!(cliff_slopes(&idle, &["protocol"], losses).is_err());
    }
}
