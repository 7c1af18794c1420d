//! Markov chains of (packets, phase) between the deterministic ticks of a timer, for exponential times.
//!
//! Between two ticks the pair is a Markov chain in continuous time; a tick changes the phase. The effect of a period is
//! computed by uniformization (a Poisson mixture of powers, all terms positive). The states just after a tick are then
//! a banded chain, and the times spent follow from the tails of the same mixture. Exact, except for jumps with a
//! probability below [`LEFT_OUT`] per period.

use std::ops::Range;

use crate::answer::Ring;
use crate::queue::banded::Banded;
use crate::queue::matrix::add_scaled;
use crate::queue::qbd::{Blocks, Jump};
use crate::queue::uniform::{Mixture, poisson};

/// A scheme between its ticks, and the effect of a tick.
pub struct Ticks<'a> {
    /// Number of phases.
    pub phases: usize,
    /// Highest level, B.
    pub top: usize,
    /// Time between two ticks (s).
    pub period_s: f64,
    /// (first level, jumps), ascending from level 0; jumps up are arrivals.
    pub runs: Vec<(usize, Blocks)>,
    /// The phase after a tick, from (level, phase).
    pub tick: Box<dyn Fn(usize, usize) -> usize + 'a>,
    /// Arrival rate (pps).
    pub arrival_pps: f64,
    /// Maximum number of packets that the scheme can serve in a period.
    pub served_at_most: usize,
    /// Mean service time (s).
    pub service_s: f64,
}

/// A scheme with a free-running timer.
pub trait Ticked {
    /// The scheme's chain between its ticks.
    fn ticks(&self) -> Ticks<'_>;
    /// True if the application may run in this phase.
    fn is_free(&self, phase: usize) -> bool;
    /// Computes the figures of the scheme from the solution.
    fn ring(&self, solution: &Solution) -> Ring;

    /// Solves the scheme; the error is a reason for the user.
    fn solve(&self) -> Result<Ring, String> {
        Ok(self.ring(&self.ticks().solve()?))
    }
}

/// Long-run shares of time, and of ticks by the state just before them.
pub struct Solution {
    phases: usize,
    /// P(level, phase) over time, level by level.
    times: Vec<f64>,
    /// P(level, phase) just before a tick, level by level.
    before_ticks: Vec<f64>,
}

/// Numbers of jumps per period with a smaller probability are left out.
const LEFT_OUT: f64 = 1e-17;
/// Maximum number of operations, which take some seconds.
const MOST_OPERATIONS: f64 = 1.5e10;
/// Maximum number of states (level, phase), for each of which a few numbers are stored.
const MOST_STATES: f64 = 1.6e7;
/// Maximum number of terms of a period's mixture.
const MOST_TERMS: f64 = 4e3;
/// Minimum number of events in a period: with fewer events, the changes in a period are lost in rounding.
const LEAST_TERMS: f64 = 1e-7;

/// Jumps of a level as (from phase, levels up, to phase, probability), and the probabilities of staying in each phase.
struct Step {
    moves: Vec<(usize, isize, usize, f64)>,
    stays: Vec<f64>,
}

