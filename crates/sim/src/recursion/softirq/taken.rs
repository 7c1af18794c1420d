//! [`Taken`]: when the application takes packets, on the clock V that stands still while softirqs run, and what that is in real time: V and all softirqs
//! that began before.
//!
//! An instant of V is kept in eighths of a tick ([`EIGHTHS`]): softirqs that begin at v do so at 8 v, with others that follow them at once at 8 v + 2, 4 and
//! 6; an application that they wake, and that takes no time to switch to, takes its packet between them.

use crate::fifo::Packet;
use crate::random::BLOCK;
use crate::recursion::handled::{ABREAST, Handled, NONE, began_before};
use crate::tally::{Counts, Histogram};

/// Instants of V in a tick.
const EIGHTHS: u64 = 8;
/// The application does not sleep.
const AWAKE: u64 = u64::MAX;

/// A packet in the socket.
#[derive(Debug, Clone, Copy, Default)]
struct Handed {
    arrived: u64,
    /// When it is taken, and when the application is done with it [eighths].
    taken: u64,
    done: u64,
    /// When the application fell asleep that this packet wakes, in real time [ticks]; [`AWAKE`].
    slept: u64,
    bytes: u32,
}

/// `work` after `instant`, which keeps its place among softirqs if that is nothing [eighths].
#[inline(always)]
fn after(instant: u64, work: u64) -> u64 {
    let within = if work > 0 { EIGHTHS - 1 } else { 0 };
    (instant & !within) + EIGHTHS * work
}

/// What the application is known to do.
#[derive(Debug)]
pub(super) struct Taken {
    socket: Box<[Handed]>,
    limit: usize,
    /// Packets that enter the socket, and those whose being taken has been counted.
    entered: usize,
    delivered: usize,
    /// The first since the application slept and nothing else was left to do, and V then [ticks].
    first: usize,
    began: u64,
    /// What real time and V without softirqs are apart [ticks].
    origin: u64,
    /// V at the last softirqs, and the same in eighths.
    shown: u64,
    at: u64,
    /// When the application is done with all that has entered [eighths].
    done: u64,
    /// Softirqs, from an interrupt on, from the last before what was counted on [eighths], then [`NONE`].
    ran: Vec<Handled>,
    /// When the application began with what it has been busy with since [ticks].
    busy_since: u64,
}

impl Taken {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            // Those that wait, and the block's that have not been counted yet.
            socket: vec![Handed::default(); (limit + BLOCK + 1).next_power_of_two()].into_boxed_slice(),
            limit,
            entered: 0,
            delivered: 0,
            first: 0,
            began: 0,
            origin: 0,
            shown: 0,
            at: 0,
            done: 0,
            ran: Vec::new(),
            busy_since: 0,
        }
    }

    /// The application sleeps at `now`.
    pub(super) fn begin(&mut self, now: u64) {
        (self.origin, self.done) = (now - self.shown, EIGHTHS * self.shown);
        (self.first, self.began, self.delivered) = (self.entered, self.shown, self.entered);
        self.busy_since = now;
        self.ran.clear();
        self.ran.push(Handled { at: 0, total: 0 });
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
        self.ran[last].total = now - self.origin - self.shown;
    }

    /// Without softirqs for `time` [ticks], until others begin.
    #[inline]
    pub(super) fn goes_on(&mut self, time: u64) {
        self.shown += time;
        let within = if time == 0 { (self.at % EIGHTHS + 2).min(EIGHTHS - 2) } else { 0 };
        self.at = EIGHTHS * self.shown + within;
        let next = self.ran.len() - ABREAST;
        self.ran[next] = Handled { at: self.at, total: self.ran[next - 1].total };
        self.ran.push(NONE);
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

    /// A packet enters the socket in softirqs that began at `began` in real time; `switch`: the application sleeps, and takes so long to switch to [ticks].
    #[inline]
    pub(super) fn hand(&mut self, packet: &Packet, began: u64, switch: Option<u64>) {
        let taken = switch.map_or(self.done, |switch| after(self.at + 1, switch));
        // From when it fell asleep no softirqs ran.
        let slept = switch.map_or(AWAKE, |_| began - (self.shown - self.done / EIGHTHS));
        self.done = after(taken, packet.application);
        let place = self.place(self.entered);
        self.socket[place] =
            Handed { arrived: packet.arrived, taken, done: self.done, slept, bytes: u32::from(packet.bytes) };
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

    /// Counts what the application takes by the instant `shown` [eighths].
    pub(super) fn deliver(&mut self, shown: u64, counts: &mut Counts, latencies: &mut Histogram) {
        let mask = self.socket.len() - 1;
        let socket = &self.socket[..=mask];
        let (first, mut delivered, mut unpassed) = (self.delivered, self.delivered, 1);
        let (mut busy_since, mut latency_sum, mut busy, mut bytes) = (self.busy_since, 0_u128, 0_u64, 0_u64);
        while delivered < self.entered {
            let packet = &socket[delivered & mask];
            if packet.taken > shown {
                break;
            }
            unpassed = began_before(&self.ran, unpassed, packet.taken);
            let taken = self.origin + packet.taken / EIGHTHS + self.ran[unpassed - 1].total;
            let woken = packet.slept != AWAKE;
            busy += if woken { packet.slept - busy_since } else { 0 };
            busy_since = if woken { taken } else { busy_since };
            let latency = taken - packet.arrived;
            latency_sum += u128::from(latency);
            latencies.add(latency);
            bytes += u64::from(packet.bytes);
            delivered += 1;
        }
        counts.latency += latency_sum;
        counts.application_area += u128::from(busy);
        counts.delivered += (delivered - first) as u64;
        counts.delivered_bytes += bytes;
        (self.delivered, self.busy_since) = (delivered, busy_since);
        // The last may last on.
        self.ran.drain(..unpassed - 1);
    }

    /// How long the application has been busy with packets since it last slept, at `at`, when V shows `shown` and what it has taken by then has been counted
    /// [ticks].
    pub(super) fn busy(&self, at: u64, shown: u64) -> u64 {
        let done = self.last_done();
        if done > shown {
            return at - self.busy_since;
        }
        let unpassed = began_before(&self.ran, 1, done);
        self.origin + done / EIGHTHS + self.ran[unpassed - 1].total - self.busy_since
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

    /// In the last softirqs, before which the application was at work: what is left of its present piece of work, and since when it is busy with packets,
    /// if that is not the switch to it [ticks].
    pub(super) fn at_work(&self) -> (u64, Option<u64>) {
        let done = self.last_done();
        if done > self.at {
            return (done / EIGHTHS - self.shown, Some(self.busy_since));
        }
        (self.socket[self.place(self.delivered)].taken / EIGHTHS - self.shown, None)
    }

    /// Empties the socket.
    pub(super) fn leave(&mut self) -> Vec<Packet> {
        let mask = self.socket.len() - 1;
        let numbers = self.delivered..self.entered;
        numbers.map(|number| left(std::mem::take(&mut self.socket[number & mask]))).collect()
    }
}

/// A packet as it waits in the socket.
fn left(packet: Handed) -> Packet {
    let application = packet.done / EIGHTHS - packet.taken / EIGHTHS;
    // Frames are at most 65535 bytes.
    Packet { arrived: packet.arrived, application, bytes: packet.bytes as u16, ..Packet::default() }
}
