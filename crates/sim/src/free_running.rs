//! [`FreeRunning`]: a timer that is never restarted, such as the scheduler's tick.
//!
//! The timer is independent of the packets: in each replication it starts at a random point of its period. With a fixed
//! start, constant arrivals would meet the timer at the same point in all replications, and intervals would not include
//! the effect of this point.

use crate::random::{BLOCK, Purpose, Stream};

/// A timer that ticks at `period - offset` and each `period` after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FreeRunning {
    period: u64,
    offset: u64,
}

/// Offset of the timer of `purpose` within its period when `replication` starts: from 0 to less than `period` [ticks].
pub(crate) fn offset(period: u64, seed: u64, purpose: Purpose, replication: u64) -> u64 {
    let mut uniform = [0.0; BLOCK];
    Stream::new(seed, purpose, replication).uniform(&mut uniform);
    (uniform[0] * period as f64) as u64 % period
}

impl FreeRunning {
    /// A timer with a period of `period` ticks, at least 1.
    pub(crate) fn new(period: u64, seed: u64, purpose: Purpose, replication: u64) -> Self {
        let period = period.max(1);
        Self { period, offset: offset(period, seed, purpose, replication) }
    }

    /// Number of ticks up to and including `at`.
    #[inline]
    pub(crate) fn count(&self, at: u64) -> u64 {
        (at + self.offset) / self.period
    }

    /// The first tick after `at`.
    #[inline]
    pub(crate) fn next(&self, at: u64) -> u64 {
        (self.count(at) + 1) * self.period - self.offset
    }

    /// Whether there is a tick from `earliest` to `at`, both included.
    #[inline]
    pub(crate) fn since(&self, earliest: u64, at: u64) -> bool {
        self.count(at) * self.period >= earliest + self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_a_period_apart_and_begin_anywhere_in_it() {
        let timers: Vec<FreeRunning> =
            (0..1000).map(|replication| FreeRunning::new(1000, 7, Purpose::SchedulerTick, replication)).collect();
        for timer in &timers {
            let first = timer.next(0);
            assert!((1..=1000).contains(&first) && timer.next(first) == first + 1000, "{timer:?}");
            assert_eq!((timer.count(first - 1), timer.count(first), timer.count(first + 999)), (0, 1, 1), "{timer:?}");
            assert!(timer.since(first, first + 500) && !timer.since(first + 1, first + 500), "{timer:?}");
        }
        // Each tenth of the period has some 100 of 1000; 6 standard deviations of 9.5 are 57.
        for tenth in 0..10 {
            let there = timers.iter().filter(|timer| (timer.next(0) - 1) / 100 == tenth).count();
            assert!(there.abs_diff(100) < 57, "{there} in tenth {tenth}");
        }
    }
}
