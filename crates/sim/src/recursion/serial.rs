//! Schemes `disable-enable`, `napi-2007` and `napi` of a device: the CPU does one thing after the other. When the packet before departed, the ring holds the
//! next one or not; what comes before its service follows from that alone, and so does its departure (Lindley 1952, with set-up times).
//!
//! Packets are taken ahead of time ([`super::inside`]); at a mark what is still to come of them is taken off the sums.

use super::Recursion;
use super::inside::{Accepted, Inside};
use super::work_clock::{Instant, WorkClock};
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// What the CPU does from one departure to the service of the next packet, in this order [ticks].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Before {
    /// A poll that finds nothing or ends in the ring's next packet, and unmasking.
    pub first: u64,
    /// Nothing: no packet, an interrupt that is on its way, or a tick to come.
    pub idle: u64,
    pub interrupt: u64,
    pub overhead: u64,
    /// Polls counted when `first` begins.
    pub polls_first: u8,
    /// The same when the interrupt does, and with the overhead.
    pub interrupts: u8,
    pub polls: u8,
}

impl Before {
    pub(super) fn length(&self) -> u64 {
        self.first + self.idle + self.interrupt + self.overhead
    }
}

/// A scheme.
pub(super) trait Discipline {
    /// Whether polls are counted when their overhead begins; else when it ends.
    const COUNTS_AT_ONCE: bool;

    /// What comes before a packet that arrived at `arrived`, where the one before departed at `last`, and its protocol time, which by itself is `work`.
    fn before(&mut self, arrived: u64, last: u64, work: u64, bytes: u32) -> (Before, u64);

    /// What `before` of an arrival at `at` will begin with; it is drawn only once.
    fn first(&mut self, _at: u64, _last: u64) -> (u64, u8) {
        (0, 0)
    }
}

/// The packets, with what comes before the service of each, and sums over all that were accepted.
pub(super) struct Serial<D, C> {
    discipline: D,
    clock: C,
    inside: Inside<Before>,
    last: u64,
    sums: Sums,
}

impl<D, C> Serial<D, C> {
    pub(super) fn new(discipline: D, clock: C, ring: usize) -> Self {
        Self { discipline, clock, inside: Inside::new(ring), last: 0, sums: Sums::default() }
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
            self.sums.add(&before);
            last += before.length() + work.max(C::LEAST);
            let latency = last.wrapping_sub(at);
            inside[accepted & mask] = Accepted { departs: last, latency, bytes: *bytes, kept: before };
            accepted += 1;
        }
        self.inside.offered += packets.gaps.len();
        self.inside.accepted = accepted;
        self.last = last;
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let shown = self.clock.shown(at);
        self.inside.deliver(shown, &mut self.clock, latencies);
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.clock.now() + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let (mut sums, shown) = (self.sums, self.clock.shown(at));
        let inside = self.inside.delivered..self.inside.accepted;
        inside.for_each(|number| sums.take_off(&self.inside.packets[self.inside.place(number)].kept));
        if self.inside.is_empty() {
            let (first, polls_first) = self.discipline.first(shown, self.last);
            let idle = (shown - self.last).saturating_sub(first);
            sums.begin::<D>(&Before { first, idle, polls_first, ..Before::default() }, shown, self.last);
        } else {
            let next = &self.inside.packets[self.inside.place(self.inside.delivered)].kept;
            sums.begin::<D>(next, shown, self.inside.passed());
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

/// Sums of what comes before services: first polls and overheads, nothing, interrupts [ticks], and how many there were.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub polling: u64,
    pub idle: u64,
    pub interrupt: u64,
    pub interrupts: u64,
    pub polls: u64,
}

impl Sums {
    #[inline]
    pub(super) fn add(&mut self, before: &Before) {
        self.polling += before.first + before.overhead;
        self.idle += before.idle;
        self.interrupt += before.interrupt;
        self.interrupts += u64::from(before.interrupts);
        self.polls += u64::from(before.polls_first + before.polls);
    }

    pub(super) fn take_off(&mut self, before: &Before) {
        self.polling -= before.first + before.overhead;
        self.idle -= before.idle;
        self.interrupt -= before.interrupt;
        self.interrupts -= u64::from(before.interrupts);
        self.polls -= u64::from(before.polls_first + before.polls);
    }

    /// Adds what there was by `at` of what began at `from`. What begins at an arrival's instant has begun, but for a tick, which comes after it.
    pub(super) fn begin<D: Discipline>(&mut self, before: &Before, at: u64, from: u64) {
        let mut left = at - from;
        let mut pass = |length: u64| {
            let passed = left.min(length);
            left -= passed;
            (passed, passed == length)
        };
        self.polls += u64::from(before.polls_first);
        let (passed, over) = pass(before.first);
        self.polling += passed;
        let (passed, idled) = pass(before.idle);
        self.idle += passed;
        if !(over && idled) {
            return;
        }
        self.interrupts += u64::from(before.interrupts);
        let (passed, handled) = pass(before.interrupt);
        self.interrupt += passed;
        if !handled {
            return;
        }
        let ticked = before.interrupts == 0 && before.idle > 0;
        let (passed, over) = pass(before.overhead);
        self.polling += passed;
        let begun = if D::COUNTS_AT_ONCE { true } else { over && !(ticked && before.overhead == 0 && left == 0) };
        self.polls += if begun { u64::from(before.polls) } else { 0 };
    }
}
