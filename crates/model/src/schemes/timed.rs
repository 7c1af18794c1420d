//! coalesce with a deterministic timer, unmasked: interrupts preempt protocol work, and packets are served only after
//! an interrupt has announced them. Exact for exponential times, as a chain observed at the ends of interrupts.
//!
//! At the end of an interrupt all packets are announced, so that the number of packets (the level) alone is a Markov
//! chain at these points. A cycle with a timer is: a wait for the first packet, the timer (or a count, if it is reached
//! first), the ISR. A cycle with a minimum gap is: the gap, a wait if no packet has arrived during the gap, the ISR.
//! Announced packets are served except during the ISR. During the deterministic time the pair (announced, not
//! announced) is a Markov chain, computed by uniformization; if announced packets cannot run out, the level alone
//! suffices.

mod stretch;

use netcliff_core::Coalesce;
use netcliff_core::math;

use super::Work;
use crate::answer::{Ring, Shares};
use crate::queue::banded::Banded;
use stretch::Stretch;

/// Maximum number of operations, which take some seconds.
const MOST_OPERATIONS: f64 = 6e9;
/// Maximum number of probabilities stored: 256 MiB.
const MOST_KEPT: f64 = 3.3e7;
/// States with a smaller total probability have no influence on figures with an error of 1e-9.
const RARE: f64 = 1e-12;

/// Condition that ends a gathering of packets, with one deterministic time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    /// The interrupt comes this time after the first packet (s), or with this number of frames.
    Timer(f64, Option<usize>),
    /// The interrupt comes this time after the previous one (s) or, if later, with the first packet.
    Gap(f64),
}

impl Ending {
    /// Returns the ending of an unmasked scheme with timers; `None` if the scheme has features that this chain lacks.
    pub fn of(coalesce: &Coalesce) -> Option<Self> {
        let on = |timer: Option<f64>| timer.filter(|seconds| *seconds > 0.0);
        let frames = coalesce.frames.filter(|frames| *frames > 1);
        match (on(coalesce.absolute_timer_s), on(coalesce.packet_timer_s), on(coalesce.min_gap_s)) {
            // Not supported: if dropped frames count, the count would be another dimension of the chain.
            (Some(_), None, None) if frames.is_some() && coalesce.drops_interrupt => None,
            (Some(timer_s), None, None) if coalesce.frames != Some(1) => {
                Some(Self::Timer(timer_s, frames.map(|frames| frames as usize)))
            }
            (None, None, Some(gap_s)) if frames.is_none() && !coalesce.drops_interrupt => Some(Self::Gap(gap_s)),
            _ => None,
        }
    }
}

/// Mean times of a cycle (s), up to its ISR and during it, and the integral of the packets present.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Tally {
    /// Length of the cycle.
    length_s: f64,
    /// Time without announced packets.
    idle_s: f64,
    /// Time in which announced packets are served.
    busy_s: f64,
    /// Time with one announced packet left.
    last_s: f64,
    /// Time with a full ring.
    full_s: f64,
    /// Integral over time of the packets present [packet s].
    present: f64,
}

impl Tally {
    fn add(&mut self, other: &Self, weight: f64) {
        self.length_s += weight * other.length_s;
        self.idle_s += weight * other.idle_s;
        self.busy_s += weight * other.busy_s;
        self.last_s += weight * other.last_s;
        self.full_s += weight * other.full_s;
        self.present += weight * other.present;
    }
}

/// Distribution of the next level, and the times until then.
#[derive(Debug, Clone, Default)]
struct Row {
    /// Level of the first entry.
    base: usize,
    levels: Vec<f64>,
    tally: Tally,
}

impl Row {
    fn at(level: usize) -> Self {
        Self { base: level, levels: vec![1.0], tally: Tally::default() }
    }

