//! A wait for a constant time from the first packet, or for a number of packets that comes before.

use super::super::budget::Budget;
use super::{End, LEFT_OUT, Pace, Waited};
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::uniform::furthest;

/// A constant time, or a count that comes first.
pub struct Timer {
    pub arrival_pps: f64,
    pub timer_s: f64,
    pub packets: Option<usize>,
    pub places: usize,
}

impl Timer {
    /// By uniformization of (packets, progress): all terms positive.
    pub fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let load = self.arrival_pps * self.timer_s;
        let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, self.places + 1);
        let likely = counts.above.iter().position(|tail| *tail < LEFT_OUT).unwrap_or(self.places) + 2;
        let counted = self.packets.filter(|packets| *packets <= self.places);
        // Packets 1 .. levels are kept apart.
        let levels = counted.map_or(self.places, |packets| packets - 1).min(likely);
        let rate = self.arrival_pps + pace.first.max(pace.others);
        let jumps = rate * self.timer_s;
        let longest = furthest(jumps);
        // Before it is a number of anything.
        budget.lasts(longest)?;
        let longest = longest as usize;
        let width = (most + 1).min(longest + 1);
        budget.take((levels * width) as f64 * longest as f64)?;
        let clock = ArrivalCounts::new(&TimeShape::Deterministic, jumps, longest + 1);
        let mut waited = Waited { times: vec![0.0; width], ..Waited::default() };
        // Time until the count is reached.
        let mut reached_s = vec![0.0; width];
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
                let so_far_s = (jump + 1) as f64 / rate * clock.above[jump + 1];
                reached_s.iter_mut().zip(last).for_each(|(sum, weight)| *sum += so_far_s * up * weight);
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
        let ended = ends.into_iter().enumerate().map(|(level, progress)| (level + 1, progress));
        let ends = ended.map(|(packets, progress)| match counted {
            Some(count) if packets == count => {
                End { packets, progress, gathering_s: reached_s.clone(), after_s: vec![0.0; width] }
            }
            _ => self.timed_out(packets, progress),
        });
        waited.ends = ends.filter(|end| end.progress.iter().sum::<f64>() > 0.0).collect();
        Some(waited)
    }

    /// The timer ended it: packets came evenly, whatever the progress.
    fn timed_out(&self, packets: usize, progress: Vec<f64>) -> End {
        let after_s = self.timer_s * self.last_share(packets);
        let times = |time_s: f64| progress.iter().map(|share| share * time_s).collect();
        let (gathering_s, after_s) = (times(self.timer_s - after_s), times(after_s));
        End { packets, progress, gathering_s, after_s }
    }

    /// The mean share of the timer that the last packet waits for, where the ring has `packets` at the end: of n that came, 1/n; where the
    /// ring is full, of packet `places` of all that came, those lost included.
    fn last_share(&self, packets: usize) -> f64 {
        if packets < self.places {
            return 1.0 / packets as f64;
        }
        // At least places - 1 further arrivals, of which those beyond are lost.
        let (mut weight, mut sum) = (0.0, 0.0);
        let first = self.places - 1;
        let load = self.arrival_pps * self.timer_s;
        let mut probability = 1.0;
        for more in first.. {
            weight += probability;
            sum += probability * (1.0 - first as f64 / (more + 1) as f64);
            probability *= load / (more + 1) as f64;
            if probability < 1e-17 * weight && more as f64 > load {
                break;
            }
            if weight > 1e250 {
                (weight, sum, probability) = (weight * 1e-250, sum * 1e-250, probability * 1e-250);
            }
        }
        sum / weight
    }
}
