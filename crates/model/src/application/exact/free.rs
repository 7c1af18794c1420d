//! What the application gets done between the first packet of a free period and the interrupt, and how many packets
//! the ring has then.
//!
//! Its progress j counts what it has finished: the context switch, if it owes one, then packets. Whether the socket had
//! so many is looked at afterwards, so that one distribution serves every socket.

use super::budget::Budget;
use crate::queue::arrivals::{ArrivalCounts, TimeShape};

/// What is waited for after the first packet before the interrupt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wait {
    /// Nothing.
    Nothing,
    /// So many packets in all, at least 2.
    Packets(usize),
    /// An exponential time: the interrupt's delivery.
    Exponential {
        /// Its mean (s).
        mean_s: f64,
    },
    /// A constant time from the first packet, or so many packets if they come before.
    Timer {
        /// The time (s).
        timer_s: f64,
        /// The packets, at least 2.
        packets: Option<usize>,
    },
}

/// One way for the wait to end: with so many packets in the ring.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Packets in the ring.
    pub packets: usize,
    /// P(it ends so, with progress j).
    pub progress: Vec<f64>,
    /// Waits of its packets.
    pub waits: Waits,
}

/// Mean waits of packets where a wait ends so with progress j, else 0 (s).
#[derive(Debug, Clone, PartialEq)]
pub enum Waits {
    /// [i][j]: of packet i + 1.
    Each(Vec<Vec<f64>>),
    /// [j]: of all together, taken as those of packets that come evenly. So they do where all progress has one rate; else, this moves
    /// only what packets that just fit into the socket wait.
    Even(Vec<f64>),
}

/// Waits of the first packets of a wait that ends with some progress.
pub enum FirstWaits {
    /// Of the first n together (s).
    Each(Vec<f64>),
    /// Of all of so many together (s).
    Even(f64, f64),
}

impl End {
    /// Waits of its first packets, with this progress.
    pub fn first_waits(&self, progress: usize) -> FirstWaits {
        match &self.waits {
            Waits::Each(each) => {
                let sums = each.iter().map(|wait| wait[progress]).scan(0.0, |sum, wait| {
                    *sum += wait;
                    Some(*sum)
                });
                FirstWaits::Each(std::iter::once(0.0).chain(sums).collect())
            }
            Waits::Even(all) => FirstWaits::Even(all[progress], self.packets as f64),
        }
    }
}

impl FirstWaits {
    /// Of the first `room`, or of all if they are fewer, together (s).
    pub fn of(&self, room: usize) -> f64 {
        match self {
            Self::Each(sums) => sums[room.min(sums.len() - 1)],
            Self::Even(all, packets) => {
                let first = packets.min(room as f64);
                all * (first - first * (first - 1.0) / (2.0 * packets)) * 2.0 / (packets + 1.0)
            }
        }
    }
}

/// The wait as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waited {
    /// Its ends.
    pub ends: Vec<End>,
    /// Mean time with progress j (s).
    pub times: Vec<f64>,
    /// Integral of the packets in the ring [packet s].
    pub area: f64,
    /// Mean time with a full ring (s).
    pub full_s: f64,
    /// True if the waits of the first of its packets are only nearly known.
    pub nearly: bool,
}

/// Rates of progress: of the first piece of work, and of the others (1/s).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Rate of the first.
    pub first: f64,
    /// Rate of the others.
    pub others: f64,
}

impl Pace {
    /// No progress.
    pub const NONE: Self = Self { first: 0.0, others: 0.0 };

    fn of(&self, progress: usize, most: usize) -> f64 {
        match progress {
            _ if progress >= most => 0.0,
            0 => self.first,
            _ => self.others,
        }
    }
}

/// Ends and progress rarer than this are left out.
const LEFT_OUT: f64 = 1e-16;
/// (Packet, packets, progress) triples for which each packet's wait is followed; of more, their sum.
const MOST_FOLLOWED: f64 = 2e6;

impl Wait {
    /// The wait from the first packet on, for progress counted up to `most`; None where the budget does not last.
    pub fn solve(&self, arrival_pps: f64, places: usize, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        match *self {
            Self::Nothing => Some(Waited {
                ends: vec![End { packets: 1, progress: vec![1.0], waits: Waits::Each(vec![vec![0.0]]) }],
                ..Waited::default()
            }),
            Self::Packets(packets) => {
                let stages = Stages { arrival_pps, ends_per_s: 0.0, packets: packets.min(places + 1), places };
                stages.solve(pace, most, budget)
            }
            Self::Exponential { mean_s } => {
                let stages = Stages { arrival_pps, ends_per_s: 1.0 / mean_s, packets: usize::MAX, places };
                stages.solve(pace, most, budget)
            }
            Self::Timer { timer_s, packets } => {
                Timer { arrival_pps, timer_s, packets, places }.solve(pace, most, budget)
            }
        }
    }
}

