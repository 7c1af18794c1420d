//! Scheme `polling`: timer ticks, whose overheads preempt all work, and packets in cycles that the ticks start. When a
//! packet arrives, all ticks before its departure are simulated at once. Only whether the cycle continues depends on
//! the next packet.
//!
//! Packets are processed ahead of time ([`super::inside`]). Ticks are stored as long as counts may be recorded before
//! their end.

use super::Recursion;
use super::inside::{Accepted, Inside};
use super::work_clock::Steady;
use crate::clock::to_ticks;
use crate::draw::Draw;
use crate::schemes::Ticks;
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// A tick: the time since which the CPU was idle, start and end of the tick's overhead, and whether it counts as a
/// poll.
#[derive(Debug, Clone, Copy)]
struct Tick {
    idle_from: u64,
    began: u64,
    ended: u64,
    is_poll: bool,
}

/// The computed state of the CPU, and the sums up to that state.
#[derive(Debug, Clone, Copy)]
struct Known {
    time: u64,
    next_tick: u64,
    /// Number of packets that this cycle may still serve; 0 if no cycle runs.
    left: u64,
    /// Whether a tick occurred during the cycle.
    rearmed: bool,
    /// Whether a packet departed at `time`, and the next packet will decide whether the cycle continues.
    undecided: bool,
    polls: u64,
    polling: u64,
    idle: u64,
}

/// The timer: its ticks, the duration of their overheads, and the quota of a cycle. `late`: ticks whose overhead ends
/// after the last recording of counts. `rearms`: starts of cycles that an earlier tick had re-armed, if they are after
/// the last recording.
struct Timer {
    ticks: Ticks,
    overhead: Draw,
    quota: u64,
    late: Vec<Tick>,
    rearms: Vec<u64>,
}

/// The packets and the CPU.
pub(super) struct Polled {
    timer: Timer,
    now: u64,
    inside: Inside,
    known: Known,
}

impl Polled {
    pub(super) fn new(ticks: Ticks, overhead: Draw, quota: u64, ring: usize) -> Self {
        let known = Known {
            time: 0,
            next_tick: ticks.first,
            left: 0,
            rearmed: false,
            undecided: false,
            polls: 0,
            polling: 0,
            idle: 0,
        };
        let timer = Timer { ticks, overhead, quota, late: Vec::new(), rearms: Vec::new() };
        Self { timer, now: 0, inside: Inside::new(ring), known }
    }
}

impl Known {
    /// Decides whether the cycle continues after the packet that departed at `time`: it does if the next packet, which
    /// arrives at `next`, is in the ring. `now` is the latest arrival.
    #[inline(always)]
    fn decide(&mut self, timer: &mut Timer, now: u64, next: u64) {
        if !std::mem::take(&mut self.undecided) {
            return;
        }
        let is_empty = next >= self.time;
        if is_empty {
            self.left = 0;
        }
        if self.left == 0 && std::mem::take(&mut self.rearmed) {
            self.polls += 1;
            if self.time > now {
                timer.rearms.push(self.time);
            }
            self.left = if is_empty { 0 } else { timer.quota };
        }
    }

    /// Simulates a tick's overhead, from the tick's time or from `time`, whichever is later.
    #[inline(always)]
    fn tick(&mut self, timer: &mut Timer, now: u64, idle_from: u64, is_poll: bool) {
        let began = self.next_tick.max(self.time);
        let overhead = timer.overhead.next();
        self.idle += began - idle_from;
        self.time = began + overhead;
        self.polling += overhead;
        self.polls += u64::from(is_poll);
        self.next_tick += timer.ticks.period;
        // Counts are never recorded for a time before the latest arrival.
        if self.time > now {
            timer.late.push(Tick { idle_from, began, ended: self.time, is_poll });
        }
    }

