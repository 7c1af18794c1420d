//! One replication, and several of them taken together.

use netcliff_core::Point;

use crate::clock::Clock;
use crate::machine::{CELLS, Machine, Records, SEGMENTS};
use crate::stats::mser;
use crate::tally::{Counts, Pool};
use crate::{recursion, schemes};

/// The quantiles kept of every replication.
pub(crate) const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// One replication after its warm-up was cut off.
#[derive(Debug, Clone)]
pub(crate) struct Replication {
    /// What happened after the warm-up.
    pub counts: Counts,
    /// Quantiles of the latency [ticks]; None if nothing was delivered.
    pub quantiles: Option<[f64; SHARES.len()]>,
    /// Tenths of the run that were cut off as warm-up, at most half of it.
    pub warm_tenths: usize,
    /// False: no steady state within the first half.
    pub settled: bool,
}

/// Simulates `packets` arrivals of `point`, which must be supported.
pub(crate) fn replicate(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> (Replication, Pool) {
    let records = recursion::run(point, clock, seed, replication, packets);
    cut(&records.unwrap_or_else(|| by_events(point, clock, seed, replication, packets)))
}

/// Simulates by events, whatever the scheme.
pub(crate) fn by_events(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Records {
    let mut machine = Machine::new(point, clock, seed, replication, packets, ());
    schemes::run(point, clock, &mut machine);
    machine.finish().0
}

/// Cuts the warm-up off by MSER over the mean number of packets in ring, protocol and socket of each cell, rounded up to
/// the next tenth of the run, where the latency histogram can be cut as well.
pub(crate) fn cut(records: &Records) -> (Replication, Pool) {
    cut_at(records, warm_up(&records.marks))
}

/// How many cells are warm-up; None: no steady state within the first half.
pub(crate) fn warm_up(marks: &[Counts]) -> Option<usize> {
    let cells: Vec<f64> = marks
        .windows(2)
        .map(|pair| {
            let change = pair[1].since(&pair[0]);
            change.system_area as f64 / (change.at as f64).max(1.0)
        })
        .collect();
    mser(&cells)
}

/// Cuts off what [`warm_up`] found.
pub(crate) fn cut_at(records: &Records, found: Option<usize>) -> (Replication, Pool) {
    let marks = &records.marks;
    let tenths = found.map_or(SEGMENTS - 1, |cut| cut.div_ceil(CELLS / 10));
    let mut pool = Pool::new();
    records.segments[tenths..SEGMENTS].iter().for_each(|segment| pool.add(segment));
    let counts = marks[CELLS].since(&marks[tenths * CELLS / 10]);
    let replication =
        Replication { counts, quantiles: pool.quantiles(SHARES), warm_tenths: tenths, settled: found.is_some() };
    (replication, pool)
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
}

/// Replications run side by side before their latencies are added to the pool: bounds the memory.
const ABREAST: u64 = 10;

impl Batch {
    pub(crate) fn new(packets_each: u64) -> Self {
        Self { replications: Vec::new(), pool: Pool::new(), packets_each }
    }

    /// Adds replications until there are `count`. The result does not depend on the number of threads.
    pub(crate) fn extend_to(&mut self, count: u64, point: &Point, clock: Clock, seed: u64) {
        let mut next = self.replications.len() as u64;
        while next < count {
            let end = count.min(next + ABREAST);
            for (replication, pool) in each(next..end, |n| replicate(point, clock, seed, n, self.packets_each)) {
                self.replications.push(replication);
                self.pool.merge(&pool);
            }
            next = end;
        }
    }

    /// True if every replication found its steady state.
    pub(crate) fn settled(&self) -> bool {
        self.replications.iter().all(|replication| replication.settled)
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
