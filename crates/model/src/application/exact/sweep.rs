//! What all excursions together come to: those that have the same room left in the socket go on alike, so that one pass from an empty
//! socket to a full one takes them all.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::rest;
use super::weights::{LEFT_OUT, Weights};
use crate::queue::wide::{self, Work, sum};
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
        self.awake.iter().map(|(_, rooms)| sum(rooms)).sum::<f64>() + self.woken()
    }

    /// Those that find the application awake and this room.
    fn found(&self, rooms: std::ops::Range<usize>) -> f64 {
        self.awake.iter().map(|(_, rates)| sum(&rates[rooms.clone()])).sum()
    }

    /// Those that find it asleep.
    fn woken(&self) -> f64 {
        self.asleep.iter().map(|(_, rate)| rate).sum()
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
    /// Services that no excursion exceeds, but for those too rare to be kept.
    pub longest: usize,
    /// What the work is taken from.
    pub budget: &'a Budget,
}

/// Operations a (packets, stage) pair takes, about.
const PAIR: f64 = 2.5;
/// Services of excursions followed one by one after the socket is full.
const SERVICES: usize = 1000;
/// Those that find so little room that they may fill the socket are left out where they are rarer than this share of all.
const NEVER: f64 = 1e-60;
/// Excursions rarer than this share of all are left out, for each number of packets and each room.
const RARE: f64 = 1e-17;

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
        let mut totals = Totals { present_s: vec![0.0; stages], empty_s: vec![0.0; stages], ..Totals::default() };
        // Excursions that find this room fill no socket.
        let never_full = self.longest.min(self.most);
        if never_full < self.most {
            if self.excursion.is_uniform() {
                self.together(begun, never_full + 1, &mut totals)?;
            } else {
                self.room_by_room(begun, never_full + 1..self.most + 1, &mut totals)?;
            }
        }
        self.room_by_room(begun, 0..never_full + 1, &mut totals)?;
        Some(totals)
    }

    /// All excursions that find at least so much room, which fill no socket and whose services all take what they take anywhere: service by
    /// service from their beginning.
    fn together(&self, begun: &Begun, least_room: usize, totals: &mut Totals) -> Option<()> {
        let stages = self.excursion.stages();
        let rooms = least_room..self.most + 1;
        let all = begun.found(rooms.clone()) + begun.woken();
        if all == 0.0 {
            return Some(());
        }
        let (mut weights, mut waiting) = (Weights::default(), Weights::default());
        for (packets, rates) in &begun.awake {
            let rates = &rates[rooms.clone()];
            let filled: f64 = rates.iter().rev().enumerate().map(|(waiting, rate)| waiting as f64 * rate).sum();
            weights.add_one(stages, *packets, self.stage, sum(rates) / all);
            waiting.add_one(stages, *packets, self.stage, filled / all);
        }
        let mut times = Weights::default();
        let woken = self.asleep(begun, all, &mut weights, totals)?;
        for services in 0.. {
            if weights.total() < LEFT_OUT && services > 0 {
                break;
            }
            let ended = self.excursion.advance(Kind::Delivers { waiting: 0 }, &mut weights, &mut times);
            self.note(&times, all, (self.most, services as f64), totals)?;
            totals.taken += all * (weights.total() + ended);
            if services == 0 {
                weights.add(stages, &woken, 1.0);
            }
        }
        // What waited in the socket before stays there.
        let most = waiting.total();
        while waiting.total() > LEFT_OUT * most {
            self.excursion.advance(Kind::Delivers { waiting: 0 }, &mut waiting, &mut times);
            self.budget.take(PAIR * times.at.len() as f64)?;
            totals.waiting_area += all * times.total();
        }
        Some(())
    }

    /// Excursions that find these rooms, from the largest to the smallest: those with the same room left go on alike.
    fn room_by_room(&self, begun: &Begun, rooms: std::ops::Range<usize>, totals: &mut Totals) -> Option<()> {
        let stages = self.excursion.stages();
        let all = begun.found(rooms.clone()) + if rooms.contains(&self.most) { begun.woken() } else { 0.0 };
        if all < NEVER * begun.total() {
            return Some(());
        }
        let lowest = rooms.start;
        let (mut weights, mut times) = (Weights::default(), Weights::default());
        for room in (0..rooms.end).rev() {
            if rooms.contains(&room) {
                for (packets, rooms) in begun.awake.iter().filter(|(_, rooms)| rooms[room] > RARE * all) {
                    weights.add_one(stages, *packets, self.stage, rooms[room] / all);
                }
            }
            let woken =
                if room == self.most { self.asleep(begun, all, &mut weights, totals)? } else { Weights::default() };
            if room == 0 || (room < lowest && weights.total() < LEFT_OUT) {
                break;
            }
            let ended = self.excursion.advance(Kind::Delivers { waiting: self.most - room }, &mut weights, &mut times);
            self.note(&times, all, (room, (self.most - room) as f64), totals)?;
            totals.taken += all * (weights.total() + ended);
            weights.add(stages, &woken, 1.0);
        }
        if weights.total() >= LEFT_OUT {
            self.drop(&weights, all, totals)?;
        }
        Some(())
    }

    /// Excursions that find the application asleep: to the others where waking it takes no time, else what is there after its wake-up.
    fn asleep(&self, begun: &Begun, all: f64, weights: &mut Weights, totals: &mut Totals) -> Option<Weights> {
        let stages = self.excursion.stages();
        let mut asleep = Weights::default();
        for (packets, rate) in begun.asleep.iter().filter(|(_, rate)| *rate > 0.0) {
            asleep.add_one(stages, *packets, self.stage, rate / all);
        }
        if self.excursion.wakes() {
            return self.wake(&asleep, all, totals);
        }
        weights.add(stages, &asleep, 1.0);
        Some(Weights::default())
    }

    /// The first service of excursions that find the application asleep, and its wake-up; what is there after.
    fn wake(&self, asleep: &Weights, all: f64, totals: &mut Totals) -> Option<Weights> {
        let excursion = self.excursion;
        if asleep.at.is_empty() {
            return Some(Weights::default());
        }
        let first = excursion.step(Kind::Delivers { waiting: 0 }, asleep);
        self.note(&first.times, all, (self.most, 0.0), totals)?;
        let step = excursion.step(Kind::Wakes, &excursion.completed(&first.times));
        self.note(&step.times, all, (self.most, 0.0), totals)?;
        totals.waking_s += all * self.waking_s(&step.times);
        totals.taken += all * (step.next.total() + step.ended);
        Some(step.next)
    }

    /// What becomes of excursions beyond a full socket.
    fn drop(&self, weights: &Weights, all: f64, totals: &mut Totals) -> Option<()> {
        let (mut weights, mut times) = (weights.clone(), Weights::default());
        // Most are over after some more services; matrices for those that are not.
        for _ in 0..self.most.min(SERVICES) {
            if weights.total() < LEFT_OUT {
                return Some(());
            }
            let ended = self.excursion.advance(Kind::Drops, &mut weights, &mut times);
            self.note(&times, all, (0, self.most as f64), totals)?;
            totals.dropped += all * (weights.total() + ended);
        }
        let times = rest::times(self.excursion, &weights, self.budget)?;
        self.note(&times, all, (0, self.most as f64), totals)?;
        let rates = self.excursion.rates(Kind::Drops);
        for (packets, level) in times.at.chunks(self.excursion.stages()).enumerate() {
            let services = rates.services(packets).iter().map(|(from, _, rate)| level[*from] * rate);
            totals.dropped += all * services.sum::<f64>();
        }
        Some(())
    }

    /// Books times at a rate; `socket`: its room, for which the first packets of the ring will be taken, and the packets in it.
    fn note(&self, times: &Weights, rate: f64, socket: (usize, f64), totals: &mut Totals) -> Option<()> {
        self.budget.take(PAIR * times.at.len() as f64)?;
        wide::run(Note { sweep: self, times, rate, socket, totals });
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

/// Books times: see [`Sweep::note`].
struct Note<'a> {
    sweep: &'a Sweep<'a>,
    times: &'a Weights,
    rate: f64,
    socket: (usize, f64),
    totals: &'a mut Totals,
}

impl Work for Note<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { sweep, times, rate, socket: (room, waiting), totals } = self;
        let (mut area, mut taken_area, mut all) = (0.0, 0.0, 0.0);
        for (place, level) in times.at.chunks(sweep.excursion.stages()).enumerate() {
            let packets = times.low + place;
            let sums = if packets > 0 { &mut totals.present_s } else { &mut totals.empty_s };
            sums.iter_mut().zip(level).for_each(|(sum, time)| *sum += rate * time);
            let time = rate * sum(level);
            area += time * packets as f64;
            taken_area += time * packets.min(room) as f64;
            all += time;
            totals.full_s += if packets == sweep.excursion.places { time } else { 0.0 };
        }
        totals.area += area;
        totals.taken_area += taken_area;
        totals.waiting_area += all * waiting;
    }
}
