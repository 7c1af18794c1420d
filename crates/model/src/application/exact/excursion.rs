//! The ring while the application cannot run (an excursion): from the interrupt that ends a free period until the CPU
//! is free for the application again, service by service.
//!
//! Between two services packets only arrive. Therefore expected times in (packets, stage) follow level by level from
//! below, and expected values from each state follow from above; all terms are positive. The application stands still,
//! so that an excursion changes the socket only by its number of services.

use super::level::{Other, Rates};
use super::weights::{LEFT_OUT, Weights};
use crate::queue::wide::{self, sum};
use crate::schemes::Work;
use crate::schemes::modulated::{Chain, Phases, Role};

/// Number of socket occupancies with different service rates if caches are cold, evenly from empty to full. Other
/// occupancies use the nearest of these, with an error of at most 1 % of `cold_protocol`.
const OCCUPANCIES: usize = 64;

/// Event at the end of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A packet is delivered to a socket.
    Delivers {
        /// Packets waiting in the socket before the delivery.
        waiting: usize,
    },
    /// The wake-up of a sleeping application, after the service of a packet.
    Wakes,
    /// A packet is dropped at the full socket.
    Drops,
}

/// Costs of a packet in addition to the chain's times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Time of a wake-up (s).
    pub wakeup_s: f64,
    /// Additional time of a service if the socket is full (s); proportional to the occupancy.
    pub cold_s: f64,
    /// Service time of a packet that a full socket drops, as a share of a normal service.
    pub drop_cost: f64,
    /// Maximum number of packets in the socket.
    pub socket: usize,
}

/// The ring of a scheme during excursions.
pub struct Excursion {
    /// The stages of the scheme, made of phases.
    pub chain: Chain,
    /// B: slots of the ring.
    pub places: usize,
    /// lambda: arrival rate (pps).
    pub arrival_pps: f64,
    socket: usize,
    /// Service rates by the socket's occupancy, from empty to full.
    delivers: Vec<Rates>,
    wakes: Option<Rates>,
    drops: Rates,
    /// For each phase, the phases with which its stage begins: (phase, probability).
    beginnings: Vec<Vec<(usize, f64)>>,
    /// Range of stages that do not change with an arrival; these are most of the stages.
    identical: std::ops::Range<usize>,
}

/// Stages of a busy period of the ring up to its first service, and of the wake-up after that service, with memory for
/// expected values.
pub struct First {
    delivers: Vec<Other>,
    wakes: Vec<Other>,
    waking: Vec<f64>,
    expected: Vec<f64>,
}

/// Result of one step, from the end of one service to the end of the next.
pub struct Step {
    /// Expected times in each state (s).
    pub times: Weights,
    /// Distribution just after the next service, without the part that `ended`.
    pub next: Weights,
    /// Probability that the excursion ends with this service.
    pub ended: f64,
}

impl Excursion {
    /// Makes the ring of `chain`, with times made of `phases`.
    pub fn new(chain: &Chain, phases: Phases, work: &Work, costs: Costs) -> Self {
        let rates = |pace: &dyn Fn(Role, f64) -> f64| Rates::new(chain, phases, work.arrival_pps, pace);
        let dropping_pps = work.stage_rate((work.service_s + costs.cold_s) * costs.drop_cost);
        let occupancies = if costs.cold_s > 0.0 { OCCUPANCIES } else { 0 };
        let colder = |at: usize| {
            let more_s = costs.cold_s * at as f64 / occupancies.max(1) as f64;
            rates(&move |_, rate| if more_s > 0.0 { 1.0 / (1.0 / rate + more_s) } else { rate })
        };
        let expanded = phases.expand(chain);
        let stages = expanded.roles.len();
        let stays = |stage: usize| (expanded.accepted)(stage) == stage;
        let first = (0..stages).rposition(|stage| !stays(stage)).map_or(0, |last| last + 1);
        Self {
            identical: first..stages,
            chain: expanded,
            places: work.places as usize,
            arrival_pps: work.arrival_pps,
            socket: costs.socket,
            delivers: (0..=occupancies).map(colder).collect(),
            wakes: (costs.wakeup_s > 0.0).then(|| rates(&|_, _| work.stage_rate(costs.wakeup_s))),
            drops: rates(&|role, rate| if role == Role::First { rate } else { dropping_pps }),
            beginnings: phases.beginnings(&chain.roles),
        }
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.chain.roles.len()
    }

