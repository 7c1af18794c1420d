//! Schemes `disable-enable`, `napi-2007` and `napi` of a device: the CPU does one thing after the other. When the packet before departed, the ring holds the
//! next one or not; what comes before its service follows from that alone, and so does its departure (Lindley 1952, with set-up times).
//!
//! Packets are taken ahead of time, as in [`super::ideal`]; at a mark what is still to come of them is taken off the sums.

use super::Recursion;
use crate::random::BLOCK;
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
    fn length(&self) -> u64 {
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

/// An accepted packet.
#[derive(Debug, Clone, Copy, Default)]
struct Accepted {
    departs: u64,
    latency: u64,
    before: Before,
    bytes: u32,
}

/// The latest accepted packets in a ring buffer, and sums over all that were accepted.
pub(super) struct Serial<D> {
    discipline: D,
    now: u64,
    packets: Box<[Accepted]>,
    ring: usize,
    accepted: usize,
    delivered: usize,
    last: u64,
    /// Departure of the packet delivered last.
    passed: u64,
    /// Time before services: first polls and overheads, nothing, interrupts.
    polling: u64,
    idle: u64,
    interrupt: u64,
    counts: Counts,
}

impl<D> Serial<D> {
    pub(super) fn new(discipline: D, ring: usize) -> Self {
        Self {
            discipline,
            now: 0,
            // The packets inside, and the block's packets not counted yet.
            packets: vec![Accepted::default(); (ring + BLOCK).next_power_of_two()].into_boxed_slice(),
            ring,
            accepted: 0,
            delivered: 0,
            last: 0,
            passed: 0,
            polling: 0,
            idle: 0,
            interrupt: 0,
            counts: Counts::default(),
        }
    }
}

impl<D: Discipline> Recursion for Serial<D> {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let mask = self.packets.len() - 1;
        let kept = &mut self.packets[..=mask];
        let (mut now, mut last, mut accepted) = (self.now, self.last, self.accepted);
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            now += gap;
            if kept[accepted.wrapping_sub(self.ring) & mask].departs > now {
                continue;
            }
            let (before, work) = self.discipline.before(now, last, *work, *bytes);
            self.polling += before.first + before.overhead;
            self.idle += before.idle;
            self.interrupt += before.interrupt;
            self.counts.polls += u64::from(before.polls_first + before.polls);
            self.counts.interrupts += u64::from(before.interrupts);
            last += before.length() + work;
            kept[accepted & mask] = Accepted { departs: last, latency: last - now, before, bytes: *bytes };
            accepted += 1;
        }
        self.counts.dropped_ring += (packets.gaps.len() - (accepted - self.accepted)) as u64;
        (self.now, self.last, self.accepted) = (now, last, accepted);
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let mask = self.packets.len() - 1;
        let kept = &self.packets[..=mask];
        let first = self.delivered;
        let mut latency = 0_u128;
        while self.delivered < self.accepted {
            let packet = &kept[self.delivered & mask];
            if packet.departs > at {
                break;
            }
            latency += u128::from(packet.latency);
            latencies.add(packet.latency);
            self.counts.delivered_bytes += u64::from(packet.bytes);
            self.passed = packet.departs;
            self.delivered += 1;
        }
        self.counts.latency += latency;
        self.counts.delivered += (self.delivered - first) as u64;
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.now + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        let mask = self.packets.len() - 1;
        let mut sums = Sums {
            polling: self.polling,
            idle: self.idle,
            interrupt: self.interrupt,
            interrupts: self.counts.interrupts,
            polls: self.counts.polls,
        };
        let mut ages = 0;
        for place in self.delivered..self.accepted {
            let packet = &self.packets[place & mask];
            ages += u128::from(at + packet.latency - packet.departs);
            sums.take_off(&packet.before);
        }
        if self.delivered < self.accepted {
            sums.begin::<D>(&self.packets[self.delivered & mask].before, at, self.passed);
        } else {
            let (first, polls_first) = self.discipline.first(at, self.last);
            let idle = (at - self.last).saturating_sub(first);
            sums.begin::<D>(&Before { first, idle, polls_first, ..Before::default() }, at, self.last);
        }
        let inside_ring = (self.accepted - self.delivered) as u64;
        let area = self.counts.latency + ages;
        let mut counts = Counts {
            at,
            inside_ring,
            processed: self.counts.delivered,
            processed_latency: self.counts.latency,
            interrupts: sums.interrupts,
            polls: sums.polls,
            ring_area: area,
            system_area: area,
            ..self.counts
        };
        counts.cpu[Account::Interrupt as usize] = sums.interrupt;
        counts.cpu[Account::Poll as usize] = sums.polling;
        counts.cpu[Account::Available as usize] = sums.idle;
        counts.cpu[Account::Protocol as usize] = at - sums.interrupt - sums.polling - sums.idle;
        counts
    }
}

/// Sums of what comes before services.
struct Sums {
    polling: u64,
    idle: u64,
    interrupt: u64,
    interrupts: u64,
    polls: u64,
}

impl Sums {
    fn take_off(&mut self, before: &Before) {
        self.polling -= before.first + before.overhead;
        self.idle -= before.idle;
        self.interrupt -= before.interrupt;
        self.interrupts -= u64::from(before.interrupts);
        self.polls -= u64::from(before.polls_first + before.polls);
    }

    /// Adds what there was by `at` of what began at `from`. What begins at an arrival's instant has begun, but for a tick, which comes after it.
    fn begin<D: Discipline>(&mut self, before: &Before, at: u64, from: u64) {
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
