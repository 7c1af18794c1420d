//! `netcliff compare`: what one run measured against another, point by point.
//!
//! `read` turns whatever netcliff wrote (a run of the store, or a file of its JSON) into a [`Measured`]: points, each with
//! the figures its kind of run has. [`compare`] is pure: two of them in, a [`Comparison`] out. The statistics and why
//! they are these: [`crate::stats::contrast`].

mod kinds;
mod quantity;
mod read;
#[cfg(test)]
mod tests;

use netcliff_core::{Figure, Fingerprint, Provenance};
use serde::Serialize;

use crate::stats::CONFIDENCE;
use crate::stats::contrast::{Estimate, holm, p_at_least, p_at_most, p_same, relative_change};

pub use quantity::{Better, Class, Quantity};
pub use read::{ReadError, Source};

/// A run, as a comparison needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// How the user named it.
    pub name: String,
    /// `stream`, `rr`, `transfer`, `find`, `records`.
    pub kind: &'static str,
    /// Whose clock rates are by, where that is a choice.
    pub clock: Option<String>,
    /// The points in their order, each name once.
    pub points: Vec<MeasuredPoint>,
    /// What explains a difference to another run.
    pub fingerprint: Option<Fingerprint>,
    /// The same of the far end's host, where it is another.
    pub far_fingerprint: Option<Fingerprint>,
    /// What was asked and in force beside the points, by name.
    pub facts: Vec<(String, String)>,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped or cut short.
    pub partial: bool,
}

/// One point of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPoint {
    /// Its name: the same point of two runs has the same.
    pub name: String,
    /// Its figures.
    pub figures: Vec<Reading>,
}

/// One figure of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which.
    pub quantity: Quantity,
    /// Mean of the repeats, or the value where there is but one.
    pub value: f64,
    /// What is known of the mean; None where nothing tells how far it would move on its own.
    pub estimate: Option<Estimate>,
    /// Repeats behind it, where they are known; None for what was computed.
    pub repeats: Option<u32>,
}

impl Reading {
    /// Of repeats; None where there are none.
    pub fn of(quantity: Quantity, values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().flatten().filter(|value| value.is_finite()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let repeats = Some(values.len() as u32);
        (!values.is_empty()).then(|| Self { quantity, value: mean, estimate: Estimate::of(&values), repeats })
    }

    /// Of a figure with its interval.
    pub fn of_figure(quantity: Quantity, figure: &Figure, repeats: Option<u32>) -> Option<Self> {
        let estimate = Estimate::of_figure(figure, repeats);
        figure.value.is_finite().then_some(Self { quantity, value: figure.value, estimate, repeats })
    }
}

/// Why two runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotComparable {
    /// They measured different things.
    #[error("{a} is of `{a_kind}` and {b} of `{b_kind}`: only runs of the same kind have figures in common")]
    Kinds {
        /// First run.
        a: String,
        /// Its kind.
        a_kind: &'static str,
        /// Second run.
        b: String,
        /// Its kind.
        b_kind: &'static str,
    },
    /// Their rates mean different things.
    #[error(
        "{a} has rates by the {a_clock}'s clock and {b} by the {b_clock}'s: repeat one of them with the other's --method"
    )]
    Clocks {
        /// First run.
        a: String,
        /// Its clock.
        a_clock: String,
        /// Second run.
        b: String,
        /// Its clock.
        b_clock: String,
    },
    /// No point of one is in the other.
    #[error("no point is in both: {a} has {a_points}, {b} has {b_points}")]
    NothingInCommon {
        /// First run.
        a: String,
        /// Its points.
        a_points: String,
        /// Second run.
        b: String,
        /// Its points.
        b_points: String,
    },
}

/// What is said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, beyond what chance explains.
    Better,
    /// B is worse, beyond what chance explains.
    Worse,
    /// No difference was shown; that is not proof that there is none.
    NotShown,
    /// There are too few repeats to say anything.
    NotTested,
}

/// A figure of a point that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The point.
    pub point: String,
    /// Which figure.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// In the first run, mean with interval.
    pub a: Figure,
    /// In the second.
    pub b: Figure,
    /// Repeats behind `a`.
    pub a_repeats: Option<u32>,
    /// Repeats behind `b`.
    pub b_repeats: Option<u32>,
    /// b/a - 1 with its interval, which is of this figure alone; absent where a is too uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Figure>,
    /// Two-sided p of "the means are the same".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// The same after Holm's correction over the figures of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// What is said of it.
    pub verdict: Verdict,
    /// How it stands to the bar, where there is one and it counts for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<Standing>,
}

