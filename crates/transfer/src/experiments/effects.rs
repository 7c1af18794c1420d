//! What each factor does to a figure: least squares of its logarithm on the levels.
//!
//! `ln y = mean + sum over the factors of the effect of its level`, so that an effect is a ratio to the baseline's level,
//! whatever the scale that the other factors put the figure at. In a balanced orthogonal design this is the ratio of
//! geometric means; in one-at-a-time the ratio to the baseline. The error is that of the repeats (pure error: what
//! factors do together does not widen the intervals), and p is corrected by Holm over the effects on one figure.

use netcliff_core::Figure;

use netcliff_stats::contrast::{Estimate, holm, p_same};
use netcliff_stats::{CONFIDENCE, Line, least_squares};

/// The effect of one level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelEffect {
    /// Which factor.
    pub factor: usize,
    /// Which of its levels, from 1; 0 is what it is compared with.
    pub level: usize,
    /// The fitted means of the factor at level 0, then at this one: geometric means, the others being as often at each of their
    /// levels as in the design (in a balanced design that of the configurations at the level); in one-at-a-time the others stay at 0.
    pub means: (f64, f64),
    /// Ratio less 1 of this level to level 0, with its interval.
    pub change: Figure,
    /// Two-sided p of "no effect", corrected.
    pub p_corrected: f64,
}

/// One configuration: its levels and what its repeats measured.
pub type Observed<'a> = (&'a [usize], Vec<f64>);

/// The effects of every level beside the first of every factor; empty where repeats are too few, a value is not
/// positive, or the configurations do not distinguish the factors.
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
    // The fit's logarithm with this factor at its level 0 and every other at the mean of its levels, or at 0 too where they
    // never vary with it.
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
