//! What the base threads do, and what follows the end of a job.

use super::{Kind, Linux, Thread};
use crate::tally::Account;

impl Linux<'_> {
    pub(super) fn job_ends(&mut self) {
        let Some(job) = self.cpu.jobs.pop() else { return };
        match job.kind {
            Kind::User => self.next_piece(),
            Kind::ThreadSwitch => self.start_thread_poll(),
            Kind::PollOverhead => self.poll_begins(),
            Kind::Completion => {
                self.world.completed();
                if let Some(softirq) = &mut self.softirq {
                    softirq.cleaned = softirq.cleaned.map(|cleaned| cleaned + 1);
                }
                self.next_completion();
            }
            Kind::Packet => {
                if self.world.processed() {
                    self.woken_from_idle |= self.thread == Thread::Idle;
                }
                if let Some(softirq) = &mut self.softirq {
                    softirq.work += 1;
                }
                self.next_packet();
            }
            Kind::Unmask => self.completed(),
            Kind::Interrupt => {
                if self.napi.threaded {
                    self.wake_kernel_thread();
                } else {
                    self.pending = true;
                }
                match self.softirq {
                    // The interrupt came at the unmasking that ends a poll.
                    Some(_) => self.poll_ends(),
                    None => self.irq_exit(),
                }
            }
        }
    }

    /// Back in the thread's own context, with nothing on top.
    pub(super) fn back_to_thread(&mut self) {
        match self.thread {
            Thread::Idle => self.schedule(),
            Thread::Kernel => {
                if self.need_resched() {
                    self.schedule();
                } else {
                    self.run_ksoftirqd();
                }
            }
            Thread::Application => {
                if self.cpu.jobs.is_empty() {
                    // The softirq ran at the end of a receive call: the packet comes next.
                    return self.take_piece();
                }
                if self.need_resched() {
                    self.user_left = self.cpu.jobs.pop().map(|job| job.left);
                    self.schedule();
                }
            }
        }
    }

    fn run_ksoftirqd(&mut self) {
        if self.pending {
            self.start_softirqs();
        } else {
            self.kernel_awake = false;
            self.schedule();
        }
    }

    /// The application goes on: the rest of its piece, or a receive call, which first runs pending softirqs.
    pub(super) fn next_piece(&mut self) {
        if let Some(left) = self.user_left.take_if(|left| *left > 0) {
            return self.start_piece(left);
        }
        self.user_left = None;
        if !self.world.owes_switch && self.pending { self.start_softirqs() } else { self.take_piece() }
    }

    fn take_piece(&mut self) {
        if self.busy_polls() {
            return;
        }
        match self.world.application_piece() {
            Some(piece) => self.start_piece(piece),
            None => self.schedule(),
        }
    }

    fn start_piece(&mut self, piece: u64) {
        if self.need_resched() {
            self.user_left = Some(piece);
            self.schedule();
        } else {
            self.cpu.push(Kind::User, Account::Application, piece);
        }
    }

    pub(super) fn schedule(&mut self) {
        self.thread = match (self.application_awake(), self.kernel_awake, self.thread) {
            (false, false, _) => Thread::Idle,
            (true, false, _) => Thread::Application,
            (false, true, _) | (true, true, Thread::Application) => Thread::Kernel,
            (true, true, _) => Thread::Application,
        };
        self.woken_from_idle = false;
        self.since = self.world.now;
        match self.thread {
            Thread::Idle => {}
            Thread::Application => self.next_piece(),
            Thread::Kernel if !self.napi.threaded => self.run_ksoftirqd(),
            Thread::Kernel if std::mem::replace(&mut self.kernel_owes_switch, false) => {
                let switch = self.world.switch.next();
                self.cpu.push(Kind::ThreadSwitch, Account::Poll, switch);
            }
            Thread::Kernel => self.start_thread_poll(),
        }
    }
}
