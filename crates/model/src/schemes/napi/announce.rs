//! Effect of a NIC's interrupt moderation on the time from the end of unmasking to the next interrupt: the number of
//! packets that the interrupt announces, and the mean time with each number of packets.
//!
//! Arrivals are Poisson. The time ends at the earliest of three events: the count is reached; the absolute timer has
//! run since the first packet; the packet timer has run since the last packet. The time never ends before the minimum
//! gap since the previous interrupt is over. Packets that arrive during unmasking count, and start the timers, as if
//! they arrived at its end.

mod quiet;

use netcliff_core::math;
use netcliff_core::scheme::Moderation;

use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::quadrature::gauss_legendre;
use crate::queue::uniform::furthest;

/// Quadrature panels and points for the arrival of the first packet within what is left of a gap, in combination with a
/// timer.
const PANELS: usize = 2;
const POINTS: usize = 8;

/// Numbers of packets at the upper end are merged if their total probability is below this.
const RARE: f64 = 1e-13;

/// Means over one cycle, from the end of unmasking to the next interrupt; index n is the number of packets in the ring.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gathered {
    /// `[n]`: P(n packets are announced by an interrupt that is handled as soon as it is unmasked).
    pub immediate: Vec<f64>,
    /// `[n]`: P(n packets are announced by an interrupt that must be delivered first).
    pub delivered: Vec<f64>,
    /// `[n]`: mean time with n packets in the ring (s).
    pub times_s: Vec<f64>,
}

fn put(list: &mut Vec<f64>, place: usize, value: f64) {
    if list.len() <= place {
        list.resize(place + 1, 0.0);
    }
    list[place] += value;
}

impl Gathered {
    /// Adds another cycle, multiplied by `weight`.
    pub fn add(&mut self, other: &Self, weight: f64) {
        for (to, from) in [
            (&mut self.immediate, &other.immediate),
            (&mut self.delivered, &other.delivered),
            (&mut self.times_s, &other.times_s),
        ] {
            for (place, value) in from.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                put(to, place, weight * value);
            }
        }
    }

    /// Leaves out the largest numbers of packets if their total probability is too small to change the first nine
    /// digits of a figure. Their probability is added to the probability of the largest number that remains.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        for list in [&mut self.immediate, &mut self.delivered] {
            let mut rest = 0.0;
            while let Some(last) = list.last()
                && list.len() > 2
                && rest + last < RARE
            {
                rest += last;
                list.pop();
            }
            if let Some(last) = list.last_mut() {
                *last += rest;
            }
        }
        self
    }

    /// Largest number of packets that an interrupt announces.
    pub fn most(&self) -> usize {
        self.immediate.len().max(self.delivered.len()).saturating_sub(1)
    }
}

/// Conditions of a NIC's interrupt moderation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nic {
    arrival_pps: f64,
    places: usize,
    /// Number of packets; `None` if packets are not counted.
    frames: Option<usize>,
    absolute_s: Option<f64>,
    packet_s: Option<f64>,
    /// Minimum gap (s); 0: none.
    pub gap_s: f64,
}

impl Nic {
    /// Takes the conditions from the NIC's moderation, for a ring of `places`.
    pub fn new(moderation: &Moderation, arrival_pps: f64, places: usize) -> Self {
        let on = |timer: Option<f64>| timer.filter(|seconds| *seconds > 0.0);
        let (absolute_s, packet_s) = (on(moderation.absolute_timer_s), on(moderation.packet_timer_s));
        // Without a timer, every packet causes an interrupt.
        let none = if absolute_s.is_none() && packet_s.is_none() { Some(1) } else { None };
        let frames = moderation.frames.map(|frames| frames as usize).or(none);
        // Every packet restarts the packet timer, so that it never ends before an absolute timer that is shorter.
        let packet_s = packet_s.filter(|packet_s| absolute_s.is_none_or(|absolute_s| *packet_s < absolute_s));
        Self { arrival_pps, places, frames, absolute_s, packet_s, gap_s: on(moderation.min_gap_s).unwrap_or(0.0) }
    }

    /// Returns true if, after the gap, every packet causes an interrupt.
    pub fn is_plain(&self) -> bool {
        self.frames == Some(1)
    }

    /// Returns the absolute timer if the only other condition, if any, is a count.
    pub fn only_absolute_s(&self) -> Option<f64> {
        self.absolute_s.filter(|_| self.packet_s.is_none() && self.gap_s == 0.0)
    }

