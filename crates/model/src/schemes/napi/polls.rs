//! NAPI's chain (module `napi`), observed only when a poll starts to serve: a banded chain of the packets present.
//!
//! A poll that starts with n >= weight packets serves `weight` of them and ends with n - weight plus the arrivals. The
//! rows are therefore equal, except for polls that may empty or fill the ring. Solving this band takes ring x width x
//! weight operations, some thirty times fewer than block reduction; the times in each (packets, phase) follow in one
//! pass.

use super::announce::Gathered;
use super::{Chain, DELIVERY, ISR, OVERHEAD, SERVING, UNMASK};
use crate::queue::banded::Banded;
use crate::queue::qbd::Stationary;
use netcliff_core::math;

/// Total probability below which jumps up are left out.
const LEFT_OUT: f64 = 1e-24;
/// Widest band; wider ones are solved by block reduction.
const WIDEST: usize = 1200;

/// The chain of poll starts.
pub struct Polls<'a> {
    chain: &'a Chain<'a>,
    weight: usize,
    places: usize,
    /// Largest number of arrivals during a poll that is considered.
    reach: usize,
    /// Longest jump up that is considered.
    up: usize,
    /// P(a packet arrives before the end of a service).
    service_up: f64,
    /// The same probability for the overhead of a poll.
    overhead_up: f64,
    /// The same probability for an ISR.
    isr_up: f64,
    /// The same probability for the delivery of an interrupt.
    delivery_up: f64,
    /// The same probability for unmasking.
    unmask_up: f64,
    /// Distribution of packets when the first poll after an idle time starts to serve: index 0 is 1 packet.
    from_idle: Vec<f64>,
    /// The cycle from unmasking to the interrupt with a NIC's moderation; `None` without moderation.
    cycle: Option<&'a Gathered>,
}

impl<'a> Polls<'a> {
    /// Makes the chain; `None` if the band would be too wide (extreme overload) or the weight is unlimited.
    pub fn new(chain: &'a Chain<'a>) -> Option<Self> {
        Self::entered(chain, None)
    }

    /// Makes the chain with idle times that end with the packets announced by the NIC in a `cycle`.
    pub fn entered(chain: &'a Chain<'a>, cycle: Option<&'a Gathered>) -> Option<Self> {
        let weight = chain.weight?;
        let places = chain.work.places as usize;
        let lambda = chain.work.arrival_pps;
        let before = |rate: f64| lambda / (lambda + rate);
        let (service_up, overhead_up, isr_up) =
            (before(chain.work.service_pps()), before(chain.overhead_rate), before(chain.isr_rate));
        let (delivery_up, unmask_up) = (before(chain.delivery_rate), before(chain.unmask_rate));
        let width = |ratio: f64| 1 + (math::ln(LEFT_OUT) / math::ln(ratio)).ceil() as usize;
        let found = cycle.map_or(width(unmask_up), Gathered::most);
        let reach =
            (found + width(delivery_up) + width(isr_up)).max(arrivals_width(weight, service_up)?) + width(overhead_up);
        let up = reach.min(places);
        if up > WIDEST {
            return None;
        }
        let mut polls = Self {
            chain,
            weight,
            places,
            reach,
            up,
            service_up,
            overhead_up,
            isr_up,
            delivery_up,
            unmask_up,
            from_idle: Vec::new(),
            cycle,
        };
        let mut levels = vec![0.0; places.min(reach) + 1];
        levels[0] = 1.0;
        polls.stage(&mut levels, 0, unmask_up);
        let mut idle = vec![0.0; levels.len()];
        polls.announce(&mut levels, &mut idle, 1.0);
        polls.stage(&mut idle, 0, delivery_up);
        levels.iter_mut().zip(&idle).for_each(|(sum, entry)| *sum += entry);
        polls.stage(&mut levels, 0, isr_up);
        polls.stage(&mut levels, 0, overhead_up);
        polls.from_idle = levels[1..].to_vec();
        Some(polls)
    }

