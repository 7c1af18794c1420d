//! [`evaluate`]: computes a host with several queues as several hosts with one queue, each with its share of the load
//! and with the costs on its core.
//!
//! A packet's flow, and so its queue, is random, so that each queue gets an independently thinned stream. Queues
//! influence each other only on SMT siblings, which slow each other by their mean busy shares; this is a fixed point,
//! and correlation of their busy times is neglected. Transmit completions on another core are assumed to be a Poisson
//! stream at the rate that their queue forwards. The engine computes queues that share a core together.

use super::apart::completions;
use super::total::{Core, total};
use super::{Map, QueueOutcome, Queues, Role};
use crate::engine::{EngineFailure, Point};
use crate::host::Host;
use crate::outcome::Outcome;
use crate::traffic::{Arrivals, Load, Traffic};

/// Most rounds of the fixed point; by then a sibling's busy share is known much better than [`SETTLED`].
const ROUNDS: usize = 30;
/// The rounds end when no busy share changes by more than this.
const SETTLED: f64 = 1e-4;
/// Number of rounds on shared cores after which the forwarding rates are damped.
const DIRECT: usize = 3;
/// The rounds on shared cores end when no queue's forwarding rate changes by more than this share of the offered rate,
/// which is below the error of a simulation.
const SETTLED_SHARE: f64 = 1e-3;

/// An interrupt vector: the work of one core for one queue.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Vector {
    queue: usize,
    role: Role,
    core: u32,
    /// Index of the SMT sibling's vector.
    sibling: Option<usize>,
    /// Factor of protocol and transmit times, for cold caches or a remote node.
    memory: f64,
}

/// Calls an engine for a host with one queue, with the index of the vector and its point.
type Answer<'a> = &'a dyn Fn(usize, &Point) -> Result<Outcome, EngineFailure>;

/// Outcomes of a core that works for several queues, and of each queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// Outcome of all its queues together.
    pub core: Outcome,
    /// Outcome of each queue, in the order of the points; its available CPU is the available CPU of the core.
    pub queues: Vec<Outcome>,
}

/// Calls an engine for queues that share a core, with (index of the vector, its point as if it had the core alone).
type Joint<'a> = &'a dyn Fn(&[(usize, Point)]) -> Result<Together, EngineFailure>;

/// Computes the host's outcome at `point`. Without [`Host::queues`] it is the outcome of `answer`. `answer` evaluates a
/// queue that has its core alone, and is called for each such vector in each round of the fixed point. `joint`
/// evaluates the queues of a shared core. Returns the errors of `answer` and `joint`.
pub fn evaluate(point: &Point, answer: Answer<'_>, joint: Joint<'_>) -> Result<Outcome, EngineFailure> {
    let Some(queues) = &point.host.queues else { return answer(0, point) };
    let (vectors, shares) = (vectors(queues), shares(&point.host, &point.traffic));
    if queues.share_cores() {
        return on_shared_cores(point, queues, &vectors, &shares, answer, joint);
    }
    let mut busy = vec![0.0; vectors.len()];
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        found = round(point, queues, &vectors, &shares, &busy, answer)?;
        let now: Vec<f64> = found.iter().map(busy_share).collect();
        let change = now.iter().zip(&busy).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let coupled = queues.smt > 1.0 && vectors.iter().any(|vector| vector.sibling.is_some());
        busy = now;
        if !coupled || change < SETTLED {
            break;
        }
    }
    let cores: Vec<Core> = found.iter().map(Core::of).collect();
    Ok(total(point, queues, &cores, &cores, found))
}

/// Computes queues on shared cores. The completions on a core come from queues of another core, so that the forwarding
/// rates are a fixed point; if no queue completes on another core, one round suffices.
fn on_shared_cores(
    point: &Point,
    queues: &Queues,
    vectors: &[Vector],
    shares: &[f64],
    answer: Answer<'_>,
    joint: Joint<'_>,
) -> Result<Outcome, EngineFailure> {
    let apart = vectors.iter().any(|vector| vector.role == Role::Transmit);
    let offered_pps = point.rate_pps().unwrap_or(0.0);
    let mut forwarded: Vec<f64> = shares.iter().map(|share| share * offered_pps).collect();
    for round in 0.. {
        let (cores, found) = round_on_shared_cores(point, queues, vectors, shares, &forwarded, answer, joint)?;
        if !apart {
            return Ok(total(point, queues, &cores, &cores, found));
        }
        let mut change: f64 = 0.0;
        for queue in found.iter().filter(|queue| queue.role == Role::Receive) {
            let lost = queue.outcome.as_ref().and_then(|outcome| outcome.loss_fraction).map_or(0.0, |loss| loss.value);
            let (now, then) = (queue.share * offered_pps * (1.0 - lost), &mut forwarded[queue.queue as usize]);
            change = change.max((now - *then).abs());
            // After the first rounds damped by one half, because rates may oscillate: a queue that loses less gives
            // more completions to another core, whose queue then loses more.
            *then = if round < DIRECT { now } else { 0.5 * (*then + now) };
        }
        if change <= SETTLED_SHARE * offered_pps || round == ROUNDS {
            let vectors: Vec<Core> = found.iter().map(Core::of).collect();
            return Ok(total(point, queues, &cores, &vectors, found));
        }
    }
    unreachable!("the rounds end")
}

