//! One replication, and a batch of several.

use netcliff_core::Point;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::control::Expected;
use crate::executor::{Asker, ReplicationRequest};
use crate::length::warm_up;
use crate::machine::{Machine, Records, SocketCounts};
use crate::tally::{CELLS, Counts, Pool, SEGMENTS};
use crate::{recursion, schemes};

/// The quantiles stored for every replication.
pub(crate) const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// One replication without its warm-up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Replication {
    /// Counts after the warm-up.
    pub counts: Counts,
    /// Counts by application. Empty with a single application.
    pub sockets: Vec<SocketCounts>,
    /// Quantiles of the latency [ticks]. `None` if no packet was delivered.
    pub quantiles: Option<[f64; SHARES.len()]>,
    /// The warm-up that was cut off.
    pub warm_up: WarmUp,
    /// Sums of the ages of the packets inside: at the end of the warm-up, and at the end of the run [packet ticks].
    pub ages: (u128, u128),
    /// Relative amount by which these packets would have waited longer than expected in the simpler queue. `None`
    /// without such a queue.
    pub excess: Option<f64>,
}

/// Runs a replication of `packets` arrivals and returns its records. The point must be supported.
pub(crate) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let records = recursion::run(point, clock, seed, replication, packets);
    records.unwrap_or_else(|| by_events(point, clock, seed, replication, packets))
}

/// Runs a replication by events, for any scheme.
pub(crate) fn by_events(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let mut machine = Machine::new(point, clock, seed, replication, packets, ());
    schemes::run(point, clock, &mut machine);
    machine.finish().0
}

/// The warm-up of a replication.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct WarmUp {
    /// Tenths of the run that are cut off, at most half of it.
    pub tenths: usize,
    /// Whether a steady state was reached within the first half.
    pub settled: bool,
    /// Length of the rest, in multiples of the figures' autocorrelation time.
    pub stretches: f64,
    /// Number of CPU pauses expected in the rest. Infinite if the host has no pauses.
    pub pauses: f64,
}

/// Cuts the warm-up off a replication.
pub(crate) fn cut(records: &Records, warm_up: WarmUp) -> (Replication, Pool) {
    let tenths = warm_up.tenths;
    let mut pool = Pool::default();
    records.segments[tenths..SEGMENTS].iter().for_each(|segment| pool.add(segment));
    let (first, last) = (&records.marks[tenths * CELLS / 10], &records.marks[CELLS]);
    let sockets = sockets(records, tenths * CELLS / 10);
    let (counts, quantiles, ages) = (last.since(first), pool.quantiles(SHARES), (first.ages(), last.ages()));
    (Replication { counts, sockets, quantiles, warm_up, ages, excess: None }, pool)
}

/// Counts of each application from mark `first` to the last mark.
fn sockets(records: &Records, first: usize) -> Vec<SocketCounts> {
    let count = records.sockets.len() / records.marks.len();
    let at = |mark: usize| &records.sockets[mark * count..(mark + 1) * count];
    at(CELLS).iter().zip(at(first)).map(|(last, first)| last.since(first)).collect()
}

/// Replications under one seed, all of the same length.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The replications in the order of their numbers.
    pub replications: Vec<Replication>,
    /// Latencies of all replications.
    pub pool: Pool,
    /// Number of arrivals in each replication, including warm-up.
    pub packets_each: u64,
    /// Expected means of gaps and service times. `None` if not known.
    pub expected: Option<Expected>,
    /// The warm-up, if it is given beforehand. `None` if it is determined from the replications.
    pub known: Option<WarmUp>,
    /// Mean latency of the simpler queue that gets the same packets [ticks]. `None` without such a queue.
    pub simpler: Option<f64>,
}

/// Number of replications that run in parallel before their latencies are added up, which bounds the memory. The first
/// group determines the warm-up.
pub(crate) const ABREAST: u64 = 10;

impl Batch {
    /// Control variate of each replication's mean latency, with known expectation 0: the excess wait in the simpler
    /// queue or, without one, the surplus of offered work. `None` if a replication has neither, or if all values are
    /// equal.
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

