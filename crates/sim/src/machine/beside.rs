//! [`Beside`]: what a host does besides receiving, with events of its own. A host that does nothing else pays one test of
//! a pointer an arrival for it.

use netcliff_core::Point;

use super::sender::Sender;
use super::transmit::Transmit;
use super::{Arrival, Fate, Machine, Watch};
use crate::clock::{Clock, NEVER};
use crate::fifo::Packet;

/// Flow control and transmissions.
#[derive(Debug)]
pub(super) struct Beside {
    /// When the schedule offers the next packet [ticks].
    scheduled: u64,
    pub(super) sender: Option<Sender>,
    pub(super) transmit: Option<Transmit>,
}

impl Beside {
    /// None if the host of `point` only receives.
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, scheduled: u64) -> Option<Box<Self>> {
        let sender = Sender::new(point, clock);
        let transmit = Transmit::new(point, clock, seed, replication);
        (sender.is_some() || transmit.is_some()).then(|| Box::new(Self { scheduled, sender, transmit }))
    }

    fn release_at(&self) -> u64 {
        self.sender.as_ref().map_or(NEVER, |sender| sender.release_at)
    }

    /// The next event of any kind [ticks].
    pub(super) fn next(&self) -> u64 {
        let transmission = self.transmit.as_ref().map_or(NEVER, Transmit::next_end);
        self.scheduled.min(self.release_at()).min(transmission)
    }

    fn due(&self) -> Option<&Transmit> {
        self.transmit.as_ref().filter(|transmit| transmit.is_due())
    }
}

impl<W: Watch> Machine<W> {
    /// What is due now: a packet that the sender held back, else one of the schedule, else the end of a transmission.
    #[inline(never)]
    pub(super) fn take_event(&mut self) -> Arrival {
        let now = self.now;
        let Some(beside) = &mut self.beside else { return Arrival::Elsewhere };
        let arrival = if beside.release_at() == now {
            let released = beside.sender.as_mut().map(|sender| sender.release(now));
            released.map_or(Arrival::Elsewhere, |packet| self.sent(packet))
        } else if beside.scheduled == now {
            self.offer()
        } else {
            let waits = beside.transmit.as_mut().is_some_and(|transmit| transmit.ended(now));
            if waits { Arrival::Completion } else { Arrival::Elsewhere }
        };
        self.plan_events();
        arrival
    }

    /// The schedule's next packet: sent at once, or held back.
    fn offer(&mut self) -> Arrival {
        if self.counts.offered == self.records.next_mark() && self.mark() {
            // Nothing takes place after the end.
            self.beside = None;
            return Arrival::Ended;
        }
        let packet = self.next_packet();
        let next = self.now + self.arriving.arrived;
        let Some(beside) = &mut self.beside else { return Arrival::Elsewhere };
        beside.scheduled = next;
        match &mut beside.sender {
            Some(sender) if sender.holds() => {
                if !sender.hold(packet) {
                    self.counts.dropped_sender += 1;
                    self.watch.fate(packet.number, Fate::DroppedSender, self.now);
                }
                Arrival::Elsewhere
            }
            _ => self.sent(packet),
        }
    }

    /// A packet reaches the ring; the sender hears how full that is.
    fn sent(&mut self, packet: Packet) -> Arrival {
        let arrival = self.accept(packet);
        let occupied = self.ring.len() - self.uncounted;
        if let Some(sender) = self.beside.as_mut().and_then(|beside| beside.sender.as_mut()) {
            debug_assert_eq!(arrival, Arrival::Accepted, "flow control keeps the ring from overflowing");
            sender.filled(occupied, self.now);
        }
        arrival
    }

    fn plan_events(&mut self) {
        if let Some(beside) = &self.beside {
            self.next_arrival = beside.next();
        }
    }

    /// Packets have left the ring's count: the sender may go on.
    #[inline(never)]
    pub(super) fn relieve(&mut self) {
        let occupied = self.ring.len() - self.uncounted;
        if let Some(sender) = self.beside.as_mut().and_then(|beside| beside.sender.as_mut()) {
            sender.drained(occupied, self.now);
            self.plan_events();
        }
    }

    /// A packet of `bytes` was delivered: it may have to be sent on.
    #[inline(never)]
    pub(super) fn forward(&mut self, bytes: u32) {
        if let Some(transmit) = self.beside.as_mut().and_then(|beside| beside.transmit.as_mut()) {
            transmit.delivered(bytes, self.now);
            self.plan_events();
        }
    }

    /// The whole ring moves to where it does not count against the limit.
    #[inline]
    pub(crate) fn splice(&mut self) {
        self.uncounted = self.ring.len();
        if self.beside.is_some() {
            self.relieve();
        }
    }

    /// True if a transmit completion waits for the CPU.
    #[inline]
    pub(crate) fn completion_due(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.due().is_some())
    }

    /// True if one waits that goes before received packets.
    #[inline]
    pub(crate) fn completion_first(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.due().is_some_and(|transmit| transmit.before))
    }

    /// True if the host sends, and completions go before received packets (false: after them); None: it does not send.
    #[inline]
    pub(crate) fn completions_before(&self) -> Option<bool> {
        self.beside.as_ref()?.transmit.as_ref().map(|transmit| transmit.before)
    }

    /// Time of the completion that is due [ticks].
    pub(crate) fn completion_work(&mut self) -> u64 {
        let transmit = self.beside.as_mut().and_then(|beside| beside.transmit.as_mut());
        transmit.map_or(0, Transmit::work)
    }

    /// The completion that was due has been processed.
    pub(crate) fn finish_completion(&mut self) {
        let now = self.now;
        if let Some(transmit) = self.beside.as_mut().and_then(|beside| beside.transmit.as_mut()) {
            transmit.completed(now);
        }
    }
}
