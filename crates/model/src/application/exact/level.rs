//! Jumps of a ring at one number of packets (a level), and expected times and values until a service ends, a packet
//! arrives or the excursion ends.

use crate::queue::matrix::Matrix;
use crate::queue::qbd::Jump;
use crate::schemes::modulated::{Chain, Phases, Role};

/// Jumps between stages at one number of packets in the ring (a level), without services and without arrivals that
/// raise the level.
pub struct Level {
    /// Order of the stages such that jumps go only forward; `None` if jumps form cycles.
    order: Option<Vec<usize>>,
    /// Jumps (to, rate) of each stage. The end of the excursion has no target.
    pub local: Vec<Vec<(usize, f64)>>,
    /// Total rate out of each stage, including arrivals, services and ends.
    out: Vec<f64>,
    /// Rate at which each stage ends the excursion.
    pub ends: Vec<f64>,
    /// Expected times; only present if jumps form cycles.
    times: Option<Matrix>,
}

/// One scheme's ring with one kind of service.
pub struct Rates {
    bottom: Level,
    middle: Level,
    top: Level,
    down: Vec<Jump>,
    last: Vec<Jump>,
    /// The normal levels: neither empty nor full, and more than one packet. `None` if jumps between their stages form
    /// cycles.
    pub between: Option<Between>,
}

/// A normal level (neither empty nor full), with its stages sorted so that one loop computes most of them.
pub struct Between {
    /// Consecutive stages that arrivals do not change and whose only jump is the service, to the next stage: the
    /// packets of a poll.
    pub run: std::ops::Range<usize>,
    /// Mean time in each stage of `run` (s).
    pub mean_s: Vec<f64>,
    /// Service rate of each stage of `run` (1/s).
    pub rates: Vec<f64>,
    /// The other stages, sorted so that jumps go forward.
    pub others: Vec<Other>,
}

/// A stage with jumps other than services.
#[derive(Clone)]
pub struct Other {
    pub stage: usize,
    /// Mean time (s).
    pub mean_s: f64,
    /// The stage after an arrival.
    pub accepted: usize,
    /// Jumps within the level (to, rate).
    pub local: Vec<(usize, f64)>,
    /// Services (to, rate).
    pub services: Vec<(usize, f64)>,
}

impl Between {
    fn new(middle: &Level, down: &[Jump], accepted: fn(usize) -> usize) -> Option<Self> {
        let order = middle.order.as_ref()?;
        let stages = middle.local.len();
        let services = |stage: usize| -> Vec<(usize, f64)> {
            down.iter().filter(|(from, ..)| *from == stage).map(|(_, to, rate)| (*to, *rate)).collect()
        };
        let runs = |stage: usize| {
            middle.local[stage].is_empty()
                && accepted(stage) == stage
                && matches!(services(stage)[..], [(to, _)] if to == stage + 1)
        };
        let last = (0..stages).rposition(runs);
        let first = last.map(|last| (0..last + 1).rposition(|stage| !runs(stage)).map_or(0, |before| before + 1));
        let run = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let other = |stage: &usize| Other {
            stage: *stage,
            mean_s: 1.0 / middle.out[*stage],
            accepted: accepted(*stage),
            local: middle.local[*stage].clone(),
            services: services(*stage),
        };
        Some(Self {
            mean_s: run.clone().map(|stage| 1.0 / middle.out[stage]).collect(),
            rates: run.clone().map(|stage| services(stage)[0].1).collect(),
            others: order.iter().filter(|stage| !run.contains(stage)).map(other).collect(),
            run,
        })
    }

    /// Returns the stages of a set, sorted so that jumps go forward.
    pub fn chosen(&self, set: &[bool]) -> Vec<Other> {
        let run = self.run.clone().enumerate().map(|(place, stage)| Other {
            stage,
            mean_s: self.mean_s[place],
            accepted: stage,
            local: Vec::new(),
            services: vec![(stage + 1, self.rates[place])],
        });
        self.others.iter().cloned().chain(run).filter(|other| set[other.stage]).collect()
    }

    /// Returns the stages of a set, and all stages that may follow before a service.
    pub fn reached(&self, mut set: Vec<bool>) -> Vec<bool> {
        // Arrivals may lead back to earlier stages; this number of rounds suffices to add each stage once.
        for _ in 0..set.len() {
            for other in self.others.iter().filter(|other| set[other.stage]).collect::<Vec<_>>() {
                set[other.accepted] = true;
                other.local.iter().for_each(|(to, _)| set[*to] = true);
            }
        }
        set
    }
}

impl Rates {
    /// Makes the rates, with service rates from `pace` (role of the stage, the chain's own rate); other rates are the
    /// chain's.
    pub fn new(chain: &Chain, phases: Phases, arrival_pps: f64, pace: &dyn Fn(Role, f64) -> f64) -> Self {
        // `pace` gives the sum of a stage's service rates; their targets do not change.
        let paced = |jumps: &[Jump]| -> Vec<Jump> {
            let mut all = vec![0.0; chain.roles.len()];
            jumps.iter().for_each(|(from, _, rate)| all[*from] += rate);
            let factor = |from: usize| pace(chain.roles[from], all[from]) / all[from];
            jumps.iter().map(|(from, to, rate)| (*from, *to, rate * factor(*from))).collect()
        };
        let chain = phases.expand(&Chain { down: paced(&chain.down), last: paced(&chain.last), ..chain.clone() });
        let arrival = Some(arrival_pps);
        let middle = Level::new(&chain, &chain.local, &chain.down, arrival, false);
        Self {
            bottom: Level::new(&chain, &chain.nothing, &[], arrival, true),
            between: Between::new(&middle, &chain.down, chain.accepted),
            middle,
            top: Level::full(&chain, &chain.down, arrival_pps),
            down: chain.down,
            last: chain.last,
        }
    }

    /// The jumps at this number of packets in a ring of `places`.
    pub fn level(&self, packets: usize, places: usize) -> &Level {
        match packets {
            0 => &self.bottom,
            _ if packets == places => &self.top,
            _ => &self.middle,
        }
    }

    /// Returns the level; `None` for the two lowest levels and the level of a full ring, or if its jumps form cycles.
    pub fn between(&self, packets: usize, places: usize) -> Option<&Between> {
        self.between.as_ref().filter(|_| packets > 1 && packets < places)
    }

    /// Services at this number of packets.
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

    /// Makes a level. `arrival`: rate of arrivals that raise the level; `empty`: the ring is empty, so that stage 0 is
    /// the end of the busy period.
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

    /// Returns an order of the stages such that jumps go only forward; `None` if jumps form cycles.
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

    /// Expected times in the stages until the level is left, from the rates of entry `inflow`.
    pub fn spend(&self, inflow: &[f64]) -> Vec<f64> {
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
    /// Expected value collected from each stage until the level is left, if each stage yields `a_second` per second; 0
    /// for a stage that is never left.
    pub fn gain(&self, a_second: &[f64], gained: &mut [f64]) {
        let Some(order) = &self.order else {
            let Some(times) = &self.times else { return };
            for (stage, gain) in gained.iter_mut().enumerate() {
                *gain = times.row(stage).iter().zip(a_second).map(|(time, rate)| time * rate).sum();
            }
            return;
        };
        for &stage in order.iter().rev() {
            let after: f64 = self.local[stage].iter().map(|(to, rate)| rate * gained[*to]).sum();
            let all = a_second[stage] + after;
            gained[stage] = if all > 0.0 { all / self.out[stage] } else { 0.0 };
        }
    }
}
