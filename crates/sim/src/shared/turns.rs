//! [`Turns`]: decides which queue's protocol work comes next.

use std::collections::VecDeque;

use netcliff_core::{Point, Scheme};

use super::queue::Queue;
use crate::free_running::FreeRunning;

/// The next piece of protocol work of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Process the packet at the head of its ring.
    Packet,
    /// Start a poll.
    Poll,
    /// End a poll that has not used its weight. `idle`: it served no packet.
    Complete { idle: bool },
}

/// The order in which queues are served.
pub(super) enum Turns {
    /// Round robin, one packet at a time. `last` is the queue served last.
    Robin { last: usize },
    /// NAPI instances, one poll at a time.
    Napi(NetRx),
}

/// A poll in progress.
#[derive(Debug, Clone, Copy)]
struct Poll {
    queue: usize,
    work: u64,
}

/// `net_rx_action` (net/core/dev.c, 6.5 to 6.18). A round polls the instances of `list` in order; an instance that used
/// its weight moves to `repoll`. When the list is empty, or the packet or time budget is used up, the next round starts
/// with the newly scheduled instances, followed by `repoll`. Without an application, ksoftirqd does the same work in
/// the same order.
pub(super) struct NetRx {
    weight: u64,
    budget: u64,
    budget_jiffies: u64,
    scheduler: FreeRunning,
    list: VecDeque<usize>,
    scheduled: VecDeque<usize>,
    repoll: VecDeque<usize>,
    poll: Option<Poll>,
    /// Packets left in this round's budget. `None` between rounds.
    left: Option<u64>,
    time_limit: u64,
}

impl Turns {
    pub(super) fn new(point: &Point, scheduler: FreeRunning) -> Self {
        let Scheme::Napi(napi) = &point.scheme else { return Self::Robin { last: 0 } };
        Self::Napi(NetRx {
            weight: napi.weight,
            budget: napi.budget,
            budget_jiffies: (napi.budget_time_s / point.host.tick_s).ceil() as u64,
            scheduler,
            list: VecDeque::new(),
            scheduled: VecDeque::new(),
            repoll: VecDeque::new(),
            poll: None,
            left: None,
            time_limit: 0,
        })
    }

    /// Records that an interrupt of this queue has been handled, whose handler schedules NAPI.
    pub(super) fn interrupted(&mut self, queue: usize) {
        if let Self::Napi(net_rx) = self {
            net_rx.scheduled.push_back(queue);
        }
    }

    /// The next piece of work. `None` if there is nothing to do.
    pub(super) fn next(&mut self, queues: &[Queue], now: u64) -> Option<(usize, Step)> {
        match self {
            Self::Robin { last } => {
                let after = (1..=queues.len()).map(|n| (*last + n) % queues.len());
                let next = { after }.find(|queue| queues[*queue].ready())?;
                *last = next;
                Some((next, Step::Packet))
            }
            Self::Napi(net_rx) => net_rx.next(queues, now),
        }
    }
}

impl NetRx {
    fn next(&mut self, queues: &[Queue], now: u64) -> Option<(usize, Step)> {
        if let Some(poll) = &mut self.poll {
            let queue = poll.queue;
            if poll.work < self.weight && !queues[queue].ring.is_empty() {
                poll.work += 1;
                return Some((queue, Step::Packet));
            }
            let work = poll.work;
            self.ends(queue, work, now);
            if work < self.weight {
                return Some((queue, Step::Complete { idle: work == 0 }));
            }
        }
        let queue = self.next_instance(now)?;
        self.poll = Some(Poll { queue, work: 0 });
        Some((queue, Step::Poll))
    }

    fn ends(&mut self, queue: usize, work: u64, now: u64) {
        self.poll = None;
        if work == self.weight {
            self.repoll.push_back(queue);
        }
        self.left = self.left.map(|left| left.saturating_sub(work)).filter(|left| *left > 0);
        if self.scheduler.count(now) >= self.time_limit {
            self.left = None;
        }
        if self.left.is_none() {
            self.splice();
        }
    }

    /// Ends a round.
    fn splice(&mut self) {
        self.list.append(&mut self.scheduled);
        self.list.append(&mut self.repoll);
        self.left = None;
    }

    fn next_instance(&mut self, now: u64) -> Option<usize> {
        if self.list.is_empty() {
            if self.repoll.is_empty() && self.left.is_some() {
                // The kernel's "goto start": the round continues with the instances that were scheduled during it.
                self.list.append(&mut self.scheduled);
            } else {
                self.splice();
            }
        }
        let next = self.list.pop_front();
        if next.is_none() {
            self.left = None;
        } else if self.left.is_none() {
            self.left = Some(self.budget);
            self.time_limit = self.scheduler.count(now) + self.budget_jiffies;
        }
        next
    }
}