    /// Replaces the distribution of packets in `levels` after unmasking by the distribution of announced packets:
    /// packets of interrupts that are handled at once stay in `levels`, packets of interrupts that must be delivered go
    /// to `delivered`. `cycles`: total weight of both.
    fn announce(&self, levels: &mut [f64], delivered: &mut [f64], cycles: f64) {
        let Some(cycle) = self.cycle else {
            delivered[1] = std::mem::take(&mut levels[0]);
            return;
        };
        levels.fill(0.0);
        for (to, from) in [(levels, &cycle.immediate), (delivered, &cycle.delivered)] {
            to.iter_mut().zip(from).for_each(|(to, share)| *to = cycles * share);
        }
    }

    /// Replaces the distribution of packets at a stage's start by the distribution at its end: geometric arrivals
    /// during the stage, limited by the ring. `levels[i]` is level `base + i`.
    fn stage(&self, levels: &mut [f64], base: usize, up: f64) {
        let mut visits = 0.0;
        for (i, level) in levels.iter_mut().enumerate() {
            visits = *level + up * visits;
            // Denormal numbers would spread to all further levels, and are slow.
            if visits < 1e-290 {
                visits = 0.0;
            }
            *level = if base + i == self.places { visits } else { (1.0 - up) * visits };
        }
    }

    /// Returns distributions of packets at the start of the next poll, for each of `starts`, as rows of the band.
    ///
    /// Arrays are indexed by j = level + served, which a service does not change. The values for different starts lie
    /// next to each other, so that their additions are independent.
    fn rows(&self, starts: std::ops::Range<usize>) -> Vec<Vec<f64>> {
        let count = starts.len();
        let first = starts.start;
        let last = (starts.end - 1 + self.reach).min(self.places + self.weight);
        let mut polls = vec![0.0; (last + 1 - first) * count];
        let mut idle = vec![0.0; count];
        let mut visits = vec![0.0; count];
        (0..count).for_each(|i| polls[i * count + i] = 1.0);
        for served in 0..self.weight {
            visits.fill(0.0);
            for (j, entries) in (first..=last.min(self.places + served)).zip(polls.chunks_exact_mut(count)) {
                let leaves = if j == self.places + served { 1.0 } else { 1.0 - self.service_up };
                for (visit, entry) in visits.iter_mut().zip(entries) {
                    *visit = *entry + self.service_up * *visit;
                    *entry = leaves * *visit;
                }
            }
            // The last packet is served before the weight is reached, so that the ring is empty. The index may lie
            // outside the range.
            if served + 1 < self.weight && (first..=last).contains(&(served + 1)) {
                let emptied = &mut polls[(served + 1 - first) * count..(served + 2 - first) * count];
                idle.iter_mut().zip(emptied).for_each(|(sum, entry)| *sum += std::mem::take(entry));
            }
        }
        (0..count)
            .map(|i| {
                let column = polls.iter().skip(i).step_by(count);
                self.after_poll(first + i, column.copied().enumerate().map(|(row, p)| (first + row, p)), idle[i])
            })
            .collect()
    }

    /// Adds the overhead after a poll that started with `start` packets and ended with (level + weight, probability).
    fn after_poll(&self, start: usize, ended: impl Iterator<Item = (usize, f64)>, mut idle: f64) -> Vec<f64> {
        let base = start.saturating_sub(self.weight);
        let end = (start + self.up).min(self.places);
        let mut levels = vec![0.0; end - base + 1];
        for (j, probability) in ended.filter(|(j, _)| (base + self.weight..=end + self.weight).contains(j)) {
            levels[j - self.weight - base] = probability;
        }
        self.stage(&mut levels, base, self.overhead_up);
        if base == 0 {
            idle += std::mem::take(&mut levels[0]);
        }
        self.band(start, base, &levels, idle)
    }

    fn band(&self, start: usize, base: usize, levels: &[f64], idle: f64) -> Vec<f64> {
        let mut row = vec![0.0; self.weight + self.up + 1];
        let mut put = |level: usize, probability: f64| {
            // Offset of `level` from start - weight.
            let place = level + self.weight - start;
            if place < row.len() {
                row[place] += probability;
            }
        };
        levels.iter().enumerate().for_each(|(i, probability)| put(base + i, *probability));
        if idle > 0.0 {
            self.from_idle.iter().enumerate().for_each(|(i, probability)| put(i + 1, idle * probability));
        }
        row
    }

