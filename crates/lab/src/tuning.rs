//! What is known of a tuning plan before and after it is applied: [`effects`] from the model with this host's costs, and
//! [`rounds`], the host measured with and without it in turns.

#[cfg(test)]
mod tests;

use netcliff_core::finding::Calibration;
use netcliff_core::{Arrivals, Engine, Figure, FrameSizes, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Plan;
use netcliff_model::{Fidelity, ModelEngine};

use crate::stats;

/// Share of what the CPU could serve without any interrupts at which effects are told.
const LOAD_SHARE: f64 = 0.5;
/// Speed of the link, which the schemes at hand do not depend on (bit/s).
const LINK_BPS: f64 = 10e9;

/// Fills in what each step is expected to change, for the settings that the model knows: the delay of the receive
/// interrupt. `run` names where the costs come from.
pub fn effects(plan: &mut Plan, calibration: &Calibration, run: &str) {
    for step in &mut plan.steps {
        let Setting::Ethtool { group: Group::Coalesce, key, .. } = &step.setting else { continue };
        if key != "rx-usecs" {
            continue;
        }
        if let (Some(old), Some(new)) = (delayed(&step.proposal.old), delayed(&step.proposal.new)) {
            step.proposal.effect = effect(calibration, &old, &new, run);
        }
    }
}

/// The scheme of a driver that delays its interrupt by so many microseconds and masks it while polling.
fn delayed(usecs: &str) -> Option<Scheme> {
    match usecs.parse::<u32>().ok()? {
        0 => "disable-enable".parse().ok(),
        usecs => format!("coalesce:usecs={usecs}us,masked=true").parse().ok(),
    }
}

fn effect(calibration: &Calibration, old: &Scheme, new: &Scheme, run: &str) -> Option<String> {
    let hosts = hosts(calibration);
    let pps = LOAD_SHARE / (calibration.host.protocol_s + calibration.host.application_s.unwrap_or(0.0));
    let outcomes =
        |scheme: &Scheme| -> Option<Vec<Outcome>> { hosts.iter().map(|host| answer(host, scheme, pps)).collect() };
    let (before, after) = (outcomes(old)?, outcomes(new)?);
    let wait = |outcome: &Outcome| Some(outcome.latency_s?.mean?.value * 1e6);
    let left = |outcome: &Outcome| Some(outcome.cpu?.available?.value * 100.0);
    let told = |outcomes: &[Outcome], read: &dyn Fn(&Outcome) -> Option<f64>| -> Option<String> {
        let values: Vec<f64> = outcomes.iter().map(read).collect::<Option<_>>()?;
        let (low, high) =
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
        Some(if high - low < 0.05 {
            format!("{:.1}", values[0])
        } else {
            format!("{:.1} ({low:.1} to {high:.1})", values[0])
        })
    };
    Some(format!(
        "at {:.0} kpps, mean wait {} -> {} us, CPU left {} -> {} % (on paper; costs of {run}, ranges from their intervals)",
        pps / 1e3,
        told(&before, &wait)?,
        told(&after, &wait)?,
        told(&before, &left)?,
        told(&after, &left)?,
    ))
}

/// The calibrated host, and the same with every cost at the low and at the high end of its interval.
fn hosts(calibration: &Calibration) -> Vec<Host> {
    let end = |pick: fn(&netcliff_core::Interval) -> f64| {
        let mut host = calibration.host.clone();
        for cost in calibration.costs.iter().filter(|cost| cost.unit == "s") {
            if let Some(interval) = &cost.figure.interval {
                // What is no key of a host (a cost shown for itself) changes nothing.
                let _ = host.set(&format!("{}={}s", cost.key, pick(interval).max(0.0)));
            }
        }
        host
    };
    vec![calibration.host.clone(), end(|interval| interval.low), end(|interval| interval.high)]
}

fn answer(host: &Host, scheme: &Scheme, pps: f64) -> Option<Outcome> {
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        size: FrameSizes::Fixed(64),
        rate: Load::Pps(pps),
        link_bps: LINK_BPS,
        flows: None,
    };
    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic };
    ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).ok()
}

/// What measuring with and without a plan said.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Trial {
    /// Measured without the plan, by round.
    pub without: Vec<f64>,
    /// Measured with it, by round.
    pub with: Vec<f64>,
    /// With minus without: mean of the rounds with its paired Student interval.
    pub difference: Figure,
    /// What that means.
    pub verdict: Verdict,
}

/// What a trial means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies wholly on the good side.
    Better,
    /// Wholly on the bad side.
    Worse,
    /// It holds 0.
    NotDecided,
}

/// Measures in rounds of two, with and without the plan, the order changing from round to round so that what drifts
/// cancels. `measure` sets the host up as told and gives the figure.
///
/// # Errors
/// The first of `measure`.
pub fn rounds<E>(
    rounds: usize,
    lower_is_better: bool,
    mut measure: impl FnMut(bool) -> Result<f64, E>,
) -> Result<Trial, E> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(2) {
        for tuned in [round % 2 == 1, round % 2 == 0] {
            let value = measure(tuned)?;
            if tuned { with.push(value) } else { without.push(value) }
        }
    }
    let differences: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    // Two rounds at least, so there is a mean.
    let difference = stats::mean(&differences).unwrap_or(Figure::exact(f64::NAN));
    let verdict = verdict(&difference, lower_is_better);
    Ok(Trial { without, with, difference, verdict })
}

fn verdict(difference: &Figure, lower_is_better: bool) -> Verdict {
    let Some(interval) = &difference.interval else { return Verdict::NotDecided };
    match (interval.high < 0.0, interval.low > 0.0) {
        (true, _) => {
            if lower_is_better {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        }
        (_, true) => {
            if lower_is_better {
                Verdict::Worse
            } else {
                Verdict::Better
            }
        }
        _ => Verdict::NotDecided,
    }
}

/// The figure in what a command printed: with a JSON pointer (`/latency/p99_s`) from its JSON, else the last number.
///
/// # Errors
/// A sentence that says what was looked for.
pub fn figure(output: &str, pointer: Option<&str>) -> Result<f64, String> {
    let found = match pointer {
        Some(pointer) => {
            let line = output.lines().rev().find(|line| line.trim_start().starts_with('{'));
            let whole = serde_json::from_str::<serde_json::Value>(output).ok();
            let json = whole.or_else(|| serde_json::from_str(line?).ok());
            json.as_ref().and_then(|json| json.pointer(pointer)).and_then(|value| {
                // A sampled figure stands under `value`, a spread under `median`.
                value.as_f64().or_else(|| value.get("value")?.as_f64()).or_else(|| value.get("median")?.as_f64())
            })
        }
        None => output.split(|c: char| c.is_whitespace() || c == ',').rev().find_map(|word| word.parse().ok()),
    };
    found.filter(|value: &f64| value.is_finite()).ok_or_else(|| match pointer {
        Some(pointer) => format!("the command printed no JSON with a number at {pointer}"),
        None => "the command printed no number; name one of its JSON with --metric /path".to_owned(),
    })
}
