//! A scheme in an environment that changes independently of it: the chain of the scheme's stages x the environment's
//! states, a finite quasi-birth-death process. Exact for exponential times. The environment is the source of MMPP-2
//! arrivals, or a CPU that is taken away ([`super::paused`]).
//!
//! A phase is (stage, state). Packets that arrive in a busy state find fuller rings: arrivals see the time average
//! weighted by the state's rate, and loss is a share of arrivals, not of time.

mod chain;
mod environment;
mod latency;
mod phases;

use netcliff_core::{Scheme, Service};
use num_complex::Complex64;

use super::{Work, exponential_only, napi};
use crate::answer::{Quantiles, Ring, Shares};
use crate::queue::inversion::quantile;
use crate::queue::qbd::{Blocks, Jump, Qbd, Stationary};
pub use chain::{Chain, Role};
pub use environment::{Environment, Source, stages};
use netcliff_core::engine::Fidelity;
pub use phases::Phases;

/// Largest NAPI weight that is counted. Larger ones, unless counted as unlimited, would take minutes: there are twice
/// as many phases as the weight.
const LARGEST_WEIGHT: u64 = 64;

/// Whether the scheme is supported with MMPP-2 arrivals; if not, the reason.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    if fidelity != Fidelity::Exact {
        return Err("the paper has Poisson arrivals only: use fidelity exact for mmpp".to_owned());
    }
    match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => {}
        Scheme::Napi(own) => {
            napi::supported_without_moderation(own, fidelity)?;
            if (LARGEST_WEIGHT + 1..=napi::LARGEST_WEIGHT).contains(&own.weight) {
                return Err(format!(
                    "napi under mmpp arrivals is solved for weights up to {LARGEST_WEIGHT}, not {}: use the simulator",
                    own.weight
                ));
            }
        }
        other => {
            return Err(format!(
                "mmpp arrivals are solved for ideal, interrupt, disable-enable and napi, not for {}; use the simulator",
                other.name()
            ));
        }
    }
    exponential_only(scheme, service)
}

/// Solves a supported scheme; the error is a reason for the user.
pub fn solve(scheme: &Scheme, work: &Work, source: Source) -> Result<Ring, String> {
    let chain = Chain::of(scheme, work)?;
    let modulated = Modulated::new(work, &chain, source.environment());
    let solution = modulated.solution()?;
    let mut ring = modulated.ring(scheme, &solution);
    if work.quantiles {
        let found = latency::Found::new(&modulated, source, scheme, &solution, ring.loss);
        ring.quantiles = found.and_then(|found| inverted(&|z| found.transform(z), ring.mean_latency_s));
    }
    Ok(ring)
}

/// A scheme's chain in an environment.
pub struct Modulated<'a> {
    work: &'a Work,
    chain: &'a Chain,
    environment: Environment,
    /// Arrival rate in each state (pps).
    rates: Vec<f64>,
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

    /// Jumps by arrivals, from each stage to `target` of it; none without a `target`.
    fn arrivals(&self, target: Option<fn(usize) -> usize>) -> Vec<Jump> {
        let Some(target) = target else { return Vec::new() };
        let states = self.states();
        (0..self.phases())
            .map(|phase| (phase, states * target(phase / states) + phase % states, self.rates[phase % states]))
            .filter(|(_, _, rate)| *rate > 0.0)
            .collect()
    }

    /// Jumps of the scheme's stages and of the environment.
    fn switching(&self, own: &[Jump]) -> Vec<Jump> {
        let states = self.states();
        let switches = (0..self.chain.roles.len()).flat_map(|stage| {
            let each = self.environment.switches.iter();
            each.map(move |(from, to, rate)| (states * stage + from, states * stage + to, *rate))
        });
        self.in_each_state(own).into_iter().chain(switches).collect()
    }

    /// Jumps of the stages in all states in which they occur: those in which the CPU works, but interrupts under way in
    /// every state.
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

    /// P(stage, and the CPU works) on the levels `levels`.
    fn works_in(&self, solution: &Stationary, stage: usize, levels: std::ops::RangeInclusive<usize>) -> f64 {
        let working = || self.environment.states.iter().enumerate().filter(|(_, state)| state.works);
        let at = |level: usize| {
            working().map(|(number, _)| solution.level(level)[self.states() * stage + number]).sum::<f64>()
        };
        levels.map(at).sum()
    }

    /// Figures without quantiles. CPU shares are relative to the time in which the CPU works.
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
        let mut ring = Ring {
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
        };
        if let Scheme::Napi(own) = scheme {
            napi::qualify(&mut ring, own);
        }
        ring
    }

    /// Rate of arrivals that find an empty ring during a poll or unmasking, which begin no cycle.
    fn starts_of_empty_polls(&self, solution: &Stationary) -> f64 {
        let phases = solution.level(0).iter().enumerate();
        phases
            .filter(|(phase, _)| matches!(self.chain.roles[phase / self.states()], Role::Poll | Role::Unmask))
            .map(|(phase, p)| p * self.rates[phase % self.states()])
            .sum()
    }
}

/// The four quantiles of a latency by inversion; None if the inversion fails.
fn inverted(transform: &dyn Fn(Complex64) -> Complex64, mean_s: f64) -> Option<Quantiles> {
    let at = |share| quantile(transform, mean_s, share);
    Some(Quantiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p999: at(0.999)? })
}
