//! What has happened by an instant: departures and what the application took, and at a mark or when the machine of events takes over all the counts.

use super::Softirqs;
use crate::clock::NEVER;
use crate::machine::Left;
use crate::recursion::disciplines::OneNapi;
use crate::recursion::serial::{Before, Discipline};
use crate::tally::{Account, Counts, Histogram};

impl Softirqs {
    /// Counts what is known of the application, and departures, up to the latest arrival.
    pub(super) fn settle(&mut self, latencies: &mut Histogram) {
        self.process(self.now);
        self.taken.deliver(self.taken.at(), &mut self.counts, latencies);
    }

    /// Counts what the application takes, and departures, by `at`: an arrival after all others, or when ksoftirqd is woken.
    pub(super) fn deliver(&mut self, at: u64, instance: &mut OneNapi<'_>, latencies: &mut Histogram) {
        self.process(at);
        let ended = self.ended_by(at, instance);
        if let Some(ended) = ended {
            self.taken.ran_until(ended);
        }
        self.taken.deliver(self.taken.shown(at, ended), &mut self.counts, latencies);
    }

    /// When softirqs ended before `at`; None: they run.
    fn ended_by(&self, at: u64, instance: &mut OneNapi<'_>) -> Option<u64> {
        if self.stops_at < NEVER || at < self.last {
            return None;
        }
        let ended = self.last + instance.first(at, self.last).0;
        (ended <= at).then_some(ended)
    }

    fn process(&mut self, at: u64) {
        while self.processed < self.accepted {
            let packet = &self.packets[self.place(self.processed)];
            if packet.departs > at {
                break;
            }
            let latency = u128::from(packet.departs - packet.arrived);
            self.counts.processed += 1;
            self.counts.processed_latency += latency;
            if packet.dropped {
                self.counts.dropped_socket += 1;
                self.counts.lost_latency += latency;
            }
            self.passed = packet.departs;
            self.processed += 1;
        }
    }

    /// The counts at `at`, which all that came before has been counted by; `offered` included.
    pub(super) fn counts_at(&mut self, at: u64, instance: &mut OneNapi<'_>) -> Counts {
        let mut counts = Counts { at, ..self.counts };
        let shown = self.taken.shown(at, self.ended_by(at, instance));
        let (mut sums, mut application, mut ahead, mut ages) = (self.sums, self.application, 0, 0);
        for number in self.processed..self.accepted {
            let packet = &self.packets[self.place(number)];
            sums.take_off(&packet.before);
            application -= packet.application;
            ahead += usize::from(packet.departs < NEVER && !packet.dropped);
            ages += u128::from(at - packet.arrived);
        }
        if at == self.stops_at {
            sums = self.sums;
        } else if self.processed < self.accepted {
            let next = &self.packets[self.place(self.processed)].before;
            sums.begin::<OneNapi<'_>>(next, at, self.passed);
        } else {
            let (first, polls_first) = instance.first(at, self.last);
            let idle = (at - self.last).saturating_sub(first);
            sums.begin::<OneNapi<'_>>(&Before { first, idle, polls_first, ..Before::default() }, at, self.last);
        }
        let waiting: u128 = self.taken.waiting(ahead).map(|arrived| u128::from(at - arrived)).sum();
        counts.inside_ring = (self.accepted - self.processed) as u64;
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

    /// What the machine of events goes on with when ksoftirqd is woken.
    pub(super) fn leave(&mut self, instance: &mut OneNapi<'_>) -> Left {
        let at = self.stops_at;
        let mut counts = self.counts_at(at, instance);
        let at_work = (!self.rounds.on_idle).then(|| self.taken.at_work());
        let in_hand = at_work.and_then(|(_, since)| since);
        // The machine counts it from there when the packet is done.
        counts.application_area -= in_hand.map_or(0, |since| u128::from(at - since));
        if self.rounds.on_idle {
            // It is drawn when the application gets the CPU.
            instance.give_back_switch();
        }
        for number in std::mem::replace(&mut self.processed, self.accepted)..self.accepted {
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
