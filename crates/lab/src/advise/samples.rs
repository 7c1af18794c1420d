//! Stores the replications of the candidates, within the permitted number of packets.

use std::ops::Range;

use netcliff_core::{Engine, EngineFailure, Figure, Measure, Point, Scheme, Unsupported};
use netcliff_sim::{Replica, SimEngine};

use super::{Observer, Question, judge, point};
use netcliff_stats as stats;

/// Simulates single replications. Replications with the same number offer every candidate the same packets.
pub trait Sampler: Sync {
    /// Whether the point can be simulated.
    ///
    /// # Errors
    /// The reason why not.
    fn supports(&self, point: &Point) -> Result<(), Unsupported>;
    /// Simulates the replications with these numbers, each of `packets` arrivals.
    ///
    /// # Errors
    /// The point is invalid or not supported.
    fn sample(&self, point: &Point, numbers: Range<u64>, packets: u64) -> Result<Vec<Replica>, EngineFailure>;
}

impl Sampler for SimEngine {
    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        Engine::supports(self, point)
    }

    fn sample(&self, point: &Point, numbers: Range<u64>, packets: u64) -> Result<Vec<Replica>, EngineFailure> {
        self.replicas(point, numbers, packets)
    }
}

/// Number of replications that are simulated at once if one more is requested: enough for every core, few enough to
/// waste little.
const ABREAST: u64 = 10;

/// The replications simulated so far.
pub(super) struct Samples<'a> {
    question: &'a Question,
    sampler: &'a dyn Sampler,
    observer: &'a mut dyn Observer,
    had: Vec<(Point, Vec<Replica>)>,
    /// Number of arrivals simulated so far.
    pub packets: u64,
}

impl<'a> Samples<'a> {
    pub fn new(question: &'a Question, sampler: &'a dyn Sampler, observer: &'a mut dyn Observer) -> Self {
        Self { question, sampler, observer, had: Vec::new(), packets: 0 }
    }

    /// Adds a candidate. Returns its number.
    pub fn add(&mut self, scheme: &Scheme) -> usize {
        self.had.push((point(self.question, scheme), Vec::new()));
        self.had.len() - 1
    }

    /// Simulates a candidate until it has `count` replications. Returns false if this needs more packets than
    /// permitted.
    pub fn fill(&mut self, number: usize, count: u64) -> Result<bool, EngineFailure> {
        let settings = &self.question.settings;
        let (point, replicas) = &mut self.had[number];
        let from = replicas.len() as u64;
        let packets = count.saturating_sub(from) * settings.packets_each;
        if self.packets + packets > settings.packets_at_most {
            return Ok(false);
        }
        if packets > 0 {
            replicas.extend(self.sampler.sample(point, from..count, settings.packets_each)?);
            self.packets += packets;
            self.observer.packets(self.packets, settings.packets_at_most);
        }
        Ok(true)
    }

    /// Figure of one replication, simulated if necessary. `None` if the permitted packets are used up, or if the
    /// replication lacks the figure.
    pub fn value(&mut self, number: usize, replication: usize, measure: Measure) -> Result<Option<f64>, EngineFailure> {
        let had = self.count(number);
        if replication >= had && !self.fill(number, had as u64 + ABREAST)? {
            return Ok(None);
        }
        Ok(self.had[number].1.get(replication).and_then(|replica| measure.of(&replica.outcome)).map(|f| f.value))
    }

    /// Number of replications simulated.
    pub fn count(&self, number: usize) -> usize {
        self.had[number].1.len()
    }

    /// The figure of every replication. `None` if a replication lacks it.
    pub fn values(&self, number: usize, measure: Measure) -> Option<Vec<f64>> {
        self.had[number].1.iter().map(|replica| measure.of(&replica.outcome).map(|figure| figure.value)).collect()
    }

    /// Mean over the replications, with its interval.
    pub fn figure(&self, number: usize, measure: Measure) -> Option<Figure> {
        let settings = &self.question.settings;
        let values = self.values(number, measure)?;
        let figure = stats::mean_at(&values, settings.confidence)?;
        let interval = figure.interval.map(|ends| judge::ends(measure, ends, &values, settings.packets_each));
        Some(Figure { interval, ..figure })
    }

    /// Mean difference `one` - `other` over the replications that both have, with its paired interval.
    pub fn difference(&self, one: usize, other: usize, measure: Measure, confidence: f64) -> Option<Figure> {
        let (one, other) = (self.values(one, measure)?, self.values(other, measure)?);
        let differences: Vec<f64> = one.iter().zip(&other).map(|(a, b)| a - b).collect();
        stats::mean_at(&differences, confidence)
    }

    /// Number of replications without a steady state, and number of all replications.
    pub fn unsettled(&self, number: usize) -> (usize, usize) {
        let replicas = &self.had[number].1;
        (replicas.iter().filter(|replica| !replica.settled).count(), replicas.len())
    }
}
