//! [`Taken`]: when the application takes packets, on the clock V that stands still while softirqs run, and what that is in real time: V and all softirqs
//! that began before.
//!
//! An instant of V is kept in eighths of a tick ([`EIGHTHS`]): softirqs that begin at v do so at 8 v, with others that follow them at once at 8 v + 2, 4 and
//! 6; an application that they wake, and that takes no time to switch to, takes its packet between them.

use crate::fifo::Packet;
use crate::random::BLOCK;
use crate::tally::{Counts, Histogram};

/// Instants of V in a tick.
pub(super) const EIGHTHS: u64 = 8;
/// Softirqs that are compared with an instant at once; so many that never begin follow the last.
pub(super) const ABREAST: usize = 4;

/// A packet in the socket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handed {
    pub arrived: u64,
    /// When it is taken, and when the application is done with it [eighths].
    pub taken: u64,
    pub done: u64,
    /// When the application fell asleep that this packet wakes, in real time [ticks]; [`AWAKE`].
    pub slept: u64,
    pub bytes: u32,
}

/// Softirqs, from an interrupt on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    /// [eighths]
    pub at: u64,
    /// All softirqs up to their end [ticks].
    pub total: u64,
}

/// The application does not sleep.
const AWAKE: u64 = u64::MAX;
/// No softirqs.
pub(super) const NONE: Ran = Ran { at: u64::MAX, total: 0 };

/// Where V and the application have come to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Packets that enter the socket.
    pub entered: usize,
    /// What real time and V without softirqs are apart [ticks].
    pub origin: u64,
    /// V at the last softirqs, and the same in eighths.
    pub shown: u64,
    pub at: u64,
    /// When the application is done with all that has entered [eighths].
    pub done: u64,
}

/// `work` after `instant`, which keeps its place among softirqs if that is nothing [eighths].
#[inline(always)]
pub(super) fn after(instant: u64, work: u64) -> u64 {
    let within = if work > 0 { EIGHTHS - 1 } else { 0 };
    (instant & !within) + EIGHTHS * work
}

impl Course {
    /// True if the application sleeps when a packet is processed.
    #[inline(always)]
    pub(super) fn asleep(&self) -> bool {
        self.done <= self.at
    }

    /// A packet for the socket, in softirqs that began at `began` in real time; the application that sleeps takes `switch` to switch to [ticks].
    #[inline(always)]
    pub(super) fn hand(&mut self, packet: &Packet, began: u64, asleep: bool, switch: u64) -> Handed {
        let taken = if asleep { after(self.at + 1, switch) } else { self.done };
        // From then on no softirqs ran.
        let slept = if asleep { began - (self.shown - self.done / EIGHTHS) } else { AWAKE };
        self.done = after(taken, packet.application);
        Handed { arrived: packet.arrived, taken, done: self.done, slept, bytes: u32::from(packet.bytes) }
    }
}

/// What the application is known to do.
#[derive(Debug)]
pub(super) struct Taken {
    pub socket: Box<[Handed]>,
    pub limit: usize,
    pub course: Course,
    /// All softirqs that were not passed, then [`NONE`].
    pub ran: Vec<Ran>,
    /// The first packet since the application slept and nothing else was left to do, and V then [ticks].
    first: usize,
    began: u64,
    /// Packets whose being taken has been counted.
    delivered: usize,
    /// Softirqs before what was counted last, and when the application began with what it has been busy with since [ticks].
    passed: u64,
    busy_since: u64,
}

