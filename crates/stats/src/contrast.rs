//! Compares two measured means: whether there is a difference, how large it is, and whether it remains significant
//! among many such tests.
//!
//! Welch's t test: the runs may differ in their spread. With the usual 5 repeats per side, a rank or permutation test
//! cannot get below p = 2/252, which is not significant after a correction for more than six points. Repeats are means
//! over a second or more, so the t distribution fits well; `tests` counts false alarms where it does not. Holm's
//! step-down procedure over the points limits the probability of a single false alarm, under any dependence between
//! points (the points of a run share the machine's state). A build that fails on a difference needs this.
//! Benjamini-Hochberg would permit a share of false alarms.

use netcliff_core::Figure;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Number of degrees of freedom from which Student's quantiles equal the normal ones to six digits.
const MANY_DEGREES: f64 = 1e7;

/// A mean with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Standard error of the mean; 0 for a computed value.
    pub error: f64,
    /// Degrees of freedom of the standard error; infinite if it is exact.
    pub degrees: f64,
}

impl Estimate {
    /// A computed value.
    pub fn exact(mean: f64) -> Self {
        Self { mean, error: 0.0, degrees: f64::INFINITY }
    }

    /// The mean of repeats. `None` for fewer than two, or if one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { mean, error: (variance / n).sqrt(), degrees: n - 1.0 })
    }

    /// The mean of searches, each of which found that the value lies between a lower and an upper bound: the mean of
    /// the lower bounds. The distance of the bounds is a uniform error that more searches do not reduce, because they
    /// may all have tried the same values. `None` as for [`Estimate::of`]. A search without an upper bound adds no such
    /// error.
    pub fn of_bounds(bounds: &[(f64, Option<f64>)]) -> Option<Self> {
        let spread = Self::of(&bounds.iter().map(|(lower, _)| *lower).collect::<Vec<f64>>())?;
        let widths = bounds.iter().map(|(lower, upper)| upper.map_or(0.0, |upper| upper - lower));
        let width = widths.sum::<f64>() / bounds.len() as f64;
        Some(Self { error: (spread.error.powi(2) + width.powi(2) / 12.0).sqrt(), ..spread })
    }

    /// The mean of a figure. Its interval is assumed to be Student's for `repeats` repeats, or normal if their number
    /// is not known. `None` if the interval cannot be used.
    pub fn of_figure(figure: &Figure, repeats: Option<u32>) -> Option<Self> {
        let Some(interval) = figure.interval else { return Some(Self::exact(figure.value)) };
        let degrees = repeats.filter(|repeats| *repeats > 1).map_or(f64::INFINITY, |repeats| f64::from(repeats - 1));
        let quantile = quantile(degrees, interval.confidence)?;
        // The interval of a quantity may be cut off at 0; then its upper half is complete.
        let is_cut = interval.low == 0.0 && figure.value > 0.0;
        let half = if is_cut { interval.high - figure.value } else { (interval.high - interval.low) / 2.0 };
        let error = half / quantile;
        (figure.value.is_finite() && error.is_finite()).then_some(Self { mean: figure.value, error, degrees })
    }

    /// The mean with its two-sided interval.
    pub fn figure(&self, confidence: f64) -> Figure {
        match quantile(self.degrees, confidence) {
            Some(quantile) if self.error > 0.0 => Figure::sampled(self.mean, quantile * self.error, confidence),
            _ => Figure::exact(self.mean),
        }
    }
}

/// Two-sided quantile of Student's distribution. `None` if the confidence is not valid.
fn quantile(degrees: f64, confidence: f64) -> Option<f64> {
    let at = 0.5 + confidence / 2.0;
    if !(at > 0.5 && at < 1.0) {
        return None;
    }
    // The library's search for Student's quantile does not terminate at infinite degrees.
    let t = if degrees < MANY_DEGREES {
        StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(at)
    } else {
        Normal::standard().inverse_cdf(at)
    };
    (t.is_finite() && t > 0.0).then_some(t)
}

/// `b - factor * a` with its standard error and Welch's degrees of freedom.
struct Contrast {
    difference: f64,
    error: f64,
    degrees: f64,
}

fn contrast(a: &Estimate, b: &Estimate, factor: f64) -> Contrast {
    let (from_a, from_b) = ((factor * a.error).powi(2), b.error.powi(2));
    let sum = from_a + from_b;
    let spent = from_a.powi(2) / a.degrees + from_b.powi(2) / b.degrees;
    let difference = b.mean - factor * a.mean;
    // A figure that two machines compute may differ in its last digits.
    let same = sum == 0.0 && difference.abs() <= 1e-9 * b.mean.abs();
    Contrast {
        difference: if same { 0.0 } else { difference },
        error: sum.sqrt(),
        degrees: if spent > 0.0 { sum.powi(2) / spent } else { f64::INFINITY },
    }
}

