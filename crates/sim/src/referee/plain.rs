//! The schemes without a kernel: ideal, interrupt, disable-enable; interrupt > protocol > application.

use std::cmp::Reverse;

use netcliff_core::{Point, Scheme};

use super::cpu::Cpu;
use super::{Event, World};
use crate::clock::Clock;
use crate::draw::to_ticks;
use crate::tally::Account;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Application,
    Protocol,
    /// The interrupt's part of the merged stage; the rest is protocol.
    MergedStage(u64),
    Interrupt,
}

struct Plain<'a> {
    world: World,
    cpu: Cpu<Kind>,
    scheme: &'a Scheme,
    ring_limit: usize,
    masked: bool,
    merged_first: bool,
    fixed: f64,
    per_byte: f64,
}

/// Runs the point; fates and final counts are in the world.
pub(super) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: usize) -> World {
    let mut plain = Plain {
        world: World::new(point, clock, seed, replication, packets),
        cpu: Cpu::new(),
        scheme: &point.scheme,
        ring_limit: point.host.ring as usize,
        masked: false,
        merged_first: false,
        fixed: clock.ticks(point.host.protocol_s),
        per_byte: clock.ticks(point.host.per_byte_s),
    };
    while let Some(Reverse((at, event))) = plain.world.events.pop() {
        match event {
            Event::JobEnds(plan) if !plain.cpu.holds(plan) => continue,
            _ => plain.cpu.pass_to(&mut plain.world, at),
        }
        match event {
            Event::JobEnds(_) => plain.job_ends(),
            Event::Arrival => plain.arrival(),
            Event::Timer(_) => {}
        }
        if plain.world.over {
            break;
        }
        plain.fill();
        plain.cpu.plan(&mut plain.world);
    }
    plain.world
}

impl Plain<'_> {
    fn running(&self) -> Option<Kind> {
        self.cpu.jobs.last().map(|job| job.kind)
    }

    fn arrival(&mut self) {
        let room = self.world.ring.len() < self.ring_limit;
        let Some(accepted) = self.world.arrival(room) else { return };
        let in_isr = self.running() == Some(Kind::Interrupt);
        match self.scheme {
            Scheme::Interrupt { drops_interrupt } if !in_isr && (accepted || *drops_interrupt) => {
                let time = self.world.interrupt.next();
                self.interrupt(time);
            }
            Scheme::DisableEnable { merged } if !self.masked => {
                self.masked = true;
                if *merged {
                    self.merged_first = true;
                    self.world.counts.interrupts += 1;
                } else {
                    let mean = self.world.mask_mean + self.world.interrupt_mean;
                    let time = self.world.interrupt.next_of_mean(mean);
                    self.interrupt(time);
                }
            }
            _ => {}
        }
    }

    fn interrupt(&mut self, time: u64) {
        self.world.counts.interrupts += 1;
        self.cpu.push(Kind::Interrupt, Account::Interrupt, time);
    }

    fn job_ends(&mut self) {
        let Some(job) = self.cpu.jobs.pop() else { return };
        match job.kind {
            Kind::Protocol => {
                self.world.processed();
                self.masked &= !self.world.ring.is_empty();
            }
            Kind::MergedStage(rest) => self.cpu.push(Kind::Protocol, Account::Protocol, rest),
            Kind::Interrupt | Kind::Application => {}
        }
    }

    /// Starts what may run on top of what runs.
    fn fill(&mut self) {
        let serving = matches!(self.running(), Some(Kind::Interrupt | Kind::Protocol | Kind::MergedStage(_)));
        if serving {
            return;
        }
        if !self.world.ring.is_empty() {
            self.start_packet();
        } else if self.running().is_none()
            && self.world.has_application
            && !self.world.asleep
            && let Some(time) = self.world.application_piece()
        {
            self.cpu.push(Kind::Application, Account::Application, time);
        }
    }

    fn start_packet(&mut self) {
        let head = self.world.ring[0];
        let work = self.world.protocol_time();
        if !std::mem::replace(&mut self.merged_first, false) {
            self.cpu.push(Kind::Protocol, Account::Protocol, work);
            return;
        }
        let before = self.world.mask_mean + self.world.interrupt_mean;
        let mean = before + (self.fixed + self.per_byte * f64::from(head.bytes));
        let stage = self.world.interrupt.next_of_mean(mean);
        let interrupt = to_ticks(stage as f64 * (before / mean)).min(stage);
        let rest = stage - interrupt + work.saturating_sub(head.protocol);
        self.cpu.push(Kind::MergedStage(rest), Account::Interrupt, interrupt);
    }
}
