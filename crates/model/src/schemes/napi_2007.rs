//! napi-2007: interrupt, mask, poll at once. If packets remain after `quota` packets, the next poll waits for a tick of
//! a free-running timer; if a tick came during the poll and was remembered, the next poll starts at once. Exact for
//! exponential times, with phases {idle, ISR, overhead, waiting, k left}. If ticks are remembered, each phase exists a
//! second time, for "a tick since the start of the poll".

use netcliff_core::Napi2007 as Scheme;
use netcliff_core::engine::Fidelity;

use super::Work;
use super::ticks::{Solution, Ticked, Ticks, runs};
use crate::answer::{Ring, Shares};
use crate::queue::qbd::{Blocks, Jump};

const IDLE: usize = 0;
const ISR: usize = 1;
const OVERHEAD: usize = 2;
const WAITING: usize = 3;
/// Phase SERVING + k: k + 1 packets left in this poll.
const SERVING: usize = 4;

/// Largest quota; larger ones would take minutes.
const LARGEST_QUOTA: u64 = 64;

/// Checks that the quota and the fidelity are supported; the error is the reason why not.
pub fn supported(scheme: &Scheme, fidelity: Fidelity) -> Result<(), String> {
    let quota = scheme.quota;
    match fidelity {
        Fidelity::Exact if quota <= LARGEST_QUOTA => Ok(()),
        Fidelity::Exact => {
            Err(format!("napi-2007 is solved for quotas up to {LARGEST_QUOTA}, not {quota}: use the simulator"))
        }
        _ => Err("the paper has no formula for the scheme napi-2007: use fidelity exact".to_owned()),
    }
}

/// The scheme with its arrivals and costs.
pub struct Napi2007<'a> {
    /// Arrivals and costs.
    work: &'a Work,
    /// Time between ticks (s).
    period_s: f64,
    /// Maximum number of packets per poll.
    quota: usize,
    /// True: a tick during a poll is remembered.
    remember: bool,
}

impl<'a> Napi2007<'a> {
    pub fn new(work: &'a Work, scheme: &Scheme) -> Self {
        Self { work, period_s: scheme.period_s, quota: scheme.quota as usize, remember: scheme.remember }
    }
}

impl Napi2007<'_> {
    /// Number of phases without a remembered tick; the phases with a remembered tick follow in the same order.
    fn plain(&self) -> usize {
        SERVING + self.quota
    }

    fn phases(&self) -> usize {
        if self.remember { 2 * self.plain() } else { self.plain() }
    }

    /// The phase in which a poll begins to serve.
    fn poll(&self) -> usize {
        SERVING + self.quota - 1
    }

    fn interrupt_s(&self) -> f64 {
        self.work.mask_s + self.work.interrupt_s
    }

    /// The phase after an arrival at an idle host.
    fn woken(&self) -> usize {
        if self.interrupt_s() > 0.0 { ISR } else { self.poll() }
    }

    /// Returns the phase of a poll that a tick starts.
    fn ticked(&self) -> usize {
        if self.work.poll_s > 0.0 { OVERHEAD } else { self.poll() }
    }

    /// The phase after a tick: a waiting poll starts; a running poll remembers the tick if `remember` is set, and
    /// continues.
    fn tick(&self, phase: usize) -> usize {
        match phase {
            IDLE => IDLE,
            WAITING => self.ticked(),
            other if self.remember && other < self.plain() => other + self.plain(),
            other => other,
        }
    }

    /// The phase after a service that leaves `packets`.
    fn after_service(&self, packets: usize, phase: usize) -> usize {
        match phase % self.plain() {
            _ if packets == 0 => IDLE,
            SERVING if phase == SERVING => WAITING,
            SERVING => self.ticked(),
            _ => phase - 1,
        }
    }

    fn blocks(&self, packets: usize) -> Blocks {
        let work = self.work;
        let mut blocks = Blocks::default();
        for phase in 0..self.phases() {
            if packets < work.places as usize {
                blocks.up.push((phase, if phase == IDLE { self.woken() } else { phase }, work.arrival_pps));
            }
            let poll = self.poll() + phase - phase % self.plain();
            let jump: Jump = match phase % self.plain() {
                _ if phase == IDLE && packets == 0 => continue,
                // Never occurs, because only an idle host has no packets; but elimination needs a rate out of the
                // state.
                IDLE => (phase, self.poll(), work.service_pps()),
                _ if packets == 0 => {
                    blocks.local.push((phase, IDLE, work.service_pps()));
                    continue;
                }
                WAITING if phase == WAITING => continue,
                // Never occurs, because a tick ends the wait; but elimination needs a rate out of the state.
                WAITING => (phase, self.poll(), work.service_pps()),
                ISR if self.interrupt_s() > 0.0 => (phase, poll, 1.0 / self.interrupt_s()),
                OVERHEAD if work.poll_s > 0.0 => (phase, poll, 1.0 / work.poll_s),
                ISR | OVERHEAD => (phase, poll, work.service_pps()),
                _ => {
                    blocks.down.push((phase, self.after_service(packets - 1, phase), work.service_pps()));
                    continue;
                }
            };
            blocks.local.push(jump);
        }
        blocks
    }
}

impl Ticked for Napi2007<'_> {
    fn ticks(&self) -> Ticks<'_> {
        let top = self.work.places as usize;
        Ticks {
            phases: self.phases(),
            top,
            period_s: self.period_s,
            runs: runs(top, |packets| self.blocks(packets)),
            tick: Box::new(|_, phase| self.tick(phase)),
            arrival_pps: self.work.arrival_pps,
            // Not limited by the quota: after the ring has been emptied, the next interrupt serves at once.
            served_at_most: usize::MAX,
            service_s: self.work.service_s,
        }
    }

    fn is_free(&self, phase: usize) -> bool {
        phase == IDLE || phase == WAITING
    }

    fn ring(&self, solution: &Solution) -> Ring {
        let Work { arrival_pps, service_s, .. } = *self.work;
        let shares = Shares {
            interrupt: solution.share(|phase| phase % self.plain() == ISR),
            poll: solution.share(|phase| phase % self.plain() == OVERHEAD),
            protocol: solution.share(|phase| phase % self.plain() >= SERVING),
            available: solution.share(|phase| self.is_free(phase)),
        };
        let throughput_pps = shares.protocol / service_s;
        let mean_present = solution.mean_level();
        let interrupts_per_s = arrival_pps * solution.share(|phase| phase == IDLE);
        // A remembered tick starts a poll at the end of the previous poll's last service, if packets remain.
        let remembered = solution.share_where(|level, phase| level > 1 && phase == SERVING + self.plain());
        let polls = interrupts_per_s
            + solution.ticks_finding(|phase| phase == WAITING) / self.period_s
            + remembered / service_s;
        Ring {
            throughput_pps,
            loss: solution.full(),
            mean_present,
            mean_latency_s: mean_present / throughput_pps,
            quantiles: None,
            latencies: None,
            interrupts_per_s,
            cycles_per_s: polls,
            clocked: true,
            polls_per_s: Some(polls),
            shares,
            exact: true,
            notes: Vec::new(),
        }
    }
}
