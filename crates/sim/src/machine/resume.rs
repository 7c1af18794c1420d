//! The state that a recursion passes to the machine of events, and when the recursion can take over again.

use super::record::Records;
use super::{Machine, Source, Times, Watch};
use crate::fifo::Packet;
use crate::tally::Counts;

/// The state at the end of a poll: the machine has to process what is in the ring.
#[derive(Debug)]
pub(crate) struct Left {
    /// Time of the state [ticks].
    pub at: u64,
    /// Time of the latest arrival [ticks].
    pub last_arrival: u64,
    /// The counts so far.
    pub counts: Counts,
    /// Packets in the ring, and the number of them that do not count against its limit.
    pub ring: Vec<Packet>,
    pub uncounted: usize,
    /// Packets in the socket of the single application.
    pub socket: Vec<Packet>,
    /// Rest of the application's work [ticks]. `None`: it has just been woken.
    pub remaining: Option<u64>,
    /// Time at which the application took the packet it works on [ticks].
    pub in_hand: Option<u64>,
}

impl<W: Watch> Machine<W> {
    /// Whether no packet is in the ring, in a socket or being processed.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring_is_empty() && !self.application_awake()
    }
}

impl Machine<()> {
    /// The parts of the machine that a recursion uses.
    pub(crate) fn parts(&mut self) -> (&mut Source, &mut Times, &mut Records) {
        (&mut self.source, &mut self.times, &mut self.records)
    }

    /// Time of the latest arrival [ticks]; the next one has not been taken.
    pub(crate) fn last_arrival(&mut self) -> u64 {
        self.arrives - self.source.gap()
    }

    /// Continues from the state that a recursion has left. The machine holds no packets before.
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
