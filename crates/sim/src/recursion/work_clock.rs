//! [`WorkClock`]: the clock by which a CPU gets work done. [`Steady`] is that of the arrivals. [`Pausing`] stands still while the CPU is away: what a CPU does
//! without pauses it does by this clock with them, and what it shows as d is, in real time, d and all pauses that began before d on it.

use netcliff_core::Point;

use crate::clock::Clock;
use crate::machine::Pauses;

/// An instant: in real time, and on the clock of work [ticks].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Instant {
    pub at: u64,
    pub shown: u64,
}

/// See the module.
pub(super) trait WorkClock {
    /// The least that a packet takes [ticks]: where pauses are, none departs in the instant in which it came, at which a pause would begin or not.
    const LEAST: u64;

    /// The latest arrival [ticks].
    fn now(&self) -> u64;

    /// The next arrival, `gap` later.
    fn pass(&mut self, gap: u64) -> Instant;

    /// What it shows at `at`, which is not before any instant that was asked for.
    fn shown(&mut self, at: u64) -> u64;

    /// Pauses that began before what it shows as `shown`, added up [ticks]; asked in rising order, up to what was asked for.
    fn away(&mut self, shown: u64) -> u64;

    /// What has been asked will not be asked again.
    fn forget(&mut self) {}
}

/// The CPU is never away.
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

/// A pause: what the clock shows in it, and all pauses up to its end.
#[derive(Debug, Clone, Copy)]
struct Pause {
    shown: u64,
    total: u64,
}

/// A CPU with pauses.
#[derive(Debug)]
pub(super) struct Pausing {
    now: u64,
    pauses: Pauses,
    /// Pauses that have begun, added up.
    total: u64,
    /// Those that what departs has yet to pass; of them, so many have been.
    begun: Vec<Pause>,
    passed: usize,
    /// Pauses before those, added up.
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
        // In a pause it shows when that began.
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
