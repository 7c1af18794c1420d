//! Counts at an instant: departures, packets taken by the application, and all counts when they are recorded or when
//! the event-driven machine takes over.

use super::Softirqs;
use crate::clock::NEVER;
use crate::machine::Left;
use crate::recursion::before::{Before, Discipline, Sums};
use crate::recursion::disciplines::OneNapi;
use crate::tally::{Account, Counts, Histogram};

impl Softirqs {
    /// Counts the application's events up to the latest arrival.
    pub(super) fn settle(&mut self, latencies: &mut Histogram) {
        self.befores.forget(self.inside_from(self.now));
        self.taken.deliver(self.taken.at(), &mut self.counts, latencies);
    }

    /// Counts the packets that the application takes by `at`, which is the time of an arrival after all others, or of
    /// the wake-up of ksoftirqd.
    pub(super) fn deliver(&mut self, at: u64, instance: &mut OneNapi<'_>, latencies: &mut Histogram) {
        let ended = self.ended_by(at, instance);
        if let Some(ended) = ended {
            self.taken.ran_until(ended);
        }
        self.taken.deliver(self.taken.shown(at, ended), &mut self.counts, latencies);
    }

    /// Time before `at` at which softirqs ended last. `None` if softirqs run at `at`.
    fn ended_by(&self, at: u64, instance: &mut OneNapi<'_>) -> Option<u64> {
        if self.stops_at < NEVER || at < self.last {
            return None;
        }
        let ended = self.last + instance.first(at, self.last).0;
        (ended <= at).then_some(ended)
    }

    /// Number of the first packet that has not departed by `at`, since the CPU was last idle.
    fn inside_from(&self, at: u64) -> usize {
        // Older packets have been overwritten.
        let mut first = self.first.max(self.accepted.saturating_sub(self.packets.len()));
        let mut end = self.accepted;
        while first < end {
            let middle = first.midpoint(end);
            if self.packets[self.place(middle)].departs <= at {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first
    }

    /// Sums of the CPU's work before services up to `at`; the packets from `first` on have not departed.
    fn sums_by(&self, at: u64, first: usize, instance: &mut OneNapi<'_>) -> Sums {
        if at == self.stops_at {
            return self.befores.sums(self.accepted);
        }
        let mut sums = self.befores.sums(first);
        if first < self.accepted {
            let passed = if first > self.first { self.packets[self.place(first - 1)].departs } else { self.began };
            sums.begin::<OneNapi<'_>>(&self.befores.of(first), at, passed);
        } else {
            let (first, polls_first) = instance.first(at, self.last);
            let idle = (at - self.last).saturating_sub(first);
            sums.begin::<OneNapi<'_>>(&Before { first, idle, polls_first, ..Before::default() }, at, self.last);
        }
        sums
    }

    /// The counts at `at`, including `offered`; all earlier events must have been counted.
    pub(super) fn counts_at(&mut self, at: u64, instance: &mut OneNapi<'_>) -> Counts {
        let mut counts = Counts { at, ..self.counts };
        let shown = self.taken.shown(at, self.ended_by(at, instance));
        let first = self.inside_from(at);
        let (mut application, mut ahead, mut ages) = (self.application, 0, 0);
        for number in first..self.accepted {
            let packet = &self.packets[self.place(number)];
            application -= packet.application;
            ages += u128::from(at - packet.arrived);
            if packet.departs < NEVER {
                let latency = u128::from(packet.departs - packet.arrived);
                counts.processed -= 1;
                counts.processed_latency -= latency;
                counts.dropped_socket -= u64::from(packet.dropped);
                counts.lost_latency -= if packet.dropped { latency } else { 0 };
                ahead += usize::from(!packet.dropped);
            }
        }
        let sums = self.sums_by(at, first, instance);
        let waiting: u128 = self.taken.waiting(ahead).map(|arrived| u128::from(at - arrived)).sum();
        counts.inside_ring = (self.accepted - first) as u64;
        counts.inside_socket = self.taken.waiting(ahead).count() as u64;
        counts.ring_area = counts.processed_latency + ages;
        counts.system_area = counts.latency + counts.lost_latency + ages + waiting;
        counts.application_area += u128::from(self.taken.busy(at, shown));
        counts.interrupts += sums.interrupts;
        counts.polls += sums.polls;
        let application = application - self.taken.rest(ahead, sums.idle);
        let softirqs = at - self.began - sums.idle;
        counts.cpu[Account::Interrupt as usize] += sums.interrupt;
        counts.cpu[Account::Poll as usize] += sums.polling;
        counts.cpu[Account::Protocol as usize] += softirqs - sums.interrupt - sums.polling;
        counts.cpu[Account::Application as usize] += application;
        counts.cpu[Account::Available as usize] += sums.idle - application;
        counts
    }

    /// The state in which the event-driven machine continues when ksoftirqd is woken.
    pub(super) fn leave(&mut self, instance: &mut OneNapi<'_>) -> Left {
        let at = self.stops_at;
        let mut counts = self.counts_at(at, instance);
        let at_work = (!self.rounds.on_idle).then(|| self.taken.at_work());
        let in_hand = at_work.and_then(|(_, since)| since);
        // The machine counts the time of the packet being processed when the packet is done.
        counts.application_area -= in_hand.map_or(0, |since| u128::from(at - since));
        if self.rounds.on_idle {
            // The machine draws the switch time again when the application gets the CPU.
            instance.give_back_switch();
        }
        for number in self.inside_from(at)..self.accepted {
            let place = self.place(number);
            self.packets[place].departs = 0;
        }
        Left {
            at,
            last_arrival: self.now,
            counts,
            uncounted: std::mem::take(&mut self.spliced),
            ring: std::mem::take(&mut self.left),
            remaining: at_work.map(|(remaining, _)| remaining),
            in_hand,
            socket: self.taken.leave(),
        }
    }
}
