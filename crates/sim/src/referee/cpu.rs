//! A CPU as a stack of jobs: the job on top runs; a new job preempts it; the end of a job resumes the job below.

use std::cmp::Reverse;

use super::{Event, World};
use crate::tally::Account;

/// A piece of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<K> {
    pub kind: K,
    pub account: Account,
    pub left: u64,
}

/// The stack.
#[derive(Debug)]
pub(super) struct Cpu<K> {
    pub jobs: Vec<Job<K>>,
    plan: u64,
}

impl<K: Copy> Cpu<K> {
    pub(super) fn new() -> Self {
        Self { jobs: Vec::new(), plan: 0 }
    }

    /// Lets time pass to `at`, on the account of the top job.
    pub(super) fn pass_to(&mut self, world: &mut World, at: u64) {
        let span = at - world.now;
        if world.paused() {
            world.counts.cpu[Account::Paused as usize] += span;
            return world.pass_to(at);
        }
        match self.jobs.last_mut() {
            Some(job) => {
                job.left -= span;
                world.counts.cpu[job.account as usize] += span;
                if job.account == Account::Application {
                    world.book(span);
                }
            }
            None => world.counts.cpu[Account::Available as usize] += span,
        }
        world.pass_to(at);
    }

    /// Puts a job on top.
    pub(super) fn push(&mut self, kind: K, account: Account, left: u64) {
        self.jobs.push(Job { kind, account, left });
    }

    /// Plans the end of the top job, unless it is frozen. Earlier plans become invalid.
    pub(super) fn plan(&mut self, world: &mut World) {
        self.plan += 1;
        if let Some(job) = self.jobs.last().filter(|_| !world.paused()) {
            world.events.push(Reverse((world.now + job.left, Event::JobEnds(self.plan))));
        }
    }

    /// Whether a planned end is still valid.
    pub(super) fn holds(&self, plan: u64) -> bool {
        plan == self.plan
    }
}
