//! Arrivals that nobody waits for are looked at late: most of a machine's time is spent on work which packets join without notice, and
//! whether one came meanwhile is the branch that no processor predicts.
//!
//! Gaps do not depend on the host, so that a block of arrivals is known ahead. Up to [`Machine::sure_until`] none is dropped and no
//! mark is due: there, time passes in one piece, and packets enter the ring, with the times at which they came, when it is looked at.

use super::{Machine, Watch};
use crate::fifo::Packet;
use crate::tally::Account;

impl<W: Watch> Machine<W> {
    /// Spends `work` on `account`; arrivals meanwhile go to the ring without notice to the scheme. Transmit interrupts
    /// preempt all but interrupts.
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

    /// The next arrival, or event of the sender or of a transmission, with all before now in the ring [ticks];
    /// [`crate::clock::NEVER`] once the replication is over.
    #[inline]
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.settle();
        self.arrives
    }

    /// When the ring has to be looked at [ticks]: at the next arrival for who `hears` of each, else once more may happen to it than that packets
    /// join it.
    #[inline]
    pub(crate) fn next_look(&mut self, hears: bool) -> u64 {
        if hears { self.next_arrival() } else { self.sure_until }
    }

    /// True if no packet has come that is still in the ring.
    #[inline]
    pub(crate) fn ring_is_empty(&self) -> bool {
        self.ring.is_empty() && self.arrives >= self.now
    }

    /// Packets in the ring.
    #[inline]
    pub(crate) fn ring_len(&mut self) -> usize {
        self.settle();
        self.ring.len()
    }

    /// Packets that have come.
    #[inline]
    pub(crate) fn offered(&mut self) -> u64 {
        self.settle();
        self.counts.offered
    }

    /// The oldest packet of the ring, which must hold one.
    #[inline]
    pub(crate) fn head(&mut self) -> &Packet {
        if self.ring.is_empty() {
            self.take_sure();
        }
        self.ring.front()
    }

    /// Puts all packets that came before now into the ring.
    #[inline]
    pub(super) fn settle(&mut self) {
        while self.arrives < self.now {
            self.take_sure();
        }
    }

    /// The next packet, which has come and found room.
    #[inline]
    fn take_sure(&mut self) {
        debug_assert!(self.arrives < self.sure_until);
        let packet = self.next_packet(self.arrives);
        self.arrives += self.source.gap();
        self.ring.push(packet);
    }

    /// The next event is at `at` and takes place there.
    #[inline]
    pub(super) fn plan(&mut self, at: u64) {
        (self.arrives, self.sure_until) = (at, at);
    }

    /// Finds out how many arrivals are sure: not more than the ring has room for, nor beyond the next mark. A sender or
    /// transmissions, or one who sees, hear of each.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        self.sure_until = self.arrives;
        if !W::SEES && self.beside.is_none() && !self.done {
            let room = self.ring_limit.saturating_sub(self.ring.len() - self.uncounted);
            let before_mark = usize::try_from(self.records.next_mark() - self.counts.offered).unwrap_or(usize::MAX);
            self.sure_until += self.source.ahead(room.min(before_mark));
        }
    }
}

#[cfg(test)]
mod tests;
