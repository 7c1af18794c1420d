//! Output analysis: warm-up truncation, t intervals, ratio estimators (docs/theory/statistics.md).

use netcliff_core::Figure;
use netcliff_core::math::two_sided_t;

/// The t value of a two-sided interval of `confidence` over `replications` values.
pub(crate) fn t_value(confidence: f64, replications: usize) -> f64 {
    two_sided_t(confidence, replications.saturating_sub(1))
}

/// Ratio of sums, with the t interval of the classical ratio estimator. `pairs` holds one (numerator, denominator) for
/// each replication. A negative lower end becomes 0. Without an interval if fewer than two denominators are positive;
/// `None` if the denominators add up to 0.
pub(crate) fn ratio(pairs: &[(f64, f64)], confidence: f64) -> Option<Figure> {
    let count = pairs.len() as f64;
    let (above, below) = pairs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    if below <= 0.0 {
        return None;
    }
    let value = above / below;
    if pairs.iter().filter(|(_, below)| *below > 0.0).count() < 2 {
        return Some(Figure::exact(value));
    }
    let square: f64 = pairs.iter().map(|(x, y)| (x - value * y).powi(2)).sum();
    let deviation = (square / (count - 1.0)).sqrt();
    let half = t_value(confidence, pairs.len()) * deviation / count.sqrt() / (below / count);
    Some(Figure::between(value, (value - half).max(0.0), value + half, confidence))
}

/// Like [`ratio`], corrected by a control variate of expectation 0: the part of the ratio that regression over the
/// replications attributes to the control is subtracted (Lavenberg and Welch 1981). `controls` holds one value for each
/// replication; they are not all equal. The interval is the interval of the regression line at 0; its degrees of
/// freedom are the number of replications minus two. `slope` is the [`control_slope`] of these pairs, or of another
/// ratio that must get the same correction.
pub(crate) fn controlled_ratio(pairs: &[(f64, f64)], controls: &[f64], slope: f64, confidence: f64) -> Option<Figure> {
    let count = pairs.len() as f64;
    let (plain, above) = excesses(pairs)?;
    let (control, spread) = moments(controls);
    let rest: f64 = above.iter().zip(controls).map(|(x, c)| (x - slope * (c - control)).powi(2)).sum();
    let variance = rest / (count - 2.0) * (1.0 / count + control.powi(2) / spread);
    let value = (plain - slope * control).max(0.0);
    let half = t_value(confidence, pairs.len() - 1) * variance.sqrt();
    Some(Figure::between(value, (value - half).max(0.0), value + half, confidence))
}

/// Slope of the replications' ratios over their controls, by least squares. `None` if the denominators add up to 0.
pub(crate) fn control_slope(pairs: &[(f64, f64)], controls: &[f64]) -> Option<f64> {
    let (_, above) = excesses(pairs)?;
    let (control, spread) = moments(controls);
    Some(above.iter().zip(controls).map(|(x, c)| x * (c - control)).sum::<f64>() / spread)
}

/// The overall ratio, and the amount by which each replication is above it; these amounts add up to 0. `None` if the
/// denominators add up to 0.
fn excesses(pairs: &[(f64, f64)]) -> Option<(f64, Vec<f64>)> {
    let (above, below) = pairs.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    if below <= 0.0 {
        return None;
    }
    let (plain, each) = (above / below, below / pairs.len() as f64);
    Some((plain, pairs.iter().map(|(x, y)| (x - plain * y) / each).collect()))
}

/// Mean of `values`, and the sum of their squared deviations from it.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum())
}

