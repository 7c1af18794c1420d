//! Polling with exponential times, exact at ticks, with phases {poll overheads still to do, packets left in the cycle,
//! cycle re-armed by a tick or not}.

use crate::answer::{Ring, Shares};
use crate::queue::qbd::{Blocks, Jump};
use crate::schemes::Work;
use crate::schemes::ticks::{Solution, Ticked, Ticks, runs};
use netcliff_core::math;

/// More waiting overheads are left out if their probability is below this, similar to rounding errors.
const RARE: f64 = 1e-13;
/// Maximum number of phases. Up to this, [`Ticks`] estimates the cost of the chain.
const MOST_PHASES: usize = 1500;

/// `None`: no cycle runs. Otherwise the packets left in the cycle, and whether a tick has re-armed it.
type Cycle = Option<(usize, bool)>;

struct Phases {
    quota: usize,
    /// Maximum number of overheads that may wait at the same time.
    overheads: usize,
}

/// The scheme with its arrivals and costs.
pub struct Polling<'a> {
    work: &'a Work,
    period_s: f64,
    phases: Phases,
}

impl<'a> Polling<'a> {
    /// Makes the chain; the error is a reason for the user.
    pub fn new(work: &'a Work, period_s: f64, quota: u64) -> Result<Self, String> {
        Ok(Self { work, period_s, phases: Phases::new(work, period_s, quota)? })
    }
}

impl Phases {
    fn new(work: &Work, period_s: f64, quota: u64) -> Result<Self, String> {
        // The ring does not limit the quota: packets that arrive during a cycle are served in it.
        let quota = quota as usize;
        let overheads = pending(work.poll_s / period_s);
        let count = overheads.saturating_add(1).saturating_mul(quota.saturating_mul(2).saturating_add(1));
        if count > MOST_PHASES {
            return Err(format!(
                "polling with exponential times and quota = {quota} has {count} phases, more than the {MOST_PHASES} it is \
                 solved with: use fidelity paper, service = deterministic, or the simulator"
            ));
        }
        Ok(Self { quota, overheads })
    }

    fn count(&self) -> usize {
        (self.overheads + 1) * (2 * self.quota + 1)
    }

    fn index(&self, overheads: usize, cycle: Cycle) -> usize {
        let place = cycle.map_or(0, |(left, rearmed)| left + if rearmed { self.quota } else { 0 });
        overheads * (2 * self.quota + 1) + place
    }

    fn of(&self, phase: usize) -> (usize, Cycle) {
        let place = phase % (2 * self.quota + 1);
        let cycle = (place > 0).then(|| (1 + (place - 1) % self.quota, place > self.quota));
        (phase / (2 * self.quota + 1), cycle)
    }

    /// The cycle that starts now.
    fn start(&self, packets: usize, rearmed: bool) -> Cycle {
        (packets > 0).then_some((self.quota, rearmed))
    }

    /// The phase after a tick, which costs an overhead; during a cycle it re-arms the cycle.
    fn tick(&self, packets: usize, phase: usize) -> usize {
        let (overheads, cycle) = self.of(phase);
        if self.overheads == 0 {
            return self.index(0, cycle.map_or(self.start(packets, false), |(left, _)| Some((left, true))));
        }
        self.index((overheads + 1).min(self.overheads), cycle.map(|(left, _)| (left, true)))
    }

    /// Returns the phase after an overhead; for a tick that came during the overhead, the cycle has just started.
    fn after_overhead(&self, packets: usize, overheads: usize, cycle: Cycle) -> usize {
        self.index(overheads - 1, cycle.or(self.start(packets, overheads > 1)))
    }

    /// The phase after a service that leaves `packets`.
    fn after_service(&self, packets: usize, left: usize, rearmed: bool) -> usize {
        let cycle = match left {
            _ if packets == 0 => None,
            1 if rearmed => self.start(packets, false),
            1 => None,
            _ => Some((left - 1, rearmed)),
        };
        self.index(0, cycle)
    }

    /// Jumps from a level; levels from 2 on are equal, except for the top.
    fn blocks(&self, work: &Work, packets: usize) -> Blocks {
        let mut blocks = Blocks::default();
        for phase in 0..self.count() {
            let (overheads, cycle) = self.of(phase);
            if packets < work.places as usize {
                blocks.up.push((phase, phase, work.arrival_pps));
            }
            let jump: Option<(bool, Jump)> = match (overheads, cycle) {
                (0, None) => None,
                // Never occurs, because a cycle ends when the ring is empty.
                (0, Some(_)) if packets == 0 => Some((false, (phase, self.index(0, None), work.service_pps()))),
                (0, Some((left, rearmed))) => {
                    Some((true, (phase, self.after_service(packets - 1, left, rearmed), work.service_pps())))
                }
                _ => Some((false, (phase, self.after_overhead(packets, overheads, cycle), 1.0 / work.poll_s))),
            };
            match jump {
                Some((true, jump)) => blocks.down.push(jump),
                Some((false, jump)) => blocks.local.push(jump),
                None => {}
            }
        }
        blocks
    }
}

/// Number of waiting overheads that is exceeded with a probability below [`RARE`]. A tick finds n overheads with
/// probability sigma^n, sigma = exp(-(1 - sigma)/share).
fn pending(share: f64) -> usize {
    if share == 0.0 {
        return 0;
    }
    let sigma = (0..200).fold(0.5, |sigma: f64, _| math::exp(-(1.0 - sigma) / share));
    1 + (math::ln(RARE) / math::ln(sigma)).ceil() as usize
}

impl Ticked for Polling<'_> {
    fn ticks(&self) -> Ticks<'_> {
        let top = self.work.places as usize;
        Ticks {
            phases: self.phases.count(),
            top,
            period_s: self.period_s,
            runs: runs(top, |packets| self.phases.blocks(self.work, packets)),
            tick: Box::new(|packets, phase| self.phases.tick(packets, phase)),
            arrival_pps: self.work.arrival_pps,
            served_at_most: 2 * self.phases.quota,
            service_s: self.work.service_s,
        }
    }

    fn is_free(&self, phase: usize) -> bool {
        self.phases.of(phase) == (0, None)
    }

    fn ring(&self, solution: &Solution) -> Ring {
        let phases = &self.phases;
        let shares = Shares {
            interrupt: 0.0,
            poll: solution.share(|phase| phases.of(phase).0 > 0),
            protocol: solution.share(|phase| matches!(phases.of(phase), (0, Some(_)))),
            available: solution.share(|phase| self.is_free(phase)),
        };
        // A tick that finds the cycle already re-armed starts no further cycle.
        let merged = solution.ticks_finding(|phase| matches!(phases.of(phase).1, Some((_, true))));
        let throughput_pps = shares.protocol / self.work.service_s;
        let mean_present = solution.mean_level();
        Ring {
            throughput_pps,
            loss: solution.full(),
            mean_present,
            mean_latency_s: mean_present / throughput_pps,
            quantiles: None,
            latencies: None,
            interrupts_per_s: 0.0,
            cycles_per_s: (1.0 / self.period_s).min(throughput_pps),
            clocked: true,
            polls_per_s: Some((1.0 - merged) / self.period_s),
            shares,
            exact: true,
            notes: Vec::new(),
        }
    }
}