impl Ticks<'_> {
    /// Solves the chain; the error is a reason for the user.
    pub fn solve(&self) -> Result<Solution, String> {
        let mixture = self.mixture()?;
        let steps: Vec<Step> = self.runs.iter().map(|(_, blocks)| self.step(blocks, mixture.rate)).collect();
        let at_ticks = self.after_ticks(&mixture, &steps)?;
        let levels = self.top + 1;
        let mut start = vec![0.0; levels * self.phases];
        let total: f64 = at_ticks.iter().map(|(_, share)| share).sum();
        at_ticks.iter().for_each(|(place, share)| start[*place] = share / total);
        let (before_ticks, mut times) = self.period(start, 0, &mixture, &steps, true);
        let spent: f64 = times.iter().sum();
        times.iter_mut().for_each(|time| *time /= spent);
        Ok(Solution { phases: self.phases, times, before_ticks })
    }

    /// Number of operations needed to solve the chain; the error is a reason for the user.
    pub fn operations(&self) -> Result<f64, String> {
        // Computed first, because it refuses a period with too many events, whose distribution would not fit into
        // memory.
        let mixture = self.mixture()?;
        Ok(self.band().operations(self, mixture.ends.len()))
    }

    /// Jumps from a (level, phase): (target, whether a service ends with it, rate (1/s)).
    pub fn jumps(&self, level: usize, phase: usize) -> Vec<((usize, usize), bool, f64)> {
        let run = self.runs.partition_point(|(first, _)| *first <= level) - 1;
        let blocks = &self.runs[run].1;
        let from = |jumps: &[Jump], to_level: usize, served: bool| {
            let own = jumps.iter().filter(|(from, ..)| *from == phase);
            own.map(|(_, to, rate)| ((to_level, *to), served, *rate)).collect::<Vec<_>>()
        };
        let up = from(&blocks.up, level + 1, false);
        [up, from(&blocks.local, level, false), from(&blocks.down, level.saturating_sub(1), true)].concat()
    }

    /// Returns the levels that a period can reach from the states just after a tick.
    fn band(&self) -> Band {
        Band {
            ticked: self.ticked(),
            up: reach(self.arrival_pps * self.period_s).min(self.top),
            down: reach(self.period_s / self.service_s).min(self.served_at_most).min(self.top),
        }
    }

    fn mixture(&self) -> Result<Mixture, String> {
        let leaving = |blocks: &Blocks| {
            let mut sums = vec![0.0; self.phases];
            let jumps = blocks.up.iter().chain(&blocks.local).chain(&blocks.down);
            jumps.for_each(|(from, _, rate)| sums[*from] += rate);
            sums.into_iter().fold(0.0, f64::max)
        };
        let rate = self.runs.iter().map(|(_, blocks)| leaving(blocks)).fold(0.0, f64::max);
        let load = rate * self.period_s;
        if load > MOST_TERMS {
            return Err(format!(
                "a timer's period of {:.3e} s holds some {load:.0} events of the chain, more than the {MOST_TERMS} it is \
                 solved with: use the simulator",
                self.period_s
            ));
        }
        if load < LEAST_TERMS {
            return Err(format!(
                "a timer's period of {:.3e} s holds some {load:.1e} events of the chain, fewer than the {LEAST_TERMS:.0e} that double \
                 precision resolves: give a longer period",
                self.period_s
            ));
        }
        Ok(Mixture::over(rate, self.period_s))
    }

    fn step(&self, blocks: &Blocks, rate: f64) -> Step {
        let mut stays = vec![rate; self.phases];
        let mut moves = Vec::new();
        let mut add = |jumps: &[Jump], up: isize| {
            for (from, to, jump) in jumps {
                moves.push((*from, up, *to, jump / rate));
                stays[*from] -= jump;
            }
        };
        add(&blocks.up, 1);
        add(&blocks.local, 0);
        add(&blocks.down, -1);
        // For the fastest phase the remainder is only a rounding error, so that it is set to 0.
        let stays = stays.into_iter().map(|stay| if stay < 1e-13 * rate { 0.0 } else { stay / rate }).collect();
        Step { moves, stays }
    }

    /// Returns the distribution one period after `start` (whose first level is `base`), before the tick. If `timed`,
    /// also returns the time spent in each state.
    fn period(
        &self,
        start: Vec<f64>,
        base: usize,
        mixture: &Mixture,
        steps: &[Step],
        timed: bool,
    ) -> (Vec<f64>, Vec<f64>) {
        let levels = start.len() / self.phases;
        // Stored phase by phase, so that a jump of many levels is one sum over a slice.
        let (mut now, mut next) = (transposed(&start, self.phases), vec![0.0; start.len()]);
        let mut ended = vec![0.0; start.len()];
        let mut spent = vec![0.0; if timed { start.len() } else { 0 }];
        let mut held = 0..levels;
        // Phases with any probability; most phases cannot be reached within a period.
        let mut live: Vec<bool> = now.chunks(levels).map(|phase| phase.iter().any(|share| *share > 0.0)).collect();
        for (end, spent_s) in mixture.ends.iter().zip(&mixture.spent_s) {
            held = trimmed(&now, levels, held);
            for first in (0..self.phases).filter(|phase| live[*phase]).map(|phase| phase * levels) {
                let here = first + held.start..first + held.end;
                add_scaled(&mut ended[here.clone()], &now[here.clone()], *end);
                if timed {
                    add_scaled(&mut spent[here.clone()], &now[here], *spent_s);
                }
            }
            let reached = held.start.saturating_sub(1)..(held.end + 1).min(levels);
            for first in (0..now.len()).step_by(levels) {
                next[first + reached.start..first + reached.end].fill(0.0);
            }
            let mut reaches = live.clone();
            for (run, step) in steps.iter().enumerate() {
                let first = self.runs[run].0.saturating_sub(base).max(held.start);
                let end =
                    self.runs.get(run + 1).map_or(usize::MAX, |(next, _)| next.saturating_sub(base)).min(held.end);
                if first < end {
                    step.take((&now, &live), (&mut next, &mut reaches), levels, first..end);
                }
            }
            live = reaches;
            std::mem::swap(&mut now, &mut next);
            held = reached;
        }
        (transposed(&ended, levels), transposed(&spent, levels))
    }

    /// Returns (state, weight) of the states just after a tick.
    fn after_ticks(&self, mixture: &Mixture, steps: &[Step]) -> Result<Vec<(usize, f64)>, String> {
        let band = self.band();
        let operations = band.operations(self, mixture.ends.len());
        let Band { ticked, up, down } = band;
        let kinds = ticked.len();
        let (band_up, band_down) = (up * kinds + kinds - 1, down * kinds + kinds - 1);
        let states = (self.top + 1) * kinds;
        if operations > MOST_OPERATIONS || (self.top + 1) as f64 * self.phases as f64 > MOST_STATES {
            return Err(format!(
                "a ring of {} with up to {up} packets and {kinds} states of the cycle a period needs {operations:.1e} \
                 operations: use fidelity paper, a smaller ring or quota, or the simulator",
                self.top
            ));
        }
        let row = |level: usize, kind: usize| {
            let base = level.saturating_sub(down);
            let mut start = vec![0.0; ((level + up).min(self.top) - base + 1) * self.phases];
            start[(level - base) * self.phases + ticked[kind]] = 1.0;
            let (ended, _) = self.period(start, base, mixture, steps, false);
            let mut row = vec![0.0; band_down + band_up + 1];
            for (place, share) in ended.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let (target, phase) = (base + place / self.phases, place % self.phases);
                let Some(to) = ticked.iter().position(|one| *one == (self.tick)(target, phase)) else { continue };
                row[band_down + target * kinds + to - level * kinds - kind] += share;
            }
            row
        };
        // Range of states from which a period reaches neither the bottom nor the top.
        let between = (down + 2)..self.top.saturating_sub(up + 1);
        let common: Vec<Vec<f64>> =
            if between.is_empty() { Vec::new() } else { (0..kinds).map(|kind| row(between.start, kind)).collect() };
        let mut rows = |state: usize| {
            let (level, kind) = (state / kinds, state % kinds);
            if between.contains(&level) { common[kind].clone() } else { row(level, kind) }
        };
        let alike = between.start * kinds..between.end.max(between.start) * kinds;
        let band = Banded { states, down: band_down, up: band_up, alike, period: kinds, row: &mut rows };
        let weights = band.stationary().ok_or("the chain at ticks does not fit in memory: use the simulator")?;
        let place = |state: usize| state / kinds * self.phases + ticked[state % kinds];
        Ok(weights.into_iter().enumerate().map(|(state, weight)| (place(state), weight)).collect())
    }

    /// Phases that may follow a tick; those with the fewest packets come first.
    fn ticked(&self) -> Vec<usize> {
        let mut found = vec![(self.tick)(0, 0)];
        for level in [0, 1, self.top] {
            for phase in 0..self.phases {
                let after = (self.tick)(level, phase);
                if !found.contains(&after) {
                    found.push(after);
                }
            }
        }
        found
    }
}

