//! A tuning plan before and after it is applied: the [`effects()`] that model and simulator predict with this host's
//! costs, and [`rounds`], which alternately measures the host with and without the plan.

mod effects;
mod measured;
#[cfg(test)]
mod tests;

pub use effects::effects;
pub use measured::{dimension, drawn, experiment_figure, is_better_higher};

use netcliff_core::Figure;
use netcliff_core::units::without_unit;
use serde_json::Value;

use netcliff_stats as stats;

/// Joint confidence of the intervals of all differences in a trial.
const CONFIDENCE: f64 = stats::CONFIDENCE;

/// A figure that is measured, and whether higher or lower values are better.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Yardstick {
    /// Path of the figure in the JSON of a command, or name of the figure; empty: the last number that the command
    /// prints.
    pub figure: String,
    /// True if higher values are better.
    pub higher_is_better: bool,
}

/// One figure, measured in rounds with and without a tuning plan.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// The figure.
    #[serde(flatten)]
    pub of: Yardstick,
    /// Values without the plan, by round.
    pub without: Vec<f64>,
    /// Values with the plan, by round.
    pub with: Vec<f64>,
    /// Mean over the rounds of the value with the plan minus the value without it, with the paired Student interval.
    /// The intervals of several figures hold together with 95 % confidence (Bonferroni).
    pub difference: Figure,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Verdict on a tuning plan, by one figure or by several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies wholly on the better side of 0.
    Better,
    /// The interval lies wholly on the worse side of 0.
    Worse,
    /// The interval contains 0.
    NotDecided,
    /// Some figures are better and others are worse.
    Mixed,
}

impl Verdict {
    /// Verdict on several figures whose intervals hold jointly: that of the figures with a decided verdict, or mixed if
    /// these disagree.
    pub fn of_all(trials: &[Trial]) -> Self {
        let any = |verdict| trials.iter().any(|trial| trial.verdict == verdict);
        match (any(Self::Better), any(Self::Worse)) {
            (true, true) => Self::Mixed,
            (true, false) => Self::Better,
            (false, true) => Self::Worse,
            (false, false) => Self::NotDecided,
        }
    }
}

/// Measures in rounds, each with and without the plan. The order alternates from round to round, so that drift cancels
/// out. `measure` sets up the host as requested and returns a value for each of `yardsticks`, in their order.
///
/// # Errors
/// The first error of `measure`.
pub fn rounds<E>(
    rounds: usize,
    yardsticks: &[Yardstick],
    mut measure: impl FnMut(bool) -> Result<Vec<f64>, E>,
) -> Result<Vec<Trial>, E> {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds.max(2) {
        for tuned in [round % 2 == 1, round % 2 == 0] {
            let values = measure(tuned)?;
            if tuned { with.push(values) } else { without.push(values) }
        }
    }
    let confidence = 1.0 - (1.0 - CONFIDENCE) / yardsticks.len().max(1) as f64;
    let of =
        |rounds: &[Vec<f64>], place: usize| rounds.iter().filter_map(|values| values.get(place).copied()).collect();
    let trial = |(place, yardstick): (usize, &Yardstick)| {
        trial(yardstick.clone(), of(&without, place), of(&with, place), confidence)
    };
    Ok(yardsticks.iter().enumerate().map(trial).collect())
}

fn trial(of: Yardstick, without: Vec<f64>, with: Vec<f64>, confidence: f64) -> Trial {
    let differences: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    // There are at least two rounds, so that the mean exists.
    let difference = stats::mean_at(&differences, confidence).unwrap_or(Figure::exact(f64::NAN));
    let verdict = verdict(&difference, of.higher_is_better);
    Trial { of, without, with, difference, verdict }
}

fn verdict(difference: &Figure, higher_is_better: bool) -> Verdict {
    let Some(interval) = &difference.interval else { return Verdict::NotDecided };
    match (interval.high < 0.0, interval.low > 0.0) {
        (true, _) if higher_is_better => Verdict::Worse,
        (_, true) if higher_is_better => Verdict::Better,
        (true, _) => Verdict::Better,
        (_, true) => Verdict::Worse,
        _ => Verdict::NotDecided,
    }
}

/// Extracts the figure from the output of a command: with a JSON pointer (`/latency/p99_s`) from its JSON, otherwise
/// the last number.
///
/// # Errors
/// A sentence that says what is missing. If the JSON has other numbers, it names some of their pointers.
pub fn figure(output: &str, pointer: Option<&str>) -> Result<f64, String> {
    let Some(pointer) = pointer else {
        let words = output.split(|c: char| c.is_whitespace() || c == ',');
        let last = words.rev().find_map(|word| word.parse().ok()).filter(|value: &f64| value.is_finite());
        return last
            .ok_or_else(|| "the command printed no number; name one of its JSON with --metric /path".to_owned());
    };
    let line = output.lines().rev().find(|line| line.trim_start().starts_with('{'));
    let whole = serde_json::from_str::<Value>(output).ok();
    let Some(json) = whole.or_else(|| serde_json::from_str(line?).ok()) else {
        return Err(format!("the command printed no JSON, so that --metric {pointer} names no number"));
    };
    json.pointer(pointer).and_then(number).filter(|value| value.is_finite()).ok_or_else(|| {
        let missing = format!("the command's JSON has no number at {pointer}");
        match examples(&json, pointer).as_slice() {
            [] => format!("{missing}, and no number elsewhere"),
            names => format!("{missing}; it has, for example, {}", names.join(", ")),
        }
    })
}

/// The number that a value stands for. A sampled figure has it under `value`; a distribution has it under `median`.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.get("value")?.as_f64()).or_else(|| value.get("median")?.as_f64())
}

/// Largest number of pointers that [`examples`] returns.
const EXAMPLES: usize = 5;

/// Pointers of numbers in `json`: first those with the last key of `pointer`, then those whose last key differs from it
/// in the unit, then others.
fn examples(json: &Value, pointer: &str) -> Vec<String> {
    fn last_key(pointer: &str) -> &str {
        pointer.rsplit('/').next().unwrap_or(pointer)
    }
    let mut all = Vec::new();
    numbers(json, String::new(), &mut all);
    let wanted = last_key(pointer);
    all.sort_by_key(|one| {
        let key = last_key(one);
        (key != wanted, without_unit(key) != without_unit(wanted))
    });
    all.truncate(EXAMPLES);
    all
}

/// Adds the pointers of the numbers below the place `at` to `found`; of an array those of its first item.
fn numbers(json: &Value, at: String, found: &mut Vec<String>) {
    match json {
        _ if number(json).is_some() && !at.is_empty() => found.push(at),
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                numbers(value, format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                numbers(first, format!("{at}/0"), found);
            }
        }
        _ => {}
    }
}
