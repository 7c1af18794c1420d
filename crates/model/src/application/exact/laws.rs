//! How many packets an excursion of the ring hands to the socket, for every number of packets that it may begin with at once: from its end
//! back to its beginning, all terms positive.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::polls::Polls;
use super::weights::Weights;
use crate::queue::wide::sum;

/// Services of one excursion, counted up to a most.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Served {
    /// P(n services) by n, the entry of the most: that many or more; those after the last entry are too rare to be kept.
    pub equal: Vec<f64>,
}

/// Excursions of one ring below a socket of `most` packets.
pub struct Laws<'a> {
    /// The ring.
    pub excursion: &'a Excursion,
    /// The same poll by poll, where it has polls whose packets are counted.
    pub polls: Option<&'a Polls>,
    /// The stage in which an excursion begins.
    pub stage: usize,
    /// Packets the socket holds.
    pub most: usize,
    /// More packets than this are in the ring with a probability too small to be kept.
    pub top: usize,
    /// What the work is taken from.
    pub budget: &'a Budget,
}

/// Operations a (packets, stage) pair takes, about.
const PAIR: f64 = 2.0;
/// Those of excursions that are followed poll by poll.
const BY_POLLS: f64 = 0.3;
/// What a law of excursions that wake the application takes, as a share of one of those that do not: it follows the first stages only.
const ASLEEP: f64 = 0.5;
/// Rings and services rarer than this are left out.
pub const LEFT_OUT: f64 = 1e-14;
/// Levels below the highest reached at which the slowest excursions are taken to come down only.
const COMING_DOWN: usize = 16;

impl<'a> Laws<'a> {
    /// `packets`: the most that an excursion begins with; `laws`: how many will be asked for; `beyond`: operations that the solution takes
    /// also if an excursion has that number of services. `None` as soon as the budget cannot last for both.
    pub fn new(
        (excursion, polls): (&'a Excursion, Option<&'a Polls>),
        stage: usize,
        most: usize,
        packets: usize,
        laws: usize,
        beyond: &dyn Fn(usize) -> f64,
        budget: &'a Budget,
    ) -> Option<Self> {
        let mut found = Self { excursion, polls, stage, most, top: packets, budget };
        let stages = excursion.stages();
        if let Some(polls) = polls {
            let fits = |services: usize, top: usize| {
                let all = laws as f64 * services as f64 * BY_POLLS * (top * stages) as f64;
                budget.lasts(0.5 * all + beyond(services))
            };
            found.top = polls.highest(packets, &fits, budget)?;
            return Some(found);
        }
        let mut weights = Weights::one(stages, packets, stage);
        // The slowest services, a wake-up first: what ring they reach.
        let slowest = Kind::Delivers { waiting: most };
        if excursion.wakes() {
            let times = excursion.step(slowest, &weights).times;
            weights = excursion.completed(&times);
            weights = excursion.step(Kind::Wakes, &weights).next;
        }
        for services in 1..=most {
            if weights.total() < LEFT_OUT {
                break;
            }
            let step = excursion.step(slowest, &weights);
            let heavy = step.times.at.chunks(stages).rposition(|level| sum(level) * excursion.arrival_pps > LEFT_OUT);
            let reached = step.times.low + heavy.unwrap_or(0);
            budget.take(PAIR * step.times.at.len() as f64)?;
            found.top = found.top.max(reached);
            // An excursion has no fewer services than it begins with packets.
            let least = services.max(packets.min(most));
            let all = laws as f64 * least as f64 * PAIR * (found.top * stages) as f64;
            budget.lasts(0.5 * all + beyond(least))?;
            if reached + COMING_DOWN < found.top || found.top == excursion.places {
                break;
            }
            weights = step.next;
        }
        Some(found)
    }

    /// P(n services) of excursions that begin with each of `packets` at `waiting` packets in the socket, whose services all
    /// take what they take then; and of those that wake the application, if `asleep`. None where the budget does not last.
    pub fn served(&self, packets: &[usize], waiting: usize, asleep: bool) -> Option<(Vec<Served>, Vec<Served>)> {
        if let Some(polls) = self.polls {
            return polls.served(packets, waiting, asleep, self.top, self.budget);
        }
        let (excursion, stages) = (self.excursion, self.excursion.stages());
        let kind = Kind::Delivers { waiting };
        let size = (self.top + 1) * stages;
        let mut awake = vec![Served::default(); packets.len()];
        let mut woken = if asleep { awake.clone() } else { Vec::new() };
        let mut first = excursion.first(self.stage);
        // Which ends are likely to come: the first of several laws that still has some is looked at first.
        let mut pending = 0;
        let mut after = excursion.expected(kind, self.top, 1.0, |_, _, _| 0.0);
        let mut next = vec![0.0; size];
        self.note(packets, &after, &mut awake);
        self.note(packets, &after, &mut woken);
        let mut over = 1.0;
        for services in 1..=self.most {
            // Each service takes a packet: with more of them than services nothing is expected.
            let top = services.min(self.top);
            self.budget.take(PAIR * (top * stages) as f64 * if asleep { 1.0 + ASLEEP } else { 1.0 })?;
            if asleep {
                let expected = excursion.woken(&mut first, top, &after, over);
                self.note(packets, &expected[..(top + 1) * stages], &mut woken);
            }
            excursion.one_more(kind, top, &after, over, &mut next);
            std::mem::swap(&mut after, &mut next);
            over = 0.0;
            self.note(packets, &after[..(top + 1) * stages], &mut awake);
            let laws = awake.len() + woken.len();
            let law = |place: usize| awake.get(place).unwrap_or_else(|| &woken[place - awake.len()]);
            let ended = (pending..laws).chain(0..pending).find(|place| !law(*place).is_over(LEFT_OUT));
            match ended {
                Some(place) => pending = place,
                None => return Some((awake, woken)),
            }
        }
        for law in awake.iter_mut().chain(&mut woken) {
            // That many or more.
            let fewer: f64 = law.equal[..self.most].iter().sum();
            law.equal[self.most] = (1.0 - fewer).max(0.0);
        }
        Some((awake, woken))
    }

    fn note(&self, packets: &[usize], expected: &[f64], laws: &mut [Served]) {
        let stages = self.excursion.stages();
        for (packets, law) in packets.iter().zip(laws) {
            law.equal.push(expected.get(packets * stages + self.stage).copied().unwrap_or(0.0));
        }
    }
}

impl Served {
    /// Mean services, those beyond the last entry counted as that many.
    pub fn mean(&self) -> f64 {
        self.equal.iter().enumerate().map(|(services, share)| services as f64 * share).sum()
    }

    /// P(n services or more) by n.
    pub fn at_least(&self) -> Vec<f64> {
        let mut tails = self.equal.clone();
        for place in (1..tails.len()).rev() {
            tails[place - 1] += tails[place];
        }
        tails
    }

    /// True if more services are too rare to be kept, rarer than `least`: what comes after the last two entries goes on at most as they do.
    pub fn is_over(&self, least: f64) -> bool {
        let [.., before, last] = self.equal[..] else { return false };
        if last == 0.0 {
            return sum(&self.equal) > 0.5;
        }
        last < before && last * last / (before - last) < least && sum(&self.equal) > 0.5
    }
}
