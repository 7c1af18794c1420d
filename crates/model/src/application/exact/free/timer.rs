//! A wait for a constant time from the first packet, or earlier for a number of packets.
//!
//! Packets and progress are independent until the wait ends, so that each has its own Poisson clock. The progress is
//! known after each jump of its clock; the packets determine the weight of this jump.

use super::super::budget::Budget;
use super::{End, LEFT_OUT, Pace, Waited};
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::uniform::furthest;
use crate::queue::wide;

/// A wait for a constant time, which a number of packets may end earlier.
pub struct Timer {
    pub arrival_pps: f64,
    pub timer_s: f64,
    pub packets: Option<usize>,
    pub places: usize,
}

/// Weights of the progress after each number of jumps.
struct Counts {
    /// P(the timer ends after this number of jumps).
    ended: Vec<f64>,
    /// Mean time of the wait after this number of jumps (s).
    spent_s: Vec<f64>,
    /// P(the number of packets is reached after this number of finished pieces of work); empty if packets are not
    /// counted.
    reached: Vec<f64>,
    /// Mean time until the number is reached (s); waits that end otherwise count as 0.
    reached_s: Vec<f64>,
}

/// Weights below this count as 0: denormal numbers are slow.
const NOTHING: f64 = 1e-280;
/// Number of vectors (by finished pieces of work) that each jump updates, including its own.
const VECTORS: usize = 5;

