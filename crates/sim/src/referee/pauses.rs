//! Pauses of the CPU in their simplest form: jobs keep their remaining work and no job starts; all other events occur.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netcliff_core::{Point, Service};

use super::{Event, World};
use crate::clock::Clock;
use crate::draw::Draw;
use crate::random::Purpose;

/// The present or last pause, and the random lengths of pauses and of the times between them.
pub(super) struct Pauses {
    length: Draw,
    up: Draw,
    away: bool,
    /// Start and end of the present or last pause.
    last: (u64, u64),
}

impl Pauses {
    pub(super) fn new(
        point: &Point,
        clock: Clock,
        seed: u64,
        replication: u64,
        events: &mut BinaryHeap<Reverse<(u64, Event)>>,
    ) -> Option<Self> {
        let host = &point.host;
        let every = clock.ticks(host.pause_every_s?);
        let times = host.pause_times.clone().unwrap_or_default();
        let mean_s = host.pause_s.or_else(|| Some(times.measured()?.mean_s()))?;
        let length = Draw::new(seed, Purpose::Pause, replication, &times.shape(), clock.ticks(mean_s));
        let mut up = Draw::new(seed, Purpose::Up, replication, &Service::Exponential, every);
        events.push(Reverse((up.next(), Event::PauseStarts)));
        Some(Self { length, up, away: false, last: (0, 0) })
    }
}

impl World {
    pub(super) fn paused(&self) -> bool {
        self.pauses.as_ref().is_some_and(|pauses| pauses.away)
    }

    pub(super) fn pause_starts(&mut self) {
        let now = self.now;
        let Some(pauses) = &mut self.pauses else { return };
        let end = now + pauses.length.next();
        (pauses.away, pauses.last) = (true, (now, end));
        self.events.push(Reverse((end, Event::PauseEnds)));
    }

    pub(super) fn pause_ends(&mut self) {
        let now = self.now;
        let Some(pauses) = &mut self.pauses else { return };
        pauses.away = false;
        let up = pauses.up.next();
        self.events.push(Reverse((now + up.max(1), Event::PauseStarts)));
    }

    /// Returns the tick after `tick` of a timer. If `tick` is within a pause, this is the first tick after the pause.
    pub(super) fn next_tick(&self, tick: u64, period: u64) -> u64 {
        let mut next = tick + period;
        if let Some((start, end)) = self.pauses.as_ref().map(|pauses| pauses.last)
            && (start..end).contains(&tick)
        {
            while next < end {
                next += period;
            }
        }
        next
    }
}