    /// For a phase, returns the phases with which its stage begins: (phase, probability).
    pub fn beginnings(&self, phase: usize) -> &[(usize, f64)] {
        &self.beginnings[phase]
    }

    /// Returns true if the time of a service does not depend on the packets in the socket, except if it is full.
    pub fn is_uniform(&self) -> bool {
        self.delivers.len() == 1
    }

    /// True if waking the application takes time.
    pub fn wakes(&self) -> bool {
        self.wakes.is_some()
    }

    /// Rates of the jumps with this kind of service.
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

    /// Computes one step: expected times from `start` until the next service (or the busy period) ends, and the
    /// distribution at that point.
    pub fn step(&self, kind: Kind, start: &Weights) -> Step {
        let (mut times, mut next) = (Weights::default(), start.clone());
        let ended = self.advance(kind, &mut next, &mut times);
        Step { times, next, ended }
    }

    /// Like [`Self::step`], in place; returns the probability that the excursion ends.
    pub fn advance(&self, kind: Kind, weights: &mut Weights, times: &mut Weights) -> f64 {
        let rates = self.rates(kind);
        wide::run(Spend { excursion: self, rates, start: weights, times });
        wide::run(Serve { excursion: self, rates, times, next: weights })
    }

    /// Returns for each (packets, stage), with up to `top` packets, the expected value of the next event: `ended` if
    /// the busy period ends before a service, `served(packets, from, to)` at the end of a service. More than `top`
    /// packets have the value 0.
    pub fn expected(
        &self,
        kind: Kind,
        top: usize,
        ended: f64,
        served: impl Fn(usize, usize, usize) -> f64,
    ) -> Vec<f64> {
        let mut expected = vec![0.0; (top + 1) * self.stages()];
        let mut a_second = vec![0.0; self.stages()];
        for packets in (0..=top).rev() {
            self.expected_at(self.rates(kind), packets, ended, &served, &mut a_second, &mut expected);
        }
        expected
    }

    fn expected_at(
        &self,
        rates: &Rates,
        packets: usize,
        ended: f64,
        served: &impl Fn(usize, usize, usize) -> f64,
        a_second: &mut [f64],
        expected: &mut [f64],
    ) {
        let stages = self.stages();
        let level = rates.level(packets, self.places);
        let (here, above) = expected[packets * stages..].split_at_mut(stages);
        for (stage, gain) in a_second.iter_mut().enumerate() {
            let after = above.get((self.chain.accepted)(stage)).copied().unwrap_or(0.0);
            *gain = level.ends[stage] * ended + self.arrival_pps * after;
        }
        for (from, to, rate) in rates.services(packets) {
            a_second[*from] += rate * served(packets, *from, *to);
        }
        level.gain(a_second, here);
    }

    /// Computes for each (packets, stage), with up to `top` packets, the expected value before one more service.
    /// `after` are the values after the service, `over` is the value if the busy period then is over. More than `top`
    /// packets have the value 0. Writes the result to `expected`.
    pub fn one_more(&self, kind: Kind, top: usize, after: &[f64], over: f64, expected: &mut [f64]) {
        let stages = self.stages();
        let rates = self.rates(kind);
        let mut a_second = vec![0.0; stages];
        let served = |packets: usize, _: usize, to: usize| {
            if packets == 1 && to == 0 { over } else { after[(packets - 1) * stages + to] }
        };
        if let Some(beyond) = expected.get_mut((top + 1) * stages..(top + 2) * stages) {
            beyond.fill(0.0);
        }
        let edge = |packets: usize, expected: &mut [f64]| {
            self.expected_at(rates, packets, 0.0, &served, &mut a_second, expected);
        };
        wide::run(Before { excursion: self, rates, top, after, expected, edge });
    }