/// Phases just after a tick, and how many levels up and down a period reaches.
struct Band {
    ticked: Vec<usize>,
    up: usize,
    down: usize,
}

impl Band {
    /// Number of operations for the band's elimination, for its rows, and for the last pass, for a period with this
    /// number of terms.
    fn operations(&self, ticks: &Ticks<'_>, terms: usize) -> f64 {
        let kinds = self.ticked.len();
        let wide = |levels: usize| (levels * kinds + kinds - 1) as f64;
        let states = ((ticks.top + 1) * kinds) as f64;
        let rows = ((2 * self.up + self.down + 1).min(ticks.top + 1) * kinds) as f64;
        let window = ((self.up + self.down + 1) * ticks.phases * 4 * terms) as f64;
        let last_pass = (ticks.top + 1) as f64 * ticks.phases as f64 * 4.0 * terms as f64;
        states * wide(self.up) * wide(self.down) + rows * window + last_pass
    }
}

impl Step {
    /// Applies one jump to all probability in the levels `held`. The probability that leaves this range is below
    /// [`LEFT_OUT`].
    fn take(
        &self,
        (now, live): (&[f64], &[bool]),
        (next, reaches): (&mut [f64], &mut [bool]),
        levels: usize,
        held: Range<usize>,
    ) {
        let slice = |phase: usize, range: &Range<usize>| phase * levels + range.start..phase * levels + range.end;
        for (phase, stay) in self.stays.iter().enumerate().filter(|(phase, _)| live[*phase]) {
            add_scaled(&mut next[slice(phase, &held)], &now[slice(phase, &held)], *stay);
        }
        for (from, up, to, probability) in self.moves.iter().filter(|(from, ..)| live[*from]) {
            reaches[*to] = true;
            let (leaves, lands) = match up {
                1 => (held.start..held.end.min(levels - 1), held.start + 1..(held.end + 1).min(levels)),
                -1 => (held.start.max(1)..held.end, held.start.max(1) - 1..held.end - 1),
                _ => (held.clone(), held.clone()),
            };
            add_scaled(&mut next[slice(*to, &lands)], &now[slice(*from, &leaves)], *probability);
        }
    }
}

