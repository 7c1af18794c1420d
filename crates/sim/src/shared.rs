//! [`Core`]: one CPU that serves several queues, each under its own instance of the scheme.
//!
//! Any interrupt preempts protocol work of any queue. An interrupt that occurs while another one is handled waits; the
//! oldest is handled first. The queues' protocol work alternates: packet by packet among the queues that may be served,
//! or poll by poll for NAPI, like Linux' `net_rx_action` ([`turns`]). The arrivals, times and rules of a queue equal
//! the arrivals, times and rules of [`crate::machine`] and [`crate::schemes`]: with one queue, both agree tick for
//! tick.

mod queue;
mod run;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::VecDeque;

use netcliff_core::{Arrivals, EngineKind, Host, Point, Scheme, Traffic, Unsupported};

use crate::clock::Clock;
use crate::machine::{Pauses, Records};
use crate::tally::Account;
use queue::Queue;
use turns::Turns;

pub(crate) use run::simulate;

/// Checks whether queues of this kind can share a core; the error says why not.
pub(crate) fn supports(host: &Host, scheme: &Scheme, traffic: &Traffic) -> Result<(), Unsupported> {
    let decline = |reason: &str| Err(Unsupported::new(EngineKind::Sim, reason));
    if host.application_s.is_some() {
        return decline(
            "queues on one core are simulated without an application: set application=none, or give each a core",
        );
    }
    if traffic.arrivals != Arrivals::Poisson {
        return decline(
            "queues on one core are simulated under Poisson arrivals only, since bursts that hit them at once would have to be split \
             between them: use poisson, or give each queue a core",
        );
    }
    match scheme {
        Scheme::Ideal | Scheme::Interrupt { .. } | Scheme::DisableEnable { merged: false } | Scheme::Coalesce(_) => {
            Ok(())
        }
        Scheme::Napi(napi) if napi.moderation.is_on() => decline(
            "queues on one core are simulated without moderation in front of NAPI: leave out rx_usecs, rx_frames, packet_timer, \
             min_gap and gap, or give each a core",
        ),
        Scheme::Napi(napi) if !napi.backlog && !napi.threaded && !napi.ksoftirqd => Ok(()),
        Scheme::Napi(_) => decline(
            "queues on one core are simulated with NAPI in softirq context: leave out backlog, threaded and ksoftirqd, or give each a core",
        ),
        _ => decline(
            "queues on one core are simulated for ideal, interrupt, disable-enable:merged=false, coalesce and napi: choose one of \
             them, or give each queue a core",
        ),
    }
}

/// The purpose of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Interrupt,
    /// A packet's protocol processing.
    Protocol,
    /// A poll's overhead.
    Poll,
    /// The register write that ends a NAPI poll.
    Unmask,
}

impl Work {
    fn account(self) -> Account {
        match self {
            Self::Interrupt => Account::Interrupt,
            Self::Protocol => Account::Protocol,
            Self::Poll | Self::Unmask => Account::Poll,
        }
    }
}

/// A piece of CPU time for a queue.
#[derive(Debug, Clone, Copy)]
struct Job {
    queue: usize,
    work: Work,
    left: u64,
}

/// The kinds of events, in the order in which simultaneous ones are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    JobEnds,
    /// A pause ends: the CPU is given back.
    PauseEnds,
    /// A NAPI interrupt that is being delivered or was deferred is due.
    Delivery(usize),
    Arrival(usize),
    /// A timer of the NIC's moderation is due.
    Timer(usize),
    /// A pause starts: the CPU is taken away.
    PauseStarts,
}

/// One CPU and its queues.
struct Core {
    now: u64,
    queues: Vec<Queue>,
    /// The interrupt being handled; `None` if no interrupt is handled.
    hard: Option<Job>,
    /// Queues whose interrupt waits for the one being handled, oldest first.
    waiting: VecDeque<usize>,
    /// The present protocol work, which interrupts preempt.
    soft: Option<Job>,
    turns: Turns,
    pauses: Pauses,
    /// Number of arrivals so far.
    offered: u64,
    /// Number of arrivals at which the next mark is set.
    next_mark: u64,
    done: bool,
}

/// Simulates `packets` arrivals, over all queues together. `points` has one entry per queue, with its seed. Returns the
/// records of each queue.
fn replicate(points: &[(u64, &Point)], clock: Clock, replication: u64, packets: u64) -> Vec<Records> {
    let queues: Vec<Queue> =
        points.iter().map(|(seed, point)| Queue::new(point, clock, *seed, replication, packets)).collect();
    let turns = Turns::new(points[0].1, queues[0].times.scheduler);
    let mut core = Core {
        now: 0,
        queues,
        hard: None,
        waiting: VecDeque::new(),
        soft: None,
        turns,
        pauses: Pauses::new(points[0].1, clock, points[0].0, replication),
        offered: 0,
        next_mark: 0,
        done: false,
    };
    while !core.done {
        core.step();
    }
    core.queues.into_iter().map(|queue| queue.records).collect()
}

