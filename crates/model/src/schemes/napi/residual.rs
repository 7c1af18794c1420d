//! Computes how much of the NIC's minimum gap is left when the poll after an interrupt has emptied the ring.
//!
//! The gap begins with the interrupt. From each number of packets at the interrupt, the chain of delivery, ISR,
//! overheads and services is computed backwards from the unmasking, in events of one rate and for all numbers at once.
//! A time of n events is Erlang. It is put on a grid: each part is divided between its two neighbours, which preserves
//! the mean and adds a sixth of the squared step to the variance. The remaining gap at the end of cycles is then a
//! Markov chain.

use super::announce::{Gathered, Nic};
use super::{Work, counted};
use crate::queue::matrix::Matrix;
use crate::queue::uniform::{furthest, poisson};

/// Minimum number of steps of the grid. Steps are about half an interarrival time long.
const FEWEST_STEPS: f64 = 32.0;
/// Maximum number of steps of the grid.
const MOST_STEPS: f64 = 400.0;
/// Stages shorter than this share of a service count as instantaneous, with an error below a millionth of the gap.
const SHORTEST: f64 = 0.02;
/// Maximum number of operations, some seconds. Beyond it, polls are assumed to reach their weight at random.
const MOST_OPERATIONS: f64 = 4e9;
/// Probabilities below this are left out.
const RARE: f64 = 1e-15;

/// Returns the mean cycle of a NIC with moderation, averaged over how much of its gap is left. `at`: computes the cycle
/// that begins with this much of the gap left (s).
pub fn mean_cycle(
    work: &Work,
    weight: u64,
    mask_s: f64,
    nic: &Nic,
    at: &dyn Fn(f64) -> Gathered,
) -> Result<Gathered, String> {
    if nic.gap_s == 0.0 {
        return Ok(at(0.0).trimmed());
    }
    let steps = (2.0 * work.arrival_pps * nic.gap_s).clamp(FEWEST_STEPS, MOST_STEPS).round() as usize;
    let step_s = nic.gap_s / steps as f64;
    // Cycles by time since the interrupt; in the last one the gap is over.
    let cycles: Vec<Gathered> = (0..=steps).map(|step| at(nic.gap_s - step as f64 * step_s).trimmed()).collect();
    let most = cycles.iter().map(Gathered::most).max().unwrap_or(1);
    let busy = Busy::new(work, weight, mask_s, nic.gap_s, most)?;
    let [delivered, immediate] = busy.ends(steps);
    let mut chain = Matrix::zero(steps + 1);
    for (from, cycle) in cycles.iter().enumerate() {
        let mut all = 0.0;
        for (law, ends) in [(&cycle.delivered, &delivered), (&cycle.immediate, &immediate)] {
            for (packets, share) in law.iter().enumerate().filter(|(_, share)| **share > RARE) {
                for (to, within) in ends.get(packets).into_iter().flatten().enumerate() {
                    chain.add(from, to, share * within);
                    all += share * within;
                }
            }
        }
        chain.add(from, steps, (1.0 - all).max(0.0));
    }
    let mut mean = Gathered::default();
    chain.stationary().iter().zip(&cycles).for_each(|(share, cycle)| mean.add(cycle, *share));
    Ok(mean)
}

/// The chain from the interrupt to the unmasking.
struct Busy {
    /// Maximum number of packets at the beginning.
    starts: usize,
    /// Maximum number of packets that is computed.
    levels: usize,
    top: bool,
    /// Number of phases of serving; with 1 phase, polls reach their weight with probability `again` after each service.
    phases: usize,
    again: f64,
    /// Probability that an event is an arrival.
    arrival: f64,
    /// Probability that an event ends a service, if one is under way.
    service: f64,
    /// Probability that an event ends the overhead of a poll; `None` if the overhead takes no time.
    overhead: Option<f64>,
    /// The same probability for an ISR.
    isr: Option<f64>,
    /// The same probability for the delivery of an interrupt.
    delivery: Option<f64>,
    rate: f64,
    gap_s: f64,
}

