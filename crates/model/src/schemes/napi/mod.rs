//! napi: Linux's poll loop as a finite quasi-birth-death process with phases {delivery, ISR, poll overhead, unmask, k
//! served}.
//!
//! After an arrival at an idle host: delivery of the interrupt (phase 0, the CPU being free), masking and interrupt
//! handler (phase 1), then for each poll its overhead (phase 2) and up to `weight` packets (phase 4 + k: k served in
//! this poll). If a poll serves fewer than `weight` packets, the ring is empty, and the driver unmasks (phase 3). A
//! packet that arrives during unmasking interrupts at its end. After `weight` packets the next poll follows, even if
//! the ring is empty: that poll finds nothing and unmasks.

mod announce;
mod moderated;
mod polls;
mod residual;

pub use moderated::{AsTimer, as_timer};
use netcliff_core::note::Note;
use netcliff_core::{Napi, Scheme};
use num_complex::Complex64;

use super::modulated::{Chain as Stages, Environment, Modulated, Phases, Role};
use super::{Work, afford, exponential, quantiles};
use crate::answer::{Distribution, Ring, Shares};
use crate::queue::arrivals::TimeShape;
use crate::queue::qbd::{Blocks, Jump, Qbd, Stationary};
use netcliff_core::engine::Fidelity;

/// Phase 0. At level 0: idle with interrupts enabled. Above level 0: the interrupt has not been delivered yet
/// (`interrupt_latency`).
const DELIVERY: usize = 0;
const ISR: usize = 1;
const OVERHEAD: usize = 2;
const UNMASK: usize = 3;
const SERVING: usize = 4;

/// Largest weight whose packets are counted. Larger weights are solved as if unlimited: a chain with that many phases
/// would take seconds.
pub const LARGEST_WEIGHT: u64 = 256;

/// Largest range of packet numbers that an arrival may find; quantiles then take about a second.
const MOST_LEVELS: usize = 20_000;
/// Maximum number of states (packets, phase), which take some seconds and 500 MB.
const MOST_STATES: usize = 1 << 25;

/// Number of phases for polls of at most `weight` packets; `None`: unlimited polls.
fn phases(weight: Option<usize>) -> usize {
    SERVING + weight.unwrap_or(1)
}

/// Returns the weight up to which the chain counts packets; `None` if the weight is treated as unlimited.
fn counted(weight: u64) -> Option<usize> {
    (weight <= LARGEST_WEIGHT).then_some(weight as usize)
}

/// Number of phases of the chain.
pub fn chain_phases(napi: &Napi) -> u64 {
    phases(counted(napi.weight)) as u64
}

/// Checks that the chain covers this configuration of NAPI; the error is the reason why not.
pub fn supported(napi: &Napi, fidelity: Fidelity) -> Result<(), String> {
    let lacking = if fidelity != Fidelity::Exact {
        "the paper has no approximation of Linux's NAPI: use fidelity exact, or the scheme napi-2007"
    } else if napi.threaded {
        "threaded NAPI shares the CPU with the application by the scheduler, which no Markov chain here has: use the simulator"
    } else if napi.defer_hard_irqs > 0 {
        "deferred interrupts poll by a deterministic timer, which the exponential chain lacks: use the simulator"
    } else if napi.busy_poll {
        "busy polling is driven by the application, which the chain of the ring does not see: use the simulator"
    } else {
        return moderated::supported(napi);
    };
    Err(lacking.to_owned())
}

/// Like [`supported`], for chains without moderation by the NIC.
pub fn supported_without_moderation(napi: &Napi, fidelity: Fidelity) -> Result<(), String> {
    supported(napi, fidelity)?;
    if !napi.moderation.is_on() {
        return Ok(());
    }
    Err("a NIC's moderation in front of NAPI (rx_usecs, rx_frames, packet_timer, min_gap) is solved under Poisson arrivals without \
         pauses: use those, or the simulator"
        .to_owned())
}

/// Solves the chain.
pub fn solve(work: &Work, napi: &Napi) -> Result<Ring, String> {
    if napi.moderation.is_on() {
        afford::mg1k("napi", work)?;
        return moderated::solve(work, napi);
    }
    match Phases::of(&work.shape) {
        None | Some(Phases::One) => counting(work, napi),
        Some(phases) => in_phases(work, napi, phases),
    }
}

