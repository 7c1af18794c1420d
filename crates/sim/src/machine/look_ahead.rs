//! Handles arrivals later than they occur, if that has no effect. Most packets arrive while the machine works, and only
//! join the ring. A test for each arrival would be a branch that the processor often mispredicts.
//!
//! Gaps do not depend on the host, so a block of arrivals is known in advance. Before [`Machine::sure_until`], no
//! packet is dropped and no counts are recorded. Until then, time passes in one step, and the packets enter the ring,
//! with their true arrival times, when the ring is next examined.

use super::{Machine, Watch};
use crate::fifo::Packet;
use crate::tally::Account;

impl<W: Watch> Machine<W> {
    /// Spends `work` on `account`. The scheme does not notice arrivals during that time. Transmit interrupts preempt
    /// all work except interrupts.
    #[inline(always)]
    pub(crate) fn spend(&mut self, account: Account, work: u64) {
        let end = self.now + work;
        if self.only_receives && end <= self.sure_until {
            return self.pass(account, end);
        }
        self.spend_in_parts(account, work);
    }

    #[inline(never)]
    fn spend_in_parts(&mut self, account: Account, work: u64) {
        if account != Account::Interrupt {
            self.transmit_interrupts();
        }
        let mut left = work;
        while let Some(rest) = self.work(account, left, self.sure_until) {
            left = rest;
            self.take_arrival();
            if account != Account::Interrupt {
                self.transmit_interrupts();
            }
        }
    }

    /// Time of the next arrival, or event of the sender or of a transmission [ticks]. Puts all earlier arrivals into
    /// the ring. [`crate::clock::NEVER`] once the replication is over.
    #[inline]
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.settle();
        self.arrives
    }

    /// Time at which the ring must be examined next [ticks]: the next arrival if `hears`, i.e. if the scheme reacts to
    /// each arrival; otherwise the first time at which an arrival may do more than join the ring.
    #[inline]
    pub(crate) fn next_look(&mut self, hears: bool) -> u64 {
        if hears { self.next_arrival() } else { self.sure_until }
    }

    /// Whether the ring is empty.
    #[inline]
    pub(crate) fn ring_is_empty(&self) -> bool {
        self.ring.is_empty() && self.arrives >= self.now
    }

    /// Number of packets in the ring.
    #[inline]
    pub(crate) fn ring_len(&mut self) -> usize {
        self.settle();
        self.ring.len()
    }

    /// Number of packets that have arrived.
    #[inline]
    pub(crate) fn offered(&mut self) -> u64 {
        self.settle();
        self.counts.offered
    }

    /// The oldest packet of the ring, which must not be empty.
    #[inline]
    pub(crate) fn head(&mut self) -> &Packet {
        if self.ring.is_empty() {
            self.take_sure();
        }
        self.ring.front()
    }

    /// Puts all packets that arrived before now into the ring.
    #[inline]
    pub(super) fn settle(&mut self) {
        while self.arrives < self.now {
            self.take_sure();
        }
    }

    /// Puts the next packet, which has arrived and fits, into the ring.
    #[inline]
    fn take_sure(&mut self) {
        debug_assert!(self.arrives < self.sure_until);
        let packet = self.next_packet(self.arrives);
        self.arrives += self.source.gap();
        self.ring.push(packet);
    }

    /// Plans the next event, to be handled at `at`.
    #[inline]
    pub(super) fn plan(&mut self, at: u64) {
        (self.arrives, self.sure_until) = (at, at);
    }

    /// Determines until when no arrival can be dropped: the ring has room for the arrivals, and counts are not recorded
    /// before. With a sender, transmissions or an observer, each arrival is handled at its own time.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        self.sure_until = self.arrives;
        if !W::SEES && self.side_load.is_none() && !self.done {
            let room = self.ring_limit.saturating_sub(self.ring.len() - self.uncounted);
            let before_mark = usize::try_from(self.records.next_mark() - self.counts.offered).unwrap_or(usize::MAX);
            self.sure_until += self.source.ahead(room.min(before_mark));
        }
    }
}

#[cfg(test)]
mod tests;
