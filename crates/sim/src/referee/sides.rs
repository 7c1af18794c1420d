//! Flow control and transmissions in their simplest form.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use netcliff_core::host::{TransmitLoad, TransmitPriority};
use netcliff_core::{Point, Service};

use super::{Event, World};
use crate::clock::{Clock, to_ticks};
use crate::draw::Draw;
use crate::fifo::Packet;
use crate::machine::PacketOutcome;
use crate::random::Purpose;

type Events = BinaryHeap<Reverse<(u64, Event)>>;

/// A frame's time on the link, including 20 bytes of preamble and gap.
fn wire_time(bytes: u32, byte: f64) -> u64 {
    to_ticks((f64::from(bytes) + 20.0) * byte).max(1)
}

/// A sender that can be stopped.
pub(super) struct Sender {
    pub held: VecDeque<Packet>,
    stopped: bool,
    limit: usize,
    xoff: usize,
    xon: usize,
    byte: f64,
}

impl Sender {
    pub(super) fn new(point: &Point, clock: Clock) -> Option<Self> {
        let host = &point.host;
        let xoff = host.xoff? as usize;
        Some(Self {
            held: VecDeque::new(),
            stopped: false,
            limit: host.sender_queue.unwrap_or(1000) as usize,
            xoff,
            xon: host.xon.map_or(xoff / 2, |xon| xon as usize),
            byte: clock.ticks(8.0 / point.traffic.link_bps),
        })
    }
}

/// The transmissions of the host.
pub(super) struct Transmit {
    pub priority: TransmitPriority,
    /// End times of the transmissions that wait for their completion.
    pub due: VecDeque<u64>,
    /// Number of transmissions that have not ended.
    pub leaving: usize,
    link_free: u64,
    slots: usize,
    cost: Draw,
    owed: f64,
    share: f64,
    own: Option<Draw>,
    byte: f64,
}

impl Transmit {
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, events: &mut Events) -> Option<Self> {
        let host = &point.host;
        let cost = Draw::new(seed, Purpose::Completion, replication, &host.service, clock.ticks(host.transmit_s?));
        let (share, own) = match host.transmit_load {
            None => (1.0, None),
            Some(TransmitLoad::Share(share)) => (share, None),
            Some(TransmitLoad::Pps(pps)) => {
                let mean = clock.ticks(1.0 / pps);
                let mut gaps = Draw::new(seed, Purpose::Transmission, replication, &Service::Exponential, mean);
                events.push(Reverse((gaps.next(), Event::TransmissionEnds)));
                (0.0, Some(gaps))
            }
        };
        Some(Self {
            priority: host.transmit_priority.unwrap_or_default(),
            due: VecDeque::new(),
            leaving: 0,
            link_free: 0,
            slots: host.transmit_ring.unwrap_or(1024) as usize,
            cost,
            owed: 0.0,
            share,
            own,
            byte: clock.ticks(8.0 / point.traffic.link_bps),
        })
    }
}

impl World {
    fn occupied(&self) -> usize {
        self.ring.len() - self.uncounted
    }

    /// Queues or drops the packet at the sender. Returns false if the packet is sent instead.
    pub(super) fn held_back(&mut self, packet: Packet) -> bool {
        let now = self.now;
        let Some(sender) = &mut self.sender else { return false };
        if !sender.stopped && sender.held.is_empty() {
            return false;
        }
        if sender.held.len() < sender.limit {
            sender.held.push_back(packet);
        } else {
            self.counts_for(packet).dropped_sender += 1;
            self.counts.dropped_sender += 1;
            self.fates.push((packet.number, PacketOutcome::DroppedSender, now));
        }
        true
    }

    /// Passes the first queued packet to the ring, which has room.
    pub(super) fn release(&mut self) {
        let packet = self.sender.as_mut().and_then(|sender| sender.held.pop_front()).expect("a packet held back");
        self.ring.push_back(packet);
        self.tell_sender();
    }

    pub(super) fn tell_sender(&mut self) {
        let occupied = self.occupied();
        let Some(sender) = &mut self.sender else { return };
        sender.stopped = occupied >= sender.xoff;
        self.send_next();
    }

    pub(super) fn tell_sender_of_room(&mut self) {
        let occupied = self.occupied();
        let Some(sender) = &mut self.sender else { return };
        if sender.stopped && occupied <= sender.xon {
            sender.stopped = false;
            self.send_next();
        }
    }

    fn send_next(&mut self) {
        let Some(sender) = &self.sender else { return };
        if let (false, Some(next)) = (sender.stopped, sender.held.front()) {
            let at = self.now + wire_time(u32::from(next.bytes), sender.byte);
            self.events.push(Reverse((at, Event::Release)));
        }
    }

    /// Starts the transmissions that a delivered packet of `bytes` causes.
    pub(super) fn transmits(&mut self, bytes: u32) {
        let Some(transmit) = &mut self.transmit else { return };
        transmit.owed += transmit.share;
        while transmit.owed >= 1.0 {
            transmit.owed -= 1.0;
            self.counts.transmit.started += 1;
            if transmit.due.len() + transmit.leaving == transmit.slots {
                self.counts.transmit.refused += 1;
                continue;
            }
            transmit.leaving += 1;
            transmit.link_free = transmit.link_free.max(self.now) + wire_time(bytes, transmit.byte);
            self.events.push(Reverse((transmit.link_free, Event::TransmissionEnds)));
        }
    }

    /// Ends a transmission. Returns true if its completion waits for processing.
    pub(super) fn transmission_ends(&mut self) -> bool {
        let now = self.now;
        let Some(transmit) = &mut self.transmit else { return false };
        match &mut transmit.own {
            None => transmit.leaving -= 1,
            Some(gaps) => {
                self.events.push(Reverse((now + gaps.next(), Event::TransmissionEnds)));
                self.counts.transmit.started += 1;
                if transmit.due.len() == transmit.slots {
                    self.counts.transmit.refused += 1;
                    return false;
                }
            }
        }
        transmit.due.push_back(now);
        true
    }

    pub(super) fn completion_due(&self) -> bool {
        self.transmit
            .as_ref()
            .is_some_and(|transmit| !transmit.due.is_empty() && transmit.priority != TransmitPriority::Interrupt)
    }

    /// Whether a completion waits and completions are handled by interrupt.
    pub(super) fn transmit_interrupts(&self) -> bool {
        self.transmit
            .as_ref()
            .is_some_and(|transmit| !transmit.due.is_empty() && transmit.priority == TransmitPriority::Interrupt)
    }

    /// Handles the arrivals that the transmit interrupt delayed.
    pub(super) fn deliver_delayed(&mut self) {
        if !self.delayed.is_empty() {
            self.events.push(Reverse((self.now, Event::Delayed)));
        }
    }

    /// Whether completions precede received packets. `None` if there are none, or if they interrupt.
    pub(super) fn completions_before(&self) -> Option<bool> {
        match self.transmit.as_ref()?.priority {
            TransmitPriority::Before => Some(true),
            TransmitPriority::After => Some(false),
            TransmitPriority::Interrupt => None,
        }
    }

    pub(super) fn completion_time(&mut self) -> u64 {
        self.transmit.as_mut().map_or(0, |transmit| transmit.cost.next())
    }

    pub(super) fn completed(&mut self) {
        let now = self.now;
        let since = self.transmit.as_mut().and_then(|transmit| transmit.due.pop_front()).expect("a completion");
        self.counts.transmit.completed += 1;
        self.counts.transmit.waited += u128::from(now - since);
    }
}
