//! [`SideLoad`]: what a host does in addition to receiving: flow control, transmissions and their interrupts, which
//! have their own events. On a host that only receives, this costs one test of a pointer per arrival.

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
pub(super) struct SideLoad {
    /// Time at which the schedule offers the next packet [ticks].
    scheduled: u64,
    pub(super) sender: Option<Sender>,
    pub(super) transmit: Option<Transmit>,
    /// Arrivals during the handling of a transmit interrupt. The receive side handles them when the handler has ended.
    delayed: VecDeque<Arrival>,
    /// Time of the handler's end [ticks]. `None` while the handler runs, and if no packets arrived during it.
    delayed_until: Option<u64>,
}

impl SideLoad {
    /// `None` if the host of `point` only receives.
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, scheduled: u64) -> Option<Box<Self>> {
        let sender = Sender::new(point, clock);
        let transmit = Transmit::new(point, clock, seed, replication);
        (sender.is_some() || transmit.is_some())
            .then(|| Box::new(Self { scheduled, sender, transmit, delayed: VecDeque::new(), delayed_until: None }))
    }

    fn release_at(&self) -> u64 {
        self.sender.as_ref().map_or(NEVER, |sender| sender.release_at)
    }

    /// Time of the next event of any kind [ticks].
    pub(super) fn next(&self) -> u64 {
        let transmission = self.transmit.as_ref().map_or(NEVER, Transmit::next_end);
        self.scheduled.min(self.release_at()).min(transmission).min(self.delayed_until.unwrap_or(NEVER))
    }

    /// Returns the transmissions if a completion waits and completions are protocol work; otherwise `None`.
    fn due(&self) -> Option<&Transmit> {
        let by_protocol = |transmit: &&Transmit| transmit.is_due() && transmit.priority != TransmitPriority::Interrupt;
        self.transmit.as_ref().filter(by_protocol)
    }

    /// Whether a transmit interrupt waits for the CPU.
    #[inline]
    fn interrupts(&self) -> bool {
        self.transmit
            .as_ref()
            .is_some_and(|transmit| transmit.priority == TransmitPriority::Interrupt && transmit.is_due())
    }

    /// The next delayed arrival, once the handler has ended.
    fn next_delayed(&mut self) -> Option<Arrival> {
        self.delayed_until?;
        let arrival = self.delayed.pop_front();
        if self.delayed.is_empty() {
            self.delayed_until = None;
        }
        arrival
    }
}

impl<W: Watch> Machine<W> {
    /// Handles the event that is due now: a delayed arrival, a packet from the sender's queue, a scheduled packet, or
    /// the end of a transmission.
    #[inline(never)]
    pub(super) fn take_event(&mut self) -> Arrival {
        let now = self.now;
        let Some(side_load) = &mut self.side_load else { return Arrival::Elsewhere };
        let arrival = if let Some(arrival) = side_load.next_delayed() {
            arrival
        } else if side_load.release_at() == now {
            let released = side_load.sender.as_mut().map(|sender| sender.release(now));
            released.map_or(Arrival::Elsewhere, |packet| self.sent(packet))
        } else if side_load.scheduled == now {
            self.offer()
        } else {
            let waits = side_load.transmit.as_mut().is_some_and(|transmit| transmit.ended(now));
            if waits && !side_load.interrupts() { Arrival::Completion } else { Arrival::Elsewhere }
        };
        self.plan_events();
        arrival
    }

