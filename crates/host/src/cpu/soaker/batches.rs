//! Statistics of the soaker: the idle rate from disturbed batches, and batch means.

use crate::cpu::{types::Estimate, util::t_95};

/// Most batches per interval; 20 to 30 is usual for batch means.
const BATCHES: usize = 25;

/// Counters of all soakers at one time.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at_ns: u64,
    pub(super) iterations: Vec<u64>,
}

/// Returns the median of the upper quarter of the rates, because disturbances only reduce a rate. `None` if there are
/// no rates or the median is 0.
pub(super) fn upper_quarter_median(rates: &mut [f64]) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    let upper = &rates[rates.len() * 3 / 4..];
    upper.get(upper.len() / 2).copied().filter(|rate| *rate > 0.0)
}

/// Mean share since `mark` and its 95 % interval by batch means.
pub(super) fn estimate(mark: &Sample, samples: &[Sample], index: usize, rate: f64) -> Estimate {
    let share = |a: &Sample, b: &Sample| {
        let time_s = b.at_ns.saturating_sub(a.at_ns).max(1) as f64 * 1e-9;
        b.iterations[index].saturating_sub(a.iterations[index]) as f64 / (rate * time_s)
    };
    let mean = samples.last().map_or(0.0, |last| share(mark, last));
    let step = samples.len().div_ceil(BATCHES).max(1);
    let mut batches = Vec::new();
    let mut from = mark;
    // Only complete batches: a shorter last one would have another variance.
    for to in samples.chunks_exact(step).filter_map(|chunk| chunk.last()) {
        batches.push(share(from, to));
        from = to;
    }
    let count = batches.len();
    let half_width = (count >= 2).then(|| {
        let centre = batches.iter().sum::<f64>() / count as f64;
        let squares: f64 = batches.iter().map(|share| (share - centre).powi(2)).sum();
        t_95(count - 1) * (squares / (count - 1) as f64 / count as f64).sqrt()
    });
    Estimate { mean, half_width, confidence: 0.95, batches: count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(counts: &[u64]) -> Vec<Sample> {
        counts
            .iter()
            .enumerate()
            .map(|(i, count)| Sample { at_ns: (i as u64 + 1) * 1_000_000_000, iterations: vec![*count] })
            .collect()
    }

    #[test]
    fn batch_means() {
        let mark = Sample { at_ns: 0, iterations: vec![0] };
        // 100, 50, 100, 50 iterations in four seconds at an idle rate of 100/s.
        let got = estimate(&mark, &samples(&[100, 150, 250, 300]), 0, 100.0);
        assert!((got.mean - 0.75).abs() < 1e-12);
        // Standard deviation 0.28868, over sqrt(4), times t(3) = 3.182.
        assert!((got.half_width.unwrap() - 0.45930).abs() < 1e-4, "{got:?}");
        assert_eq!(got.batches, 4);
        assert_eq!(estimate(&mark, &samples(&[10]), 0, 100.0).half_width, None);
    }

    #[test]
    fn disturbed_batches_do_not_lower_the_idle_rate() {
        let mut rates = vec![1.0, 2.0, 99.0, 100.0, 101.0, 50.0, 98.0, 100.0];
        assert_eq!(upper_quarter_median(&mut rates), Some(101.0));
        assert_eq!(upper_quarter_median(&mut []), None);
    }
}
