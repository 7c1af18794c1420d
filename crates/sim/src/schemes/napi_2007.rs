//! `napi-2007`: interrupt, mask, and poll at once. After a poll that used its quota, the next poll waits for a tick of
//! a free-running timer; with `remember`, a tick since the start of the previous poll starts it at once.

use netcliff_core::Napi2007 as Scheme;

use super::Policy;
use crate::clock::{Clock, NEVER};
use crate::free_running::FreeRunning;
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// State: masked, serving, or waiting for a tick.
pub(super) struct Napi2007 {
    timer: FreeRunning,
    quota: u64,
    remember: bool,
    stage_ticks: f64,
    masked: bool,
    /// Number of packets that this poll may still serve.
    left: u64,
    /// Time of the tick that starts the next poll.
    next_poll: u64,
    /// Start of this poll, i.e. of its interrupt or overhead.
    began: u64,
}

impl Napi2007 {
    pub(super) fn new<W>(scheme: &Scheme, clock: Clock, machine: &Machine<W>) -> Self {
        let stage_ticks = machine.times.mask_ticks + machine.times.interrupt.mean_ticks();
        let timer = machine.times.poll_timer(clock.whole(scheme.period_s));
        let Scheme { quota, remember, .. } = *scheme;
        Self { timer, quota, remember, stage_ticks, masked: false, left: 0, next_poll: NEVER, began: 0 }
    }

    fn start_poll<W>(&mut self, machine: &mut Machine<W>) {
        machine.counts.polls += 1;
        self.left = self.quota;
    }
}

impl<W: Watch> Policy<W> for Napi2007 {
    #[inline]
    fn timer(&self) -> u64 {
        self.next_poll
    }

    #[inline]
    fn hears_arrivals(&self) -> bool {
        !self.masked
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        if machine.arrival_due() {
            if machine.take_arrival() == Arrival::Accepted && !self.masked {
                self.masked = true;
                self.began = machine.now;
                machine.counts.interrupts += 1;
                let stage = machine.times.interrupt.next_of_mean(self.stage_ticks);
                machine.spend(Account::Interrupt, stage);
                self.start_poll(machine);
            }
            return;
        }
        self.next_poll = NEVER;
        self.began = machine.now;
        let overhead = machine.times.poll.next();
        machine.spend(Account::Poll, overhead);
        self.start_poll(machine);
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.left > 0
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        machine.spend(Account::Protocol, work);
        machine.finish_packet();
        self.left -= 1;
        if machine.ring_is_empty() {
            (self.masked, self.left) = (false, 0);
        } else if self.left == 0 {
            let ticked = self.remember && self.timer.since(self.began + 1, machine.now);
            self.next_poll = if ticked { machine.now } else { self.timer.next(machine.now) };
        }
    }
}
