//! The schemes of [`super::serial`]. They draw the same random numbers in the same order as the event-driven machine.

use netcliff_core::Napi;

use super::before::{Before, Discipline};
use crate::clock::{Clock, to_ticks};
use crate::free_running::FreeRunning;
use crate::machine::Times;
use crate::source::PacketCost;

/// The scheme of `schemes::disable_enable`.
pub(super) struct DisableEnable {
    times: Times,
    cost: PacketCost,
    stage_ticks: f64,
    merged: bool,
}

impl DisableEnable {
    pub(super) fn new(times: Times, cost: PacketCost, merged: bool) -> Self {
        let stage_ticks = times.mask_ticks + times.interrupt.mean_ticks();
        Self { times, cost, stage_ticks, merged }
    }
}

impl Discipline for DisableEnable {
    const COUNTS_AT_ONCE: bool = true;

    #[inline(always)]
    fn before(&mut self, arrived: u64, last: u64, work: u64, bytes: u32) -> (Option<Before>, u64) {
        if arrived < last {
            return (None, work);
        }
        let mut before = Before { idle: arrived - last, interrupts: 1, ..Before::default() };
        if !self.merged {
            before.interrupt = self.times.interrupt.next_of_mean(self.stage_ticks);
            return (Some(before), work);
        }
        let mean = self.stage_ticks + self.cost.mean_ticks(bytes);
        let stage = self.times.interrupt.next_of_mean(mean);
        before.interrupt = to_ticks(stage as f64 * (self.stage_ticks / mean)).min(stage);
        (Some(before), stage - before.interrupt)
    }
}

/// The scheme of `schemes::napi_2007`.
pub(super) struct Napi2007 {
    times: Times,
    timer: FreeRunning,
    stage_ticks: f64,
    quota: u64,
    remember: bool,
    /// Number of packets that this poll may still serve.
    left: u64,
    /// Start of this poll, i.e. of its interrupt or overhead.
    began: u64,
}

impl Napi2007 {
    pub(super) fn new(times: Times, scheme: &netcliff_core::Napi2007, clock: Clock) -> Self {
        let stage_ticks = times.mask_ticks + times.interrupt.mean_ticks();
        let timer = times.poll_timer(clock.whole(scheme.period_s));
        Self { times, timer, stage_ticks, quota: scheme.quota, remember: scheme.remember, left: 0, began: 0 }
    }
}

impl Discipline for Napi2007 {
    const COUNTS_AT_ONCE: bool = false;

    #[inline(always)]
    fn before(&mut self, arrived: u64, last: u64, work: u64, _bytes: u32) -> (Option<Before>, u64) {
        let none = Before::default();
        let before = if arrived >= last {
            let interrupt = self.times.interrupt.next_of_mean(self.stage_ticks);
            self.began = arrived;
            Some(Before { idle: arrived - last, interrupt, interrupts: 1, polls: 1, ..none })
        } else if self.left == 0 {
            let overhead = self.times.poll.next();
            let ticked = self.remember && self.timer.since(self.began + 1, last);
            self.began = if ticked { last } else { self.timer.next(last) };
            Some(Before { idle: self.began - last, overhead, polls: 1, ..none })
        } else {
            None
        };
        self.left = if before.is_some() { self.quota } else { self.left } - 1;
        (before, work)
    }
}

/// How softirqs reach a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Follows {
    /// The poll after a full one finds the packet.
    Full,
    /// The packet arrived when no softirq ran, and interrupted.
    Idle,
    /// The packet arrived while the driver unmasked, and interrupts at once. The previous poll processed `work`
    /// packets.
    Unmasking { work: u64 },
}

/// The scheme of `schemes::linux` with one instance and without moderation.
pub(super) struct OneNapi<'a> {
    times: &'a mut Times,
    interrupt_ticks: f64,
    mask_ticks: f64,
    weight: u64,
    /// Whether any poll has run. When the first packet arrives, the NIC is unmasked.
    has_polled: bool,
    /// Number of packets served by the present poll.
    served: u64,
    /// Overhead of a poll after a full one, if [`Discipline::first`] has drawn it early.
    overhead: Option<u64>,
    /// Time of the unmasking, if [`Discipline::first`] has drawn it early.
    unmasking: Option<u64>,
}

