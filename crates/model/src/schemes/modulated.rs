//! MMPP-2 arrivals: the chain of a scheme's stages times the two states of the source, a finite quasi-birth-death
//! process. Exact for exponential times.
//!
//! A phase is (stage, source's state). Packets that arrive in the busy state find fuller rings: what an arrival sees is
//! the time average weighted by the state's rate, and loss is that share of arrivals, not of time.

mod chain;
mod latency;

use netcliff_core::{Arrivals, Scheme, Service};
use num_complex::Complex64;

use super::{Work, exponential_only, napi};
use crate::answer::{Quantiles, Ring, Shares};
use crate::engine::Fidelity;
use crate::queue::inversion::quantile;
use crate::queue::qbd::{Blocks, Jump, Qbd, Stationary};
pub use chain::{Chain, Role};

/// NAPI weights above this, and not above the one taken as unlimited, would cost minutes: phases are twice the weight.
const LARGEST_WEIGHT: u64 = 64;

/// A two-state source, quiet and busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// Arrivals in each state over the mean rate.
    relative_rates: [f64; 2],
    /// Rate at which each state is left (1/s).
    leaving: [f64; 2],
}

impl Source {
    /// The source of MMPP arrivals, None for others. At a peak of 1 / busy the quiet state sends nothing.
    pub fn of(arrivals: &Arrivals) -> Option<Self> {
        let Arrivals::Mmpp { peak, busy, stay_s } = arrivals else { return None };
        let quiet = ((1.0 - peak * busy) / (1.0 - busy)).max(0.0);
        Some(Self { relative_rates: [quiet, *peak], leaving: [busy / (1.0 - busy) / stay_s, 1.0 / stay_s] })
    }
}

/// Whether the scheme has an answer for MMPP-2 arrivals; if not, why.
pub fn supported(scheme: &Scheme, fidelity: Fidelity, service: &Service) -> Result<(), String> {
    if fidelity == Fidelity::Paper {
        return Err("the paper has Poisson arrivals only: use fidelity exact for mmpp".to_owned());
    }
    match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { .. } => {}
        Scheme::Napi(own) => {
            napi::supported(own, fidelity)?;
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

/// Solves a supported scheme; an error is a reason for a user.
pub fn solve(scheme: &Scheme, work: &Work, source: Source) -> Result<Ring, String> {
    let chain = Chain::of(scheme, work)?;
    let modulated =
        Modulated { work, chain: &chain, rates: source.relative_rates.map(|r| r * work.arrival_pps), source };
    let solution = modulated.qbd().stationary().map_err(|error| error.to_string())?;
    Ok(modulated.ring(scheme, &solution))
}

/// A scheme's chain under a source.
struct Modulated<'a> {
    work: &'a Work,
    chain: &'a Chain,
    /// Arrivals in each state of the source (pps).
    rates: [f64; 2],
    source: Source,
}

impl Modulated<'_> {
    fn qbd(&self) -> Qbd {
        let places = self.work.places as usize;
        let chain = self.chain;
        let up = self.arrivals(Some(chain.accepted));
        let refused = self.arrivals(chain.refused);
        let level = |up: &[Jump], local: &[Jump], down: &[Jump]| Blocks {
            up: up.to_vec(),
            local: self.switching(local),
            down: both_states(down),
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
        Qbd::new(2 * chain.roles.len(), places, runs)
    }

    /// Jumps by arrivals to the stage that `target` makes of a stage; none where there is no target.
    fn arrivals(&self, target: Option<fn(usize) -> usize>) -> Vec<Jump> {
        let Some(target) = target else { return Vec::new() };
        let phases = 0..2 * self.chain.roles.len();
        phases
            .map(|phase| (phase, 2 * target(phase / 2) + phase % 2, self.rates[phase % 2]))
            .filter(|(_, _, rate)| *rate > 0.0)
            .collect()
    }

    /// The stages' own jumps and the source's.
    fn switching(&self, own: &[Jump]) -> Vec<Jump> {
        let phases = 0..2 * self.chain.roles.len();
        let switches = phases.map(|phase| (phase, phase ^ 1, self.source.leaving[phase % 2]));
        both_states(own).into_iter().chain(switches).collect()
    }

    fn ring(&self, scheme: &Scheme, solution: &Stationary) -> Ring {
        let (work, chain) = (self.work, self.chain);
        let places = work.places as usize;
        // P(role), above an empty ring.
        let busy = |role: Role| -> f64 {
            let stages = chain.roles.iter().enumerate().filter(|(_, own)| **own == role);
            stages.map(|(stage, _)| pair(solution, stage, 1)).sum()
        };
        // P(role and an empty ring).
        let empty = |role: Role| -> f64 {
            let stages = (0..chain.roles.len()).filter(|stage| chain.roles[*stage] == role);
            stages.map(|stage| solution.level(0)[2 * stage] + solution.level(0)[2 * stage + 1]).sum()
        };
        let (first, poll) = (busy(Role::First), busy(Role::Poll) + empty(Role::Poll));
        let unmask = busy(Role::Unmask) + empty(Role::Unmask);
        let shares = Shares {
            interrupt: busy(Role::Interrupt) + first * (1.0 - chain.first_serves),
            poll: poll + unmask,
            protocol: busy(Role::Serving) + first * chain.first_serves,
            available: solution.level_probability(0) - empty(Role::Poll) - empty(Role::Unmask) + busy(Role::Waiting),
        };
        let arriving = |level: usize| -> f64 {
            solution.level(level).iter().enumerate().map(|(phase, p)| p * self.rates[phase % 2]).sum()
        };
        let started = arriving(0) - self.starts_of_empty_polls(solution);
        let throughput_pps = shares.protocol / work.service_s;
        let mean_present = solution.mean_level();
        let mean_latency_s = mean_present / throughput_pps;
        let loss = arriving(places) / work.arrival_pps;
        let found = if work.quantiles { latency::Found::new(self, scheme, solution, loss) } else { None };
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
            quantiles: found.and_then(|found| inverted(&|z| found.transform(z), mean_latency_s)),
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

    /// Arrivals that find an empty ring and a poll or unmasking that runs: they start no cycle.
    fn starts_of_empty_polls(&self, solution: &Stationary) -> f64 {
        let phases = solution.level(0).iter().enumerate();
        phases
            .filter(|(phase, _)| matches!(self.chain.roles[phase / 2], Role::Poll | Role::Unmask))
            .map(|(phase, p)| p * self.rates[phase % 2])
            .sum()
    }
}

/// The four quantiles of a latency by inversion; None where the inversion gives none.
fn inverted(transform: &dyn Fn(Complex64) -> Complex64, mean_s: f64) -> Option<Quantiles> {
    let at = |share| quantile(transform, mean_s, share);
    Some(Quantiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p999: at(0.999)? })
}

/// P(stage), whatever the source's state, over the levels from `from` up.
fn pair(solution: &Stationary, stage: usize, from: usize) -> f64 {
    solution.phase_probability(2 * stage, from) + solution.phase_probability(2 * stage + 1, from)
}

/// The same jumps in both states of the source.
fn both_states(jumps: &[Jump]) -> Vec<Jump> {
    let twice = |(from, to, rate): &Jump| [(2 * from, 2 * to, *rate), (2 * from + 1, 2 * to + 1, *rate)];
    jumps.iter().flat_map(twice).collect()
}