/// Solves the chain with times made of phases. Polls reach their weight at random, as often as with exponential times,
/// because phases x weight would be too many.
fn in_phases(work: &Work, napi: &Napi, phases: Phases) -> Result<Ring, String> {
    let exponential = Work { shape: TimeShape::Exponential, quantiles: false, ..work.clone() };
    let again = full_polls(&counting(&exponential, napi)?, napi);
    let chain = phases.expand(&at_random(work, napi, again));
    let modulated = Modulated::new(work, &chain, Environment::constant());
    let mut ring = modulated.ring(&Scheme::Napi(napi.clone()), &modulated.solution()?);
    qualify(&mut ring, napi);
    ring.exact = false;
    Ok(ring)
}

/// P(a service is the last of its poll's weight), from the number of polls in the solved ring.
pub fn full_polls(ring: &Ring, napi: &Napi) -> f64 {
    let polls_again = (ring.polls_per_s.unwrap_or(0.0) - ring.interrupts_per_s).max(0.0);
    (polls_again / ring.throughput_pps).min(1.0 / napi.weight as f64)
}

/// Solves the chain with exponential times, counting each packet of a poll.
fn counting(work: &Work, napi: &Napi) -> Result<Ring, String> {
    let chain = Chain::new(work, napi);
    let states = (work.places as usize + 1).saturating_mul(chain.phases());
    if states > MOST_STATES {
        return Err(format!(
            "napi's chain of a ring of {} and a weight of {} has {states} states, more than the {MOST_STATES} it is solved \
             with: use a smaller ring or weight, or the simulator",
            work.places, napi.weight
        ));
    }
    let solution = match polls::Polls::new(&chain).and_then(|polls| polls.stationary()) {
        Some(solution) => solution,
        None => chain.qbd().stationary().map_err(|error| error.to_string())?,
    };
    let mut ring = chain.ring(&solution);
    qualify(&mut ring, napi);
    Ok(ring)
}

/// Adds notes on the approximations of the chain.
pub fn qualify(ring: &mut Ring, napi: &Napi) {
    ring.exact = napi.weight <= LARGEST_WEIGHT && !napi.backlog;
    if napi.weight > LARGEST_WEIGHT {
        ring.notes.push(Note::NeverUsedUp(napi.weight, LARGEST_WEIGHT));
    }
    if napi.backlog {
        ring.notes.push(Note::BacklogAsQueue);
    }
}

/// Returns the stages without arrivals, for arrivals that are not Poisson; they have the numbers of the phases in this
/// module.
pub fn modulated(work: &Work, napi: &Napi) -> Stages {
    let chain = Chain::new(work, napi);
    let mut roles = vec![Role::Waiting, Role::Interrupt, Role::Poll, Role::Unmask];
    roles.resize(chain.phases(), Role::Serving);
    Stages {
        nothing: chain.finds_nothing(),
        local: chain.stages(),
        down: chain.services(false),
        last: chain.services(true),
        ..Stages::new(roles)
    }
}

/// Like [`modulated`], but polls reach their weight after any service with probability `again`, so that there are few
/// stages, whatever the weight.
pub fn at_random(work: &Work, napi: &Napi, again: f64) -> Stages {
    let unlimited = Napi { weight: LARGEST_WEIGHT + 1, ..napi.clone() };
    let mut stages = modulated(work, &unlimited);
    let some_end = |jumps: &[Jump]| -> Vec<Jump> {
        let each = |(from, to, rate): &Jump| [(*from, *to, rate * (1.0 - again)), (*from, OVERHEAD, rate * again)];
        jumps.iter().flat_map(each).collect()
    };
    (stages.down, stages.last) = (some_end(&stages.down), some_end(&stages.last));
    stages
}

/// Returns the distribution of states that an accepted packet finds, from the weights of the states (packets, phase).
pub fn found(work: &Work, napi: &Napi, weights: &Stationary) -> Found {
    Found::new(&Chain::new(work, napi), weights)
}

struct Chain<'a> {
    work: &'a Work,
    /// Packets per poll; `None`: unlimited.
    weight: Option<usize>,
    delivery_rate: f64,
    isr_rate: f64,
    overhead_rate: f64,
    unmask_rate: f64,
}

impl<'a> Chain<'a> {
    fn new(work: &'a Work, napi: &Napi) -> Self {
        // The backlog (process_backlog) has no registers to write.
        let mask_s = if napi.backlog { 0.0 } else { work.mask_s };
        Self::with_weight(work, napi.weight, mask_s)
    }

    fn with_weight(work: &'a Work, weight: u64, mask_s: f64) -> Self {
        Self {
            work,
            weight: counted(weight),
            delivery_rate: work.stage_rate(work.delivery_s),
            isr_rate: work.stage_rate(mask_s + work.interrupt_s),
            overhead_rate: work.stage_rate(work.poll_s),
            unmask_rate: work.stage_rate(mask_s),
        }
    }