/// Values by packets (and packets served), for a chain with a given number of remaining events.
struct Values {
    serving: Vec<f64>,
    overhead: Vec<f64>,
    isr: Vec<f64>,
    delivery: Vec<f64>,
}

impl Busy {
    fn new(work: &Work, weight: u64, mask_s: f64, gap_s: f64, most: usize) -> Result<Self, String> {
        let lambda = work.arrival_pps;
        let stages = [work.poll_s, mask_s + work.interrupt_s, work.delivery_s];
        let rates = stages.map(|mean_s| (mean_s > SHORTEST * work.service_s).then(|| 1.0 / mean_s));
        let fastest = rates.into_iter().flatten().fold(work.service_pps(), f64::max);
        let rate = lambda + fastest;
        let places = work.places as usize;
        // With more packets than can be served within the gap, the gap is over before the ring is empty.
        let levels = places.min(furthest(work.service_pps() * gap_s) as usize);
        let events = furthest(rate * gap_s);
        let mut phases = counted(weight).unwrap_or(1);
        if events * levels as f64 * (phases as f64 + 3.0) > MOST_OPERATIONS {
            phases = 1;
        }
        if events * levels as f64 * 4.0 > MOST_OPERATIONS {
            return Err(format!(
                "a minimum gap of {} at {} holds {events:.1e} events of a ring of {places}: use a shorter gap, a smaller ring or the \
                 simulator",
                netcliff_core::units::print_time_s(gap_s),
                netcliff_core::units::print_pps(lambda)
            ));
        }
        let [overhead, isr, delivery] = rates.map(|stage| stage.map(|stage| stage / rate));
        Ok(Self {
            starts: most.min(levels),
            levels,
            top: levels == places,
            phases,
            again: 1.0 / weight as f64,
            arrival: lambda / rate,
            service: work.service_pps() / rate,
            overhead,
            isr,
            delivery,
            rate,
            gap_s,
        })
    }

    /// For each number of packets at the interrupt, returns P(unmasking begins at each step of the grid), up to the
    /// gap. First for interrupts that must be delivered, then for those that are handled at once.
    fn ends(&self, steps: usize) -> [Vec<Vec<f64>>; 2] {
        let erlang = Erlang::new(self.rate, self.gap_s, steps);
        let table = || vec![vec![0.0; steps + 1]; self.starts + 1];
        let [mut delivered, mut immediate] = [table(), table()];
        let (mut values, mut next) = (self.never(), self.never());
        for events in 1..erlang.most {
            self.before(&values, events == 1, &mut next);
            std::mem::swap(&mut values, &mut next);
            let (first, shares) = erlang.steps(events);
            if shares.is_empty() {
                continue;
            }
            for packets in 1..=self.starts {
                for (table, value) in
                    [(&mut delivered, values.delivery[packets]), (&mut immediate, values.isr[packets])]
                {
                    if value > RARE {
                        let row = &mut table[packets][first..];
                        row.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += value * share);
                    }
                }
            }
        }
        [delivered, immediate]
    }

    fn never(&self) -> Values {
        let zero = || vec![0.0; self.levels + 1];
        Values { serving: vec![0.0; (self.levels + 1) * self.phases], overhead: zero(), isr: zero(), delivery: zero() }
    }

    /// Computes P(the ring becomes empty after exactly one more event). `first`: the chain has not begun yet.
    fn before(&self, now: &Values, first: bool, next: &mut Values) {
        let (phases, levels) = (self.phases, self.levels);
        let ended = if first { 1.0 } else { 0.0 };
        // Value after a full poll that left this number of packets. An overhead without duration leads directly to the
        // next poll or, with no packets, to the unmasking.
        let polled = |packets: usize| match (self.overhead, packets) {
            (Some(_), _) => now.overhead[packets],
            (None, 0) => ended,
            (None, _) => now.serving[packets * phases],
        };
        let stays = (1.0 - self.arrival - self.service).max(0.0);
        for packets in 1..=levels {
            let row = packets * phases;
            let own = &now.serving[row..row + phases];
            let to = &mut next.serving[row..row + phases];
            to.iter_mut().zip(own).for_each(|(to, own)| *to = stays * own);
            if packets < levels || self.top {
                let above = packets.min(levels - 1) + 1;
                let more = &now.serving[above * phases..(above + 1) * phases];
                to.iter_mut().zip(more).for_each(|(to, more)| *to += self.arrival * more);
            }
            let left = packets - 1;
            let below = &now.serving[left * phases..packets * phases];
            let last = phases - 1;
            match left {
                0 => to[..last].iter_mut().for_each(|to| *to += self.service * ended),
                _ => to[..last].iter_mut().zip(&below[1..]).for_each(|(to, after)| *to += self.service * after),
            }
            let after = if phases > 1 || self.again >= 1.0 {
                polled(left)
            } else {
                let goes_on = if left == 0 { ended } else { below[0] };
                self.again * polled(left) + (1.0 - self.again) * goes_on
            };
            to[last] += self.service * after;
        }
        // Value of a stage whose end has the value `follows`; a stage without duration has that value itself.
        let stage = |own: &[f64], ends: Option<f64>, follows: &dyn Fn(usize) -> f64, packets: usize| {
            let ends = ends?;
            let above = if packets < levels {
                own[packets + 1]
            } else if self.top {
                own[packets]
            } else {
                0.0
            };
            let stays = (1.0 - self.arrival - ends).max(0.0) * own[packets];
            Some(ends * follows(packets) + self.arrival * above + stays)
        };
        for packets in 0..=levels {
            let begun = |packets: usize| if packets == 0 { ended } else { now.serving[packets * phases] };
            next.overhead[packets] = stage(&now.overhead, self.overhead, &begun, packets)
                .unwrap_or_else(|| if packets == 0 { 0.0 } else { next.serving[packets * phases] });
            next.isr[packets] =
                stage(&now.isr, self.isr, &|packets| now.overhead[packets], packets).unwrap_or(next.overhead[packets]);
            next.delivery[packets] =
                stage(&now.delivery, self.delivery, &|packets| now.isr[packets], packets).unwrap_or(next.isr[packets]);
        }
    }
}

