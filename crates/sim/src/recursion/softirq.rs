//! Scheme `napi` with one application. Softirqs preempt the application. They depend on the application only by whether
//! it sleeps and whether its socket is full. The application works on a clock V that stands still while softirqs run.
//! Both times of a packet can therefore be computed when it arrives: when softirqs process it, as in [`super::serial`],
//! and when the application takes it from the socket, by Lindley's recursion on V ([`taken`]).
//!
//! The recursion ends where the kernel wakes ksoftirqd, which shares the CPU with the application. The event-driven
//! machine continues from there until the CPU is idle again.

mod counts;
mod taken;

use netcliff_core::{Napi, Point};

use super::before::{Before, Befores};
use super::disciplines::{Follows, OneNapi};
use crate::clock::{Clock, NEVER, to_ticks};
use crate::fifo::Packet;
use crate::machine::{Left, Machine, Records};
use crate::random::BLOCK;
use crate::schemes::{Limits, Linux, ROUNDS};
use crate::source::PacketBlock;
use crate::tally::Counts;
use taken::Taken;

/// Runs a replication. `None` if the host or the scheme has a feature that only the event-driven machine supports.
pub(super) fn run(
    napi: &Napi,
    point: &Point,
    clock: Clock,
    seed: u64,
    replication: u64,
    packets: u64,
) -> Option<Records> {
    let host = &point.host;
    let plain = host.cold_protocol_s == 0.0 && host.cold_application_s == 0.0 && host.interrupt_latency_s == 0.0;
    let plain = plain && host.interrupt_resume_s.is_none_or(|resume_s| resume_s == 0.0);
    if !(plain && OneNapi::does(napi) && (1..=super::LARGEST_RING).contains(&host.socket_buffer)) {
        return None;
    }
    let mut machine = Machine::new(point, clock, seed, replication, packets, ());
    let mut linux = Linux::new(napi, host, clock, &mut machine);
    let mut softirqs = Softirqs::new(napi, point, linux.limits());
    while let Some(left) = softirqs.follow(&mut machine, napi) {
        let since = left.remaining.map(|_| softirqs.since);
        machine.resume(left);
        linux.leave_to_ksoftirqd(&mut machine, since);
        while !machine.done && !linux.rests(&machine) {
            linux.step(&mut machine);
        }
        if machine.done {
            break;
        }
    }
    Some(machine.finish().0)
}

/// A packet whose protocol processing has been computed.
#[derive(Debug, Clone, Copy, Default)]
struct Processed {
    arrived: u64,
    /// Departure from protocol processing; [`NEVER`] if the event-driven machine has to process the packet.
    departs: u64,
    /// CPU time of the application for the packet, including the switch to it [ticks].
    application: u64,
    /// Whether the packet is dropped because the socket is full.
    dropped: bool,
}

/// The counters of handle_softirqs and net_rx_action.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    /// Whether softirqs run on an idle CPU; the application that they wake then gets the CPU.
    on_idle: bool,
    began: u64,
    round_began: u64,
    done: u32,
    /// Number of packets that the round may still process.
    budget: u64,
    /// Whether the end of the present round, whose last poll used its weight, has been counted.
    counted: bool,
}

/// State of the CPU since it was last idle.
struct Softirqs {
    backlog: bool,
    /// Maximum number of packets in the ring.
    ring: usize,
    drop_cost: f64,
    limits: Limits,
    packets: Box<[Processed]>,
    accepted: usize,
    taken: Taken,
    /// Number of the first packet since the CPU was last idle.
    first: usize,
    /// Time at which the CPU was last idle [ticks].
    began: u64,
    /// The latest arrival [ticks].
    now: u64,
    /// Departure of the last accepted packet.
    last: u64,
    befores: Befores,
    /// CPU time of the application for all accepted packets [ticks].
    application: u64,
    /// Time at which the backlog is moved to the process queue (next or last time).
    spliced_at: u64,
    /// The first packet that waits to be moved.
    waits_from: usize,
    rounds: Rounds,
    /// Time at which the application got the CPU.
    since: u64,
    /// Whether the application has been woken since the last interrupt.
    woke: bool,
    /// Time at which ksoftirqd is woken.
    stops_at: u64,
    /// The packets that ksoftirqd finds.
    left: Vec<Packet>,
    /// How many of the packets in `left` were spliced.
    spliced: usize,
    counts: Counts,
}