impl<'a> OneNapi<'a> {
    /// Whether this recursion supports the scheme. Otherwise only the event-driven machine does.
    pub(super) fn does(napi: &Napi) -> bool {
        !napi.threaded
            && !napi.busy_poll
            && napi.defer_hard_irqs == 0
            && napi.gro_normal_batch == 1
            && napi.moderation == Default::default()
    }

    /// Makes an idle instance.
    pub(super) fn new(times: &'a mut Times, napi: &Napi) -> Self {
        let mask_ticks = if napi.backlog { 0.0 } else { times.mask_ticks };
        let interrupt_ticks = times.interrupt.mean_ticks() + mask_ticks;
        let weight = napi.weight;
        Self {
            times,
            interrupt_ticks,
            mask_ticks,
            weight,
            has_polled: false,
            served: 0,
            overhead: None,
            unmasking: None,
        }
    }

    /// Whether the last poll has used its weight, and the start of the next poll has not been computed.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.served == self.weight
    }

    /// Time to wake the application and switch to it.
    #[inline(always)]
    pub(super) fn wakeup(&mut self) -> u64 {
        self.times.wakeup.next()
    }

    #[inline(always)]
    pub(super) fn switch(&mut self) -> u64 {
        self.times.switch.next()
    }

    /// Returns the last switch time to the stream, because the switch does not take place.
    pub(super) fn give_back_switch(&mut self) {
        self.times.switch.give_back();
    }

    /// Returns the last overhead to the stream, because the poll does not take place.
    pub(super) fn give_back_overhead(&mut self) {
        self.times.poll.give_back();
    }

    /// Returns the CPU's work and idle time before it serves a packet that arrived at `arrived`, when the previous
    /// packet departed at `last`. `None` if the present poll serves the packet.
    #[inline(always)]
    pub(super) fn next(&mut self, arrived: u64, last: u64) -> Option<(Before, Follows)> {
        // Before the first poll this is never true: `last` is then not after the packet's arrival.
        if arrived < last && self.served < self.weight {
            self.served += 1;
            return None;
        }
        Some(self.next_poll(arrived, last))
    }

    #[inline(always)]
    fn next_poll(&mut self, arrived: u64, last: u64) -> (Before, Follows) {
        let mut before = Before::default();
        if self.served == self.weight {
            // After a full poll, another poll follows, whether it finds packets or not.
            (before.first, before.polls_first, self.served) = (self.overhead(), 1, 0);
        }
        if self.has_polled {
            if arrived < last + before.first {
                self.served += 1;
                return (before, Follows::Full);
            }
            before.first += self.unmasking();
        }
        let unmasked = last + before.first;
        let mut follows = Follows::Unmasking { work: self.served };
        if arrived >= unmasked {
            before.idle = arrived - unmasked + self.times.delivery.next();
            follows = Follows::Idle;
        }
        before.interrupt = self.times.interrupt.next_of_mean(self.interrupt_ticks);
        before.overhead = self.times.poll.next();
        (before.interrupts, before.polls) = (1, 1);
        (self.has_polled, self.served) = (true, 1);
        (before, follows)
    }

    #[inline(always)]
    fn overhead(&mut self) -> u64 {
        self.overhead.take().unwrap_or_else(|| self.times.poll.next())
    }

    #[inline(always)]
    fn unmasking(&mut self) -> u64 {
        let mean = self.mask_ticks;
        if mean == 0.0 {
            return 0;
        }
        self.unmasking.take().unwrap_or_else(|| self.times.poll.next_of_mean(mean))
    }
}

impl Discipline for OneNapi<'_> {
    const COUNTS_AT_ONCE: bool = true;

    #[inline(always)]
    fn before(&mut self, arrived: u64, last: u64, work: u64, _bytes: u32) -> (Option<Before>, u64) {
        (self.next(arrived, last).map(|(before, _)| before), work)
    }

    fn first(&mut self, at: u64, last: u64) -> (u64, u8) {
        if !self.has_polled {
            return (0, 0);
        }
        let polls = u8::from(self.served == self.weight);
        let overhead = if polls > 0 { self.overhead() } else { 0 };
        self.overhead = (polls > 0).then_some(overhead);
        if at < last + overhead {
            return (overhead, polls);
        }
        let unmasking = self.unmasking();
        self.unmasking = Some(unmasking);
        (overhead + unmasking, polls)
    }
}
