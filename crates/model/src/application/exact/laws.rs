//! How many packets an excursion of the ring hands to the socket, for every number of packets that it may begin with at once: from its end
//! back to its beginning, all terms positive.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::weights::Weights;

/// Services of one excursion, counted up to a most.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// P(so many), the last entry: that many or more.
    pub equal: Vec<f64>,
    /// P(so many or more).
    pub at_least: Vec<f64>,
}

/// What follows a moment, for each (packets, stage) then.
struct After {
    /// P(so many services).
    equal: Vec<f64>,
    /// P(so many or more).
    at_least: Vec<f64>,
    /// Both, where the excursion is over.
    ended: f64,
}

/// Excursions of one ring below a socket of `most` packets.
pub struct Laws<'a> {
    /// The ring.
    pub excursion: &'a Excursion,
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
const PAIR: f64 = 8.0;
/// Passes over all services: of excursions that find the application awake, and of those that wake it.
pub const AWAKE: usize = 2;
/// See [`AWAKE`].
pub const ASLEEP: usize = 4;
/// Rings and services rarer than this are left out.
const LEFT_OUT: f64 = 1e-18;

impl<'a> Laws<'a> {
    /// `packets`: the most that an excursion begins with; `passes`: over all services, that will be asked for; `beyond`: operations that the
    /// solution takes besides where an excursion has so many services. None as soon as the budget cannot last for both.
    pub fn new(
        excursion: &'a Excursion,
        stage: usize,
        most: usize,
        packets: usize,
        passes: usize,
        beyond: &dyn Fn(usize) -> f64,
        budget: &'a Budget,
    ) -> Option<Self> {
        let mut laws = Self { excursion, stage, most, top: packets, budget };
        let stages = excursion.stages();
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
            let heavy = step
                .times
                .at
                .chunks(stages)
                .rposition(|level| level.iter().sum::<f64>() * excursion.arrival_pps > LEFT_OUT);
            laws.top = laws.top.max(step.times.low + heavy.unwrap_or(0));
            budget.take(PAIR * step.times.at.len() as f64)?;
            // Quicker services are nearly as many.
            let passes = (passes * services) as f64 * PAIR * ((laws.top + 1) * stages) as f64;
            budget.lasts(passes + beyond(services))?;
            weights = step.next;
        }
        Some(laws)
    }

    /// P(n services) of excursions that begin with each of `packets` at `waiting` packets in the socket, whose services all
    /// take what they take then; and of those that wake the application, if `asleep`. None where the budget does not last.
    pub fn served(&self, packets: &[usize], waiting: usize, asleep: bool) -> Option<(Vec<Served>, Vec<Served>)> {
        let excursion = self.excursion;
        let kind = Kind::Delivers { waiting };
        let size = (self.top + 1) * excursion.stages();
        let none =
            || vec![Served { equal: vec![0.0; self.most + 1], at_least: vec![0.0; self.most + 1] }; packets.len()];
        let (mut awake, mut woken) = (none(), if asleep { none() } else { Vec::new() });
        let before = excursion.expected(kind, self.top, 1.0, |_, _, _| 0.0);
        let mut after = After { equal: before, at_least: vec![1.0; size], ended: 1.0 };
        self.note(packets, 0, &after, &mut awake);
        self.note(packets, 0, &after, &mut woken);
        for services in 1..=self.most {
            self.budget.take(PAIR * size as f64 * if asleep { (AWAKE + ASLEEP) as f64 } else { AWAKE as f64 })?;
            if asleep {
                let first = self.woken(&after);
                self.note(packets, services, &first, &mut woken);
            }
            after = self.one_more(kind, &after);
            self.note(packets, services, &after, &mut awake);
            let rare = |law: &Served| law.at_least[services] < LEFT_OUT;
            if awake.iter().all(rare) && woken.iter().all(rare) {
                break;
            }
        }
        for law in awake.iter_mut().chain(&mut woken) {
            law.equal[self.most] = law.at_least[self.most];
        }
        Some((awake, woken))
    }

    /// What follows one service more.
    fn one_more(&self, kind: Kind, after: &After) -> After {
        let stages = self.excursion.stages();
        let each = |values: &[f64]| {
            self.excursion.expected(kind, self.top, 0.0, |packets, _, to| {
                if packets == 1 && to == 0 { after.ended } else { values[(packets - 1) * stages + to] }
            })
        };
        After { equal: each(&after.equal), at_least: each(&after.at_least), ended: 0.0 }
    }

    /// What follows a first service that wakes the application: the service, then the wake-up of the packet that is still there.
    fn woken(&self, after: &After) -> After {
        let stages = self.excursion.stages();
        let waking = self.one_more(Kind::Wakes, after);
        let each = |values: &[f64]| {
            let first = Kind::Delivers { waiting: 0 };
            self.excursion.expected(first, self.top, 0.0, |packets, from, _| {
                let beginnings = self.excursion.beginnings(from).iter();
                beginnings.map(|(phase, share)| share * values[packets * stages + phase]).sum()
            })
        };
        After { equal: each(&waking.equal), at_least: each(&waking.at_least), ended: 0.0 }
    }

    fn note(&self, packets: &[usize], services: usize, after: &After, laws: &mut [Served]) {
        for (packets, law) in packets.iter().zip(laws) {
            let place = packets * self.excursion.stages() + self.stage;
            law.equal[services] = after.equal[place];
            law.at_least[services] = after.at_least[place];
        }
    }
}

impl Served {
    /// Mean services, those beyond the last entry counted as that many.
    pub fn mean(&self) -> f64 {
        self.at_least.iter().skip(1).sum()
    }
}
