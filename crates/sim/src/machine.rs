//! [`Machine`]: one CPU with its ring, socket and clock: the parts of every scheme.
//!
//! A scheme spends the CPU's time in pieces; arrivals and the scheme's timers take place within these pieces. An event
//! list is not needed: the next event is the earliest of a handful of times.

mod application;
mod look_ahead;
mod pauses;
mod record;
pub(crate) mod sender;
mod side_load;
mod threads;
mod transmit;

use netcliff_core::{Point, Service};

use crate::clock::{Clock, NEVER, to_ticks};
use crate::draw::Draw;
use crate::fifo::{Fifo, Packet};
use crate::free_running::FreeRunning;
use crate::random::Purpose;
use crate::source::{PacketCost, Source};
use crate::tally::{Account, Counts};
pub(crate) use application::{Applications, SLICE_S, SocketCounts};
pub(crate) use pauses::Pauses;
pub(crate) use record::Records;
pub(crate) use resume::Left;
use side_load::SideLoad;

/// What happened to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketOutcome {
    /// The packet left protocol processing (and, with an application, entered the socket).
    Processed,
    /// The application took it.
    Taken,
    /// The packet was dropped because the ring was full.
    DroppedRing,
    /// The packet was dropped because the socket was full.
    DroppedSocket,
    /// The packet was dropped by the stopped sender, whose queue was full, and was never sent.
    DroppedSender,
}

/// Observes every packet's outcome. `()` observes nothing and costs nothing.
pub(crate) trait Watch {
    /// Whether the watch needs the times of events. If false, arrivals may be handled later than they occur, and idle
    /// polls skipped.
    const SEES: bool = true;

    /// Packet `number` had `outcome` at `at` [ticks].
    #[inline]
    fn outcome(&mut self, _number: u32, _outcome: PacketOutcome, _at: u64) {}

    /// A packet was put into the ring at `at` [ticks].
    #[inline]
    fn accepted(&mut self, _at: u64) {}

    /// The counts were recorded (a mark was set) at `at` [ticks]: the next part of the run begins.
    #[inline]
    fn mark(&mut self, _at: u64) {}

    /// A timer of the scheme fired at `at` [ticks].
    #[inline]
    fn timer(&mut self, _at: u64) {}

    /// The CPU was on `account` from `from` to `to` [ticks].
    #[inline]
    fn spent(&mut self, _account: Account, _from: u64, _to: u64) {}
}

impl Watch for () {
    const SEES: bool = false;
}

/// Effect of an event that is handled as an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The packet is in the ring.
    Accepted,
    /// The ring was full.
    Dropped,
    /// No packet: a transmission has ended and its completion waits for processing.
    Completion,
    /// No effect on the ring: the packet was queued at the sender, or a transmission was refused.
    Elsewhere,
    /// No packet: the replication is over.
    Ended,
}

/// Times that do not belong to a packet.
#[derive(Debug)]
pub(crate) struct Times {
    /// Duration of an interrupt; the scheme gives the mean.
    pub interrupt: Draw,
    /// Time that an application needs to continue after an interrupt.
    pub resume: Draw,
    /// Time from an interrupt's cause to its handler.
    pub delivery: Draw,
    /// Overhead of a poll.
    pub poll: Draw,
    /// Time to wake a thread.
    pub wakeup: Draw,
    /// Time to switch to a thread.
    pub switch: Draw,
    /// Mean time of one NIC register write [ticks].
    pub mask_ticks: f64,
    /// The scheduler's tick.
    pub scheduler: FreeRunning,
    seed: u64,
    replication: u64,
}

impl Times {
    pub(crate) fn new(point: &Point, clock: Clock, seed: u64, replication: u64) -> Self {
        let host = &point.host;
        let draw = |purpose, seconds| Draw::new(seed, purpose, replication, &host.service, clock.ticks(seconds));
        Self {
            interrupt: draw(Purpose::Interrupt, host.interrupt_s),
            resume: draw(Purpose::Resume, host.interrupt_resume_s.unwrap_or(0.0)),
            delivery: draw(Purpose::Delivery, host.interrupt_latency_s),
            poll: draw(Purpose::Poll, host.poll_s),
            wakeup: draw(Purpose::Wakeup, host.wakeup_s),
            switch: draw(Purpose::Switch, host.context_switch_s),
            mask_ticks: clock.ticks(host.mask_s),
            scheduler: FreeRunning::new(clock.whole(host.tick_s), seed, Purpose::SchedulerTick, replication),
            seed,
            replication,
        }
    }

