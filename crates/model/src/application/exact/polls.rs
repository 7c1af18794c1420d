//! napi's excursions (busy periods of the ring) poll by poll. When a poll begins, and after each of its services, the
//! chain is in a single stage, whatever the number of packets. A poll is therefore computed by packets in the ring
//! only, for several excursions at once, instead of by all stages of the chain.
//!
//! A poll that empties the ring ends with the register write that unmasks the interrupt. If a packet arrives before the
//! write is finished, an interrupt continues the excursion like a new one, with the free space that the socket has at
//! that time.

mod batches;
mod totals;

pub use totals::Pass;

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::weights::LEFT_OUT;
use crate::queue::wide;
use crate::schemes::modulated::Role;

/// Stages of the chain: 0 idle, 1 interrupt, 2 overhead of a poll, 3 unmasking, then one stage for each service of a
/// poll.
const ISR: usize = 1;
const OVERHEAD: usize = 2;
const UNMASK: usize = 3;
const SERVING: usize = 4;

/// Weights below this count as 0: denormal numbers are slow.
const NOTHING: f64 = 1e-280;
/// Number of columns processed in one loop.
const TOGETHER: usize = 16;

/// A stage with an exponential time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    /// P(a packet arrives before the end of the stage).
    up: f64,
    /// P(the stage ends before a packet arrives).
    leave: f64,
    /// Mean time (s).
    mean_s: f64,
}

impl Spread {
    fn new(rate: f64, arrival_pps: f64) -> Self {
        let both = rate + arrival_pps;
        Self { up: arrival_pps / both, leave: rate / both, mean_s: 1.0 / rate }
    }
}

/// Times of a poll.
pub struct Polls {
    /// B: slots of the ring.
    places: usize,
    /// Number of packets in a full poll.
    weight: usize,
    isr: Spread,
    overhead: Spread,
    unmask: Spread,
    /// Services by number of packets waiting in the socket.
    delivers: Vec<Spread>,
    wakes: Option<Spread>,
    drops: Spread,
    /// Weights below this are left out in all computations.
    least: f64,
    /// True if the time of a service does not depend on the packets in the socket.
    is_uniform: bool,
}

impl Polls {
    /// Prepares the computation poll by poll, with a socket of `most` packets; `None` if the chain does not count the
    /// packets of polls.
    pub fn of(excursion: &Excursion, most: usize, budget: &Budget) -> Option<Self> {
        let (start, serving) = excursion.chain.roles.split_at_checked(SERVING)?;
        if start != [Role::Waiting, Role::Interrupt, Role::Poll, Role::Unmask] || serving.len() < 2 {
            return None;
        }
        let arrival_pps = excursion.arrival_pps;
        let local = |stage: usize| -> Option<Spread> {
            let (.., rate) = excursion.chain.local.iter().find(|(from, ..)| *from == stage)?;
            Some(Spread::new(*rate, arrival_pps))
        };
        let service = |kind: Kind| Spread::new(excursion.rates(kind).services(2)[0].2, arrival_pps);
        Some(Self {
            places: excursion.places,
            weight: serving.len(),
            isr: local(ISR)?,
            overhead: local(OVERHEAD)?,
            unmask: local(UNMASK)?,
            delivers: (0..=most).map(|waiting| service(Kind::Delivers { waiting })).collect(),
            wakes: excursion.wakes().then(|| service(Kind::Wakes)),
            drops: service(Kind::Drops),
            least: budget.least(LEFT_OUT),
            is_uniform: excursion.is_uniform(),
        })
    }
}

/// Weights by packets in the ring, for several columns at once.
struct Field {
    /// Number of columns, rounded up to a multiple of [`TOGETHER`].
    columns: usize,
    /// Range of rows with any weight.
    rows: std::ops::Range<usize>,
    /// The rows of the first [`TOGETHER`] columns, then the rows of the next [`TOGETHER`] columns, and so on.
    at: Vec<[f64; TOGETHER]>,
    /// Number of rows.
    height: usize,
    /// Weights below this are left out.
    least: f64,
}

