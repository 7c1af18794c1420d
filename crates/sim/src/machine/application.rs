//! [`Applications`]: threads that take packets from their sockets, one at a time, and sleep when there are none.
//!
//! Those that are awake take turns: the one that has waited longest goes first, and keeps the CPU until it sleeps or, with
//! another waiting, a tick of the scheduler finds its slice used up. Going on after another costs a context switch, as
//! waking up does.

use std::collections::VecDeque;

use netcliff_core::Host;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, NEVER};
use crate::draw::to_ticks;
use crate::fifo::{Fifo, Packet};
use crate::free_running::FreeRunning;

/// What a thread runs before a tick may take the CPU from it: sysctl_sched_base_slice of two CPUs (s).
pub(crate) const SLICE_S: f64 = 1.4e-3;

/// One application and its socket.
#[derive(Debug)]
pub(crate) struct Application {
    /// Packets that wait to be taken.
    pub socket: Fifo,
    /// True while blocked on an empty socket.
    pub asleep: bool,
    /// Rest of the work in hand [ticks].
    pub remaining: u64,
    /// True from falling asleep, or from another's having the CPU, until the switch back has been paid.
    pub owes_switch: bool,
    /// When the packet in hand was taken [ticks].
    in_hand: Option<u64>,
    limit: usize,
}

impl Application {
    /// True if the next packet would be dropped at the socket.
    #[inline]
    pub(super) fn full(&self) -> bool {
        self.socket.len() >= self.limit
    }

    /// True if awake with nothing to do.
    pub(super) fn idles(&self) -> bool {
        let busy = self.remaining > 0 || self.owes_switch || !self.socket.is_empty();
        !self.asleep && !busy
    }

    /// `own` and what the socket's occupancy adds to it when a full socket adds `cold_ticks` [ticks].
    #[inline]
    fn colder(&self, own: u64, cold_ticks: f64) -> u64 {
        if cold_ticks == 0.0 {
            return own;
        }
        own + to_ticks(cold_ticks * self.socket.len() as f64 / self.limit as f64)
    }
}

/// What became of the packets of one application up to an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SocketCounts {
    /// Packets offered that are for it.
    pub offered: u64,
    /// Packets it has taken.
    pub delivered: u64,
    /// Their frame bytes.
    pub delivered_bytes: u64,
    /// Their latencies, added up [ticks].
    pub latency: u128,
    /// Packets for it that were lost at the sender.
    pub dropped_sender: u64,
    /// At the ring.
    pub dropped_ring: u64,
    /// At its socket.
    pub dropped_socket: u64,
    /// Its CPU time [ticks].
    pub cpu: u64,
}

impl SocketCounts {
    /// Packets for it that were delivered or lost, wherever.
    pub(crate) fn fated(&self) -> u64 {
        self.delivered + self.dropped_sender + self.dropped_ring + self.dropped_socket
    }

    /// What was added since `earlier`.
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

/// All applications, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Applications {
    each: Vec<Application>,
    /// The one that has the CPU, unless something preempts it.
    running: Option<usize>,
    /// Those awake without it, the longest waiting first.
    waiting: VecDeque<usize>,
    /// The one that had it last.
    last: usize,
    /// When `running` got it [ticks].
    since: u64,
    scheduler: FreeRunning,
    slice: u64,
    /// By application, where there are several.
    pub counts: Vec<SocketCounts>,
    drop_cost: f64,
    /// What a full socket adds to the protocol time and to the application's time of a packet [ticks].
    cold_ticks: (f64, f64),
}

impl Applications {
    /// The applications of `host`, asleep; None if it models none.
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

    /// Hands the one application `socket`; it goes on with `remaining` of its work, or has been woken and waits for the CPU.
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

    /// The application that a packet is for.
    #[inline]
    pub(super) fn of(&mut self, socket: u16) -> &mut Application {
        &mut self.each[usize::from(socket)]
    }

