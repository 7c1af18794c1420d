//! A wait for a constant time from the last packet, computed one gap between packets at a time, because every packet
//! restarts the timer.

use super::super::budget::Budget;
use super::{End, LEFT_OUT, Pace, Waited};
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::uniform::furthest;
use netcliff_core::math;

/// A wait that ends by a packet timer, or earlier by a number of packets.
pub struct Gaps {
    pub arrival_pps: f64,
    pub timer_s: f64,
    pub packets: Option<usize>,
    pub places: usize,
    /// True: a packet that finds the ring full restarts the timer.
    pub drops_restart: bool,
}

/// One gap: from a packet to the next one or to the end of the timer. k is the number of pieces of work that the
/// application finishes during the gap.
#[derive(Default)]
struct Gap {
    /// `[k]`: P(the next packet arrives before the timer ends, after k pieces of work).
    followed: Vec<f64>,
    /// `[k]`: mean time until the next packet (s); gaps that end otherwise count as 0.
    followed_s: Vec<f64>,
    /// `[k]`: P(the timer ends before the next packet, after k pieces of work).
    ended: Vec<f64>,
    /// `[k]`: mean time with progress k (s).
    spent_s: Vec<f64>,
}

/// Gaps that begin before the application has finished any work, and gaps that begin after.
struct Kinds {
    first: Gap,
    others: Gap,
}

/// State at the beginning of a gap, by the progress so far.
struct Fresh {
    /// Probability.
    share: Vec<f64>,
    /// Mean time from the first to the last packet in the ring (s); other states count as 0.
    gathering_s: Vec<f64>,
    /// Mean time since the last packet in the ring, during which the ring is full (s).
    full_s: Vec<f64>,
}

/// Operations per entry of a convolution, below 1 because several entries are processed at once (approximate).
const ENTRY: f64 = 0.3;
/// Number of convolutions per packet.
const CONVOLUTIONS: f64 = 7.0;

impl Gaps {
    /// Solves the wait; all terms are positive. `None` if the budget does not suffice.
    pub fn solve(&self, pace: Pace, most: usize, budget: &Budget) -> Option<Waited> {
        let counted = self.packets.filter(|packets| *packets <= self.places);
        let restarting = self.kinds(self.arrival_pps, pace, most, budget)?;
        // The timer as it is if dropped packets do not restart it.
        let undisturbed = if counted.is_none() && !self.drops_restart {
            self.kinds(0.0, pace, most, budget)?
        } else {
            Kinds { first: Gap::default(), others: Gap::default() }
        };
        let levels = self.levels(counted);
        let width = restarting.width().max(undisturbed.width());
        budget.take(CONVOLUTIONS * ENTRY * (levels * (most + 1)) as f64 * width as f64)?;
        let mut waited = Waited { times: vec![0.0; most + 1], ..Waited::default() };
        let none = || vec![0.0; most + 1];
        let mut fresh = Fresh { share: none(), gathering_s: none(), full_s: none() };
        fresh.share[0] = 1.0;
        for packets in 1..=levels {
            let mut kinds = &restarting;
            if packets == self.places && self.drops_restart {
                fresh = restarting.restarted(fresh);
            } else if packets == self.places {
                kinds = &undisturbed;
            }
            let spent_s = kinds.carry(&fresh.share, |gap| &gap.spent_s);
            let all_s: f64 = spent_s.iter().sum();
            waited.area += packets as f64 * all_s;
            waited.full_s += if packets == self.places { all_s } else { 0.0 };
            waited.times.iter_mut().zip(&spent_s).for_each(|(sum, time)| *sum += time);
            waited.ends.push(self.timed_out(packets, &fresh, kinds));
            fresh = fresh.followed(kinds);
        }
        if counted == Some(levels + 1) {
            let Fresh { share: progress, gathering_s, full_s: after_s } = fresh;
            waited.ends.push(End { packets: levels + 1, progress, gathering_s, after_s });
        }
        Some(waited)
    }

    /// Maximum number of packets with which the timer may end; more have a negligible probability.
    fn levels(&self, counted: Option<usize>) -> usize {
        // Logarithm of the probability that another packet arrives before the timer ends.
        let followed = math::ln_1p(-math::exp(-self.arrival_pps * self.timer_s));
        // The cast saturates: a float above the largest usize becomes the largest usize.
        let likely = (math::ln(LEFT_OUT) / followed).ceil() as usize;
        counted.map_or(self.places, |packets| packets - 1).min(likely.max(1))
    }

    fn timed_out(&self, packets: usize, fresh: &Fresh, kinds: &Kinds) -> End {
        let ended = |of: &[f64]| kinds.carry(of, |gap| &gap.ended);
        let (progress, full_s) = (ended(&fresh.share), ended(&fresh.full_s));
        let after_s = progress.iter().zip(full_s).map(|(share, full_s)| share * self.timer_s + full_s).collect();
        End { packets, progress, gathering_s: ended(&fresh.gathering_s), after_s }
    }

    /// Computes the gaps between packets that arrive at this rate; `None` if the budget does not suffice.
    fn kinds(&self, arrival_pps: f64, pace: Pace, most: usize, budget: &Budget) -> Option<Kinds> {
        let steady = Pace { first: pace.others, ..pace };
        let gap = |pace| Gap::new(arrival_pps, self.timer_s, pace, most, budget);
        Some(Kinds { first: gap(pace)?, others: gap(steady)? })
    }
}

