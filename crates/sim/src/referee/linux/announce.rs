//! Interrupt moderation of the NIC that NAPI polls, computed anew at each event from the packets that have not been
//! announced and the time of the last interrupt.

use std::cmp::Reverse;

use netcliff_core::Point;

use super::Linux;
use crate::clock::Clock;
use crate::referee::Event;

/// The NIC's limits [ticks], and the packets that have arrived while the interrupt was enabled.
pub(super) struct Front {
    count: Option<u64>,
    since_first: Option<u64>,
    since_last: Option<u64>,
    gap: u64,
    /// Arrival time of each packet, or the time of the unmasking if the packet arrived before.
    came: Vec<u64>,
    /// Whether a completion waits; only the gap delays it.
    completion: bool,
    asserted: Option<u64>,
}

impl Front {
    pub(super) fn new(point: &Point, clock: Clock) -> Self {
        let netcliff_core::Scheme::Napi(napi) = &point.scheme else { panic!("a NAPI point") };
        let own = napi.moderation;
        let ticks = |seconds: Option<f64>| match seconds {
            Some(seconds) if clock.whole(seconds) > 0 => Some(clock.whole(seconds)),
            _ => None,
        };
        let (since_first, since_last) = (ticks(own.absolute_timer_s), ticks(own.packet_timer_s));
        let each = own.frames.is_none() && since_first.is_none() && since_last.is_none();
        Self {
            count: if each { Some(1) } else { own.frames },
            since_first,
            since_last,
            gap: ticks(own.min_gap_s).unwrap_or(0),
            came: Vec::new(),
            completion: false,
            asserted: None,
        }
    }

    /// Time at which the interrupt will be asserted if no more packets arrive. `None` if it will not be asserted. The
    /// result is not before `now`.
    fn due(&self, now: u64) -> Option<u64> {
        let full = self.count.is_some_and(|count| self.came.len() as u64 >= count);
        let at_once = (self.completion || full).then_some(0);
        // A timer that has ended remains a reason to interrupt, whatever arrives before the gap is over.
        let first = self.came.first().zip(self.since_first).map(|(first, wait)| first + wait);
        let last = self.since_last.and_then(|wait| {
            let quiet = self.came.windows(2).find(|pair| pair[0] + wait < pair[1]).map(|pair| pair[0]);
            Some(quiet.or(self.came.last().copied())? + wait)
        });
        let reason = [at_once, first, last].into_iter().flatten().min()?;
        let gap_ends = self.asserted.map_or(0, |asserted| asserted + self.gap);
        Some(reason.max(gap_ends).max(now))
    }

    pub(super) fn packet(&mut self, now: u64) {
        self.came.push(now);
    }

    pub(super) fn completion(&mut self) {
        self.completion = true;
    }

    /// Masks the interrupt: polls take the packets that have arrived.
    pub(super) fn mask(&mut self) {
        self.came.clear();
        self.completion = false;
    }
}

impl Linux<'_> {
    /// Whether the NIC asserts its interrupt now.
    pub(super) fn front_asserts(&mut self) -> bool {
        let now = self.world.now;
        match self.front.due(now) {
            Some(at) if at <= now => {
                self.front.mask();
                self.front.asserted = Some(now);
                true
            }
            Some(at) => {
                self.world.events.push(Reverse((at, Event::Announce)));
                false
            }
            None => false,
        }
    }

    /// Interrupts if the NIC now has a reason (a full packet count, an expired timer, a waiting completion) and the
    /// minimum gap after its last interrupt is over. During a transmit interrupt, this check is postponed to its end.
    pub(super) fn announce(&mut self) {
        if self.in_transmit_interrupt() {
            self.announce_waits = true;
        } else {
            self.cause();
        }
    }

    /// Unmasks the interrupt: packets in the ring count as arrived now.
    pub(super) fn front_unmasked(&mut self) -> bool {
        let now = self.world.now;
        self.front.mask();
        (0..self.world.ring.len()).for_each(|_| self.front.packet(now));
        if self.world.completion_due() {
            self.front.completion();
        }
        self.front_asserts()
    }
}
