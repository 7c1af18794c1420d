//! [`Executor`]: computes replications. The result does not depend on the executor: point, seed, number and length
//! determine a replication.
//!
//! The procedures of `sample` decide how many replications are needed and how long they are, and request them.
//! [`LocalExecutor`] computes them on this machine. Another executor has other machines compute them
//! ([`ReplicationRequest::fill`]) and returns their answers.

use std::ops::Range;

use netcliff_core::Point;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::machine::Records;
use crate::replicate::{ABREAST, Replication, WarmUp, cut, each, run};
use crate::simpler::Simpler;
use crate::tally::Pool;

/// A request for replications of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicationRequest {
    numbers: Range<u64>,
    /// Number of arrivals in each replication, including warm-up.
    packets: u64,
    want: Want,
}

/// Which results of the replications are requested.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Want {
    /// All records; the warm-up is determined from the first ones.
    Records,
    /// The results after this warm-up has been cut off.
    Cut(WarmUp),
    /// How much longer than expected the packets waited in the simpler queue (see `simpler`) with the mean latency
    /// `latency` [ticks], after the first `skipped` packets.
    Excess { latency: f64, skipped: u64 },
}

/// The answer to a request or to a part of it. Only the requesting procedure can read it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Filled(pub(crate) Results);

/// Results in the order of the replications' numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Results {
    Records(Vec<Records>),
    Cut(Vec<Replication>, Pool),
    Excess(Vec<f64>),
}

/// Computes replications, or has other machines compute them.
pub trait Executor: Sync {
    /// Answers a request in parts, in the order of the replications' numbers. `None`: the executor gives up, and the
    /// point has no result.
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>>;
}

/// Computes on this machine, on all cores of the calling thread pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl Executor for LocalExecutor {
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        Some(vec![order.fill(point, seed)])
    }
}

impl ReplicationRequest {
    pub(crate) fn records(numbers: Range<u64>, packets: u64) -> Self {
        Self { numbers, packets, want: Want::Records }
    }

    pub(crate) fn cut(numbers: Range<u64>, packets: u64, warm_up: WarmUp) -> Self {
        Self { numbers, packets, want: Want::Cut(warm_up) }
    }

    pub(crate) fn excess(numbers: Range<u64>, packets: u64, latency: f64, skipped: u64) -> Self {
        Self { numbers, packets, want: Want::Excess { latency, skipped } }
    }

    /// Number of arrivals in each replication of the request.
    pub fn packets_each(&self) -> u64 {
        self.packets
    }

    /// Number of arrivals in all replications of the request.
    pub fn packets(&self) -> u64 {
        self.packets.saturating_mul(self.numbers.end - self.numbers.start)
    }

    /// Splits the request into parts of about `packets` arrivals, at least one replication each.
    pub fn parts(&self, packets: u64) -> impl Iterator<Item = Self> {
        let (numbers, step) = (self.numbers.clone(), (packets / self.packets.max(1)).max(1));
        let starts = numbers.clone().step_by(usize::try_from(step).unwrap_or(usize::MAX));
        starts.map(move |start| Self { numbers: start..numbers.end.min(start.saturating_add(step)), ..self.clone() })
    }

    /// Computes the request on this machine. The point must be supported.
    pub fn fill(&self, point: &Point, seed: u64) -> Filled {
        let clock = Clock::of(point, self.packets);
        let one = |number| run(point, clock, seed, number, self.packets);
        Filled(match self.want {
            Want::Records => Results::Records(each(self.numbers.clone(), one)),
            Want::Cut(warm_up) => self.without_warm_up(warm_up, one),
            Want::Excess { latency, skipped } => Results::Excess(self.excesses(point, clock, seed, latency, skipped)),
        })
    }

    /// Computes results without the warm-up. Runs at most [`ABREAST`] replications at once, because each needs memory
    /// for a histogram until the histogram is added to the sum.
    fn without_warm_up(&self, warm_up: WarmUp, one: impl Fn(u64) -> Records + Sync + Send) -> Results {
        let (mut replications, mut together) = (Vec::new(), Pool::default());
        let mut next = self.numbers.start;
        while next < self.numbers.end {
            let end = self.numbers.end.min(next + ABREAST);
            for (replication, pool) in each(next..end, |number| cut(&one(number), warm_up)) {
                replications.push(replication);
                together.merge(&pool);
            }
            next = end;
        }
        Results::Cut(replications, together)
    }

    fn excesses(&self, point: &Point, clock: Clock, seed: u64, latency: f64, skipped: u64) -> Vec<f64> {
        // The requesting procedure has checked that the point has a simpler queue.
        let Some(simpler) = Simpler::of(point, clock, latency) else { return Vec::new() };
        each(self.numbers.clone(), |number| simpler.excess(clock, seed, number, self.packets, skipped))
    }
}

/// A point with its seed, and the executor that computes its replications.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub point: &'a Point,
    pub seed: u64,
    pub executor: &'a dyn Executor,
}

impl Asker<'_> {
    /// Requests replications and returns the answer part by part. `None` if the executor gave up or its answer is
    /// invalid.
    fn fetch<T>(&self, order: &ReplicationRequest, kind: impl Fn(Results) -> Option<T>) -> Option<Vec<T>> {
        let filled = self.executor.fetch(self.point, self.seed, order)?;
        filled.into_iter().map(|Filled(found)| kind(found)).collect()
    }

    pub(crate) fn records(&self, order: &ReplicationRequest) -> Option<Vec<Records>> {
        let parts = self.fetch(order, |found| if let Results::Records(part) = found { Some(part) } else { None })?;
        order.whole(parts.into_iter().flatten().collect())
    }

    pub(crate) fn cut(&self, order: &ReplicationRequest) -> Option<(Vec<Replication>, Pool)> {
        let parts =
            self.fetch(order, |found| if let Results::Cut(part, pool) = found { Some((part, pool)) } else { None })?;
        let (mut replications, mut together) = (Vec::new(), Pool::default());
        for (part, pool) in parts {
            replications.extend(part);
            together.merge(&pool);
        }
        Some((order.whole(replications)?, together))
    }

    pub(crate) fn excesses(&self, order: &ReplicationRequest) -> Option<Vec<f64>> {
        let parts = self.fetch(order, |found| if let Results::Excess(part) = found { Some(part) } else { None })?;
        order.whole(parts.into_iter().flatten().collect())
    }
}

impl ReplicationRequest {
    /// Returns `found` if it has one entry per replication, otherwise `None`.
    fn whole<T>(&self, found: Vec<T>) -> Option<Vec<T>> {
        (found.len() as u64 == self.numbers.end - self.numbers.start).then_some(found)
    }
}

#[cfg(test)]
mod tests;
