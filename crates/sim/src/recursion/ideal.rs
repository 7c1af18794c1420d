//! Scheme `ideal`: packet n departs at D_n = max(A_n, D_{n-1}) + S_n (Lindley 1952). It is lost if the accepted packet
//! B positions before it is still inside at A_n.

use super::Recursion;
use super::inside::{Accepted, Inside};
use super::work_clock::WorkClock;
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// The packets, and the server's state up to the last known departure.
pub(super) struct Ideal<C> {
    clock: C,
    inside: Inside,
    last: u64,
    idle: u64,
}

impl<C> Ideal<C> {
    pub(super) fn new(clock: C, ring: usize) -> Self {
        Self { clock, inside: Inside::new(ring), last: 0, idle: 0 }
    }
}

impl<C: WorkClock> Recursion for Ideal<C> {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let Inside { packets: inside, ring, accepted, .. } = &mut self.inside;
        let mask = inside.len() - 1;
        let (inside, ring) = (&mut inside[..=mask], *ring);
        let (mut last, mut idle, mut accepted) = (self.last, self.idle, *accepted);
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            let now = self.clock.pass(*gap);
            if inside[accepted.wrapping_sub(ring) & mask].departs > now.shown {
                continue;
            }
            let start = last.max(now.shown);
            idle += start - last;
            last = start + (*work).max(C::LEAST);
            let latency = last.wrapping_sub(now.at);
            inside[accepted & mask] = Accepted { departs: last, latency, bytes: *bytes };
            accepted += 1;
        }
        self.inside.offered += packets.gaps.len();
        self.inside.accepted = accepted;
        (self.last, self.idle) = (last, idle);
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let shown = self.clock.shown(at);
        self.inside.deliver(shown, &mut self.clock, latencies);
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.clock.now() + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let shown = self.clock.shown(at);
        let available = self.idle + shown.saturating_sub(self.last);
        let mut counts = self.inside.counts(at);
        counts.cpu[Account::Available as usize] = available;
        counts.cpu[Account::Protocol as usize] = shown - available;
        counts.cpu[Account::Paused as usize] = at - shown;
        counts
    }
}
