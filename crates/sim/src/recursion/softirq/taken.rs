//! [`Taken`]: when the application takes packets, on the clock V that stands still while softirqs run, and what that is in real time: V and all softirqs
//! that began before.
//!
//! An instant of V is kept in eighths of a tick ([`EIGHTHS`]): softirqs that begin at v do so at 8 v, with others that follow them at once at 8 v + 2, 4 and
//! 6; an application that they wake, and that takes no time to switch to, takes its packet between them.

use crate::fifo::Packet;
use crate::random::BLOCK;
use crate::tally::{Counts, Histogram};

/// Instants of V in a tick.
const EIGHTHS: u64 = 8;

/// A packet in the socket.
#[derive(Debug, Clone, Copy, Default)]
struct Handed {
    arrived: u64,
    /// When it is taken, and when the application is done with it [eighths].
    taken: u64,
    done: u64,
    bytes: u32,
}

/// Softirqs, from an interrupt on.
#[derive(Debug, Clone, Copy, Default)]
struct Ran {
    /// [eighths]
    at: u64,
    /// All softirqs up to their end [ticks].
    total: u64,
}

/// The packet that the application is working on.
#[derive(Debug, Clone, Copy)]
struct InHand {
    /// [eighths]
    done: u64,
    /// When it was taken, in real time [ticks].
    taken: u64,
}

/// What the application is known to do.
#[derive(Debug)]
pub(super) struct Taken {
    socket: Box<[Handed]>,
    limit: usize,
    /// The first packet since the application slept and nothing else was left to do.
    first: usize,
    /// Packets that enter the socket, and those whose being taken has been counted.
    entered: usize,
    delivered: usize,
    /// What real time and V without softirqs are apart, and V at that first packet's turn [ticks].
    origin: u64,
    began: u64,
    /// V at the last softirqs, and the same in eighths.
    shown: u64,
    at: u64,
    /// When it is done with all that has entered [eighths].
    done: u64,
    /// The last is that of the present softirqs.
    ran: Vec<Ran>,
    /// How many of them began before what was counted last, and all softirqs up to their end.
    passed: usize,
    passed_total: u64,
    in_hand: Option<InHand>,
}

/// `work` after `instant`, which keeps its place among softirqs if that is nothing [eighths].
#[inline(always)]
fn after(instant: u64, work: u64) -> u64 {
    let within = if work > 0 { EIGHTHS - 1 } else { 0 };
    (instant & !within) + EIGHTHS * work
}