    fn phases(&self) -> usize {
        phases(self.weight)
    }

    /// Returns the phase after a service in `phase` that leaves packets in the ring.
    fn after_service(&self, phase: usize) -> usize {
        match self.weight {
            None => SERVING,
            Some(weight) if phase + 1 == SERVING + weight => OVERHEAD,
            Some(_) => phase + 1,
        }
    }

    /// Jumps at the end of a service; `last`: no packet remains.
    fn services(&self, last: bool) -> Vec<Jump> {
        let target = |phase| match self.after_service(phase) {
            OVERHEAD => OVERHEAD,
            _ if last => UNMASK,
            next => next,
        };
        (SERVING..self.phases()).map(|phase| (phase, target(phase), self.work.service_pps())).collect()
    }

    /// Jumps before the first service, and after an unmasking during which packets came.
    fn stages(&self) -> Vec<Jump> {
        vec![
            (DELIVERY, ISR, self.delivery_rate),
            (ISR, OVERHEAD, self.isr_rate),
            (OVERHEAD, SERVING, self.overhead_rate),
            (UNMASK, ISR, self.unmask_rate),
        ]
    }

    /// Jumps with an empty ring: a poll that finds no packets ends in unmasking, and unmasking in idle.
    fn finds_nothing(&self) -> Vec<Jump> {
        vec![(OVERHEAD, UNMASK, self.overhead_rate), (UNMASK, DELIVERY, self.unmask_rate)]
    }

    fn qbd(&self) -> Qbd {
        let phases = self.phases();
        let arrivals: Vec<Jump> = (0..phases).map(|phase| (phase, phase, self.work.arrival_pps)).collect();
        let (stages, nothing) = (self.stages(), self.finds_nothing());
        let empty = Blocks { up: arrivals.clone(), local: nothing, down: Vec::new() };
        let one = Blocks { up: arrivals.clone(), local: stages.clone(), down: self.services(true) };
        let more = Blocks { up: arrivals, local: stages.clone(), down: self.services(false) };
        let places = self.work.places as usize;
        let full = Blocks { up: Vec::new(), local: stages, down: self.services(places == 1) };
        let mut runs = vec![(0, empty)];
        if places > 1 {
            runs.push((1, one));
        }
        if places > 2 {
            runs.push((2, more));
        }
        runs.push((places, full));
        Qbd::new(phases, places, runs)
    }

    fn ring(&self, solution: &Stationary) -> Ring {
        let work = self.work;
        let poll = solution.phase_probability(OVERHEAD, 0);
        let protocol: f64 = (SERVING..self.phases()).map(|phase| solution.phase_probability(phase, 1)).sum();
        let unmask = solution.phase_probability(UNMASK, 0);
        let idle = solution.level(0)[DELIVERY];
        let interrupted = solution.phase_probability(UNMASK, 1) * self.unmask_rate;
        let throughput_pps = protocol / work.service_s;
        let mean_present = solution.mean_level();
        let mean_latency_s = mean_present / throughput_pps;
        let found = if work.quantiles { Found::new(self, solution) } else { Found::default() };
        let known = work.quantiles && found.levels.len() <= MOST_LEVELS;
        let own = work.clone();
        let latencies = known.then(|| Distribution::new(mean_latency_s, move |z| found.transform(&own, z)));
        Ring {
            throughput_pps,
            loss: solution.level_probability(work.places as usize),
            mean_present,
            mean_latency_s,
            quantiles: quantiles(latencies.as_ref()),
            latencies,
            interrupts_per_s: work.arrival_pps * idle + interrupted,
            cycles_per_s: work.arrival_pps * idle,
            clocked: false,
            polls_per_s: Some(poll * self.overhead_rate),
            shares: Shares {
                interrupt: solution.phase_probability(ISR, 1),
                poll: poll + unmask,
                protocol,
                available: solution.phase_probability(DELIVERY, 0),
            },
            exact: true,
            notes: Vec::new(),
        }
    }
}

/// States that an accepted packet finds, by the number of poll overheads for which it must wait.
#[derive(Default)]
pub struct Found {
    /// Packets per poll; u64::MAX means unlimited.
    weight: u64,
    /// Number of packets that an arrival finds in the first entry of `levels`.
    first: usize,
    /// `[i]`: probabilities, not normalised, that an arrival finds n = `first` + i packets in these phases: delivery,
    /// ISR, overhead, serving with floor(n/weight) overheads ahead, serving with one overhead more, unmasking.
    levels: Vec<[f64; 6]>,
    total: f64,
    isr_rate: f64,
    unmask_rate: f64,
}

