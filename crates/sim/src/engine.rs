//! [`SimEngine`]: the simulator as an [`Engine`].

use hdrhistogram::Histogram;
use netcliff_core::{Aims, Engine, EngineFailure, EngineKind, Outcome, Point, Unsupported};

use crate::caveats;
use crate::clock::Clock;
use crate::place::{Here, Place};
use crate::replicate::Batch;
use crate::summary;
use crate::{schemes, source};

/// How long to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effort {
    /// So many arrivals, over all replications together; up to 64 times as many (200 million at the most, or so many as asked
    /// for) where replications of that are too short for what they report, such as the times of packets that wait longer
    /// than a replication lasts. What is too short even then has no interval, and a note says why.
    Packets(u64),
    /// So many arrivals and no more, over all replications together. What replications are too short for is said by
    /// [`Simulation::settled`] and a note; figures keep their intervals, which may then miss the truth.
    Exactly(u64),
    /// Until figures are known to a half width. Each has its own interval: with k figures all hold at once with at least 1
    /// - k (1 - confidence).
    Precision {
        /// Half width over value; for shares of the CPU, of one CPU.
        relative: f64,
        /// Give up after so many arrivals, and say so.
        packets_at_most: u64,
        /// Which figures; those that a point does not have are left out.
        figures: Aims,
    },
}

/// The simulator with its seed, effort and confidence. The result depends on nothing else: not on threads or machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SimEngine {
    /// Seed of every stream.
    pub seed: u64,
    /// How long to simulate.
    pub effort: Effort,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Independent replications, at least 10.
    pub replications: u64,
}

impl Default for SimEngine {
    fn default() -> Self {
        Self { seed: 1, effort: Effort::Packets(1_000_000), confidence: 0.95, replications: 10 }
    }
}

/// Latencies reach this resolution in [`Simulation::latency_ns`], in significant digits.
const DIGITS: u8 = 3;

/// An outcome with what does not fit it.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The figures.
    pub outcome: Outcome,
    /// Latencies of the delivered packets after the warm-up (ns), mergeable.
    pub latency_ns: Histogram<u64>,
    /// Arrivals simulated, warm-up included.
    pub packets: u64,
    /// Independent replications.
    pub replications: u64,
    /// False: the precision requested was not reached.
    pub precise: bool,
    /// False: the replications are too short for what they report: no steady state in their first half, too few times as long
    /// as the figures remember, or packets that stay inside for too large a part of them.
    pub settled: bool,
}

impl SimEngine {
    /// `packets` arrivals under `seed`.
    pub fn with_packets(seed: u64, packets: u64) -> Self {
        Self { seed, effort: Effort::Packets(packets), ..Self::default() }
    }

    /// Simulates a point. Errors: the point is invalid or not supported.
    pub fn simulate(&self, point: &Point) -> Result<Simulation, EngineFailure> {
        self.simulate_at(point, &Here)
    }

    /// The same to the digit with replications computed elsewhere; those of a host with several queues are computed here. Errors:
    /// likewise, and [`EngineFailure::Interrupted`] where that place gives up.
    pub fn simulate_at(&self, point: &Point, place: &dyn Place) -> Result<Simulation, EngineFailure> {
        point.validate()?;
        self.supports(point)?;
        if point.host.queues.is_some() {
            return crate::multi_queue::simulate(self, point);
        }
        let (batch, clock) = self.sample(point, place).ok_or(EngineFailure::Interrupted)?;
        Ok(self.simulation(point, &batch, clock))
    }

    /// The simulator with its replications computed at a place.
    pub fn at<'a>(&'a self, place: &'a dyn Place) -> At<'a> {
        At { engine: self, place }
    }

    /// The simulation of a point from its batch.
    pub(crate) fn simulation(&self, point: &Point, batch: &Batch, clock: Clock) -> Simulation {
        let mut outcome = summary::outcome(point, batch, clock, self.confidence);
        let short = batch.short(self.confidence);
        let withheld = short.filter(|_| !matches!(self.effort, Effort::Exactly(_)));
        if let Effort::Precision { relative, figures, .. } = self.effort {
            let unearned = |figure: &_| caveats::is_unearned(point, withheld, figure);
            outcome.precision = Some(caveats::precision(&outcome, batch, relative, figures, unearned));
        }
        caveats::withdraw_unearned(point, withheld, &mut outcome);
        outcome.notes.splice(0..0, point.warnings());
        outcome.notes.extend(caveats::notes(point, &outcome, batch, clock, (short, withheld.is_some())));
        Simulation {
            latency_ns: histogram_ns(batch, clock),
            packets: batch.packets_each * batch.replications.len() as u64,
            replications: batch.replications.len() as u64,
            precise: outcome.precision.as_ref().is_none_or(|precision| precision.reached),
            settled: short.is_none(),
            outcome,
        }
    }

    /// Refuses a host with several queues, for what shows one CPU.
    pub(crate) fn one_queue(&self, point: &Point) -> Result<(), Unsupported> {
        self.supports(point)?;
        if point.traffic.arrivals.read_once().is_some() {
            let reason =
                "a trace, distributions, a series, a comparison and advice read a capture around: leave out once";
            return Err(Unsupported::new(EngineKind::Sim, reason));
        }
        if point.host.queues.is_none() {
            return Ok(());
        }
        let reason =
            "a trace, distributions, a series, a comparison and advice are of one queue and its core: leave queues out";
        Err(Unsupported::new(EngineKind::Sim, reason))
    }
}

/// A histogram of latencies (ns) that grows as it must.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    // Auto-resizing from the smallest range cannot be refused with 3 digits.
    let mut histogram = Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("3 digits are accepted"));
    histogram.auto(true);
    histogram
}

pub(crate) fn histogram_ns(batch: &Batch, clock: Clock) -> Histogram<u64> {
    let mut histogram = empty_histogram();
    for (ticks, count) in batch.pool.filled() {
        let nanoseconds = (clock.seconds(ticks) * 1e9).round() as u64;
        // With auto-resizing only a value near 2^64 ns could be refused; a run is shorter than that.
        let _ = histogram.record_n(nanoseconds, count);
    }
    histogram
}

/// A [`SimEngine`] whose replications are computed at a [`Place`].
#[derive(Clone, Copy)]
pub struct At<'a> {
    engine: &'a SimEngine,
    place: &'a dyn Place,
}

impl Engine for At<'_> {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.engine.supports(point)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(self.engine.simulate_at(point, self.place)?.outcome)
    }
}

impl Engine for SimEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Sim
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        if let Some(queues) = &point.host.queues {
            let busiest = netcliff_core::queues::busiest(point);
            if queues.share_cores() {
                crate::shared::supports(&busiest)?;
            }
            return self.supports(&busiest);
        }
        source::supports(point)?;
        schemes::supports(point)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(self.simulate(point)?.outcome)
    }
}
