//! A host with several queues: each vector is simulated on a stream of its own, with a number of packets proportional
//! to its share. Queues that share a core are simulated together.

use std::cell::{Cell, RefCell};

use hdrhistogram::Histogram;
use netcliff_core::note::Note;
use netcliff_core::queues::{self, Role, Together};
use netcliff_core::{EngineFailure, Figure, Latency, Outcome, Point};

use crate::engine::{Effort, SimEngine, Simulation, empty_histogram};
use crate::shared;

/// Simulates every vector of a host with queues. The point must be supported.
pub(crate) fn simulate(engine: &SimEngine, point: &Point) -> Result<Simulation, EngineFailure> {
    let whole_pps = point.traffic.rate_pps().unwrap_or(1.0);
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
    let share = |part: &Point| part.traffic.rate_pps().unwrap_or(1.0) / whole_pps;
    let alone = |number: usize, part: &Point| Ok(keep(number, part_of(engine, number, share(part)).simulate(part)?));
    let joint = |parts: &[(usize, Point)]| {
        let all = parts.iter().map(|(_, part)| share(part)).sum();
        let seeded: Vec<(u64, &Point)> = parts.iter().map(|(n, part)| (part_of(engine, *n, 1.0).seed, part)).collect();
        let mut found = shared::simulate(&part_of(engine, parts[0].0, all), &seeded)?;
        if parts.iter().any(|(number, _)| *number >= receive_queues) {
            found.core.latency_ns = empty_histogram();
            let receptions = parts.iter().zip(&found.latencies_ns).filter(|((number, _), _)| *number < receive_queues);
            for (_, latency_ns) in receptions {
                // It resizes itself, so that every value fits.
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
        // Both histograms resize themselves, so that every value fits.
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

/// The engine for one vector: other streams, and packets in proportion to its share, so that all vectors have the same
/// length of time unless one needs longer replications.
fn part_of(engine: &SimEngine, number: usize, share: f64) -> SimEngine {
    let seed = engine.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let effort = match engine.effort {
        Effort::Packets(packets) => Effort::Packets((packets as f64 * share).ceil() as u64),
        Effort::Exactly(packets) => Effort::Exactly((packets as f64 * share).ceil() as u64),
        precision @ Effort::Precision { .. } => precision,
    };
    SimEngine { seed, effort, ..engine.clone() }
}

/// Replaces the interpolated quantiles by those of all packets together; they are as uncertain as those of the most
/// uncertain queue.
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

#[cfg(test)]
mod tests;
