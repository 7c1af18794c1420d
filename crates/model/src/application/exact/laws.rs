//! Number of packets that an excursion (busy period of the ring) delivers to the socket, for every number of packets at
//! its beginning. Computed backwards from the end; all terms are positive.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::polls::Polls;
use super::weights::Weights;
use crate::queue::wide::sum;

/// Distribution of the number of services of an excursion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Served {
    /// `[n]`: P(n services). The last entry may include all larger numbers; otherwise these have a negligible
    /// probability.
    pub equal: Vec<f64>,
}

/// Excursions of one ring below a socket of `most` packets.
pub struct Laws<'a> {
    /// The ring.
    pub excursion: &'a Excursion,
    /// The busy periods computed poll by poll; `None` if the chain does not count the packets of polls.
    pub polls: Option<&'a Polls>,
    /// Stage in which an excursion begins.
    pub stage: usize,
    /// Maximum number of packets in the socket.
    pub most: usize,
    /// More packets than this in the ring have a negligible probability.
    pub top: usize,
    /// Budget for the work.
    pub budget: &'a Budget,
}

/// Operations per pair (packets, stage) (approximate).
const PAIR: f64 = 2.0;
/// Operations per pair, if excursions are computed poll by poll (approximate).
const BY_POLLS: f64 = 0.3;
/// Cost of the distributions for busy periods that wake the application, as a share of the cost for the others: only
/// their first stages differ.
const ASLEEP: f64 = 0.5;
/// Packets in the ring and services with a smaller probability are left out.
pub const LEFT_OUT: f64 = 1e-14;
/// Once the packets in the ring have fallen this many levels below the highest number reached, the search for the
/// highest number ends, because even the slowest busy periods then only descend.
const COMING_DOWN: usize = 16;

impl<'a> Laws<'a> {
    /// Prepares the computation. `packets`: maximum number of packets at the beginning of a busy period; `laws`: number
    /// of distributions that will be computed; `beyond`: operations for the rest of the solution, if a busy period has
    /// the given number of services. `None` if the budget does not suffice for both.
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
        // The largest number of packets in the ring results from the slowest services, after a wake-up.
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
            // A busy period has at least as many services as packets at its start.
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

    /// Returns distributions of the number of services, for busy periods that begin with each number in `packets`, if
    /// `waiting` packets in the socket determine the time of all services. If `asleep`, also for busy periods that wake
    /// the application. `None` if the budget does not suffice.
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
        // Index of the first distribution that is not yet complete.
        let mut pending = 0;
        let mut after = excursion.expected(kind, self.top, 1.0, |_, _, _| 0.0);
        let mut next = vec![0.0; size];
        self.note(packets, &after, &mut awake);
        self.note(packets, &after, &mut woken);
        let mut over = 1.0;
        for services in 1..=self.most {
            // Each service removes a packet: with more packets than services the expected value is 0.
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
            // The last entry includes all larger numbers of services.
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
    /// Mean number of services; the last entry, which may include larger numbers, counts as its own number.
    pub fn mean(&self) -> f64 {
        self.equal.iter().enumerate().map(|(services, share)| services as f64 * share).sum()
    }

    /// `[n]`: P(n services or more).
    pub fn at_least(&self) -> Vec<f64> {
        let mut tails = self.equal.clone();
        for place in (1..tails.len()).rev() {
            tails[place - 1] += tails[place];
        }
        tails
    }

    /// Returns true if more services have a probability below `least`, assuming that probabilities fall at least as
    /// fast as between the last two entries.
    pub fn is_over(&self, least: f64) -> bool {
        let [.., before, last] = self.equal[..] else { return false };
        if last == 0.0 {
            return sum(&self.equal) > 0.5;
        }
        last < before && last * last / (before - last) < least && sum(&self.equal) > 0.5
    }
}
