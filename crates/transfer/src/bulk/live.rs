//! Interim reports of a running transfer: the bytes of each [`Interval`].
//!
//! Each end writes the number of bytes it has moved into its own cell: a store into its own cache line and no system
//! call. The conductor, in its own thread, reads the cells at the end of each interval. Without a [`super::Watch`] that
//! requests interim reports there are no cells.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::TcpSample;
use netcliff_packets::ticks::{Tick, Ticks};

/// What all flows moved in a part of the open windows, counted at the ends in this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Start of the interval, since the first window opened (s).
    pub from_s: f64,
    /// End of the interval, since the first window opened (s).
    pub to_s: f64,
    /// Bytes that the kernel accepted from the senders. `None` if no sender is in this process.
    pub sent_bytes: Option<u64>,
    /// Bytes that the receivers have read. `None` if no receiver is in this process.
    pub received_bytes: Option<u64>,
    /// Segments that the senders retransmitted, by the latest TCP_INFO. `None` if no TCP sender is in this process, or
    /// before the first TCP_INFO.
    pub retransmissions: Option<u64>,
    /// Mean of the flows' smoothed round-trip times (s). `None` in the same cases as `retransmissions`.
    pub rtt_s: Option<f64>,
}

impl Interval {
    /// Rate of `bytes` over this interval (bit/s).
    pub fn rate_bps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / (self.to_s - self.from_s).max(1e-9)
    }
}

/// A count on a cache line of its own, aligned so that the adjacent-line prefetcher does not fetch another count with
/// it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(AtomicU64);

/// One cell per end, by flow number and whether it sends.
#[derive(Debug, Default)]
pub(super) struct Cells(BTreeMap<(usize, bool), Cell>);

impl Cells {
    /// Makes cells for these ends. Makes none without interim reports.
    pub(super) fn new(ends: &[(usize, bool)], wanted: bool) -> Self {
        Self(ends.iter().filter(|_| wanted).map(|end| (*end, Cell::default())).collect())
    }

    /// The cell of an end: its total bytes.
    pub(super) fn of(&self, flow: usize, sender: bool) -> Option<&AtomicU64> {
        self.0.get(&(flow, sender)).map(|cell| &cell.0)
    }

    /// Total bytes of all senders, or of all receivers. `None` if there are none.
    fn sum(&self, sender: bool) -> Option<u64> {
        let bytes = self.0.iter().filter(|((_, sends), _)| *sends == sender);
        bytes.map(|(_, cell)| cell.0.load(Ordering::Relaxed)).reduce(|sum, next| sum + next)
    }
}

/// The latest TCP_INFO, summed over all flows.
#[derive(Debug, Default)]
pub(super) struct Latest {
    /// Number of retransmitted segments at the first sample.
    first: OnceLock<u64>,
    retransmissions: AtomicU64,
    rtt_ns: AtomicU64,
}

impl Latest {
    /// Updates the sums after a pass over all flows.
    pub(super) fn note(&self, samples: &[Vec<TcpSample>]) {
        let last: Vec<&TcpSample> = samples.iter().filter_map(|samples| samples.last()).collect();
        if last.is_empty() {
            return;
        }
        let rtt_s = last.iter().map(|sample| sample.rtt_s).sum::<f64>() / last.len() as f64;
        self.rtt_ns.store((rtt_s * 1e9) as u64, Ordering::Relaxed);
        let retransmissions = last.iter().map(|sample| sample.retransmissions).sum();
        self.retransmissions.store(retransmissions, Ordering::Relaxed);
        let _ = self.first.set(retransmissions);
    }
}

/// Totals of all ends at one time.
#[derive(Debug, Clone, Copy)]
struct Totals {
    sent: Option<u64>,
    received: Option<u64>,
    /// Retransmitted segments. `None` before the first TCP_INFO.
    retransmissions: Option<u64>,
}

/// Reads the cells at the end of each interval of the open windows.
#[derive(Debug)]
pub(super) struct IntervalReader {
    ticks: Ticks,
    last: Totals,
}

impl IntervalReader {
    /// Starts at the opening of the windows.
    pub(super) fn new(every: Duration, opened_ns: u64, cells: &Cells) -> Self {
        Self { ticks: Ticks::new(every, opened_ns), last: totals(cells, None) }
    }

    /// End of the interval under way (ns).
    pub(super) fn due_ns(&self) -> u64 {
        self.ticks.due_ns()
    }