    fn add(&mut self, other: &Self, weight: f64) {
        if other.levels.is_empty() {
            return;
        }
        if self.levels.is_empty() {
            self.base = other.base;
        }
        let (base, end) =
            (self.base.min(other.base), (self.base + self.levels.len()).max(other.base + other.levels.len()));
        if base < self.base {
            let missing = self.base - base;
            self.levels.splice(0..0, std::iter::repeat_n(0.0, missing));
            self.base = base;
        }
        self.levels.resize(end - base, 0.0);
        let place = other.base - base;
        self.levels[place..].iter_mut().zip(&other.levels).for_each(|(sum, share)| *sum += weight * share);
        self.tally.add(&other.tally, weight);
    }

    /// Leaves out the lowest levels, whose weight is negligible.
    fn trimmed(mut self) -> Self {
        let mut sum = 0.0;
        let rare = self.levels.iter().take_while(|share| {
            sum += **share;
            sum < stretch::LEFT_OUT
        });
        let cut = rare.count().min(self.levels.len().saturating_sub(1));
        self.levels.drain(..cut);
        self.base += cut;
        self
    }

    /// Returns the same row, `by` packets higher: unless an end of the ring is reached, nothing else changes.
    fn raised(&self, by: usize) -> Self {
        let mut row = self.clone();
        row.base += by;
        row.tally.present += by as f64 * row.tally.length_s;
        row
    }
}

struct Chain<'a> {
    work: &'a Work,
    places: usize,
    ending: Ending,
    drops_interrupt: bool,
    stretch: Stretch,
}

/// Solves the scheme; the error is a reason for the user.
pub fn solve(work: &Work, ending: Ending, drops_interrupt: bool) -> Result<Ring, String> {
    let places = work.places as usize;
    let (time_s, frames) = match ending {
        Ending::Timer(timer_s, frames) => (timer_s, frames),
        Ending::Gap(gap_s) => (gap_s, None),
    };
    let stretch = Stretch::new(work.arrival_pps, work.service_pps(), places, time_s, frames)?;
    let chain = Chain { work, places, ending, drops_interrupt, stretch };
    // If announced packets may run out while the ring is full, the level alone is not a Markov chain. But in a stable
    // queue the ring is almost never full, and in overload announced packets never run out. The first pass therefore
    // assumes that this case does not matter.
    for exact in [false, true] {
        chain.afford(exact)?;
        let rows = chain.rows(exact);
        let weights = chain.stationary(&rows)?;
        let total: f64 = weights.iter().sum();
        if exact || chain.approximated(&weights) <= RARE * total {
            return Ok(chain.ring(&rows, &weights, total));
        }
    }
    Err("unmasked coalescing: no chain was solved".to_owned())
}

