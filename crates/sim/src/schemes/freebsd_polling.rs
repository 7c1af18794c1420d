//! `freebsd-polling`: like `polling`, with a quota that adapts. After each cycle the quota changes by one, according to
//! the part of the period that the cycle left unused. It falls by an eighth for each tick during a cycle; after the
//! cycle, another cycle for this tick starts at once (FreeBSD, sys/kern/kern_poll.c, `netisr_pollmore`).

use netcliff_core::FreebsdPolling as Scheme;

use super::{Policy, preemptible};
use crate::clock::Clock;
use crate::machine::{Machine, Watch};
use crate::tally::Account;

/// Quota at the start (`poll_burst`).
pub(crate) const FIRST_BURST: u64 = 5;
/// Maximum number of ticks whose cycle has not started; further ticks are dropped (`pending_polls`).
pub(crate) const MOST_PENDING: u64 = 100;

/// The timer, the cycle in progress and its quota.
pub(super) struct FreebsdPolling {
    period: u64,
    /// Share of a period that a cycle may take (percent).
    kernel_percent: u64,
    most: u64,
    burst: u64,
    next_tick: u64,
    /// Ticks whose cycle has not ended.
    pending: u64,
    /// Number of packets that this cycle may still serve; 0 if no cycle runs.
    left: u64,
    began: u64,
}

impl FreebsdPolling {
    pub(super) fn new<W>(scheme: &Scheme, clock: Clock, machine: &Machine<W>) -> Self {
        let period = clock.whole(scheme.period_s).max(1);
        Self {
            period,
            kernel_percent: 100 - scheme.user_percent(),
            most: scheme.burst_max,
            burst: FIRST_BURST.min(scheme.burst_max),
            next_tick: machine.times.poll_timer(period).next(0),
            pending: 0,
            left: 0,
            began: 0,
        }
    }

    /// Starts cycles until one finds a packet or every tick has had its cycle.
    fn start_cycles<W: Watch>(&mut self, machine: &mut Machine<W>) {
        while self.pending > 0 {
            machine.counts.polls += 1;
            self.began = machine.now;
            if !machine.ring_is_empty() {
                self.left = self.burst;
                return;
            }
            self.end_cycle(machine.now);
        }
    }

    /// Adapts the quota.
    fn end_cycle(&mut self, now: u64) {
        let took_percent = 100 * (now - self.began) / self.period;
        self.burst = if took_percent > self.kernel_percent { self.burst - 1 } else { self.burst + 1 };
        self.burst = self.burst.clamp(1, self.most);
        self.pending -= 1;
        if self.pending > 0 {
            self.burst = (self.burst - self.burst / 8).max(1);
        }
    }
}

impl<W: Watch> Policy<W> for FreebsdPolling {
    #[inline]
    fn timer(&self) -> u64 {
        self.next_tick
    }

    #[inline]
    fn hears_arrivals(&self) -> bool {
        false
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if machine.arrival_due() {
            machine.take_arrival();
            return;
        }
        self.next_tick = machine.tick_after(self.next_tick, self.period);
        let overhead = machine.times.poll.next();
        machine.spend(Account::Poll, overhead);
        if self.pending > MOST_PENDING {
            self.pending = 0;
        }
        self.pending += 1;
        if self.left == 0 {
            self.start_cycles(machine);
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.left > 0
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        preemptible(machine, self, Account::Protocol, work);
        machine.finish_packet();
        self.left -= 1;
        if machine.ring_is_empty() {
            self.left = 0;
        }
        if self.left == 0 {
            self.end_cycle(machine.now);
            self.start_cycles(machine);
        }
    }
}