    /// The stationary distribution over (packets, phase); `None` if it does not fit into memory.
    pub fn stationary(&self) -> Option<Stationary> {
        // Range of equal rows: no poll empties or fills the ring. State i is i + 1 packets.
        let low_end = self.weight.min(self.places);
        let alike = low_end..self.places.saturating_sub(self.up).max(low_end);
        let low = self.rows(1..low_end + 1);
        let common = if alike.is_empty() { Vec::new() } else { self.rows(alike.start + 1..alike.start + 2) };
        let top = if alike.end < self.places { self.rows(alike.end + 1..self.places + 1) } else { Vec::new() };
        let mut row = |state: usize| match state {
            _ if state < low_end => low[state].clone(),
            _ if alike.contains(&state) => common[0].clone(),
            _ => top[state - alike.end].clone(),
        };
        let band = Banded {
            states: self.places,
            down: self.weight,
            up: self.up,
            alike: alike.clone(),
            period: 1,
            row: &mut row,
        };
        let starts = band.stationary()?;
        Some(self.times(&starts))
    }

    /// Computes the times in each (packets, phase) from the rates of poll starts.
    fn times(&self, starts: &[f64]) -> Stationary {
        let phases = SERVING + self.weight;
        let mut times = vec![0.0; (self.places + 1) * phases];
        let work = self.chain.work;
        let mut levels = vec![0.0; self.places + 1];
        levels[1..].copy_from_slice(starts);
        let mut idle = 0.0;
        for served in 0..self.weight {
            self.spend(&mut levels, work.service_s, self.service_up, &mut times[SERVING + served..]);
            levels.rotate_left(1);
            if served + 1 < self.weight {
                idle += std::mem::take(&mut levels[0]);
            }
        }
        // Overheads follow full polls (whose numbers of packets are in `levels`) and interrupts (one per idle period).
        let overhead_s = 1.0 / self.chain.overhead_rate;
        let mut after_full = levels.clone();
        self.stage(&mut after_full, 0, self.overhead_up);
        idle += after_full[0];
        let mut interrupts = vec![0.0; self.places + 1];
        interrupts[0] = idle;
        self.spend(&mut interrupts, 1.0 / self.chain.unmask_rate, self.unmask_up, &mut times[UNMASK..]);
        let nothing = interrupts[0];
        let mut delivered = vec![0.0; self.places + 1];
        self.announce(&mut interrupts, &mut delivered, idle);
        self.spend(&mut delivered, 1.0 / self.chain.delivery_rate, self.delivery_up, &mut times[DELIVERY..]);
        interrupts.iter_mut().zip(&delivered).for_each(|(sum, entry)| *sum += entry);
        self.spend(&mut interrupts, 1.0 / self.chain.isr_rate, self.isr_up, &mut times[ISR..]);
        levels.iter_mut().zip(&interrupts).for_each(|(sum, entry)| *sum += entry);
        self.spend(&mut levels, overhead_s, self.overhead_up, &mut times[OVERHEAD..]);
        match self.cycle {
            None => times[DELIVERY] = nothing / work.arrival_pps,
            Some(cycle) => {
                for (level, time_s) in cycle.times_s.iter().enumerate() {
                    times[level * phases + DELIVERY] += idle * time_s;
                }
            }
        }
        Stationary::normalised(phases, times)
    }

    /// Replaces the distribution of packets at a stage's start by the distribution at its end, and adds the times
    /// spent: exits x mean at every level.
    fn spend(&self, levels: &mut [f64], mean_s: f64, up: f64, times: &mut [f64]) {
        self.stage(levels, 0, up);
        let phases = SERVING + self.weight;
        for (level, exits) in levels.iter().enumerate() {
            times[level * phases] += exits * mean_s;
        }
    }
}

/// Number of arrivals during `weight` services that is exceeded with a probability below [`LEFT_OUT`]; `None` if the
/// computation exceeds the range of doubles.
fn arrivals_width(weight: usize, up: f64) -> Option<usize> {
    // Negative binomial: p_0 = (1-up)^weight, p_(j+1) = p_j up (weight + j)/(j + 1).
    let mut probability = math::exp(weight as f64 * math::ln_1p(-up));
    if probability == 0.0 {
        return None;
    }
    for j in 0..=WIDEST {
        let ratio = up * (weight + j) as f64 / (j + 1) as f64;
        if ratio < 1.0 && probability / (1.0 - ratio) < LEFT_OUT {
            return Some(j + 1);
        }
        probability *= ratio;
    }
    None
}
