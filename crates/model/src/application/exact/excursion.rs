//! The ring between two moments at which the application may run: from the interrupt that ends a free period to the moment
//! the ring is left alone again, service by service.
//!
//! Between two services packets only come, so that the expected times in (packets, stage) follow level by level from below;
//! every term is positive. The application stands still meanwhile: what an excursion does to the socket is how many
//! services it has.

use crate::queue::matrix::Matrix;
use crate::queue::qbd::Jump;
use crate::schemes::Work;
use crate::schemes::modulated::{Chain, Role};

/// Weights below this, of a start of weight 1, are left out.
pub const LEFT_OUT: f64 = 1e-26;

/// What the end of a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A packet goes to the socket.
    Delivers,
    /// The wake-up that follows the service of a packet for a sleeping application.
    Wakes,
    /// A packet is dropped at the full socket.
    Drops,
}

/// Jumps of one level, without arrivals that raise it and without services.
struct Level {
    /// Stages such that jumps go from earlier to later ones; None where they go in circles.
    order: Option<Vec<usize>>,
    /// Where each stage goes (to, rate); an end of the excursion goes nowhere.
    local: Vec<Vec<(usize, f64)>>,
    /// Rate out of each stage, arrivals, services and ends included.
    out: Vec<f64>,
    /// Rate at which each stage ends the excursion.
    ends: Vec<f64>,
    /// Expected times, where jumps go in circles.
    times: Option<Matrix>,
}

/// One scheme's ring at one kind of service.
pub struct Rates {
    bottom: Level,
    middle: Level,
    top: Level,
    down: Vec<Jump>,
    last: Vec<Jump>,
}

/// Weights over (packets, stage) from the level `low` up, level by level.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    /// Packets of the first level.
    pub low: usize,
    /// Weight of each stage.
    pub at: Vec<f64>,
}

/// The ring of a scheme.
pub struct Excursion<'a> {
    /// Its stages.
    pub chain: &'a Chain,
    /// B.
    pub places: usize,
    arrival_pps: f64,
    delivers: Rates,
    wakes: Option<Rates>,
    drops: Rates,
}

/// What happens from one service's end to the next one's.
pub struct Step {
    /// Expected times (s).
    pub times: Weights,
    /// Just after the next service; the weight that is left alone there is in `ended`.
    pub next: Weights,
    /// Weight that is left alone before another service ends.
    pub ended_before: f64,
    /// Weight that is left alone by the service.
    pub ended: f64,
}

impl Weights {
    /// Weight 1 at one place.
    pub fn one(stages: usize, packets: usize, stage: usize) -> Self {
        let mut at = vec![0.0; stages];
        at[stage] = 1.0;
        Self { low: packets, at }
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.at.iter().sum()
    }

    /// Adds `factor` times another.
    pub fn add(&mut self, stages: usize, other: &Self, factor: f64) {
        if other.at.is_empty() || factor == 0.0 {
            return;
        }
        if self.at.is_empty() {
            self.low = other.low;
        }
        if other.low < self.low {
            let lacking = (self.low - other.low) * stages;
            self.at.splice(0..0, std::iter::repeat_n(0.0, lacking));
            self.low = other.low;
        }
        let first = (other.low - self.low) * stages;
        if self.at.len() < first + other.at.len() {
            self.at.resize(first + other.at.len(), 0.0);
        }
        self.at[first..].iter_mut().zip(&other.at).for_each(|(sum, weight)| *sum += factor * weight);
    }
}

impl<'a> Excursion<'a> {
    /// The ring of `chain`; wake-ups take `wakeup_s`, a service for a full socket the share `drop_cost` of another.
    pub fn new(chain: &'a Chain, work: &Work, wakeup_s: f64, drop_cost: f64) -> Self {
        let rates = |pace: &dyn Fn(Role, f64) -> f64| Rates::new(chain, work, pace);
        let dropping_pps = work.stage_rate(work.service_s * drop_cost);
        Self {
            chain,
            places: work.places as usize,
            arrival_pps: work.arrival_pps,
            delivers: rates(&|_, rate| rate),
            wakes: (wakeup_s > 0.0).then(|| rates(&|_, _| work.stage_rate(wakeup_s))),
            drops: rates(&|role, rate| if role == Role::First { rate } else { dropping_pps }),
        }
    }

    /// Stages.
    pub fn stages(&self) -> usize {
        self.chain.roles.len()
    }

    /// True if waking the application takes time.
    pub fn wakes(&self) -> bool {
        self.wakes.is_some()
    }

    /// The jumps at a kind of service.
    pub fn rates(&self, kind: Kind) -> &Rates {
        match kind {
            Kind::Delivers => &self.delivers,
            Kind::Wakes => self.wakes.as_ref().unwrap_or(&self.delivers),
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
        let mut ended_before = 0.0;
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
            let level = self.level(rates, packets);
            let spent = level.spend(&inflow);
            ended_before += spent.iter().zip(&level.ends).map(|(time, rate)| time * rate).sum::<f64>();
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
        Step { times, next, ended_before, ended }
    }

    /// lambda (pps).
    pub fn arrival_pps(&self) -> f64 {
        self.arrival_pps
    }

    /// The jumps within a level as (from, to, rate), and into `leaving` the rates of services and ends.
    pub fn jumps(&self, kind: Kind, packets: usize, within: &mut dyn FnMut(usize, usize, f64), leaving: &mut [f64]) {
        let rates = self.rates(kind);
        let level = self.level(rates, packets);
        for (from, jumps) in level.local.iter().enumerate() {
            jumps.iter().for_each(|(to, rate)| within(from, *to, *rate));
            leaving[from] += level.ends[from];
        }
        rates.services(packets).iter().for_each(|(from, _, rate)| leaving[*from] += rate);
    }

    fn level<'b>(&self, rates: &'b Rates, packets: usize) -> &'b Level {
        match packets {
            0 => &rates.bottom,
            _ if packets == self.places => &rates.top,
            _ => &rates.middle,
        }
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

