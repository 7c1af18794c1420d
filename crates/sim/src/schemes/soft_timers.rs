//! `soft-timers`: like `polling`, but without timer interrupts. A poll that is due takes place at the next trigger
//! state, a point at which the kernel runs anyway. If none occurs in time, a hardware timer starts the poll (Aron and
//! Druschel, ACM TOCS 18(3), 2000).

use netcliff_core::{Service, SoftTimers as Scheme};

use super::{Policy, preemptible};
use crate::clock::{Clock, NEVER};
use crate::draw::Draw;
use crate::machine::{Machine, Watch};
use crate::random::Purpose;
use crate::tally::Account;

/// The next poll and the present one.
pub(super) struct SoftTimers {
    period: u64,
    backup: u64,
    quota: u64,
    /// Overhead of a poll at a trigger state, relative to one that the hardware timer starts.
    cost: f64,
    /// Time from when a poll is due to the next trigger state.
    trigger: Draw,
    due: u64,
    next: u64,
    /// Whether the hardware timer, and not a trigger state, starts the next poll.
    backed: bool,
    /// Number of packets that this poll may still serve; 0 if no poll runs.
    left: u64,
}

impl SoftTimers {
    pub(super) fn new<W>(scheme: &Scheme, clock: Clock, machine: &Machine<W>) -> Self {
        let mut own = Self {
            period: clock.whole(scheme.period_s).max(1),
            backup: clock.whole(scheme.backup_s).max(1),
            quota: scheme.quota,
            cost: scheme.cost,
            trigger: machine.times.drawn(Purpose::SoftTimer, &Service::Exponential, clock.ticks(scheme.trigger_s)),
            due: 0,
            next: 0,
            backed: false,
            left: 0,
        };
        own.plan(0);
        own
    }

    /// Plans the poll after one that began at `began`.
    fn plan(&mut self, began: u64) {
        self.due = began + self.period;
        let (soft, hard) = (self.due + self.trigger.next(), began + self.backup);
        (self.next, self.backed) = (soft.min(hard), hard < soft);
    }
}

impl<W: Watch> Policy<W> for SoftTimers {
    #[inline]
    fn timer(&self) -> u64 {
        if self.left > 0 { NEVER } else { self.next }
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
        let began = machine.now;
        let share = if self.backed { 1.0 } else { self.cost };
        let mean = share * machine.times.poll.mean_ticks();
        let overhead = machine.times.poll.next_of_mean(mean);
        machine.spend(Account::Poll, overhead);
        machine.counts.polls += 1;
        self.left = if machine.ring_is_empty() { 0 } else { self.quota };
        self.plan(began);
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
        // The end of protocol work is a trigger state.
        if self.left == 0 && machine.now >= self.due {
            (self.next, self.backed) = (machine.now, false);
        }
    }
}