    /// Handles the schedule's next packet: sends it at once, or queues it at the sender.
    fn offer(&mut self) -> Arrival {
        if self.counts.offered == self.records.next_mark() && self.mark() {
            // No further event of the sender or of transmissions occurs after the end.
            self.side_load = None;
            return Arrival::Ended;
        }
        let packet = self.next_packet(self.now);
        let next = self.now + self.source.gap();
        let Some(side_load) = &mut self.side_load else { return Arrival::Elsewhere };
        side_load.scheduled = next;
        match &mut side_load.sender {
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

    /// Passes a packet to the ring, and informs the sender of the ring's occupancy.
    fn sent(&mut self, packet: Packet) -> Arrival {
        let arrival = self.accept(packet);
        let occupied = self.ring.len() - self.uncounted;
        if let Some(sender) = self.side_load.as_mut().and_then(|side_load| side_load.sender.as_mut()) {
            debug_assert_eq!(arrival, Arrival::Accepted, "flow control keeps the ring from overflowing");
            sender.filled(occupied, self.now);
        }
        arrival
    }

    fn plan_events(&mut self) {
        if let Some(side_load) = &self.side_load {
            self.plan(side_load.next());
        }
    }

    /// Records that packets no longer count against the ring's limit: the sender may continue.
    #[inline(never)]
    pub(super) fn relieve(&mut self) {
        let occupied = self.ring.len() - self.uncounted;
        if let Some(sender) = self.side_load.as_mut().and_then(|side_load| side_load.sender.as_mut()) {
            sender.drained(occupied, self.now);
            self.plan_events();
        }
    }

    /// Records that a packet of `bytes` was delivered: it may have to be forwarded.
    #[inline(never)]
    pub(super) fn forward(&mut self, bytes: u32) {
        if let Some(transmit) = self.side_load.as_mut().and_then(|side_load| side_load.transmit.as_mut()) {
            transmit.delivered(bytes, self.now);
            self.plan_events();
        }
    }

    /// Moves all packets of the ring to where they do not count against the limit (a backlog's process queue).
    #[inline]
    pub(crate) fn splice(&mut self) {
        self.uncounted = self.ring_len();
        if self.side_load.is_some() {
            self.relieve();
        }
    }

    /// Whether a transmit completion waits for the CPU.
    #[inline]
    pub(crate) fn completion_due(&self) -> bool {
        self.side_load.as_ref().is_some_and(|side_load| side_load.due().is_some())
    }

    /// Whether a completion waits that is processed before received packets.
    #[inline]
    pub(crate) fn completion_first(&self) -> bool {
        self.side_load.as_ref().is_some_and(|side_load| {
            side_load.due().is_some_and(|transmit| transmit.priority == TransmitPriority::Before)
        })
    }

    /// Whether completions are processed before received packets; false: after them. `None` if they are not protocol
    /// work.
    #[inline]
    pub(crate) fn completions_before(&self) -> Option<bool> {
        match self.side_load.as_ref()?.transmit.as_ref()?.priority {
            TransmitPriority::Before => Some(true),
            TransmitPriority::After => Some(false),
            TransmitPriority::Interrupt => None,
        }
    }

    /// Handles the waiting transmit interrupt, if any, with all completions that become due until its end. Call it
    /// before time passes on an account other than interrupts. Returns true if an interrupt was handled.
    #[inline]
    pub(crate) fn transmit_interrupts(&mut self) -> bool {
        let waits = self.side_load.as_ref().is_some_and(|side_load| side_load.interrupts());
        if waits {
            self.handle_transmit_interrupt();
        }
        waits
    }

    #[inline(never)]
    fn handle_transmit_interrupt(&mut self) {
        if let Some(side_load) = &mut self.side_load {
            side_load.delayed_until = None;
        }
        self.plan_events();
        self.counts.interrupts += 1;
        let overhead = self.times.interrupt.next();
        self.spend_in_handler(overhead);
        while self.side_load.as_ref().is_some_and(|side_load| side_load.interrupts()) {
            let work = self.completion_work();
            self.spend_in_handler(work);
            self.finish_completion();
        }
        if let Some(side_load) = &mut self.side_load {
            side_load.delayed_until = (!side_load.delayed.is_empty()).then_some(self.now);
        }
        self.plan_events();
    }

    /// Spends `work` in the handler. Packets that arrive during it reach the receive side at its end.
    fn spend_in_handler(&mut self, work: u64) {
        let mut left = work;
        while let Some(rest) = self.work(Account::Interrupt, left, self.arrives) {
            left = rest;
            let arrival = self.take_arrival();
            if let (Arrival::Accepted | Arrival::Dropped, Some(side_load)) = (arrival, &mut self.side_load) {
                side_load.delayed.push_back(arrival);
            }
        }
    }

    /// Duration of the completion that is due [ticks].
    pub(crate) fn completion_work(&mut self) -> u64 {
        let transmit = self.side_load.as_mut().and_then(|side_load| side_load.transmit.as_mut());
        transmit.map_or(0, Transmit::work)
    }

    /// Records that the completion that was due has been processed.
    pub(crate) fn finish_completion(&mut self) {
        let now = self.now;
        if let Some(transmit) = self.side_load.as_mut().and_then(|side_load| side_load.transmit.as_mut()) {
            transmit.completed(now);
        }
    }
}
