//! [`Ticks`]: when each interval of an open measurement window ends, for interim reports.

use std::time::Duration;

/// The last, incomplete interval of a window is reported if it is longer than a full interval divided by this number.
const WORTH_TELLING: u64 = 20;

/// An interval that has ended, in seconds since the window opened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Beginning of the interval (s).
    pub from_s: f64,
    /// End of the interval (s).
    pub to_s: f64,
}

/// The schedule of intervals. Interval n ends n whole intervals after the window opened, even if its end is noticed
/// late.
#[derive(Debug)]
pub struct Ticks {
    opened_ns: u64,
    every_ns: u64,
    due_ns: u64,
    last_ns: u64,
}

impl Ticks {
    /// Starts a schedule at `opened_ns`, with intervals of length `every` (at least 1 ns).
    pub fn new(every: Duration, opened_ns: u64) -> Self {
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { opened_ns, every_ns, due_ns: opened_ns.saturating_add(every_ns), last_ns: opened_ns }
    }

    /// End of the current interval \[ns\].
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Returns the interval that ended by `now_ns`, merged with earlier intervals that were not returned. `None` if the
    /// current interval has not ended.
    pub fn passed(&mut self, now_ns: u64) -> Option<Tick> {
        let late_ns = now_ns.checked_sub(self.due_ns)?;
        let intervals = late_ns / self.every_ns + 1;
        self.due_ns = self.due_ns.saturating_add(intervals.saturating_mul(self.every_ns));
        Some(self.until(now_ns))
    }

    /// Returns the incomplete interval that ends with the window, at `now_ns`. `None` if it is negligibly short.
    pub fn rest(&mut self, now_ns: u64) -> Option<Tick> {
        let is_worth_it = now_ns.saturating_sub(self.last_ns) > self.every_ns / WORTH_TELLING;
        is_worth_it.then(|| self.until(now_ns))
    }

    fn until(&mut self, now_ns: u64) -> Tick {
        let since_opened_s = |ns: u64| ns.saturating_sub(self.opened_ns) as f64 * 1e-9;
        let tick = Tick { from_s: since_opened_s(self.last_ns), to_s: since_opened_s(now_ns) };
        self.last_ns = now_ns;
        tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn an_interval_seen_late_moves_no_later_one() {
        let mut ticks = Ticks::new(Duration::from_secs(1), 5 * S);
        assert_eq!(ticks.passed(6 * S - 1), None);
        assert_eq!(ticks.passed(6 * S + S / 4), Some(Tick { from_s: 0.0, to_s: 1.25 }));
        assert_eq!(ticks.due_ns(), 7 * S);
        // Intervals that were not returned in time are merged.
        assert_eq!(ticks.passed(9 * S + S / 2), Some(Tick { from_s: 1.25, to_s: 4.5 }));
        assert_eq!(ticks.due_ns(), 10 * S);
        // The end of one interval is the beginning of the next.
        assert_eq!(ticks.passed(10 * S), Some(Tick { from_s: 4.5, to_s: 5.0 }));
        assert_eq!(ticks.due_ns(), 11 * S);
    }

    #[test]
    fn what_is_left_is_told_unless_it_is_next_to_nothing() {
        let mut ticks = Ticks::new(Duration::from_secs(1), 0);
        assert_eq!(ticks.passed(S), Some(Tick { from_s: 0.0, to_s: 1.0 }));
        assert_eq!(ticks.rest(S + S / 20), None);
        assert_eq!(ticks.rest(S + S / 2), Some(Tick { from_s: 1.0, to_s: 1.5 }));
    }

    /// An interval of length 0 becomes the shortest possible one; an interval longer than the clock's range never ends.
    #[test]
    fn lengths_at_the_ends_of_the_clock() {
        let mut least = Ticks::new(Duration::ZERO, 7);
        assert_eq!((least.due_ns(), least.passed(7), least.passed(9).is_some(), least.due_ns()), (8, None, true, 10));
        let mut endless = Ticks::new(Duration::MAX, 7);
        assert_eq!((endless.due_ns(), endless.passed(1 << 60), endless.rest(1 << 50)), (u64::MAX, None, None));
    }
}