/// A wait made of exponential stages, one for each number of packets.
struct Stages {
    arrival_pps: f64,
    /// Rate at which the wait ends by itself (1/s).
    ends_per_s: f64,
    /// It ends with so many packets.
    packets: usize,
    places: usize,
}

impl Stages {
    fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let mut waited = Waited { times: vec![0.0; most + 1], ..Waited::default() };
        let mut entry = vec![0.0; most + 1];
        entry[0] = 1.0;
        // Packets that come are rarer from one to the next by this.
        let ratio = self.arrival_pps / (self.arrival_pps + self.ends_per_s);
        let likely = if ratio < 1.0 { (LEFT_OUT.ln() / ratio.ln()).min(self.places as f64) } else { 0.0 };
        waited.nearly = 0.5 * likely * likely * most as f64 > MOST_FOLLOWED;
        // The wait so far, where the stage is entered with progress j: of each packet present, or of all.
        let mut ages: Vec<Vec<f64>> = if waited.nearly { vec![vec![0.0; most + 1]] } else { Vec::new() };
        for packets in 1..=self.places {
            budget.take((8 * (ages.len() + 1) * most) as f64)?;
            let arrivals = if packets < self.places { self.arrival_pps } else { 0.0 };
            let out = arrivals + self.ends_per_s;
            // Progress goes on at one rate from 1 to the last, which stays.
            let (first, others) = (pace.of(0, most), pace.of(1, most));
            let (first_stay, stay, last_stay) = (1.0 / (out + first), 1.0 / (out + others), 1.0 / out);
            let spend = |entered: &mut Vec<f64>| {
                entered[0] *= first_stay;
                let mut gained = entered[0] * first;
                for weight in &mut entered[1..most] {
                    *weight = (*weight + gained) * stay;
                    gained = *weight * others;
                }
                entered[most] = (entered[most] + gained) * last_stay;
            };
            spend(&mut entry);
            if !waited.nearly {
                ages.push(vec![0.0; most + 1]);
            }
            let followed = packets as f64 / ages.len() as f64;
            for ages in &mut ages {
                ages.iter_mut().zip(&entry).for_each(|(age, time)| *age += followed * time);
                spend(ages);
            }
            let spent: f64 = entry.iter().sum();
            waited.times.iter_mut().zip(&entry).for_each(|(sum, time)| *sum += time);
            waited.area += packets as f64 * spent;
            waited.full_s += if packets == self.places { spent } else { 0.0 };
            let times = |rate: f64, of: &[f64]| of.iter().map(|time| rate * time).collect::<Vec<f64>>();
            let nearly = waited.nearly;
            let mut end = |packets: usize, rate: f64, ages: &[Vec<f64>]| {
                let mut waits: Vec<Vec<f64>> = ages.iter().map(|ages| times(rate, ages)).collect();
                let waits = if nearly { Waits::Even(waits.swap_remove(0)) } else { Waits::Each(waits) };
                waited.ends.push(End { packets, progress: times(rate, &entry), waits });
            };
            if self.ends_per_s > 0.0 {
                end(packets, self.ends_per_s, &ages);
            }
            if packets + 1 == self.packets {
                // The last of them does not wait.
                ages.push(vec![0.0; most + 1]);
                end(packets + 1, arrivals, &ages);
                return Some(waited);
            }
            entry.iter_mut().chain(ages.iter_mut().flatten()).for_each(|time| *time *= arrivals);
            if entry.iter().sum::<f64>() < LEFT_OUT {
                break;
            }
        }
        Some(waited)
    }
}

/// A constant time, or a count that comes first.
struct Timer {
    arrival_pps: f64,
    timer_s: f64,
    packets: Option<usize>,
    places: usize,
}

