//! Two measured means: is there a difference, how large is it, and what remains of that after many such questions.
//!
//! Welch's t: the runs may differ in their spread, and with the usual 5 repeats a side a rank or permutation test can
//! not get below p = 2/252, which no correction for more than six points would leave significant. Repeats are means
//! over a second or more, so that the t distribution serves well; `tests` counts false alarms where it does not.
//! Holm's step-down over the points: it holds the chance of even one false alarm, under any dependence between points
//! (the points of a run share the machine's state), which is what a build that fails asks for. Benjamini-Hochberg
//! would let a share of the alarms be false.

use netcliff_core::Figure;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// From here on Student's quantiles are the normal ones to six digits.
const MANY_DEGREES: f64 = 1e7;

/// A mean with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error; 0 for a computed value.
    pub error: f64,
    /// Degrees of freedom behind the standard error; infinite where it is exact.
    pub degrees: f64,
}

impl Estimate {
    /// A computed value.
    pub fn exact(mean: f64) -> Self {
        Self { mean, error: 0.0, degrees: f64::INFINITY }
    }

    /// Of repeats; None for fewer than two, or one that is no number.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { mean, error: (variance / n).sqrt(), degrees: n - 1.0 })
    }

    /// Of searches, each of which says that the value lies between a lower and an upper bound: the mean of the lower ones. How far
    /// the bounds are apart counts as an error of its own, uniform, that more searches do not average out: they may all have
    /// tried the same values. None as for [`Estimate::of`]; a search without an upper bound adds nothing.
    pub fn of_bounds(bounds: &[(f64, Option<f64>)]) -> Option<Self> {
        let spread = Self::of(&bounds.iter().map(|(lower, _)| *lower).collect::<Vec<f64>>())?;
        let widths = bounds.iter().map(|(lower, upper)| upper.map_or(0.0, |upper| upper - lower));
        let width = widths.sum::<f64>() / bounds.len() as f64;
        Some(Self { error: (spread.error.powi(2) + width.powi(2) / 12.0).sqrt(), ..spread })
    }

    /// Of a figure whose interval is taken for Student's with `repeats` behind it, or for the normal one where their
    /// number is not known. None where the interval is of no use.
    pub fn of_figure(figure: &Figure, repeats: Option<u32>) -> Option<Self> {
        let Some(interval) = figure.interval else { return Some(Self::exact(figure.value)) };
        let degrees = repeats.filter(|repeats| *repeats > 1).map_or(f64::INFINITY, |repeats| f64::from(repeats - 1));
        let quantile = quantile(degrees, interval.confidence)?;
        // An amount's interval may be cut at 0; its upper half is whole.
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

/// Two-sided quantile of Student's distribution; None at no sensible confidence.
fn quantile(degrees: f64, confidence: f64) -> Option<f64> {
    let at = 0.5 + confidence / 2.0;
    if !(at > 0.5 && at < 1.0) {
        return None;
    }
    // The library's search for Student's quantile does not end at infinite degrees.
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
    // Computed twice on two machines, a figure may differ in its last digits.
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
        // By the tail that is computed without cancellation.
        let mirrored = Contrast { difference: -self.difference.abs(), ..*self };
        (2.0 * mirrored.below()).min(1.0)
    }

    /// P(T <= t) of the difference over its error.
    fn below(&self) -> f64 {
        if self.error == 0.0 {
            // Computed values, or repeats all alike: they are the same or they are not.
            return match self.difference.partial_cmp(&0.0) {
                Some(std::cmp::Ordering::Less) => 0.0,
                Some(std::cmp::Ordering::Greater) => 1.0,
                _ => 0.5,
            };
        }
        StudentsT::new(0.0, 1.0, self.degrees).map_or(0.5, |t| t.cdf(self.difference / self.error))
    }
}

/// Two-sided p of "both means are the same" (Welch).
pub fn p_same(a: &Estimate, b: &Estimate) -> f64 {
    contrast(a, b, 1.0).p_two_sided()
}

/// One-sided p of "b's mean is at least `factor` times a's": small where b is shown to be less.
pub fn p_at_least(a: &Estimate, b: &Estimate, factor: f64) -> f64 {
    contrast(a, b, factor).below()
}

/// One-sided p of "b's mean is at most `factor` times a's": small where b is shown to be more.
pub fn p_at_most(a: &Estimate, b: &Estimate, factor: f64) -> f64 {
    let contrast = contrast(a, b, factor);
    Contrast { difference: -contrast.difference, ..contrast }.below()
}

/// The smallest change of b against a, as a share of a, that a one-sided test at `level` would show with probability `power`, were b
/// known as well as it is: (t(1 - level) + t(power)) standard errors. None where a is 0 or the errors are without bounds.
pub fn detectable_share(a: &Estimate, b: &Estimate, level: f64, power: f64) -> Option<f64> {
    let contrast = contrast(a, b, 1.0);
    if contrast.error == 0.0 {
        return Some(0.0);
    }
    let one_sided = |probability: f64| quantile(contrast.degrees, 2.0 * probability - 1.0);
    let share = (one_sided(1.0 - level)? + one_sided(power)?) * contrast.error / a.mean.abs();
    share.is_finite().then_some(share)
}

/// b over a, less 1, with the interval of the ratios that Welch's test does not reject: Fieller's, with the degrees of freedom that
/// the test has at each ratio, so that it holds 0 exactly where [`p_same`] is above 1 - `confidence`. None where a is 0, or so
/// uncertain that the interval has no end.
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

/// Doublings of a step in which a ratio that is rejected has to be found, and halvings in which the first of them is.
const DOUBLINGS: u32 = 50;
const HALVINGS: u32 = 60;

/// The first ratio that the two-sided test rejects, going from one that it does not in these steps. None: it rejects none.
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

/// Holm's adjusted p values, in the order given: each is to be compared with the level itself.
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
