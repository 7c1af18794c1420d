//! A scheme in an environment that changes independently of it. The chain combines the scheme's stages with the
//! environment's states; it is a finite quasi-birth-death process, exact for exponential times. The environment is the
//! source of MMPP-2 arrivals ([`super::mmpp`]), or a CPU with pauses ([`super::paused`]).
//!
//! A phase is (stage, state). Packets that arrive in a busy state find fuller rings: arrivals see the time average
//! weighted by the state's arrival rate, and loss is a share of arrivals, not of time.

mod chain;
mod environment;
mod phases;

use netcliff_core::Scheme;

use super::Work;
use crate::answer::{Ring, Shares};
use crate::queue::qbd::{Blocks, Jump, Qbd, Stationary};
pub use chain::{Chain, Role};
pub use environment::{Environment, Source, stages};
pub use phases::Phases;

/// A scheme's chain in an environment.
pub struct Modulated<'a> {
    pub(super) work: &'a Work,
    pub(super) chain: &'a Chain,
    environment: Environment,
    /// Arrival rate in each state (pps).
    pub(super) rates: Vec<f64>,
}

impl<'a> Modulated<'a> {
    pub fn new(work: &'a Work, chain: &'a Chain, environment: Environment) -> Self {
        let rates = environment.states.iter().map(|state| state.relative_rate * work.arrival_pps).collect();
        Self { work, chain, environment, rates }
    }

    /// The stationary distribution; the error is a reason for the user.
    pub fn solution(&self) -> Result<Stationary, String> {
        self.qbd().stationary().map_err(|error| error.to_string())
    }

    fn states(&self) -> usize {
        self.rates.len()
    }

    fn phases(&self) -> usize {
        self.states() * self.chain.roles.len()
    }

    fn qbd(&self) -> Qbd {
        let places = self.work.places as usize;
        let chain = self.chain;
        let up = self.arrivals(Some(chain.accepted));
        let refused = self.arrivals(chain.refused);
        let level = |up: &[Jump], local: &[Jump], down: &[Jump]| Blocks {
            up: up.to_vec(),
            local: self.switching(local),
            down: self.in_each_state(down),
        };
        let mut full = level(&[], &chain.local, if places == 1 { &chain.last } else { &chain.down });
        full.local.extend(refused);
        let mut runs = vec![(0, level(&up, &chain.nothing, &[]))];
        if places > 1 {
            runs.push((1, level(&up, &chain.local, &chain.last)));
        }
        if places > 2 {
            runs.push((2, level(&up, &chain.local, &chain.down)));
        }
        runs.push((places, full));
        Qbd::new(self.phases(), places, runs)
    }

    /// Jumps by arrivals, from each stage to the stage `target(stage)`; empty if `target` is `None`.
    fn arrivals(&self, target: Option<fn(usize) -> usize>) -> Vec<Jump> {
        let Some(target) = target else { return Vec::new() };
        let states = self.states();
        (0..self.phases())
            .map(|phase| (phase, states * target(phase / states) + phase % states, self.rates[phase % states]))
            .filter(|(_, _, rate)| *rate > 0.0)
            .collect()
    }

    /// Jumps of the scheme's stages (`own`) and of the environment.
    fn switching(&self, own: &[Jump]) -> Vec<Jump> {
        let states = self.states();
        let switches = (0..self.chain.roles.len()).flat_map(|stage| {
            let each = self.environment.switches.iter();
            each.map(move |(from, to, rate)| (states * stage + from, states * stage + to, *rate))
        });
        self.in_each_state(own).into_iter().chain(switches).collect()
    }

    /// Repeats the stages' jumps for each state in which they can occur. Work needs a state in which the CPU works; the
    /// delivery of an interrupt continues in every state.
    fn in_each_state(&self, jumps: &[Jump]) -> Vec<Jump> {
        let states = self.environment.states.iter().enumerate();
        let takes_place = |stage: usize, works: bool| works || self.chain.roles[stage] == Role::Waiting;
        states
            .flat_map(|(number, state)| {
                let own = jumps.iter().filter(move |(from, ..)| takes_place(*from, state.works));
                own.map(move |(from, to, rate)| (self.states() * from + number, self.states() * to + number, *rate))
            })
            .collect()
    }

    /// P(stage, and the CPU works), summed over `levels`.
    fn works_in(&self, solution: &Stationary, stage: usize, levels: std::ops::RangeInclusive<usize>) -> f64 {
        let working = || self.environment.states.iter().enumerate().filter(|(_, state)| state.works);
        let at = |level: usize| {
            working().map(|(number, _)| solution.level(level)[self.states() * stage + number]).sum::<f64>()
        };
        levels.map(at).sum()
    }

    /// Computes the figures without quantiles. CPU shares are relative to the time in which the CPU works.
    pub fn ring(&self, scheme: &Scheme, solution: &Stationary) -> Ring {
        let (work, chain) = (self.work, self.chain);
        let places = work.places as usize;
        let sum = |role: Role, levels: std::ops::RangeInclusive<usize>| -> f64 {
            let stages = (0..chain.roles.len()).filter(|stage| chain.roles[*stage] == role);
            stages.map(|stage| self.works_in(solution, stage, levels.clone())).sum()
        };
        // P(role, and the ring is not empty), and P(role, and the ring is empty).
        let busy = |role: Role| sum(role, 1..=places);
        let empty = |role: Role| sum(role, 0..=0);
        let nothing: f64 = (0..chain.roles.len()).map(|stage| self.works_in(solution, stage, 0..=0)).sum();
        let (first, poll) = (busy(Role::First), busy(Role::Poll) + empty(Role::Poll));
        let unmask = busy(Role::Unmask) + empty(Role::Unmask);
        let shares = Shares {
            interrupt: busy(Role::Interrupt) + first * (1.0 - chain.first_serves),
            poll: poll + unmask,
            protocol: busy(Role::Serving) + first * chain.first_serves,
            available: nothing - empty(Role::Poll) - empty(Role::Unmask) + busy(Role::Waiting),
        };
        let arriving = |level: usize| -> f64 {
            solution.level(level).iter().enumerate().map(|(phase, p)| p * self.rates[phase % self.states()]).sum()
        };
        let started = arriving(0) - self.starts_of_empty_polls(solution);
        let throughput_pps = shares.protocol / work.service_s;
        let mean_present = solution.mean_level();
        let mean_latency_s = mean_present / throughput_pps;
        let loss = arriving(places) / work.arrival_pps;
        let interrupts_per_s = match scheme {
            Scheme::Ideal => 0.0,
            Scheme::Interrupt { .. } => shares.interrupt * work.stage_rate(work.interrupt_s),
            _ => started + busy(Role::Unmask) * work.stage_rate(work.mask_s),
        };
        Ring {
            throughput_pps,
            loss,
            mean_present,
            mean_latency_s,
            quantiles: None,
            latencies: None,
            interrupts_per_s,
            cycles_per_s: started,
            clocked: false,
            polls_per_s: matches!(scheme, Scheme::Napi(_)).then(|| poll * work.stage_rate(work.poll_s)),
            shares,
            exact: true,
            notes: Vec::new(),
        }
    }

    /// Rate of arrivals at an empty ring during a poll or unmasking, which start no new cycle.
    fn starts_of_empty_polls(&self, solution: &Stationary) -> f64 {
        let phases = solution.level(0).iter().enumerate();
        phases
            .filter(|(phase, _)| matches!(self.chain.roles[phase / self.states()], Role::Poll | Role::Unmask))
            .map(|(phase, p)| p * self.rates[phase % self.states()])
            .sum()
    }
}
