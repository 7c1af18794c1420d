//! The schemes without a kernel: interrupts (and timer ticks) precede protocol work, which precedes the application.

mod adapting;
mod serving;

use std::cmp::Reverse;

use netcliff_core::{Point, Scheme};

use adapting::{AdaptiveQuota, SoftPolls};

use super::cpu::Cpu;
use super::decisions::{DimState, RateMeter};
use super::nic::Nic;
use super::{Event, World};
use crate::clock::{Clock, NEVER};
use crate::free_running::offset;
use crate::random::Purpose;
use crate::tally::Account;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Application,
    Protocol,
    /// A transmit completion.
    Completion,
    /// The interrupt's part of the merged stage; the rest is protocol.
    MergedStage(u64),
    Interrupt,
    /// Overhead of a tick; true if the tick fell into a cycle.
    Tick(bool),
    /// The start of a transmit interrupt's handler, and a completion in it.
    TransmitInterrupt,
    TransmitCompletion,
}

struct Plain<'a> {
    world: World,
    cpu: Cpu<Kind>,
    scheme: &'a Scheme,
    clock: Clock,
    ring_limit: usize,
    fixed: f64,
    per_byte: f64,
    /// Whether interrupts are masked (disable-enable, napi-2007, masked coalescing).
    masked: bool,
    merged_first: bool,
    /// Number of packets that the present cycle or poll may still serve.
    left: u64,
    rearmed: bool,
    /// Start of the present poll or cycle: of napi-2007's poll (its interrupt or overhead), of freebsd-polling's cycle,
    /// of soft-timers' poll.
    began: u64,
    adaptive: AdaptiveQuota,
    soft: Option<SoftPolls>,
    next_tick: u64,
    /// Time from the timer's last tick before the run to the start of the run.
    timer_offset: u64,
    /// Whether a tick occurred during the handling of an interrupt or of another tick.
    latched: bool,
    timer_version: u64,
    nic: Nic,
    announced: usize,
    hybrid_polls: bool,
    meter: Option<RateMeter>,
    net_dim: DimState,
    bytes: u64,
}

/// Runs the point. Returns the world with packet outcomes and final counts.
pub(super) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: usize) -> World {
    let world = World::new(point, clock, seed, replication, packets);
    let meter = match &point.scheme {
        Scheme::Hybrid(hybrid) => Some(RateMeter::new(hybrid, &point.host)),
        _ => None,
    };
    let mut plain = Plain {
        world,
        cpu: Cpu::new(),
        scheme: &point.scheme,
        clock,
        ring_limit: point.host.ring as usize,
        fixed: clock.ticks(point.host.packet_s()),
        per_byte: clock.ticks(point.host.per_byte_s),
        masked: false,
        merged_first: false,
        left: 0,
        rearmed: false,
        began: 0,
        adaptive: AdaptiveQuota::default(),
        soft: SoftPolls::of(&point.scheme, clock, seed, replication),
        next_tick: NEVER,
        timer_offset: 0,
        latched: false,
        timer_version: 0,
        nic: Nic::new(&point.scheme, clock, |period| offset(period, seed, Purpose::PollTimer, replication)),
        announced: 0,
        hybrid_polls: false,
        meter,
        net_dim: DimState::new(if let Scheme::Dim(dim) = &point.scheme { dim.start as usize } else { 0 }),
        bytes: 0,
    };
    if point.scheme.properties().polls.is_some() {
        plain.timer_offset = offset(plain.period(), seed, Purpose::PollTimer, replication);
    }
    if let Some(soft) = &mut plain.soft {
        let at = soft.plan(0);
        plain.set_timer(at);
    } else if plain.polls() {
        plain.next_tick = plain.period() - plain.timer_offset;
        plain.set_timer(plain.next_tick);
    }
    if plain.world.applications.len() > 1 {
        plain.world.events.push(Reverse((plain.world.tick - plain.world.tick_offset, Event::Tick)));
    }
    while let Some(Reverse((at, event))) = plain.world.events.pop() {
        match event {
            Event::JobEnds(plan) if !plain.cpu.holds(plan) => continue,
            Event::Timer(version) if version != plain.timer_version => continue,
            _ => plain.cpu.pass_to(&mut plain.world, at),
        }
        match event {
            Event::JobEnds(_) => plain.job_ends(),
            Event::Arrival => plain.arrival(),
            Event::Release => {
                plain.world.release();
                plain.came(true);
            }
            Event::Delayed => {
                let found = plain.world.delayed.remove(0);
                plain.arrived(found);
                plain.world.deliver_delayed();
            }
            Event::TransmissionEnds => {
                plain.world.transmission_ends();
                plain.transmit_interrupt();
            }
            Event::Timer(_) => plain.timer(),
            Event::Tick => {
                let next = plain.world.now + plain.world.tick;
                plain.world.events.push(Reverse((next, Event::Tick)));
            }
            Event::PauseStarts => plain.world.pause_starts(),
            Event::PauseEnds => plain.world.pause_ends(),
            Event::Interrupt => unreachable!("only NAPI's interrupts are delivered late"),
            Event::Announce => unreachable!("only NAPI has a NIC of its own in front"),
        }
        if plain.world.over {
            break;
        }
        if !plain.world.paused() {
            plain.fill();
        }
        plain.cpu.plan(&mut plain.world);
    }
    plain.world
}