impl Timer {
    /// By uniformization of (packets, progress): all terms positive.
    fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let load = self.arrival_pps * self.timer_s;
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, self.places + 1);
        let likely = counts.above.iter().position(|tail| *tail < LEFT_OUT).unwrap_or(self.places) + 2;
        let counted = self.packets.filter(|packets| *packets <= self.places);
        // Packets 1 .. levels are kept apart.
        let levels = counted.map_or(self.places, |packets| packets - 1).min(likely);
        let rate = self.arrival_pps + pace.first.max(pace.others);
        let jumps = rate * self.timer_s;
        let longest = jumps + 12.0 * jumps.sqrt() + 40.0;
        // Before it is a number of anything.
        budget.lasts(longest)?;
        let longest = longest as usize;
        let width = (most + 1).min(longest + 1);
        budget.take((levels * width) as f64 * longest as f64)?;
        let clock = ArrivalCounts::new(&TimeShape::Deterministic, jumps, longest);
        // With a count a packet's own wait is taken as independent of the application's progress.
        let mut waited = Waited { times: vec![0.0; width], nearly: counted.is_some(), ..Waited::default() };
        let mut ends = vec![vec![0.0; width]; levels + 1];
        let mut now = vec![vec![0.0; width]; levels];
        now[0][0] = 1.0;
        let up = self.arrival_pps / rate;
        for jump in 0..=longest {
            let (here, after) = (clock.equal.get(jump).copied().unwrap_or(0.0), clock.above[jump]);
            for (level, progress) in now.iter().enumerate() {
                ends[level].iter_mut().zip(progress).for_each(|(sum, weight)| *sum += here * weight);
                let stay: f64 = progress.iter().sum::<f64>() * after / rate;
                waited.area += (level + 1) as f64 * stay;
                waited.full_s += if level + 1 == self.places { stay } else { 0.0 };
                waited.times.iter_mut().zip(progress).for_each(|(sum, weight)| *sum += weight * after / rate);
            }
            if counted.is_some() {
                let last = &now[levels - 1];
                ends[levels].iter_mut().zip(last).for_each(|(sum, weight)| *sum += after * up * weight);
            }
            // Beyond the last level of a ring without a count, arrivals are lost (or too rare to be kept).
            for level in (0..levels).rev() {
                let (below, own) = now.split_at_mut(level);
                let stays = if level + 1 == levels && counted.is_none() { up } else { 0.0 };
                let mut gained = 0.0;
                for (progress, weight) in own[0].iter_mut().enumerate() {
                    let done = pace.of(progress, most.min(width - 1)) / rate;
                    let before = *weight;
                    *weight = before * (1.0 - up - done).max(0.0) + before * stays + gained;
                    gained = before * done;
                }
                if let Some(below) = below.last() {
                    own[0].iter_mut().zip(below).for_each(|(sum, weight)| *sum += up * weight);
                }
            }
        }
        waited.ends = ends
            .into_iter()
            .enumerate()
            .map(|(level, progress)| {
                let packets = level + 1;
                let waits = (1..=packets).map(|i| self.mean_wait_s(&counts, counted, packets, i));
                let waits = waits.map(|wait_s| progress.iter().map(|p| p * wait_s).collect()).collect();
                End { packets, progress, waits: Waits::Each(waits) }
            })
            .filter(|end| end.progress.iter().sum::<f64>() > 0.0)
            .collect();
        Some(waited)
    }

    /// Mean wait of packet `i` (from 1) where the ring has `packets` at the end: arrivals are spread evenly (s).
    fn mean_wait_s(&self, counts: &ArrivalCounts, counted: Option<usize>, packets: usize, i: usize) -> f64 {
        let before = |of: usize| 1.0 - (i - 1) as f64 / of as f64;
        if counted == Some(packets) {
            // The count came first, after `packets` - 1 more arrivals within the timer.
            let reached = |arrivals: usize| counts.above[arrivals - 1];
            let more = packets - 1;
            return more as f64 / self.arrival_pps * reached(packets) / reached(more) * before(more);
        }
        if packets < self.places {
            return self.timer_s * before(packets);
        }
        // At least places - 1 further arrivals, of which those beyond are lost.
        let (mut weight, mut sum) = (0.0, 0.0);
        let first = self.places - 1;
        let load = self.arrival_pps * self.timer_s;
        let mut probability = 1.0;
        for more in first.. {
            weight += probability;
            sum += probability * before(more + 1);
            probability *= load / (more + 1) as f64;
            if probability < 1e-17 * weight && more as f64 > load {
                break;
            }
            if weight > 1e250 {
                (weight, sum, probability) = (weight * 1e-250, sum * 1e-250, probability * 1e-250);
            }
        }
        self.timer_s * sum / weight
    }
}
