//! Settings that differ between two runs, and notes on their comparison.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Calibrated, Measured, Repetition, Row, Verdict, point_title};

/// A setting, a fact of a host or a calibrated cost that differs between the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Name of the setting, fact or cost. Facts of the far end's host start with `far host: `, costs with
    /// `calibration.`.
    pub name: String,
    /// Value in run A; absent if run A has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// Value in run B; absent if run B has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
    /// b/a - 1 of a calibrated cost; absent for settings and facts, and if a run lacks the cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
}

impl Change {
    fn of(name: impl Into<String>, a: Option<String>, b: Option<String>) -> Self {
        Self { name: name.into(), a, b, change: None }
    }
}

/// Smallest relative difference of calibrated costs that is noted.
const CALIBRATION_MOVED: f64 = 0.1;

/// Largest number of costs that the note names.
const MOST_NAMED: usize = 3;

/// Prefix of the names of calibrated costs.
const CALIBRATION: &str = "calibration.";

/// All settings and facts that differ.
pub(super) fn changed(a: &Measured, b: &Measured) -> Vec<Change> {
    let mut changed = Vec::new();
    if a.provenance.version != b.provenance.version {
        let (a, b) = (Some(a.provenance.version.clone()), Some(b.provenance.version.clone()));
        changed.push(Change::of("netcliff", a, b));
    }
    let fact =
        |run: &Measured, name: &str| run.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.clone());
    let mut names: Vec<&str> = a.facts.iter().chain(&b.facts).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (a, b) = (fact(a, name), fact(b, name));
        if a != b {
            changed.push(Change::of(name, a, b));
        }
    }
    let hosts = [("", &a.fingerprint, &b.fingerprint), ("far host: ", &a.far_fingerprint, &b.far_fingerprint)];
    for (host, a, b) in hosts {
        let Some((here, there)) = a.as_ref().zip(b.as_ref()) else { continue };
        let own = |text: Option<&str>| text.map(str::to_owned);
        let differs = here.diff(there).into_iter();
        changed.extend(differs.map(|(name, a, b)| Change::of(format!("{host}{name}"), own(a), own(b))));
    }
    changed.extend(costs(a, b));
    changed
}

/// Calibrated costs that differ. They are results of the runs, not settings.
fn costs(a: &Measured, b: &Measured) -> Vec<Change> {
    let mut keys: Vec<&str> = a.calibrated.iter().chain(&b.calibrated).map(|cost| cost.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    let found = |run: &'_ Measured, key: &str| run.calibrated.iter().find(|cost| cost.key == key).cloned();
    let change = |key: &str| {
        let (a, b) = (found(a, key), found(b, key));
        let share = a.as_ref().zip(b.as_ref()).map(|(a, b)| b.value / a.value - 1.0).filter(|share| share.is_finite());
        let text = |cost: Option<Calibrated>| cost.map(|cost| cost.text());
        Change { change: share, ..Change::of(format!("{CALIBRATION}{key}"), text(a), text(b)) }
    };
    keys.into_iter().map(change).filter(|change| change.a != change.b).collect()
}

/// A note if the runs calibrated different costs; it names those that differ most. `None` if all are within
/// [`CALIBRATION_MOVED`].
pub(super) fn moved(changed: &[Change]) -> Option<String> {
    let moved = |change: &&Change| change.change.is_some_and(|share| share.abs() > CALIBRATION_MOVED);
    let mut most: Vec<(&str, f64)> = changed
        .iter()
        .filter(moved)
        .filter_map(|change| Some((change.name.trim_start_matches(CALIBRATION), change.change?)))
        .collect();
    most.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let named: Vec<String> =
        most.iter().take(MOST_NAMED).map(|(name, share)| format!("{name} by {:+.0} %", share * 100.0)).collect();
    (!named.is_empty()).then(|| {
        format!(
            "calibrated costs differ ({}): the host or its speed may have changed between the runs, which changes every measured figure, too; a second run of A shows whether it did",
            named.join(", ")
        )
    })
}

/// Name of the run that has a fingerprint of the far host, and name of the run that has none. `None` if both or neither
/// have one.
fn far_in_one<'a>(a: &'a Measured, b: &'a Measured) -> Option<(&'a str, &'a str)> {
    match (&a.far_fingerprint, &b.far_fingerprint) {
        (Some(_), None) => Some((&a.name, &b.name)),
        (None, Some(_)) => Some((&b.name, &a.name)),
        _ => None,
    }
}

/// Notes on the comparison.
pub(super) fn notes(a: &Measured, b: &Measured, changed: &[Change], rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for run in [a, b] {
        if run.partial {
            notes.push(format!("{} is partial: it was stopped or interrupted", run.name));
        }
        if let Some(others) = &run.others {
            notes.push(format!("{} was limited by {others}: repeat it on a quiet machine", run.name));
        }
        // A run of computed records needs no fingerprint.
        if run.fingerprint.is_none() && a.kind != "run" {
            notes.push(format!("{} has no fingerprint: what changed on its host is unknown", run.name));
        }
    }
    if let Some((with, without)) = far_in_one(a, b) {
        notes.push(format!(
            "{with} has a far end on another host and {without} no fingerprint of one: what differs there is unknown"
        ));
    }
    notes.extend(moved(changed));
    if rows.iter().any(|row| row.computed) {
        notes.push(
            "figures of the model and the simulator are shown but not tested: they are no measurements".to_owned(),
        );
    }
    notes.extend(untested(a.kind, rows));
    if rows.iter().any(|row| row.p.is_some_and(|p| p > 0.0 && p < 1.0)) {
        notes.push(
            "the tests include the spread of repeats within each run, not changes of the machine between the runs: compare two runs of the same configuration first"
                .to_owned(),
        );
    }
    notes
}

/// Notes on figures that were not tested, with the reason.
fn untested(kind: &str, rows: &[Row]) -> Vec<String> {
    let few = rows.iter().filter(|row| row.verdict == Verdict::NotTested && !row.is_open());
    let ways: BTreeSet<Repetition> = few.map(|row| Repetition::of(kind, row.quantity)).collect();
    let note = |way: Repetition| match way {
        Repetition::Searches if kind == "service" => {
            "figures without a test have fewer than 2 searches on a side (--searches 5 makes five); CPU time has one value a run"
        }
        Repetition::Searches => {
            "a cliff or throughput without a test is of fewer than 2 searches on a side, and one search does not show its own variation: measure with at least --searches 5"
        }
        Repetition::Repeats => {
            "figures without a test have fewer than 2 repeats on a side: measure with at least --repeats 5"
        }
        Repetition::Own => "figures without a test have fewer than 2 repeats on a side: measure with more repeats",
        Repetition::Time => "figures without a test have one value in a run",
    };
    let mut notes: Vec<String> = ways.into_iter().map(|way| note(way).to_owned()).collect();
    let open: Vec<String> = rows.iter().filter(|row| row.is_open()).map(|row| point_title(kind, &row.point)).collect();
    if !open.is_empty() {
        notes.push(format!(
            "{}: not tested, since the lower throughput is a lower limit: the tester, or the highest load allowed (--max), was the limit there, and the device may forward more",
            open.join("; ")
        ));
    }
    notes
}
