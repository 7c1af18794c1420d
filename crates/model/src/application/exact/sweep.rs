//! What all excursions together come to: those that have the same room left in the socket go on alike, so that one pass from an empty
//! socket to a full one takes them all.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::rest;
use super::weights::{LEFT_OUT, Weights, sum};
use crate::schemes::modulated::Role;

/// Excursions begun, by packets in the ring.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Begun {
    /// By room in the socket.
    pub awake: Vec<(usize, Vec<f64>)>,
    /// Those that find the application asleep, the socket empty.
    pub asleep: Vec<(usize, f64)>,
}

impl Begun {
    /// All of them.
    pub fn total(&self) -> f64 {
        let awake: f64 = self.awake.iter().flat_map(|(_, rooms)| rooms).sum();
        awake + self.asleep.iter().map(|(_, rate)| rate).sum::<f64>()
    }
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

/// One pass over the excursions of a ring below a socket of `most` packets.
pub struct Sweep<'a> {
    /// The ring.
    pub excursion: &'a Excursion,
    /// The stage in which an excursion begins.
    pub stage: usize,
    /// Packets the socket holds.
    pub most: usize,
    /// What the work is taken from.
    pub budget: &'a Budget,
}

/// Operations a (packets, stage) pair takes, about.
const PAIR: f64 = 2.5;
/// Services of excursions followed one by one after the socket is full.
const SERVICES: usize = 1000;
/// Excursions rarer than this share of all are left out, for each number of packets and each room.
const RARE: f64 = 1e-20;

impl Totals {
    /// All time (s).
    pub fn time_s(&self) -> f64 {
        self.present_s.iter().chain(&self.empty_s).sum()
    }
}

impl Sweep<'_> {
    /// What excursions begun so often cost; None where the budget does not last.
    pub fn totals(&self, begun: &Begun) -> Option<Totals> {
        let stages = self.excursion.stages();
        let all = begun.total();
        let mut totals = Totals { present_s: vec![0.0; stages], empty_s: vec![0.0; stages], ..Totals::default() };
        let mut weights = Weights::default();
        for room in (0..=self.most).rev() {
            for (packets, rooms) in begun.awake.iter().filter(|(_, rooms)| rooms[room] > RARE * all) {
                weights.add_one(stages, *packets, self.stage, rooms[room] / all);
            }
            let mut woken = Weights::default();
            if room == self.most {
                let mut asleep = Weights::default();
                for (packets, rate) in begun.asleep.iter().filter(|(_, rate)| *rate > 0.0) {
                    asleep.add(stages, &Weights::one(stages, *packets, self.stage), rate / all);
                }
                if self.excursion.wakes() {
                    woken = self.wake(&asleep, all, &mut totals)?;
                } else {
                    weights.add(stages, &asleep, 1.0);
                }
            }
            if room == 0 {
                break;
            }
            let step = self.excursion.step(Kind::Delivers { waiting: self.most - room }, &weights);
            self.note(&step.times, all, room, &mut totals)?;
            totals.taken += all * (step.next.total() + step.ended);
            weights = step.next;
            weights.add(stages, &woken, 1.0);
        }
        if weights.total() >= LEFT_OUT {
            self.drop(&weights, all, &mut totals)?;
        }
        Some(totals)
    }

    /// The first service of excursions that find the application asleep, and its wake-up; what is there after.
    fn wake(&self, asleep: &Weights, all: f64, totals: &mut Totals) -> Option<Weights> {
        let excursion = self.excursion;
        if asleep.at.is_empty() {
            return Some(Weights::default());
        }
        let first = excursion.step(Kind::Delivers { waiting: 0 }, asleep);
        self.note(&first.times, all, self.most, totals)?;
        let step = excursion.step(Kind::Wakes, &excursion.completed(&first.times));
        self.note(&step.times, all, self.most, totals)?;
        totals.waking_s += all * self.waking_s(&step.times);
        totals.taken += all * (step.next.total() + step.ended);
        Some(step.next)
    }

    /// What becomes of excursions beyond a full socket.
    fn drop(&self, weights: &Weights, all: f64, totals: &mut Totals) -> Option<()> {
        let mut weights = weights.clone();
        // Most are over after some more services; matrices for those that are not.
        for _ in 0..self.most.min(SERVICES) {
            if weights.total() < LEFT_OUT {
                return Some(());
            }
            let step = self.excursion.step(Kind::Drops, &weights);
            self.note(&step.times, all, 0, totals)?;
            totals.dropped += all * (step.next.total() + step.ended);
            weights = step.next;
        }
        let times = rest::times(self.excursion, &weights, self.budget)?;
        self.note(&times, all, 0, totals)?;
        let rates = self.excursion.rates(Kind::Drops);
        for (packets, level) in times.at.chunks(self.excursion.stages()).enumerate() {
            let services = rates.services(packets).iter().map(|(from, _, rate)| level[*from] * rate);
            totals.dropped += all * services.sum::<f64>();
        }
        Some(())
    }

    /// Books times at a rate, with so much room in the socket: the first `room` packets of the ring will be taken.
    fn note(&self, times: &Weights, rate: f64, room: usize, totals: &mut Totals) -> Option<()> {
        self.budget.take(PAIR * times.at.len() as f64)?;
        for (place, level) in times.at.chunks(self.excursion.stages()).enumerate() {
            let packets = times.low + place;
            let sums = if packets > 0 { &mut totals.present_s } else { &mut totals.empty_s };
            sums.iter_mut().zip(level).for_each(|(sum, time)| *sum += rate * time);
            let time = rate * sum(level);
            totals.area += time * packets as f64;
            totals.taken_area += time * packets.min(room) as f64;
            totals.waiting_area += time * (self.most - room) as f64;
            totals.full_s += if packets == self.excursion.places { time } else { 0.0 };
        }
        Some(())
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