    /// The ends of services as they are, before the packet leaves: where a wake-up begins.
    pub fn completed(&self, times: &Weights) -> Weights {
        let stages = self.stages();
        let mut found = Weights { low: times.low, at: vec![0.0; times.at.len()] };
        for (place, (level, into)) in times.at.chunks(stages).zip(found.at.chunks_mut(stages)).enumerate() {
            for (from, _, rate) in self.delivers.services(times.low + place) {
                into[*from] += level[*from] * rate;
            }
        }
        found.trim(stages);
        found
    }
}

impl Weights {
    /// Leaves out levels of no weight at either end.
    fn trim(&mut self, stages: usize) {
        let heavy = |level: &[f64]| level.iter().sum::<f64>() > LEFT_OUT;
        let last = self.at.chunks(stages).rposition(heavy).map_or(0, |last| last + 1);
        self.at.truncate(last * stages);
        let first = self.at.chunks(stages).position(heavy).unwrap_or(0);
        self.at.drain(..first * stages);
        self.low += first;
    }
}

impl Rates {
    fn new(chain: &Chain, work: &Work, pace: &dyn Fn(Role, f64) -> f64) -> Self {
        let paced = |jumps: &[Jump]| -> Vec<Jump> {
            jumps.iter().map(|(from, to, rate)| (*from, *to, pace(chain.roles[*from], *rate))).collect()
        };
        let (down, last) = (paced(&chain.down), paced(&chain.last));
        let arrival = Some(work.arrival_pps);
        Self {
            bottom: Level::new(chain, &chain.nothing, &[], arrival, true),
            middle: Level::new(chain, &chain.local, &down, arrival, false),
            top: Level::full(chain, &down, work.arrival_pps),
            down,
            last,
        }
    }

    /// Services with so many packets present.
    pub fn services(&self, packets: usize) -> &[Jump] {
        match packets {
            0 => &[],
            1 => &self.last,
            _ => &self.down,
        }
    }
}

impl Level {
    fn full(chain: &Chain, services: &[Jump], arrival_pps: f64) -> Self {
        let mut local = chain.local.clone();
        if let Some(refused) = chain.refused {
            local.extend((0..chain.roles.len()).map(|stage| (stage, refused(stage), arrival_pps)));
        }
        Self::new(chain, &local, services, None, false)
    }

    /// `arrival`: the rate of arrivals that raise the level; `empty`: stage 0 is the end.
    fn new(chain: &Chain, jumps: &[Jump], services: &[Jump], arrival: Option<f64>, empty: bool) -> Self {
        let stages = chain.roles.len();
        let mut level = Self {
            order: None,
            local: vec![Vec::new(); stages],
            out: vec![arrival.unwrap_or(0.0); stages],
            ends: vec![0.0; stages],
            times: None,
        };
        for (from, to, rate) in jumps.iter().filter(|(from, to, _)| from != to) {
            level.out[*from] += rate;
            if empty && *to == 0 {
                level.ends[*from] += rate;
            } else {
                level.local[*from].push((*to, *rate));
            }
        }
        for (from, _, rate) in services {
            level.out[*from] += rate;
        }
        level.order = level.sorted();
        if level.order.is_none() {
            let mut matrix = Matrix::zero(stages);
            let mut leaving = level.out.clone();
            for (from, jumps) in level.local.iter().enumerate() {
                for (to, rate) in jumps {
                    matrix.add(from, *to, *rate);
                }
            }
            leaving.fill(arrival.unwrap_or(0.0));
            services.iter().for_each(|(from, _, rate)| leaving[*from] += rate);
            leaving.iter_mut().zip(&level.ends).for_each(|(sum, rate)| *sum += rate);
            level.times = Some(matrix.expected_times(leaving));
        }
        level
    }

    /// Stages in the order of their jumps, if there is one.
    fn sorted(&self) -> Option<Vec<usize>> {
        let stages = self.local.len();
        let mut into = vec![0; stages];
        self.local.iter().flatten().for_each(|(to, _)| into[*to] += 1);
        let mut order: Vec<usize> = (0..stages).filter(|stage| into[*stage] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for (to, _) in &self.local[order[next]] {
                into[*to] -= 1;
                if into[*to] == 0 {
                    order.push(*to);
                }
            }
            next += 1;
        }
        (order.len() == stages).then_some(order)
    }

    /// Expected times in the stages from these entries, until the level is left.
    fn spend(&self, inflow: &[f64]) -> Vec<f64> {
        let Some(order) = &self.order else {
            return self.times.as_ref().map_or_else(Vec::new, |times| times.left_product(inflow));
        };
        let mut spent = inflow.to_vec();
        for stage in order {
            if spent[*stage] == 0.0 {
                continue;
            }
            spent[*stage] /= self.out[*stage];
            for (to, rate) in &self.local[*stage] {
                spent[*to] += spent[*stage] * rate;
            }
        }
        spent
    }
}