impl Contrast {
    /// Two-sided p of "the difference is 0".
    fn p_two_sided(&self) -> f64 {
        // Use the tail that is computed without cancellation.
        let mirrored = Contrast { difference: -self.difference.abs(), ..*self };
        (2.0 * mirrored.below()).min(1.0)
    }

    /// P(T <= t), where t is the difference divided by its error.
    fn below(&self) -> f64 {
        if self.error == 0.0 {
            // Without an error (computed values, or repeats without spread), the values are certainly equal or
            // different.
            return match self.difference.partial_cmp(&0.0) {
                Some(std::cmp::Ordering::Less) => 0.0,
                Some(std::cmp::Ordering::Greater) => 1.0,
                _ => 0.5,
            };
        }
        StudentsT::new(0.0, 1.0, self.degrees).map_or(0.5, |t| t.cdf(self.difference / self.error))
    }
}

/// Two-sided p of "both means are equal" (Welch).
pub fn p_same(a: &Estimate, b: &Estimate) -> f64 {
    contrast(a, b, 1.0).p_two_sided()
}

/// One-sided p of "b's mean is at least `factor` times a's". It is small if b is shown to be less.
pub fn p_at_least(a: &Estimate, b: &Estimate, factor: f64) -> f64 {
    contrast(a, b, factor).below()
}

/// One-sided p of "b's mean is at most `factor` times a's". It is small if b is shown to be more.
pub fn p_at_most(a: &Estimate, b: &Estimate, factor: f64) -> f64 {
    let contrast = contrast(a, b, factor);
    Contrast { difference: -contrast.difference, ..contrast }.below()
}

/// The smallest change of b relative to a that a one-sided test at `level` would show with probability `power`, if b
/// had its present error: (t(1 - level) + t(power)) standard errors. `None` if a is 0 or an error is infinite.
pub fn detectable_share(a: &Estimate, b: &Estimate, level: f64, power: f64) -> Option<f64> {
    let contrast = contrast(a, b, 1.0);
    if contrast.error == 0.0 {
        return Some(0.0);
    }
    let one_sided = |probability: f64| quantile(contrast.degrees, 2.0 * probability - 1.0);
    let share = (one_sided(1.0 - level)? + one_sided(power)?) * contrast.error / a.mean.abs();
    share.is_finite().then_some(share)
}

/// b/a - 1, with the interval of the ratios that Welch's test does not reject (Fieller's interval, with the test's
/// degrees of freedom at each ratio). It contains 0 exactly if [`p_same`] is above 1 - `confidence`. `None` if a is 0,
/// or so uncertain that the interval is unbounded.
pub fn relative_change(a: &Estimate, b: &Estimate, confidence: f64) -> Option<Figure> {
    let ratio = b.mean / a.mean;
    if !ratio.is_finite() {
        return None;
    }
    let error = contrast(a, b, ratio).error;
    if error == 0.0 {
        return Some(Figure::exact(ratio - 1.0));
    }
    let step = error / a.mean.abs();
    let end = |step: f64| rejected_from(a, b, ratio, step, 1.0 - confidence);
    Some(Figure::between(ratio - 1.0, end(-step)? - 1.0, end(step)? - 1.0, confidence))
}

/// b - a with Welch's interval, which contains 0 exactly if [`p_same`] is above 1 - `confidence`.
pub fn difference(a: &Estimate, b: &Estimate, confidence: f64) -> Figure {
    let contrast = contrast(a, b, 1.0);
    Estimate { mean: contrast.difference, error: contrast.error, degrees: contrast.degrees }.figure(confidence)
}

/// Largest number of doublings of the step until a ratio is rejected, and number of halvings to find the first such
/// ratio.
const DOUBLINGS: u32 = 50;
const HALVINGS: u32 = 60;

/// Returns the first ratio that the two-sided test rejects, searched in steps of `step` from `from`, a ratio that it
/// accepts. `None` if the test rejects none.
fn rejected_from(a: &Estimate, b: &Estimate, from: f64, step: f64, level: f64) -> Option<f64> {
    let rejects = |away: f64| contrast(a, b, from + away).p_two_sided() <= level;
    let mut away = step;
    for _ in 0..DOUBLINGS {
        if rejects(away) {
            let (mut kept, mut rejected) = (0.0, away);
            for _ in 0..HALVINGS {
                let middle = (kept + rejected) / 2.0;
                *if rejects(middle) { &mut rejected } else { &mut kept } = middle;
            }
            return Some(from + rejected);
        }
        away *= 2.0;
    }
    None
}

/// Holm's adjusted p-values, in the given order. Compare each with the level itself.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0f64;
    for (place, &index) in order.iter().enumerate() {
        least = least.max(((p.len() - place) as f64 * p[index]).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests;