/// How a figure stands to `--fail-if-slower`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Standing {
    /// True: the value is slower by more than the bar.
    pub beyond: bool,
    /// One-sided p of "B is slower by no more than the bar", corrected over all figures of speed; absent without a test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// True: shown to be slower by more than the bar.
    pub shown: bool,
}

/// A setting that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// In the first run; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// In the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// How the user named it.
    pub name: String,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped or cut short.
    pub partial: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What kind of runs.
    pub kind: &'static str,
    /// The first: what is compared against.
    pub a: Side,
    /// The second: what is judged.
    pub b: Side,
    /// Confidence of the intervals; one less it is the level of the tests.
    pub confidence: f64,
    /// Figures of points that both have.
    pub rows: Vec<Row>,
    /// Points that only the first has.
    pub only_a: Vec<String>,
    /// Points that only the second has.
    pub only_b: Vec<String>,
    /// Settings that differ: what else may explain a difference.
    pub changed: Vec<Change>,
    /// The share of `--fail-if-slower`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_slower: Option<f64>,
    /// True: some figure is shown to be slower by more than that.
    pub failed: bool,
    /// What a reader must know; sentences.
    pub notes: Vec<String>,
}

/// The second run against the first.
///
/// # Errors
/// They have no figure in common.
pub fn compare(a: &Measured, b: &Measured, fail_if_slower: Option<f64>) -> Result<Comparison, NotComparable> {
    check(a, b)?;
    let mut rows: Vec<Row> = a.points.iter().flat_map(|point| rows_of(point, b)).collect();
    for class in [Class::Speed, Class::Cost] {
        correct(&mut rows, class);
    }
    if let Some(share) = fail_if_slower {
        judge(&mut rows, a, b, share);
    }
    let only = |here: &Measured, there: &Measured| -> Vec<String> {
        let lacks = |point: &&MeasuredPoint| there.point(&point.name).is_none();
        here.points.iter().filter(lacks).map(|point| point.name.clone()).collect()
    };
    let side =
        |run: &Measured| Side { name: run.name.clone(), provenance: run.provenance.clone(), partial: run.partial };
    Ok(Comparison {
        kind: a.kind,
        a: side(a),
        b: side(b),
        confidence: CONFIDENCE,
        only_a: only(a, b),
        only_b: only(b, a),
        changed: changed(a, b),
        fail_if_slower,
        failed: rows.iter().any(|row| row.bar.is_some_and(|bar| bar.shown)),
        notes: notes(a, b, &rows),
        rows,
    })
}

impl Measured {
    fn point(&self, name: &str) -> Option<&MeasuredPoint> {
        self.points.iter().find(|point| point.name == name)
    }

    fn reading(&self, point: &str, quantity: Quantity) -> Option<&Reading> {
        self.point(point)?.figures.iter().find(|reading| reading.quantity == quantity)
    }
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

/// The first points by name.
fn few(run: &Measured) -> String {
    let names: Vec<&str> = run.points.iter().take(3).map(|point| point.name.as_str()).collect();
    match run.points.len() {
        0 => "none".to_owned(),
        1..=3 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), more - 3),
    }
}

fn rows_of(point: &MeasuredPoint, b: &Measured) -> Vec<Row> {
    let pair = |here: &Reading| {
        let there = b.reading(&point.name, here.quantity)?;
        let figure = |reading: &Reading| {
            reading.estimate.map_or(Figure::exact(reading.value), |estimate| estimate.figure(CONFIDENCE))
        };
        let estimates = here.estimate.zip(there.estimate);
        Some(Row {
            point: point.name.clone(),
            quantity: here.quantity,
            a: figure(here),
            b: figure(there),
            a_repeats: here.repeats,
            b_repeats: there.repeats,
            change: match &estimates {
                Some((a, b)) => relative_change(a, b, CONFIDENCE),
                None => Some(Figure::exact(there.value / here.value - 1.0)).filter(|change| change.value.is_finite()),
            },
            p: estimates.as_ref().map(|(a, b)| p_same(a, b)),
            p_corrected: None,
            verdict: Verdict::NotTested,
            bar: None,
        })
    };
    point.figures.iter().filter_map(pair).collect()
}

