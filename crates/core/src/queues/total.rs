//! The host's outcome, from the outcomes of its vectors and cores.

use crate::math;
use serde::{Deserialize, Serialize};

use super::Queues;
use crate::engine::Point;
use crate::note::Note;
use crate::outcome::{CpuShares, Figure, Interval, Latency, Loss, Outcome, packets_per_poll};

/// Work of an interrupt vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reception; with [`super::Map::Pairing`] also transmit completions.
    Receive,
    /// Transmit completions.
    Transmit,
}

/// Outcome of one interrupt vector: the work of one core for one queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueOutcome {
    /// The queue, from 0.
    pub queue: u32,
    /// The work it does.
    pub role: Role,
    /// Number of the vector's core, from 0; an SMT sibling has the number of its physical core.
    pub core: u32,
    /// Share of the offered packets (0 to 1).
    pub share: f64,
    /// Outcome of its core; None if it gets no packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Outcome of a core, and its role.
#[derive(Debug, Clone)]
pub(super) struct Core {
    pub role: Role,
    /// Share of the offered packets (0 to 1).
    pub share: f64,
    /// Its outcome; None if it is idle.
    pub outcome: Option<Outcome>,
}

impl Core {
    /// The core of a vector that shares its core with no other vector.
    pub(super) fn of(vector: &QueueOutcome) -> Self {
        Self { role: vector.role, share: vector.share, outcome: vector.outcome.clone() }
    }
}

/// Largest share of a queue divided by the mean share; None without queues.
pub fn imbalance(vectors: &[QueueOutcome]) -> Option<f64> {
    let shares = || vectors.iter().filter(|vector| vector.role == Role::Receive).map(|vector| vector.share);
    let most = shares().reduce(f64::max)?;
    Some(most * shares().count() as f64 / shares().sum::<f64>())
}

/// The vector that overloads first: its core has the least available CPU; among vectors with equal available CPU, it
/// loses the largest share of its packets. None if no core's CPU shares are known.
pub fn binding(vectors: &[QueueOutcome]) -> Option<&QueueOutcome> {
    let known = vectors.iter().filter_map(|vector| {
        let outcome = vector.outcome.as_ref()?;
        let lost = outcome.loss_fraction.map_or(0.0, |loss| loss.value);
        Some((outcome.cpu?.available?.value, -lost, vector))
    });
    known.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, _, vector)| vector)
}

