//! One replication, and several of them taken together.

use netcliff_core::Point;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::control::Expected;
use crate::length::warm_up;
use crate::machine::{CELLS, Machine, Records, SEGMENTS, SocketCounts};
use crate::place::{Asker, Order};
use crate::tally::{Counts, Pool};
use crate::{recursion, schemes};

/// The quantiles kept of every replication.
pub(crate) const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// One replication after its warm-up was cut off.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Replication {
    /// What happened after the warm-up.
    pub counts: Counts,
    /// The same by application; empty unless there are several.
    pub sockets: Vec<SocketCounts>,
    /// Quantiles of the latency [ticks]; None if nothing was delivered.
    pub quantiles: Option<[f64; SHARES.len()]>,
    /// What was cut off.
    pub warm_up: WarmUp,
    /// Ages of the packets inside when the warm-up ended, and at the end, added up [packet ticks].
    pub ages: (u128, u128),
    /// By what share its packets would have waited longer than expected in the simpler queue, where there is one.
    pub excess: Option<f64>,
}

/// Everything that a replication of `packets` arrivals recorded; the point must be supported.
pub(crate) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let records = recursion::run(point, clock, seed, replication, packets);
    records.unwrap_or_else(|| by_events(point, clock, seed, replication, packets))
}

/// Simulates by events, whatever the scheme.
pub(crate) fn by_events(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let mut machine = Machine::new(point, clock, seed, replication, packets, ());
    schemes::run(point, clock, &mut machine);
    machine.finish().0
}

/// How much of a replication is warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct WarmUp {
    /// Tenths of the run that are cut off, at most half of it.
    pub tenths: usize,
    /// False: no steady state within the first half.
    pub settled: bool,
    /// How many times as long as the figures remember the rest is.
    pub stretches: f64,
    /// Pauses of the CPU that the rest is expected to hold; infinite where there are none.
    pub pauses: f64,
}

/// A replication without its warm-up.
pub(crate) fn cut(records: &Records, warm_up: WarmUp) -> (Replication, Pool) {
    let tenths = warm_up.tenths;
    let mut pool = Pool::default();
    records.segments[tenths..SEGMENTS].iter().for_each(|segment| pool.add(segment));
    let (first, last) = (&records.marks[tenths * CELLS / 10], &records.marks[CELLS]);
    let sockets = sockets(records, tenths * CELLS / 10);
    let (counts, quantiles, ages) = (last.since(first), pool.quantiles(SHARES), (first.ages(), last.ages()));
    (Replication { counts, sockets, quantiles, warm_up, ages, excess: None }, pool)
}

/// What each application got from mark `first` to the last.
fn sockets(records: &Records, first: usize) -> Vec<SocketCounts> {
    let count = records.sockets.len() / records.marks.len();
    let at = |mark: usize| &records.sockets[mark * count..(mark + 1) * count];
    at(CELLS).iter().zip(at(first)).map(|(last, first)| last.since(first)).collect()
}

/// Replications under one seed, all of the same length.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The replications in their order.
    pub replications: Vec<Replication>,
    /// Their latencies together.
    pub pool: Pool,
    /// Arrivals of each replication, warm-up included.
    pub packets_each: u64,
    /// What their gaps and service times should be on average, where that is known of all of them.
    pub expected: Option<Expected>,
    /// The warm-up where it is known beforehand.
    pub known: Option<WarmUp>,
    /// Mean latency [ticks] of the simpler queue that meets the same packets.
    pub simpler: Option<f64>,
}

/// Replications run side by side before their latencies are added up: bounds the memory. The first so many determine the
/// warm-up.
pub(crate) const ABREAST: u64 = 10;

impl Batch {
    /// What of known mean 0 explains the mean latency of each replication: the excess of the simpler queue, else the surplus of work. None
    /// where one replication has neither, or where all are the same.
    pub(crate) fn controls(&self) -> Option<Vec<f64>> {
        let excesses: Option<Vec<f64>> = self.replications.iter().map(|one| one.excess).collect();
        let surpluses = || {
            let expected = self.expected?;
            self.replications.iter().map(|one| expected.surplus(&one.counts)).collect::<Option<Vec<f64>>>()
        };
        excesses
            .or_else(surpluses)
            .filter(|each| each.len() > 2 && each.iter().any(|surplus| (surplus - each[0]).abs() > 1e-9))
    }

