//! Replications of a shared core, and the results of the core and of each of its queues.

use hdrhistogram::Histogram;
use netcliff_core::{EngineFailure, Outcome, Point};

use crate::batch::Batch;
use crate::clock::Clock;
use crate::engine::{Effort, SimEngine, Simulation};
use crate::length::warm_up;
use crate::machine::Records;
use crate::replicate::{ABREAST, Replication, SHARES, cut, each};
use crate::sample::FIRST_PACKETS;
use crate::summary;
use crate::tally::{Account, Counts, Pool};

/// Results of a simulated core, and of each of its queues.
pub(crate) struct Joint {
    pub core: Simulation,
    pub queues: Vec<Outcome>,
    /// Latencies of the packets of each queue (ns).
    pub latencies_ns: Vec<Histogram<u64>>,
}

/// The replications of the core, and the replications of each queue.
struct Batches {
    core: Batch,
    queues: Vec<Batch>,
}

/// Simulates queues that share a core; `points` are the seed and point of each queue. The points must be supported.
pub(crate) fn simulate(engine: &SimEngine, points: &[(u64, &Point)]) -> Result<Joint, EngineFailure> {
    for (_, point) in points {
        point.validate()?;
        super::supports(&point.host, &point.scheme, &point.traffic)?;
    }
    let (batches, clock) = match engine.effort {
        Effort::Exactly(packets) => run(points, engine.replications(), engine.packets_each(packets)),
        Effort::Packets(packets) => {
            let at_most = engine.longest(points[0].1, packets) * engine.replications();
            longer(engine, points, (engine.packets_each(packets), at_most), |_, _| 1.0)
        }
        Effort::Precision { relative, packets_at_most, figures } => {
            let first = FIRST_PACKETS.min(engine.packets_each(packets_at_most));
            longer(engine, points, (first, packets_at_most), |core, clock| {
                engine.need(points[0].1, core, clock, relative, figures).all
            })
        }
    };
    let point = points[0].1;
    let outcome = |batch: &Batch| summary::outcome(point, batch, clock, engine.confidence);
    let queues = batches.queues.iter().map(outcome).collect();
    let latencies_ns = batches.queues.iter().map(|batch| engine.simulation(point, batch, clock).latency_ns).collect();
    Ok(Joint { queues, latencies_ns, core: engine.simulation(point, &batches.core, clock) })
}

/// Doubles the length of the replications until they are long enough for their results and `need` requires no more
/// packets. Starts at `each` arrivals per replication and stops at `packets_at_most` in total.
fn longer(
    engine: &SimEngine,
    points: &[(u64, &Point)],
    (mut each, packets_at_most): (u64, u64),
    need: impl Fn(&Batch, Clock) -> f64,
) -> (Batches, Clock) {
    let mut spent = 0;
    loop {
        let (batches, clock) = run(points, engine.replications(), each);
        spent += each * engine.replications();
        let enough = need(&batches.core, clock) <= 1.0 && batches.core.short(engine.confidence).is_none();
        if enough || spent + 2 * each * engine.replications() > packets_at_most {
            return (batches, clock);
        }
        each *= 2;
    }
}

/// Runs `replications` replications of `packets_each` arrivals over all queues.
fn run(points: &[(u64, &Point)], replications: u64, packets_each: u64) -> (Batches, Clock) {
    let rate_pps = points.iter().filter_map(|(_, point)| point.rate_pps()).sum();
    let clock = Clock::new(rate_pps, packets_each);
    let mut batches =
        Batches { core: Batch::new(packets_each), queues: points.iter().map(|_| Batch::new(packets_each)).collect() };
    let simulate = |number| super::replicate(points, clock, number, packets_each);
    let early = each(0..replications.min(ABREAST), simulate);
    let marks: Vec<Vec<Counts>> = early.iter().map(|queues| core_marks(queues)).collect();
    let warm_up = warm_up(points[0].1, clock, marks.iter().map(Vec::as_slice));
    let parts = |queues: &[Records]| -> Vec<_> { queues.iter().map(|records| cut(records, warm_up)).collect() };
    let late = each(early.len() as u64..replications, |number| parts(&simulate(number)));
    for parts in early.iter().map(|queues| parts(queues)).chain(late) {
        let mut all = Pool::default();
        parts.iter().for_each(|(_, pool)| all.merge(pool));
        let counts = parts.iter().map(|(part, _)| part.counts).reduce(together).unwrap_or_default();
        batches.core.replications.push(Replication {
            counts,
            sockets: Vec::new(),
            quantiles: all.quantiles(SHARES),
            warm_up,
            ages: parts.iter().fold((0, 0), |ages, (part, _)| (ages.0 + part.ages.0, ages.1 + part.ages.1)),
            excess: None,
        });
        batches.core.pool.merge(&all);
        for (batch, (part, pool)) in batches.queues.iter_mut().zip(parts) {
            batch.replications.push(part);
            batch.pool.merge(&pool);
        }
    }
    (batches, clock)
}

/// Sums the marks of all queues of a core.
fn core_marks(queues: &[Records]) -> Vec<Counts> {
    let mark = |n: usize| queues.iter().map(|records| records.marks[n]).reduce(together).unwrap_or_default();
    (0..queues.first().map_or(0, |records| records.marks.len())).map(mark).collect()
}

/// Adds the counts of two queues on one core. Available and paused time belong to the core and are not added up.
fn together(a: Counts, b: Counts) -> Counts {
    let mut cpu = a.cpu;
    cpu.iter_mut().zip(b.cpu).for_each(|(time, other)| *time += other);
    for of_core in [Account::Available, Account::Paused] {
        cpu[of_core as usize] = a.cpu[of_core as usize];
    }
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
        lost_latency: a.lost_latency + b.lost_latency,
        ring_area: a.ring_area + b.ring_area,
        system_area: a.system_area + b.system_area,
        cpu,
        ..Counts::default()
    }
}