/// Distribution of the time of n events, on a grid.
struct Erlang {
    rate: f64,
    step_s: f64,
    /// `[point of the grid][n]`: P(more than n events by then).
    above: Vec<Vec<f64>>,
    /// Number of events whose total time always exceeds the gap.
    most: usize,
}

impl Erlang {
    fn new(rate: f64, gap_s: f64, steps: usize) -> Self {
        let step_s = gap_s / steps as f64;
        let above: Vec<Vec<f64>> = (0..=steps)
            .map(|step| if step == 0 { vec![0.0] } else { poisson(rate * step as f64 * step_s).above })
            .collect();
        let most = above.last().map_or(0, Vec::len);
        Self { rate, step_s, above, most }
    }

    /// P(the time of `events`, at least 1, ends before this point of the grid), and that part's contribution to the
    /// mean.
    fn by(&self, step: usize, events: usize) -> (f64, f64) {
        let tail = |more: usize| self.above[step].get(more).copied().unwrap_or(0.0);
        (tail(events - 1), events as f64 / self.rate * tail(events))
    }

    /// Returns the first point of the grid to which this time's distribution contributes, and the contributions from
    /// there on.
    fn steps(&self, events: usize) -> (usize, Vec<f64>) {
        let steps = self.above.len() - 1;
        let mut first = None;
        let mut shares = Vec::new();
        let (mut before, mut mean_before) = (0.0, 0.0);
        for step in 1..=steps {
            let (by, mean) = self.by(step, events);
            let within = by - before;
            if within > RARE {
                let begins = *first.get_or_insert(step - 1);
                shares.resize(step + 1 - begins, 0.0);
                let from_s = (step - 1) as f64 * self.step_s;
                let later = ((mean - mean_before) / within - from_s) / self.step_s;
                let later = later.clamp(0.0, 1.0) * within;
                shares[step - begins] += later;
                shares[step - 1 - begins] += within - later;
            } else if by > 1.0 - RARE {
                break;
            }
            (before, mean_before) = (by, mean);
        }
        (first.unwrap_or(0), shares)
    }
}

#[cfg(test)]
mod tests;
