//! The figures that both runs have, with their test results.

use netcliff_core::Figure;
use serde::Serialize;

use super::gate::Standing;
use super::{Better, Class, Measured, MeasuredPoint, Quantity, Reading};
use netcliff_stats::CONFIDENCE;
use netcliff_stats::contrast::{holm, p_same, relative_change};

/// Verdict on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Computed by model or simulator: shown but not tested, since it is no measurement.
    Computed,
}

/// A figure of a point that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// True: `a` is a lower limit, something other than what was measured limited it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub a_lower_limit: bool,
    /// The same of `b`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub b_lower_limit: bool,
    /// True: of the model or the simulator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub computed: bool,
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
    /// Verdict.
    pub verdict: Verdict,
    /// Result against the bar, if there is one and the figure counts for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<Standing>,
}

impl Row {
    /// Whether the lower value is a lower limit, so that it is unknown which of the two is higher.
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
            computed: here.computed || there.computed,
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
        Some(match (row.computed, row.is_open()) {
            (true, _) => Row { p: None, verdict: Verdict::Computed, ..row },
            (_, true) => Row { p: None, ..row },
            _ => row,
        })
    };
    point.figures.iter().filter_map(pair).collect()
}

/// Applies Holm's correction to the tests of one class, and sets the verdicts.
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
