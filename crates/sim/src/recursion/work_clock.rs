//! [`WorkClock`]: the clock on which a CPU does its work. [`Steady`] is the real clock. [`Pausing`] stands still during
//! pauses: on this clock, a CPU with pauses does what a CPU without pauses does in real time. The instant d of this
//! clock is, in real time, d plus all pauses that started before d.

use netcliff_core::Point;

use crate::clock::Clock;
use crate::machine::Pauses;

/// An instant, in real time and on the clock of work [ticks].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Instant {
    pub at: u64,
    pub shown: u64,
}

/// A clock of work; see the module.
pub(super) trait WorkClock {
    /// Shortest service time of a packet [ticks]. With pauses it is above 0, because a departure at the instant of the
    /// arrival would have no defined order relative to the start of a pause.
    const LEAST: u64;

    /// Time of the latest arrival [ticks].
    fn now(&self) -> u64;

    /// Advances to the next arrival, `gap` later.
    fn pass(&mut self, gap: u64) -> Instant;

    /// The clock's value at `at`, which must not be before the argument of an earlier call.
    fn shown(&mut self, at: u64) -> u64;

    /// Total of the pauses that started before the instant `shown` of this clock [ticks]. Successive arguments must not
    /// decrease, and must not exceed the latest result of [`WorkClock::shown`].
    fn away(&mut self, shown: u64) -> u64;

    /// Discards the pauses before the argument of the last call of [`WorkClock::away`].
    fn forget(&mut self) {}
}

/// The clock of a CPU without pauses.
#[derive(Debug, Default)]
pub(super) struct Steady {
    now: u64,
}

impl WorkClock for Steady {
    const LEAST: u64 = 0;

    #[inline(always)]
    fn now(&self) -> u64 {
        self.now
    }

    #[inline(always)]
    fn pass(&mut self, gap: u64) -> Instant {
        self.now += gap;
        Instant { at: self.now, shown: self.now }
    }

    #[inline(always)]
    fn shown(&mut self, at: u64) -> u64 {
        at
    }

    #[inline(always)]
    fn away(&mut self, _shown: u64) -> u64 {
        0
    }
}

/// A pause: the clock's value during the pause (`shown`), and the total of all pauses up to its end (`total`).
#[derive(Debug, Clone, Copy)]
struct Pause {
    shown: u64,
    total: u64,
}

/// The clock of a CPU with pauses.
#[derive(Debug)]
pub(super) struct Pausing {
    now: u64,
    pauses: Pauses,
    /// Total of the pauses that have started.
    total: u64,
    /// Pauses that have begun, except those that [`WorkClock::forget`] has removed.
    begun: Vec<Pause>,
    /// Number of entries at the beginning of `begun` that precede the last counted departure.
    passed: usize,
    /// Total of the pauses that precede the last counted departure.
    before: u64,
}

impl Pausing {
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64) -> Self {
        let pauses = Pauses::new(point, clock, seed, replication);
        Self { now: 0, pauses, total: 0, begun: Vec::new(), passed: 0, before: 0 }
    }
}

impl WorkClock for Pausing {
    const LEAST: u64 = 1;

    #[inline]
    fn now(&self) -> u64 {
        self.now
    }

    #[inline]
    fn pass(&mut self, gap: u64) -> Instant {
        self.now += gap;
        Instant { at: self.now, shown: self.shown(self.now) }
    }

    #[inline]
    fn shown(&mut self, at: u64) -> u64 {
        while self.pauses.next() < at {
            let shown = self.pauses.next() - self.total;
            self.pauses.start();
            self.total += self.pauses.length();
            self.begun.push(Pause { shown, total: self.total });
        }
        // During a pause, the clock shows the pause's start.
        at.max(self.pauses.end()) - self.total
    }

    #[inline]
    fn away(&mut self, shown: u64) -> u64 {
        while self.begun.get(self.passed).is_some_and(|pause| pause.shown < shown) {
            self.before = self.begun[self.passed].total;
            self.passed += 1;
        }
        self.before
    }

    fn forget(&mut self) {
        self.begun.drain(..self.passed);
        self.passed = 0;
    }
}