impl Softirqs {
    fn new(napi: &Napi, point: &Point, limits: Limits) -> Self {
        let ring = point.host.ring as usize;
        // enqueue_to_backlog accepts one more packet than the limit; spliced packets have room in addition.
        let (ring, inside) = if napi.backlog { (ring + 1, 2 * (ring + 1)) } else { (ring, ring) };
        let places = (inside + BLOCK).next_power_of_two();
        Self {
            backlog: napi.backlog,
            ring,
            drop_cost: point.host.socket_drop_cost,
            limits,
            packets: vec![Processed::default(); places].into_boxed_slice(),
            accepted: 0,
            taken: Taken::new(point.host.socket_buffer as usize),
            first: 0,
            began: 0,
            now: 0,
            last: 0,
            befores: Befores::default(),
            application: 0,
            spliced_at: 0,
            waits_from: 0,
            rounds: Rounds::default(),
            since: 0,
            woke: false,
            stops_at: NEVER,
            left: Vec::new(),
            spliced: 0,
            counts: Counts::default(),
        }
    }

    /// Processes packets while ksoftirqd sleeps: from a time at which `machine` is idle to the time at which ksoftirqd
    /// is woken. `None` if the replication ends first.
    fn follow(&mut self, machine: &mut Machine<()>, napi: &Napi) -> Option<Left> {
        self.begin(machine);
        let (source, times, records) = machine.parts();
        let mut instance = OneNapi::new(times, napi);
        loop {
            let next = self.now + source.gap();
            if self.counts.offered == records.next_mark() {
                if self.stops_by(next, &instance) {
                    break;
                }
                self.deliver(next, &mut instance, records.present());
                if records.push(self.counts_at(next, &mut instance), &[]) {
                    return None;
                }
            }
            let most = usize::try_from(records.next_mark() - self.counts.offered).unwrap_or(BLOCK);
            let block = source.rest_of_block(most);
            let (seen, all) = (self.arrive(&block, &mut instance), block.gaps.len());
            source.took(seen);
            self.counts.offered += seen as u64;
            if seen < all {
                break;
            }
            self.settle(records.present());
        }
        self.deliver(self.stops_at, &mut instance, records.present());
        Some(self.leave(&mut instance))
    }

    /// Starts from the state of the idle machine.
    fn begin(&mut self, machine: &mut Machine<()>) {
        (self.now, self.counts) = (machine.last_arrival(), machine.counts);
        (self.first, self.began, self.last) = (self.accepted, machine.now, machine.now);
        (self.application, self.stops_at, self.woke) = (0, NEVER, false);
        self.befores.clear();
        self.taken.begin(self.last);
        (self.spliced_at, self.waits_from) = (0, self.accepted);
    }

    fn place(&self, number: usize) -> usize {
        number & (self.packets.len() - 1)
    }

    /// Handles arrivals. Returns the number of arrivals before ksoftirqd is woken.
    fn arrive(&mut self, block: &PacketBlock<'_>, instance: &mut OneNapi<'_>) -> usize {
        for (number, gap) in block.gaps.iter().enumerate() {
            let arrived = self.now + gap;
            if instance.is_full() && self.stops_at == NEVER {
                self.stops_by_weight();
            }
            if arrived >= self.stops_at {
                return number;
            }
            self.now = arrived;
            if !self.has_room(arrived) {
                self.counts.dropped_ring += 1;
                continue;
            }
            let packet = block.packet(number, arrived);
            if self.stops_at < NEVER {
                self.leave_packet(packet);
            } else {
                self.serve(packet, instance);
            }
        }
        block.gaps.len()
    }

    #[inline]
    fn has_room(&self, arrived: u64) -> bool {
        if self.backlog {
            return arrived >= self.spliced_at || self.accepted - self.waits_from < self.ring;
        }
        self.packets[self.place(self.accepted.wrapping_sub(self.ring))].departs <= arrived
    }

