//! Waits for a number of packets or for an exponential time: one exponential stage for each number of packets.

use super::super::budget::Budget;
use super::{End, LEFT_OUT, Pace, Waited};
use crate::queue::wide;
use netcliff_core::math;

/// A wait made of exponential stages, one for each number of packets.
pub struct Stages {
    pub arrival_pps: f64,
    /// Rate at which the wait ends without packets (1/s).
    pub ends_per_s: f64,
    /// Number of packets with which the wait ends.
    pub packets: usize,
    pub places: usize,
}

/// Numbers of finished pieces of work with a smaller probability are not computed.
const NEVER: f64 = 1e-15;
/// Number of vectors over progress that are passed from stage to stage.
const VECTORS: usize = 3;
/// Operations per entry of these vectors.
const ENTRY: usize = 8;

impl Stages {
    pub fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let most = most.min(self.furthest(pace, budget));
        let mut waited = Waited { times: vec![0.0; most + 1], ..Waited::default() };
        let mut entry = vec![0.0; most + 1];
        entry[0] = 1.0;
        // Time since the first packet, for each number j of pieces of work finished at the entry to the stage.
        let mut gathering = vec![0.0; most + 1];
        for packets in 1..=self.places {
            budget.take((ENTRY * VECTORS * most) as f64)?;
            let arrivals = if packets < self.places { self.arrival_pps } else { 0.0 };
            let out = arrivals + self.ends_per_s;
            spend(&mut entry, pace, out);
            // Time in this stage so far.
            let mut own = entry.clone();
            spend(&mut own, pace, out);
            spend(&mut gathering, pace, out);
            let spent: f64 = entry.iter().sum();
            wide::add(&mut waited.times, &entry, 1.0);
            waited.area += packets as f64 * spent;
            waited.full_s += if packets == self.places { spent } else { 0.0 };
            if self.ends_per_s > 0.0 {
                let [progress, gathering_s, after_s] =
                    [&entry, &gathering, &own].map(|of| of.iter().map(|time| self.ends_per_s * time).collect());
                waited.ends.push(End { packets, progress, gathering_s, after_s });
            }
            wide::add(&mut gathering, &own, 1.0);
            entry.iter_mut().chain(&mut gathering).for_each(|time| *time *= arrivals);
            if packets + 1 == self.packets {
                // The last packet interrupts at once and does not wait.
                let after_s = vec![0.0; most + 1];
                waited.ends.push(End { packets: packets + 1, progress: entry, gathering_s: gathering, after_s });
                return Some(waited);
            }
            if entry.iter().sum::<f64>() < budget.least(LEFT_OUT) {
                break;
            }
        }
        Some(waited)
    }
}

impl Stages {
    /// Largest progress with a noticeable probability, at least 1.
    fn furthest(&self, pace: Pace, budget: &Budget) -> usize {
        if pace.others == 0.0 {
            return 1;
        }
        if self.ends_per_s == 0.0 {
            return usize::MAX;
        }
        // Logarithm of the probability that another piece of work is finished before the wait ends.
        let more = -math::ln_1p(self.ends_per_s / pace.others);
        // The cast saturates: a float above the largest usize becomes the largest usize.
        ((math::ln(budget.least(NEVER)) / more).ceil() as usize).saturating_add(2)
    }
}

/// Replaces the rates of entering a stage, by finished pieces of work, by the expected times in the stage, which ends
/// at rate `out`. The first entry is 1 piece; the last one includes all larger numbers.
fn spend(entered: &mut [f64], pace: Pace, out: f64) {
    let most = entered.len() - 1;
    let (first, others) = (pace.of(0, most), pace.of(1, most));
    entered[0] /= out + first;
    let mut gained = entered[0] * first;
    let stay = 1.0 / (out + others);
    for weight in &mut entered[1..most] {
        *weight = (*weight + gained) * stay;
        gained = *weight * others;
    }
    entered[most] = (entered[most] + gained) / out;
}
