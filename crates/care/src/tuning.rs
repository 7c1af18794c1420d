//! A tuning plan before and after it is applied: the [`effects()`] that model and simulator predict with this host's
//! costs, and [`rounds`], which alternately measures the host with and without the plan.

mod effects;
mod measured;
#[cfg(test)]
mod tests;

pub use effects::effects;
pub use measured::{drawn, experiment_figure, is_better_higher};

use netcliff_core::Figure;

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
/// A sentence that says what is missing.
pub fn figure(output: &str, pointer: Option<&str>) -> Result<f64, String> {
    let found = match pointer {
        Some(pointer) => {
            let line = output.lines().rev().find(|line| line.trim_start().starts_with('{'));
            let whole = serde_json::from_str::<serde_json::Value>(output).ok();
            let json = whole.or_else(|| serde_json::from_str(line?).ok());
            json.as_ref().and_then(|json| json.pointer(pointer)).and_then(|value| {
                // A sampled figure has its value under `value`; a distribution has it under `median`.
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