    pub(crate) fn new(packets_each: u64) -> Self {
        Self {
            replications: Vec::new(),
            pool: Pool::default(),
            packets_each,
            expected: None,
            known: None,
            simpler: None,
        }
    }

    /// Replications of which nothing is cut off.
    pub(crate) fn whole(packets_each: u64) -> Self {
        let known = Some(WarmUp { tenths: 0, settled: true, stretches: f64::INFINITY, pauses: f64::INFINITY });
        Self { known, ..Self::new(packets_each) }
    }

    /// True if replications count from the empty host at their start.
    pub(crate) fn is_whole(&self) -> bool {
        self.known.is_some_and(|known| known.tenths == 0)
    }

    /// Adds replications until there are `count`. The first of them together determine the warm-up of all. The result
    /// does not depend on where they are computed, nor on the number of threads. None: given up there.
    pub(crate) fn extend_to(&mut self, count: u64, asker: &Asker<'_>) -> Option<()> {
        let mut next = self.replications.len() as u64;
        if next < count && self.warm_up().is_none() {
            let first = next..count.min(next + ABREAST);
            let records = asker.records(&Order::records(first.clone(), self.packets_each))?;
            let clock = Clock::of(asker.point, self.packets_each);
            let found = warm_up(asker.point, clock, records.iter().map(|records| &records.marks[..]));
            let parts = records.iter().map(|records| cut(records, found));
            parts.for_each(|(replication, pool)| self.add(vec![replication], &pool));
            self.compare(first.clone(), asker)?;
            next = first.end;
        }
        if let Some(known) = self.warm_up().filter(|_| next < count) {
            let (replications, pool) = asker.cut(&Order::cut(next..count, self.packets_each, known))?;
            self.add(replications, &pool);
            self.compare(next..count, asker)?;
        }
        Some(())
    }

    fn add(&mut self, replications: Vec<Replication>, pool: &Pool) {
        self.replications.extend(replications);
        self.pool.merge(pool);
    }

    /// Lets the packets of all replications, and of those to come, meet the simpler queue of this mean latency [ticks] as well.
    pub(crate) fn beside(&mut self, latency: f64, asker: &Asker<'_>) -> Option<()> {
        self.simpler = Some(latency);
        self.compare(0..self.replications.len() as u64, asker)
    }

    fn compare(&mut self, numbers: std::ops::Range<u64>, asker: &Asker<'_>) -> Option<()> {
        let (Some(latency), Some(known)) = (self.simpler, self.warm_up()) else { return Some(()) };
        let skipped = self.packets_each * known.tenths as u64 / 10;
        let excesses = asker.excesses(&Order::excess(numbers.clone(), self.packets_each, latency, skipped))?;
        for (number, excess) in numbers.zip(excesses) {
            self.replications[number as usize].excess = Some(excess);
        }
        Some(())
    }

    /// Mean latency of all that were delivered [ticks]; None if nothing was.
    pub(crate) fn mean_latency(&self) -> Option<f64> {
        let counts = self.replications.iter().map(|one| &one.counts);
        let (sum, count) = counts.fold((0, 0), |(sum, count), one| (sum + one.latency, count + one.delivered));
        (count > 0).then(|| sum as f64 / count as f64)
    }

    /// The warm-up of every replication; None before the first, unless it is known beforehand.
    fn warm_up(&self) -> Option<WarmUp> {
        self.known.or_else(|| self.replications.first().map(|replication| replication.warm_up))
    }
}

/// `work` of each number, in their order, on all cores.
#[cfg(feature = "parallel")]
pub(crate) fn each<T: Send>(numbers: std::ops::Range<u64>, work: impl Fn(u64) -> T + Sync + Send) -> Vec<T> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    numbers.into_par_iter().map(work).collect()
}

/// `work` of each number, in their order.
#[cfg(not(feature = "parallel"))]
pub(crate) fn each<T>(numbers: std::ops::Range<u64>, work: impl Fn(u64) -> T) -> Vec<T> {
    numbers.map(work).collect()
}
