//! [`Inside`]: packets whose departures are computed ahead of time. They are counted a block later, or when counts are
//! recorded.

use super::work_clock::WorkClock;
use crate::random::BLOCK;
use crate::tally::{Counts, Histogram};

/// An accepted packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Accepted {
    /// Departure, on the clock of work, which stands still in pauses ([`super::work_clock`]) [ticks].
    pub departs: u64,
    /// Departure minus arrival [ticks]. Pauses are added when the packet is delivered.
    pub latency: u64,
    pub bytes: u32,
}

/// The latest accepted packets in a ring buffer, and sums over the delivered packets.
pub(super) struct Inside {
    /// Ring buffer; its length is a power of two.
    pub packets: Box<[Accepted]>,
    /// Maximum number of packets in the ring.
    pub ring: usize,
    /// Number of packets that have arrived.
    pub offered: usize,
    /// Number of accepted packets.
    pub accepted: usize,
    /// Number of departures that have been counted.
    pub delivered: usize,
    counts: Counts,
}

impl Inside {
    pub(super) fn new(ring: usize) -> Self {
        // Room for the packets inside, and for packets of the block that have not been counted yet.
        let places = (ring + BLOCK).next_power_of_two();
        Self {
            packets: vec![Accepted::default(); places].into_boxed_slice(),
            ring,
            offered: 0,
            accepted: 0,
            delivered: 0,
            counts: Counts::default(),
        }
    }

    /// Index of a packet in the buffer, by its number among the accepted ones.
    #[inline]
    pub(super) fn place(&self, number: usize) -> usize {
        number & (self.packets.len() - 1)
    }

    /// Whether all accepted packets have been delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.delivered == self.accepted
    }

    /// Departure of the packet that was delivered last.
    pub(super) fn passed(&self) -> u64 {
        self.packets[self.place(self.delivered.wrapping_sub(1))].departs
    }

    /// Counts the packets that have departed by `shown`, a time on the clock of work `clock`, which stands still in
    /// pauses.
    pub(super) fn deliver(&mut self, shown: u64, clock: &mut impl WorkClock, latencies: &mut Histogram) {
        let mask = self.packets.len() - 1;
        let packets = &self.packets[..=mask];
        let (first, mut delivered) = (self.delivered, self.delivered);
        let (mut latency, mut bytes) = (0_u128, 0_u64);
        while delivered < self.accepted {
            let packet = &packets[delivered & mask];
            if packet.departs > shown {
                break;
            }
            let own = packet.latency.wrapping_add(clock.away(packet.departs));
            latency += u128::from(own);
            latencies.add(own);
            bytes += u64::from(packet.bytes);
            delivered += 1;
        }
        clock.forget();
        self.counts.latency += latency;
        self.counts.delivered_bytes += bytes;
        self.counts.delivered += (delivered - first) as u64;
        self.delivered = delivered;
    }

    /// The counts of packets at `at`; all departures up to `at` must have been counted.
    pub(super) fn counts(&self, at: u64) -> Counts {
        let inside = (self.delivered..self.accepted).map(|number| &self.packets[self.place(number)]);
        let age = |packet: &Accepted| at.wrapping_add(packet.latency).wrapping_sub(packet.departs);
        let ages: u128 = inside.map(|packet| u128::from(age(packet))).sum();
        let area = self.counts.latency + ages;
        Counts {
            at,
            dropped_ring: (self.offered - self.accepted) as u64,
            inside_ring: (self.accepted - self.delivered) as u64,
            processed: self.counts.delivered,
            processed_latency: self.counts.latency,
            ring_area: area,
            system_area: area,
            ..self.counts
        }
    }
}
