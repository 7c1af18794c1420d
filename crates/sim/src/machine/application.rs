//! [`Applications`]: threads that take packets from their sockets, one at a time, and sleep when their socket is empty.
//!
//! Threads that are awake alternate: the thread that has waited longest is next. It runs until it sleeps or, if another
//! thread waits, until a scheduler tick at which its time slice is used up. Continuing after another thread costs a
//! context switch, like a wake-up.

use std::collections::VecDeque;

use netcliff_core::Host;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, NEVER, to_ticks};
use crate::fifo::{Fifo, Packet};
use crate::free_running::FreeRunning;

/// Time that a thread may run before a scheduler tick can preempt it (s): sysctl_sched_base_slice on two CPUs.
pub(crate) const SLICE_S: f64 = 1.4e-3;

/// One application and its socket.
#[derive(Debug)]
pub(crate) struct Application {
    /// Packets that wait in the socket.
    pub socket: Fifo,
    /// Whether the application is blocked on an empty socket.
    pub asleep: bool,
    /// Rest of the present piece of work [ticks].
    pub remaining: u64,
    /// Whether a context switch must be paid: true from falling asleep, or losing the CPU, until the switch back has
    /// been paid.
    pub owes_switch: bool,
    /// Time at which the packet being processed was taken [ticks]. `None` without one.
    in_hand: Option<u64>,
    limit: usize,
}

impl Application {
    /// Whether the next packet would be dropped at the socket.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket.len() >= self.limit
    }

    /// Whether the application is awake with nothing to do.
    pub(super) fn idles(&self) -> bool {
        let busy = self.remaining > 0 || self.owes_switch || !self.socket.is_empty();
        !self.asleep && !busy
    }

    /// Returns `own` plus the time that the socket's occupancy adds; a full socket adds `cold_ticks` [ticks].
    #[inline]
    fn colder(&self, own: u64, cold_ticks: f64) -> u64 {
        if cold_ticks == 0.0 {
            return own;
        }
        own + to_ticks(cold_ticks * self.socket.len() as f64 / self.limit as f64)
    }
}

/// Counts of the packets of one application up to an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SocketCounts {
    /// Packets offered to the application.
    pub offered: u64,
    /// Packets that the application has taken.
    pub delivered: u64,
    /// Frame bytes of the delivered packets.
    pub delivered_bytes: u64,
    /// Sum of the latencies of the delivered packets [ticks].
    pub latency: u128,
    /// Packets lost at the sender.
    pub dropped_sender: u64,
    /// Packets lost at the ring.
    pub dropped_ring: u64,
    /// Packets lost at the application's socket.
    pub dropped_socket: u64,
    /// CPU time of the application [ticks].
    pub cpu: u64,
}

impl SocketCounts {
    /// Packets that were delivered or lost, at any place.
    pub(crate) fn fated(&self) -> u64 {
        self.delivered + self.dropped_sender + self.dropped_ring + self.dropped_socket
    }

    /// The counts since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            offered: self.offered - earlier.offered,
            delivered: self.delivered - earlier.delivered,
            delivered_bytes: self.delivered_bytes - earlier.delivered_bytes,
            latency: self.latency - earlier.latency,
            dropped_sender: self.dropped_sender - earlier.dropped_sender,
            dropped_ring: self.dropped_ring - earlier.dropped_ring,
            dropped_socket: self.dropped_socket - earlier.dropped_socket,
            cpu: self.cpu - earlier.cpu,
        }
    }
}

/// All applications, and the order of their turns.
#[derive(Debug)]
pub(crate) struct Applications {
    each: Vec<Application>,
    /// Number of the application that has the CPU, unless something preempts it.
    running: Option<usize>,
    /// Applications that are awake and wait for the CPU, the longest waiting first.
    waiting: VecDeque<usize>,
    /// The application that had the CPU last.
    last: usize,
    /// Time at which `running` got the CPU [ticks].
    since: u64,
    scheduler: FreeRunning,
    slice: u64,
    /// Counts by application. Empty with a single application.
    pub counts: Vec<SocketCounts>,
    drop_cost: f64,
    /// Time that a full socket adds to the protocol time and to the application's time of a packet [ticks].
    cold_ticks: (f64, f64),
}

impl Applications {
    /// The applications of `host`, all asleep. `None` if the host models none.
    pub(super) fn new(host: &Host, clock: Clock, scheduler: FreeRunning) -> Option<Self> {
        let each: Vec<Application> = host
            .each_application()
            .iter()
            .map(|one| Application {
                socket: Fifo::new(),
                asleep: true,
                remaining: 0,
                owes_switch: true,
                in_hand: None,
                limit: usize::try_from(one.buffer).unwrap_or(usize::MAX),
            })
            .collect();
        (!each.is_empty()).then(|| Self {
            counts: vec![SocketCounts::default(); if each.len() > 1 { each.len() } else { 0 }],
            each,
            running: None,
            waiting: VecDeque::new(),
            last: 0,
            since: 0,
            scheduler,
            slice: clock.whole(SLICE_S),
            drop_cost: host.socket_drop_cost,
            cold_ticks: (clock.ticks(host.cold_protocol_s), clock.ticks(host.cold_application_s)),
        })
    }