impl Timer {
    /// Solves the wait by uniformization of the application's work; all terms are positive. `None` if the budget does
    /// not suffice.
    pub fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let load = self.arrival_pps * self.timer_s;
        let packets = ArrivalCounts::new(&TimeShape::Deterministic, load, self.places + 1);
        let likely = packets.above.iter().position(|tail| *tail < LEFT_OUT).unwrap_or(self.places) + 2;
        let counted = self.packets.filter(|packets| *packets <= self.places.min(likely));
        // Packets 1 .. `levels` are distinguished; the last level includes all larger numbers, unless these end the
        // wait.
        let levels = counted.map_or(self.places.min(likely), |packets| packets - 1);
        // Without progress, one jump per timer suffices.
        let rate = pace.first.max(pace.others).max(1.0 / self.timer_s);
        let jumps = furthest(rate * self.timer_s);
        // Check before the conversion to an integer.
        budget.lasts(jumps)?;
        let jumps = jumps as usize;
        let width = (most + 1).min(jumps + 1);
        budget.take(jumps as f64 * (VECTORS * width + levels) as f64)?;
        let counts = self.counts(rate, jumps, counted.map(|_| levels));
        let none = || vec![0.0; width];
        let mut waited = Waited { times: none(), ..Waited::default() };
        let (mut ended, mut reached, mut reached_s) = (none(), none(), none());
        let mut now = none();
        now[0] = 1.0;
        for jump in 0..=jumps {
            for (sums, of) in [
                (&mut ended, &counts.ended),
                (&mut waited.times, &counts.spent_s),
                (&mut reached, &counts.reached),
                (&mut reached_s, &counts.reached_s),
            ] {
                if let Some(share) = of.get(jump) {
                    wide::add(sums, &now, *share);
                }
            }
            let mut gained = 0.0;
            for (progress, weight) in now.iter_mut().enumerate() {
                let done = *weight * (pace.of(progress, width - 1) / rate);
                *weight = (*weight - done).max(0.0) + gained;
                gained = done;
            }
        }
        for level in 1..=levels {
            let is_last = level == levels && counted.is_none();
            let more = level - 1;
            let (ends, stays) = match more {
                0 if is_last => (1.0, packets.excess[0]),
                _ if is_last => (packets.above[more - 1], packets.excess[more]),
                _ => (packets.equal[more], packets.above[more]),
            };
            let stays_s = stays / self.arrival_pps;
            waited.area += level as f64 * stays_s;
            waited.full_s += if level == self.places { stays_s } else { 0.0 };
            waited.ends.push(self.timed_out(level, ended.iter().map(|share| ends * share).collect()));
        }
        if let Some(packets) = counted {
            waited.ends.push(End { packets, progress: reached, gathering_s: reached_s, after_s: none() });
        }
        waited.ends.retain(|end| end.progress.iter().sum::<f64>() > 0.0);
        Some(waited)
    }

    /// Computes the weights for jumps at `rate`; `gathered`: number of further packets that end the wait.
    fn counts(&self, rate: f64, jumps: usize, gathered: Option<usize>) -> Counts {
        let alone = ArrivalCounts::new(&TimeShape::Deterministic, rate * self.timer_s, jumps);
        let spent_s = alone.above.iter().map(|after| after / rate).collect();
        let mut counts = Counts { ended: alone.equal, spent_s, reached: Vec::new(), reached_s: Vec::new() };
        let Some(gathered) = gathered else { return counts };
        // Whether a jump is a packet or a finished piece of work does not depend on the times of the jumps.
        let both = rate + self.arrival_pps;
        let (packet, jump) = (self.arrival_pps / both, rate / both);
        let clock = ArrivalCounts::new(&TimeShape::Deterministic, both * self.timer_s, gathered + jumps + 1);
        counts.spent_s.fill(0.0);
        let mut paths = vec![0.0; jumps + 1];
        for packets in 0..gathered {
            let mut before = if packets == 0 { 1.0 / jump } else { 0.0 };
            for (done, path) in paths.iter_mut().enumerate() {
                let here = packet * *path + jump * before;
                *path = if here > NOTHING { here } else { 0.0 };
                before = *path;
                counts.spent_s[done] += here * clock.above[packets + done] / both;
            }
        }
        let last = paths.iter().enumerate().map(|(done, path)| (gathered + done, packet * path));
        (counts.reached, counts.reached_s) = last
            .map(|(all, share)| (share * clock.above[all - 1], share * clock.above[all] * all as f64 / both))
            .unzip();
        counts
    }

    /// Makes the end by the timer: the packets arrived evenly, however much work the application finished.
    fn timed_out(&self, packets: usize, progress: Vec<f64>) -> End {
        let after_s = self.timer_s * self.last_share(packets);
        let times = |time_s: f64| progress.iter().map(|share| share * time_s).collect();
        let (gathering_s, after_s) = (times(self.timer_s - after_s), times(after_s));
        End { packets, progress, gathering_s, after_s }
    }

    /// Mean waiting time of the last packet in the ring, as a share of the timer, if the wait ends with `packets` in
    /// the ring. With n arrivals it is 1/n; with a full ring it is the share of packet number `places` among all
    /// arrivals, including lost packets.
    fn last_share(&self, packets: usize) -> f64 {
        if packets < self.places {
            return 1.0 / packets as f64;
        }
        // At least places - 1 further arrivals; the arrivals beyond these are lost.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference for the tests: packets and finished work as one chain, jump by jump at one rate. Returns times by
    /// finished work, the integral of the packets, the time with a full ring, and for each number of packets the ends
    /// by finished work.
    fn joint(timer: &Timer, pace: Pace, most: usize) -> (Vec<f64>, f64, f64, Vec<Vec<f64>>) {
        let rate = timer.arrival_pps + pace.first.max(pace.others);
        let jumps = furthest(rate * timer.timer_s) as usize;
        let clock = ArrivalCounts::new(&TimeShape::Deterministic, rate * timer.timer_s, jumps + 1);
        let counted = timer.packets.filter(|packets| *packets <= timer.places);
        let levels = counted.map_or(timer.places, |packets| packets - 1);
        let none = || vec![vec![0.0; most + 1]; timer.places + 1];
        let (mut times, mut area, mut full_s, mut ends) = (vec![0.0; most + 1], 0.0, 0.0, none());
        let mut now = none();
        now[1][0] = 1.0;
        for jump in 0..=jumps {
            let (here, after) = (clock.equal[jump], clock.above[jump]);
            let mut next = none();
            for packets in 1..=levels {
                for progress in 0..=most {
                    let weight = now[packets][progress];
                    ends[packets][progress] += here * weight;
                    times[progress] += weight * after / rate;
                    area += packets as f64 * weight * after / rate;
                    full_s += if packets == timer.places { weight * after / rate } else { 0.0 };
                    let (up, done) = (timer.arrival_pps / rate, pace.of(progress, most) / rate);
                    match packets + 1 {
                        count if counted == Some(count) => ends[count][progress] += weight * up * after,
                        more => next[more.min(timer.places)][progress] += weight * up,
                    }
                    next[packets][(progress + 1).min(most)] += weight * done;
                    next[packets][progress] += weight * (1.0 - up - done);
                }
            }
            now = next;
        }
        (times, area, full_s, ends)
    }

    #[test]
    fn a_clock_for_each_agrees_with_one_for_both() {
        let paces = [Pace::NONE, Pace { first: 4e5, others: 4e5 }, Pace { first: 9e5, others: 3e5 }];
        for (arrival_pps, packets, places) in [
            (1e5, None, 30),
            (1e5, Some(2), 30),
            (1e5, Some(4), 30),
            (6e5, None, 5),
            (6e5, None, 1),
            (6e5, Some(9), 5),
            (2e3, Some(5), 12),
        ] {
            for (pace, most) in paces.into_iter().flat_map(|pace| [(pace, 3), (pace, 40)]) {
                let timer = Timer { arrival_pps, timer_s: 2e-5, packets, places };
                let waited = timer.solve(pace, most, &Budget::whole()).unwrap();
                let (times, area, full_s, ends) = joint(&timer, pace, most);
                let near = |a: f64, b: f64, unit: f64| {
                    assert!(
                        (a - b).abs() <= 1e-11 * unit,
                        "{arrival_pps} {packets:?} {places} {pace:?} {most}: {a} {b}"
                    );
                };
                near(waited.area, area, area);
                near(waited.full_s, full_s, full_s.max(1e-18));
                for (progress, expected_s) in times.iter().enumerate() {
                    near(waited.times.get(progress).copied().unwrap_or(0.0), *expected_s, timer.timer_s);
                }
                for (packets, expected) in ends.iter().enumerate() {
                    let end = waited.ends.iter().find(|end| end.packets == packets);
                    for (progress, expected) in expected.iter().enumerate() {
                        let share = end.and_then(|end| end.progress.get(progress)).copied().unwrap_or(0.0);
                        near(share, *expected, 1.0);
                    }
                }
            }
        }
    }

    /// If the timer almost never ends the wait, the wait lasts until the number of packets has arrived.
    #[test]
    fn a_count_takes_the_time_of_its_packets() {
        let timer = Timer { arrival_pps: 1e6, timer_s: 1e-4, packets: Some(9), places: 40 };
        let waited = timer.solve(Pace { first: 2e5, others: 5e5 }, 60, &Budget::whole()).unwrap();
        let end = waited.ends.iter().find(|end| end.packets == 9).unwrap();
        let (share, time_s) = (end.progress.iter().sum::<f64>(), end.gathering_s.iter().sum::<f64>());
        assert!((share - 1.0).abs() < 1e-12 && (time_s - 8e-6).abs() < 1e-17, "{share} {time_s}");
    }
}