    /// Returns the packet timer if the only other condition, if any, is a count.
    pub fn only_packet_s(&self) -> Option<f64> {
        self.packet_s.filter(|_| self.absolute_s.is_none() && self.gap_s == 0.0)
    }

    /// Returns the reason why this moderation is not supported; `None` if it is supported.
    pub fn lacking(&self) -> Option<String> {
        (self.gap_s > 0.0 && self.packet_s.is_some() && !self.is_plain()).then(|| {
            "a packet timer together with a minimum gap: each packet that the gap holds back starts the timer again, which the chain of gaps \
             lacks"
                .to_owned()
        })
    }

    /// Computes the cycle from the start of an unmasking of exponential length with mean `mask_s`, when `residual_s` of
    /// the gap is left. `found`: P(number of packets that arrive during unmasking). Exact if the residual is 0 or no
    /// timer is set; with a residual and a timer, uses the mean of the unmasking.
    pub fn after_unmask(&self, found: &[f64], mask_s: f64, residual_s: f64) -> Gathered {
        let mut out = Gathered::default();
        if self.is_plain() && residual_s > 0.0 {
            self.plain_gap(mask_s, residual_s, &mut out);
            return out;
        }
        let left_s = (residual_s - mask_s).max(0.0);
        for (packets, share) in found.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            match packets {
                0 => self.start_empty(left_s, *share, &mut out),
                _ => self.from(packets.min(self.places), left_s, *share, &mut out),
            }
        }
        out
    }

    /// Continues the cycle if no packet came during unmasking: waits for the first packet.
    fn start_empty(&self, residual_s: f64, share: f64, out: &mut Gathered) {
        put(&mut out.times_s, 0, share / self.arrival_pps);
        let mut over = 1.0;
        if residual_s > 0.0 {
            let nodes = gauss_legendre(residual_s, PANELS, POINTS);
            let weights = nodes.iter().map(|(at_s, weight)| weight * math::exp(-self.arrival_pps * at_s));
            let weights: Vec<f64> = weights.map(|weight| weight * self.arrival_pps).collect();
            // The quadrature's total is scaled to the exact probability.
            let within = -math::exp_m1(-self.arrival_pps * residual_s);
            let all: f64 = weights.iter().sum();
            for ((at_s, _), weight) in nodes.iter().zip(&weights) {
                self.from(1, residual_s - at_s, share * within * weight / all, out);
            }
            over -= within;
        }
        if over > 0.0 {
            self.with_gap_over(1, share * over, false, out);
        }
    }

    /// Continues the cycle from this number of packets, with their timers started and `residual_s` of the gap left.
    fn from(&self, packets: usize, residual_s: f64, share: f64, out: &mut Gathered) {
        if residual_s <= 0.0 {
            return self.with_gap_over(packets, share, true, out);
        }
        let full = |packets: usize| self.frames.is_some_and(|frames| packets >= frames);
        let held_s = match self.absolute_s.filter(|_| !full(packets)) {
            // Without a count only the timer decides.
            Some(timer_s) if self.frames.is_none() => residual_s.max(timer_s),
            _ => residual_s,
        };
        let ends = self.wait(packets, held_s, share, out);
        let later_s = self.absolute_s.map_or(0.0, |timer_s| timer_s - held_s);
        let mut timed = Vec::new();
        for (more, ended) in ends.into_iter().enumerate() {
            if full(packets + more) || later_s <= 0.0 {
                put(&mut out.delivered, packets + more, ended);
            } else {
                timed.push((packets + more, ended));
            }
        }
        if !timed.is_empty() {
            self.timer(&timed, later_s, out);
        }
    }

    /// Continues the cycle once the gap is over. `unmasking`: interrupts are just being unmasked, so that a full count
    /// is handled at once.
    fn with_gap_over(&self, packets: usize, share: f64, unmasking: bool, out: &mut Gathered) {
        if self.frames.is_some_and(|frames| packets >= frames) {
            put(if unmasking { &mut out.immediate } else { &mut out.delivered }, packets, share);
            return;
        }
        match (self.packet_s, self.absolute_s) {
            (Some(packet_s), absolute_s) => self.quiet(packets, packet_s, absolute_s, share, out),
            (None, Some(timer_s)) => self.timer(&[(packets, share)], timer_s, out),
            // Never occurs: without a timer the count is 1.
            (None, None) => put(&mut out.delivered, packets, share),
        }
    }

    /// Lets a constant time pass from this number of packets on; returns the probability of each number of further
    /// packets at its end.
    fn wait(&self, packets: usize, time_s: f64, share: f64, out: &mut Gathered) -> Vec<f64> {
        let room = self.places - packets;
        let load = self.arrival_pps * time_s;
        let most = room.min(furthest(load) as usize);
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, most);
        for (more, above) in counts.above.iter().enumerate().take(most + 1) {
            // At the highest number, includes the time after the last packet that fitted into the ring.
            let mean = if more == room { counts.excess[more] } else { *above };
            put(&mut out.times_s, packets + more, share * mean / self.arrival_pps);
        }
        let mut ends: Vec<f64> = counts.equal[..=most].iter().map(|one| share * one).collect();
        if most == room {
            ends[most] += share * counts.above[most];
        }
        ends
    }

    /// Ends the cycle by absolute timer or count, from each (packets, probability).
    fn timer(&self, from: &[(usize, f64)], timer_s: f64, out: &mut Gathered) {
        let Some(frames) = self.frames.filter(|frames| *frames <= self.places) else {
            for (packets, share) in from {
                for (more, ended) in self.wait(*packets, timer_s, *share, out).into_iter().enumerate() {
                    put(&mut out.delivered, packets + more, ended);
                }
            }
            return;
        };
        let load = self.arrival_pps * timer_s;
        let furthest = furthest(load) as usize;
        let lowest = from.iter().map(|(packets, _)| *packets).min().unwrap_or(1);
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, furthest.min(frames - lowest));
        for (packets, share) in from {
            let missing = frames - packets;
            for more in 0..missing.min(counts.above.len()) {
                put(&mut out.times_s, packets + more, share * counts.above[more] / self.arrival_pps);
                put(&mut out.delivered, packets + more, share * counts.equal[more]);
            }
            let filled = counts.above.get(missing - 1).copied().unwrap_or(0.0);
            put(&mut out.delivered, frames, share * filled);
        }
    }

    /// Computes the cycle if every packet causes an interrupt, and `residual_s` of the gap is left when an unmasking of
    /// exponential length U begins.
    ///
    /// If U < residual, the interrupt at the gap's end announces the packets that arrived during the residual, a
    /// Poisson number. Otherwise the interrupt follows at once after U, and also announces the arrivals in the rest of
    /// U, again exponential. If no packet has arrived, the first one interrupts.
    fn plain_gap(&self, mask_s: f64, residual_s: f64, out: &mut Gathered) {
        let lambda = self.arrival_pps;
        let load = lambda * residual_s;
        let most = self.places.min(furthest(load) as usize);
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, most);
        let later = if mask_s > 0.0 { math::exp(-residual_s / mask_s) } else { 0.0 };
        let mut ends = counts.equal[..=most].to_vec();
        ends[most] += counts.above[most];
        let up = lambda * mask_s / (1.0 + lambda * mask_s);
        let (mut visits, mut nothing) = (0.0, 0.0);
        for (packets, ended) in ends.iter().enumerate() {
            visits = later * ended + up * visits;
            let stays = if packets == self.places { visits } else { (1.0 - up) * visits };
            if packets == 0 {
                nothing = stays + (1.0 - later) * ended;
            } else {
                put(&mut out.immediate, packets, stays);
                put(&mut out.delivered, packets, (1.0 - later) * ended);
            }
        }
        // If unmasking outlasts what is left of the gap, further packets arrive during the rest of the unmasking.
        let mut packets = most;
        while packets < self.places && up * visits > 1e-18 {
            packets += 1;
            visits *= up;
            put(&mut out.immediate, packets, if packets == self.places { visits } else { (1.0 - up) * visits });
        }
        put(&mut out.delivered, 1, nothing);
        put(&mut out.times_s, 0, nothing / lambda);
        // Integral of (1 - e^(-t/m)) P(n packets by t) over the residual.
        let rate = if mask_s > 0.0 { lambda + 1.0 / mask_s } else { f64::INFINITY };
        let masked = (mask_s > 0.0).then(|| ArrivalCounts::new(&TimeShape::Deterministic, rate * residual_s, most));
        let mut power = 1.0 / rate;
        let mut sum = 0.0;
        for packets in 0..=most {
            let still = masked.as_ref().map_or(0.0, |masked| power * masked.above[packets]);
            let here_s = (counts.above[packets] / lambda - still).max(0.0);
            if packets < self.places {
                put(&mut out.times_s, packets, here_s);
                sum += here_s;
            }
            power *= lambda / rate;
        }
        if most == self.places {
            let whole_s = residual_s - mask_s * (1.0 - later);
            put(&mut out.times_s, most, (whole_s - sum).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests;