/// The t interval of the mean of one value per replication, widened to contain `value` (the estimate from all
/// replications together). No interval if fewer than two replications have a value.
pub(crate) fn mean_around(value: f64, values: &[f64], confidence: f64) -> Figure {
    if values.len() < 2 {
        return Figure::exact(value);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let half = t_value(confidence, values.len()) * (square / (count - 1.0)).sqrt() / count.sqrt();
    Figure::between(value, (value.min(mean) - half).max(0.0), value.max(mean) + half, confidence)
}

/// Number of observations in a batch of MSER-5.
const BATCH: usize = 5;

/// MSER-5 must leave at least one in this many batches. When it could leave five of a hundred, 11 of 200 points of
/// `tests/coverage.rs` had no steady state, however long they were.
const REST: usize = 5;

/// Number of observations to cut off as warm-up, by MSER-5 (White, Cobb and Spratt 2000). The observations are grouped
/// into batches of five; an incomplete batch is dropped. Of all numbers d of batches to cut off, the method selects the
/// one that minimises the squared standard error of the mean of the rest. At least n/[`REST`] batches are left. Fewer
/// are not enough: in a series that is correlated over a twentieth of its length, five consecutive batches are often
/// similar by chance. `None` if d > n/2: the run is too short.
pub(crate) fn mser_5(observations: &[f64]) -> Option<usize> {
    let batches: Vec<f64> =
        observations.as_chunks::<BATCH>().0.iter().map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let count = batches.len();
    let (mut sum, mut square) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // Compute from the end the statistic of the batches from `cut` on.
    let offset = batches.last().copied().unwrap_or(0.0);
    for cut in (0..count).rev() {
        let x = batches[cut] - offset;
        sum += x;
        square += x * x;
        let kept = (count - cut) as f64;
        if count - cut < count / REST {
            continue;
        }
        let statistic = (square - sum * sum / kept).max(0.0) / (kept * kept);
        if statistic <= best.0 {
            best = (statistic, cut);
        }
    }
    (best.1 <= count / 2).then_some(best.1 * BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_values_are_the_tables() {
        for (confidence, replications, table) in [(0.95, 10, 2.262_157), (0.99, 10, 3.249_836), (0.95, 31, 2.042_272)] {
            assert!((t_value(confidence, replications) - table).abs() < 1e-5);
        }
    }

    #[test]
    fn a_ratio_of_proportional_pairs_is_sure() {
        let figure = ratio(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)], 0.95).unwrap();
        assert_eq!((figure.value, figure.relative_half_width()), (2.0, 0.0));
        assert!(ratio(&[(0.0, 0.0)], 0.95).is_none());
        let figure = ratio(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)], 0.95).unwrap();
        assert!((figure.interval.unwrap().high - (2.0 + 4.302_653 / 3.0_f64.sqrt())).abs() < 1e-5);
    }

    /// Values with slope 3 over the control, plus or minus 0.5. The expected results can be computed by hand or by any
    /// statistics package.
    #[test]
    fn a_control_takes_off_what_it_explains() {
        let controls = [-0.1, 0.3, 0.2, 0.4];
        let values = |noise: f64| -> Vec<(f64, f64)> {
            controls.iter().zip([1.0, -1.0, 1.0, -1.0]).map(|(c, sign)| (10.0 + 3.0 * c + sign * noise, 1.0)).collect()
        };
        let controlled = |noise: f64| {
            let pairs = values(noise);
            controlled_ratio(&pairs, &controls, control_slope(&pairs, &controls).unwrap(), 0.95).unwrap()
        };
        let sure = controlled(0.0);
        assert!((sure.value - 10.0).abs() < 1e-12 && sure.relative_half_width() < 1e-12);
        // Expected by least squares: slope 3 + 0.5 (-0.6) / 0.14, intercept and its standard error.
        let noisy = controlled(0.5);
        let (slope, spread) = (3.0 + 0.5 * -0.6 / 0.14, 0.14);
        let value = 10.0 + 3.0 * 0.2 - slope * 0.2;
        assert!((noisy.value - value).abs() < 1e-12, "{} {value}", noisy.value);
        let rest = 1.0 - (0.5_f64 * 0.6).powi(2) / spread;
        let error = (rest / 2.0 * (0.25 + 0.04 / spread)).sqrt();
        assert!((noisy.interval.unwrap().high - (value + 4.302_653 * error)).abs() < 1e-5);
    }

    #[test]
    fn the_start_is_cut_off_and_a_trend_refused() {
        let observations = |of: &dyn Fn(i32) -> i32| -> Vec<f64> { (0..503).map(|i| f64::from(of(i))).collect() };
        let cut = mser_5(&observations(&|i| if i < 60 { 60 - i } else { i % 3 })).unwrap();
        assert!((40..=70).contains(&cut) && cut.is_multiple_of(5), "{cut}");
        assert_eq!(mser_5(&observations(&|i| i * i)), None);
        assert_eq!(mser_5(&observations(&|_| 1)), Some(0));
    }

    /// Compares with the definition: d minimises sum of (Y_i - mean)^2 over i > d, divided by (n - d)^2; Y are the
    /// batch means.
    #[test]
    fn the_cut_minimises_the_statistic_of_the_definition() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for slope in [0.0, 0.5, 2.0, 10.0] {
            let observations: Vec<f64> = (0..300).map(|i| uniform() + slope * (-f64::from(i) / 40.0).exp()).collect();
            let batches: Vec<f64> = observations.chunks(5).map(|five| five.iter().sum::<f64>() / 5.0).collect();
            let statistic = |d: usize| {
                let kept = &batches[d..];
                let mean = kept.iter().sum::<f64>() / kept.len() as f64;
                kept.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (kept.len() as f64).powi(2)
            };
            let best = (0..=batches.len() - batches.len() / REST)
                .min_by(|a, b| statistic(*a).total_cmp(&statistic(*b)))
                .unwrap();
            assert_eq!(mser_5(&observations), (best <= batches.len() / 2).then_some(5 * best), "slope {slope}");
        }
    }
}
