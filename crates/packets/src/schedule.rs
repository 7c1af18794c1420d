//! Intended send times of packets: an endless, seeded stream of offsets. This module reads no clock.

use std::sync::Arc;

use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::error::WireError;

pub use netcliff_core::traffic::Gaps as Arrivals;

/// Offsets from the start of the run in nanoseconds, never decreasing, without end.
///
/// The generator accepts any iterator of such offsets; this one has the two common distributions of gaps and the gaps
/// of a recording. Offsets are computed from the start, so that rounding to nanoseconds does not change the rate.
#[derive(Debug, Clone)]
pub struct Schedule {
    gaps: Gaps,
    gap_ns: f64,
    /// Sum of the gaps so far in units of their mean.
    elapsed: f64,
}

#[derive(Debug, Clone)]
enum Gaps {
    Constant,
    Poisson(Xoshiro256PlusPlus),
    /// Gaps in units of their mean, repeated without end, and the index of the next one.
    Recorded(Arc<[f64]>, usize),
}

impl Schedule {
    /// A schedule of `rate_pps` packets/s. Equal seed and stream give equal times; the streams of a seed are
    /// independent.
    ///
    /// # Errors
    /// `rate_pps` is not a positive, finite number.
    pub fn new(arrivals: Arrivals, rate_pps: f64, seed: u64, stream: u32) -> Result<Self, WireError> {
        let gaps = match arrivals {
            Arrivals::Constant => Gaps::Constant,
            Arrivals::Poisson => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                (0..stream).for_each(|_| random.long_jump());
                Gaps::Poisson(random)
            }
        };
        Self::of(gaps, rate_pps)
    }

    /// A schedule of `rate_pps` packets/s with the gaps of a recording, in units of their mean, repeated without end.
    /// The packet with index `first` is sent at offset 0.
    ///
    /// # Errors
    /// `rate_pps` is not a positive, finite number.
    ///
    /// # Panics
    /// `gaps` is empty.
    pub fn recorded(gaps: Arc<[f64]>, first: usize, rate_pps: f64) -> Result<Self, WireError> {
        let next = (first + 1) % gaps.len();
        Self::of(Gaps::Recorded(gaps, next), rate_pps)
    }

    fn of(gaps: Gaps, rate_pps: f64) -> Result<Self, WireError> {
        if !(rate_pps.is_finite() && rate_pps > 0.0) {
            return Err(WireError::setting("rate_pps", rate_pps, "a positive, finite number of packets/s"));
        }
        Ok(Self { gaps, gap_ns: 1e9 / rate_pps, elapsed: 0.0 })
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let before = self.elapsed;
        let gaps = match &mut self.gaps {
            Gaps::Constant => {
                self.elapsed += 1.0;
                before
            }
            Gaps::Poisson(random) => {
                let gap: f64 = Exp1.sample(random);
                self.elapsed += gap;
                self.elapsed
            }
            Gaps::Recorded(gaps, next) => {
                self.elapsed += gaps[*next];
                *next = (*next + 1) % gaps.len();
                before
            }
        };
        Some((gaps * self.gap_ns) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 20_26;

    fn gaps_s(schedule: Schedule, n: usize) -> Vec<f64> {
        let times: Vec<u64> = schedule.take(n + 1).collect();
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * 1e-9).collect()
    }

    #[test]
    fn constant_gaps_never_drift() {
        let schedule = Schedule::new(Arrivals::Constant, 300_000.0, SEED, 0).expect("legal");
        let times: Vec<u64> = schedule.take(3_000_001).collect();
        assert_eq!((times[0], times[3_000_000]), (0, 10_000_000_000));
        assert!(times.windows(2).all(|pair| (3333..=3334).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn poisson_mean_and_cv_lie_in_their_intervals() {
        // n = 1e6, z = 4.42 (two-sided 1e-5). The mean of n exponentials has relative standard
        // deviation 1/sqrt(n); the sample CV of an exponential has standard deviation ~ 1/sqrt(n).
        let n = 1_000_000;
        let gaps = gaps_s(Schedule::new(Arrivals::Poisson, 10_000.0, SEED, 0).expect("legal"), n);
        let mean = gaps.iter().sum::<f64>() / n as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let half_width = 4.42 / (n as f64).sqrt();
        assert!((mean / 1e-4 - 1.0).abs() < half_width, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < half_width, "cv {}", variance.sqrt() / mean);
    }

    #[test]
    fn poisson_gaps_are_uncorrelated_between_streams() {
        let n = 100_000;
        let [a, b] =
            [0, 1].map(|stream| gaps_s(Schedule::new(Arrivals::Poisson, 1e5, SEED, stream).expect("legal"), n));
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        let (ma, mb) = (mean(&a), mean(&b));
        let covariance = a.iter().zip(&b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / n as f64;
        // Both gaps have a standard deviation of 1e-5 s; the correlation of n pairs has a standard deviation of
        // 1/sqrt(n).
        assert!((covariance / 1e-10).abs() < 4.42 / (n as f64).sqrt());
        let again = gaps_s(Schedule::new(Arrivals::Poisson, 1e5, SEED, 1).expect("legal"), n);
        assert_eq!(b, again, "the same seed and stream repeat");
    }

    #[test]
    fn recorded_gaps_come_in_their_order_at_the_rate() {
        let gaps: Arc<[f64]> = [0.5, 0.1, 2.4].into();
        let times =
            |first| -> Vec<u64> { Schedule::recorded(Arc::clone(&gaps), first, 1e6).expect("legal").take(7).collect() };
        assert_eq!(times(0), [0, 100, 2500, 3000, 3100, 5500, 6000]);
        assert_eq!(times(2), [0, 500, 600, 3000, 3500, 3600, 6000]);
    }

    #[test]
    fn impossible_rates_are_named() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = Schedule::new(Arrivals::Poisson, rate, SEED, 0).unwrap_err().to_string();
            assert!(error.contains("rate_pps") && error.contains("positive"), "{error}");
        }
    }
}