    /// Computes when softirqs and the application process a packet.
    #[inline]
    fn serve(&mut self, packet: Packet, instance: &mut OneNapi<'_>) {
        let (mut began, mut interrupted) = (self.last, self.last);
        if let Some((mut before, follows)) = instance.next(packet.arrived, self.last) {
            let reached = self.reach(&mut before, follows, instance);
            self.befores.add(self.accepted, before);
            if !reached {
                return self.leave_packet(packet);
            }
            interrupted += before.first + before.idle;
            began += before.length();
        }
        if self.backlog && packet.arrived >= self.spliced_at {
            (self.spliced_at, self.waits_from) = (began, self.accepted);
        }
        let (full, asleep) = (self.taken.full(), self.taken.asleep());
        let work = if full {
            self.dropped_work(packet.protocol)
        } else if asleep {
            packet.protocol + instance.wakeup()
        } else {
            packet.protocol
        };
        self.last = began + work;
        self.taken.ran_until(self.last);
        let mut application = 0;
        let latency = u128::from(self.last - packet.arrived);
        self.counts.processed += 1;
        self.counts.processed_latency += latency;
        if full {
            self.counts.dropped_socket += 1;
            self.counts.lost_latency += latency;
        } else {
            let switch = asleep.then(|| instance.switch());
            // The first packet after an interrupt wakes a sleeping application.
            self.taken.hand(&packet, interrupted, switch);
            self.woke |= asleep;
            application = packet.application + switch.unwrap_or(0);
            self.application += application;
        }
        let place = self.place(self.accepted);
        self.packets[place] = Processed { arrived: packet.arrived, departs: self.last, application, dropped: full };
        self.accepted += 1;
    }

    /// Advances through the work before a packet. Returns false if that work wakes ksoftirqd; in this case advances
    /// only to the wake-up.
    #[inline]
    fn reach(&mut self, before: &mut Before, follows: Follows, instance: &mut OneNapi<'_>) -> bool {
        self.rounds.counted = false;
        let ended = self.last + before.first;
        self.taken.ran_until(ended);
        match follows {
            Follows::Full => {}
            Follows::Idle => {
                self.taken.goes_on(before.idle);
                self.since = if self.woke { ended } else { self.since };
                self.woke = false;
                let began = ended + before.idle + before.interrupt;
                let on_idle = self.taken.asleep();
                self.rounds =
                    Rounds { on_idle, began, round_began: began, done: 0, budget: self.limits.budget, counted: false };
            }
            Follows::Unmasking { work } => {
                let repolls = ended + before.interrupt;
                if self.leaves_next_poll(work, repolls) && self.stops_after_round(repolls) {
                    instance.give_back_overhead();
                    (before.overhead, before.polls) = (0, 0);
                    self.taken.ran_until(repolls);
                    return false;
                }
            }
        }
        true
    }

    /// Protocol time of a packet that is dropped at the full socket; `own` is its usual time [ticks].
    fn dropped_work(&self, own: u64) -> u64 {
        if self.drop_cost == 1.0 { own } else { to_ticks(own as f64 * self.drop_cost) }
    }

    /// Leaves a packet for the event-driven machine to process.
    #[cold]
    fn leave_packet(&mut self, packet: Packet) {
        let place = self.place(self.accepted);
        self.packets[place] = Processed { arrived: packet.arrived, departs: NEVER, ..Processed::default() };
        if self.backlog && packet.arrived >= self.spliced_at {
            (self.spliced_at, self.waits_from) = (NEVER, self.accepted);
        }
        self.spliced += usize::from(self.backlog && self.spliced_at < NEVER);
        self.accepted += 1;
        self.left.push(packet);
    }

    /// net_rx_action, after a poll of `work` packets whose instance is scheduled again at `now`. Returns true if the
    /// next poll is left to the next round.
    #[cold]
    fn leaves_next_poll(&mut self, work: u64, now: u64) -> bool {
        self.rounds.budget = self.rounds.budget.saturating_sub(work);
        let too_long = self.limits.too_long(self.rounds.round_began, now, self.limits.budget_jiffies);
        self.limits.older || self.rounds.budget == 0 || too_long
    }

    /// handle_softirqs, at the end of a round at `now` that leaves work pending. Returns true if ksoftirqd is woken;
    /// otherwise the next round starts.
    #[cold]
    fn stops_after_round(&mut self, now: u64) -> bool {
        self.rounds.done += 1;
        let too_long = self.limits.too_long(self.rounds.began, now, self.limits.softirq_jiffies);
        if self.rounds.done == ROUNDS || too_long || self.rounds.on_idle {
            self.stops_at = now;
            return true;
        }
        (self.rounds.round_began, self.rounds.budget) = (now, self.limits.budget);
        false
    }

    /// The poll has used its weight, so its round ends when its last packet departs.
    #[cold]
    fn stops_by_weight(&mut self) {
        if !std::mem::replace(&mut self.rounds.counted, true) {
            self.stops_after_round(self.last);
        }
    }

    /// Whether ksoftirqd is woken by `at` if no packet arrives before.
    fn stops_by(&mut self, at: u64, instance: &OneNapi<'_>) -> bool {
        if self.stops_at == NEVER && instance.is_full() && at >= self.last {
            self.stops_by_weight();
        }
        at >= self.stops_at
    }
}
