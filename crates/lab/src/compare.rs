//! `netcliff compare`: compares the measurements of two runs, point by point.
//!
//! `read` converts the output of netcliff (a run in the store, or a file of its JSON) into a [`Measured`]: points with
//! figures, depending on the kind of run (`kinds`). [`compare`] is a pure function of two of them and returns a
//! [`Comparison`]: `rows` tests the figures that both have, `context` lists other differences. For the statistics and
//! the reasons for them, see [`netcliff_stats::contrast`].

mod context;
mod gate;
mod kinds;
mod measured;
mod quantity;
mod read;
mod rows;
#[cfg(test)]
mod tests;

use netcliff_core::Provenance;
use serde::Serialize;

use netcliff_stats::CONFIDENCE;

pub use context::Change;
pub use gate::{Gate, Outcome, Standing};
pub use kinds::{Repetition, point_title};
pub use measured::{Calibrated, Measured, MeasuredPoint, Reading};
pub use quantity::{Better, Class, Quantity};
pub use read::{ReadError, Source};
pub use rows::{Row, Verdict};

#[cfg(test)]
pub(crate) const fn goodput() -> Quantity {
    quantity::GOODPUT
}

use context::{changed, notes};
use gate::{detectable, judge};
use rows::{correct, rows_of};

/// Why two runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// The runs measured different things.
    #[error("{a} is of `{a_kind}` and {b} of `{b_kind}`: only runs of the same kind have figures in common")]
    Kinds {
        /// Name of the first run.
        a: String,
        /// Kind of the first run.
        a_kind: &'static str,
        /// Name of the second run.
        b: String,
        /// Kind of the second run.
        b_kind: &'static str,
    },
    /// The rates of the runs mean different things.
    #[error(
        "{a} has rates by the {a_clock}'s clock and {b} by the {b_clock}'s: repeat one of them with the other's --method"
    )]
    Clocks {
        /// Name of the first run.
        a: String,
        /// Clock of the first run's rates.
        a_clock: String,
        /// Name of the second run.
        b: String,
        /// Clock of the second run's rates.
        b_clock: String,
    },
    /// The runs have no point in common.
    #[error("no point is in both: {a} has {a_points}, {b} has {b_points}")]
    NothingInCommon {
        /// Name of the first run.
        a: String,
        /// Names of points of the first run.
        a_points: String,
        /// Name of the second run.
        b: String,
        /// Names of points of the second run.
        b_points: String,
    },
}

/// One of the two compared runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Side {
    /// Name of the run in messages, such as `run 17 (new-kernel)`, or name of its file.
    pub name: String,
    /// How the run was made: version, command and time.
    pub provenance: Provenance,
    /// True if the run was stopped or cut short.
    pub partial: bool,
}

/// Result of the comparison of run B with run A.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Kind of both runs, such as `stream`.
    pub kind: &'static str,
    /// Run A, the reference.
    pub a: Side,
    /// Run B, which is judged against run A.
    pub b: Side,
    /// Confidence of the intervals. The significance level of the tests is 1 minus this confidence.
    pub confidence: f64,
    /// One row for each figure of a point that both runs have.
    pub rows: Vec<Row>,
    /// Names of the points that only run A has.
    pub only_a: Vec<String>,
    /// Names of the points that only run B has.
    pub only_b: Vec<String>,
    /// Settings, facts of the hosts and calibrated costs that differ between the runs. They may explain a difference.
    pub changed: Vec<Change>,
    /// The share given with `--fail-if-slower`; absent if the option was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_slower: Option<f64>,
    /// Result of the test for `--fail-if-slower`; absent if the option was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Smallest slow-down, as a share, that the tests would have shown with probability 0.8 for the figure of class
    /// `speed` with the largest error; absent if no such figure could be tested, or if one is too uncertain to show any
    /// slow-down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
    /// True if a figure of class `speed` is shown to be slower by more than `fail_if_slower`.
    pub failed: bool,
    /// Remarks on the comparison, a sentence each.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Whether any figure was tested.
    pub fn is_tested(&self) -> bool {
        self.rows.iter().any(|row| row.p_corrected.is_some())
    }

    /// Whether a calibrated cost differs between the runs by more than a tenth; `notes` then names the cost.
    pub fn costs_differ(&self) -> bool {
        context::moved(&self.changed).is_some()
    }
}

/// Compares the second run with the first.
///
/// # Errors
/// The runs have no figure in common.
pub fn compare(a: &Measured, b: &Measured, fail_if_slower: Option<f64>) -> Result<Comparison, NotComparable> {
    check(a, b)?;
    let mut rows: Vec<Row> = a.points.iter().flat_map(|point| rows_of(point, b)).collect();
    for class in [Class::Speed, Class::Cost] {
        correct(&mut rows, class);
    }
    let gate = fail_if_slower.map(|share| judge(&mut rows, a, b, share));
    let only = |here: &Measured, there: &Measured| -> Vec<String> {
        let lacks = |point: &&MeasuredPoint| there.point(&point.name).is_none();
        here.points.iter().filter(lacks).map(|point| point.name.clone()).collect()
    };
    let side =
        |run: &Measured| Side { name: run.name.clone(), provenance: run.provenance.clone(), partial: run.partial };
    let changed = changed(a, b);
    Ok(Comparison {
        kind: a.kind,
        a: side(a),
        b: side(b),
        confidence: CONFIDENCE,
        only_a: only(a, b),
        only_b: only(b, a),
        fail_if_slower,
        failed: gate.is_some_and(|gate| gate.outcome == Outcome::Failed),
        gate,
        detectable: detectable(&rows, a, b),
        notes: notes(a, b, &changed, &rows),
        changed,
        rows,
    })
}

fn check(a: &Measured, b: &Measured) -> Result<(), NotComparable> {
    let names = || (a.name.clone(), b.name.clone());
    if a.kind != b.kind {
        let (a_name, b_name) = names();
        return Err(NotComparable::Kinds { a: a_name, a_kind: a.kind, b: b_name, b_kind: b.kind });
    }
    if let (Some(a_clock), Some(b_clock)) = (&a.clock, &b.clock)
        && a_clock != b_clock
    {
        let (a, b) = names();
        return Err(NotComparable::Clocks { a, a_clock: a_clock.clone(), b, b_clock: b_clock.clone() });
    }
    if !a.points.iter().any(|point| b.point(&point.name).is_some()) {
        let (a_name, b_name) = names();
        return Err(NotComparable::NothingInCommon { a: a_name, a_points: few(a), b: b_name, b_points: few(b) });
    }
    Ok(())
}

/// Names of the first three points of a run, for messages.
fn few(run: &Measured) -> String {
    let names: Vec<String> = run.points.iter().take(3).map(|point| point_title(run.kind, &point.name)).collect();
    match run.points.len() {
        0 => "none".to_owned(),
        1..=3 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), more - 3),
    }
}