    /// The one that has the CPU.
    #[inline]
    pub(super) fn running(&mut self) -> Option<&mut Application> {
        self.running.map(|place| &mut self.each[place])
    }

    /// The same, read-only.
    #[inline]
    pub(super) fn now_running(&self) -> Option<&Application> {
        self.running.map(|place| &self.each[place])
    }

    /// The running application has taken a packet.
    #[inline]
    pub(super) fn took(&mut self, now: u64) {
        if let Some(application) = self.running() {
            application.in_hand = Some(now);
        }
    }

    /// The running application's piece of work is done: when it took the packet that it had in hand, if any.
    #[inline]
    pub(super) fn done(&mut self) -> Option<u64> {
        self.running()?.in_hand.take()
    }

    /// Since when the packets in hand are there, of all applications [ticks].
    pub(super) fn taken(&self) -> impl Iterator<Item = u64> {
        self.each.iter().filter_map(|application| application.in_hand)
    }

    /// All sockets.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Fifo> {
        self.each.iter().map(|application| &application.socket)
    }

    /// The counts of the application that a packet is for; None where there is one application only.
    #[inline]
    pub(super) fn counts_of(&mut self, socket: u16) -> Option<&mut SocketCounts> {
        self.counts.get_mut(usize::from(socket))
    }

    /// Books CPU time of the running application [ticks].
    #[inline]
    pub(super) fn book(&mut self, spent: u64) {
        if let Some(counts) = self.running.and_then(|place| self.counts.get_mut(place)) {
            counts.cpu += spent;
        }
    }

    /// Protocol time of a packet for `socket` that `own` would take with an empty socket [ticks].
    #[inline]
    pub(super) fn protocol_ticks(&self, socket: u16, own: u64) -> u64 {
        self.each[usize::from(socket)].colder(own, self.cold_ticks.0)
    }

    /// The running application's time for a packet that `own` would take as the only one in the socket [ticks].
    #[inline]
    pub(super) fn application_ticks(&self, own: u64) -> u64 {
        self.now_running().map_or(own, |application| application.colder(own, self.cold_ticks.1))
    }

    /// Protocol time of a packet that finds its socket full [ticks].
    pub(super) fn dropped_work(&self, own: u64) -> u64 {
        if self.drop_cost == 1.0 { own } else { to_ticks(own as f64 * self.drop_cost) }
    }

    /// A packet came for a sleeper: it waits for the CPU.
    pub(super) fn wake(&mut self, socket: u16) {
        self.waiting.push_back(usize::from(socket));
    }

    /// The running application blocks until the next packet.
    pub(super) fn fall_asleep(&mut self) {
        if let Some(place) = self.running.take() {
            let application = &mut self.each[place];
            (application.asleep, application.owes_switch) = (true, true);
        }
    }

    /// True if one is awake.
    #[inline]
    pub(super) fn awake(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// How many wait for the CPU.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The running application goes behind those that wait.
    pub(super) fn yield_cpu(&mut self) {
        self.waiting.extend(self.running.take());
    }

    /// The longest waiting gets the CPU at `now`.
    pub(super) fn take_turn(&mut self, now: u64) {
        let Some(place) = self.waiting.pop_front() else { return };
        self.each[place].owes_switch |= place != self.last;
        (self.running, self.last, self.since) = (Some(place), place, now);
    }

    /// True if another waits and the last tick found the running one's slice used up.
    #[inline]
    pub(super) fn turn_is_over(&self, now: u64) -> bool {
        !self.waiting.is_empty() && self.scheduler.since(self.since + self.slice, now)
    }

    /// The scheduler's next tick after `now` where another waits [ticks]; [`NEVER`] where none does.
    #[inline]
    pub(super) fn next_tick(&self, now: u64) -> u64 {
        if self.waiting.is_empty() { NEVER } else { self.scheduler.next(now) }
    }
}
