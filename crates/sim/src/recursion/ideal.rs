//! Scheme `ideal`: packet n departs at D_n = max(A_n, D_{n-1}) + S_n (Lindley 1952), and is lost if the packet B places
//! before it among those accepted is still inside at A_n.

use super::Recursion;
use super::inside::{Accepted, Inside};
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// The packets, and the server up to the last departure that is known.
pub(super) struct Ideal {
    now: u64,
    inside: Inside,
    last: u64,
    idle: u64,
}

impl Ideal {
    pub(super) fn new(ring: usize) -> Self {
        Self { now: 0, inside: Inside::new(ring), last: 0, idle: 0 }
    }
}

impl Recursion for Ideal {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let Inside { packets: inside, ring, accepted, .. } = &mut self.inside;
        let mask = inside.len() - 1;
        let (inside, ring) = (&mut inside[..=mask], *ring);
        let (mut now, mut last, mut idle, mut accepted) = (self.now, self.last, self.idle, *accepted);
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            now += gap;
            if inside[accepted.wrapping_sub(ring) & mask].departs > now {
                continue;
            }
            let start = last.max(now);
            idle += start - last;
            last = start + work;
            inside[accepted & mask] = Accepted { departs: last, latency: last - now, bytes: *bytes, kept: () };
            accepted += 1;
        }
        self.inside.offered += packets.gaps.len();
        self.inside.accepted = accepted;
        (self.now, self.last, self.idle) = (now, last, idle);
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        self.inside.deliver(at, latencies);
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.now + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let available = self.idle + at.saturating_sub(self.last);
        let mut counts = self.inside.counts(at);
        counts.cpu[Account::Available as usize] = available;
        counts.cpu[Account::Protocol as usize] = at - available;
        counts
    }
}
