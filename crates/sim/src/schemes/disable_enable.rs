//! `disable-enable`: the first packet interrupts; the rest is served masked until the ring is empty.

use super::Policy;
use crate::draw::to_ticks;
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// Mask and interrupt as one stage of mean m + s, then the packets.
pub(super) struct TwoStage {
    masked: bool,
    stage_ticks: f64,
}

impl TwoStage {
    pub(super) fn new<W>(machine: &Machine<W>) -> Self {
        Self { masked: false, stage_ticks: machine.times.mask_ticks + machine.times.interrupt.mean_ticks() }
    }
}

impl<W: Watch> Policy<W> for TwoStage {
    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        // Unmasked means an empty ring, so only the end of the run is not accepted here.
        if machine.take_arrival() == Arrival::Accepted && !self.masked {
            self.masked = true;
            machine.counts.interrupts += 1;
            let stage = machine.times.interrupt.next_of_mean(self.stage_ticks);
            machine.spend(Account::Interrupt, stage);
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.masked
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        machine.spend(Account::Protocol, work);
        machine.finish_packet();
        self.masked = !machine.ring.is_empty();
    }
}

/// The paper's chain: mask, interrupt and first packet are one stage of rate nu.
pub(super) struct Merged {
    masked: bool,
    first: bool,
    interrupt_ticks: f64,
}

impl Merged {
    pub(super) fn new<W>(machine: &Machine<W>) -> Self {
        let interrupt_ticks = machine.times.mask_ticks + machine.times.interrupt.mean_ticks();
        Self { masked: false, first: false, interrupt_ticks }
    }
}

impl<W: Watch> Policy<W> for Merged {
    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if machine.take_arrival() == Arrival::Accepted && !self.masked {
            self.masked = true;
            self.first = true;
            machine.counts.interrupts += 1;
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.masked
    }

    fn serve(&mut self, machine: &mut Machine<W>) {
        let own = machine.ring.front().protocol;
        let mut work = machine.protocol_work();
        if std::mem::take(&mut self.first) {
            let mean = self.interrupt_ticks + machine.cost.mean_ticks(machine.ring.front().bytes);
            let stage = machine.times.interrupt.next_of_mean(mean);
            // One stage, booked in proportion to the means of its parts.
            let interrupt = to_ticks(stage as f64 * (self.interrupt_ticks / mean)).min(stage);
            machine.spend(Account::Interrupt, interrupt);
            // What the packet costs beyond its own time is a wake-up (a full socket leaves nothing to add).
            work = stage - interrupt + work.saturating_sub(own);
        }
        machine.spend(Account::Protocol, work);
        machine.finish_packet();
        self.masked = !machine.ring.is_empty();
    }
}