    /// Makes a stream of times with this distribution and mean, for one purpose.
    pub(crate) fn drawn(&self, purpose: Purpose, service: &Service, mean_ticks: f64) -> Draw {
        Draw::new(self.seed, purpose, self.replication, service, mean_ticks)
    }

    /// The timer of a scheme that polls.
    pub(crate) fn poll_timer(&self, period: u64) -> FreeRunning {
        FreeRunning::new(period, self.seed, Purpose::PollTimer, self.replication)
    }
}

/// One CPU with its queues.
pub(crate) struct Machine<W> {
    /// The present time [ticks].
    pub now: u64,
    /// Whether the counts have been recorded for the last time: later events do not count.
    pub done: bool,
    /// Number of packets at the head of `ring` that do not count against its limit, because Linux's per-CPU backlog
    /// moved them to its process queue.
    pub uncounted: usize,
    /// Number of packets that `ring` may hold in addition to the uncounted ones.
    pub ring_limit: usize,
    /// The applications. `None` if none are modelled.
    pub applications: Option<Applications>,
    /// Times that do not belong to a packet.
    pub times: Times,
    /// Protocol time of packets by size.
    pub cost: PacketCost,
    /// The counts so far.
    pub counts: Counts,
    /// Packets in ring and protocol processing; the packet in service stays in its slot.
    ring: Fifo,
    /// Time of the next arrival that is not in the ring yet, or of the next event of the sender or of a transmission if
    /// earlier [ticks]; [`NEVER`] once the replication is over.
    arrives: u64,
    /// Arrivals before this time cannot be dropped, so that they may be handled when the ring is next examined (see
    /// `look_ahead`) [ticks].
    sure_until: u64,
    /// Whether the host has neither pauses nor a sender or transmissions.
    only_receives: bool,
    pauses: Pauses,
    side_load: Option<Box<SideLoad>>,
    records: Records,
    source: Source,
    watch: W,
}

