//! `polling`: a free-running timer; an idle tick starts a cycle of up to the quota, a tick in a cycle re-arms.

use super::{Policy, preemptible};
use crate::clock::Clock;
use crate::machine::{Machine, Watch};
use crate::tally::Account;

/// The timer and the cycle in progress.
pub(super) struct Polling {
    period: u64,
    quota: u64,
    next_tick: u64,
    /// Packets this cycle may still serve; 0: no cycle.
    pub(super) left: u64,
    rearmed: bool,
}

impl Polling {
    pub(super) fn new(period_s: f64, quota: u64, clock: Clock) -> Self {
        let period = clock.whole(period_s).max(1);
        Self { period, quota, next_tick: period, left: 0, rearmed: false }
    }

    /// Starts the timer anew at `now`, without a cycle.
    pub(super) fn restart(&mut self, now: u64) {
        (self.next_tick, self.left, self.rearmed) = (now + self.period, 0, false);
    }

    /// A cycle that finds the ring empty ends at once.
    fn start_cycle<W: Watch>(&mut self, machine: &mut Machine<W>) {
        machine.counts.polls += 1;
        self.left = if machine.ring.is_empty() { 0 } else { self.quota };
    }
}

impl<W: Watch> Policy<W> for Polling {
    #[inline]
    fn timer(&self) -> u64 {
        self.next_tick
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if machine.arrival_due() {
            machine.take_arrival();
            return;
        }
        self.next_tick += self.period;
        let in_cycle = self.left > 0;
        self.rearmed |= in_cycle;
        let overhead = machine.times.poll.next();
        machine.spend(Account::Poll, overhead);
        if !in_cycle {
            self.start_cycle(machine);
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
        if machine.ring.is_empty() {
            self.left = 0;
        }
        if self.left == 0 && std::mem::take(&mut self.rearmed) {
            self.start_cycle(machine);
        }
    }
}
