//! [`Batch`]: replications under one seed, all of the same length, with their common warm-up.

use crate::clock::Clock;
use crate::control::Expected;
use crate::executor::{Asker, ReplicationRequest};
use crate::length::{self, Short, warm_up};
use crate::replicate::{ABREAST, Replication, WarmUp, cut};
use crate::tally::Pool;

/// Replications under one seed, all of the same length.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The replications in the order of their numbers.
    pub replications: Vec<Replication>,
    /// Latencies of all replications.
    pub pool: Pool,
    /// Number of arrivals in each replication, including warm-up.
    pub packets_each: u64,
    /// Expected means of gaps and service times. `None` if they are not known.
    pub expected: Option<Expected>,
    /// The warm-up, if it is given beforehand. `None` if it is determined from the replications.
    pub known: Option<WarmUp>,
    /// Mean latency of the simpler queue ([`crate::simpler`]) that gets the same packets [ticks]. `None` without such a
    /// queue.
    pub simpler: Option<f64>,
}

impl Batch {
    /// Returns for each replication a value with known expectation 0 that is correlated with its mean latency (a
    /// control variate): the excess wait in the simpler queue or, without such a queue, the surplus of offered work.
    /// `None` if a replication has neither, or if all values are equal.
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

    /// Makes an empty batch whose replications have no warm-up: they count from their start.
    pub(crate) fn whole(packets_each: u64) -> Self {
        let known = Some(WarmUp { tenths: 0, settled: true, stretches: f64::INFINITY, pauses: f64::INFINITY });
        Self { known, ..Self::new(packets_each) }
    }

    /// Whether no warm-up is cut off, so that the replications count from their start with an empty host.
    pub(crate) fn is_whole(&self) -> bool {
        self.known.is_some_and(|known| known.tenths == 0)
    }

    /// Adds replications until there are `count`. The first group determines the warm-up of all replications. The
    /// result does not depend on the executor or the number of threads. `None` if the executor gave up.
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

    /// Returns why the replications are too short. `None` if they are long enough, or if their warm-up was given
    /// beforehand. `confidence` is the confidence level of the intervals.
    pub(crate) fn short(&self, confidence: f64) -> Option<Short> {
        if self.known.is_some() {
            return None;
        }
        length::short(&self.replications, confidence)
    }

    /// Whether no time passes after the warm-up in all replications; then no figure can be divided by the time.
    pub(crate) fn is_an_instant(&self) -> bool {
        self.replications.iter().all(|one| one.counts.at == 0)
    }

    /// Whether packets spend so long in the host that replications are too short to average their latencies.
    pub(crate) fn outstayed(&self) -> bool {
        length::outstayed(&self.replications)
    }

    fn add(&mut self, replications: Vec<Replication>, pool: &Pool) {
        self.replications.extend(replications);
        self.pool.merge(pool);
    }

    /// Selects the simpler queue ([`crate::simpler`]) with the mean latency `latency` [ticks], and computes how much
    /// longer than expected the packets of each replication wait in it. Applies to replications that are added later,
    /// too. `None` if the executor gave up.
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
