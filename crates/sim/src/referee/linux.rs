//! Linux's reception as a state machine: a thread, softirqs that preempt the thread, and interrupts that preempt both.

mod announce;
mod polls;
mod threads;

use std::cmp::Reverse;

use netcliff_core::{Napi, Point, Scheme};

use super::cpu::Cpu;
use super::{Event, World};
use crate::clock::Clock;
use crate::tally::Account;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Thread {
    Idle,
    Application,
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// A piece of the application's work.
    User,
    /// The switch to the NAPI thread.
    ThreadSwitch,
    PollOverhead,
    /// A transmit completion.
    Completion,
    Packet,
    Unmask,
    Interrupt,
    /// The start of a transmit interrupt's handler, and a completion in it.
    TransmitInterrupt,
    TransmitCompletion,
}

/// A handle_softirqs in progress (threaded: the polling of the NAPI thread).
#[derive(Debug, Clone, Copy)]
struct Softirq {
    round: u32,
    end_jiffy: u64,
    budget: u64,
    time_limit: u64,
    work: u64,
    /// Number of completions handled in this poll. `None` if no completion is left.
    cleaned: Option<u64>,
    /// Whether the poll reached its limit of completions.
    unclean: bool,
    /// Number of packets that napi_gro_receive stores or passes on.
    in_hand: u64,
    /// Whether the driver has left its loop over the ring.
    loop_left: bool,
}

impl Softirq {
    fn new(round: u32, end_jiffy: u64) -> Self {
        Self {
            round,
            end_jiffy,
            budget: 0,
            time_limit: 0,
            work: 0,
            cleaned: None,
            unclean: false,
            in_hand: 0,
            loop_left: false,
        }
    }
}

struct Linux<'a> {
    world: World,
    cpu: Cpu<Kind>,
    napi: &'a Napi,
    ring_limit: usize,
    tick: u64,
    last_tick: u64,
    slice: u64,
    softirq_jiffies: u64,
    budget_jiffies: u64,
    scheduled: bool,
    pending: bool,
    softirq: Option<Softirq>,
    thread: Thread,
    since: u64,
    kernel_awake: bool,
    kernel_owes_switch: bool,
    /// CPU time of the other threads minus that of the NAPI thread, at most a slice.
    credit: i64,
    preempted: bool,
    /// Number of further polls without work during which the NIC stays masked.
    defers_left: u32,
    /// Whether the deferral timer runs.
    timer_runs: bool,
    gro_flush_timeout: u64,
    /// Time at which the interrupt being delivered, or the timer, is due. An event planned for another time is
    /// obsolete.
    interrupt_at: Option<u64>,
    /// Whether the interrupt became due while a transmit interrupt was handled.
    interrupt_waits: bool,
    /// The moderation of the NIC that NAPI polls.
    front: announce::Front,
    /// Whether one of the moderation's timers ended while a transmit interrupt was handled.
    announce_waits: bool,
    /// Whether a receive interrupt's handler only has to exit, after a transmit interrupt that preceded it.
    exit_owed: bool,
    /// Whether the application polls.
    busy: bool,
    irq_suspend_timeout: u64,
    /// Number of applications that have waited longer than the kernel's thread.
    kernel_behind: usize,
    /// Whether the scheduler's tick occurred in a pause.
    tick_waits: bool,
}

