//! [`SimEngine`]: the simulator as an [`Engine`], for a host with one queue or several.

use std::cell::{Cell, RefCell};

use hdrhistogram::Histogram;
use netcliff_core::note::Note;
use netcliff_core::queues::{self, Role, Together};
use netcliff_core::{
    Aims, Engine, EngineFailure, EngineKind, Figure, Host, Latency, Load, Outcome, Point, Scheme, Traffic, Unsupported,
};

use crate::batch::Batch;
use crate::caveats;
use crate::clock::Clock;
use crate::executor::{Executor, LocalExecutor};
use crate::{schemes, shared, source, summary};

/// How long to simulate a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effort {
    /// This number of arrivals over all replications. If the replications are too short for their results (e.g. for
    /// packets that wait longer than a replication lasts), they are made longer: up to 64 times as many arrivals, but
    /// at most 200 million or this number. Results that are still not supported have no interval, and a note says why.
    Packets(u64),
    /// Exactly this number of arrivals over all replications. [`Simulation::settled`] and a note report if the
    /// replications are too short; results keep their intervals, which may then miss the truth.
    Exactly(u64),
    /// Until the figures are known to a relative half width. Each figure has its own interval; the intervals of k
    /// figures hold together with a probability of at least 1 - k (1 - confidence).
    Precision {
        /// Half width over value; for shares of the CPU, over one CPU.
        relative: f64,
        /// Largest number of arrivals; if the precision is not reached by then, a note says so.
        packets_at_most: u64,
        /// The figures that need this precision. Figures that a point does not have are ignored.
        figures: Aims,
    },
}

/// The simulator with its seed, effort and confidence. The result depends on nothing else, in particular not on threads
/// or machine.
#[derive(Debug, Clone, PartialEq)]
pub struct SimEngine {
    /// Seed of all random streams.
    pub seed: u64,
    /// How long to simulate.
    pub effort: Effort,
    /// Confidence level of the intervals.
    pub confidence: f64,
    /// Number of independent replications, at least 10.
    pub replications: u64,
}

impl Default for SimEngine {
    fn default() -> Self {
        Self { seed: 1, effort: Effort::Packets(1_000_000), confidence: 0.95, replications: 10 }
    }
}

/// Resolution of the latencies in [`Simulation::latency_ns`], in significant digits.
const DIGITS: u8 = 3;

/// An outcome with additional results.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// The outcome.
    pub outcome: Outcome,
    /// Latencies of the packets delivered after the warm-up (ns). Histograms can be merged.
    pub latency_ns: Histogram<u64>,
    /// Number of arrivals simulated, including warm-up.
    pub packets: u64,
    /// Number of independent replications.
    pub replications: u64,
    /// Whether the requested precision was reached.
    pub precise: bool,
    /// Whether the replications are long enough: a steady state within their first half, many times the autocorrelation
    /// time, and packets that stay inside for only a small part of a replication.
    pub settled: bool,
}

impl SimEngine {
    /// An engine that simulates `packets` arrivals under `seed`.
    pub fn with_packets(seed: u64, packets: u64) -> Self {
        Self { seed, effort: Effort::Packets(packets), ..Self::default() }
    }

    /// Simulates a point. Errors: the point is invalid or not supported.
    pub fn simulate(&self, point: &Point) -> Result<Simulation, EngineFailure> {
        self.simulate_at(point, &LocalExecutor)
    }

    /// Like [`SimEngine::simulate`], with the replications computed by `executor`; the result is bit for bit the same.
    /// A host with several queues is simulated on this machine. Additional error: [`EngineFailure::Interrupted`] if the
    /// executor gives up.
    pub fn simulate_at(&self, point: &Point, executor: &dyn Executor) -> Result<Simulation, EngineFailure> {
        point.validate()?;
        self.supports(point)?;
        if point.host.queues.is_some() {
            return simulate_queues(self, point);
        }
        let (batch, clock) = self.sample(point, executor).ok_or(EngineFailure::Interrupted)?;
        Ok(self.simulation(point, &batch, clock))
    }

    /// Returns this simulator with `executor` as the executor that computes its replications.
    pub fn at<'a>(&'a self, executor: &'a dyn Executor) -> SimAt<'a> {
        SimAt { engine: self, executor }
    }

    /// Makes the result of a point from its batch of replications.
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

    /// Checks whether the engine can simulate a host under a scheme and a traffic at `load`, or at low loads if `load`
    /// is `None`.
    ///
    /// # Errors
    /// States why it cannot.
    pub fn supports_at(
        &self,
        host: &Host,
        scheme: &Scheme,
        traffic: &Traffic,
        load: Option<Load>,
    ) -> Result<(), Unsupported> {
        if let Some(queues) = &host.queues {
            let (host, busiest, share) = queues::busiest(host, traffic);
            if queues.share_cores() {
                shared::supports(&host, scheme, &busiest)?;
            }
            let part = load.map(|load| traffic.rate_pps(load).map_or(load, |pps| Load::Pps(pps * share)));
            return self.supports_at(&host, scheme, &busiest, part);
        }
        source::supports(host, traffic, load)?;
        schemes::supports(host, scheme)
    }

    /// Refuses a host with several queues, for results that are defined for one CPU only.
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

/// An empty histogram of latencies (ns) that grows as needed.
fn empty_histogram() -> Histogram<u64> {
    // An auto-resizing histogram with 3 digits is always accepted.
    let mut histogram = Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("3 digits are accepted"));
    histogram.auto(true);
    histogram
}

