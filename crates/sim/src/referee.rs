//! The referee: a second implementation of the same schemes, written only for clarity, with an event heap and explicit
//! states.
//!
//! It shares only the packets and the random streams with the fast simulator. Both must agree packet for packet and
//! tick for tick.

mod applications;
mod comparison;
mod cpu;
mod decisions;
mod linux;
mod nic;
mod pauses;
mod plain;
mod sides;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use netcliff_core::Point;

use crate::clock::Clock;
use crate::draw::Draw;
use crate::fifo::Packet;
use crate::free_running::offset;
use crate::machine::{PacketOutcome, SocketCounts};
use crate::random::Purpose;
use crate::source::Source;
use crate::tally::Counts;

/// The kinds of events, in the order in which simultaneous ones are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The running job ends, if this is the number of the latest plan (older numbers are obsolete).
    JobEnds(u64),
    /// A pause ends: the CPU is given back.
    PauseEnds,
    /// The handling of an interrupt that was being delivered begins.
    Interrupt,
    /// The receive side sees the packets that arrived while a transmit interrupt was handled.
    Delayed,
    /// The oldest packet in the sender's queue arrives.
    Release,
    /// The next packet arrives.
    Arrival,
    /// A transmission ends.
    TransmissionEnds,
    /// The NIC that NAPI polls may interrupt: one of the conditions of its moderation may be fulfilled.
    Announce,
    /// A timer of the scheme, or the scheduler's tick.
    Timer(u64),
    /// The scheduler's tick, at which applications take turns in schemes without a kernel.
    Tick,
    /// A pause starts: the CPU is taken away.
    PauseStarts,
}

/// The state that both referees share: queues, random streams, counts, the event heap.
struct World {
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    packets: Vec<Packet>,
    arrived: usize,
    ring: VecDeque<Packet>,
    /// Number of packets of `ring` that a backlog has moved to its process queue: they do not count against the limit.
    uncounted: usize,
    sender: Option<sides::Sender>,
    transmit: Option<sides::Transmit>,
    /// For each packet that arrived while a transmit interrupt was handled: whether it fitted into the ring.
    delayed: Vec<bool>,
    applications: Vec<applications::Thread>,
    /// Threads that wait for the CPU.
    queue: VecDeque<usize>,
    /// The thread that has the CPU.
    running: Option<usize>,
    /// The thread that had the CPU last.
    last: usize,
    nobody: SocketCounts,
    since: u64,
    slice: u64,
    tick: u64,
    /// Time from the last tick before the run to the start of the run.
    tick_offset: u64,
    drop_cost: f64,
    cold_protocol: f64,
    cold_application: f64,
    interrupt: Draw,
    delivery: Draw,
    poll: Draw,
    wakeup: Draw,
    switch: Draw,
    interrupt_mean: f64,
    mask_mean: f64,
    pauses: Option<pauses::Pauses>,
    counts: Counts,
    fates: Vec<(u32, PacketOutcome, u64)>,
    over: bool,
}

impl World {
    fn new(point: &Point, clock: Clock, seed: u64, replication: u64, packets: usize) -> Self {
        let host = &point.host;
        let draw = |purpose, seconds| Draw::new(seed, purpose, replication, &host.service, clock.ticks(seconds));
        let mut source = Source::new(point, clock, seed, replication);
        let mut at = 0;
        let packets: Vec<Packet> = (0..=packets)
            .map(|_| {
                let packet = source.next();
                at += packet.arrived;
                Packet { arrived: at, ..packet }
            })
            .collect();
        let mut events = BinaryHeap::new();
        events.push(Reverse((packets[0].arrived, Event::Arrival)));
        let transmit = sides::Transmit::new(point, clock, seed, replication, &mut events);
        let pauses = pauses::Pauses::new(point, clock, seed, replication, &mut events);
        Self {
            now: 0,
            events,
            packets,
            arrived: 0,
            ring: VecDeque::new(),
            uncounted: 0,
            sender: sides::Sender::new(point, clock),
            transmit,
            delayed: Vec::new(),
            applications: applications::threads(host),
            queue: VecDeque::new(),
            running: None,
            last: 0,
            nobody: SocketCounts::default(),
            since: 0,
            slice: clock.whole(1.4e-3),
            tick: clock.whole(host.tick_s),
            tick_offset: offset(clock.whole(host.tick_s), seed, Purpose::SchedulerTick, replication),
            drop_cost: host.socket_drop_cost,
            cold_protocol: clock.ticks(host.cold_protocol_s),
            cold_application: clock.ticks(host.cold_application_s),
            interrupt: draw(Purpose::Interrupt, host.interrupt_s),
            delivery: draw(Purpose::Delivery, host.interrupt_latency_s),
            poll: draw(Purpose::Poll, host.poll_s),
            wakeup: draw(Purpose::Wakeup, host.wakeup_s),
            switch: draw(Purpose::Switch, host.context_switch_s),
            interrupt_mean: clock.ticks(host.interrupt_s),
            mask_mean: clock.ticks(host.mask_s),
            pauses,
            counts: Counts::default(),
            fates: Vec::new(),
            over: false,
        }
    }