impl Taken {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            // Those that wait, and the block's that have not been counted yet.
            socket: vec![Handed::default(); (limit + BLOCK + 1).next_power_of_two()].into_boxed_slice(),
            limit,
            course: Course::default(),
            ran: Vec::new(),
            first: 0,
            began: 0,
            delivered: 0,
            passed: 0,
            busy_since: 0,
        }
    }

    /// The application sleeps at `now`.
    pub(super) fn begin(&mut self, now: u64) {
        let course = &mut self.course;
        (course.origin, course.done) = (now - course.shown, EIGHTHS * course.shown);
        (self.first, self.began, self.delivered) = (course.entered, course.shown, course.entered);
        (self.passed, self.busy_since) = (0, now);
        self.ran.clear();
        self.ran.push(Ran { at: 0, total: 0 });
        self.ran.extend([NONE; ABREAST]);
    }

    #[inline]
    fn place(&self, number: usize) -> usize {
        number & (self.socket.len() - 1)
    }

    /// Softirqs, those that a packet follows or that processed it, have lasted until `now`.
    #[inline]
    pub(super) fn ran_until(&mut self, now: u64) {
        let last = self.ran.len() - ABREAST - 1;
        self.ran[last].total = now - self.course.origin - self.course.shown;
    }

    /// Without softirqs for `time` [ticks], until others begin.
    #[inline]
    pub(super) fn goes_on(&mut self, time: u64) {
        let course = &mut self.course;
        course.shown += time;
        let within = if time == 0 { (course.at % EIGHTHS + 2).min(EIGHTHS - 2) } else { 0 };
        course.at = EIGHTHS * course.shown + within;
        let next = self.ran.len() - ABREAST;
        self.ran[next] = Ran { at: course.at, total: self.ran[next - 1].total };
        self.ran.push(NONE);
    }

    /// True if the socket is full when a packet is processed.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket[self.place(self.course.entered.wrapping_sub(self.limit))].taken > self.course.at
    }

    /// A packet enters the socket.
    #[inline]
    pub(super) fn enter(&mut self, packet: Handed) {
        let place = self.place(self.course.entered);
        self.socket[place] = packet;
        self.course.entered += 1;
    }

    /// What V shows at `now`, which is in softirqs or not before they ended at `ended` [eighths].
    pub(super) fn shown(&self, now: u64, ended: Option<u64>) -> u64 {
        let course = &self.course;
        ended.map_or(course.at, |ended| EIGHTHS * (course.shown + (now - ended)) + EIGHTHS - 1)
    }

    /// Counts what the application takes by the instant `shown` [eighths].
    pub(super) fn deliver(&mut self, shown: u64, counts: &mut Counts, latencies: &mut Histogram) {
        let mask = self.socket.len() - 1;
        let socket = &self.socket[..=mask];
        let (first, mut delivered, mut unpassed) = (self.delivered, self.delivered, 0);
        let (mut passed, mut busy_since, mut sum, mut busy) = (self.passed, self.busy_since, 0_u128, 0_u64);
        while delivered < self.course.entered {
            let packet = &socket[delivered & mask];
            if packet.taken > shown {
                break;
            }
            // How many softirqs began before it, several compared at once: no branch would predict it.
            let before = unpassed;
            loop {
                let next = &self.ran[unpassed..unpassed + ABREAST];
                let began: usize = next.iter().map(|ran| usize::from(ran.at < packet.taken)).sum();
                unpassed += began;
                if began < ABREAST {
                    break;
                }
            }
            passed = if unpassed == before { passed } else { self.ran[unpassed - 1].total };
            let taken = self.course.origin + packet.taken / EIGHTHS + passed;
            let woken = packet.slept != AWAKE;
            busy += if woken { packet.slept - busy_since } else { 0 };
            busy_since = if woken { taken } else { busy_since };
            let latency = taken - packet.arrived;
            sum += u128::from(latency);
            latencies.add(latency);
            counts.delivered_bytes += u64::from(packet.bytes);
            delivered += 1;
        }
        counts.latency += sum;
        counts.application_area += u128::from(busy);
        counts.delivered += (delivered - first) as u64;
        (self.delivered, self.passed, self.busy_since) = (delivered, passed, busy_since);
        // The last may last on.
        self.ran.drain(..unpassed.min(self.ran.len() - ABREAST - 1));
    }

    /// How long the application has been busy, when V shows `shown` at `at` and all that it has taken by then has been counted, since it last slept [ticks].
    pub(super) fn busy(&self, at: u64, shown: u64) -> u64 {
        let done = self.last_done();
        let over = done <= shown;
        // No softirqs but those that were passed, or else those that began before it was done.
        let ran = self
            .ran
            .iter()
            .take_while(|ran| ran.at < done)
            .last()
            .map_or(self.passed, |ran| ran.total.max(self.passed));
        let until = if over { self.course.origin + done / EIGHTHS + ran } else { at };
        until - self.busy_since
    }

    /// When the application is done with the packet that it took last [eighths].
    fn last_done(&self) -> u64 {
        if self.delivered == self.first {
            return EIGHTHS * self.began;
        }
        self.socket[self.place(self.delivered - 1)].done
    }

    /// When the packets came that have entered the socket, but for the last `ahead`, and have not been taken.
    pub(super) fn waiting(&self, ahead: usize) -> impl Iterator<Item = u64> {
        (self.delivered..self.course.entered - ahead).map(|number| self.socket[self.place(number)].arrived)
    }

    /// What the application has yet to do for all that have entered but the last `ahead`, so long after it slept [ticks of V].
    pub(super) fn rest(&self, ahead: usize, since: u64) -> u64 {
        let entered = self.course.entered - ahead;
        if entered == self.first {
            return 0;
        }
        (self.socket[self.place(entered - 1)].done / EIGHTHS).saturating_sub(self.began + since)
    }

    /// In the last softirqs, before which the application was at work: what is left of its present piece of work, and since when it is busy with packets,
    /// if that is not the switch to it [ticks].
    pub(super) fn at_work(&self) -> (Option<u64>, Option<u64>) {
        let done = self.last_done();
        if done > self.course.at {
            return (Some(done / EIGHTHS - self.course.shown), Some(self.busy_since));
        }
        (Some(self.socket[self.place(self.delivered)].taken / EIGHTHS - self.course.shown), None)
    }

    /// Empties the socket.
    pub(super) fn leave(&mut self) -> Vec<Packet> {
        let mask = self.socket.len() - 1;
        let numbers = self.delivered..self.course.entered;
        numbers.map(|number| left(std::mem::take(&mut self.socket[number & mask]))).collect()
    }
}

/// A packet as it waits in the socket.
fn left(packet: Handed) -> Packet {
    let application = packet.done / EIGHTHS - packet.taken / EIGHTHS;
    // Frames are at most 65535 bytes.
    Packet { arrived: packet.arrived, application, bytes: packet.bytes as u16, ..Packet::default() }
}