/// Sums over the ends of a stage, one entry per column.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// Number of times the stage ends.
    all: Vec<f64>,
    /// Sum of the packets in the ring at the ends of the stage.
    packets: Vec<f64>,
    /// Sum of the packets in the ring that fit into the socket, at the ends of the stage.
    taken: Vec<f64>,
    /// Number of times the stage ends with a full ring.
    full: Vec<f64>,
}

/// One stage, whose times may differ by column.
#[derive(Debug, Clone, Default)]
struct Stage {
    up: Vec<f64>,
    leave: Vec<f64>,
    mean_s: Vec<f64>,
    /// Free space in the socket, by column.
    room: Vec<f64>,
}

impl Stage {
    fn new(columns: usize) -> Self {
        let none = || vec![0.0; columns.next_multiple_of(TOGETHER)];
        Self { up: none(), leave: none(), mean_s: none(), room: none() }
    }

    fn set(&mut self, column: usize, spread: Spread, room: usize) {
        self.up[column] = spread.up;
        self.leave[column] = spread.leave;
        self.mean_s[column] = spread.mean_s;
        self.room[column] = room as f64;
    }

    /// Makes a stage with the same times in all columns, and a socket without a limit.
    fn alike(columns: usize, spread: Spread) -> Self {
        let mut stage = Self::new(columns);
        (0..columns).for_each(|column| stage.set(column, spread, usize::MAX));
        stage
    }
}

impl Field {
    fn new(columns: usize, polls: &Polls) -> Self {
        let columns = columns.next_multiple_of(TOGETHER);
        let height = polls.places + 1;
        let at = vec![[0.0; TOGETHER]; columns / TOGETHER * height];
        Self { columns, rows: 0..0, at, height, least: polls.least }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Blocks of columns, in the range of rows with any weight.
    fn parts(&self) -> impl Iterator<Item = &[[f64; TOGETHER]]> {
        self.at.chunks(self.height).map(|part| &part[self.rows.clone()])
    }

    fn clear(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.at.chunks_mut(self.height).for_each(|part| part[rows.clone()].fill([0.0; TOGETHER]));
    }

    fn reach(&mut self, rows: std::ops::Range<usize>) {
        self.rows =
            if self.rows.is_empty() { rows } else { self.rows.start.min(rows.start)..self.rows.end.max(rows.end) };
    }

    fn get(&self, packets: usize, column: usize) -> f64 {
        self.at[column / TOGETHER * self.height + packets][column % TOGETHER]
    }

    fn add(&mut self, packets: usize, column: usize, weight: f64) {
        self.at[column / TOGETHER * self.height + packets][column % TOGETHER] += weight;
        self.reach(packets..packets + 1);
    }

    /// Adds another field with the same columns.
    fn add_all(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        for (into, from) in self.at.chunks_mut(self.height).zip(other.at.chunks(self.height)) {
            for packets in other.rows.clone() {
                add(&mut into[packets], |column| from[packets][column]);
            }
        }
        self.reach(other.rows.clone());
    }

    /// Sum of all weights with this number of packets.
    fn row_sum(&self, packets: usize) -> f64 {
        self.at.iter().skip(packets).step_by(self.height).flatten().sum()
    }

    /// Removes the weights of an empty ring and passes them to `each`.
    fn take_empty(&mut self, mut each: impl FnMut(usize, f64)) {
        if self.rows.start > 0 || self.is_empty() {
            return;
        }
        for column in 0..self.columns {
            let weight = &mut self.at[column / TOGETHER * self.height][column % TOGETHER];
            if *weight > 0.0 {
                each(column, std::mem::take(weight));
            }
        }
        self.rows.start = 1;
    }

    /// Sum of all weights.
    fn total(&self) -> f64 {
        self.parts().flatten().flatten().sum()
    }

    /// Leaves out rows of negligible weight at both ends.
    fn trim(&mut self) {
        let heavy = |packets: &usize| self.row_sum(*packets) > self.least;
        let (first, last) = (self.rows.clone().find(heavy), self.rows.clone().rev().find(heavy));
        let kept = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let rows = std::mem::replace(&mut self.rows, kept.clone());
        for part in self.at.chunks_mut(self.height) {
            for packets in rows.clone().filter(|packets| !kept.contains(packets)) {
                part[packets] = [0.0; TOGETHER];
            }
        }
    }

    /// Replaces the weights at a stage's start by the weights at its end: packets arrive during the stage, and one
    /// packet leaves at its end if the stage `serves`.
    fn spend(&mut self, stage: &Stage, serves: bool, sums: &mut Sums) {
        let none = || vec![0.0; self.columns];
        *sums = Sums { all: none(), packets: none(), taken: none(), full: none() };
        if !self.is_empty() {
            self.rows = wide::run(Spend { field: self, stage, serves, sums });
        }
    }
}

struct Spend<'a> {
    field: &'a mut Field,
    stage: &'a Stage,
    serves: bool,
    sums: &'a mut Sums,
}

