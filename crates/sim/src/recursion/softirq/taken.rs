//! [`Taken`]: times at which the application takes packets, on a clock V that stands still while softirqs run. Real
//! time is V plus all softirqs that started before.
//!
//! An instant of V is measured in eighths of a tick ([`EIGHTHS`]). Softirqs that start at v have the instant 8 v;
//! further softirqs that follow at once have 8 v + 2, 4 and 6. If an application is woken and its context switch takes
//! no time, it takes its packet between two of these.

use crate::fifo::Packet;
use crate::random::BLOCK;
use crate::recursion::handled::{ABREAST, Handled, NONE, began_before};
use crate::tally::{Counts, Histogram};

/// Number of instants of V per tick.
const EIGHTHS: u64 = 8;
/// Value of `slept` if the application does not sleep.
const AWAKE: u64 = u64::MAX;

/// A packet in the socket.
#[derive(Debug, Clone, Copy, Default)]
struct Handed {
    arrived: u64,
    /// Times at which the application takes the packet and finishes it [eighths].
    taken: u64,
    done: u64,
    /// If this packet wakes the application: the real time at which the application fell asleep [ticks]. Otherwise
    /// [`AWAKE`].
    slept: u64,
    bytes: u32,
}

/// Returns the instant `work` after `instant` [eighths]. If `work` is 0, the order relative to softirqs is preserved.
#[inline(always)]
fn after(instant: u64, work: u64) -> u64 {
    let within = if work > 0 { EIGHTHS - 1 } else { 0 };
    (instant & !within) + EIGHTHS * work
}

/// The computed part of the application's work.
#[derive(Debug)]
pub(super) struct Taken {
    socket: Box<[Handed]>,
    limit: usize,
    /// Number of packets that entered the socket.
    entered: usize,
    /// Number of packets counted as taken.
    delivered: usize,
    /// Number of the first packet since the CPU was last idle.
    first: usize,
    /// Clock V (which stands still in softirqs) at the time when the CPU was last idle [ticks].
    began: u64,
    /// Difference between real time and V without softirqs [ticks].
    origin: u64,
    /// V at the latest softirqs [ticks].
    shown: u64,
    /// V at the latest softirqs [eighths].
    at: u64,
    /// Time at which the application has finished all packets in the socket [eighths].
    done: u64,
    /// Softirqs since an interrupt, from the last one before the uncounted packets [eighths], followed by [`NONE`]
    /// entries.
    ran: Vec<Handled>,
    /// Start of the application's present busy period [ticks].
    busy_since: u64,
}

impl Taken {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            // Room for waiting packets, and for packets of the block that have not been counted yet.
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

    /// Starts with the application asleep at `now`.
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

    /// Records that the present softirqs have lasted until `now`.
    #[inline]
    pub(super) fn ran_until(&mut self, now: u64) {
        let last = self.ran.len() - ABREAST - 1;
        self.ran[last].total = now - self.origin - self.shown;
    }

    /// Records that no softirqs ran for `time` [ticks] and that the next softirqs start then.
    #[inline]
    pub(super) fn goes_on(&mut self, time: u64) {
        self.shown += time;
        let within = if time == 0 { (self.at % EIGHTHS + 2).min(EIGHTHS - 2) } else { 0 };
        self.at = EIGHTHS * self.shown + within;
        let next = self.ran.len() - ABREAST;
        self.ran[next] = Handled { at: self.at, total: self.ran[next - 1].total };
        self.ran.push(NONE);
    }

    /// Whether the application sleeps when the present packet is processed.
    #[inline]
    pub(super) fn asleep(&self) -> bool {
        self.done <= self.at
    }

    /// Whether the socket is full when the present packet is processed.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket[self.place(self.entered.wrapping_sub(self.limit))].taken > self.at
    }

    /// Puts a packet into the socket. The present softirqs started at `began` in real time. `switch` is the time to
    /// switch to the application [ticks], `None` if the application is awake.
    #[inline]
    pub(super) fn hand(&mut self, packet: &Packet, began: u64, switch: Option<u64>) {
        let taken = switch.map_or(self.done, |switch| after(self.at + 1, switch));
        // Valid because no softirqs have run since the application fell asleep.
        let slept = switch.map_or(AWAKE, |_| began - (self.shown - self.done / EIGHTHS));
        self.done = after(taken, packet.application);
        let place = self.place(self.entered);
        self.socket[place] =
            Handed { arrived: packet.arrived, taken, done: self.done, slept, bytes: u32::from(packet.bytes) };
        self.entered += 1;
    }

    /// V at the latest softirqs [eighths].
    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Clock V (which stands still in softirqs) at `now` [eighths]. `ended` is the time at which softirqs ended, `None`
    /// if they run.
    pub(super) fn shown(&self, now: u64, ended: Option<u64>) -> u64 {
        ended.map_or(self.at, |ended| EIGHTHS * (self.shown + (now - ended)) + EIGHTHS - 1)
    }

    /// Counts the packets that the application takes by the instant `shown` [eighths].
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
        // Do not remove the last entry: these softirqs may still run.
        self.ran.drain(..unpassed - 1);
    }

    /// Time for which the application has been busy at `at`, since it last slept [ticks]. `shown` is clock V at `at`;
    /// the packets taken by then must have been counted.
    pub(super) fn busy(&self, at: u64, shown: u64) -> u64 {
        let done = self.last_done();
        if done > shown {
            return at - self.busy_since;
        }
        let unpassed = began_before(&self.ran, 1, done);
        self.origin + done / EIGHTHS + self.ran[unpassed - 1].total - self.busy_since
    }

    /// Time at which the application finishes the packet that it took last [eighths].
    fn last_done(&self) -> u64 {
        if self.delivered == self.first {
            return EIGHTHS * self.began;
        }
        self.socket[self.place(self.delivered - 1)].done
    }

    /// Arrival times of the packets in the socket that have not been taken, except the last `ahead` packets.
    pub(super) fn waiting(&self, ahead: usize) -> impl Iterator<Item = u64> {
        (self.delivered..self.entered - ahead).map(|number| self.socket[self.place(number)].arrived)
    }

    /// The application's remaining work for all packets in the socket except the last `ahead`, when clock V has
    /// advanced by `since` since the application slept [ticks of V].
    pub(super) fn rest(&self, ahead: usize, since: u64) -> u64 {
        let entered = self.entered - ahead;
        if entered == self.first {
            return 0;
        }
        (self.socket[self.place(entered - 1)].done / EIGHTHS).saturating_sub(self.began + since)
    }

    /// State at the latest softirqs, if the application was at work before: the rest of its present piece of work, and
    /// the time since which it has been processing packets (`None` during the switch to the application) [ticks].
    pub(super) fn at_work(&self) -> (u64, Option<u64>) {
        let done = self.last_done();
        if done > self.at {
            return (done / EIGHTHS - self.shown, Some(self.busy_since));
        }
        (self.socket[self.place(self.delivered)].taken / EIGHTHS - self.shown, None)
    }

    /// Empties the socket and returns its packets.
    pub(super) fn leave(&mut self) -> Vec<Packet> {
        let mask = self.socket.len() - 1;
        let numbers = self.delivered..self.entered;
        numbers.map(|number| left(std::mem::take(&mut self.socket[number & mask]))).collect()
    }
}

/// Converts a packet to the form in which the event-driven machine stores it in the socket.
fn left(packet: Handed) -> Packet {
    let application = packet.done / EIGHTHS - packet.taken / EIGHTHS;
    // Frames are at most 65535 bytes.
    Packet { arrived: packet.arrived, application, bytes: packet.bytes as u16, ..Packet::default() }
}
