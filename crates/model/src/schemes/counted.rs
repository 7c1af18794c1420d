//! coalesce by frame count, unmasked: the interrupt at every tau-th frame preempts protocol work, and packets are
//! served only after an interrupt has announced them. Exact for exponential times, as a finite quasi-birth-death chain.
//!
//! Levels are packets. Phases are "ISR" and (u, c), where u is the number of packets not yet announced, and c the
//! frames counted since the last interrupt. A frame that arrives during the ISR is announced by that ISR. c - u is the
//! number of dropped frames that were counted; it is 0 without `drops_interrupt`.

use super::Work;
use crate::answer::{Ring, Shares};
use crate::queue::qbd::{Blocks, Qbd, Stationary};

/// Maximum number of phases: a chain with 80 takes about a second at a ring of 1024.
const MOST_PHASES: u64 = 80;

const ISR: usize = 0;

struct Chain<'a> {
    work: &'a Work,
    frames: usize,
    drops_interrupt: bool,
    /// (u, c) of each phase from phase 1 on: packets not yet announced, frames counted.
    counts: Vec<(usize, usize)>,
    isr_rate: f64,
}

/// Solves the scheme for `frames` of 1 or more; `None` if the chain would be too large.
pub fn solve(work: &Work, frames: u64, drops_interrupt: bool) -> Option<Result<Ring, String>> {
    let phases = 1 + if drops_interrupt { frames.saturating_mul(frames + 1) / 2 } else { frames };
    if phases > MOST_PHASES || frames > work.places {
        return None;
    }
    let chain = Chain::new(work, frames as usize, drops_interrupt);
    Some(chain.qbd().stationary().map(|solution| chain.ring(&solution)).map_err(|error| error.to_string()))
}

impl<'a> Chain<'a> {
    fn new(work: &'a Work, frames: usize, drops_interrupt: bool) -> Self {
        let counts = (0..frames)
            .flat_map(|counted| {
                let fewest = if drops_interrupt { 0 } else { counted };
                (fewest..=counted).map(move |unannounced| (unannounced, counted))
            })
            .collect();
        Self { work, frames, drops_interrupt, counts, isr_rate: work.stage_rate(work.interrupt_s) }
    }

    /// Returns the phase with these counts; the ISR's phase once all frames are counted.
    fn phase(&self, unannounced: usize, counted: usize) -> usize {
        if counted == self.frames {
            return ISR;
        }
        1 + self.counts.iter().position(|counts| *counts == (unannounced, counted)).unwrap_or(0)
    }

    fn blocks(&self, packets: usize) -> Blocks {
        let (work, full) = (self.work, packets == self.work.places as usize);
        let mut blocks = Blocks::default();
        blocks.local.push((ISR, self.phase(0, 0), self.isr_rate));
        if !full {
            blocks.up.push((ISR, ISR, work.arrival_pps));
        }
        for (i, (unannounced, counted)) in self.counts.iter().enumerate() {
            let phase = 1 + i;
            if !full {
                blocks.up.push((phase, self.phase(unannounced + 1, counted + 1), work.arrival_pps));
            } else if self.drops_interrupt {
                blocks.local.push((phase, self.phase(*unannounced, counted + 1), work.arrival_pps));
            }
            if packets > *unannounced {
                blocks.down.push((phase, phase, work.service_pps()));
            }
        }
        blocks
    }

    /// Makes the chain. Up to `frames` packets, each level has different serving phases; above, only the top level
    /// differs.
    fn qbd(&self) -> Qbd {
        let top = self.work.places as usize;
        let mut firsts: Vec<usize> = (0..=self.frames).filter(|level| *level < top).collect();
        firsts.push(top);
        let runs = firsts.into_iter().map(|level| (level, self.blocks(level))).collect();
        Qbd::new(1 + self.counts.len(), top, runs)
    }

    fn ring(&self, solution: &Stationary) -> Ring {
        let work = self.work;
        // Sums of P(packets, phase) over the states with none, with one, and with any announced packets (packets -
        // unannounced).
        let (mut none, mut one, mut any) = (0.0, 0.0, 0.0);
        for level in 0..solution.levels() {
            for (i, (unannounced, _)) in self.counts.iter().enumerate() {
                let share = solution.level(level)[1 + i];
                match level.saturating_sub(*unannounced) {
                    0 => none += share,
                    announced => {
                        any += share;
                        one += if announced == 1 { share } else { 0.0 };
                    }
                }
            }
        }
        let interrupt = solution.phase_probability(ISR, 0);
        let throughput_pps = any * work.service_pps();
        let mean_present = solution.mean_level();
        Ring {
            throughput_pps,
            loss: solution.level_probability(work.places as usize),
            mean_present,
            mean_latency_s: mean_present / throughput_pps,
            quantiles: None,
            latencies: None,
            interrupts_per_s: interrupt * self.isr_rate,
            cycles_per_s: one * work.service_pps(),
            clocked: true,
            polls_per_s: None,
            shares: Shares { interrupt, poll: 0.0, protocol: any, available: none },
            exact: true,
            notes: Vec::new(),
        }
    }
}