pub(crate) fn histogram_ns(batch: &Batch, clock: Clock) -> Histogram<u64> {
    let mut histogram = empty_histogram();
    for (ticks, count) in batch.pool.filled() {
        let nanoseconds = (clock.seconds(ticks) * 1e9).round() as u64;
        // Recording can fail only near 2^64 ns; every run is shorter than that.
        let _ = histogram.record_n(nanoseconds, count);
    }
    histogram
}

/// Simulates each vector (queue with its interrupt) of a host with several queues on its own random streams, with a
/// number of packets proportional to its share. Queues that share a core are simulated together. The point must be
/// supported.
fn simulate_queues(engine: &SimEngine, point: &Point) -> Result<Simulation, EngineFailure> {
    let whole_pps = point.rate_pps().unwrap_or(1.0);
    let receive_queues = point.host.queues.as_ref().map_or(1, |queues| queues.count as usize);
    let last: RefCell<Vec<Option<Simulation>>> = RefCell::default();
    let packets = Cell::new(0);
    let keep = |number: usize, simulation: Simulation| {
        packets.set(packets.get() + simulation.packets);
        let outcome = simulation.outcome.clone();
        let mut last = last.borrow_mut();
        let length = last.len().max(number + 1);
        last.resize_with(length, || None);
        last[number] = Some(simulation);
        outcome
    };
    let share = |part: &Point| part.rate_pps().unwrap_or(1.0) / whole_pps;
    let alone = |number: usize, part: &Point| Ok(keep(number, part_of(engine, number, share(part)).simulate(part)?));
    let joint = |parts: &[(usize, Point)]| {
        let all = parts.iter().map(|(_, part)| share(part)).sum();
        let seeded: Vec<(u64, &Point)> = parts.iter().map(|(n, part)| (part_of(engine, *n, 1.0).seed, part)).collect();
        let mut found = shared::simulate(&part_of(engine, parts[0].0, all), &seeded)?;
        if parts.iter().any(|(number, _)| *number >= receive_queues) {
            found.core.latency_ns = empty_histogram();
            let receptions = parts.iter().zip(&found.latencies_ns).filter(|((number, _), _)| *number < receive_queues);
            for (_, latency_ns) in receptions {
                // The histogram resizes itself, so that every value fits and this cannot fail.
                let _ = found.core.latency_ns.add(latency_ns);
            }
        }
        Ok(Together { core: keep(parts[0].0, found.core), queues: found.queues })
    };
    let mut outcome = queues::evaluate(point, &alone, &joint)?;
    let parts: Vec<Option<Simulation>> = last.into_inner();
    let receptions = outcome.queues.iter().filter(|queue| queue.role == Role::Receive).count();
    let mut latency_ns = empty_histogram();
    for part in parts.iter().take(receptions).flatten() {
        // Both histograms resize themselves, so that every value fits and this cannot fail.
        let _ = latency_ns.add(&part.latency_ns);
    }
    with_quantiles(&mut outcome, &latency_ns);
    let all = || parts.iter().flatten();
    Ok(Simulation {
        latency_ns,
        packets: packets.get(),
        replications: all().map(|part| part.replications).min().unwrap_or(0),
        precise: all().all(|part| part.precise),
        settled: all().all(|part| part.settled),
        outcome,
    })
}

/// Makes the engine for one vector: with its own random streams, and packets in proportion to its share. All vectors
/// then simulate the same length of time, unless one of them needs longer replications.
fn part_of(engine: &SimEngine, number: usize, share: f64) -> SimEngine {
    let seed = engine.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let effort = match engine.effort {
        Effort::Packets(packets) => Effort::Packets((packets as f64 * share).ceil() as u64),
        Effort::Exactly(packets) => Effort::Exactly((packets as f64 * share).ceil() as u64),
        precision @ Effort::Precision { .. } => precision,
    };
    SimEngine { seed, effort, ..engine.clone() }
}

/// Replaces the interpolated quantiles by the quantiles of all queues' packets together. Their relative error is the
/// error of the queue with the largest error.
fn with_quantiles(outcome: &mut Outcome, latency_ns: &Histogram<u64>) {
    let parts: Vec<Latency> = outcome.queues.iter().filter_map(|queue| queue.outcome.as_ref()?.latency_s).collect();
    let Some(latency) = &mut outcome.latency_s else { return };
    if latency_ns.is_empty() {
        return;
    }
    let figure = |share: f64, pick: fn(&Latency) -> Option<Figure>| {
        let value = latency_ns.value_at_quantile(share) as f64 * 1e-9;
        let figures = parts.iter().filter_map(pick);
        let confidence = parts.iter().find_map(|part| Some(pick(part)?.interval?.confidence));
        let half = figures.map(|figure| figure.relative_half_width()).fold(0.0, f64::max) * value;
        confidence.map(|confidence| Figure::between(value, (value - half).max(0.0), value + half, confidence))
    };
    latency.p50 = figure(0.5, |part| part.p50);
    latency.p90 = figure(0.9, |part| part.p90);
    latency.p99 = figure(0.99, |part| part.p99);
    latency.p999 = figure(0.999, |part| part.p999);
    latency.max = Some(Figure::exact(latency_ns.max() as f64 * 1e-9));
    outcome.notes.retain(|note| !matches!(note, Note::Interpolated));
}

/// A [`SimEngine`] whose replications are computed by an [`Executor`].
#[derive(Clone, Copy)]
pub struct SimAt<'a> {
    engine: &'a SimEngine,
    executor: &'a dyn Executor,
}

impl Engine for SimAt<'_> {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.engine.supports(point)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(self.engine.simulate_at(point, self.executor)?.outcome)
    }
}

impl Engine for SimEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Sim
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.supports_at(&point.host, &point.scheme, &point.traffic, Some(point.load))
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(self.simulate(point)?.outcome)
    }
}

#[cfg(test)]
mod tests;