/// The host's outcome. Rates are summed; loss is weighted by the offered share; latency is for delivered packets, to
/// the end of reception; CPU is the mean share over the cores that work for a vector (an idle core is available except
/// in its pauses). Quantiles of latency are interpolated between the quantiles of the cores, in the logarithm of the
/// tail, unless all are equal. Intervals assume independent cores. Rates, loss and latency are taken from `flows`: the
/// cores, or the vectors if a core receives for some queues and completes for others.
pub(super) fn total(
    point: &Point,
    queues: &Queues,
    cores: &[Core],
    flows: &[Core],
    parts: Vec<QueueOutcome>,
) -> Outcome {
    let of = |role: Role| -> Vec<(f64, &Outcome)> {
        let own = flows.iter().filter(|core| core.role == role);
        own.filter_map(|core| Some((core.share, core.outcome.as_ref()?))).collect()
    };
    let (received, transmitted) = (of(Role::Receive), of(Role::Transmit));
    let by_role =
        |role: Role| cores.iter().filter(move |core| core.role == role).filter_map(|core| core.outcome.as_ref());
    let all: Vec<&Outcome> = by_role(Role::Receive).chain(by_role(Role::Transmit)).collect();
    let sum = |pick: &dyn Fn(&Outcome) -> Option<Figure>| weighted(all.iter().map(|outcome| (1.0, pick(outcome))));
    // A packet has left the host once its transmission is completed.
    let leaving: Vec<&Outcome> =
        if transmitted.is_empty() { &received } else { &transmitted }.iter().map(|(_, outcome)| *outcome).collect();
    let throughput_pps = weighted(leaving.iter().map(|outcome| (1.0, outcome.throughput_pps)));
    let lost = |pick: &dyn Fn(&Outcome) -> Option<Figure>| {
        weighted(received.iter().map(|(share, outcome)| (*share, pick(outcome))))
    };
    let loss = |pick: fn(&Loss) -> Option<Figure>| lost(&|outcome| outcome.loss.as_ref().and_then(pick));
    let count = cores.len() as f64;
    let idle = count - all.len() as f64;
    let taken = point.host.pauses().map_or(0.0, |pauses| pauses.share());
    let cpu = |pick: fn(&CpuShares) -> Option<Figure>, idle: f64| {
        let busy = sum(&|outcome| outcome.cpu.as_ref().and_then(pick))?;
        Some(shifted(busy, idle).scaled(1.0 / count))
    };
    let offered: f64 = received.iter().filter_map(|(_, outcome)| outcome.offered_pps).map(|figure| figure.value).sum();
    let mut outcome = Outcome {
        offered_pps: weighted(received.iter().map(|(_, outcome)| (1.0, outcome.offered_pps))).filter(|_| offered > 0.0),
        throughput_pps,
        goodput_bps: weighted(received.iter().map(|(_, outcome)| (1.0, outcome.goodput_bps))),
        loss_fraction: lost(&|outcome| outcome.loss_fraction),
        loss: Some(Loss { ring: loss(|l| l.ring), socket: loss(|l| l.socket), sender: loss(|l| l.sender) }),
        latency_s: Some(latency(&received)),
        latency_to: received.first().and_then(|(_, outcome)| outcome.latency_to.clone()),
        cpu: Some(CpuShares {
            interrupt: cpu(|c| c.interrupt, 0.0),
            poll: cpu(|c| c.poll, 0.0),
            protocol: cpu(|c| c.protocol, 0.0),
            application: cpu(|c| c.application, 0.0),
            paused: cpu(|c| c.paused, idle * taken),
            available: cpu(|c| c.available, idle * (1.0 - taken)),
        }),
        cpu_method: method(&all),
        interrupts_per_s: sum(&|o| o.interrupts_per_s),
        polls_per_s: sum(&|o| o.polls_per_s),
        packets_in_system: weighted(received.iter().map(|(_, outcome)| (1.0, outcome.packets_in_system))),
        precision: None,
        notes: notes(queues, cores.len(), &all, &parts),
        ..Outcome::default()
    };
    let served = sum(&|o| o.throughput_pps).zip(outcome.polls_per_s);
    outcome.packets_per_poll = served.and_then(|(served, polls)| packets_per_poll(served.value, polls.value));
    if received.iter().any(|(share, _)| *share != received[0].0) {
        outcome.notes.push(Note::Interpolated);
    }
    outcome.queues = parts;
    outcome
}

/// How the CPU shares were obtained: the least exact method of the parts.
fn method(parts: &[&Outcome]) -> Option<String> {
    let methods = || parts.iter().filter_map(|outcome| outcome.cpu_method.as_ref());
    methods().find(|method| *method == "approximate").or_else(|| methods().next()).cloned()
}

