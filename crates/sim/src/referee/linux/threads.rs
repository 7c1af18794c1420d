//! The work of the threads, and what follows the end of a job.

use super::{Kind, Linux, Thread};
use crate::tally::Account;

impl Linux<'_> {
    pub(super) fn job_ends(&mut self) {
        let Some(job) = self.cpu.jobs.pop() else { return };
        match job.kind {
            Kind::User => {
                self.world.piece_done();
                self.next_piece();
            }
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
                    self.preempted |= self.thread == Thread::Idle;
                }
                if let Some(softirq) = &mut self.softirq {
                    softirq.work += 1;
                }
                self.next_packet();
            }
            Kind::Unmask => self.completed(),
            Kind::TransmitInterrupt => self.transmit_handler_goes_on(),
            Kind::TransmitCompletion => {
                self.world.completed();
                self.transmit_handler_goes_on();
            }
            Kind::Interrupt => {
                if self.napi.threaded {
                    self.wake_kernel_thread();
                } else {
                    self.pending = true;
                }
                if self.transmit_interrupt() {
                    self.exit_owed = true;
                } else {
                    self.interrupt_exits();
                }
            }
        }
    }

    /// Returns to the thread's own context, without softirqs or interrupts on top.
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
                    // The softirq ran at the end of a receive call: the application processes its packet next.
                    return self.take_piece();
                }
                if self.need_resched() {
                    let left = self.cpu.jobs.pop().map_or(0, |job| job.left);
                    self.world.suspend(left);
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

    /// The application continues with a receive call, which first runs pending softirqs.
    pub(super) fn next_piece(&mut self) {
        if self.may_start_softirqs() { self.start_softirqs() } else { self.take_piece() }
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
            self.world.suspend(piece);
            self.schedule();
        } else {
            self.cpu.push(Kind::User, Account::Application, piece);
        }
    }

    /// Runs the thread that has waited longest. If the previous thread can still run, it goes to the end of the queue.
    pub(super) fn schedule(&mut self) {
        self.world.suspend(0);
        let ran = (self.world.now - self.since) as i64;
        self.credit += if self.thread == Thread::Kernel { -ran } else { ran };
        self.credit = self.credit.min(self.slice as i64);
        if self.thread == Thread::Kernel {
            self.kernel_behind = self.world.queue.len();
        }
        self.thread = if self.kernel_awake && self.kernel_behind == 0 {
            Thread::Kernel
        } else if self.world.queue.is_empty() {
            Thread::Idle
        } else {
            self.kernel_behind = self.kernel_behind.saturating_sub(1);
            Thread::Application
        };
        self.preempted = false;
        self.since = self.world.now;
        match self.thread {
            Thread::Idle => {}
            Thread::Application => match self.world.resume() {
                Some(piece) => self.start_piece(piece),
                None => self.next_piece(),
            },
            Thread::Kernel if !self.napi.threaded => self.run_ksoftirqd(),
            Thread::Kernel if std::mem::replace(&mut self.kernel_owes_switch, false) => {
                let switch = self.world.switch.next();
                self.cpu.push(Kind::ThreadSwitch, Account::Poll, switch);
            }
            Thread::Kernel => self.start_thread_poll(),
        }
    }
}