impl Core {
    fn step(&mut self) {
        let (at, event) = self.next_event();
        self.pass(at);
        match event {
            Event::JobEnds => self.job_ends(),
            Event::PauseEnds => {}
            Event::PauseStarts => self.pauses.start(),
            Event::Delivery(queue) => {
                self.queues[queue].interrupt_due = crate::clock::NEVER;
                self.interrupt(queue);
            }
            Event::Arrival(queue) => self.arrival(queue),
            Event::Timer(queue) => {
                if self.queues[queue].moderation_fires(at) {
                    self.interrupt(queue);
                }
            }
        }
        self.fill();
    }

    fn next_event(&self) -> (u64, Event) {
        let mut next = (self.pauses.next(), Event::PauseStarts);
        if self.pauses.is_on(self.now) {
            next = (self.pauses.end(), Event::PauseEnds);
        } else if let Some(job) = self.hard.or(self.soft) {
            next = next.min((self.now + job.left, Event::JobEnds));
        }
        for (number, queue) in self.queues.iter().enumerate() {
            // A timer that was due while its own interrupt was handled is due now.
            let timer = queue.moderation_timer().max(self.now);
            next = next.min((queue.interrupt_due, Event::Delivery(number)));
            next = next.min((queue.next_arrival, Event::Arrival(number)));
            next = next.min((timer, Event::Timer(number)));
        }
        next
    }

    /// Lets time pass to `at`, on the account of the running work.
    fn pass(&mut self, at: u64) {
        let span = at - self.now;
        let paused = self.pauses.is_on(self.now);
        self.now = at;
        let everywhere = |queues: &mut [Queue], account: Account| {
            queues.iter_mut().for_each(|queue| queue.counts.cpu[account as usize] += span);
        };
        if paused {
            return everywhere(&mut self.queues, Account::Paused);
        }
        match self.hard.as_mut().or(self.soft.as_mut()) {
            Some(job) => {
                job.left -= span;
                self.queues[job.queue].counts.cpu[job.work.account() as usize] += span;
            }
            None => everywhere(&mut self.queues, Account::Available),
        }
    }

    fn arrival(&mut self, queue: usize) {
        if self.offered == self.next_mark {
            let now = self.now;
            self.queues.iter_mut().for_each(|queue| self.done = queue.mark(now));
            self.next_mark = self.queues[0].records.next_mark();
            if self.done {
                return;
            }
        }
        self.offered += 1;
        if self.queues[queue].arrival(self.now) {
            self.interrupt(queue);
        }
    }

    /// Handles the queue's interrupt now, or after the interrupts that are waiting already.
    fn interrupt(&mut self, queue: usize) {
        self.queues[queue].interrupting = true;
        if self.hard.is_some() {
            self.waiting.push_back(queue);
        } else {
            let left = self.queues[queue].interrupt_work();
            self.hard = Some(Job { queue, work: Work::Interrupt, left });
        }
    }

    fn job_ends(&mut self) {
        if let Some(job) = self.hard.take() {
            let queue = &mut self.queues[job.queue];
            queue.interrupting = false;
            queue.interrupt_handled(self.now);
            self.turns.interrupted(job.queue);
            if let Some(next) = self.waiting.pop_front() {
                let left = self.queues[next].interrupt_work();
                self.hard = Some(Job { queue: next, work: Work::Interrupt, left });
            }
            return;
        }
        let Some(job) = self.soft.take() else { return };
        let queue = &mut self.queues[job.queue];
        match job.work {
            Work::Protocol => queue.served(self.now),
            Work::Unmask => {
                if queue.unmasked() {
                    self.interrupt(job.queue);
                }
            }
            Work::Poll | Work::Interrupt => {}
        }
    }

    /// Gives an idle CPU the next piece of protocol work, if there is one.
    fn fill(&mut self) {
        while self.hard.is_none() && self.soft.is_none() && !self.done && !self.pauses.is_on(self.now) {
            let Some((queue, step)) = self.turns.next(&self.queues, self.now) else { return };
            let own = &mut self.queues[queue];
            match step {
                turns::Step::Packet => {
                    self.soft = Some(Job { queue, work: Work::Protocol, left: own.ring.front().protocol })
                }
                turns::Step::Poll => self.soft = Some(Job { queue, work: Work::Poll, left: own.poll_work() }),
                turns::Step::Complete { idle } => {
                    if own.defers(idle, self.now) {
                        continue;
                    }
                    self.soft = Some(Job { queue, work: Work::Unmask, left: own.unmask_work() });
                }
            }
        }
    }
}