/// Holm's correction over the tests of one class, and the verdicts.
fn correct(rows: &mut [Row], class: Class) {
    let mut tested: Vec<&mut Row> =
        rows.iter_mut().filter(|row| row.quantity.class == class && row.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|row| row.p).collect();
    for (row, p) in tested.iter_mut().zip(holm(&p)) {
        row.p_corrected = Some(p);
        let more = row.b.value > row.a.value;
        row.verdict = match (p < 1.0 - CONFIDENCE, more == (row.quantity.better == Better::More)) {
            (false, _) => Verdict::NotShown,
            (true, true) => Verdict::Better,
            (true, false) => Verdict::Worse,
        };
    }
}

/// Tests figures of speed against the bar: B slower by more than `share` of A.
fn judge(rows: &mut [Row], a: &Measured, b: &Measured, share: f64) {
    let p_of = |row: &Row| {
        let estimate = |run: &Measured| run.reading(&row.point, row.quantity)?.estimate;
        let (a, b) = (estimate(a)?, estimate(b)?);
        Some(match row.quantity.better {
            Better::More => p_at_least(&a, &b, 1.0 - share),
            Better::Less => p_at_most(&a, &b, 1.0 + share),
        })
    };
    let speeds: Vec<usize> = (0..rows.len()).filter(|&index| rows[index].quantity.class == Class::Speed).collect();
    let tested: Vec<(usize, f64)> = speeds.iter().filter_map(|&index| Some((index, p_of(&rows[index])?))).collect();
    for index in speeds {
        let row = &mut rows[index];
        let ratio = row.b.value / row.a.value;
        let beyond = match row.quantity.better {
            Better::More => ratio < 1.0 - share,
            Better::Less => ratio > 1.0 + share,
        };
        row.bar = Some(Standing { beyond, p_corrected: None, shown: false });
    }
    let corrected = holm(&tested.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    for ((index, _), p) in tested.into_iter().zip(corrected) {
        if let Some(bar) = &mut rows[index].bar {
            (bar.p_corrected, bar.shown) = (Some(p), bar.beyond && p < 1.0 - CONFIDENCE);
        }
    }
}

fn changed(a: &Measured, b: &Measured) -> Vec<Change> {
    let mut changed = Vec::new();
    if a.provenance.version != b.provenance.version {
        let (a, b) = (Some(a.provenance.version.clone()), Some(b.provenance.version.clone()));
        changed.push(Change { name: "netcliff".to_owned(), a, b });
    }
    let fact =
        |run: &Measured, name: &str| run.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.clone());
    let mut names: Vec<&str> = a.facts.iter().chain(&b.facts).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (a, b) = (fact(a, name), fact(b, name));
        if a != b {
            changed.push(Change { name: name.to_owned(), a, b });
        }
    }
    let hosts = [("", &a.fingerprint, &b.fingerprint), ("far host: ", &a.far_fingerprint, &b.far_fingerprint)];
    for (host, a, b) in hosts {
        let Some((here, there)) = a.as_ref().zip(b.as_ref()) else { continue };
        let own = |text: Option<&str>| text.map(str::to_owned);
        let differs = here.diff(there).into_iter();
        changed.extend(differs.map(|(name, a, b)| Change { name: format!("{host}{name}"), a: own(a), b: own(b) }));
    }
    changed
}

/// The run whose far host is known, and the one whose is not, where it is one of each.
fn far_in_one<'a>(a: &'a Measured, b: &'a Measured) -> Option<(&'a str, &'a str)> {
    match (&a.far_fingerprint, &b.far_fingerprint) {
        (Some(_), None) => Some((&a.name, &b.name)),
        (None, Some(_)) => Some((&b.name, &a.name)),
        _ => None,
    }
}

fn notes(a: &Measured, b: &Measured, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    for run in [a, b] {
        if run.partial {
            notes.push(format!("{} is partial: it was stopped or cut short", run.name));
        }
        if run.fingerprint.is_none() && a.kind != "records" {
            notes.push(format!("{} has no fingerprint: what changed on its host cannot be told", run.name));
        }
    }
    if let Some((with, without)) = far_in_one(a, b) {
        notes.push(format!(
            "{with} has a far end on another host and {without} none that tells: what differs there cannot be told"
        ));
    }
    if rows.iter().any(|row| row.verdict == Verdict::NotTested) {
        notes.push(
            "figures without a test have fewer than 2 repeats on a side: measure with at least --repeats 5".to_owned(),
        );
    }
    if rows.iter().any(|row| row.p.is_some_and(|p| p > 0.0 && p < 1.0)) {
        notes.push(
            "the tests know how repeats spread within each run, not what moves a machine from one run to the next: \
             compare two runs of the same thing first"
                .to_owned(),
        );
    }
    notes
}
