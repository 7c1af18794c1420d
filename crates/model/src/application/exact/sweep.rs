//! Sums over all excursions. Excursions with the same free space left in the socket continue in the same way, so that
//! one pass from an empty to a full socket computes all of them.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::rest;
use super::weights::{LEFT_OUT, Weights};
use crate::queue::wide::{self, Work, sum};
use crate::schemes::modulated::Role;

/// Rates (per second) at which excursions begin, by packets in the ring. An excursion is a busy period of the ring.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Begun {
    /// (packets in the ring, rates by free space in the socket) of busy periods that start with the application awake.
    pub awake: Vec<(usize, Vec<f64>)>,
    /// (packets in the ring, rate) of busy periods that start with the application asleep and the socket empty.
    pub asleep: Vec<(usize, f64)>,
}

impl Begun {
    /// Rate of all excursions.
    pub fn total(&self) -> f64 {
        self.awake.iter().map(|(_, rooms)| sum(rooms)).sum::<f64>() + self.woken()
    }

    /// Rate of busy periods that start with the application awake and this free space in the socket.
    fn found(&self, rooms: std::ops::Range<usize>) -> f64 {
        self.awake.iter().map(|(_, rates)| sum(&rates[rooms.clone()])).sum()
    }

    /// Rate of excursions that start with the application asleep.
    fn woken(&self) -> f64 {
        self.asleep.iter().map(|(_, rate)| rate).sum()
    }
}

/// Sums over excursions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Time in each stage with packets in the ring (s).
    pub present_s: Vec<f64>,
    /// Time in each stage with an empty ring (s).
    pub empty_s: Vec<f64>,
    /// Part of `present_s` that counts as protocol although the stage also stands for the interrupt: wake-ups in stages
    /// of `Role::First` (s).
    pub waking_s: f64,
    /// Time with a full ring (s).
    pub full_s: f64,
    /// Integral of the packets in the ring [packet s].
    pub area: f64,
    /// Integral over time of the packets in the ring that the socket will take [packet s].
    pub taken_area: f64,
    /// Integral of the packets in the socket [packet s].
    pub waiting_area: f64,
    /// Packets that the socket takes.
    pub taken: f64,
    /// Packets that a full socket drops.
    pub dropped: f64,
}

/// One pass over the busy periods of a ring, with a socket of `most` packets.
pub struct Sweep<'a> {
    /// The ring.
    pub excursion: &'a Excursion,
    /// Stage in which an excursion begins.
    pub stage: usize,
    /// Maximum number of packets in the socket.
    pub most: usize,
    /// Number of services that a busy period exceeds only with negligible probability.
    pub longest: usize,
    /// Budget for the work.
    pub budget: &'a Budget,
}

/// Operations per pair (packets, stage) (approximate).
const PAIR: f64 = 2.5;
/// Maximum number of services that are computed one by one after the socket is full.
const SERVICES: usize = 1000;
/// Busy periods that may fill the socket are left out if they are a smaller share of all.
const NEVER: f64 = 1e-60;
/// Busy periods with one particular number of packets and free space are left out if they are a smaller share of all.
const RARE: f64 = 1e-17;

impl Totals {
    /// Total time (s).
    pub fn time_s(&self) -> f64 {
        self.present_s.iter().chain(&self.empty_s).sum()
    }
}

impl Sweep<'_> {
    /// Computes the sums over the busy periods of `begun`; `None` if the budget does not suffice.
    pub fn totals(&self, begun: &Begun) -> Option<Totals> {
        let stages = self.excursion.stages();
        let mut totals = Totals { present_s: vec![0.0; stages], empty_s: vec![0.0; stages], ..Totals::default() };
        // With this free space, an excursion never fills the socket.
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

    /// Adds all busy periods that start with at least this free space in the socket. They never fill it, and the time
    /// of their services does not depend on the space: they are computed together, service by service from their
    /// beginning.
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
        // Packets that were in the socket before the busy period remain there.
        let most = waiting.total();
        while waiting.total() > LEFT_OUT * most {
            self.excursion.advance(Kind::Delivers { waiting: 0 }, &mut waiting, &mut times);
            self.budget.take(PAIR * times.at.len() as f64)?;
            totals.waiting_area += all * times.total();
        }
        Some(())
    }

    /// Adds busy periods that start with these free spaces in the socket, from the largest to the smallest: those with
    /// the same space left continue together.
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

    /// Adds busy periods that start with the application asleep. If waking takes no time they are added to `weights`;
    /// otherwise returns the distribution after the wake-up.
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

    /// Computes the first service of busy periods that start with the application asleep, and the wake-up; returns the
    /// distribution after the wake-up.
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

    /// Adds the rest of excursions once the socket is full.
    fn drop(&self, weights: &Weights, all: f64, totals: &mut Totals) -> Option<()> {
        let (mut weights, mut times) = (weights.clone(), Weights::default());
        // Most busy periods end after a few more services; matrices handle the others.
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

    /// Adds times, multiplied by a rate, to `totals`. `socket`: (free space, packets waiting); the first packets in the
    /// ring will take the free space.
    fn note(&self, times: &Weights, rate: f64, socket: (usize, f64), totals: &mut Totals) -> Option<()> {
        self.budget.take(PAIR * times.at.len() as f64)?;
        wide::run(Note { sweep: self, times, rate, socket, totals });
        Some(())
    }

    /// Part of a wake-up's time that is spent in the stages of interrupt and first packet (s).
    fn waking_s(&self, times: &Weights) -> f64 {
        let roles = &self.excursion.chain.roles;
        let first = |level: &[f64]| -> f64 {
            level.iter().zip(roles).filter(|(_, role)| **role == Role::First).map(|(time, _)| time).sum()
        };
        times.at.chunks(self.excursion.stages()).map(first).sum()
    }
}

/// Work of [`Sweep::note`].
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
