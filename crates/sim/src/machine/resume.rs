//! Where a recursion leaves packets to the machine of events, and when it can take over again.

use super::record::Records;
use super::{Machine, Source, Times, Watch};
use crate::fifo::Packet;
use crate::tally::Counts;

/// What a recursion leaves: a poll has ended, and what is in the ring is to be processed.
#[derive(Debug)]
pub(crate) struct Left {
    /// When [ticks].
    pub at: u64,
    /// The latest arrival [ticks].
    pub last_arrival: u64,
    /// What was counted so far.
    pub counts: Counts,
    /// Packets in the ring, and how many of them do not count against its limit.
    pub ring: Vec<Packet>,
    pub uncounted: usize,
    /// Packets in the socket of the one application.
    pub socket: Vec<Packet>,
    /// Rest of its piece of work [ticks]; None: it has just been woken.
    pub remaining: Option<u64>,
    /// When it took the packet in hand [ticks].
    pub in_hand: Option<u64>,
}

impl<W: Watch> Machine<W> {
    /// True if no packet is in the ring or in a socket, nor in hand.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring_is_empty() && !self.application_awake()
    }
}

impl Machine<()> {
    /// What a recursion shares with the machine.
    pub(crate) fn parts(&mut self) -> (&mut Source, &mut Times, &mut Records) {
        (&mut self.source, &mut self.times, &mut self.records)
    }

    /// The latest arrival [ticks]; the next has not been taken.
    pub(crate) fn last_arrival(&mut self) -> u64 {
        self.arrives - self.source.gap()
    }

    /// Goes on with what a recursion has left; the machine holds no packets.
    pub(crate) fn resume(&mut self, left: Left) {
        (self.now, self.counts, self.uncounted) = (left.at, left.counts, left.uncounted);
        self.arrives = left.last_arrival + self.source.gap();
        left.ring.iter().for_each(|packet| self.ring.push(*packet));
        if let Some(applications) = &mut self.applications {
            applications.resume(&left.socket, left.remaining, left.in_hand);
        }
        self.look_ahead();
    }
}
