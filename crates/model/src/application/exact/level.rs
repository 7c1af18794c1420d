//! The jumps of a ring with so many packets, and what they come to until a service ends, a packet comes or the ring is left alone.

use crate::queue::matrix::Matrix;
use crate::queue::qbd::Jump;
use crate::schemes::modulated::{Chain, Phases, Role};

/// Jumps of one level, without arrivals that raise it and without services.
pub struct Level {
    /// Stages such that jumps go from earlier to later ones; None where they go in circles.
    order: Option<Vec<usize>>,
    /// Where each stage goes (to, rate); an end of the excursion goes nowhere.
    pub local: Vec<Vec<(usize, f64)>>,
    /// Rate out of each stage, arrivals, services and ends included.
    out: Vec<f64>,
    /// Rate at which each stage ends the excursion.
    pub ends: Vec<f64>,
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

impl Rates {
    /// The rates of services as `pace` has them, from the role of their stage and the chain's own rate; others are the chain's.
    pub fn new(chain: &Chain, phases: Phases, arrival_pps: f64, pace: &dyn Fn(Role, f64) -> f64) -> Self {
        // All services of a stage together take what `pace` says; where they lead stays.
        let paced = |jumps: &[Jump]| -> Vec<Jump> {
            let mut all = vec![0.0; chain.roles.len()];
            jumps.iter().for_each(|(from, _, rate)| all[*from] += rate);
            let factor = |from: usize| pace(chain.roles[from], all[from]) / all[from];
            jumps.iter().map(|(from, to, rate)| (*from, *to, rate * factor(*from))).collect()
        };
        let chain = phases.expand(&Chain { down: paced(&chain.down), last: paced(&chain.last), ..chain.clone() });
        let arrival = Some(arrival_pps);
        Self {
            bottom: Level::new(&chain, &chain.nothing, &[], arrival, true),
            middle: Level::new(&chain, &chain.local, &chain.down, arrival, false),
            top: Level::full(&chain, &chain.down, arrival_pps),
            down: chain.down,
            last: chain.last,
        }
    }

    /// The jumps with so many packets in a ring of `places`.
    pub fn level(&self, packets: usize, places: usize) -> &Level {
        match packets {
            0 => &self.bottom,
            _ if packets == places => &self.top,
            _ => &self.middle,
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
    /// Expected gain from each stage until the level is left, of what each stage gains a second; 0 where a stage is never left.
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
