//! [`Beside`]: what a host does besides receiving, with events of its own: flow control, transmissions and their interrupts. A host that does nothing else pays one test of
//! a pointer an arrival for it.

use std::collections::VecDeque;

use netcliff_core::Point;
use netcliff_core::host::TransmitPriority;

use super::sender::Sender;
use super::transmit::Transmit;
use super::{Arrival, Machine, PacketOutcome, Watch};
use crate::clock::{Clock, NEVER};
use crate::fifo::Packet;
use crate::tally::Account;

/// Flow control and transmissions.
#[derive(Debug)]
pub(super) struct Beside {
    /// When the schedule offers the next packet [ticks].
    scheduled: u64,
    pub(super) sender: Option<Sender>,
    pub(super) transmit: Option<Transmit>,
    /// What arrived while a transmit interrupt was handled; the receive side sees it at the handler's end.
    held_up: VecDeque<Arrival>,
    /// That end [ticks]; None while the handler runs, and where nothing is held up.
    told_at: Option<u64>,
}

impl Beside {
    /// None if the host of `point` only receives.
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, scheduled: u64) -> Option<Box<Self>> {
        let sender = Sender::new(point, clock);
        let transmit = Transmit::new(point, clock, seed, replication);
        (sender.is_some() || transmit.is_some())
            .then(|| Box::new(Self { scheduled, sender, transmit, held_up: VecDeque::new(), told_at: None }))
    }

    fn release_at(&self) -> u64 {
        self.sender.as_ref().map_or(NEVER, |sender| sender.release_at)
    }

    /// The next event of any kind [ticks].
    pub(super) fn next(&self) -> u64 {
        let transmission = self.transmit.as_ref().map_or(NEVER, Transmit::next_end);
        self.scheduled.min(self.release_at()).min(transmission).min(self.told_at.unwrap_or(NEVER))
    }

    /// The transmissions, if a completion waits that is protocol work.
    fn due(&self) -> Option<&Transmit> {
        let by_protocol = |transmit: &&Transmit| transmit.is_due() && transmit.priority != TransmitPriority::Interrupt;
        self.transmit.as_ref().filter(by_protocol)
    }

    /// True if a transmit interrupt waits for the CPU.
    #[inline]
    fn interrupts(&self) -> bool {
        self.transmit
            .as_ref()
            .is_some_and(|transmit| transmit.priority == TransmitPriority::Interrupt && transmit.is_due())
    }

    /// The next of what was held up.
    fn told(&mut self) -> Option<Arrival> {
        self.told_at?;
        let arrival = self.held_up.pop_front();
        if self.held_up.is_empty() {
            self.told_at = None;
        }
        arrival
    }
}

impl<W: Watch> Machine<W> {
    /// What is due now: a packet that the sender held back, else one of the schedule, else the end of a transmission.
    #[inline(never)]
    pub(super) fn take_event(&mut self) -> Arrival {
        let now = self.now;
        let Some(beside) = &mut self.beside else { return Arrival::Elsewhere };
        let arrival = if let Some(arrival) = beside.told() {
            arrival
        } else if beside.release_at() == now {
            let released = beside.sender.as_mut().map(|sender| sender.release(now));
            released.map_or(Arrival::Elsewhere, |packet| self.sent(packet))
        } else if beside.scheduled == now {
            self.offer()
        } else {
            let waits = beside.transmit.as_mut().is_some_and(|transmit| transmit.ended(now));
            if waits && !beside.interrupts() { Arrival::Completion } else { Arrival::Elsewhere }
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
        let packet = self.next_packet(self.now);
        let next = self.now + self.source.gap();
        let Some(beside) = &mut self.beside else { return Arrival::Elsewhere };
        beside.scheduled = next;
        match &mut beside.sender {
            Some(sender) if sender.holds() => {
                if !sender.hold(packet) {
                    self.counts.dropped_sender += 1;
                    if let Some(counts) = self.counts_of(packet.socket) {
                        counts.dropped_sender += 1;
                    }
                    self.watch.outcome(packet.number, PacketOutcome::DroppedSender, self.now);
                }
                Arrival::Elsewhere
            }
            _ => self.sent(packet),
        }
    }

    /// A packet reaches the ring; the sender is notified how full that is.
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
            self.plan(beside.next());
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
        self.uncounted = self.ring_len();
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
        self.beside
            .as_ref()
            .is_some_and(|beside| beside.due().is_some_and(|transmit| transmit.priority == TransmitPriority::Before))
    }

    /// True if completions are protocol work that goes before received packets (false: after them); None: they are not.
    #[inline]
    pub(crate) fn completions_before(&self) -> Option<bool> {
        match self.beside.as_ref()?.transmit.as_ref()?.priority {
            TransmitPriority::Before => Some(true),
            TransmitPriority::After => Some(false),
            TransmitPriority::Interrupt => None,
        }
    }

    /// Handles the transmit interrupt that waits, if one does, with all completions that come until its end. To be called
    /// before time passes on any other account than interrupts'. True if there was one.
    #[inline]
    pub(crate) fn transmit_interrupts(&mut self) -> bool {
        let waits = self.beside.as_ref().is_some_and(|beside| beside.interrupts());
        if waits {
            self.handle_transmit_interrupt();
        }
        waits
    }

    #[inline(never)]
    fn handle_transmit_interrupt(&mut self) {
        if let Some(beside) = &mut self.beside {
            beside.told_at = None;
        }
        self.plan_events();
        self.counts.interrupts += 1;
        let overhead = self.times.interrupt.next();
        self.hold_up(overhead);
        while self.beside.as_ref().is_some_and(|beside| beside.interrupts()) {
            let work = self.completion_work();
            self.hold_up(work);
            self.finish_completion();
        }
        if let Some(beside) = &mut self.beside {
            beside.told_at = (!beside.held_up.is_empty()).then_some(self.now);
        }
        self.plan_events();
    }

    /// Spends `work` in the handler; the receive side sees packets that come meanwhile when the handler is done.
    fn hold_up(&mut self, work: u64) {
        let mut left = work;
        while let Some(rest) = self.work(Account::Interrupt, left, self.arrives) {
            left = rest;
            let arrival = self.take_arrival();
            if let (Arrival::Accepted | Arrival::Dropped, Some(beside)) = (arrival, &mut self.beside) {
                beside.held_up.push_back(arrival);
            }
        }
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