impl<W: Watch> Machine<W> {
    /// The machine of `point`, for `packets` arrivals of `replication` under `seed`.
    pub(crate) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64, watch: W) -> Self {
        let mut source = Source::new(point, clock, seed, replication);
        let first = source.gap();
        let side_load = SideLoad::new(point, clock, seed, replication, first);
        let times = Times::new(point, clock, seed, replication);
        let arrives = side_load.as_ref().map_or(first, |side_load| side_load.next());
        Self {
            now: 0,
            done: false,
            uncounted: 0,
            ring_limit: usize::try_from(point.host.ring).unwrap_or(usize::MAX),
            applications: Applications::new(&point.host, clock, times.scheduler),
            times,
            cost: source.cost(),
            counts: Counts::default(),
            ring: Fifo::new(),
            arrives,
            sure_until: arrives,
            only_receives: side_load.is_none() && point.host.pauses().is_none(),
            pauses: Pauses::new(point, clock, seed, replication),
            side_load,
            records: Records::new(packets),
            source,
            watch,
        }
    }

    /// The records, and the watch.
    pub(crate) fn finish(self) -> (Records, W) {
        (self.records, self.watch)
    }

    /// Advances the time to `at` and charges it to `account`. No event may be due before `at`.
    #[inline]
    pub(crate) fn pass(&mut self, account: Account, at: u64) {
        debug_assert!(self.now <= at && at <= self.sure_until);
        self.counts.cpu[account as usize] += at - self.now;
        if account == Account::Application
            && let Some(applications) = &mut self.applications
        {
            applications.book(at - self.now);
        }
        self.watch.spent(account, self.now, at);
        self.now = at;
    }

    /// Skips `polls` polls that find no packets, `each` ticks apart: they are charged their mean overhead, and the rest
    /// of the time is available. No event may be due before their end. This changes no expected value of an outcome,
    /// and saves time: `polling` at one packet in ten seconds has half a million polls per packet.
    pub(crate) fn leave_out_polls(&mut self, polls: u64, each: f64) {
        self.counts.polls += polls;
        let (busy, all) = (self.times.poll.mean_ticks() * polls as f64, each * polls as f64);
        let (busy, all) = (to_ticks(busy.min(all)), to_ticks(all));
        let start = self.now;
        self.pass(Account::Poll, start + busy);
        self.pass(Account::Available, start + all);
    }

    /// Whether an arrival is due now.
    #[inline]
    pub(crate) fn arrival_due(&mut self) -> bool {
        self.now == self.next_arrival()
    }

    /// Reports the timer that is due now to the watch, unless an arrival is due.
    #[inline]
    pub(crate) fn note_timer(&mut self) {
        if W::SEES && !self.arrival_due() {
            self.watch.timer(self.now);
        }
    }

    /// Handles the arrival that is due now.
    #[inline]
    pub(crate) fn take_arrival(&mut self) -> Arrival {
        self.settle();
        debug_assert_eq!(self.now, self.arrives);
        if self.side_load.is_some() {
            return self.take_event();
        }
        if self.counts.offered == self.records.next_mark() && self.mark() {
            return Arrival::Ended;
        }
        let packet = self.next_packet(self.now);
        self.arrives += self.source.gap();
        let arrival = self.accept(packet);
        if self.sure_until == self.now {
            self.look_ahead();
        }
        arrival
    }

    /// Makes the packet that is offered at `at`.
    #[inline]
    fn next_packet(&mut self, at: u64) -> Packet {
        self.counts.offered += 1;
        let packet = Packet { arrived: at, ..self.source.next() };
        if let Some(counts) = self.counts_of(packet.socket) {
            counts.offered += 1;
        }
        packet
    }

    /// The counts of the application that receives packets of `socket`. `None` with a single application.
    #[inline]
    pub(super) fn counts_of(&mut self, socket: u16) -> Option<&mut SocketCounts> {
        self.applications.as_mut()?.counts_of(socket)
    }

    /// Puts a packet into the ring, or drops it if the ring is full.
    #[inline]
    fn accept(&mut self, packet: Packet) -> Arrival {
        if self.ring.len() - self.uncounted >= self.ring_limit {
            self.counts.dropped_ring += 1;
            if let Some(counts) = self.counts_of(packet.socket) {
                counts.dropped_ring += 1;
            }
            self.watch.outcome(packet.number, PacketOutcome::DroppedRing, self.now);
            return Arrival::Dropped;
        }
        self.ring.push(packet);
        self.watch.accepted(self.now);
        Arrival::Accepted
    }

    /// Records the counts up to now (sets a mark). Returns true if this was the last recording of the run.
    #[inline(never)]
    fn mark(&mut self) -> bool {
        let ages = |queue: &Fifo| queue.ages(self.now);
        let mut counts = Counts {
            at: self.now,
            inside_ring: self.ring.len() as u64,
            ring_area: self.counts.processed_latency + ages(&self.ring),
            ..self.counts
        };
        counts.system_area = match &self.applications {
            None => {
                // Without an application, processed means delivered.
                (counts.delivered, counts.latency) = (counts.processed, counts.processed_latency);
                counts.ring_area
            }
            Some(applications) => {
                counts.application_area += applications.taken().map(|taken| u128::from(self.now - taken)).sum::<u128>();
                counts.inside_socket = applications.sockets().map(|socket| socket.len() as u64).sum();
                let waiting: u128 = applications.sockets().map(ages).sum();
                counts.latency + counts.lost_latency + ages(&self.ring) + waiting
            }
        };
        if let Some(side_load) = &self.side_load {
            if let Some(sender) = &side_load.sender {
                counts.inside_sender = sender.held.len() as u64;
                // Latencies count from the scheduled arrival, but the ring received the packets only when they were
                // sent.
                counts.ring_area -= sender.waited;
                counts.sender_area = sender.waited + ages(&sender.held);
                counts.system_area += ages(&sender.held);
            }
            if let Some(transmit) = &side_load.transmit {
                counts.transmit = transmit.counts_at(self.now);
            }
        }
        debug_assert!(counts.conserved(), "not conserved: {counts:?}");
        let each = self.applications.as_ref().map_or(&[][..], |applications| &applications.counts);
        debug_assert!(each.is_empty() || each.iter().map(|one| one.delivered).sum::<u64>() == counts.delivered);
        self.done = self.records.push(counts, each);
        self.watch.mark(self.now);
        if self.done {
            self.plan(NEVER);
        }
        self.done
    }

    /// Protocol time of the packet at the head of the ring, including the wake-up of the application if it sleeps.
    #[inline]
    pub(crate) fn protocol_work(&mut self) -> u64 {
        let head = self.head();
        let (own, socket) = (head.protocol, head.socket);
        let Some(applications) = &mut self.applications else { return own };
        let application = applications.of(socket);
        if application.full() {
            applications.dropped_work(applications.protocol_ticks(socket, own))
        } else if application.asleep {
            own + self.times.wakeup.next()
        } else {
            applications.protocol_ticks(socket, own)
        }
    }

    /// Records that the packet at the head of the ring has been processed. Returns true if that woke the application.
    #[inline(always)]
    pub(crate) fn finish_packet(&mut self) -> bool {
        // Copy only the needed fields. A copy of the whole packet would have to wait until a packet that has just
        // arrived is written.
        let Packet { arrived, bytes, number, .. } = *self.ring.front();
        let latency = self.now - arrived;
        self.counts.processed += 1;
        self.counts.processed_latency += u128::from(latency);
        if self.applications.is_some() {
            return self.hand_on();
        }
        self.leave_ring();
        self.watch.outcome(number, PacketOutcome::Processed, self.now);
        self.counts.delivered_bytes += u64::from(bytes);
        self.records.latency(latency);
        if self.side_load.is_some() {
            self.forward(u32::from(bytes));
        }
        false
    }

    /// Removes the packet at the head from the ring.
    #[inline]
    fn leave_ring(&mut self) -> Packet {
        let packet = self.ring.pop();
        if self.side_load.is_some() {
            self.relieve();
        }
        packet
    }
}

