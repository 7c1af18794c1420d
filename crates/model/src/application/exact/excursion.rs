//! The ring between two moments at which the application may run: from the interrupt that ends a free period to the moment
//! the ring is left alone again, service by service.
//!
//! Between two services packets only come, so that the expected times in (packets, stage) follow level by level from below, and
//! what is expected from each on from above; every term is positive. The application stands still meanwhile: what an excursion
//! does to the socket is how many services it has.

use super::level::Rates;
use super::weights::{LEFT_OUT, Weights};
use crate::schemes::Work;
use crate::schemes::modulated::{Chain, Phases, Role};

/// Occupancies of the socket for which cold caches have a rate of their own, evenly from an empty to a full one: those between
/// take the nearest, at most 1 % of `cold_protocol` away.
const OCCUPANCIES: usize = 64;

/// What the end of a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A packet goes to a socket in which so many wait.
    Delivers {
        /// Packets waiting.
        waiting: usize,
    },
    /// The wake-up that follows the service of a packet for a sleeping application.
    Wakes,
    /// A packet is dropped at the full socket.
    Drops,
}

/// What a packet costs besides the chain's own times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A wake-up (s).
    pub wakeup_s: f64,
    /// What a full socket adds to a service, others in proportion (s).
    pub cold_s: f64,
    /// Share of a service that a packet for a full socket takes.
    pub drop_cost: f64,
    /// Packets the socket holds.
    pub socket: usize,
}

/// The ring of a scheme.
pub struct Excursion {
    /// Its stages, in phases.
    pub chain: Chain,
    /// B.
    pub places: usize,
    /// lambda (pps).
    pub arrival_pps: f64,
    socket: usize,
    /// By occupancy of the socket, evenly from an empty to a full one.
    delivers: Vec<Rates>,
    wakes: Option<Rates>,
    drops: Rates,
    /// For each phase where its stage begins anew: (phase, probability).
    beginnings: Vec<Vec<(usize, f64)>>,
}

/// What happens from one service's end to the next one's.
pub struct Step {
    /// Expected times (s).
    pub times: Weights,
    /// Just after the next service; the weight that is left alone there is in `ended`.
    pub next: Weights,
    /// Weight that is left alone by the service.
    pub ended: f64,
}

impl Excursion {
    /// The ring of `chain`, whose times consist of `phases`.
    pub fn new(chain: &Chain, phases: Phases, work: &Work, costs: Costs) -> Self {
        let rates = |pace: &dyn Fn(Role, f64) -> f64| Rates::new(chain, phases, work.arrival_pps, pace);
        let dropping_pps = work.stage_rate((work.service_s + costs.cold_s) * costs.drop_cost);
        let occupancies = if costs.cold_s > 0.0 { OCCUPANCIES } else { 0 };
        let colder = |at: usize| {
            let more_s = costs.cold_s * at as f64 / occupancies.max(1) as f64;
            rates(&move |_, rate| if more_s > 0.0 { 1.0 / (1.0 / rate + more_s) } else { rate })
        };
        Self {
            chain: phases.expand(chain),
            places: work.places as usize,
            arrival_pps: work.arrival_pps,
            socket: costs.socket,
            delivers: (0..=occupancies).map(colder).collect(),
            wakes: (costs.wakeup_s > 0.0).then(|| rates(&|_, _| work.stage_rate(costs.wakeup_s))),
            drops: rates(&|role, rate| if role == Role::First { rate } else { dropping_pps }),
            beginnings: phases.beginnings(&chain.roles),
        }
    }

    /// Stages.
    pub fn stages(&self) -> usize {
        self.chain.roles.len()
    }

    /// Where the stage of a phase begins anew: (phase, probability).
    pub fn beginnings(&self, phase: usize) -> &[(usize, f64)] {
        &self.beginnings[phase]
    }

    /// True if waking the application takes time.
    pub fn wakes(&self) -> bool {
        self.wakes.is_some()
    }

    /// The jumps at a kind of service.
    pub fn rates(&self, kind: Kind) -> &Rates {
        let occupied = |waiting: usize| {
            let intervals = self.delivers.len() - 1;
            (waiting.min(self.socket) * intervals + self.socket / 2) / self.socket
        };
        match kind {
            Kind::Delivers { waiting } => &self.delivers[occupied(waiting)],
            Kind::Wakes => self.wakes.as_ref().unwrap_or(&self.delivers[0]),
            Kind::Drops => &self.drops,
        }
    }