impl Taken {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            // Those that wait, and the block's that have not been counted yet.
            socket: vec![Handed::default(); (limit + BLOCK + 1).next_power_of_two()].into_boxed_slice(),
            limit,
            first: 0,
            entered: 0,
            delivered: 0,
            origin: 0,
            began: 0,
            shown: 0,
            at: 0,
            done: 0,
            ran: Vec::new(),
            passed: 0,
            passed_total: 0,
            in_hand: None,
        }
    }

    /// The application sleeps at `now`.
    pub(super) fn begin(&mut self, now: u64) {
        (self.origin, self.began, self.first) = (now - self.shown, self.shown, self.entered);
        (self.done, self.in_hand) = (0, None);
        self.ran.clear();
        self.ran.push(Ran::default());
        (self.passed, self.passed_total) = (0, 0);
    }

    #[inline]
    fn place(&self, number: usize) -> usize {
        number & (self.socket.len() - 1)
    }

    /// Softirqs, those that a packet follows or that processed it, have lasted until `now`.
    #[inline]
    pub(super) fn ran_until(&mut self, now: u64) {
        let total = now - self.origin - self.shown;
        if let Some(last) = self.ran.last_mut() {
            last.total = total;
        }
    }

    /// Without softirqs for `time` [ticks], until others begin.
    #[inline]
    pub(super) fn goes_on(&mut self, time: u64) {
        self.shown += time;
        let within = if time == 0 { (self.at % EIGHTHS + 2).min(EIGHTHS - 2) } else { 0 };
        self.at = EIGHTHS * self.shown + within;
        let total = self.ran.last().map_or(0, |ran| ran.total);
        self.ran.push(Ran { at: self.at, total });
    }

    /// True if the application sleeps when a packet is processed.
    #[inline]
    pub(super) fn asleep(&self) -> bool {
        self.done <= self.at
    }

    /// True if the socket is full when a packet is processed.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket[self.place(self.entered.wrapping_sub(self.limit))].taken > self.at
    }

    /// A packet enters the socket; `switch`: the application sleeps, and takes so long to switch to [ticks].
    #[inline]
    pub(super) fn hand(&mut self, packet: &Packet, switch: Option<u64>) {
        let taken = switch.map_or(self.done, |switch| after(self.at + 1, switch));
        self.done = after(taken, packet.application);
        let place = self.place(self.entered);
        self.socket[place] = Handed { arrived: packet.arrived, taken, done: self.done, bytes: u32::from(packet.bytes) };
        self.entered += 1;
    }

    /// What V shows at the last softirqs [eighths].
    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// What V shows at `now`, which is in softirqs or not before they ended at `ended` [eighths].
    pub(super) fn shown(&self, now: u64, ended: Option<u64>) -> u64 {
        ended.map_or(self.at, |ended| EIGHTHS * (self.shown + (now - ended)) + EIGHTHS - 1)
    }

    /// `instant` [eighths] in real time; asked in rising order.
    #[inline]
    fn real(&mut self, instant: u64) -> u64 {
        while self.passed < self.ran.len() && self.ran[self.passed].at < instant {
            self.passed_total = self.ran[self.passed].total;
            self.passed += 1;
        }
        self.origin + instant / EIGHTHS + self.passed_total
    }

    /// Counts what the application takes, and is done with, by the instant `shown` [eighths].
    pub(super) fn deliver(&mut self, shown: u64, counts: &mut Counts, latencies: &mut Histogram) {
        while self.delivered < self.entered {
            let packet = self.socket[self.place(self.delivered)];
            if packet.taken > shown {
                break;
            }
            self.finish(counts);
            let taken = self.real(packet.taken);
            self.in_hand = Some(InHand { done: packet.done, taken });
            let latency = taken - packet.arrived;
            counts.latency += u128::from(latency);
            latencies.add(latency);
            counts.delivered += 1;
            counts.delivered_bytes += u64::from(packet.bytes);
            self.delivered += 1;
        }
        if self.in_hand.is_some_and(|packet| packet.done <= shown) {
            self.finish(counts);
        }
        let passed = self.passed.min(self.ran.len() - 1);
        self.ran.drain(..passed);
        self.passed -= passed;
    }

    #[inline]
    fn finish(&mut self, counts: &mut Counts) {
        if let Some(packet) = self.in_hand.take() {
            counts.application_area += u128::from(self.real(packet.done) - packet.taken);
        }
    }

    /// When the packets came that have entered the socket, but for the last `ahead`, and have not been taken.
    pub(super) fn waiting(&self, ahead: usize) -> impl Iterator<Item = u64> {
        (self.delivered..self.entered - ahead).map(|number| self.socket[self.place(number)].arrived)
    }

    /// What the application has yet to do for all that have entered but the last `ahead`, so long after it slept [ticks of V].
    pub(super) fn rest(&self, ahead: usize, since: u64) -> u64 {
        let entered = self.entered - ahead;
        if entered == self.first {
            return 0;
        }
        (self.socket[self.place(entered - 1)].done / EIGHTHS).saturating_sub(self.began + since)
    }

    /// When the packet in hand was taken, in real time.
    pub(super) fn in_hand(&self) -> Option<u64> {
        self.in_hand.map(|packet| packet.taken)
    }

    /// Rest of the present piece of the application's work, in the last softirqs [ticks].
    pub(super) fn remaining(&self) -> u64 {
        let ends = match self.in_hand {
            Some(packet) => packet.done,
            None => self.socket[self.place(self.delivered)].taken,
        };
        ends / EIGHTHS - self.shown
    }

    /// Empties the socket.
    pub(super) fn leave(&mut self) -> Vec<Packet> {
        let numbers = self.delivered..self.entered;
        self.delivered = self.entered;
        let mut take = |number: usize| {
            let packet = std::mem::take(&mut self.socket[number & (self.socket.len() - 1)]);
            let application = packet.done / EIGHTHS - packet.taken / EIGHTHS;
            // Frames are at most 65535 bytes.
            Packet { arrived: packet.arrived, application, bytes: packet.bytes as u16, ..Packet::default() }
        };
        numbers.map(&mut take).collect()
    }
}
