//! The cliff: the highest offered load whose loss stays within a bound; and what is left beyond it.

use netcliff_core::{Engine, EngineFailure, Host, Point, Scheme, Traffic};

/// Relative width at which the search ends.
const FOUND: f64 = 1e-5;
/// Loads searched (pps).
const LOWEST_PPS: f64 = 1e-6;
const HIGHEST_PPS: f64 = 1e13;

/// A cliff and how it was had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cliff {
    /// Highest offered load with loss within the bound (pps).
    pub pps: f64,
    /// Points evaluated.
    pub evaluations: u32,
}

/// The highest load of `traffic`'s kind that `host` takes under `scheme` with a loss of at most `loss`.
///
/// Doubling or halving from the load that the CPU could just do, then bisection to a part in 1e5. Err if the engine
/// fails or never loses (or always does) within 1e-6 to 1e13 packets/s.
pub fn cliff(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    loss: f64,
) -> Result<Cliff, EngineFailure> {
    let mut evaluations = 0;
    let mut holds = |pps: f64| -> Result<bool, EngineFailure> {
        evaluations += 1;
        Ok(loss_at(engine, host, scheme, traffic, pps)? <= loss)
    };
    let bytes = traffic.size.mean_bytes().unwrap_or(64.0);
    let guess = 1.0 / (host.service_s(bytes) + host.application_s.unwrap_or(0.0));
    let none = || EngineFailure::Failed("no load between 1e-6 pps and 1e13 pps divides loss from no loss".into());
    let (mut low, mut high) = (guess, guess);
    if holds(guess)? {
        while holds(high)? {
            low = high;
            high *= 2.0;
            if high > HIGHEST_PPS {
                return Err(none());
            }
        }
    } else {
        while !holds(low)? {
            high = low;
            low *= 0.5;
            if low < LOWEST_PPS {
                return Err(none());
            }
        }
    }
    while high - low > FOUND * high {
        let middle = (low * high).sqrt();
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Cliff { pps: low, evaluations })
}

/// Throughput at twice the cliff over the peak: 1 holds, 0 is receive livelock.
///
/// The peak is looked for from half the cliff to twice it, by golden section (throughput rises, then falls or stays).
pub fn livelock_index(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    cliff_pps: f64,
) -> Result<f64, EngineFailure> {
    let throughput = |pps: f64| -> Result<f64, EngineFailure> {
        let outcome = engine.evaluate(&at(host, scheme, traffic, pps))?;
        outcome.throughput_pps.map(|figure| figure.value).ok_or_else(|| missing("throughput"))
    };
    let golden = 0.5 * (5_f64.sqrt() - 1.0);
    let beyond = throughput(2.0 * cliff_pps)?;
    let (mut low, mut high) = (0.5 * cliff_pps, 2.0 * cliff_pps);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut left_value, mut right_value) = (throughput(left)?, throughput(right)?);
    let mut peak = beyond.max(left_value).max(right_value);
    while high - low > 1e-4 * high {
        if left_value > right_value {
            (high, right, right_value) = (right, left, left_value);
            left = high - golden * (high - low);
            left_value = throughput(left)?;
            peak = peak.max(left_value);
        } else {
            (low, left, left_value) = (left, right, right_value);
            right = low + golden * (high - low);
            right_value = throughput(right)?;
            peak = peak.max(right_value);
        }
    }
    Ok(beyond / peak)
}

fn at(host: &Host, scheme: &Scheme, traffic: &Traffic, pps: f64) -> Point {
    Point { host: host.clone(), scheme: scheme.clone(), traffic: traffic.at_pps(pps) }
}

fn loss_at(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    pps: f64,
) -> Result<f64, EngineFailure> {
    let outcome = engine.evaluate(&at(host, scheme, traffic, pps))?;
    outcome.loss_fraction.map(|figure| figure.value).ok_or_else(|| missing("loss"))
}

fn missing(figure: &str) -> EngineFailure {
    EngineFailure::Failed(format!("the engine gave no {figure}").into())
}
