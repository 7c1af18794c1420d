//! How many packets an excursion of the ring hands to the socket, and what it costs for each room that the socket has.

use std::cell::Cell;

use super::excursion::{Excursion, Kind, LEFT_OUT, Step, Weights};
use super::rest;
use crate::schemes::modulated::Role;

/// How an excursion begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Packets in the ring.
    pub packets: usize,
    /// The stage they find.
    pub stage: usize,
    /// The application sleeps: the first packet wakes it.
    pub asleep: bool,
}

/// Services of one excursion, counted up to a most.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// P(so many), the last entry: that many or more.
    pub equal: Vec<f64>,
    /// P(so many or more).
    pub at_least: Vec<f64>,
}

/// What excursions add up to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Time in each stage with packets in the ring, and without (s).
    pub present_s: Vec<f64>,
    /// Time in each stage with an empty ring (s).
    pub empty_s: Vec<f64>,
    /// Of the first, what is protocol though the stage's role is not (s).
    pub waking_s: f64,
    /// Time with a full ring (s).
    pub full_s: f64,
    /// Integral of the packets in the ring [packet s].
    pub area: f64,
    /// The same of those that the socket takes.
    pub taken_area: f64,
    /// Integral of the packets in the socket [packet s].
    pub waiting_area: f64,
    /// Packets that the socket takes.
    pub taken: f64,
    /// Packets that find it full.
    pub dropped: f64,
}

impl Totals {
    /// None yet.
    pub fn new(stages: usize) -> Self {
        Self { present_s: vec![0.0; stages], empty_s: vec![0.0; stages], ..Self::default() }
    }

    /// All time (s).
    pub fn time_s(&self) -> f64 {
        self.present_s.iter().chain(&self.empty_s).sum()
    }
}

/// Excursions of one ring below a socket of `most` packets.
pub struct Batches<'a> {
    /// The ring.
    pub excursion: &'a Excursion<'a>,
    /// Packets the socket holds.
    pub most: usize,
    /// (packets, stage) pairs that may still be worked through.
    pub budget: Cell<f64>,
}

