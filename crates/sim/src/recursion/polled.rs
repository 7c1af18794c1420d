//! Scheme `polling`: ticks of a timer, whose overheads preempt all, and packets in cycles that they start. When a packet arrives, all that precedes
//! its departure is known: ticks are played up to it, and only whether the cycle goes on then waits for the next packet.
//!
//! Packets are taken ahead of time ([`super::inside`]); ticks are kept until a mark can no longer fall before their end.

use super::Recursion;
use super::inside::{Accepted, Inside};
use super::work_clock::Steady;
use crate::draw::{Draw, to_ticks};
use crate::schemes::Ticks;
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// A tick: from when the CPU had nothing to do, when its overhead began and ended, and whether it counts as a poll.
#[derive(Debug, Clone, Copy)]
struct Tick {
    idle_from: u64,
    began: u64,
    ended: u64,
    is_poll: bool,
}

/// The packets, the CPU as far as it is known, and sums up to there.
pub(super) struct Polled {
    timer: Ticks,
    overhead: Draw,
    quota: u64,
    now: u64,
    inside: Inside,
    /// Up to when the CPU is known.
    time: u64,
    next_tick: u64,
    /// Packets this cycle may still serve; 0: no cycle.
    left: u64,
    /// A tick fell into the cycle.
    rearmed: bool,
    /// A packet departed at `time`, and it is not decided whether its cycle goes on.
    undecided: bool,
    /// Ticks that end, and cycles that begin by themselves, after what was counted last.
    ticks: Vec<Tick>,
    rearms: Vec<u64>,
    polls: u64,
    polling: u64,
    idle: u64,
}

impl Polled {
    pub(super) fn new(timer: Ticks, overhead: Draw, quota: u64, ring: usize) -> Self {
        Self {
            overhead,
            quota,
            now: 0,
            inside: Inside::new(ring),
            time: 0,
            next_tick: timer.first,
            timer,
            left: 0,
            rearmed: false,
            undecided: false,
            ticks: Vec::new(),
            rearms: Vec::new(),
            polls: 0,
            polling: 0,
            idle: 0,
        }
    }

    /// The cycle of the packet that departed at `time` goes on if the next, which comes at `next`, is in the ring.
    #[inline]
    fn decide(&mut self, next: u64) {
        if !std::mem::take(&mut self.undecided) {
            return;
        }
        let is_empty = next >= self.time;
        if is_empty {
            self.left = 0;
        }
        if self.left == 0 && std::mem::take(&mut self.rearmed) {
            self.polls += 1;
            if self.time > self.now {
                self.rearms.push(self.time);
            }
            self.left = if is_empty { 0 } else { self.quota };
        }
    }

    /// A tick's overhead, from the later of its time and `time` on.
    #[inline]
    fn tick(&mut self, idle_from: u64, is_poll: bool) {
        let began = self.next_tick.max(self.time);
        let overhead = self.overhead.next();
        self.idle += began - idle_from;
        self.time = began + overhead;
        self.polling += overhead;
        self.polls += u64::from(is_poll);
        self.next_tick += self.timer.period;
        // Marks are not before the latest arrival.
        if self.time > self.now {
            self.ticks.push(Tick { idle_from, began, ended: self.time, is_poll });
        }
    }

    /// Ticks without a cycle, until one starts a cycle for the packet that comes at `next`, or is not before `until`.
    #[inline]
    fn wait(&mut self, next: u64, until: u64) {
        while self.left == 0 && self.next_tick.max(self.time) < until {
            self.leave_out(next);
            self.tick(self.time, true);
            self.left = if next < self.time { self.quota } else { 0 };
        }
    }

    /// Passes over ticks that find nothing, as `schemes::polling` does.
    #[inline]
    fn leave_out(&mut self, next: u64) {
        if next < self.time || self.next_tick < self.time {
            return;
        }
        let Some(passed) = self.timer.passed_over(next.saturating_sub(self.next_tick)) else { return };
        let (busy, all) = (self.overhead.mean_ticks() * passed as f64, self.timer.period as f64 * passed as f64);
        let (busy, all) = (to_ticks(busy.min(all)), to_ticks(all));
        self.polls += passed;
        self.polling += busy;
        self.idle += self.next_tick - self.time + (all - busy);
        self.time = self.next_tick + all;
        self.next_tick = self.time;
    }

    /// Serves `work`; ticks meanwhile lengthen it and have the cycle begin again at its end.
    #[inline]
    fn serve(&mut self, work: u64) {
        let mut end = self.time + work;
        loop {
            let at = self.next_tick.max(self.time);
            if at >= end {
                break;
            }
            let left = end - at;
            self.rearmed = true;
            self.time = at;
            self.tick(at, false);
            end = self.time + left;
        }
        self.time = end;
        self.left -= 1;
        self.undecided = true;
    }
}

impl Recursion for Polled {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        self.inside.offered += packets.gaps.len();
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            self.now += gap;
            let arrived = self.now;
            if !self.inside.has_room(arrived) {
                continue;
            }
            self.decide(arrived);
            self.wait(arrived, u64::MAX);
            self.serve(*work);
            let departs = self.time;
            self.inside.accept(Accepted { departs, latency: departs - arrived, bytes: *bytes, kept: () });
        }
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        self.inside.deliver(at, &mut Steady::default(), latencies);
        self.ticks.drain(..self.ticks.partition_point(|tick| tick.ended <= at));
        self.rearms.drain(..self.rearms.partition_point(|began| *began <= at));
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.now + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        if self.inside.is_empty() {
            // The next packet comes at `at`.
            self.decide(at);
            self.wait(at, at);
        }
        let (mut polling, mut idle, mut polls) = (self.polling, self.idle, self.polls);
        for tick in self.ticks.iter().filter(|tick| tick.ended > at) {
            polling -= tick.ended - tick.began.max(at);
            idle -= tick.began.saturating_sub(tick.idle_from.max(at));
            polls -= u64::from(tick.is_poll);
        }
        polls -= self.rearms.iter().filter(|began| **began > at).count() as u64;
        if self.inside.is_empty() {
            idle += at.saturating_sub(self.time);
        }
        let mut counts = Counts { polls, ..self.inside.counts(at) };
        counts.cpu[Account::Poll as usize] = polling;
        counts.cpu[Account::Available as usize] = idle;
        counts.cpu[Account::Protocol as usize] = at - polling - idle;
        counts
    }
}