impl Found {
    fn new(chain: &Chain<'_>, solution: &Stationary) -> Self {
        let weight = chain.weight.map_or(u64::MAX, |weight| weight as u64);
        let mut levels: Vec<[f64; 6]> = Vec::new();
        for n in 0..solution.levels() - 1 {
            let phases = solution.level(n);
            let mut sums = [phases[DELIVERY], phases[ISR], phases[OVERHEAD], 0.0, 0.0, phases[UNMASK]];
            for (served, probability) in phases[SERVING..].iter().enumerate() {
                // The packet is the (served + n + 1)-th of this poll; a poll ends after each `weight` of them.
                let more = chain.weight.is_some() && (served as u64 + n as u64) / weight > n as u64 / weight;
                sums[if more { 4 } else { 3 }] += probability;
            }
            levels.push(sums);
        }
        let total: f64 = levels.iter().flatten().sum();
        // Leave out levels without weight, which only cost time: a total of 1e-13 at either end does not change the
        // sixth digit of quantiles.
        let mut rest = 0.0;
        while let Some(last) = levels.last()
            && levels.len() > 1
        {
            rest += last.iter().sum::<f64>();
            if rest > 1e-13 * total {
                break;
            }
            levels.pop();
        }
        let mut shallow = 0.0;
        let first = levels.iter().position(|level| {
            shallow += level.iter().sum::<f64>();
            shallow > 1e-13 * total
        });
        let levels = levels.split_off(first.unwrap_or(0));
        let (isr_rate, unmask_rate) = (chain.isr_rate, chain.unmask_rate);
        Self { weight, first: first.unwrap_or(0), levels, total, isr_rate, unmask_rate }
    }

    /// E[e^(-z T)] of an accepted packet's latency T.
    pub fn transform(&self, work: &Work, z: Complex64) -> Complex64 {
        let service = exponential(z, work.service_s);
        let overhead = exponential(z, work.poll_s);
        let delivery = exponential(z, work.delivery_s);
        let isr = exponential(z, 1.0 / self.isr_rate);
        let unmask = exponential(z, 1.0 / self.unmask_rate);
        let mut sum = Complex64::new(0.0, 0.0);
        let (polls, mut in_poll) = (self.first as u64 / self.weight, self.first as u64 % self.weight);
        let mut ahead = service.powu(self.first as u32 + 1) * overhead.powu(polls as u32);
        for [in_delivery, in_isr, in_overhead, serving, one_more, in_unmask] in &self.levels {
            let before_poll = isr * (delivery * *in_delivery + in_isr + unmask * *in_unmask);
            sum += ahead * (overhead * (before_poll + in_overhead + one_more) + serving);
            ahead *= service;
            in_poll += 1;
            if in_poll == self.weight {
                ahead *= overhead;
                in_poll = 0;
            }
        }
        sum / self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both methods agree in every state whose probability is not below the probability of the jumps left out in the
    /// band.
    #[test]
    fn poll_starts_and_block_reduction_agree() {
        for (places, weight) in [(1, 1), (1, 3), (2, 2), (5, 8), (40, 3), (300, 16), (700, 4)] {
            for rho in [1e-6, 0.1, 0.7, 0.97, 1.0, 1.3, 4.0] {
                let work = Work {
                    arrival_pps: rho * 1e6,
                    service_s: 1e-6,
                    interrupt_s: 2e-6,
                    delivery_s: 3e-6,
                    mask_s: 0.7e-6,
                    poll_s: 0.5e-6,
                    places,
                    shape: crate::queue::arrivals::TimeShape::Exponential,
                    frame_bytes: 64.0,
                    mixture: Vec::new(),
                    quantiles: false,
                    left_out: 0.0,
                };
                let chain = Chain::with_weight(&work, weight, work.mask_s);
                let quick = polls::Polls::new(&chain).unwrap().stationary().unwrap();
                let blocks = chain.qbd().stationary().unwrap();
                let largest = |level: usize| blocks.level(level).iter().copied().fold(0.0, f64::max);
                for level in 0..=places as usize {
                    for (phase, (a, b)) in quick.level(level).iter().zip(blocks.level(level)).enumerate() {
                        let near = (a - b).abs() <= 1e-10 * b.abs() + 1e-13 * largest(level) + 1e-22;
                        assert!(near, "B={places} Q={weight} rho={rho} ({level}, {phase}): {a} {b}");
                    }
                }
            }
        }
    }
}
