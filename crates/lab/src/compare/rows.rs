//! The figures that both runs have, with their test results.

use netcliff_core::{Dimension, Figure, Interval};
use serde::Serialize;

use super::gate::Standing;
use super::{Better, Class, Measured, MeasuredPoint, Quantity, Reading};
use netcliff_stats::CONFIDENCE;
use netcliff_stats::contrast::{difference, holm, p_same, relative_change};

/// Verdict on one figure of run B against run A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better, beyond what chance explains.
    Better,
    /// B is worse, beyond what chance explains.
    Worse,
    /// No significant difference; this does not prove equality.
    NotShown,
    /// Not tested: there are too few repeats, or the lower of the two values is only a lower limit.
    NotTested,
    /// Not tested: the model or the simulator computed the figure, so it is not a measurement.
    Computed,
}

/// One figure of a point that both runs have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// Name of the point.
    pub point: String,
    /// The figure.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// Value in run A: the mean with its interval, or the only value.
    pub a: Figure,
    /// Value in run B: the mean with its interval, or the only value.
    pub b: Figure,
    /// Intervals that the runs A and B have for a value without repeats; they are not tested, and they are not in the
    /// JSON. `None` if the value has repeats or no interval.
    #[serde(skip)]
    pub own_intervals: [Option<Interval>; 2],
    /// True if `a` is a lower limit, because something other than the measured object limited it; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub a_lower_limit: bool,
    /// True if `b` is a lower limit, because something other than the measured object limited it; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub b_lower_limit: bool,
    /// True if the model or the simulator computed the figure; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub computed: bool,
    /// Number of repeats behind `a`; `null` if it is not known, or if `a` was computed.
    pub a_repeats: Option<u32>,
    /// Number of repeats behind `b`; `null` if it is not known, or if `b` was computed.
    pub b_repeats: Option<u32>,
    /// b/a - 1, with its interval for this figure alone; absent if `a` is 0 or too uncertain for a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Figure>,
    /// b - a of a share, with its interval; `None` for other figures.
    #[serde(skip)]
    pub difference: Option<Figure>,
    /// Two-sided p-value of the hypothesis that both means are equal; absent if the figure was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// `p` after Holm's correction over all tested figures of the same class; absent if the figure was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// Verdict on B against A.
    pub verdict: Verdict,
    /// Result against the share of `--fail-if-slower`; absent if the option was not given, or if the figure does not
    /// count for it (costs, and computed figures).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<Standing>,
}

impl Row {
    /// Whether the lower value is a lower limit, so that it is unknown which of the two is higher.
    pub fn is_open(&self) -> bool {
        if self.a.value < self.b.value { self.a_lower_limit } else { self.b_lower_limit }
    }

    /// The values of A and B, each with the interval of its repeats or, without repeats, with the run's own interval.
    pub fn figures(&self) -> [Figure; 2] {
        let [a, b] = self.own_intervals;
        [(self.a, a), (self.b, b)].map(|(figure, own)| Figure { interval: figure.interval.or(own), ..figure })
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
            own_intervals: [here.interval, there.interval],
            a_lower_limit: here.lower_limit,
            b_lower_limit: there.lower_limit,
            computed: here.computed || there.computed,
            a_repeats: here.repeats,
            b_repeats: there.repeats,
            change: match &estimates {
                Some((a, b)) => relative_change(a, b, CONFIDENCE),
                None => Some(Figure::exact(there.value / here.value - 1.0)).filter(|change| change.value.is_finite()),
            },
            difference: (here.quantity.dimension == Dimension::Share).then(|| match &estimates {
                Some((a, b)) => difference(a, b, CONFIDENCE),
                None => Figure::exact(there.value - here.value),
            }),
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
