//! `ideal`: packets are served as they arrive, at no other cost.

use super::Policy;
use crate::machine::{Machine, Watch};
use crate::tally::Account;

/// The scheme needs no state except the ring.
pub(super) struct Ideal;

impl<W: Watch> Policy<W> for Ideal {
    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        machine.take_arrival();
    }

    #[inline]
    fn ready(&self, machine: &Machine<W>) -> bool {
        !machine.ring_is_empty()
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        machine.spend(Account::Protocol, work);
        machine.finish_packet();
    }
}