impl Chain<'_> {
    /// Error if the chain would take too long.
    fn afford(&self, exact: bool) -> Result<(), String> {
        let places = self.places as f64;
        let (down, up) = (self.longest_down() as f64, self.longest_up() as f64);
        let kept = places * (down + up).min(places);
        let operations = self.stretch.operations(exact || self.by_both()) + places * down * up;
        if operations <= MOST_OPERATIONS && kept <= MOST_KEPT {
            return Ok(());
        }
        Err(format!(
            "unmasked coalescing with a timer of {} at {} and a ring of {} needs {operations:.1e} operations: use \
             masked=true, a smaller ring, fidelity paper or the simulator",
            netcliff_core::units::print_time_s(self.stretch.length_s),
            netcliff_core::units::print_pps(self.work.arrival_pps),
            self.places
        ))
    }

    /// Returns true if all parts are computed with announced and waiting packets separately.
    fn by_both(&self) -> bool {
        !matches!(self.ending, Ending::Timer(_, None))
    }

    /// Total weight of the parts that were computed by the level alone although the level is not a Markov chain in
    /// these parts. `weights`: weight of each level, from the lowest on.
    fn approximated(&self, weights: &[f64]) -> f64 {
        if self.by_both() {
            return 0.0;
        }
        let served = self.served_first();
        let (mut visits, mut sum) = (0.0, 0.0);
        for level in (0..=self.places).rev() {
            // Share that reaches this level from the level above by a service; a full ring that does not interrupt is
            // reached in no other way.
            let from_above = if level + 1 == self.places && !self.drops_interrupt { 1.0 } else { served };
            let own = level.checked_sub(self.lowest()).map_or(0.0, |place| weights[place]);
            visits = own + from_above * visits;
            let starts = if level == 0 { visits } else { (1.0 - served) * visits };
            if self.stretch.needs_both(level, self.waiting()) {
                sum += starts;
            }
        }
        sum
    }

    /// P(a service ends before an arrival).
    fn served_first(&self) -> f64 {
        self.work.service_pps() / (self.work.service_pps() + self.work.arrival_pps)
    }

    /// Maximum number of services of a cycle; more are negligible.
    fn longest_down(&self) -> usize {
        let waiting = (math::ln(stretch::LEFT_OUT) / math::ln(self.served_first())).abs();
        (waiting.min(self.places as f64) as usize + 1 + self.stretch.down).min(self.places)
    }

    /// Maximum number of packets that a cycle adds.
    fn longest_up(&self) -> usize {
        let load = self.work.arrival_pps * self.work.interrupt_s;
        let in_isr =
            if load == 0.0 { 0.0 } else { (math::ln(stretch::LEFT_OUT) / math::ln(load / (1.0 + load))).abs() };
        (in_isr.min(self.places as f64) as usize + 2 + self.stretch.up).min(self.places)
    }

    /// Computes the cycle from each level, from the lowest to the top. Unless `exact`, uses the level alone, even if
    /// the ring may be full.
    fn rows(&self, exact: bool) -> Vec<Row> {
        let (lambda, mu) = (self.work.arrival_pps, self.work.service_pps());
        let mut alike: Option<(usize, Row)> = None;
        let mut stretched = |announced: usize, waiting: usize| -> Row {
            let shifts = announced >= self.stretch.down && announced + waiting + self.stretch.up <= self.places;
            if let Some((from, row)) = alike.as_ref().filter(|_| shifts && waiting == self.waiting()) {
                return row.raised(announced - from);
            }
            let row = self.stretch.row(announced, waiting, exact, matches!(self.ending, Ending::Gap(_)));
            if shifts && waiting == self.waiting() {
                alike = Some((announced, row.clone()));
            }
            row
        };
        let mut before: Vec<Row> = Vec::with_capacity(self.places + 1);
        // Row of a wait for a packet, which leads to the row of state `next`.
        let wait = |level: usize, met: &Row, lower: Option<&Row>| -> Row {
            let full = level == self.places;
            let counts = !full || self.drops_interrupt;
            let rate = if counts { lambda } else { 0.0 } + if level > 0 { mu } else { 0.0 };
            let mut row = Row::default();
            if counts {
                row.add(met, lambda / rate);
            }
            if let Some(lower) = lower {
                row.add(lower, mu / rate);
            }
            let here_s = 1.0 / rate;
            row.tally.length_s += here_s;
            *(if level == 0 { &mut row.tally.idle_s } else { &mut row.tally.busy_s }) += here_s;
            row.tally.last_s += if level == 1 { here_s } else { 0.0 };
            row.tally.full_s += if full { here_s } else { 0.0 };
            row.tally.present += level as f64 * here_s;
            row.trimmed()
        };
        match self.ending {
            Ending::Timer(..) => {
                for level in 0..=self.places {
                    // A packet that finds the ring full also starts the timer, if dropped packets count.
                    let met = if level < self.places {
                        stretched(level, 1)
                    } else if self.drops_interrupt {
                        stretched(level, 0)
                    } else {
                        Row::default()
                    };
                    let row = wait(level, &met, before.last());
                    before.push(row);
                }
            }
            Ending::Gap(_) => {
                let mut waits: Vec<Row> = Vec::with_capacity(self.places + 1);
                for level in 0..=self.places {
                    let met = Row::at((level + 1).min(self.places));
                    let row = wait(level, &met, waits.last());
                    waits.push(row);
                    let mut gap = stretched(level, 0);
                    // The second half of the entries is for gaps without arrivals, by announced packets left.
                    let nothing = std::mem::take(&mut gap.levels);
                    let (with, without) = nothing.split_at(nothing.len() / 2);
                    gap.levels = with.to_vec();
                    let base = gap.base;
                    for (n, share) in without.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                        gap.add(&waits[base + n], *share);
                    }
                    before.push(gap.trimmed());
                }
            }
        }
        before.into_iter().skip(self.lowest()).map(|row| self.interrupted(row)).collect()
    }

    /// Number of packets not yet announced when the deterministic time begins.
    fn waiting(&self) -> usize {
        usize::from(matches!(self.ending, Ending::Timer(..)))
    }

    /// Adds the ISR: arrivals during it, limited by the ring.
    fn interrupted(&self, mut row: Row) -> Row {
        let load = self.work.arrival_pps * self.work.interrupt_s;
        let (up, stay) = (load / (1.0 + load), 1.0 / (1.0 + load));
        let length = (row.levels.len() + self.longest_up()).min(self.places + 1 - row.base);
        row.levels.resize(length, 0.0);
        let mut visits = 0.0;
        for (n, share) in row.levels.iter_mut().enumerate() {
            let level = row.base + n;
            visits = *share + up * visits;
            let full = level == self.places;
            *share = if full { visits } else { stay * visits };
            let here_s = *share * self.work.interrupt_s;
            row.tally.present += level as f64 * here_s;
            row.tally.full_s += if full { here_s } else { 0.0 };
        }
        row.tally.length_s += self.work.interrupt_s;
        row
    }

    /// Lowest level at the end of an interrupt: each interrupt announces a packet, unless a dropped packet caused it.
    fn lowest(&self) -> usize {
        usize::from(!self.drops_interrupt)
    }

    /// Weights of the levels at the ends of interrupts, from the lowest to the top.
    fn stationary(&self, rows: &[Row]) -> Result<Vec<f64>, String> {
        let lowest = self.lowest();
        let below = |(n, row): (usize, &Row)| (n + lowest).saturating_sub(row.base);
        let above = |(n, row): (usize, &Row)| (row.base + row.levels.len()).saturating_sub(n + lowest + 1);
        let down = rows.iter().enumerate().map(below).max().unwrap_or(1).max(1);
        let up = rows.iter().enumerate().map(above).max().unwrap_or(1).max(1);
        let mut row = |state: usize| {
            let mut band = vec![0.0; down + up + 1];
            let Row { base, levels, .. } = &rows[state];
            let first = (*base).max(lowest);
            let place = first + down - lowest - state;
            band[place..].iter_mut().zip(&levels[first - base..]).for_each(|(to, share)| *to = *share);
            band
        };
        let band = Banded { states: rows.len(), down, up, alike: 0..0, period: 1, row: &mut row };
        band.stationary().ok_or_else(|| "unmasked coalescing: the chain does not fit in memory".to_owned())
    }

    fn ring(&self, rows: &[Row], weights: &[f64], total: f64) -> Ring {
        let mut all = Tally::default();
        rows.iter().zip(weights).for_each(|(row, weight)| all.add(&row.tally, weight / total));
        let work = self.work;
        let cycles = 1.0 / all.length_s;
        let interrupt = work.interrupt_s * cycles;
        let available = all.idle_s * cycles;
        let protocol = all.busy_s * cycles;
        let throughput_pps = protocol * work.service_pps();
        let mean_present = all.present * cycles;
        Ring {
            throughput_pps,
            loss: all.full_s * cycles,
            mean_present,
            mean_latency_s: mean_present / throughput_pps,
            quantiles: None,
            latencies: None,
            interrupts_per_s: cycles,
            cycles_per_s: all.last_s * cycles * work.service_pps(),
            clocked: true,
            polls_per_s: None,
            shares: Shares { interrupt, poll: 0.0, protocol, available },
            exact: true,
            notes: Vec::new(),
        }
    }
}
