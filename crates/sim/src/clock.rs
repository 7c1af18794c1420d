//! [`Clock`]: simulated time in whole ticks, so that sums of times are exact and do not depend on the order of
//! additions.

use netcliff_core::Point;

/// A time that no event reaches.
pub(crate) const NEVER: u64 = u64::MAX;

/// Converts between seconds and ticks. A tick is a picosecond; longer only if the run would not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clock {
    tick_s: f64,
}

/// Longest run [ticks]: every run must end below this.
const LONGEST_RUN: f64 = (1u64 << 60) as f64;
/// Largest mean of a random time [ticks]: 40 times this mean is below 2^51, up to which times are converted to whole
/// ticks exactly.
const LARGEST_MEAN: f64 = (1u64 << 45) as f64;

impl Clock {
    /// The clock of a replication of `packets` arrivals of `point`.
    pub(crate) fn of(point: &Point, packets: u64) -> Self {
        Self::new(point.rate_pps().unwrap_or(1.0), packets)
    }

    /// A clock for `packets` arrivals at `rate_pps`, with room for eight times the expected length.
    pub(crate) fn new(rate_pps: f64, packets: u64) -> Self {
        let length_s = 8.0 * (packets as f64 + 16.0) / rate_pps;
        let tick_s = 1e-12_f64.max(length_s / LONGEST_RUN).max(1.0 / rate_pps / LARGEST_MEAN);
        Self { tick_s }
    }

    /// Converts seconds to ticks, not rounded.
    pub(crate) fn ticks(&self, seconds: f64) -> f64 {
        seconds / self.tick_s
    }

    /// Converts seconds to whole ticks.
    pub(crate) fn whole(&self, seconds: f64) -> u64 {
        self.ticks(seconds).round() as u64
    }

    /// Converts ticks to seconds.
    pub(crate) fn seconds(&self, ticks: f64) -> f64 {
        ticks * self.tick_s
    }
}

/// [`to_short_ticks`] converts numbers of ticks below this: 2^51.
pub(crate) const SHORT_TICKS: f64 = MAGIC / 2.0;
/// 2^52. Adding it to a smaller number rounds the number to the nearest integer.
const MAGIC: f64 = 4_503_599_627_370_496.0;

/// Rounds a non-negative number of ticks below [`SHORT_TICKS`] to the nearest integer.
#[inline(always)]
pub(crate) fn to_short_ticks(x: f64) -> u64 {
    (x + MAGIC).to_bits() & 0x000f_ffff_ffff_ffff
}

/// Rounds a non-negative number of ticks to the nearest integer. Numbers above 2^51 take a slower path.
#[inline(always)]
pub(crate) fn to_ticks(x: f64) -> u64 {
    if x < SHORT_TICKS { to_short_ticks(x) } else { x as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picosecond_a_tick_unless_the_run_would_not_fit() {
        let clock = Clock::new(100e3, 1_000_000);
        assert_eq!(clock.whole(3.73e-6), 3_730_000);
        let slow = Clock::new(1e-3, 1_000_000_000);
        assert!(slow.ticks(1e9 / 1e-3) < LONGEST_RUN && slow.ticks(1e3) < LARGEST_MEAN);
        assert!((slow.seconds(slow.ticks(5.0)) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn ticks_are_rounded_on_both_paths() {
        for (x, ticks) in [(0.0, 0), (0.4, 0), (0.6, 1), (3_730_000.2, 3_730_000), (1e17, 100_000_000_000_000_000)] {
            assert_eq!(to_ticks(x), ticks, "{x}");
        }
    }
}
