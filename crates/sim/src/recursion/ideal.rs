//! Scheme `ideal`: packet n departs at D_n = max(A_n, D_{n-1}) + S_n (Lindley 1952), and is lost if the packet B places
//! before it among those accepted is still inside at A_n. Departures become counts and latencies a block later, or when
//! a mark asks for them.

use super::Recursion;
use crate::random::BLOCK;
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// An accepted packet.
#[derive(Debug, Clone, Copy, Default)]
struct Departure {
    at: u64,
    latency: u64,
}

/// Departures of the latest accepted packets, in a ring buffer, and the counts.
pub(super) struct Ideal {
    now: u64,
    departures: Box<[Departure]>,
    bytes: Box<[u32]>,
    ring: usize,
    accepted: usize,
    /// Departures that have been counted.
    delivered: usize,
    last: u64,
    idle: u64,
    counts: Counts,
}

impl Ideal {
    pub(super) fn new(ring: usize) -> Self {
        // The packets inside, and the block's packets not counted yet.
        let places = (ring + BLOCK).next_power_of_two();
        Self {
            now: 0,
            departures: vec![Departure::default(); places].into_boxed_slice(),
            bytes: vec![0; places].into_boxed_slice(),
            ring,
            accepted: 0,
            delivered: 0,
            last: 0,
            idle: 0,
            counts: Counts::default(),
        }
    }
}

impl Recursion for Ideal {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let mask = self.departures.len() - 1;
        let bytes_of = &mut self.bytes[..=mask];
        let departures = &mut self.departures[..=mask];
        let (mut now, mut last, mut idle, mut accepted) = (self.now, self.last, self.idle, self.accepted);
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            now += gap;
            if departures[accepted.wrapping_sub(self.ring) & mask].at > now {
                continue;
            }
            let start = last.max(now);
            idle += start - last;
            last = start + work;
            departures[accepted & mask] = Departure { at: last, latency: last - now };
            bytes_of[accepted & mask] = *bytes;
            accepted += 1;
        }
        self.counts.dropped_ring += (packets.gaps.len() - (accepted - self.accepted)) as u64;
        (self.now, self.last, self.idle, self.accepted) = (now, last, idle, accepted);
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let mask = self.departures.len() - 1;
        let departures = &self.departures[..=mask];
        let first = self.delivered;
        let mut latency = 0_u128;
        while self.delivered < self.accepted {
            let departure = departures[self.delivered & mask];
            if departure.at > at {
                break;
            }
            latency += u128::from(departure.latency);
            latencies.add(departure.latency);
            self.counts.delivered_bytes += u64::from(self.bytes[self.delivered & mask]);
            self.delivered += 1;
        }
        self.counts.latency += latency;
        self.counts.delivered += (self.delivered - first) as u64;
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.now + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let mask = self.departures.len() - 1;
        let inside = (self.delivered..self.accepted).map(|place| self.departures[place & mask]);
        let ages: u128 = inside.map(|departure| u128::from(at + departure.latency - departure.at)).sum();
        let available = self.idle + at.saturating_sub(self.last);
        let mut counts = Counts {
            at,
            inside_ring: (self.accepted - self.delivered) as u64,
            processed: self.counts.delivered,
            processed_latency: self.counts.latency,
            ring_area: self.counts.latency + ages,
            system_area: self.counts.latency + ages,
            ..self.counts
        };
        counts.cpu[Account::Available as usize] = available;
        counts.cpu[Account::Protocol as usize] = at - available;
        counts
    }
}