    /// Lets time pass to `at`, and adds it to the integrals of the numbers inside.
    fn pass_to(&mut self, at: u64) {
        let span = u128::from(at - self.now);
        self.counts.ring_area += span * self.ring.len() as u128;
        let held = self.sender.as_ref().map_or(0, |sender| sender.held.len());
        self.counts.sender_area += span * held as u128;
        let in_hand = self.applications.iter().filter(|thread| thread.in_hand).count();
        self.counts.application_area += span * in_hand as u128;
        self.counts.system_area += span * (self.ring.len() + self.in_sockets() + held) as u128;
        if let Some(transmit) = &self.transmit {
            self.counts.transmit.area += span * transmit.due.len() as u128;
        }
        self.now = at;
    }

    /// Handles the packet that arrives now, or the end of the run. `room`: whether the packet fits into the ring.
    fn arrival(&mut self, room: bool) -> Option<bool> {
        if self.arrived + 1 == self.packets.len() {
            self.over = true;
            self.counts.at = self.now;
            self.counts.inside_ring = self.ring.len() as u64;
            self.counts.inside_socket = self.in_sockets() as u64;
            self.counts.inside_sender = self.sender.as_ref().map_or(0, |sender| sender.held.len() as u64);
            self.counts.transmit.inside =
                self.transmit.as_ref().map_or(0, |transmit| (transmit.due.len() + transmit.leaving) as u64);
            return None;
        }
        let packet = self.packets[self.arrived];
        self.arrived += 1;
        self.counts_for(packet).offered += 1;
        self.counts.offered += 1;
        self.events.push(Reverse((self.packets[self.arrived].arrived, Event::Arrival)));
        if self.held_back(packet) {
            return Some(false);
        }
        if room {
            self.ring.push_back(packet);
            self.tell_sender();
        } else {
            self.counts.dropped_ring += 1;
            self.counts_for(packet).dropped_ring += 1;
            self.fates.push((packet.number, PacketOutcome::DroppedRing, self.now));
        }
        Some(room)
    }

    /// Moves the packet at the head out of protocol processing. Returns true if an application wakes up.
    fn processed(&mut self) -> bool {
        let packet = self.ring.pop_front().expect("a packet in service");
        self.uncounted = self.uncounted.saturating_sub(1);
        self.tell_sender_of_room();
        self.counts.processed += 1;
        self.counts.processed_latency += u128::from(self.now - packet.arrived);
        if self.applications.is_empty() {
            self.fates.push((packet.number, PacketOutcome::Processed, self.now));
            self.delivered(packet);
            return false;
        }
        self.reaches_socket(packet)
    }

    fn delivered(&mut self, packet: Packet) {
        let latency = u128::from(self.now - packet.arrived);
        self.counts.delivered += 1;
        self.counts.delivered_bytes += u64::from(packet.bytes);
        self.counts.latency += latency;
        let counts = self.counts_for(packet);
        counts.delivered += 1;
        counts.delivered_bytes += u64::from(packet.bytes);
        counts.latency += latency;
        self.transmits(u32::from(packet.bytes));
    }
}