fn notes(queues: &Queues, cores: usize, all: &[&Outcome], parts: &[QueueOutcome]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for note in all.iter().flat_map(|outcome| &outcome.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes.push(Note::Queues(queues.count, cores));
    if let (Some(binding), Some(imbalance)) = (binding(parts), imbalance(parts)) {
        notes.push(Note::Binding(binding.core, binding.role, binding.queue, imbalance));
    }
    notes
}

/// Weighted sum of figures of independent parts. None if a figure is absent or there are no parts.
fn weighted(parts: impl Iterator<Item = (f64, Option<Figure>)>) -> Option<Figure> {
    let parts: Option<Vec<(f64, Figure)>> = parts.map(|(weight, figure)| Some((weight, figure?))).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    let value = parts.iter().map(|(weight, figure)| weight * figure.value).sum();
    let intervals: Option<Vec<(f64, f64, Interval)>> =
        parts.iter().map(|(weight, figure)| Some((*weight, figure.value, figure.interval?))).collect();
    let Some(intervals) = intervals else { return Some(Figure::exact(value)) };
    let reach = |end: &dyn Fn(&Interval) -> f64| {
        intervals.iter().map(|(weight, value, interval)| (weight * (end(interval) - value)).powi(2)).sum::<f64>().sqrt()
    };
    let (down, up) = (reach(&|interval| interval.low), reach(&|interval| interval.high));
    Some(Figure::between(value, (value - down).max(0.0), value + up, intervals[0].2.confidence))
}

fn shifted(figure: Figure, by: f64) -> Figure {
    let interval = figure.interval.map(|ends| Interval { low: ends.low + by, high: ends.high + by, ..ends });
    Figure { value: figure.value + by, interval }
}

fn latency(busy: &[(f64, &Outcome)]) -> Latency {
    let parts: Option<Vec<(f64, Latency)>> =
        busy.iter().map(|(_, outcome)| Some((outcome.throughput_pps?.value, outcome.latency_s?))).collect();
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { return Latency::default() };
    let delivered: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let over = |pick: fn(&Latency) -> Option<Figure>| {
        weighted(parts.iter().map(|(weight, part)| (weight / delivered, pick(part))))
    };
    let tails: Option<Vec<(f64, Tail)>> =
        parts.iter().map(|(weight, part)| Some((weight / delivered, Tail::of(part)?))).collect();
    let at = |share: f64| tails.as_ref().map(|tails| Figure::exact(quantile(tails, share)));
    Latency {
        mean: over(|part| part.mean),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: None,
        done_mean: over(|part| part.done_mean),
    }
}

/// Tail of a latency distribution through four quantiles: ln P(T > t) is linear between them.
struct Tail {
    /// (time (s), ln P(T > time)), by rising time.
    knots: [(f64, f64); 5],
}

impl Tail {
    fn of(latency: &Latency) -> Option<Self> {
        let knot = |figure: Option<Figure>, share: f64| Some((figure?.value, math::ln(1.0 - share)));
        Some(Self {
            knots: [
                (0.0, 0.0),
                knot(latency.p50, 0.5)?,
                knot(latency.p90, 0.9)?,
                knot(latency.p99, 0.99)?,
                knot(latency.p999, 0.999)?,
            ],
        })
    }

    /// Returns P(T > t) for the latency T; beyond the last quantile it is extrapolated with the slope of the last
    /// section.
    fn above(&self, t: f64) -> f64 {
        let after = self.knots[1..4].iter().position(|(time, _)| *time >= t).unwrap_or(3);
        let ((t0, y0), (t1, y1)) = (self.knots[after], self.knots[after + 1]);
        let slope = if t1 > t0 { (y1 - y0) / (t1 - t0) } else { f64::NEG_INFINITY };
        let rise = if t == t0 { 0.0 } else { slope * (t - t0) };
        math::exp(y0 + rise)
    }
}

/// Quantile `share` of the mixture: bisects for the time (s) with P(T > time) = 1 - `share`, between the smallest and
/// the largest quantile of the parts.
fn quantile(tails: &[(f64, Tail)], share: f64) -> f64 {
    let of = |tail: &Tail| {
        let place = tail.knots.iter().position(|(_, y)| (y - math::ln(1.0 - share)).abs() < 1e-12).unwrap_or(4);
        tail.knots[place].0
    };
    let mut low = tails.iter().map(|(_, tail)| of(tail)).fold(f64::INFINITY, f64::min);
    let mut high = tails.iter().map(|(_, tail)| of(tail)).fold(0.0, f64::max);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        let above: f64 = tails.iter().map(|(weight, tail)| weight * tail.above(middle)).sum();
        if above > 1.0 - share {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-12 * high {
            break;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponential parts: their tails are straight lines, so that interpolation is exact.
    #[test]
    fn a_mixture_of_exponentials() {
        let tail = |mean: f64| Tail {
            knots: [0.0, 0.5, 0.9, 0.99, 0.999]
                .map(|share: f64| (-mean * math::ln(1.0 - share), math::ln(1.0 - share))),
        };
        let found = quantile(&[(0.3, tail(1.0)), (0.7, tail(4.0))], 0.99);
        let above = 0.3 * math::exp(-found) + 0.7 * math::exp(-found / 4.0);
        assert!((above - 0.01).abs() < 1e-10, "{found} {above}");
    }

    #[test]
    fn a_sum_has_the_width_of_independent_parts() {
        let parts = [(1.0, Some(Figure::sampled(3.0, 0.3, 0.95))), (2.0, Some(Figure::sampled(1.0, 0.2, 0.95)))];
        let sum = weighted(parts.into_iter()).unwrap();
        assert!((sum.value - 5.0).abs() < 1e-12 && (sum.interval.unwrap().high - 5.5).abs() < 1e-12);
        assert_eq!(weighted([(1.0, None)].into_iter()), None);
    }
}