mod resume {
    //! State that a recursion ([`crate::recursion`]: packets computed one by one without events) passes to the
    //! event-driven machine, and the check whether the recursion can take over again.

    use super::record::Records;
    use super::{Machine, Source, Times, Watch};
    use crate::fifo::Packet;
    use crate::tally::Counts;

    /// State at the end of a poll, from which the machine has to process the packets in the ring.
    #[derive(Debug)]
    pub(crate) struct Left {
        /// Time of the state [ticks].
        pub at: u64,
        /// Time of the latest arrival [ticks].
        pub last_arrival: u64,
        /// The counts so far.
        pub counts: Counts,
        /// Packets in the ring, and the number of them that do not count against its limit.
        pub ring: Vec<Packet>,
        pub uncounted: usize,
        /// Packets in the socket of the single application.
        pub socket: Vec<Packet>,
        /// Rest of the application's work [ticks]. `None` if the application has just been woken.
        pub remaining: Option<u64>,
        /// Time at which the application took its present packet [ticks]; `None` if it processes none.
        pub in_hand: Option<u64>,
    }

    impl<W: Watch> Machine<W> {
        /// Whether no packet is in the ring, in a socket or being processed.
        pub(crate) fn is_empty(&self) -> bool {
            self.ring_is_empty() && !self.application_awake()
        }
    }

    impl Machine<()> {
        /// The parts of the machine that a recursion uses.
        pub(crate) fn parts(&mut self) -> (&mut Source, &mut Times, &mut Records) {
            (&mut self.source, &mut self.times, &mut self.records)
        }

        /// Time of the latest arrival [ticks]; the next arrival has not been handled.
        pub(crate) fn last_arrival(&mut self) -> u64 {
            self.arrives - self.source.gap()
        }

        /// Continues from the state of a recursion. The machine must hold no packets.
        pub(crate) fn resume(&mut self, left: Left) {
            (self.now, self.counts, self.uncounted) = (left.at, left.counts, left.uncounted);
            self.arrives = left.last_arrival + self.source.gap();
            left.ring.iter().for_each(|packet| self.ring.push(*packet));
            if let Some(applications) = &mut self.applications {
                applications.resume(&left.socket, left.remaining, left.in_hand);
            }
            self.look_ahead();
        }
    }
}
