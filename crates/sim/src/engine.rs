//! [`SimEngine`]: the simulator as an [`Engine`].

use hdrhistogram::Histogram;
use netcliff_core::{Arrivals, Engine, EngineFailure, EngineKind, Outcome, Point, Unsupported};

use crate::clock::Clock;
use crate::replicate::Batch;
use crate::summary;
use crate::{schemes, source};

/// How long to simulate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effort {
    /// So many arrivals, over all replications together.
    Packets(u64),
    /// Until throughput, mean latency and CPU available are known to `relative` half width.
    Precision {
        /// Half width over value.
        relative: f64,
        /// Give up after so many arrivals, and say so.
        packets_at_most: u64,
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

/// Fewest replications.
const REPLICATIONS: u64 = 10;
/// Arrivals of a replication at the start of a sequential run.
pub(crate) const FIRST_PACKETS: u64 = 20_000;
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
    /// False: the precision asked for was not reached.
    pub precise: bool,
    /// False: some replication found no steady state in its first half.
    pub settled: bool,
}

impl SimEngine {
    /// `packets` arrivals under `seed`.
    pub fn with_packets(seed: u64, packets: u64) -> Self {
        Self { seed, effort: Effort::Packets(packets), ..Self::default() }
    }

    /// Simulates a point. Errors: the point is invalid or not supported.
    pub fn simulate(&self, point: &Point) -> Result<Simulation, EngineFailure> {
        point.validate()?;
        self.supports(point)?;
        if point.host.queues.is_some() {
            return crate::multi_queue::simulate(self, point);
        }
        let (batch, clock, precise) = match self.effort {
            Effort::Packets(packets) => self.fixed(point, packets),
            Effort::Precision { relative, packets_at_most } => self.sequential(point, relative, packets_at_most),
        };
        let settled = batch.settled();
        let mut outcome = summary::outcome(point, &batch, clock, self.confidence);
        outcome.notes.splice(0..0, point.warnings());
        outcome.notes.extend(self.notes(point, &batch, settled, precise));
        Ok(Simulation {
            outcome,
            latency_ns: histogram_ns(&batch, clock),
            packets: batch.packets_each * batch.replications.len() as u64,
            replications: batch.replications.len() as u64,
            precise,
            settled,
        })
    }

    /// Refuses a host with several queues, for what shows one CPU.
    pub(crate) fn one_queue(&self, point: &Point) -> Result<(), Unsupported> {
        self.supports(point)?;
        if point.host.queues.is_none() {
            return Ok(());
        }
        let reason =
            "a trace, distributions, a series, a comparison and advice are of one queue and its core: leave queues out";
        Err(Unsupported::new(EngineKind::Sim, reason))
    }

    pub(crate) fn replications(&self) -> u64 {
        self.replications.max(REPLICATIONS)
    }

    fn fixed(&self, point: &Point, packets: u64) -> (Batch, Clock, bool) {
        let each = packets.div_ceil(self.replications()).clamp(100, u64::from(u32::MAX));
        let clock = clock(point, each);
        let mut batch = Batch::new(each);
        batch.extend_to(self.replications(), point, clock, self.seed);
        (batch, clock, true)
    }

    /// Doubles the length until every replication settles, then adds replications until the half widths are reached.
    fn sequential(&self, point: &Point, relative: f64, packets_at_most: u64) -> (Batch, Clock, bool) {
        let mut each = FIRST_PACKETS.min(packets_at_most.div_ceil(self.replications())).max(100);
        let mut spent = 0;
        loop {
            let clock = clock(point, each);
            let mut batch = Batch::new(each);
            let mut count = self.replications();
            loop {
                batch.extend_to(count, point, clock, self.seed);
                let total = spent + each * count;
                let worst = summary::worst_half_width(&batch, clock, self.confidence);
                let goal = relative / (1.0 + relative);
                let longer = !batch.settled() && total + 2 * each * self.replications() <= packets_at_most;
                if longer {
                    spent = total;
                    break;
                }
                if worst <= goal {
                    return (batch, clock, true);
                }
                let wanted = (count as f64 * (worst / goal).powi(2) * 1.1).ceil() as u64;
                let next = wanted.clamp(count + 1, 2 * count);
                if total + each * (next - count) > packets_at_most {
                    return (batch, clock, false);
                }
                count = next;
            }
            each *= 2;
        }
    }

    pub(crate) fn notes(&self, point: &Point, batch: &Batch, settled: bool, precise: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if is_heavy_tailed(&point.traffic.arrivals) {
            notes.push(
                "heavy-tailed traffic: means converge too slowly for their intervals to be believed; read quantiles, and \
                 the load that was really offered"
                    .to_owned(),
            );
        }
        if let Some(packets) = captured(&point.traffic.arrivals) {
            let mut note = format!(
                "a trace of {packets} packets, read around from different places: the intervals tell how much its parts \
                 differ, not how another recording would"
            );
            if batch.packets_each > packets as u64 {
                note +=
                    &format!("; each replication goes around {:.1} times", batch.packets_each as f64 / packets as f64);
            }
            notes.push(note);
        }
        if !settled {
            let unsettled = batch.replications.iter().filter(|replication| !replication.settled).count();
            notes.push(format!(
                "{unsettled} of {} replications of {} packets found no steady state in their first half: simulate more packets",
                batch.replications.len(),
                batch.packets_each,
            ));
        }
        if !precise {
            notes.push(
                "the precision asked for was not reached within the packets allowed; the intervals say what was"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Packets of the capture that arrivals are taken from.
fn captured(arrivals: &Arrivals) -> Option<usize> {
    match arrivals {
        Arrivals::Trace { capture, .. } => Some(capture.as_ref()?.packets.len()),
        Arrivals::Thinned { of, .. } => captured(of),
        _ => None,
    }
}

fn is_heavy_tailed(arrivals: &Arrivals) -> bool {
    match arrivals {
        Arrivals::OnOff(_) => true,
        Arrivals::Thinned { of, .. } => is_heavy_tailed(of),
        _ => false,
    }
}

/// The clock of a replication of `packets` arrivals.
pub(crate) fn clock(point: &Point, packets: u64) -> Clock {
    Clock::new(point.traffic.rate_pps().unwrap_or(1.0), packets)
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

    fn evaluate(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(self.simulate(point)?.outcome)
    }
}
