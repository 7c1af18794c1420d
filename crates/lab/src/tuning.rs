//! What is known of a tuning plan before and after it is applied: [`effects()`] from model and simulator with this host's
//! costs, and [`rounds`], the host measured with and without it in turns.

mod effects;
mod measured;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use effects::effects;
pub use measured::{drawn, experiment_figure, is_better_higher};

use netcliff_core::Figure;
use netcliff_core::finding::Calibration;

use crate::stats;
use crate::store::Store;

/// Costs of this host, by the newest `netcliff find` in the store that calibrated, with its run.
///
/// # Errors
/// Why there are none: a part of a sentence.
pub fn newest_calibration(store: &Path) -> Result<(i64, Calibration), String> {
    if !store.exists() {
        return Err("there is no store yet".to_owned());
    }
    let newest = || -> Result<Option<(i64, Calibration)>, crate::store::StoreError> {
        let store = Store::open(store)?;
        for run in store.runs()?.iter().filter(|run| run.kind == "find") {
            if let Some(calibration) = store.finding(run.id)?.and_then(|finding| finding.calibration) {
                return Ok(Some((run.id, calibration)));
            }
        }
        Ok(None)
    };
    newest().map_err(|error| error.to_string())?.ok_or_else(|| "no `netcliff find` in the store has costs".to_owned())
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
