//! One replication: the run of its packets, and its results after the warm-up.

use netcliff_core::Point;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
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
    /// Sum of the ages of the packets inside, at the end of the warm-up and at the end of the run [packet ticks].
    pub ages: (u128, u128),
    /// Relative amount by which these packets waited longer than expected in the simpler queue ([`crate::simpler`]).
    /// `None` without such a queue.
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
    /// Length of the run after the warm-up, in multiples of the figures' autocorrelation time.
    pub stretches: f64,
    /// Number of CPU pauses expected after the warm-up; infinite if the host has no pauses.
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

/// Number of replications that run in parallel before their latencies are added up, which bounds the memory. The first
/// group determines the warm-up.
pub(crate) const ABREAST: u64 = 10;

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