    /// The interval that ended by `now_ns`, merged with earlier intervals that nobody read. `None` if the interval
    /// under way has not ended.
    pub(super) fn passed(&mut self, now_ns: u64, cells: &Cells, tcp: Option<&Latest>) -> Option<Interval> {
        let tick = self.ticks.passed(now_ns)?;
        Some(self.read(tick, cells, tcp))
    }

    /// The last, incomplete interval when the windows close. `None` if it is negligible.
    pub(super) fn rest(mut self, now_ns: u64, cells: &Cells, tcp: Option<&Latest>) -> Option<Interval> {
        let tick = self.ticks.rest(now_ns)?;
        Some(self.read(tick, cells, tcp))
    }

    fn read(&mut self, Tick { from_s, to_s }: Tick, cells: &Cells, tcp: Option<&Latest>) -> Interval {
        let now = totals(cells, tcp);
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let before = self.last.retransmissions.or_else(|| tcp?.first.get().copied());
        let interval = Interval {
            from_s,
            to_s,
            sent_bytes: since(now.sent, self.last.sent),
            received_bytes: since(now.received, self.last.received),
            retransmissions: since(now.retransmissions, before),
            rtt_s: tcp
                .filter(|_| now.retransmissions.is_some())
                .map(|tcp| tcp.rtt_ns.load(Ordering::Relaxed) as f64 * 1e-9),
        };
        self.last = now;
        interval
    }
}

fn totals(cells: &Cells, tcp: Option<&Latest>) -> Totals {
    let retransmissions = tcp.filter(|tcp| tcp.first.get().is_some());
    Totals {
        sent: cells.sum(true),
        received: cells.sum(false),
        retransmissions: retransmissions.map(|tcp| tcp.retransmissions.load(Ordering::Relaxed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn intervals_are_what_was_counted_between_their_ends() {
        let cells = Cells::new(&[(0, true), (0, false), (1, true), (1, false)], true);
        let set = |flow, sender, bytes| cells.of(flow, sender).expect("a cell").store(bytes, Ordering::Relaxed);
        // Bytes of the warm-up.
        for (flow, sender, bytes) in [(0, true, 100), (0, false, 90), (1, true, 10)] {
            set(flow, sender, bytes);
        }
        let mut reader = IntervalReader::new(Duration::from_secs(1), 5 * S, &cells);
        assert_eq!(reader.passed(6 * S - 1, &cells, None), None);
        set(0, true, 1100);
        set(1, false, 500);
        let tcp = Latest::default();
        let sample = |retransmissions| vec![TcpSample { retransmissions, rtt_s: 2e-3, ..TcpSample::default() }];
        tcp.note(&[sample(7), Vec::new()]);
        tcp.note(&[sample(9), vec![TcpSample { rtt_s: 4e-3, ..TcpSample::default() }]]);
        // The reader is late: the interval is as long as it was in fact, and the next one ends on schedule.
        let first = reader.passed(6 * S + S / 4, &cells, Some(&tcp)).expect("it is over");
        assert_eq!((first.from_s, first.to_s), (0.0, 1.25));
        assert_eq!((first.sent_bytes, first.received_bytes), (Some(1000), Some(500)));
        assert_eq!((first.retransmissions, first.rtt_s), (Some(2), Some(3e-3)));
        assert!((first.rate_bps(1000) - 6400.0).abs() < 1e-6);
        assert_eq!(reader.due_ns(), 7 * S);
        // Intervals that nobody read are merged.
        set(0, true, 1500);
        let second = reader.passed(9 * S + S / 2, &cells, Some(&tcp)).expect("it is over");
        assert_eq!((second.from_s, second.to_s, second.sent_bytes), (1.25, 4.5, Some(400)));
        assert_eq!((second.retransmissions, reader.due_ns()), (Some(0), 10 * S));
        assert_eq!(reader.rest(9 * S + S / 2 + S / 50, &cells, None), None, "next to nothing");
    }

    #[test]
    fn an_end_that_is_elsewhere_has_no_count() {
        let cells = Cells::new(&[(0, true)], true);
        let reader = IntervalReader::new(Duration::from_secs(1), 0, &cells);
        let rest = reader.rest(S / 2, &cells, None).expect("half a second");
        assert_eq!((rest.sent_bytes, rest.received_bytes, rest.retransmissions), (Some(0), None, None));
        assert!(Cells::new(&[(0, true)], false).of(0, true).is_none(), "nobody asked");
    }
}