/// Runs the point. Returns the world with packet outcomes and final counts.
pub(super) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: usize) -> World {
    let Scheme::Napi(napi) = &point.scheme else { panic!("a NAPI point") };
    let host = &point.host;
    let tick = clock.whole(host.tick_s);
    let mut world = World::new(point, clock, seed, replication, packets);
    world.events.push(Reverse((tick - world.tick_offset, Event::Timer(1))));
    if napi.backlog {
        world.mask_mean = 0.0;
    }
    let mut linux = Linux {
        world,
        cpu: Cpu::new(),
        napi,
        ring_limit: host.ring as usize + usize::from(napi.backlog),
        tick,
        last_tick: 0,
        slice: clock.whole(1.4e-3),
        softirq_jiffies: (2e-3 / host.tick_s).ceil() as u64,
        budget_jiffies: (napi.budget_time_s / host.tick_s).ceil() as u64,
        scheduled: false,
        pending: false,
        softirq: None,
        thread: Thread::Idle,
        since: 0,
        kernel_awake: false,
        kernel_owes_switch: true,
        credit: 0,
        preempted: false,
        defers_left: 0,
        timer_runs: false,
        gro_flush_timeout: clock.whole(napi.gro_flush_timeout_s).max(1),
        interrupt_at: None,
        interrupt_waits: false,
        front: announce::Front::new(point, clock),
        announce_waits: false,
        exit_owed: false,
        busy: false,
        irq_suspend_timeout: clock.whole(napi.irq_suspend_timeout_s),
        kernel_behind: 0,
        tick_waits: false,
    };
    while let Some(Reverse((at, event))) = linux.world.events.pop() {
        if matches!(event, Event::JobEnds(plan) if !linux.cpu.holds(plan)) {
            continue;
        }
        if event == Event::Interrupt && linux.interrupt_at.take_if(|due| *due == at).is_none() {
            continue;
        }
        linux.cpu.pass_to(&mut linux.world, at);
        match event {
            Event::JobEnds(_) => linux.job_ends(),
            Event::Interrupt if linux.in_transmit_interrupt() => linux.interrupt_waits = true,
            Event::Interrupt => linux.interrupt(),
            Event::Delayed => {
                for accepted in std::mem::take(&mut linux.world.delayed) {
                    linux.came(accepted);
                }
            }
            Event::Announce => linux.announce(),
            Event::Arrival => linux.arrival(),
            Event::Release => {
                linux.world.release();
                linux.came(true);
            }
            Event::TransmissionEnds => {
                if linux.world.transmission_ends() && linux.world.completion_due() && !linux.scheduled {
                    linux.front.completion();
                    linux.cause();
                }
                linux.transmit_interrupt();
            }
            Event::Timer(number) => linux.scheduler_tick(number),
            Event::PauseStarts => linux.world.pause_starts(),
            Event::PauseEnds => linux.pause_ends(),
            Event::Tick => unreachable!("the kernel has ticks of its own"),
        }
        if linux.world.over {
            break;
        }
        linux.cpu.plan(&mut linux.world);
    }
    linux.world
}