    /// Takes over the state of the single application: it continues with `remaining` of its work [ticks] or, if that is
    /// `None`, has just been woken and waits for the CPU.
    pub(super) fn resume(&mut self, socket: &[Packet], remaining: Option<u64>, in_hand: Option<u64>) {
        let one = &mut self.each[0];
        socket.iter().for_each(|packet| one.socket.push(*packet));
        (one.asleep, one.owes_switch, one.in_hand) = (false, remaining.is_none(), in_hand);
        one.remaining = remaining.unwrap_or(0);
        if remaining.is_some() {
            self.running = Some(0);
        } else {
            self.waiting.push_back(0);
        }
    }

    /// The application that receives packets of `socket`.
    #[inline]
    pub(super) fn of(&mut self, socket: u16) -> &mut Application {
        &mut self.each[usize::from(socket)]
    }

    /// The application that has the CPU.
    #[inline]
    pub(super) fn running(&mut self) -> Option<&mut Application> {
        self.running.map(|place| &mut self.each[place])
    }

    /// The application that has the CPU, read-only.
    #[inline]
    pub(super) fn now_running(&self) -> Option<&Application> {
        self.running.map(|place| &self.each[place])
    }

    /// Records that the running application has taken a packet.
    #[inline]
    pub(super) fn took(&mut self, now: u64) {
        if let Some(application) = self.running() {
            application.in_hand = Some(now);
        }
    }

    /// Records that the running application has finished its piece of work. Returns the time at which it took the
    /// packet that it processed [ticks]; `None` if it processed no packet.
    #[inline]
    pub(super) fn done(&mut self) -> Option<u64> {
        self.running()?.in_hand.take()
    }

    /// Times at which the packets being processed were taken, over all applications [ticks].
    pub(super) fn taken(&self) -> impl Iterator<Item = u64> {
        self.each.iter().filter_map(|application| application.in_hand)
    }

    /// The sockets of all applications.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Fifo> {
        self.each.iter().map(|application| &application.socket)
    }

    /// The counts of the application that receives packets of `socket`. `None` with a single application.
    #[inline]
    pub(super) fn counts_of(&mut self, socket: u16) -> Option<&mut SocketCounts> {
        self.counts.get_mut(usize::from(socket))
    }

    /// Charges CPU time to the running application [ticks].
    #[inline]
    pub(super) fn book(&mut self, spent: u64) {
        if let Some(counts) = self.running.and_then(|place| self.counts.get_mut(place)) {
            counts.cpu += spent;
        }
    }

    /// Protocol time of a packet for `socket`; `own` is the time with an empty socket [ticks].
    #[inline]
    pub(super) fn protocol_ticks(&self, socket: u16, own: u64) -> u64 {
        self.each[usize::from(socket)].colder(own, self.cold_ticks.0)
    }

    /// The running application's time for a packet; `own` is the time if it is the only one in the socket [ticks].
    #[inline]
    pub(super) fn application_ticks(&self, own: u64) -> u64 {
        self.now_running().map_or(own, |application| application.colder(own, self.cold_ticks.1))
    }

    /// Protocol time of a packet that is dropped because its socket is full; `own` is its usual time [ticks].
    pub(super) fn dropped_work(&self, own: u64) -> u64 {
        if self.drop_cost == 1.0 { own } else { to_ticks(own as f64 * self.drop_cost) }
    }

    /// Wakes a sleeping application, for which a packet arrived: it waits for the CPU.
    pub(super) fn wake(&mut self, socket: u16) {
        self.waiting.push_back(usize::from(socket));
    }

    /// Blocks the running application until its next packet.
    pub(super) fn fall_asleep(&mut self) {
        if let Some(place) = self.running.take() {
            let application = &mut self.each[place];
            (application.asleep, application.owes_switch) = (true, true);
        }
    }

    /// Whether an application is awake.
    #[inline]
    pub(super) fn awake(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// Number of applications that wait for the CPU.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves the running application behind the waiting ones.
    pub(super) fn yield_cpu(&mut self) {
        self.waiting.extend(self.running.take());
    }

    /// Gives the CPU to the application that has waited longest, at `now`.
    pub(super) fn take_turn(&mut self, now: u64) {
        let Some(place) = self.waiting.pop_front() else { return };
        self.each[place].owes_switch |= place != self.last;
        (self.running, self.last, self.since) = (Some(place), place, now);
    }

    /// Whether another application waits and, at the last tick, the running application's time slice was used up.
    #[inline]
    pub(super) fn turn_is_over(&self, now: u64) -> bool {
        !self.waiting.is_empty() && self.scheduler.since(self.since + self.slice, now)
    }

    /// The scheduler's next tick after `now` [ticks]; [`NEVER`] if no other application waits.
    #[inline]
    pub(super) fn next_tick(&self, now: u64) -> u64 {
        if self.waiting.is_empty() { NEVER } else { self.scheduler.next(now) }
    }
}