    /// Expected times from `start` to the next service's end (or to the end of the excursion), and what follows.
    pub fn step(&self, kind: Kind, start: &Weights) -> Step {
        let stages = self.stages();
        let rates = self.rates(kind);
        let mut times = Vec::with_capacity(start.at.len() + stages);
        let mut up = vec![0.0; stages];
        let mut inflow = vec![0.0; stages];
        let mut packets = start.low;
        loop {
            let place = (packets - start.low) * stages;
            let entered = start.at.get(place..place + stages);
            inflow.copy_from_slice(&up);
            if let Some(entered) = entered {
                inflow.iter_mut().zip(entered).for_each(|(sum, weight)| *sum += weight);
            } else if inflow.iter().sum::<f64>() < LEFT_OUT {
                break;
            }
            let spent = rates.level(packets, self.places).spend(&inflow);
            up.fill(0.0);
            if packets < self.places {
                for (stage, time) in spent.iter().enumerate() {
                    up[(self.chain.accepted)(stage)] += time * self.arrival_pps;
                }
            }
            times.extend_from_slice(&spent);
            packets += 1;
            if packets > self.places {
                break;
            }
        }
        let times = Weights { low: start.low, at: times };
        let (next, ended) = self.served(rates, &times);
        Step { times, next, ended }
    }

    /// What is expected from each (packets, stage) up to `top` packets on: `ended` where the excursion ends before a service,
    /// `served(packets, from, to)` where one ends. Packets beyond `top` gain nothing.
    pub fn expected(
        &self,
        kind: Kind,
        top: usize,
        ended: f64,
        served: impl Fn(usize, usize, usize) -> f64,
    ) -> Vec<f64> {
        let stages = self.stages();
        let rates = self.rates(kind);
        let mut expected = vec![0.0; (top + 1) * stages];
        let mut a_second = vec![0.0; stages];
        for packets in (0..=top).rev() {
            let level = rates.level(packets, self.places);
            let (here, above) = expected[packets * stages..].split_at_mut(stages);
            for (stage, gain) in a_second.iter_mut().enumerate() {
                let after = above.get((self.chain.accepted)(stage)).copied().unwrap_or(0.0);
                *gain = level.ends[stage] * ended + self.arrival_pps * after;
            }
            for (from, to, rate) in rates.services(packets) {
                a_second[*from] += rate * served(packets, *from, *to);
            }
            level.gain(&a_second, here);
        }
        expected
    }

    /// The jumps within a level as (from, to, rate), and into `leaving` the rates of services and ends.
    pub fn jumps(&self, kind: Kind, packets: usize, within: &mut dyn FnMut(usize, usize, f64), leaving: &mut [f64]) {
        let rates = self.rates(kind);
        let level = rates.level(packets, self.places);
        for (from, jumps) in level.local.iter().enumerate() {
            jumps.iter().for_each(|(to, rate)| within(from, *to, *rate));
            leaving[from] += level.ends[from];
        }
        rates.services(packets).iter().for_each(|(from, _, rate)| leaving[*from] += rate);
    }

    /// The services that end in `times`.
    fn served(&self, rates: &Rates, times: &Weights) -> (Weights, f64) {
        let stages = self.stages();
        let low = times.low.max(1) - 1;
        let levels = times.at.len() / stages;
        let mut next = Weights { low, at: vec![0.0; levels * stages] };
        let first = times.low.max(1);
        for packets in first..times.low + levels {
            let here = &times.at[(packets - times.low) * stages..(packets - times.low + 1) * stages];
            let below = (packets - 1 - low) * stages;
            for (from, to, rate) in rates.services(packets) {
                next.at[below + to] += here[*from] * rate;
            }
        }
        let ended = if low == 0 && !next.at.is_empty() { std::mem::take(&mut next.at[0]) } else { 0.0 };
        next.trim(stages);
        (next, ended)
    }

    /// The ends of services for an empty socket as they are, before the packet leaves: where a wake-up begins.
    pub fn completed(&self, times: &Weights) -> Weights {
        let stages = self.stages();
        let rates = self.rates(Kind::Delivers { waiting: 0 });
        let mut found = Weights { low: times.low, at: vec![0.0; times.at.len()] };
        for (place, (level, into)) in times.at.chunks(stages).zip(found.at.chunks_mut(stages)).enumerate() {
            for (from, _, rate) in rates.services(times.low + place) {
                for (beginning, share) in self.beginnings(*from) {
                    into[*beginning] += level[*from] * rate * share;
                }
            }
        }
        found.trim(stages);
        found
    }
}
