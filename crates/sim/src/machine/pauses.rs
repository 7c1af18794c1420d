//! [`Pauses`]: times at which the CPU is taken away and given back, whatever it does.
//!
//! Running work is frozen and continues after the pause. Arrivals and timers still occur; the interrupts that they
//! raise start but do not progress. During a pause no other work may be chosen to run, so that [`crate::schemes`]
//! checks [`Machine::is_paused`] first.

use netcliff_core::host::PauseTimes;
use netcliff_core::{Point, Service};

use super::{Machine, Watch};
use crate::clock::{Clock, NEVER};
use crate::draw::Draw;
use crate::random::Purpose;
use crate::tally::Account;

/// The present or last pause, and the start of the next pause.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// Start and end of the present or last pause [ticks].
    began: u64,
    ends: u64,
    /// Start of the next pause [ticks]; [`NEVER`]: no further pause.
    next: u64,
    /// Further pauses; `None` if the host has no pauses.
    coming: Option<Coming>,
}

/// Further pauses.
#[derive(Debug)]
enum Coming {
    /// Random pauses: their lengths, and the times from the end of a pause to the next start.
    Drawn(Box<(Draw, Draw)>),
    /// Recorded pauses: start and length of each, in reverse order [ticks].
    Recorded(Vec<(u64, u64)>),
}

impl Pauses {
    /// Starts with the CPU available.
    pub(crate) fn new(point: &Point, clock: Clock, seed: u64, replication: u64) -> Self {
        let none = Self { began: 0, ends: 0, next: NEVER, coming: None };
        let Some(pauses) = point.host.pauses() else { return none };
        if let PauseTimes::Recorded(recorded) = &pauses.times {
            let ticks = |(from_s, length_s): &(f64, f64)| (clock.whole(*from_s), clock.whole(*length_s).max(1));
            let spans: Vec<(u64, u64)> = recorded.spans_s.iter().rev().map(ticks).collect();
            let next = spans.last().map_or(NEVER, |(from, _)| *from);
            return Self { next, coming: Some(Coming::Recorded(spans)), ..none };
        }
        let (every, mean) = (clock.ticks(pauses.every_s), clock.ticks(pauses.mean_s));
        let length = Draw::new(seed, Purpose::Pause, replication, &pauses.times.shape(), mean);
        let mut up = Draw::new(seed, Purpose::Up, replication, &Service::Exponential, every);
        let next = up.next();
        Self { next, coming: Some(Coming::Drawn(Box::new((length, up)))), ..none }
    }

    /// Whether a pause is in progress at `now`.
    #[inline]
    pub(crate) fn is_on(&self, now: u64) -> bool {
        now < self.ends
    }

    /// End of the present or last pause [ticks].
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.ends
    }

    /// Length of the present or last pause [ticks].
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.ends - self.began
    }

    /// Start of the next pause [ticks]; [`NEVER`]: no further pause.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Starts the next pause. Two pauses are at least a tick apart.
    pub(crate) fn start(&mut self) {
        let Some(coming) = &mut self.coming else { return };
        self.began = self.next;
        match coming {
            Coming::Drawn(draws) => {
                let (length, up) = &mut **draws;
                self.ends = self.began.saturating_add(length.next());
                self.next = self.ends.saturating_add(up.next().max(1));
            }
            Coming::Recorded(spans) => {
                self.ends = self.began + spans.pop().map_or(0, |(_, length)| length);
                self.next = spans.last().map_or(NEVER, |(from, _)| (*from).max(self.ends + 1));
            }
        }
    }
}

impl<W: Watch> Machine<W> {
    /// Whether a pause is in progress now.
    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.is_on(self.now)
    }

    /// End of the present or last pause [ticks].
    #[inline]
    pub(crate) fn given_back(&self) -> u64 {
        self.pauses.end()
    }

    /// Start of the present pause, at which work was frozen, or now outside of a pause [ticks].
    #[inline]
    pub(crate) fn frozen_at(&self) -> u64 {
        if self.is_paused() { self.pauses.began } else { self.now }
    }

    /// Returns the tick after `tick` of a timer that continues during pauses [ticks]. Of several ticks within a pause,
    /// only the first one interrupts.
    #[inline]
    pub(crate) fn tick_after(&self, tick: u64, period: u64) -> u64 {
        if tick < self.pauses.began || self.pauses.end() <= tick {
            return tick + period;
        }
        tick + (self.pauses.end() - tick).div_ceil(period) * period
    }

    /// Time until which neither an arrival nor a pause disturbs an idle CPU [ticks].
    #[inline]
    pub(crate) fn undisturbed_until(&mut self) -> u64 {
        self.next_arrival().min(self.pauses.next())
    }

    /// Works for `left` on `account`, with pauses in addition, but at most until `until`. Returns the remaining work
    /// [ticks], or `None` if the work is done.
    #[inline]
    pub(crate) fn work(&mut self, account: Account, left: u64, until: u64) -> Option<u64> {
        if self.pauses.coming.is_some() {
            return self.work_with_pauses(account, left, until);
        }
        let end = self.now + left;
        self.pass(account, end.min(until));
        (until < end).then(|| end - until)
    }

    #[inline(never)]
    fn work_with_pauses(&mut self, account: Account, mut left: u64, until: u64) -> Option<u64> {
        loop {
            if self.is_paused() {
                self.pass(Account::Paused, self.pauses.end().min(until));
                if self.is_paused() {
                    return Some(left);
                }
            }
            let (end, stop) = (self.now + left, until.min(self.pauses.next()));
            self.pass(account, end.min(stop));
            if end <= stop {
                return None;
            }
            left = end - stop;
            if until <= stop {
                return Some(left);
            }
            self.pauses.start();
        }
    }

    /// Lets time pass to `until` on an idle CPU, or in a pause.
    #[inline]
    pub(crate) fn idle(&mut self, until: u64) {
        while self.is_paused() || self.pauses.next() < until {
            if self.is_paused() {
                self.pass(Account::Paused, self.pauses.end().min(until));
                if self.now == until {
                    return;
                }
            } else {
                self.pass(Account::Available, self.pauses.next());
                self.pauses.start();
            }
        }
        self.pass(Account::Available, until);
    }
}