/// Adds `each(column)` to each column, in order.
#[inline(always)]
fn add(sums: &mut [f64; TOGETHER], each: impl Fn(usize) -> f64) {
    for (column, sum) in sums.iter_mut().enumerate() {
        *sum += each(column);
    }
}

impl wide::Work for Spend<'_> {
    type Output = std::ops::Range<usize>;

    #[inline(always)]
    fn run(self) -> std::ops::Range<usize> {
        let Self { field, stage, serves, sums } = self;
        let Field { height, least, ref rows, ref mut at, .. } = *field;
        let part = |values: &[f64], first: usize| -> [f64; TOGETHER] {
            let mut found = [0.0; TOGETHER];
            found.copy_from_slice(&values[first..first + TOGETHER]);
            found
        };
        let below = usize::from(serves);
        let places = height - 1;
        let mut end = rows.end;
        for (place, at) in at.chunks_exact_mut(height).enumerate() {
            let first = place * TOGETHER;
            let (up, leave, room) = (part(&stage.up, first), part(&stage.leave, first), part(&stage.room, first));
            let mut visits = [0.0; TOGETHER];
            let (mut all, mut sum, mut taken) = ([0.0; TOGETHER], [0.0; TOGETHER], [0.0; TOGETHER]);
            let mut packets = rows.start;
            while packets < places {
                if packets >= rows.end && visits.iter().sum::<f64>() < least {
                    break;
                }
                let here = at[packets];
                for column in 0..TOGETHER {
                    let all = here[column] + up[column] * visits[column];
                    visits[column] = if all > NOTHING { all } else { 0.0 };
                }
                let mut ends = [0.0; TOGETHER];
                for column in 0..TOGETHER {
                    ends[column] = leave[column] * visits[column];
                }
                let count = packets as f64;
                add(&mut all, |column| ends[column]);
                add(&mut sum, |column| count * ends[column]);
                add(&mut taken, |column| ends[column] * if room[column] < count { room[column] } else { count });
                at[packets - below] = ends;
                packets += 1;
            }
            if packets == places && (rows.end > places || visits.iter().sum::<f64>() >= least) {
                // Full ring.
                let mut ends = at[places];
                add(&mut ends, |column| up[column] * visits[column]);
                let count = places as f64;
                add(&mut all, |column| ends[column]);
                add(&mut sum, |column| count * ends[column]);
                add(&mut taken, |column| ends[column] * room[column].min(count));
                at[places - below] = ends;
                sums.full[first..first + TOGETHER].copy_from_slice(&ends);
                packets += 1;
            }
            if serves {
                at[packets - 1] = [0.0; TOGETHER];
            }
            end = end.max(packets);
            sums.all[first..first + TOGETHER].copy_from_slice(&all);
            sums.packets[first..first + TOGETHER].copy_from_slice(&sum);
            sums.taken[first..first + TOGETHER].copy_from_slice(&taken);
        }
        rows.start - below..end - below
    }
}