/// Computes the outcomes of each core and of each vector for given forwarding rates of the queues (packets/s).
fn round_on_shared_cores(
    point: &Point,
    queues: &Queues,
    vectors: &[Vector],
    shares: &[f64],
    forwarded: &[f64],
    answer: Answer<'_>,
    joint: Joint<'_>,
) -> Result<(Vec<Core>, Vec<QueueOutcome>), EngineFailure> {
    let mut found: Vec<QueueOutcome> = vectors.iter().map(|vector| vector.found(shares, None)).collect();
    let mut cores = Vec::new();
    for number in queues.used_cores() {
        let own = || vectors.iter().enumerate().filter(|(_, vector)| vector.core == number);
        let part = |vector: &Vector| match vector.role {
            Role::Receive => receive(point, queues, vector, shares[vector.queue], 1.0),
            Role::Transmit => transmit(point, queues, vector, forwarded[vector.queue], 1.0),
        };
        let parts: Vec<(usize, Point)> = own().filter_map(|(n, vector)| Some((n, part(vector)?))).collect();
        let outcome = match parts.as_slice() {
            [] => None,
            [(n, part)] => {
                let outcome = answer(*n, part)?;
                found[*n].outcome = Some(outcome.clone());
                Some(outcome)
            }
            parts => {
                let together = joint(parts)?;
                parts.iter().zip(together.queues).for_each(|((n, _), outcome)| found[*n].outcome = Some(outcome));
                Some(together.core)
            }
        };
        let receives = own().filter(|(_, vector)| vector.role == Role::Receive);
        let share = receives.map(|(_, vector)| shares[vector.queue]).sum();
        cores.push(Core { role: Role::Receive, share, outcome });
    }
    Ok((cores, found))
}

impl Vector {
    fn found(&self, shares: &[f64], outcome: Option<Outcome>) -> QueueOutcome {
        QueueOutcome { queue: self.queue as u32, role: self.role, core: self.core, share: shares[self.queue], outcome }
    }
}

fn busy_share(queue: &QueueOutcome) -> f64 {
    let Some(cpu) = queue.outcome.as_ref().and_then(|outcome| outcome.cpu) else { return 0.0 };
    let paused = cpu.paused.map_or(0.0, |paused| paused.value);
    cpu.available.map_or(0.0, |available| (1.0 - available.value - paused).clamp(0.0, 1.0))
}

/// Outcome of each vector if the siblings' busy shares are `busy`.
fn round(
    point: &Point,
    queues: &Queues,
    vectors: &[Vector],
    shares: &[f64],
    busy: &[f64],
    answer: Answer<'_>,
) -> Result<Vec<QueueOutcome>, EngineFailure> {
    let mut found: Vec<QueueOutcome> = Vec::new();
    for (number, vector) in vectors.iter().enumerate() {
        let share = shares[vector.queue];
        let slowed = vector.sibling.map_or(1.0, |sibling| 1.0 + (queues.smt - 1.0) * busy[sibling]);
        let part = match vector.role {
            Role::Receive => receive(point, queues, vector, share, slowed),
            Role::Transmit => {
                let received = found.iter().find(|one| one.queue == vector.queue as u32);
                let forwarded = received.and_then(|one| one.outcome.as_ref()?.throughput_pps);
                forwarded.and_then(|rate| transmit(point, queues, vector, rate.value, slowed))
            }
        };
        let outcome = part.map(|part| answer(number, &part)).transpose()?;
        found.push(vector.found(shares, outcome));
    }
    Ok(found)
}

/// Returns the busiest queue of `host` as a host with one queue, its traffic, and its share of the load. Engines decide
/// by it whether they support the host. For a host without queues: the host itself, with share 1.
pub fn busiest(host: &Host, traffic: &Traffic) -> (Host, Traffic, f64) {
    let heaviest = host.queues.as_ref().and_then(|queues| {
        let shares = shares(host, traffic);
        let receive = vectors(queues).into_iter().filter(|vector| vector.role == Role::Receive);
        let vector = receive.max_by(|a, b| shares[a.queue].total_cmp(&shares[b.queue]))?;
        let share = shares[vector.queue];
        let (host, traffic) = received(host, traffic, queues, &vector, share);
        Some((host, traffic, share))
    });
    heaviest.unwrap_or_else(|| (Host { queues: None, ..host.clone() }, traffic.clone(), 1.0))
}

