//! Schemes `disable-enable`, `napi-2007` and `napi` of a device: the CPU does one piece of work after the other.
//! Whether the ring holds the next packet when a packet departs determines what the CPU does before the next service,
//! and so the next departure (Lindley 1952, with set-up times).
//!
//! Packets are processed ahead of time ([`super::inside`]). When counts are recorded, the part that lies in the future
//! is subtracted from the sums.

use super::Recursion;
use super::before::{Before, Befores, Discipline};
use super::inside::{Accepted, Inside};
use super::work_clock::{Instant, WorkClock};
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// The packets, with the CPU's work and idle time before each service.
pub(super) struct Serial<D, C> {
    discipline: D,
    clock: C,
    inside: Inside,
    befores: Befores,
    last: u64,
}

impl<D, C> Serial<D, C> {
    pub(super) fn new(discipline: D, clock: C, ring: usize) -> Self {
        Self { discipline, clock, inside: Inside::new(ring), befores: Befores::default(), last: 0 }
    }
}

impl<D: Discipline, C: WorkClock> Recursion for Serial<D, C> {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let Inside { packets: inside, ring, accepted, .. } = &mut self.inside;
        let mask = inside.len() - 1;
        let (inside, ring) = (&mut inside[..=mask], *ring);
        let (mut last, mut accepted) = (self.last, *accepted);
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            let Instant { at, shown } = self.clock.pass(*gap);
            if inside[accepted.wrapping_sub(ring) & mask].departs > shown {
                continue;
            }
            let (before, work) = self.discipline.before(shown, last, *work, *bytes);
            if let Some(before) = before {
                last += before.length();
                self.befores.add(accepted, before);
            }
            last += work.max(C::LEAST);
            let latency = last.wrapping_sub(at);
            inside[accepted & mask] = Accepted { departs: last, latency, bytes: *bytes };
            accepted += 1;
        }
        self.inside.offered += packets.gaps.len();
        self.inside.accepted = accepted;
        self.last = last;
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let shown = self.clock.shown(at);
        self.inside.deliver(shown, &mut self.clock, latencies);
        self.befores.forget(self.inside.delivered);
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.clock.now() + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let (mut sums, shown) = (self.befores.sums(self.inside.delivered), self.clock.shown(at));
        if self.inside.is_empty() {
            let (first, polls_first) = self.discipline.first(shown, self.last);
            let idle = (shown - self.last).saturating_sub(first);
            sums.begin::<D>(&Before { first, idle, polls_first, ..Before::default() }, shown, self.last);
        } else {
            sums.begin::<D>(&self.befores.of(self.inside.delivered), shown, self.inside.passed());
        }
        let mut counts = Counts { interrupts: sums.interrupts, polls: sums.polls, ..self.inside.counts(at) };
        counts.cpu[Account::Interrupt as usize] = sums.interrupt;
        counts.cpu[Account::Poll as usize] = sums.polling;
        counts.cpu[Account::Available as usize] = sums.idle;
        counts.cpu[Account::Protocol as usize] = shown - sums.interrupt - sums.polling - sums.idle;
        counts.cpu[Account::Paused as usize] = at - shown;
        counts
    }
}