    /// A batch whose replications have no warm-up cut off.
    pub(crate) fn whole(packets_each: u64) -> Self {
        let known = Some(WarmUp { tenths: 0, settled: true, stretches: f64::INFINITY, pauses: f64::INFINITY });
        Self { known, ..Self::new(packets_each) }
    }

    /// Whether the replications count from the empty host at their start.
    pub(crate) fn is_whole(&self) -> bool {
        self.known.is_some_and(|known| known.tenths == 0)
    }

    /// Adds replications until there are `count`. The first group determines the warm-up of all. The result does not
    /// depend on the executor or the number of threads. `None` if the executor gave up.
    pub(crate) fn extend_to(&mut self, count: u64, asker: &Asker<'_>) -> Option<()> {
        let mut next = self.replications.len() as u64;
        if next < count && self.warm_up().is_none() {
            let first = next..count.min(next + ABREAST);
            let records = asker.records(&ReplicationRequest::records(first.clone(), self.packets_each))?;
            let clock = Clock::of(asker.point, self.packets_each);
            let found = warm_up(asker.point, clock, records.iter().map(|records| &records.marks[..]));
            let parts = records.iter().map(|records| cut(records, found));
            parts.for_each(|(replication, pool)| self.add(vec![replication], &pool));
            self.compare(first.clone(), asker)?;
            next = first.end;
        }
        if let Some(known) = self.warm_up().filter(|_| next < count) {
            let (replications, pool) = asker.cut(&ReplicationRequest::cut(next..count, self.packets_each, known))?;
            self.add(replications, &pool);
            self.compare(next..count, asker)?;
        }
        Some(())
    }

    fn add(&mut self, replications: Vec<Replication>, pool: &Pool) {
        self.replications.extend(replications);
        self.pool.merge(pool);
    }

    /// Computes for all replications, and for later ones, the excess wait of their packets in a simpler queue with the
    /// mean latency `latency` [ticks].
    pub(crate) fn add_simpler(&mut self, latency: f64, asker: &Asker<'_>) -> Option<()> {
        self.simpler = Some(latency);
        self.compare(0..self.replications.len() as u64, asker)
    }

    fn compare(&mut self, numbers: std::ops::Range<u64>, asker: &Asker<'_>) -> Option<()> {
        let (Some(latency), Some(known)) = (self.simpler, self.warm_up()) else { return Some(()) };
        let skipped = self.packets_each * known.tenths as u64 / 10;
        let excesses =
            asker.excesses(&ReplicationRequest::excess(numbers.clone(), self.packets_each, latency, skipped))?;
        for (number, excess) in numbers.zip(excesses) {
            self.replications[number as usize].excess = Some(excess);
        }
        Some(())
    }

    /// Mean latency of all delivered packets [ticks]. `None` if no packet was delivered.
    pub(crate) fn mean_latency(&self) -> Option<f64> {
        let counts = self.replications.iter().map(|one| &one.counts);
        let (sum, count) = counts.fold((0, 0), |(sum, count), one| (sum + one.latency, count + one.delivered));
        (count > 0).then(|| sum as f64 / count as f64)
    }

    /// The warm-up of every replication. `None` before the first replication, unless it is given beforehand.
    fn warm_up(&self) -> Option<WarmUp> {
        self.known.or_else(|| self.replications.first().map(|replication| replication.warm_up))
    }
}

/// Applies `work` to each number on all cores; results are in the order of the numbers.
#[cfg(feature = "parallel")]
pub(crate) fn each<T: Send>(numbers: std::ops::Range<u64>, work: impl Fn(u64) -> T + Sync + Send) -> Vec<T> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    numbers.into_par_iter().map(work).collect()
}

/// Applies `work` to each number; results are in the order of the numbers.
#[cfg(not(feature = "parallel"))]
pub(crate) fn each<T>(numbers: std::ops::Range<u64>, work: impl Fn(u64) -> T) -> Vec<T> {
    numbers.map(work).collect()
}
