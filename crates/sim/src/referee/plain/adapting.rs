//! Polls whose quota or time adapts, written from their definitions: FreeBSD's (a list of ticks, each with one cycle),
//! and soft timers (a list of times at which a poll may occur).

use netcliff_core::{FreebsdPolling, Scheme, Service};

use super::Plain;
use crate::clock::Clock;
use crate::draw::Draw;
use crate::random::Purpose;

/// `poll_burst` and `pending_polls` of sys/kern/kern_poll.c.
pub(super) struct AdaptiveQuota {
    burst: u64,
    pending: u64,
}

impl Default for AdaptiveQuota {
    fn default() -> Self {
        Self { burst: 5, pending: 0 }
    }
}

impl Plain<'_> {
    fn freebsd(&self) -> FreebsdPolling {
        match self.scheme {
            Scheme::FreebsdPolling(scheme) => *scheme,
            _ => FreebsdPolling::default(),
        }
    }

    /// hardclock_device_poll, after the overhead of the tick.
    pub(super) fn ticked(&mut self) {
        let idle = self.left == 0;
        self.adaptive.pending = if self.adaptive.pending > 100 { 1 } else { self.adaptive.pending + 1 };
        if idle {
            self.cycles();
        }
    }

    /// netisr_poll: cycles that find no packets end at once.
    pub(super) fn cycles(&mut self) {
        while self.adaptive.pending > 0 {
            self.world.counts.polls += 1;
            self.began = self.world.now;
            if !self.world.ring.is_empty() {
                self.left = self.adaptive.burst.min(self.freebsd().burst_max);
                break;
            }
            self.adapt();
        }
    }

    /// netisr_pollmore at the end of a burst.
    pub(super) fn adapt(&mut self) {
        let FreebsdPolling { burst_max, user_frac, .. } = self.freebsd();
        let kern_load = (self.world.now - self.began) * 100 / self.period();
        let quota = &mut self.adaptive;
        quota.burst = quota.burst.min(burst_max);
        if kern_load as f64 > 100.0 - (100.0 * user_frac).round() {
            if quota.burst > 1 {
                quota.burst -= 1;
            }
        } else if quota.burst < burst_max {
            quota.burst += 1;
        }
        quota.pending -= 1;
        if quota.pending > 0 {
            quota.burst -= quota.burst / 8;
            if quota.burst < 1 {
                quota.burst = 1;
            }
        }
    }
}

/// The next poll of soft timers.
pub(super) struct SoftPolls {
    period: u64,
    backup: u64,
    cost: f64,
    trigger: Draw,
    due: u64,
    soft: u64,
    hard: u64,
}

impl SoftPolls {
    pub(super) fn of(scheme: &Scheme, clock: Clock, seed: u64, replication: u64) -> Option<Self> {
        let Scheme::SoftTimers(scheme) = scheme else { return None };
        let mean = clock.ticks(scheme.trigger_s);
        Some(Self {
            period: clock.whole(scheme.period_s),
            backup: clock.whole(scheme.backup_s),
            cost: scheme.cost,
            trigger: Draw::new(seed, Purpose::SoftTimer, replication, &Service::Exponential, mean),
            due: 0,
            soft: 0,
            hard: 0,
        })
    }

    /// Plans the poll after one that began at `began`, and returns its time.
    pub(super) fn plan(&mut self, began: u64) -> u64 {
        self.due = began + self.period;
        self.soft = self.due + self.trigger.next();
        self.hard = began + self.backup;
        self.soft.min(self.hard)
    }

    /// At the end of protocol work, which is a trigger state, a poll that is due occurs now. Returns the time of the
    /// next poll.
    pub(super) fn after_work(&mut self, now: u64) -> u64 {
        if now >= self.due {
            (self.soft, self.hard) = (now, u64::MAX);
        }
        self.soft.min(self.hard)
    }

    /// Overhead of the next poll, relative to a poll that the hardware timer starts.
    pub(super) fn share(&self) -> f64 {
        if self.soft <= self.hard { self.cost } else { 1.0 }
    }
}
