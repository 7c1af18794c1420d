//! Replications of a shared core, and the figures of the core and of each of its queues.

use netcliff_core::{EngineFailure, Outcome, Point};

use crate::clock::Clock;
use crate::engine::{Effort, FIRST_PACKETS, SimEngine, Simulation, histogram_ns};
use crate::machine::Records;
use crate::replicate::{Batch, Replication, SHARES, cut_at, each, warm_up};
use crate::summary;
use crate::tally::{Account, Counts, Pool};

/// A simulated core, and what each of its queues did.
pub(crate) struct Joint {
    pub core: Simulation,
    pub queues: Vec<Outcome>,
}

/// The core's replications, and each queue's.
struct Batches {
    core: Batch,
    queues: Vec<Batch>,
}

/// Simulates queues that share a core: (seed, point) of each. The points must be supported.
pub(crate) fn simulate(engine: &SimEngine, points: &[(u64, &Point)]) -> Result<Joint, EngineFailure> {
    for (_, point) in points {
        point.validate()?;
        super::supports(point)?;
    }
    let (batches, clock, precise) = match engine.effort {
        Effort::Packets(packets) => {
            let (batches, clock) = run(points, engine.replications(), packets.div_ceil(engine.replications()));
            (batches, clock, true)
        }
        Effort::Precision { relative, packets_at_most } => longer(engine, points, relative, packets_at_most),
    };
    let point = points[0].1;
    let outcome = |batch: &Batch| summary::outcome(point, batch, clock, engine.confidence);
    let settled = batches.core.settled();
    let mut together = outcome(&batches.core);
    together.notes.extend(point.warnings());
    together.notes.extend(engine.notes(point, &batches.core, settled, precise));
    Ok(Joint {
        queues: batches.queues.iter().map(outcome).collect(),
        core: Simulation {
            outcome: together,
            latency_ns: histogram_ns(&batches.core, clock),
            packets: batches.core.packets_each * batches.core.replications.len() as u64,
            replications: batches.core.replications.len() as u64,
            precise,
            settled,
        },
    })
}

/// Doubles the length of the replications until they settle and the core's half widths are reached.
fn longer(engine: &SimEngine, points: &[(u64, &Point)], relative: f64, packets_at_most: u64) -> (Batches, Clock, bool) {
    let mut each = FIRST_PACKETS.min(packets_at_most.div_ceil(engine.replications()));
    let mut spent = 0;
    loop {
        let (batches, clock) = run(points, engine.replications(), each);
        spent += each * engine.replications();
        let worst = summary::worst_half_width(&batches.core, clock, engine.confidence);
        let precise = worst <= relative / (1.0 + relative);
        let enough = precise && batches.core.settled();
        if enough || spent + 2 * each * engine.replications() > packets_at_most {
            return (batches, clock, precise);
        }
        each *= 2;
    }
}

/// So many replications of `packets_each` arrivals over all queues.
fn run(points: &[(u64, &Point)], replications: u64, packets_each: u64) -> (Batches, Clock) {
    let packets_each = packets_each.clamp(100, u64::from(u32::MAX));
    let rate_pps = points.iter().filter_map(|(_, point)| point.traffic.rate_pps()).sum();
    let clock = Clock::new(rate_pps, packets_each);
    let mut batches =
        Batches { core: Batch::new(packets_each), queues: points.iter().map(|_| Batch::new(packets_each)).collect() };
    for parts in each(0..replications, |n| cut(&super::replicate(points, clock, n, packets_each))) {
        let mut all = Pool::new();
        parts.iter().for_each(|(_, pool)| all.merge(pool));
        let counts = parts.iter().map(|(part, _)| part.counts).reduce(together).unwrap_or_default();
        let (warm_tenths, settled) = parts.first().map_or((0, true), |(part, _)| (part.warm_tenths, part.settled));
        batches.core.replications.push(Replication { counts, quantiles: all.quantiles(SHARES), warm_tenths, settled });
        batches.core.pool.merge(&all);
        for (batch, (part, pool)) in batches.queues.iter_mut().zip(parts) {
            batch.replications.push(part);
            batch.pool.merge(&pool);
        }
    }
    (batches, clock)
}

/// Cuts the warm-up off, as long for all queues: it is the core's.
fn cut(queues: &[Records]) -> Vec<(Replication, Pool)> {
    let mark = |n: usize| queues.iter().map(|records| records.marks[n]).reduce(together).unwrap_or_default();
    let marks: Vec<Counts> = (0..queues.first().map_or(0, |records| records.marks.len())).map(mark).collect();
    let found = warm_up(&marks);
    queues.iter().map(|records| cut_at(records, found)).collect()
}

/// Two queues on one core as one. What the core has left is the same for both.
fn together(a: Counts, b: Counts) -> Counts {
    let mut cpu = a.cpu;
    cpu.iter_mut().zip(b.cpu).for_each(|(time, other)| *time += other);
    cpu[Account::Available as usize] = a.cpu[Account::Available as usize];
    Counts {
        at: a.at,
        offered: a.offered + b.offered,
        delivered: a.delivered + b.delivered,
        delivered_bytes: a.delivered_bytes + b.delivered_bytes,
        dropped_ring: a.dropped_ring + b.dropped_ring,
        dropped_socket: a.dropped_socket + b.dropped_socket,
        inside_ring: a.inside_ring + b.inside_ring,
        inside_socket: a.inside_socket + b.inside_socket,
        interrupts: a.interrupts + b.interrupts,
        polls: a.polls + b.polls,
        processed: a.processed + b.processed,
        processed_latency: a.processed_latency + b.processed_latency,
        latency: a.latency + b.latency,
        ring_area: a.ring_area + b.ring_area,
        system_area: a.system_area + b.system_area,
        cpu,
        ..Counts::default()
    }
}