impl Batches<'_> {
    /// Runs an excursion from service to service: `each` sees how many there were, the weights then, the step that
    /// follows and the kind of time it is. Ends where the weights vanish, or after `most` services. None where the budget
    /// does not last.
    fn run(&self, start: Start, mut each: impl FnMut(usize, &Weights, Option<(&Step, Kind)>)) -> Option<()> {
        let excursion = self.excursion;
        let mut weights = Weights::one(excursion.stages(), start.packets, start.stage);
        for served in 0..self.most {
            if weights.total() < LEFT_OUT {
                return Some(());
            }
            let mut step = excursion.step(Kind::Delivers, &weights);
            each(served, &weights, Some((&step, Kind::Delivers)));
            self.budget.set(self.budget.get() - step.times.at.len() as f64);
            if self.budget.get() < 0.0 {
                return None;
            }
            if served == 0 && start.asleep && excursion.wakes() {
                // The service is over, the packet still there; its wake-up follows.
                weights = excursion.completed(&step.times);
                step = excursion.step(Kind::Wakes, &weights);
                each(served, &weights, Some((&step, Kind::Wakes)));
            }
            weights = step.next;
        }
        each(self.most, &weights, None);
        Some(())
    }

    /// How many services an excursion has; None where the budget does not last.
    pub fn served(&self, start: Start) -> Option<Served> {
        let mut equal = vec![0.0; self.most + 1];
        let wakes = start.asleep && self.excursion.wakes();
        self.run(start, |served, weights, step| match step {
            None => equal[self.most] += weights.total(),
            // Before the wake-up nothing is delivered.
            Some((_, Kind::Delivers)) if served == 0 && wakes => {}
            Some((step, _)) => {
                equal[served] += step.ended_before;
                equal[served + 1] += step.ended;
            }
        })?;
        let mut at_least = equal.clone();
        for served in (0..self.most).rev() {
            at_least[served] += at_least[served + 1];
        }
        Some(Served { equal, at_least })
    }

    /// Adds to `totals` what excursions from `start` cost that find the socket with room for r packets at the rate
    /// `rooms[r]`; those that fill it go on in `rest`. None where the budget does not last.
    pub fn add(&self, start: Start, rooms: &[f64], totals: &mut Totals, rest: &mut Weights) -> Option<()> {
        let stages = self.excursion.stages();
        // from[r]: rate of a room of r or more.
        let mut from = rooms.to_vec();
        from.push(0.0);
        for room in (0..self.most).rev() {
            from[room] += from[room + 1];
        }
        // filled[m]: sum over rooms r > m of rate x packets that wait at the start.
        let mut filled = vec![0.0; self.most + 2];
        for room in (1..=self.most).rev() {
            filled[room - 1] = filled[room] + rooms[room] * (self.most - room) as f64;
        }
        self.run(start, |served, weights, step| {
            if !matches!(step, Some((_, Kind::Wakes))) {
                rest.add(stages, weights, rooms[served]);
            }
            let Some((step, kind)) = step else { return };
            let rate = from[served + 1];
            if rate == 0.0 {
                return;
            }
            let spent = self.note(&step.times, rate, totals);
            if kind == Kind::Wakes {
                totals.waking_s += rate * self.waking_s(&step.times);
            }
            totals.waiting_area += spent * (filled[served] + served as f64 * rate);
            totals.taken_area += taken_area(&step.times, stages, &from[served + 1..]);
            let wakes = served == 0 && start.asleep && self.excursion.wakes() && kind == Kind::Delivers;
            totals.taken += if wakes { 0.0 } else { rate * (step.next.total() + step.ended) };
        })
    }

    /// What becomes of excursions beyond a full socket; None where that does not fit in memory.
    pub fn add_rest(&self, rest: &Weights, totals: &mut Totals) -> Option<()> {
        if rest.total() < LEFT_OUT {
            return Some(());
        }
        let times = rest::times(self.excursion, rest)?;
        let spent = self.note(&times, 1.0, totals);
        totals.waiting_area += spent * self.most as f64;
        let rates = self.excursion.rates(Kind::Drops);
        for (packets, level) in times.at.chunks(self.excursion.stages()).enumerate() {
            totals.dropped += rates.services(packets).iter().map(|(from, _, rate)| level[*from] * rate).sum::<f64>();
        }
        Some(())
    }

    /// Books times at a rate; all of the time, at rate 1 (s).
    fn note(&self, times: &Weights, rate: f64, totals: &mut Totals) -> f64 {
        let mut spent = 0.0;
        for (place, level) in times.at.chunks(self.excursion.stages()).enumerate() {
            let packets = times.low + place;
            let sums = if packets > 0 { &mut totals.present_s } else { &mut totals.empty_s };
            sums.iter_mut().zip(level).for_each(|(sum, time)| *sum += rate * time);
            let time: f64 = level.iter().sum();
            totals.area += rate * time * packets as f64;
            totals.full_s += if packets == self.excursion.places { rate * time } else { 0.0 };
            spent += time;
        }
        spent
    }

    /// Time of the wake-up's own stages (s).
    fn waking_s(&self, times: &Weights) -> f64 {
        let roles = &self.excursion.chain.roles;
        let first = |level: &[f64]| -> f64 {
            level.iter().zip(roles).filter(|(_, role)| **role == Role::First).map(|(time, _)| time).sum()
        };
        times.at.chunks(self.excursion.stages()).map(first).sum()
    }
}

/// Integral of the packets in the ring that the socket will take: the i-th of them if it has room for i more, at the
/// rate `rooms[i - 1]`.
fn taken_area(times: &Weights, stages: usize, rooms: &[f64]) -> f64 {
    let mut at_least = 0.0;
    let mut sum = 0.0;
    for (place, level) in times.at.chunks(stages).enumerate().rev() {
        at_least += level.iter().sum::<f64>();
        let packets = times.low + place;
        let low = if place == 0 { 1 } else { packets };
        for i in low..=packets {
            sum += at_least * rooms.get(i - 1).copied().unwrap_or(0.0);
        }
    }
    sum
}