impl Linux<'_> {
    fn jiffies(&self) -> u64 {
        (self.world.now + self.world.tick_offset) / self.tick
    }

    fn need_resched(&self) -> bool {
        // A tick at the present instant counts, even if its event is still in the heap.
        let last_tick = (self.jiffies() * self.tick).saturating_sub(self.world.tick_offset);
        debug_assert!(last_tick == self.last_tick || last_tick == self.world.now);
        let slice_used = last_tick >= self.since + self.slice;
        match self.thread {
            Thread::Idle => self.preempted,
            Thread::Application => self.preempted || (self.kernel_awake || !self.world.queue.is_empty()) && slice_used,
            Thread::Kernel => self.world.application_awake() && slice_used,
        }
    }

    fn in_user_mode(&self) -> bool {
        self.cpu.jobs.len() == 1 && self.cpu.jobs[0].kind == Kind::User
    }

    fn scheduler_tick(&mut self, number: u64) {
        self.last_tick = self.world.now;
        self.world.events.push(Reverse((self.world.now + self.tick, Event::Timer(number + 1))));
        if self.world.paused() {
            self.tick_waits = true;
        } else {
            self.handle_tick();
        }
    }

    fn pause_ends(&mut self) {
        self.world.pause_ends();
        if std::mem::take(&mut self.tick_waits) {
            self.handle_tick();
        }
    }

    fn handle_tick(&mut self) {
        let others = self.kernel_awake || !self.world.queue.is_empty();
        if self.in_user_mode() && (others || self.pending) {
            self.irq_exit();
        }
    }

    fn arrival(&mut self) {
        let room = self.world.ring.len() - self.world.uncounted < self.ring_limit;
        if let Some(accepted) = self.world.arrival(room) {
            self.came(accepted);
        }
    }

    /// Records a packet. The receive side handles it now, or when the transmit interrupt has been handled.
    fn came(&mut self, accepted: bool) {
        if self.in_transmit_interrupt() {
            self.world.delayed.push(accepted);
        } else if accepted && !self.scheduled {
            self.front.packet(self.world.now);
            self.cause();
        }
    }

    fn in_transmit_interrupt(&self) -> bool {
        matches!(self.cpu.jobs.last().map(|job| job.kind), Some(Kind::TransmitInterrupt | Kind::TransmitCompletion))
    }

    /// Starts to handle completions by interrupt, unless a handler already runs. Returns true if it starts.
    fn transmit_interrupt(&mut self) -> bool {
        let handler = self.cpu.jobs.last().is_some_and(|job| job.kind == Kind::Interrupt);
        let begins = self.world.transmit_interrupts() && !handler && !self.in_transmit_interrupt();
        if begins {
            self.world.counts.interrupts += 1;
            let time = self.world.interrupt.next();
            self.cpu.push(Kind::TransmitInterrupt, Account::Interrupt, time);
        }
        begins
    }

    /// Handles the next completion in the handler, or ends the handler and handles the events that it has delayed.
    fn transmit_handler_goes_on(&mut self) {
        if self.world.transmit_interrupts() {
            let time = self.world.completion_time();
            return self.cpu.push(Kind::TransmitCompletion, Account::Interrupt, time);
        }
        self.world.deliver_delayed();
        if std::mem::take(&mut self.announce_waits) {
            self.world.events.push(Reverse((self.world.now, Event::Announce)));
        }
        if std::mem::take(&mut self.interrupt_waits) {
            self.plan_interrupt(0);
        }
        if std::mem::take(&mut self.exit_owed) {
            self.interrupt_exits();
        } else if matches!(self.cpu.jobs.last().map(|job| job.kind), None | Some(Kind::User)) {
            self.irq_exit();
        }
    }

    /// Ends the handling of a receive interrupt.
    fn interrupt_exits(&mut self) {
        match self.softirq {
            // This interrupt occurred at the unmasking that ends a poll.
            Some(_) => self.poll_ends(),
            None => self.irq_exit(),
        }
    }

    /// Interrupts for work that a poll would find, if the NIC's conditions are fulfilled.
    fn cause(&mut self) {
        if !self.scheduled && self.front_asserts() {
            self.scheduled = true;
            match self.world.delivery.next() {
                0 => self.interrupt(),
                delivery => self.plan_interrupt(delivery),
            }
        }
    }

    fn plan_interrupt(&mut self, delay: u64) {
        let at = self.world.now + delay;
        self.interrupt_at = Some(at);
        self.world.events.push(Reverse((at, Event::Interrupt)));
    }

    fn interrupt(&mut self) {
        self.scheduled = true;
        self.world.counts.interrupts += 1;
        let mask = if std::mem::take(&mut self.timer_runs) { 0.0 } else { self.world.mask_mean };
        let mean = self.world.interrupt_mean + mask;
        let time = self.world.interrupt.next_of_mean(mean);
        self.cpu.push(Kind::Interrupt, Account::Interrupt, time);
    }

    /// Whether softirqs may start: older kernels leave them to a ksoftirqd that is already awake.
    fn may_start_softirqs(&self) -> bool {
        let left_to_thread = self.napi.ksoftirqd && !self.napi.threaded && self.kernel_awake;
        self.pending && !left_to_thread
    }

    fn wake_kernel_thread(&mut self) {
        if !self.kernel_awake {
            self.kernel_behind = self.world.queue.len();
            let ran = (self.world.now - self.since) as i64;
            if self.napi.threaded && self.thread == Thread::Application && self.credit + ran > 0 {
                self.kernel_behind = 0;
                self.preempted = true;
            }
        }
        self.kernel_awake = true;
        self.preempted |= self.thread == Thread::Idle;
    }

    /// Ends an interrupt. Pending softirqs run unless a softirq was interrupted; then the previous work or the
    /// scheduler continues.
    fn irq_exit(&mut self) {
        if self.softirq.is_none() && self.may_start_softirqs() {
            self.start_softirqs();
        } else {
            self.back_to_thread();
        }
    }
}
