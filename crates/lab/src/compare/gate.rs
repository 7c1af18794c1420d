//! `--fail-if-slower`: whether B is slower than A by more than a share, is not, or the result is inconclusive.
//!
//! Pass and fail both need evidence. B fails if some figure is significantly slower by more than the share (Holm over
//! all figures, because a single false alarm must be rare). B passes if each figure is significantly less slow than
//! that (an intersection-union test: each figure at the full level, without correction). Everything else is
//! inconclusive, however small the difference of the means is.

use serde::Serialize;

use super::{Better, Class, Measured, Row};
use netcliff_stats::CONFIDENCE;
use netcliff_stats::contrast::{Estimate, detectable_share, holm, p_at_least, p_at_most};

/// Power: probability with which a change of the smallest detectable size is shown.
const POWER: f64 = 0.8;

/// Outcome of the test for `--fail-if-slower`: whether run B is slower than run A by more than the given share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every figure of class `speed` is shown to be slower by less than the share, or not slower.
    Passed,
    /// At least one figure of class `speed` is shown to be slower by more than the share.
    Failed,
    /// Neither of these is shown, for example because there are too few repeats.
    Inconclusive,
}

/// Result of the test for `--fail-if-slower`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// Outcome over all figures of class `speed`.
    pub outcome: Outcome,
    /// Number of figures of class `speed` that were measured in both runs.
    pub figures: usize,
    /// Number of these figures that could be tested.
    pub tested: usize,
    /// Smallest slow-down, as a share, that the tests would have shown with probability 0.8 for the figure of class
    /// `speed` with the largest error; absent if no such figure could be tested, or if one is too uncertain to show any
    /// slow-down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detectable: Option<f64>,
}

/// Result of one figure against the share of `--fail-if-slower`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standing {
    /// True if B is slower than A by more than the share, by the values alone.
    pub beyond: bool,
    /// One-sided p-value of the hypothesis "B is slower by at most the share", corrected by Holm over all figures of
    /// class `speed`; absent if the figure was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_corrected: Option<f64>,
    /// True if the figure is shown to be slower by more than the share.
    pub shown: bool,
    /// One-sided p-value of the hypothesis "B is slower by at least the share", without correction; absent if the
    /// figure was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_within: Option<f64>,
    /// True if the figure is shown to be slower by less than the share, or not slower.
    pub within: bool,
}

/// The two means of a row for a test. `None` if one has no estimate, or if it is unknown which is higher
/// ([`Row::is_open`]).
fn estimates(row: &Row, a: &Measured, b: &Measured) -> Option<(Estimate, Estimate)> {
    let estimate = |run: &Measured| run.reading(&row.point, row.quantity)?.estimate;
    if row.is_open() { None } else { estimate(a).zip(estimate(b)) }
}

/// Tests the figures of speed: whether B is slower than A by more than `share`.
pub(super) fn judge(rows: &mut [Row], a: &Measured, b: &Measured, share: f64) -> Gate {
    let speeds: Vec<usize> =
        (0..rows.len()).filter(|&row| rows[row].quantity.class == Class::Speed && !rows[row].computed).collect();
    let tested: Vec<(usize, Estimate, Estimate)> =
        speeds.iter().filter_map(|&row| estimates(&rows[row], a, b).map(|(a, b)| (row, a, b))).collect();
    let chances: Vec<(f64, f64)> =
        tested.iter().map(|(row, a, b)| p_slower(rows[*row].quantity.better, a, b, share)).collect();
    let corrected = holm(&chances.iter().map(|(p_beyond, _)| *p_beyond).collect::<Vec<f64>>());
    for &row in &speeds {
        rows[row].bar = Some(untested(&rows[row], share));
    }
    for (((row, ..), (_, p_within)), p) in tested.iter().zip(chances).zip(corrected) {
        if let Some(bar) = &mut rows[*row].bar {
            (bar.p_corrected, bar.shown) = (Some(p), bar.beyond && p < 1.0 - CONFIDENCE);
            (bar.p_within, bar.within) = (Some(p_within), !bar.beyond && p_within < 1.0 - CONFIDENCE);
        }
    }
    let bars = || speeds.iter().filter_map(|&row| rows[row].bar);
    Gate {
        outcome: if bars().any(|bar| bar.shown) {
            Outcome::Failed
        } else if !speeds.is_empty() && bars().all(|bar| bar.within) {
            Outcome::Passed
        } else {
            Outcome::Inconclusive
        },
        figures: speeds.len(),
        tested: tested.len(),
        detectable: worst(&tested),
    }
}

/// The smallest slow-down, as a share, that would be shown with probability 0.8 for the figure of speed with the
/// largest error. `None` if no figure could be tested, or if one is too uncertain for any slow-down.
pub(super) fn detectable(rows: &[Row], a: &Measured, b: &Measured) -> Option<f64> {
    let speeds = rows.iter().enumerate().filter(|(_, row)| row.quantity.class == Class::Speed && !row.computed);
    let tested: Vec<_> = speeds.filter_map(|(at, row)| estimates(row, a, b).map(|(a, b)| (at, a, b))).collect();
    worst(&tested)
}

fn worst(tested: &[(usize, Estimate, Estimate)]) -> Option<f64> {
    let level = (1.0 - CONFIDENCE) / tested.len().max(1) as f64;
    let all = tested.iter().map(|(_, a, b)| detectable_share(a, b, level, POWER));
    all.reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// One-sided p of "B is slower by at most the share", and of "B is slower by at least the share".
fn p_slower(better: Better, a: &Estimate, b: &Estimate, share: f64) -> (f64, f64) {
    match better {
        Better::More => (p_at_least(a, b, 1.0 - share), p_at_most(a, b, 1.0 - share)),
        Better::Less => (p_at_most(a, b, 1.0 + share), p_at_least(a, b, 1.0 + share)),
    }
}

/// The result by the values alone, without a test.
fn untested(row: &Row, share: f64) -> Standing {
    let ratio = row.b.value / row.a.value;
    let beyond = match row.quantity.better {
        Better::More => ratio < 1.0 - share,
        Better::Less => ratio > 1.0 + share,
    };
    Standing { beyond, p_corrected: None, shown: false, p_within: None, within: false }
}
