//! The figures that both runs have, and what the tests say of each.

use netcliff_core::Figure;
use serde::Serialize;

use super::{Better, Class, Measured, MeasuredPoint, Quantity, Reading};
use crate::stats::CONFIDENCE;
use crate::stats::contrast::{holm, p_at_least, p_at_most, p_same, relative_change};

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
    /// There are too few repeats to say anything, or the lower of the two is but a lower limit.
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
    /// True: what `a` measured may do more, something else kept it from being higher.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub a_lower_limit: bool,
    /// The same of `b`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub b_lower_limit: bool,
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

impl Row {
    /// The lower value is but a lower limit: which of the two does more cannot be told.
    pub fn is_open(&self) -> bool {
        if self.a.value < self.b.value { self.a_lower_limit } else { self.b_lower_limit }
    }
}

/// The figures of a point that the other run has too.
pub(super) fn rows_of(point: &MeasuredPoint, b: &Measured) -> Vec<Row> {
    let pair = |here: &Reading| {
        let there = b.reading(&point.name, here.quantity)?;
        let figure = |reading: &Reading| {
            reading.estimate.map_or(Figure::exact(reading.value), |estimate| estimate.figure(CONFIDENCE))
        };
        let estimates = here.estimate.zip(there.estimate);
        let row = Row {
            point: point.name.clone(),
            quantity: here.quantity,
            a: figure(here),
            b: figure(there),
            a_lower_limit: here.lower_limit,
            b_lower_limit: there.lower_limit,
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
        };
        Some(if row.is_open() { Row { p: None, ..row } } else { row })
    };
    point.figures.iter().filter_map(pair).collect()
}

/// Holm's correction over the tests of one class, and the verdicts.
pub(super) fn correct(rows: &mut [Row], class: Class) {
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
pub(super) fn judge(rows: &mut [Row], a: &Measured, b: &Measured, share: f64) {
    let p_of = |row: &Row| {
        if row.is_open() {
            return None;
        }
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