    /// Returns the stages from the beginning of a busy period in `stage` to its first service, and the stages of the
    /// wake-up after that service.
    pub fn first(&self, stage: usize) -> First {
        let stages = self.stages();
        let of = |kind: Kind, set: Vec<bool>| {
            let level = self.rates(kind).between.as_ref();
            let set = level.map_or_else(|| vec![true; stages], |level| level.reached(set));
            (level.map_or_else(Vec::new, |level| level.chosen(&set)), set)
        };
        let (delivers, before) = of(Kind::Delivers { waiting: 0 }, (0..stages).map(|other| other == stage).collect());
        let mut waking = vec![false; stages];
        for from in (0..stages).filter(|from| before[*from]) {
            self.beginnings(from).iter().for_each(|(phase, _)| waking[*phase] = true);
        }
        let (wakes, _) = of(Kind::Wakes, waking);
        First { delivers, wakes, waking: Vec::new(), expected: Vec::new() }
    }

    /// Expected value at the beginning of a busy period whose first service wakes the application; `after` are the
    /// values after the wake-up (`over` as in [`Self::one_more`]). By (packets, stage), only for the stages before the
    /// first service.
    pub fn woken<'a>(&self, first: &'a mut First, top: usize, after: &[f64], over: f64) -> &'a [f64] {
        let stages = self.stages();
        let size = (top + 1) * stages;
        let First { delivers, wakes, waking, expected } = first;
        waking.resize(size, 0.0);
        expected.resize(size, 0.0);
        self.expected_of(Kind::Wakes, wakes, top, waking, |packets, _, to| {
            if packets == 1 && to == 0 { over } else { after[(packets - 1) * stages + to] }
        });
        self.expected_of(Kind::Delivers { waiting: 0 }, delivers, top, expected, |packets, from, _| {
            self.beginnings(from).iter().map(|(phase, share)| share * waking[packets * stages + phase]).sum()
        });
        expected
    }

    /// Expected values for a set of stages, with up to `top` packets.
    fn expected_of(
        &self,
        kind: Kind,
        chosen: &[Other],
        top: usize,
        expected: &mut [f64],
        served: impl Fn(usize, usize, usize) -> f64,
    ) {
        let stages = self.stages();
        let rates = self.rates(kind);
        let mut a_second = vec![0.0; stages];
        for packets in (0..=top).rev() {
            if rates.between(packets, self.places).is_none() {
                self.expected_at(rates, packets, 0.0, &served, &mut a_second, expected);
                continue;
            }
            let (here, above) = expected[packets * stages..].split_at_mut(stages);
            for other in chosen.iter().rev() {
                let mut sum = self.arrival_pps * above.get(other.accepted).copied().unwrap_or(0.0);
                other.services.iter().for_each(|(to, rate)| sum += rate * served(packets, other.stage, *to));
                other.local.iter().for_each(|(to, rate)| sum += rate * here[*to]);
                here[other.stage] = sum * other.mean_s;
            }
        }
    }

    /// Calls `within` for the jumps within a level (from, to, rate), and adds the rates of services and of ends to
    /// `leaving`.
    pub fn jumps(&self, kind: Kind, packets: usize, within: &mut dyn FnMut(usize, usize, f64), leaving: &mut [f64]) {
        let rates = self.rates(kind);
        let level = rates.level(packets, self.places);
        for (from, jumps) in level.local.iter().enumerate() {
            jumps.iter().for_each(|(to, rate)| within(from, *to, *rate));
            leaving[from] += level.ends[from];
        }
        rates.services(packets).iter().for_each(|(from, _, rate)| leaving[*from] += rate);
    }

    /// Distribution at the end of a service with an empty socket, before the packet leaves: there a wake-up begins.
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

/// Computes expected times until the next service, in place.
struct Spend<'a> {
    excursion: &'a Excursion,
    rates: &'a Rates,
    start: &'a Weights,
    times: &'a mut Weights,
}

