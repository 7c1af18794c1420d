//! [`Place`]: where replications are computed. What they are does not depend on it: a replication follows from point, seed, number and length.
//!
//! The procedures of `sample` decide here how many replications are needed and how long, and order them; [`Here`] computes them on this
//! machine, another place has its own do it ([`Order::fill`]) and brings back what they answered.

use std::ops::Range;

use netcliff_core::Point;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::machine::Records;
use crate::replicate::{ABREAST, Replication, WarmUp, cut, each, run};
use crate::simpler::Simpler;
use crate::tally::Pool;

/// Replications of a point that are asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    numbers: Range<u64>,
    /// Arrivals of each, warm-up included.
    packets: u64,
    want: Want,
}

/// What of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Want {
    /// All that they recorded: the first tell the warm-up.
    Records,
    /// What is left without this warm-up.
    Cut(WarmUp),
    /// How much longer their packets wait than expected in the simpler queue of this mean latency [ticks], after so many.
    Excess { latency: f64, skipped: u64 },
}

/// What fills an order, or a part of one; of use only to who ordered.
#[derive(Debug, Serialize, Deserialize)]
pub struct Filled(pub(crate) Found);

/// In the order of the replications' numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Found {
    Records(Vec<Records>),
    Cut(Vec<Replication>, Pool),
    Excess(Vec<f64>),
}

/// Computes replications, or has them computed.
pub trait Place: Sync {
    /// The order filled in parts, in the order of their numbers; None: it is given up, and with it the point.
    fn fetch(&self, point: &Point, seed: u64, order: &Order) -> Option<Vec<Filled>>;
}

/// This machine, on all cores of the pool that calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here;

impl Place for Here {
    fn fetch(&self, point: &Point, seed: u64, order: &Order) -> Option<Vec<Filled>> {
        Some(vec![order.fill(point, seed)])
    }
}

impl Order {
    pub(crate) fn records(numbers: Range<u64>, packets: u64) -> Self {
        Self { numbers, packets, want: Want::Records }
    }

    pub(crate) fn cut(numbers: Range<u64>, packets: u64, warm_up: WarmUp) -> Self {
        Self { numbers, packets, want: Want::Cut(warm_up) }
    }

    pub(crate) fn excess(numbers: Range<u64>, packets: u64, latency: f64, skipped: u64) -> Self {
        Self { numbers, packets, want: Want::Excess { latency, skipped } }
    }

    /// Arrivals of all its replications together.
    pub fn packets(&self) -> u64 {
        self.packets.saturating_mul(self.numbers.end - self.numbers.start)
    }

    /// The same in parts of about so many arrivals, a replication each at least.
    pub fn parts(&self, packets: u64) -> impl Iterator<Item = Self> {
        let (numbers, step) = (self.numbers.clone(), (packets / self.packets.max(1)).max(1));
        let starts = numbers.clone().step_by(usize::try_from(step).unwrap_or(usize::MAX));
        starts.map(move |start| Self { numbers: start..numbers.end.min(start.saturating_add(step)), ..self.clone() })
    }

    /// Computes it here. The point must be supported.
    pub fn fill(&self, point: &Point, seed: u64) -> Filled {
        let clock = Clock::of(point, self.packets);
        let one = |number| run(point, clock, seed, number, self.packets);
        Filled(match self.want {
            Want::Records => Found::Records(each(self.numbers.clone(), one)),
            Want::Cut(warm_up) => self.without_warm_up(warm_up, one),
            Want::Excess { latency, skipped } => Found::Excess(self.excesses(point, clock, seed, latency, skipped)),
        })
    }

    /// Some side by side at a time, since each has a histogram of its own until it is added up.
    fn without_warm_up(&self, warm_up: WarmUp, one: impl Fn(u64) -> Records + Sync + Send) -> Found {
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
        Found::Cut(replications, together)
    }

    fn excesses(&self, point: &Point, clock: Clock, seed: u64, latency: f64, skipped: u64) -> Vec<f64> {
        // Who ordered has asked whether there is such a queue.
        let Some(simpler) = Simpler::of(point, clock, latency) else { return Vec::new() };
        each(self.numbers.clone(), |number| simpler.excess(clock, seed, number, self.packets, skipped))
    }
}

/// Who orders: a point under a seed, and where its replications are computed.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub point: &'a Point,
    pub seed: u64,
    pub place: &'a dyn Place,
}

impl Asker<'_> {
    /// What fills the order, part by part; None: given up, or an answer that is none.
    fn fetch<T>(&self, order: &Order, kind: impl Fn(Found) -> Option<T>) -> Option<Vec<T>> {
        let filled = self.place.fetch(self.point, self.seed, order)?;
        filled.into_iter().map(|Filled(found)| kind(found)).collect()
    }

    pub(crate) fn records(&self, order: &Order) -> Option<Vec<Records>> {
        let parts = self.fetch(order, |found| if let Found::Records(part) = found { Some(part) } else { None })?;
        order.whole(parts.into_iter().flatten().collect())
    }

    pub(crate) fn cut(&self, order: &Order) -> Option<(Vec<Replication>, Pool)> {
        let parts =
            self.fetch(order, |found| if let Found::Cut(part, pool) = found { Some((part, pool)) } else { None })?;
        let (mut replications, mut together) = (Vec::new(), Pool::default());
        for (part, pool) in parts {
            replications.extend(part);
            together.merge(&pool);
        }
        Some((order.whole(replications)?, together))
    }

    pub(crate) fn excesses(&self, order: &Order) -> Option<Vec<f64>> {
        let parts = self.fetch(order, |found| if let Found::Excess(part) = found { Some(part) } else { None })?;
        order.whole(parts.into_iter().flatten().collect())
    }
}

impl Order {
    /// One for each number, or nothing.
    fn whole<T>(&self, found: Vec<T>) -> Option<Vec<T>> {
        (found.len() as u64 == self.numbers.end - self.numbers.start).then_some(found)
    }
}

#[cfg(test)]
mod tests;