impl Gap {
    /// Computes a gap by uniformization. `None` if the budget does not suffice.
    fn new(arrival_pps: f64, timer_s: f64, pace: Pace, most: usize, budget: &Budget) -> Option<Self> {
        // Without arrivals and progress, one jump per timer suffices.
        let rate = (arrival_pps + pace.first.max(pace.others)).max(1.0 / timer_s);
        let jumps = rate * timer_s;
        let longest = furthest(jumps);
        budget.take(longest)?;
        let longest = longest as usize;
        let width = (most + 1).min(longest + 1);
        let clock = ArrivalCounts::new(&TimeShape::Deterministic, jumps, longest + 1);
        let none = || vec![0.0; width];
        let mut gap = Self { followed: none(), followed_s: none(), ended: none(), spent_s: none() };
        let mut now = none();
        now[0] = 1.0;
        for jump in 0..=longest {
            budget.take(ENTRY * 4.0 * width as f64)?;
            let (here, after) = (clock.equal.get(jump).copied().unwrap_or(0.0), clock.above[jump]);
            let later = (jump + 1) as f64 / rate * clock.above[jump + 1];
            for (progress, weight) in now.iter().enumerate() {
                gap.ended[progress] += here * weight;
                gap.spent_s[progress] += after / rate * weight;
                gap.followed[progress] += after * arrival_pps / rate * weight;
                gap.followed_s[progress] += later * arrival_pps / rate * weight;
            }
            let mut gained = 0.0;
            for (progress, weight) in now.iter_mut().enumerate() {
                let done = pace.of(progress, width - 1);
                let before = *weight;
                *weight = before * ((rate - arrival_pps - done) / rate).max(0.0) + gained;
                gained = before * done / rate;
            }
        }
        gap.trim();
        Some(gap)
    }

    /// Leaves out numbers of finished pieces of work that are rare among gaps with the same end, because an end may
    /// itself be rare.
    fn trim(&mut self) {
        let last = |part: &[f64]| {
            let rare = LEFT_OUT * part.iter().sum::<f64>();
            part.iter().rposition(|share| *share > rare).unwrap_or(0)
        };
        let kept = 1 + last(&self.followed).max(last(&self.ended));
        for part in [&mut self.followed, &mut self.followed_s, &mut self.ended, &mut self.spent_s] {
            part.truncate(kept);
        }
    }
}

impl Kinds {
    fn width(&self) -> usize {
        self.first.ended.len().max(self.others.ended.len())
    }

    fn at(&self, progress: usize) -> &Gap {
        if progress == 0 { &self.first } else { &self.others }
    }

    /// Adds the pieces of work finished during a gap to those finished before; numbers beyond the last entry count
    /// there.
    fn carry<'a>(&'a self, before: &[f64], part: impl Fn(&'a Gap) -> &'a Vec<f64>) -> Vec<f64> {
        let mut after = vec![0.0; before.len()];
        for (progress, weight) in before.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            add(&mut after[progress..], part(self.at(progress)), *weight);
        }
        after
    }

    /// Expected number of gaps by pieces of work finished at the start, if another gap follows each gap that ends with
    /// a packet.
    fn renewed(&self, mut begun: Vec<f64>) -> Vec<f64> {
        for progress in 0..begun.len() {
            let gap = self.at(progress);
            let stays = if progress + 1 == begun.len() { gap.followed.len() } else { 1 };
            // Equals 1 - P(another gap with the same progress), as a sum of positive terms.
            let leaves: f64 = gap.followed[stays..].iter().chain(&gap.ended).sum();
            begun[progress] /= leaves;
            let weight = begun[progress];
            if let Some(later) = begun.get_mut(progress + 1..).filter(|later| !later.is_empty()) {
                add(later, &gap.followed[1..], weight);
            }
        }
        begun
    }

    /// Sums over all gaps with a full ring, whose packets are lost but restart the timer.
    fn restarted(&self, fresh: Fresh) -> Fresh {
        let share = self.renewed(fresh.share);
        let full_s = self.renewed(self.carry(&share, |gap| &gap.followed_s));
        Fresh { share, gathering_s: self.renewed(fresh.gathering_s), full_s }
    }
}

impl Fresh {
    /// State at the beginning of the next gap.
    fn followed(&self, kinds: &Kinds) -> Self {
        let share = kinds.carry(&self.share, |gap| &gap.followed);
        let mut gathering_s = kinds.carry(&self.gathering_s, |gap| &gap.followed);
        let last_s = kinds.carry(&self.share, |gap| &gap.followed_s);
        gathering_s.iter_mut().zip(last_s).for_each(|(sum, time)| *sum += time);
        Self { share, gathering_s, full_s: vec![0.0; self.full_s.len()] }
    }
}

/// Adds `weight` times `more` to `sums`; values beyond the last entry are added to the last entry.
fn add(sums: &mut [f64], more: &[f64], weight: f64) {
    let fits = more.len().min(sums.len());
    sums.iter_mut().zip(&more[..fits]).for_each(|(sum, more)| *sum += weight * more);
    if let Some(last) = sums.last_mut() {
        *last += weight * more[fits..].iter().sum::<f64>();
    }
}
