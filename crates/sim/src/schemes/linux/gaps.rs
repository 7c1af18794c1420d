//! Differences between QEMU's NICs and Intel's: interrupts for packets that polls have already taken, and interrupts
//! that are not masked ([`Gap`]).

use netcliff_core::scheme::Gap;

use super::Linux;
use crate::clock::NEVER;
use crate::machine::{Machine, Watch};
use crate::tally::Account;

/// Number of packets that the ring has accepted.
fn accepted<W: Watch>(machine: &mut Machine<W>) -> u64 {
    machine.offered() - machine.counts.dropped_ring
}

impl Linux {
    /// Whether polls run without masking the interrupt.
    #[inline]
    fn echoes(&self) -> bool {
        self.nic.rule() == Gap::Echo
    }

    /// Whether the next packet interrupts even if NAPI polls.
    #[inline]
    pub(super) fn interrupts_polls(&self) -> bool {
        self.echoes() || self.open
    }

    /// Whether interrupts (for packets, or at the end of a gap) may preempt softirqs.
    #[inline]
    fn is_preempted(&self) -> bool {
        match self.nic.rule() {
            Gap::Each | Gap::Latched => false,
            Gap::Reopened => self.open,
            Gap::Direct | Gap::Echo => true,
        }
    }

    /// Handles a packet that the NIC must announce. Returns true if it interrupts now.
    #[inline]
    pub(super) fn packet<W: Watch>(&mut self, machine: &mut Machine<W>) -> bool {
        match self.nic.rule() {
            Gap::Direct if !self.postponed => self.cause_at = accepted(machine),
            Gap::Reopened => (self.cause_at, self.open) = (accepted(machine), false),
            Gap::Direct | Gap::Each | Gap::Echo | Gap::Latched => {}
        }
        self.postponed = self.nic.waits();
        self.nic.packet(machine.now)
    }

    /// Handles the handler's read of the NIC's latched cause, which clears it.
    #[inline]
    pub(super) fn read_cause<W: Watch>(&mut self, machine: &mut Machine<W>) {
        if self.nic.rule() == Gap::Latched {
            self.cause_at = accepted(machine);
        }
    }

    /// Number of packets accepted when the driver starts to unmask; only used, and otherwise 0, if packets that arrive
    /// during unmasking interrupt.
    pub(super) fn before_unmask<W: Watch>(&self, machine: &mut Machine<W>) -> u64 {
        if self.echoes() { accepted(machine) } else { 0 }
    }

    /// Number of packets that the NIC announces when it is unmasked: the packets in the ring, but at least one if it
    /// remembers earlier packets. `before` is the result of [`Linux::before_unmask`].
    pub(super) fn causes_at_unmask<W: Watch>(&mut self, machine: &mut Machine<W>, before: u64) -> usize {
        let causes = match self.nic.rule() {
            // Every packet has already interrupted, because the interrupt was not masked, except those that arrived
            // while the register was written.
            Gap::Echo => (accepted(machine) - before) as usize,
            Gap::Direct => {
                let accepted = accepted(machine);
                let remembered = accepted > std::mem::replace(&mut self.cause_at, accepted);
                machine.ring_len().max(usize::from(remembered))
            }
            Gap::Latched => machine.ring_len().max(usize::from(accepted(machine) > self.cause_at)),
            Gap::Reopened => {
                let accepted = accepted(machine);
                self.open = accepted > std::mem::replace(&mut self.cause_at, accepted);
                usize::from(self.open)
            }
            Gap::Each => machine.ring_len(),
        };
        self.postponed = causes > 0 && self.nic.waits();
        causes
    }

    /// Spends a softirq's work. Interrupts that are not masked preempt it.
    #[inline(always)]
    pub(super) fn spend<W: Watch>(&mut self, machine: &mut Machine<W>, account: Account, work: u64) {
        if !self.is_preempted() {
            return machine.spend(account, work);
        }
        let mut left = work;
        loop {
            let event = self.next_event(machine);
            let Some(rest) = machine.work(account, left, event) else { return };
            left = rest;
            self.event(machine);
            if machine.done {
                return;
            }
        }
    }

    /// Runs an interrupt's handler with the mean `mean` [ticks]. Returns true if another interrupt occurred during it,
    /// which the local APIC delays until the handler's end.
    pub(super) fn handle<W: Watch>(&mut self, machine: &mut Machine<W>, mean: f64) -> bool {
        let handling = machine.times.interrupt.next_of_mean(mean);
        if !self.is_preempted() {
            machine.spend(Account::Interrupt, handling);
            return false;
        }
        let before = accepted(machine);
        machine.spend(Account::Interrupt, handling);
        if machine.done {
            return false;
        }
        let now = machine.now;
        let ended = self.nic.timer() <= now && self.nic.fire(now);
        ended || (self.interrupts_polls() && accepted(machine) > before && self.packet(machine))
    }

    /// Handles an interrupt that is not masked, or the end of a gap, while NAPI is scheduled (napi_schedule_prep):
    /// another poll follows the pending one. An interrupt that is still being delivered is merged with it. Returns true
    /// if it was handled.
    pub(super) fn again<W: Watch>(&mut self, machine: &mut Machine<W>) -> bool {
        self.nic.assert(machine.now);
        if self.interrupt_due != NEVER {
            return false;
        }
        loop {
            self.missed = true;
            machine.counts.interrupts += 1;
            if !self.handle(machine, self.polling_ticks) {
                return true;
            }
            self.nic.assert(machine.now);
        }
    }
}

#[cfg(test)]
mod tests;