    /// Simulates ticks without a cycle, until a tick starts a cycle for the packet that arrives at `next`, or until the
    /// time `until`.
    #[inline(always)]
    fn wait(&mut self, timer: &mut Timer, now: u64, next: u64, until: u64) {
        while self.left == 0 && self.next_tick.max(self.time) < until {
            self.leave_out(timer, next);
            self.tick(timer, now, self.time, true);
            self.left = if next < self.time { timer.quota } else { 0 };
        }
    }

    /// Skips ticks that find no packets, like `schemes::polling`.
    #[inline(always)]
    fn leave_out(&mut self, timer: &Timer, next: u64) {
        if next < self.time || self.next_tick < self.time {
            return;
        }
        let Some(passed) = timer.ticks.passed_over(next.saturating_sub(self.next_tick)) else { return };
        let (busy, all) = (timer.overhead.mean_ticks() * passed as f64, timer.ticks.period as f64 * passed as f64);
        let (busy, all) = (to_ticks(busy.min(all)), to_ticks(all));
        self.polls += passed;
        self.polling += busy;
        self.idle += self.next_tick - self.time + (all - busy);
        self.time = self.next_tick + all;
        self.next_tick = self.time;
    }

    /// Serves `work`. Ticks during it lengthen it and restart the cycle at its end.
    #[inline(always)]
    fn serve(&mut self, timer: &mut Timer, now: u64, work: u64) {
        let mut end = self.time + work;
        loop {
            let at = self.next_tick.max(self.time);
            if at >= end {
                break;
            }
            let left = end - at;
            self.rearmed = true;
            self.time = at;
            self.tick(timer, now, at, false);
            end = self.time + left;
        }
        self.time = end;
        self.left -= 1;
        self.undecided = true;
    }
}

impl Recursion for Polled {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        let Inside { packets: inside, ring, accepted, .. } = &mut self.inside;
        let mask = inside.len() - 1;
        let (inside, ring) = (&mut inside[..=mask], *ring);
        let (mut now, mut known, mut accepted) = (self.now, self.known, *accepted);
        let timer = &mut self.timer;
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            now += gap;
            if inside[accepted.wrapping_sub(ring) & mask].departs > now {
                continue;
            }
            known.decide(timer, now, now);
            known.wait(timer, now, now, u64::MAX);
            known.serve(timer, now, *work);
            let departs = known.time;
            inside[accepted & mask] = Accepted { departs, latency: departs - now, bytes: *bytes };
            accepted += 1;
        }
        self.inside.offered += packets.gaps.len();
        self.inside.accepted = accepted;
        (self.now, self.known) = (now, known);
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        self.inside.deliver(at, &mut Steady::default(), latencies);
        let Timer { late, rearms, .. } = &mut self.timer;
        late.drain(..late.partition_point(|tick| tick.ended <= at));
        rearms.drain(..rearms.partition_point(|began| *began <= at));
    }

    fn reach(&mut self, gap: u64) -> u64 {
        self.now + gap
    }

    fn counts(&mut self, at: u64) -> Counts {
        if self.inside.is_empty() {
            // The next packet, which decides whether the cycle continues, arrives at `at`.
            self.known.decide(&mut self.timer, self.now, at);
            self.known.wait(&mut self.timer, self.now, at, at);
        }
        let Known { mut polling, mut idle, mut polls, .. } = self.known;
        for tick in self.timer.late.iter().filter(|tick| tick.ended > at) {
            polling -= tick.ended - tick.began.max(at);
            idle -= tick.began.saturating_sub(tick.idle_from.max(at));
            polls -= u64::from(tick.is_poll);
        }
        polls -= self.timer.rearms.iter().filter(|began| **began > at).count() as u64;
        if self.inside.is_empty() {
            idle += at.saturating_sub(self.known.time);
        }
        let mut counts = Counts { polls, ..self.inside.counts(at) };
        counts.cpu[Account::Poll as usize] = polling;
        counts.cpu[Account::Available as usize] = idle;
        counts.cpu[Account::Protocol as usize] = at - polling - idle;
        counts
    }
}
