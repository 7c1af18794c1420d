//! [`Transmit`]: the packets that the host sends, and the completions of its transmit ring.
//!
//! A transmission occupies a slot of the ring from its start until its completion has been processed. It is refused if
//! no slot is free. Completions are protocol work, before or after received packets, or they interrupt.

use std::collections::VecDeque;

use netcliff_core::host::{TransmitLoad, TransmitPriority};
use netcliff_core::{Point, Service};

use super::sender::{ticks_per_byte, wire_ticks};
use crate::clock::{Clock, NEVER};
use crate::draw::Draw;
use crate::random::Purpose;
use crate::tally::TransmitCounts;

/// The transmit ring.
#[derive(Debug)]
pub(crate) struct Transmit {
    /// When completions are processed: before received packets, after them, or in an interrupt.
    pub priority: TransmitPriority,
    /// The counts so far. Waiting times and occupied slots are up to date only when counts are recorded.
    pub counts: TransmitCounts,
    /// End times of the transmissions that wait for their completion [ticks].
    due: VecDeque<u64>,
    /// Times at which the frames that are being sent, or wait for the link, will have left [ticks].
    leaving: VecDeque<u64>,
    slots: usize,
    cost: Draw,
    share: f64,
    /// Fraction of a transmission that delivered packets have caused but that has not been sent, below 1.
    owed: f64,
    /// Gaps of the host's own transmissions, and the time of the next one [ticks]. `None` if it has no own
    /// transmissions.
    own: Option<(Draw, u64)>,
    ticks_per_byte: f64,
}

impl Transmit {
    /// The transmissions of the host of `point`. `None` if it sends nothing.
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64) -> Option<Self> {
        let host = &point.host;
        let cost = Draw::new(seed, Purpose::Completion, replication, &host.service, clock.ticks(host.transmit_s?));
        let (share, own) = match host.transmit_load.unwrap_or(TransmitLoad::Share(1.0)) {
            TransmitLoad::Share(share) => (share, None),
            TransmitLoad::Pps(pps) => {
                let mean = clock.ticks(1.0 / pps);
                let mut gaps = Draw::new(seed, Purpose::Transmission, replication, &Service::Exponential, mean);
                let first = gaps.next();
                (0.0, Some((gaps, first)))
            }
        };
        Some(Self {
            priority: host.transmit_priority.unwrap_or_default(),
            counts: TransmitCounts::default(),
            due: VecDeque::new(),
            leaving: VecDeque::new(),
            slots: usize::try_from(host.transmit_ring_slots()).unwrap_or(usize::MAX),
            cost,
            share,
            owed: 0.0,
            own,
            ticks_per_byte: ticks_per_byte(point, clock),
        })
    }

    /// Whether a completion waits for the CPU.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Time at which the next transmission ends [ticks].
    pub(super) fn next_end(&self) -> u64 {
        let own = self.own.as_ref().map_or(NEVER, |(_, next)| *next);
        own.min(self.leaving.front().copied().unwrap_or(NEVER))
    }

    /// Takes a slot for one more transmission. Returns false, counting a refusal, if none is free.
    fn takes_slot(&mut self) -> bool {
        let free = self.due.len() + self.leaving.len() < self.slots;
        self.counts.started += 1;
        self.counts.refused += u64::from(!free);
        free
    }

    /// Records that a packet of `bytes` was delivered at `now`: the transmissions that it causes queue for the link.
    pub(super) fn delivered(&mut self, bytes: u32, now: u64) {
        self.owed += self.share;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            if self.takes_slot() {
                let starts = self.leaving.back().map_or(now, |busy_until| now.max(*busy_until));
                self.leaving.push_back(starts + wire_ticks(bytes, self.ticks_per_byte));
            }
        }
    }

    /// Ends the transmission that is due at `now`. Returns true if its completion waits for processing.
    pub(super) fn ended(&mut self, now: u64) -> bool {
        if let Some((gaps, next)) = &mut self.own {
            *next = now + gaps.next();
            if !self.takes_slot() {
                return false;
            }
        } else {
            self.leaving.pop_front();
        }
        self.due.push_back(now);
        true
    }

    /// Duration of the completion at the head [ticks].
    pub(super) fn work(&mut self) -> u64 {
        self.cost.next()
    }

    /// Records that the completion at the head has been processed.
    pub(super) fn completed(&mut self, now: u64) {
        if let Some(since) = self.due.pop_front() {
            self.counts.completed += 1;
            self.counts.waited += u128::from(now - since);
        }
    }

    /// The counts up to `now`.
    pub(super) fn counts_at(&self, now: u64) -> TransmitCounts {
        let ages = self.due.iter().map(|since| u128::from(now - since)).sum::<u128>();
        let inside = (self.due.len() + self.leaving.len()) as u64;
        TransmitCounts { inside, area: self.counts.waited + ages, ..self.counts }
    }
}
