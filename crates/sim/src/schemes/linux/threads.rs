//! The threads that share the CPU: the application, ksoftirqd or the NAPI thread, and the idle thread.

use super::{Linux, Thread};
use crate::clock::NEVER;
use crate::machine::{Machine, Watch};
use crate::tally::Account;

impl Linux {
    /// Picks the thread that has waited longest. If the previous thread can still run, it goes behind it.
    pub(super) fn schedule<W: Watch>(&mut self, machine: &mut Machine<W>) {
        machine.application_yields();
        self.credit = self.credit_at(machine.now);
        if self.current == Thread::Kernel {
            self.kernel_behind = machine.applications_waiting();
        }
        self.current = if self.kernel_awake && self.kernel_behind == 0 {
            Thread::Kernel
        } else if machine.application_awake() {
            self.kernel_behind = self.kernel_behind.saturating_sub(1);
            machine.application_takes_turn();
            Thread::Application
        } else {
            Thread::Idle
        };
        self.preempted = false;
        self.since = machine.now;
    }

    /// Waits, with no thread to run, for an arrival or a delivered interrupt. The softirq runs at the interrupt's exit.
    pub(super) fn idle<W: Watch>(&mut self, machine: &mut Machine<W>) {
        let event = self.next_event(machine);
        machine.idle(event);
        self.event(machine);
        machine.transmit_interrupts();
        self.irq_exit(machine);
    }

    /// Runs pending softirqs on top of the interrupted work, while the limits allow.
    fn irq_exit<W: Watch>(&mut self, machine: &mut Machine<W>) {
        if self.softirqs_due() {
            self.handle_softirqs(machine);
        }
    }

    /// ksoftirqd: runs rounds of softirqs until none is pending or its time is up.
    pub(super) fn ksoftirqd<W: Watch>(&mut self, machine: &mut Machine<W>) {
        while self.pending && !machine.done {
            self.handle_softirqs(machine);
            if self.need_resched(machine) {
                return;
            }
        }
        self.kernel_awake = false;
    }

    /// The NAPI thread: polls until a poll does not use its weight, or its time is up.
    pub(super) fn napi_thread<W: Watch>(&mut self, machine: &mut Machine<W>) {
        if std::mem::take(&mut self.kernel_owes_switch) {
            let switch = machine.times.switch.next();
            machine.spend(Account::Poll, switch);
        }
        while !machine.done {
            // Must be reset before the poll: a poll that completes may be interrupted at once, which wakes the thread
            // again.
            self.kernel_awake = false;
            let used_up = self.poll(machine) == self.weight;
            if !used_up && !self.kernel_awake {
                self.kernel_owes_switch = true;
                return;
            }
            self.kernel_awake = true;
            if self.need_resched(machine) {
                return;
            }
        }
    }

    /// The application: takes packets until its socket is empty or its time is up. Taking a packet ends in
    /// local_bh_enable, which runs pending softirqs in the application's context.
    pub(super) fn application<W: Watch>(&mut self, machine: &mut Machine<W>) {
        while !machine.done {
            if machine.between_packets() && self.softirqs_due() {
                self.handle_softirqs(machine);
            }
            if self.may_busy_poll(machine) {
                self.napi_busy_loop(machine);
                if machine.application_idles() {
                    return;
                }
                continue;
            }
            let Some(mut left) = machine.application_work() else { return };
            let resched = self.run_user(machine, &mut left);
            machine.keep_application_work(left);
            if resched {
                return;
            }
        }
    }

    /// Runs the application's own work until it is done or another thread must run. Returns true in the latter case.
    fn run_user<W: Watch>(&mut self, machine: &mut Machine<W>, left: &mut u64) -> bool {
        loop {
            if machine.done || (!machine.is_paused() && self.need_resched(machine)) {
                return true;
            }
            let others = self.kernel_awake || machine.applications_waiting() > 0;
            let tick = if others || self.pending { self.next_tick(machine) } else { NEVER };
            let event = self.next_event(machine);
            let at = event.min(tick);
            let Some(rest) = machine.work(Account::Application, *left, at) else {
                machine.application_done();
                *left = 0;
                return false;
            };
            *left = rest;
            // An arrival that only joins the queue does not interrupt. A tick in a pause waits for the end of the
            // pause.
            self.began_poll = false;
            let interrupted = at == event && self.event(machine);
            let ticked = at == tick && !machine.is_paused();
            if std::mem::take(&mut self.began_poll) {
                *left += machine.times.resume.next();
            }
            if machine.transmit_interrupts() || interrupted || ticked {
                self.irq_exit(machine);
            }
        }
    }

    /// Time at which the scheduler's next tick is handled [ticks]. The first tick of a pause is handled at the pause's
    /// end.
    fn next_tick<W: Watch>(&self, machine: &Machine<W>) -> u64 {
        let tick = self.limits.scheduler.next(machine.frozen_at());
        if machine.is_paused() { tick.max(machine.given_back()) } else { tick }
    }
}