impl wide::Work for Spend<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { excursion, rates, start, times } = self;
        let stages = excursion.stages();
        let arrival_pps = excursion.arrival_pps;
        times.low = start.low;
        times.at.clear();
        times.at.reserve(start.at.len() + 16 * stages);
        let mut packets = start.low;
        let run = excursion.identical.clone();
        loop {
            let place = (packets - start.low) * stages;
            times.at.resize(place + stages, 0.0);
            let (below, here) =
                times.at[place.saturating_sub(stages)..].split_at_mut(if place > 0 { stages } else { 0 });
            // Arrivals from the level below, which in most stages do not change the stage.
            if place > 0 {
                here[run.clone()].iter_mut().zip(&below[run.clone()]).for_each(|(sum, time)| *sum = time * arrival_pps);
                for stage in (0..run.start).chain(run.end..stages) {
                    here[(excursion.chain.accepted)(stage)] += below[stage] * arrival_pps;
                }
            }
            if let Some(entered) = start.at.get(place..place + stages) {
                here.iter_mut().zip(entered).for_each(|(sum, weight)| *sum += weight);
            } else if sum(here) < LEFT_OUT {
                times.at.truncate(place);
                break;
            }
            match rates.between(packets, excursion.places) {
                Some(level) => {
                    for other in &level.others {
                        here[other.stage] *= other.mean_s;
                        let spent = here[other.stage];
                        if spent != 0.0 {
                            other.local.iter().for_each(|(to, rate)| here[*to] += spent * rate);
                        }
                    }
                    here[level.run.clone()].iter_mut().zip(&level.mean_s).for_each(|(spent, mean_s)| *spent *= mean_s);
                }
                None => {
                    let spent = rates.level(packets, excursion.places).spend(here);
                    here.copy_from_slice(&spent);
                }
            }
            packets += 1;
            if packets > excursion.places {
                break;
            }
        }
    }
}

/// Applies the services at the end of `times`; returns the probability that the busy period ends.
struct Serve<'a> {
    excursion: &'a Excursion,
    rates: &'a Rates,
    times: &'a Weights,
    next: &'a mut Weights,
}

impl wide::Work for Serve<'_> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Self { excursion, rates, times, next } = self;
        let stages = excursion.stages();
        let low = times.low.max(1) - 1;
        let levels = times.at.len() / stages;
        next.low = low;
        next.at.clear();
        next.at.resize(levels * stages, 0.0);
        let first = times.low.max(1);
        for packets in first..times.low + levels {
            let here = &times.at[(packets - times.low) * stages..(packets - times.low + 1) * stages];
            let below = &mut next.at[(packets - 1 - low) * stages..(packets - low) * stages];
            let Some(level) = rates.between(packets, excursion.places) else {
                for (from, to, rate) in rates.services(packets) {
                    below[*to] += here[*from] * rate;
                }
                continue;
            };
            if !level.run.is_empty() {
                let into = below[level.run.start + 1..=level.run.end].iter_mut();
                into.zip(&here[level.run.clone()])
                    .zip(&level.rates)
                    .for_each(|((sum, time), rate)| *sum += time * rate);
            }
            for other in &level.others {
                other.services.iter().for_each(|(to, rate)| below[*to] += here[other.stage] * rate);
            }
        }
        let ended = if low == 0 && !next.at.is_empty() { std::mem::take(&mut next.at[0]) } else { 0.0 };
        next.trim(stages);
        ended
    }
}

/// Computes expected values before one more service; see [`Excursion::one_more`].
struct Before<'a, E> {
    excursion: &'a Excursion,
    rates: &'a Rates,
    top: usize,
    after: &'a [f64],
    expected: &'a mut [f64],
    /// Computes the special levels: empty, full, or with one packet.
    edge: E,
}

impl<E: FnMut(usize, &mut [f64])> wide::Work for Before<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { excursion, rates, top, after, expected, mut edge } = self;
        let stages = excursion.stages();
        let arrival_pps = excursion.arrival_pps;
        let nothing = vec![0.0; stages];
        for packets in (0..=top).rev() {
            let Some(level) = rates.between(packets, excursion.places) else {
                edge(packets, expected);
                continue;
            };
            let below = &after[(packets - 1) * stages..packets * stages];
            let (here, above) = expected[packets * stages..].split_at_mut(stages);
            let above = above.get(..stages).unwrap_or(&nothing);
            let run = level.run.clone();
            if !run.is_empty() {
                let next = &below[run.start + 1..=run.end];
                let each = here[run.clone()].iter_mut().zip(next).zip(&level.rates).zip(&level.mean_s);
                each.zip(&above[run]).for_each(|((((gained, next), rate), mean_s), above)| {
                    *gained = (rate * next + arrival_pps * above) * mean_s;
                });
            }
            for other in level.others.iter().rev() {
                let mut sum = arrival_pps * above[other.accepted];
                other.services.iter().for_each(|(to, rate)| sum += rate * below[*to]);
                other.local.iter().for_each(|(to, rate)| sum += rate * here[*to]);
                here[other.stage] = sum * other.mean_s;
            }
        }
    }
}
