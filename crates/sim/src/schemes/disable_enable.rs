//! `disable-enable`: the first packet interrupts; further packets are served with the interrupt masked until the ring
//! is empty.

use super::Policy;
use crate::clock::to_ticks;
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// If not merged, mask and interrupt are one stage of mean m + s before the packets. If merged, mask, interrupt and
/// first packet are one stage of rate nu.
pub(super) struct DisableEnable {
    /// Whether interrupts are off while the ring is served.
    pub(super) masked: bool,
    merged: bool,
    /// Whether the packet at the head belongs to the merged stage.
    first: bool,
    stage_ticks: f64,
}

impl DisableEnable {
    pub(super) fn new<W>(merged: bool, machine: &Machine<W>) -> Self {
        let stage_ticks = machine.times.mask_ticks + machine.times.interrupt.mean_ticks();
        Self { masked: false, merged, first: false, stage_ticks }
    }

    /// Runs the merged stage (interrupt and first packet): spends the interrupt's part and returns the rest [ticks].
    fn merged_stage<W: Watch>(&mut self, machine: &mut Machine<W>, work: u64) -> u64 {
        let head = *machine.head();
        let mean = self.stage_ticks + machine.cost.mean_ticks(u32::from(head.bytes));
        let stage = machine.times.interrupt.next_of_mean(mean);
        // Divide the stage's time between its parts in proportion to their means.
        let interrupt = to_ticks(stage as f64 * (self.stage_ticks / mean)).min(stage);
        machine.spend(Account::Interrupt, interrupt);
        // Protocol work beyond the packet's own time is a wake-up; for a packet that a full socket drops, nothing is
        // added.
        stage - interrupt + work.saturating_sub(head.protocol)
    }
}

impl<W: Watch> Policy<W> for DisableEnable {
    #[inline]
    fn hears_arrivals(&self) -> bool {
        !self.masked
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        // If unmasked, the ring is empty: an arrival that is not accepted is the end of the run.
        if machine.take_arrival() == Arrival::Accepted && !self.masked {
            self.masked = true;
            machine.counts.interrupts += 1;
            if self.merged {
                self.first = true;
            } else {
                let stage = machine.times.interrupt.next_of_mean(self.stage_ticks);
                machine.spend(Account::Interrupt, stage);
            }
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.masked
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let mut work = machine.protocol_work();
        if std::mem::take(&mut self.first) {
            work = self.merged_stage(machine, work);
        }
        machine.spend(Account::Protocol, work);
        machine.finish_packet();
        self.masked = !machine.ring_is_empty();
    }
}