impl Plain<'_> {
    fn running(&self) -> Option<Kind> {
        self.cpu.jobs.last().map(|job| job.kind)
    }

    fn at_interrupt_level(&self) -> bool {
        matches!(self.running(), Some(Kind::Interrupt | Kind::Tick(_))) || self.in_transmit_interrupt()
    }

    fn in_transmit_interrupt(&self) -> bool {
        matches!(self.running(), Some(Kind::TransmitInterrupt | Kind::TransmitCompletion))
    }

    /// Starts to handle completions by interrupt, unless a handler already runs.
    fn transmit_interrupt(&mut self) {
        let handler = matches!(self.running(), Some(Kind::Interrupt | Kind::MergedStage(_)));
        if self.world.transmit_interrupts() && !handler && !self.in_transmit_interrupt() {
            self.world.counts.interrupts += 1;
            let time = self.world.interrupt.next();
            self.cpu.push(Kind::TransmitInterrupt, Account::Interrupt, time);
        }
    }

    /// Handles the next completion in the handler, or the handler's end.
    fn transmit_handler_goes_on(&mut self) {
        if self.world.transmit_interrupts() {
            let time = self.world.completion_time();
            self.cpu.push(Kind::TransmitCompletion, Account::Interrupt, time);
        } else {
            self.world.deliver_delayed();
        }
    }

    /// Records a packet that reached the ring. The receive side handles it now, or when the transmit interrupt has been
    /// handled.
    fn came(&mut self, accepted: bool) {
        if self.in_transmit_interrupt() {
            self.world.delayed.push(accepted);
        } else {
            self.arrived(accepted);
        }
    }

    /// Period of the polls [ticks]; [`NEVER`] for a scheme that does not poll by a timer.
    fn period(&self) -> u64 {
        self.scheme.properties().polls.map_or(NEVER, |(period_s, _)| self.clock.whole(period_s))
    }

    fn quota(&self) -> u64 {
        self.scheme.properties().polls.map_or(0, |(_, quota)| quota)
    }

    /// Sets the only timer; an earlier setting is cancelled.
    fn set_timer(&mut self, at: u64) {
        self.timer_version += 1;
        if at != NEVER {
            self.world.events.push(Reverse((at.max(self.world.now), Event::Timer(self.timer_version))));
        }
    }

    fn polls(&self) -> bool {
        let own = self.scheme.properties();
        self.hybrid_polls || (own.polls.is_some() && !own.interrupts)
    }

    fn coalesces(&self) -> bool {
        matches!(self.scheme, Scheme::Coalesce(_) | Scheme::Dim(_))
    }

    fn masks(&self) -> bool {
        matches!(self.scheme, Scheme::Dim(_)) || matches!(self.scheme, Scheme::Coalesce(scheme) if scheme.masked)
    }

    fn arrival(&mut self) {
        let room = self.world.ring.len() < self.ring_limit;
        let held = self.world.sender.is_some();
        let before = self.world.ring.len();
        let Some(accepted) = self.world.arrival(room) else { return };
        if held && self.world.ring.len() == before {
            // The packet is still at the sender.
            return;
        }
        self.came(accepted);
    }

    /// Interrupts if `due`; otherwise sets the timer for the NIC's next time.
    fn moderated(&mut self, due: bool) {
        let next = self.nic.next_timer();
        self.set_timer(next);
        if due {
            let mask = if self.masks() { self.world.mask_mean } else { 0.0 };
            self.interrupt(mask + self.world.interrupt_mean);
        }
    }

    fn interrupt(&mut self, mean: f64) {
        self.began = self.world.now;
        self.world.counts.interrupts += 1;
        let time = self.world.interrupt.next_of_mean(mean);
        self.cpu.push(Kind::Interrupt, Account::Interrupt, time);
    }

    fn timer(&mut self) {
        if self.at_interrupt_level() {
            self.latched = true;
            return;
        }
        if self.coalesces() {
            let due = self.nic.timer(self.world.now);
            return self.moderated(due);
        }
        if let Some(soft) = &self.soft {
            self.began = self.world.now;
            let mean = soft.share() * self.world.poll.mean_ticks();
            let overhead = self.world.poll.next_of_mean(mean);
            return self.cpu.push(Kind::Tick(false), Account::Poll, overhead);
        }
        let in_cycle = self.left > 0;
        self.rearmed |= in_cycle;
        if self.polls() {
            self.next_tick = self.world.next_tick(self.next_tick, self.period());
            self.set_timer(self.next_tick);
        }
        if matches!(self.scheme, Scheme::Napi2007(_)) {
            self.began = self.world.now;
        }
        let overhead = self.world.poll.next();
        self.cpu.push(Kind::Tick(in_cycle), Account::Poll, overhead);
    }

    fn job_ends(&mut self) {
        let Some(job) = self.cpu.jobs.pop() else { return };
        match job.kind {
            Kind::Application => self.world.piece_done(),
            Kind::Protocol => self.served(),
            Kind::Completion => self.world.completed(),
            Kind::TransmitInterrupt => self.transmit_handler_goes_on(),
            Kind::TransmitCompletion => {
                self.world.completed();
                self.transmit_handler_goes_on();
            }
            Kind::MergedStage(rest) => self.cpu.push(Kind::Protocol, Account::Protocol, rest),
            Kind::Interrupt => self.interrupt_ends(),
            Kind::Tick(in_cycle) => match self.scheme {
                Scheme::FreebsdPolling(_) => self.ticked(),
                _ if !in_cycle => self.start_cycle(),
                _ => {}
            },
        }
        if matches!(job.kind, Kind::Interrupt | Kind::MergedStage(_)) {
            self.transmit_interrupt();
        }
        let transmitted = matches!(job.kind, Kind::TransmitInterrupt | Kind::TransmitCompletion);
        let handled = matches!(job.kind, Kind::Interrupt | Kind::Tick(_)) || transmitted;
        if handled && std::mem::take(&mut self.latched) {
            let version = self.timer_version;
            self.world.events.push(Reverse((self.world.now, Event::Timer(version))));
        }
    }

    fn interrupt_ends(&mut self) {
        if self.coalesces() {
            self.nic.handled(self.world.now);
            self.announced = self.world.ring.len();
            self.masked = self.masks() && self.announced > 0;
        }
        if matches!(self.scheme, Scheme::Napi2007 { .. }) {
            self.start_cycle();
        }
    }
}
