//! Softirqs and the polls in them, the polls of the NAPI thread, and the polls of the application.

use super::{Kind, Linux, Softirq};
use crate::tally::Account;

impl Linux<'_> {
    pub(super) fn start_softirqs(&mut self) {
        let end_jiffy = self.jiffies() + self.softirq_jiffies;
        self.softirq = Some(Softirq::new(1, end_jiffy));
        self.start_net_rx_action();
    }

    pub(super) fn start_net_rx_action(&mut self) {
        self.pending = false;
        let time_limit = self.jiffies() + self.budget_jiffies;
        if let Some(softirq) = &mut self.softirq {
            softirq.budget = self.napi.budget;
            softirq.time_limit = time_limit;
        }
        self.start_poll();
    }

    pub(super) fn start_poll(&mut self) {
        if let Some(softirq) = &mut self.softirq {
            softirq.work = 0;
            softirq.cleaned = self.world.completions_before().map(|_| 0);
            softirq.unclean = false;
            (softirq.in_hand, softirq.loop_left) = (0, false);
        }
        self.world.counts.polls += 1;
        let overhead = self.world.poll.next();
        self.cpu.push(Kind::PollOverhead, Account::Poll, overhead);
    }

    pub(super) fn work(&self) -> u64 {
        self.softirq.map_or(0, |softirq| softirq.work)
    }

    /// Starts the work of a poll after its overhead: with completions or with packets.
    pub(super) fn poll_begins(&mut self) {
        if self.world.completions_before() == Some(true) { self.next_completion() } else { self.next_packet() }
    }

    /// Handles the next completion of this poll; after the last one, continues with the packets or ends the poll.
    pub(super) fn next_completion(&mut self) {
        let due = self.world.completion_due();
        let Some(softirq) = &mut self.softirq else { return };
        let cleaned = softirq.cleaned.unwrap_or(0);
        if cleaned < 128 && due {
            let time = self.world.completion_time();
            return self.cpu.push(Kind::Completion, Account::Protocol, time);
        }
        softirq.unclean = cleaned == 128;
        softirq.cleaned = None;
        if self.world.completions_before() == Some(true) || softirq.in_hand > 0 {
            self.next_packet();
        } else {
            self.nothing_left();
        }
    }

    /// Handles the next packet of this poll, or its end.
    pub(super) fn next_packet(&mut self) {
        if self.napi.gro_normal_batch > 1 && self.gathers() {
            return;
        }
        if self.busy && self.work() == 8 {
            return self.busy_poll_ends();
        }
        if !self.busy && self.work() == self.napi.weight {
            return self.poll_ends();
        }
        let available = if self.napi.backlog {
            if self.world.uncounted == 0 {
                self.world.uncounted = self.world.ring.len();
                self.world.tell_sender_of_room();
            }
            self.world.uncounted > 0
        } else {
            !self.world.ring.is_empty()
        };
        if available {
            let work = self.world.protocol_time();
            self.cpu.push(Kind::Packet, Account::Protocol, work);
        } else if self.softirq.is_some_and(|softirq| softirq.cleaned.is_some()) {
            self.next_completion();
        } else {
            self.nothing_left();
        }
    }

    /// napi_gro_receive stores packets until a batch is full, and passes on the last batch when the driver has left its
    /// loop. Returns true if that determines the next step.
    fn gathers(&mut self) -> bool {
        let limit = if self.busy { 8 } else { self.napi.weight };
        let found = self.world.ring.len() as u64;
        let Some(softirq) = &mut self.softirq else { return false };
        if softirq.in_hand == 0 && !softirq.loop_left && softirq.work < limit {
            let allowed = self.napi.gro_normal_batch.min(limit - softirq.work);
            softirq.in_hand = found.min(allowed);
            softirq.loop_left = softirq.in_hand < self.napi.gro_normal_batch;
            let has_room = softirq.work + softirq.in_hand < limit;
            if softirq.loop_left && has_room && softirq.cleaned.is_some() {
                self.next_completion();
                return true;
            }
        }
        if softirq.in_hand == 0 {
            let ends = softirq.loop_left && softirq.work < limit;
            if ends {
                self.nothing_left();
            }
            return ends;
        }
        softirq.in_hand -= 1;
        let work = self.world.protocol_time();
        self.cpu.push(Kind::Packet, Account::Protocol, work);
        true
    }

    /// Handles an empty ring: the poll completes, unless completions are left over.
    pub(super) fn nothing_left(&mut self) {
        if self.busy {
            self.busy_poll_ends();
        } else if self.softirq.is_some_and(|softirq| softirq.unclean) {
            self.poll_ends();
        } else if self.defers() {
            self.timer_runs = true;
            self.plan_interrupt(self.gro_flush_timeout);
            self.poll_ends();
        } else {
            self.unmask();
        }
    }

    pub(super) fn unmask(&mut self) {
        if !self.napi.backlog && self.world.mask_mean > 0.0 {
            let mean = self.world.mask_mean;
            let unmask = self.world.poll.next_of_mean(mean);
            self.cpu.push(Kind::Unmask, Account::Poll, unmask);
        } else {
            self.completed();
        }
    }

    /// Counts a poll for the deferral of hard interrupts: a poll with work restarts the count; a poll without work uses
    /// up one round of it. Returns true if interrupts stay deferred.
    pub(super) fn defers(&mut self) -> bool {
        if self.work() > 0 {
            self.defers_left = self.napi.defer_hard_irqs;
        }
        let defers = self.defers_left > 0;
        self.defers_left = self.defers_left.saturating_sub(1);
        defers
    }

    pub(super) fn completed(&mut self) {
        self.scheduled = false;
        if self.front_unmasked() {
            self.interrupt();
        } else {
            self.poll_ends();
        }
    }

    pub(super) fn poll_ends(&mut self) {
        if self.busy {
            return self.busy_polling_ends();
        }
        let used_up = self.work() == self.napi.weight || self.softirq.is_some_and(|softirq| softirq.unclean);
        if self.napi.threaded {
            return self.thread_poll_ends(used_up);
        }
        let jiffies = self.jiffies();
        let Some(softirq) = &mut self.softirq else { return };
        if used_up {
            self.pending = true;
        } else {
            softirq.budget = softirq.budget.saturating_sub(softirq.work);
            let repeats = softirq.budget > 0 && jiffies < softirq.time_limit && !self.napi.ksoftirqd;
            if repeats && self.pending {
                self.pending = false;
                return self.start_poll();
            }
        }
        self.round_ends();
    }

    pub(super) fn round_ends(&mut self) {
        let jiffies = self.jiffies();
        let Some(softirq) = &mut self.softirq else { return };
        let again = jiffies < softirq.end_jiffy && softirq.round < 10;
        softirq.round += 1;
        if self.pending {
            if again && !self.need_resched() {
                return self.start_net_rx_action();
            }
            self.wake_kernel_thread();
        }
        self.softirq = None;
        self.back_to_thread();
    }

    pub(super) fn thread_poll_ends(&mut self, used_up: bool) {
        self.softirq = None;
        if !used_up && !self.kernel_awake {
            self.kernel_owes_switch = true;
            return self.schedule();
        }
        self.kernel_awake = true;
        if self.need_resched() { self.schedule() } else { self.start_thread_poll() }
    }

    /// Whether the application polls: if it would sleep otherwise, and neither softirq nor thread owns the instance.
    pub(super) fn busy_polls(&mut self) -> bool {
        if !(self.napi.busy_poll && self.nothing_to_read() && (!self.scheduled || self.timer_runs)) {
            return false;
        }
        (self.busy, self.scheduled, self.timer_runs, self.interrupt_at) = (true, true, false, None);
        self.front.mask();
        self.softirq = Some(Softirq::new(0, 0));
        self.start_poll();
        true
    }

    /// Ends a busy poll: polls again, or lets the application continue, with or without interrupts masked for a time.
    pub(super) fn busy_poll_ends(&mut self) {
        let found = !self.nothing_to_read();
        if !found && !self.need_resched() {
            return self.start_poll();
        }
        if self.napi.defer_hard_irqs == 0 {
            return self.unmask();
        }
        self.defers_left = self.napi.defer_hard_irqs;
        self.timer_runs = true;
        let suspended = found && self.irq_suspend_timeout > 0;
        self.plan_interrupt(if suspended { self.irq_suspend_timeout } else { self.gro_flush_timeout });
        self.busy_polling_ends();
    }

    pub(super) fn busy_polling_ends(&mut self) {
        (self.busy, self.softirq) = (false, None);
        if self.nothing_to_read() { self.schedule() } else { self.next_piece() }
    }

    pub(super) fn nothing_to_read(&self) -> bool {
        self.world.running.is_none_or(|place| self.world.applications[place].socket.is_empty())
    }

    pub(super) fn start_thread_poll(&mut self) {
        self.kernel_awake = false;
        self.softirq = Some(Softirq::new(0, 0));
        self.start_poll();
    }
}