/// Transposes a matrix with rows of this width.
fn transposed(rows: &[f64], wide: usize) -> Vec<f64> {
    (0..wide).flat_map(|column| rows.iter().skip(column).step_by(wide).copied()).collect()
}

/// Shortens `held` by negligible levels at both ends: denormal numbers are slow and do not vanish by themselves.
fn trimmed(now: &[f64], levels: usize, held: Range<usize>) -> Range<usize> {
    let holds = |level: &usize| now.iter().skip(*level).step_by(levels).any(|share| *share > 1e-40);
    let Some(first) = held.clone().find(holds) else { return held.start..held.start };
    let last = held.rev().find(holds).unwrap_or(first);
    first..last + 1
}

/// Divides the levels of a ring into runs with equal jumps.
pub fn runs(top: usize, blocks: impl Fn(usize) -> Blocks) -> Vec<(usize, Blocks)> {
    let mut firsts = vec![0, 1, 2, top];
    firsts.retain(|first| *first <= top);
    firsts.sort_unstable();
    firsts.dedup();
    firsts.into_iter().map(|first| (first, blocks(first))).collect()
}

/// A Poisson variable with this mean exceeds the returned number with a probability below [`LEFT_OUT`].
fn reach(mean: f64) -> usize {
    let counts = poisson(mean);
    counts.above.iter().position(|tail| *tail < LEFT_OUT).unwrap_or(counts.above.len() - 1)
}

impl Solution {
    /// Returns the larger of two probabilities of a (level, phase): over time, and just before a tick.
    pub fn seen(&self, level: usize, phase: usize) -> f64 {
        let place = level * self.phases + phase;
        self.times[place].max(self.before_ticks[place])
    }

    /// Share of time in phases for which `pick` is true.
    pub fn share(&self, pick: impl Fn(usize) -> bool) -> f64 {
        self.share_where(|_, phase| pick(phase))
    }

    /// Share of time in (level, phase) for which `pick` is true.
    pub fn share_where(&self, pick: impl Fn(usize, usize) -> bool) -> f64 {
        let taken = |(place, _): &(usize, &f64)| pick(place / self.phases, place % self.phases);
        self.times.iter().enumerate().filter(taken).map(|(_, time)| time).sum()
    }

    /// Share of ticks just before which the chain is in a phase for which `pick` is true.
    pub fn ticks_finding(&self, pick: impl Fn(usize) -> bool) -> f64 {
        self.before_ticks.iter().enumerate().filter(|(place, _)| pick(place % self.phases)).map(|(_, p)| p).sum()
    }

    /// Share of time at the highest level.
    pub fn full(&self) -> f64 {
        self.times[self.times.len() - self.phases..].iter().sum()
    }

    /// Mean level.
    pub fn mean_level(&self) -> f64 {
        self.times.iter().enumerate().map(|(place, time)| (place / self.phases) as f64 * time).sum()
    }
}
