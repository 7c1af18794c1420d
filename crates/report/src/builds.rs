//! Formats that build servers read: [`junit`] and [`benchmark`].

use maud::{PreEscaped, html};
use netcliff_lab::compare::{Better, Comparison, Outcome, Row, Verdict};
use serde_json::{Value, json};

use crate::format::Unit;
use crate::terminal::comparison::{change, name, value};

/// A comparison as JUnit XML, which build servers show as tests: each figure of a point is a test case. With
/// `--fail-if-slower`, figures that are shown to be slower by more than the limit fail, and inconclusive ones are
/// skipped. Without it, none fails.
pub fn junit(comparison: &Comparison) -> String {
    let inconclusive = comparison.gate.is_some_and(|gate| gate.outcome == Outcome::Inconclusive);
    let results: Vec<Result> = comparison.rows.iter().map(|row| result(row, inconclusive)).collect();
    let count = |which: fn(&Result) -> bool| results.iter().filter(|result| which(result)).count();
    let suite = format!("netcliff compare: {} against {}", comparison.b.name, comparison.a.name);
    let body = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites {
            testsuite name=(suite) tests=(results.len()) errors="0" failures=(count(|r| matches!(r, Result::Failed(_))))
                skipped=(count(|r| matches!(r, Result::Skipped(_)))) {
                @for (row, result) in comparison.rows.iter().zip(&results) {
                    testcase classname={ "netcliff." (comparison.kind) "." (row.point) } name=(row.quantity.name) {
                        @match result {
                            Result::Failed(why) => failure message=(why) { (why) },
                            // An element without content has to be closed in XML.
                            Result::Skipped(why) => skipped message=(why) { "" },
                            Result::Passed => {},
                        }
                        (PreEscaped("<system-out>")) (line(row)) (PreEscaped("</system-out>"))
                    }
                }
            }
        }
    };
    body.into_string() + "\n"
}

enum Result {
    Passed,
    Failed(String),
    Skipped(String),
}

fn result(row: &Row, inconclusive: bool) -> Result {
    match (&row.bar, row.verdict) {
        (Some(bar), _) if bar.shown => {
            Result::Failed(format!("shown to be slower by more than the bar: {}", line(row)))
        }
        (Some(bar), _) if inconclusive && !bar.within => {
            Result::Skipped(format!("inconclusive, more repeats are needed: {}", line(row)))
        }
        (None, Verdict::Computed) => Result::Skipped("computed, not measured".to_owned()),
        _ => Result::Passed,
    }
}

fn line(row: &Row) -> String {
    let unit = Unit::of(row.quantity.dimension);
    format!("{}: {} before, {} now, {}", name(row), value(&row.a, unit), value(&row.b, unit), change(row))
}

/// The figures of the second run in the JSON that github-action-benchmark reads: figures for which more is better
/// (`tool: customBiggerIsBetter`), or those for which less is better (`customSmallerIsBetter`).
pub fn benchmark(comparison: &Comparison, better: Better) -> Value {
    let entry = |row: &Row| {
        let half = row.b.interval.map(|interval| (interval.high - interval.low) / 2.0);
        let mut entry = json!({
            "name": format!("{} {}", row.point, series(row)),
            "unit": unit_in(row.quantity.name),
            "value": row.b.value,
            "extra": format!("{} against {}: {}", comparison.b.name, comparison.a.name, change(row)),
        });
        if let Some(half) = half {
            entry["range"] = json!(format!("± {}", three_digits(half)));
        }
        entry
    };
    let fits = |row: &&Row| row.quantity.better == better && !row.computed;
    Value::Array(comparison.rows.iter().filter(fits).map(entry).collect())
}

/// Name of a figure in a benchmark's series. It stays the same when the words on screens change, since the build server
/// finds earlier values by it.
fn series(row: &Row) -> String {
    if row.quantity.name == "livelock" { "of peak, at 2x".to_owned() } else { name(row) }
}

/// The unit at the end of a figure's name: `s` in `latency_p50_s`, `us/transaction` in `client_us_per_transaction`,
/// `1/s` in `rate_per_s`.
fn unit_in(name: &str) -> String {
    let last = |words: &str| words.rsplit_once('_').map_or("", |(_, unit)| unit).to_owned();
    match name.split_once("_per_") {
        Some((of, per)) => match last(of).as_str() {
            "" => format!("1/{per}"),
            unit => format!("{unit}/{per}"),
        },
        None => last(name),
    }
}

/// A half width to three digits, as a plain number: latencies are in seconds.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_names() {
        let told = ["latency_p50_s", "goodput_bps", "client_us_per_transaction", "rate_per_s"].map(unit_in);
        assert_eq!(told, ["s", "bps", "us/transaction", "1/s"]);
    }

    #[test]
    fn a_half_width_of_microseconds_is_not_zero() {
        assert_eq!([4.6912e-6, 547.0548, 0.0].map(three_digits), [4.69e-6, 547.0, 0.0]);
        assert_eq!(three_digits(4.6912e-6).to_string(), "0.00000469");
    }
}