/// The vectors: all receptions, then all transmit completions.
fn vectors(queues: &Queues) -> Vec<Vector> {
    let count = queues.count as usize;
    let apart = queues.transmit_s.is_some() && queues.map != Map::Pairing;
    let node = |core: u32| u64::from(core) * u64::from(queues.nodes) / u64::from(queues.cores());
    let cold = if queues.map == Map::Spread { queues.cold } else { 1.0 };
    let completes_on = match queues.on.is_empty() {
        true => (count..2 * count).map(|core| core as u32).collect(),
        false => completions(&queues.used_cores(), &queues.on, count, |core| core),
    };
    let vector = |queue: usize, role: Role| {
        let core = match (queues.map, role) {
            (Map::Spread, Role::Transmit) => completes_on[queue],
            _ => queues.on.get(queue).copied().unwrap_or(queue as u32),
        };
        let sibling = match (queues.map, role) {
            (Map::Smt, Role::Receive) if apart => Some(count + queue),
            (Map::Smt, Role::Transmit) => Some(queue),
            // Without transmit completions, queues 2n and 2n + 1 are siblings.
            (Map::Smt, Role::Receive) => Some(queue ^ 1).filter(|other| *other < count),
            _ => None,
        };
        let remote = if node(core) > 0 { queues.remote } else { 1.0 };
        Vector { queue, role, core, sibling, memory: cold * remote }
    };
    let receive = (0..count).map(|queue| vector(queue, Role::Receive));
    let transmit = (0..count).filter(|_| apart).map(|queue| vector(queue, Role::Transmit));
    receive.chain(transmit).collect()
}

/// Point of a receive vector; `None` if the queue gets no packets, or the rate is unknown.
fn receive(point: &Point, queues: &Queues, vector: &Vector, share: f64, slowed: f64) -> Option<Point> {
    let rate_pps = point.rate_pps()? * share;
    if rate_pps <= 0.0 {
        return None;
    }
    let (host, traffic) = received(&point.host, &point.traffic, queues, vector, share);
    let load = Load::Pps(rate_pps);
    Some(Point { host: slower(host, slowed), scheme: point.scheme.clone(), traffic, load })
}

/// Returns host and traffic for a receive vector that gets `share` of the packets.
fn received(host: &Host, traffic: &Traffic, queues: &Queues, vector: &Vector, share: f64) -> (Host, Traffic) {
    let paired = queues.transmit_s.filter(|_| queues.map == Map::Pairing).unwrap_or(0.0);
    let host = Host { queues: None, ..host.clone() }.with_more_protocol(paired, vector.memory);
    (host, Traffic { arrivals: traffic.arrivals.thinned(share), flows: None, ..traffic.clone() })
}

/// Point of a vector whose interrupts report transmit completions, for packets that its queue forwards at `rate_pps`.
/// `None` if the rate is 0 or the host has no `transmit_s`.
fn transmit(point: &Point, queues: &Queues, vector: &Vector, rate_pps: f64, slowed: f64) -> Option<Point> {
    let transmit_s = queues.transmit_s.filter(|_| rate_pps > 0.0)?;
    let host = Host { application_s: None, queues: None, ..point.host.clone() };
    let host = host.with_fixed_protocol(transmit_s * vector.memory);
    let traffic = Traffic { arrivals: Arrivals::Poisson, flows: None, ..point.traffic.clone() };
    let load = Load::Pps(rate_pps);
    Some(Point { host: slower(host, slowed), scheme: point.scheme.clone(), traffic, load })
}

/// The host with the CPU times that grow on a shared core multiplied by `factor` (`grows_on_shared_core` of the key).
fn slower(mut host: Host, factor: f64) -> Host {
    host.scale_times(|role| role.grows_on_shared_core.then_some(factor));
    host
}

/// Share of the offered packets for each queue of `host`: as given, or by the traffic's flows, or by the indirection
/// table alone. Empty for a host with one queue.
pub fn shares(host: &Host, traffic: &Traffic) -> Vec<f64> {
    let Some(queues) = &host.queues else { return Vec::new() };
    if !queues.shares.is_empty() {
        return queues.shares.clone();
    }
    let table = super::rss::Table::new(&queues.table, queues.count);
    match &traffic.flows {
        Some(flows) => flows.shares(&table),
        None => table.shares(),
    }
}
