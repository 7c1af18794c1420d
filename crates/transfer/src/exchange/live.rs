//! Interim reports of a running test: the transactions of each [`Interval`].
//!
//! Each flow writes its counts into its own cell: a few stores into its own cache lines and no system call. The thread
//! that opens and closes the window reads the cells. Without interim reports there are no cells.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netcliff_packets::ticks::{Tick, Ticks};

/// Transactions of all flows in an interval of the open window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Start of the interval, since the window opened (s).
    pub from_s: f64,
    /// End of the interval, since the window opened (s).
    pub to_s: f64,
    /// Number of requests that were answered.
    pub transactions: u64,
    /// Mean latency of the transactions (s). `None` if there were none.
    pub mean_s: Option<f64>,
    /// Longest latency of the transactions (s). `None` if there were none.
    pub max_s: Option<f64>,
    /// Number of requests that were given up.
    pub timeouts: u64,
}

impl Interval {
    /// Transactions per second.
    pub fn rate_per_s(&self) -> f64 {
        self.transactions as f64 / (self.to_s - self.from_s).max(1e-9)
    }
}

/// The receiver of interim reports, and the length of an interval.
#[derive(Clone, Copy)]
pub struct Intervals<'a> {
    /// Length of an interval.
    pub every: Duration,
    /// Called after each interval by the thread that closes the window. It must not block.
    pub passed: &'a (dyn Fn(Interval) + Sync),
}

impl fmt::Debug for Intervals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intervals").field("every", &self.every).finish_non_exhaustive()
    }
}

/// A flow's counts in its window, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Cell {
    transactions: AtomicU64,
    latency_ns: AtomicU64,
    /// Longest latency since the last read (ns).
    max_ns: AtomicU64,
    timeouts: AtomicU64,
}

impl Cell {
    /// Records a transaction. Only the flow's own thread calls this.
    #[inline]
    pub(super) fn count(&self, latency_ns: u64) {
        let add = |cell: &AtomicU64, more: u64| cell.store(cell.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(&self.transactions, 1);
        add(&self.latency_ns, latency_ns);
        if latency_ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(latency_ns, Ordering::Relaxed);
        }
    }

    /// Sets the number of timeouts so far.
    #[inline]
    pub(super) fn gave_up(&self, timeouts: u64) {
        self.timeouts.store(timeouts, Ordering::Relaxed);
    }
}

/// Totals of all flows at one time.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    transactions: u64,
    latency_ns: u64,
    timeouts: u64,
}

/// Reads the cells at the end of each interval of the open window.
#[derive(Debug)]
pub(super) struct IntervalReader<'a> {
    wanted: Intervals<'a>,
    cells: &'a [Cell],
    ticks: Ticks,
    last: Totals,
}

impl<'a> IntervalReader<'a> {
    /// Starts at the opening of the window.
    pub(super) fn new(wanted: Intervals<'a>, cells: &'a [Cell], opened_ns: u64) -> Self {
        Self { wanted, cells, ticks: Ticks::new(wanted.every, opened_ns), last: Totals::default() }
    }

    /// End of the interval under way (ns).
    pub(super) fn due_ns(&self) -> u64 {
        self.ticks.due_ns()
    }

    /// Reports the interval that has ended by `now_ns`, if any.
    pub(super) fn look(&mut self, now_ns: u64) {
        if let Some(tick) = self.ticks.passed(now_ns) {
            self.tell(tick);
        }
    }

    /// Reports the last, incomplete interval when the window closes, unless it is negligible.
    pub(super) fn rest(mut self, now_ns: u64) {
        if let Some(tick) = self.ticks.rest(now_ns) {
            self.tell(tick);
        }
    }

    fn tell(&mut self, Tick { from_s, to_s }: Tick) {
        let load =
            |pick: fn(&Cell) -> &AtomicU64| self.cells.iter().map(|cell| pick(cell).load(Ordering::Relaxed)).sum();
        let now = Totals {
            transactions: load(|cell| &cell.transactions),
            latency_ns: load(|cell| &cell.latency_ns),
            timeouts: load(|cell| &cell.timeouts),
        };
        let max_ns = self.cells.iter().map(|cell| cell.max_ns.swap(0, Ordering::Relaxed)).max().unwrap_or(0);
        let transactions = now.transactions.saturating_sub(self.last.transactions);
        let latency_ns = now.latency_ns.saturating_sub(self.last.latency_ns);
        let any = transactions > 0;
        let interval = Interval {
            from_s,
            to_s,
            transactions,
            mean_s: any.then(|| latency_ns as f64 * 1e-9 / transactions as f64),
            max_s: any.then_some(max_ns as f64 * 1e-9),
            timeouts: now.timeouts.saturating_sub(self.last.timeouts),
        };
        self.last = now;
        (self.wanted.passed)(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_what_was_counted_between_their_ends() {
        const S: u64 = 1_000_000_000;
        let (to, heard) = std::sync::mpsc::channel();
        let passed = |interval| to.send(interval).expect("it is heard");
        let wanted = Intervals { every: Duration::from_secs(1), passed: &passed };
        let cells = [Cell::default(), Cell::default()];
        let mut reader = IntervalReader::new(wanted, &cells, S);
        cells[0].count(10_000);
        cells[0].count(30_000);
        cells[1].count(20_000);
        reader.look(2 * S - 1);
        assert!(heard.try_recv().is_err(), "it is not over");
        reader.look(2 * S);
        let first = heard.try_recv().expect("it is over");
        assert_eq!((first.from_s, first.to_s, first.transactions, first.timeouts), (0.0, 1.0, 3, 0));
        assert_eq!((first.mean_s, first.max_s, first.rate_per_s()), (Some(20e-6), Some(30e-6), 3.0));
        // The longest latency belongs to its interval; an interval without transactions has no latency.
        cells[1].count(5_000);
        cells[1].gave_up(2);
        reader.look(3 * S);
        let second = heard.try_recv().expect("it is over");
        assert_eq!((second.transactions, second.max_s, second.timeouts), (1, Some(5e-6), 2));
        assert_eq!(reader.due_ns(), 4 * S);
        reader.rest(3 * S + S / 2);
        let third = heard.try_recv().expect("half an interval");
        assert_eq!((third.from_s, third.to_s, third.mean_s, third.max_s, third.timeouts), (2.0, 2.5, None, None, 0));
    }
}
