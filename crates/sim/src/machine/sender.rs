//! [`Sender`]: the source of the packets on a link with flow control, where the host can stop it (802.3 pause).
//!
//! The traffic's schedule determines when a packet is offered. While the sender is stopped, and until its backlog is
//! sent, it queues the packets; later they leave at link speed. Their latency counts from the scheduled time. The pause
//! frame itself takes no time, so that a ring with flow control loses no packets: all losses occur at the sender.

use netcliff_core::Point;
use netcliff_core::traffic::WIRE_OVERHEAD_BYTES;

use crate::clock::{Clock, NEVER, to_ticks};
use crate::fifo::{Fifo, Packet};

/// Time that a frame occupies the link, including preamble and gap [ticks]; at least one.
pub(crate) fn wire_ticks(bytes: u32, ticks_per_byte: f64) -> u64 {
    to_ticks((f64::from(bytes) + WIRE_OVERHEAD_BYTES) * ticks_per_byte).max(1)
}

/// Ticks per byte on the link of `point`.
pub(crate) fn ticks_per_byte(point: &Point, clock: Clock) -> f64 {
    clock.ticks(8.0 / point.traffic.link_bps)
}

/// The sender's queue, and whether it may send.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Queued packets.
    pub held: Fifo,
    /// Time at which the first queued packet reaches the host [ticks]; [`NEVER`] while the sender is stopped.
    pub release_at: u64,
    /// Total time that the packets released so far have spent in the queue [ticks].
    pub waited: u128,
    paused: bool,
    limit: usize,
    xoff: usize,
    xon: usize,
    ticks_per_byte: f64,
}

impl Sender {
    /// The sender of `point`. `None` without flow control.
    pub(super) fn new(point: &Point, clock: Clock) -> Option<Self> {
        let size = |packets: u64| usize::try_from(packets).unwrap_or(usize::MAX);
        Some(Self {
            held: Fifo::new(),
            release_at: NEVER,
            waited: 0,
            paused: false,
            limit: size(point.host.sender_queue_packets()),
            xoff: size(point.host.xoff?),
            xon: size(point.host.xon_packets()?),
            ticks_per_byte: ticks_per_byte(point, clock),
        })
    }

    /// Whether a packet offered now goes to the queue.
    pub(super) fn holds(&self) -> bool {
        self.paused || !self.held.is_empty()
    }

    /// Queues a packet. Returns false if the queue is full.
    pub(super) fn hold(&mut self, packet: Packet) -> bool {
        let room = self.held.len() < self.limit;
        if room {
            self.held.push(packet);
        }
        room
    }

    /// Removes the packet whose release is due at `now`.
    pub(super) fn release(&mut self, now: u64) -> Packet {
        let packet = self.held.pop();
        self.waited += u128::from(now - packet.arrived);
        packet
    }

    /// Records that a packet has filled the ring to `occupied` packets: the sender stops, or continues with the next
    /// packet.
    pub(super) fn filled(&mut self, occupied: usize, now: u64) {
        self.paused = occupied >= self.xoff;
        self.plan(now);
    }

    /// Records that the ring has drained to `occupied` packets: the sender may continue.
    pub(super) fn drained(&mut self, occupied: usize, now: u64) {
        if self.paused && occupied <= self.xon {
            self.paused = false;
            self.plan(now);
        }
    }

    fn plan(&mut self, now: u64) {
        let goes = !self.paused && !self.held.is_empty();
        self.release_at =
            if goes { now + wire_ticks(u32::from(self.held.front().bytes), self.ticks_per_byte) } else { NEVER };
    }
}
