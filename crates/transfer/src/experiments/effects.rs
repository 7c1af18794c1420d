//! The effect of each factor on a measured value: least squares of the value's logarithm on the levels.
//!
//! The model is `ln y = mean + sum over the factors of the effect of its level`, so an effect is a ratio to the
//! baseline's level, independent of the scale that other factors set. In a balanced orthogonal design it is the ratio
//! of geometric means; in a one-at-a-time design, the ratio to the baseline. The error is that of the repeats (pure
//! error: interactions of factors do not widen the intervals). p is corrected by Holm over the effects on one value.

use netcliff_core::Figure;

use netcliff_stats::contrast::{Estimate, holm, p_same};
use netcliff_stats::{CONFIDENCE, Line, least_squares};

/// The effect of one level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelEffect {
    /// Index of the factor.
    pub factor: usize,
    /// Index of the level, from 1. Level 0 is the baseline.
    pub level: usize,
    /// Fitted means (geometric) with the factor at level 0, then at this level. The other factors have each of their
    /// levels as often as in the design (in a balanced design, this is the mean of the configurations at the level). In
    /// a one-at-a-time design they stay at level 0.
    pub means: (f64, f64),
    /// Ratio of this level to level 0, minus 1, with its interval.
    pub change: Figure,
    /// Two-sided p-value of "no effect", corrected for multiple comparisons (Holm).
    pub p_corrected: f64,
}

/// The levels of one configuration, and the values of its repeats.
pub type Observed<'a> = (&'a [usize], Vec<f64>);

/// The effect of each level of each factor, compared with the factor's first level. Empty if there are too few repeats,
/// a value is not positive, or the configurations do not distinguish the factors.
pub fn effects(levels: &[usize], observed: &[Observed<'_>]) -> Vec<LevelEffect> {
    let columns: Vec<(usize, usize)> =
        levels.iter().enumerate().flat_map(|(factor, levels)| (1..*levels).map(move |level| (factor, level))).collect();
    let (mut rows, mut y) = (Vec::new(), Vec::new());
    let (mut squares, mut degrees) = (0.0, 0usize);
    for (config, values) in observed {
        if values.iter().any(|value| !(value.is_finite() && *value > 0.0)) {
            return Vec::new();
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        degrees += logs.len().saturating_sub(1);
        let dummies = columns.iter().map(|(factor, level)| f64::from(u8::from(config[*factor] == *level)));
        let row: Vec<f64> = std::iter::once(1.0).chain(dummies).collect();
        for log in logs {
            rows.push(row.clone());
            y.push(log);
        }
    }
    let Some(Line { coefficients, variances }) = least_squares(&rows, &y).filter(|_| degrees > 0) else {
        return Vec::new();
    };
    let variance = squares / degrees as f64;
    let estimates: Vec<Estimate> = (1..=columns.len())
        .map(|at| Estimate {
            mean: coefficients[at],
            error: (variance * variances[at]).sqrt(),
            degrees: degrees as f64,
        })
        .collect();
    // The fitted logarithm with this factor at level 0 and each other factor at the mean of its levels, or at level 0
    // in a one-at-a-time design.
    let one_at_a_time = observed.iter().all(|(config, _)| config.iter().filter(|level| **level > 0).count() < 2);
    let share = |at: usize| {
        if one_at_a_time { 0.0 } else { rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64 }
    };
    let others = |own: usize| {
        let others = columns.iter().zip(1..).filter(|((factor, _), _)| *factor != own);
        coefficients[0] + others.map(|(_, at)| coefficients[at] * share(at)).sum::<f64>()
    };
    let none = Estimate::exact(0.0);
    let p = holm(&estimates.iter().map(|estimate| p_same(&none, estimate)).collect::<Vec<_>>());
    let effect = |((&(factor, level), estimate), p_corrected): ((&(usize, usize), &Estimate), f64)| {
        let log = estimate.figure(CONFIDENCE);
        let from = others(factor).exp();
        let means = (from, from * log.value.exp());
        LevelEffect { factor, level, means, change: log.mapped(f64::exp_m1), p_corrected }
    };
    columns.iter().zip(&estimates).zip(p).map(effect).collect()
}
