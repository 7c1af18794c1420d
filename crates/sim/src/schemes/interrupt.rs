//! `interrupt`: every arrival interrupts, unless an interrupt is being handled.

use super::{Policy, preemptible};
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// The scheme has no state: the interrupt handler runs within the event that starts it.
pub(super) struct Interrupt {
    /// Whether a packet dropped at a full ring interrupts as well.
    pub(super) drops_interrupt: bool,
}

impl<W: Watch> Policy<W> for Interrupt {
    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        let interrupts = match machine.take_arrival() {
            Arrival::Accepted => true,
            Arrival::Dropped => self.drops_interrupt,
            Arrival::Completion | Arrival::Elsewhere | Arrival::Ended => false,
        };
        if interrupts {
            machine.counts.interrupts += 1;
            let handling = machine.times.interrupt.next();
            machine.spend(Account::Interrupt, handling);
        }
    }

    #[inline]
    fn ready(&self, machine: &Machine<W>) -> bool {
        !machine.ring_is_empty()
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        preemptible(machine, self, Account::Protocol, work);
        machine.finish_packet();
    }
}
