//! Linux's reception as a state machine: base thread, softirq on top of it, interrupt on top of that.

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
    /// A piece of the application.
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

/// A handle_softirqs in progress (or, threaded, the thread's polling).
#[derive(Debug, Clone, Copy)]
struct Softirq {
    round: u32,
    end_jiffy: u64,
    budget: u64,
    time_limit: u64,
    work: u64,
    /// Completions of this poll; None: their turn is over, or there is none.
    cleaned: Option<u64>,
    /// It cleaned as many as it may.
    unclean: bool,
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
    woken_from_idle: bool,
    /// Polls without work that keep the NIC masked, and whether one was the last.
    defers_left: u32,
    timer_runs: bool,
    gro_flush_timeout: u64,
    /// When the interrupt that is on its way, or the timer, is due; one that was planned for another time is void.
    interrupt_at: Option<u64>,
    /// It was due while a transmit interrupt was handled.
    interrupt_waits: bool,
    /// A receive interrupt's handler is done but for its exit, which a transmit interrupt came before.
    exit_owed: bool,
    /// The application polls.
    busy: bool,
    irq_suspend_timeout: u64,
    /// Applications that have waited longer than the kernel's thread.
    kernel_behind: usize,
}

/// Runs the point; fates and final counts are in the world.
pub(super) fn run(point: &Point, clock: Clock, seed: u64, replication: u64, packets: usize) -> World {
    let Scheme::Napi(napi) = &point.scheme else { panic!("a NAPI point") };
    let host = &point.host;
    let tick = clock.whole(host.tick_s);
    let mut world = World::new(point, clock, seed, replication, packets);
    world.events.push(Reverse((tick, Event::Timer(1))));
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
        woken_from_idle: false,
        defers_left: 0,
        timer_runs: false,
        gro_flush_timeout: clock.whole(napi.gro_flush_timeout_s).max(1),
        interrupt_at: None,
        interrupt_waits: false,
        exit_owed: false,
        busy: false,
        irq_suspend_timeout: clock.whole(napi.irq_suspend_timeout_s),
        kernel_behind: 0,
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
            Event::HeldUp => {
                if std::mem::take(&mut linux.world.held_up).contains(&true) {
                    linux.cause();
                }
            }
            Event::Arrival => linux.arrival(),
            Event::Release => {
                linux.world.release();
                linux.came(true);
            }
            Event::TransmissionEnds => {
                if linux.world.transmission_ends() && linux.world.completion_due() {
                    linux.cause();
                }
                linux.transmit_interrupt();
            }
            Event::Timer(number) => linux.scheduler_tick(number),
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
        self.world.now / self.tick
    }

    fn need_resched(&self) -> bool {
        // A tick at this very instant counts though its event may still be in the heap.
        let last_tick = self.jiffies() * self.tick;
        debug_assert!(last_tick == self.last_tick || last_tick == self.world.now);
        let slice_used = last_tick >= self.since + self.slice;
        match self.thread {
            Thread::Idle => self.woken_from_idle,
            Thread::Application => (self.kernel_awake || !self.world.queue.is_empty()) && slice_used,
            Thread::Kernel => self.world.application_awake() && slice_used,
        }
    }

    fn in_user_mode(&self) -> bool {
        self.cpu.jobs.len() == 1 && self.cpu.jobs[0].kind == Kind::User
    }

    fn scheduler_tick(&mut self, number: u64) {
        self.last_tick = number * self.tick;
        self.world.events.push(Reverse(((number + 1) * self.tick, Event::Timer(number + 1))));
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

    /// A packet came: it is heard of now, or when a transmit interrupt has been handled.
    fn came(&mut self, accepted: bool) {
        if self.in_transmit_interrupt() {
            self.world.held_up.push(accepted);
        } else if accepted {
            self.cause();
        }
    }

    fn in_transmit_interrupt(&self) -> bool {
        matches!(self.cpu.jobs.last().map(|job| job.kind), Some(Kind::TransmitInterrupt | Kind::TransmitCompletion))
    }

    /// Handles completions that interrupt, unless a handler runs. True if it begins to.
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

    /// The next completion in the handler, or its end and what that lets go on.
    fn transmit_handler_goes_on(&mut self) {
        if self.world.transmit_interrupts() {
            let time = self.world.completion_time();
            return self.cpu.push(Kind::TransmitCompletion, Account::Interrupt, time);
        }
        self.world.tell_what_was_held_up();
        if std::mem::take(&mut self.interrupt_waits) {
            self.plan_interrupt(0);
        }
        if std::mem::take(&mut self.exit_owed) {
            self.interrupt_exits();
        } else if matches!(self.cpu.jobs.last().map(|job| job.kind), None | Some(Kind::User)) {
            self.irq_exit();
        }
    }

    /// A receive interrupt has been handled.
    fn interrupt_exits(&mut self) {
        match self.softirq {
            // The interrupt came at the unmasking that ends a poll.
            Some(_) => self.poll_ends(),
            None => self.irq_exit(),
        }
    }

    /// Something is there for a poll.
    fn cause(&mut self) {
        if !self.scheduled {
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

    fn wake_kernel_thread(&mut self) {
        if !self.kernel_awake {
            self.kernel_behind = self.world.queue.len();
        }
        self.kernel_awake = true;
        self.woken_from_idle |= self.thread == Thread::Idle;
    }

    /// The interrupt is over: softirqs run unless one was interrupted; then back to what ran, or to the scheduler.
    fn irq_exit(&mut self) {
        if self.pending && self.softirq.is_none() {
            self.start_softirqs();
        } else {
            self.back_to_thread();
        }
    }

    fn start_softirqs(&mut self) {
        let end_jiffy = self.jiffies() + self.softirq_jiffies;
        self.softirq =
            Some(Softirq { round: 1, end_jiffy, budget: 0, time_limit: 0, work: 0, cleaned: None, unclean: false });
        self.start_net_rx_action();
    }

    fn start_net_rx_action(&mut self) {
        self.pending = false;
        let time_limit = self.jiffies() + self.budget_jiffies;
        if let Some(softirq) = &mut self.softirq {
            softirq.budget = self.napi.budget;
            softirq.time_limit = time_limit;
        }
        self.start_poll();
    }

    fn start_poll(&mut self) {
        if let Some(softirq) = &mut self.softirq {
            softirq.work = 0;
            softirq.cleaned = self.world.completions_before().map(|_| 0);
            softirq.unclean = false;
        }
        self.world.counts.polls += 1;
        let overhead = self.world.poll.next();
        self.cpu.push(Kind::PollOverhead, Account::Poll, overhead);
    }

    fn work(&self) -> u64 {
        self.softirq.map_or(0, |softirq| softirq.work)
    }

    /// The poll's overhead is over: completions or packets come first.
    pub(super) fn poll_begins(&mut self) {
        if self.world.completions_before() == Some(true) { self.next_completion() } else { self.next_packet() }
    }

    /// The next completion of this poll; after the last the packets, or the poll's end.
    pub(super) fn next_completion(&mut self) {
        let due = self.world.completion_due();
        let Some(softirq) = &mut self.softirq else { return };
        let cleaned = softirq.cleaned.unwrap_or(0);
        if cleaned < 128 && due {
            let time = self.world.completion_time();
            return self.cpu.push(Kind::Completion, Account::Protocol, time);
        }
        softirq.unclean = cleaned == 128;
        softirq.cleaned = None;
        if self.world.completions_before() == Some(true) { self.next_packet() } else { self.nothing_left() }
    }

    /// The next packet of this poll, or its end.
    fn next_packet(&mut self) {
        if self.busy && self.work() == 8 {
            return self.busy_poll_ends();
        }
        if !self.busy && self.work() == self.napi.weight {
            return self.poll_ends();
        }
        let available = if self.napi.backlog {
            if self.world.uncounted == 0 {
                self.world.uncounted = self.world.ring.len();
                self.world.tell_sender_of_room();
            }
            self.world.uncounted > 0
        } else {
            !self.world.ring.is_empty()
        };
        if available {
            let work = self.world.protocol_time();
            self.cpu.push(Kind::Packet, Account::Protocol, work);
        } else if self.softirq.is_some_and(|softirq| softirq.cleaned.is_some()) {
            self.next_completion();
        } else {
            self.nothing_left();
        }
    }

    /// The ring is empty: the poll completes, unless completions are left over.
    fn nothing_left(&mut self) {
        if self.busy {
            self.busy_poll_ends();
        } else if self.softirq.is_some_and(|softirq| softirq.unclean) {
            self.poll_ends();
        } else if self.defers() {
            self.timer_runs = true;
            self.plan_interrupt(self.gro_flush_timeout);
            self.poll_ends();
        } else {
            self.unmask();
        }
    }

    fn unmask(&mut self) {
        if !self.napi.backlog && self.world.mask_mean > 0.0 {
            let mean = self.world.mask_mean;
            let unmask = self.world.poll.next_of_mean(mean);
            self.cpu.push(Kind::Unmask, Account::Poll, unmask);
        } else {
            self.completed();
        }
    }

    /// Work starts the deferring anew, a poll without any uses up one of its rounds.
    fn defers(&mut self) -> bool {
        if self.work() > 0 {
            self.defers_left = self.napi.defer_hard_irqs;
        }
        let defers = self.defers_left > 0;
        self.defers_left = self.defers_left.saturating_sub(1);
        defers
    }

    fn completed(&mut self) {
        self.scheduled = false;
        if self.world.ring.is_empty() && !self.world.completion_due() {
            self.poll_ends();
        } else {
            self.interrupt();
        }
    }

    fn poll_ends(&mut self) {
        if self.busy {
            return self.busy_polling_ends();
        }
        let used_up = self.work() == self.napi.weight || self.softirq.is_some_and(|softirq| softirq.unclean);
        if self.napi.threaded {
            return self.thread_poll_ends(used_up);
        }
        let jiffies = self.jiffies();
        let Some(softirq) = &mut self.softirq else { return };
        if used_up {
            self.pending = true;
        } else {
            softirq.budget = softirq.budget.saturating_sub(softirq.work);
            if softirq.budget > 0 && jiffies < softirq.time_limit && self.pending {
                self.pending = false;
                return self.start_poll();
            }
        }
        self.round_ends();
    }

    fn round_ends(&mut self) {
        let Some(softirq) = &mut self.softirq else { return };
        let again = self.world.now / self.tick < softirq.end_jiffy && softirq.round < 10;
        softirq.round += 1;
        if self.pending {
            if again && !self.need_resched() {
                return self.start_net_rx_action();
            }
            self.wake_kernel_thread();
        }
        self.softirq = None;
        self.back_to_thread();
    }

    fn thread_poll_ends(&mut self, used_up: bool) {
        self.softirq = None;
        if !used_up && !self.kernel_awake {
            self.kernel_owes_switch = true;
            return self.schedule();
        }
        self.kernel_awake = true;
        if self.need_resched() { self.schedule() } else { self.start_thread_poll() }
    }

    /// The application polls if it would sleep otherwise, and nobody else has the instance.
    pub(super) fn busy_polls(&mut self) -> bool {
        if !(self.napi.busy_poll && self.nothing_to_read() && (!self.scheduled || self.timer_runs)) {
            return false;
        }
        (self.busy, self.scheduled, self.timer_runs, self.interrupt_at) = (true, true, false, None);
        self.softirq =
            Some(Softirq { round: 0, end_jiffy: 0, budget: 0, time_limit: 0, work: 0, cleaned: None, unclean: false });
        self.start_poll();
        true
    }

    /// One busy poll is over: the next, or the application goes on with interrupts off for a time, or on.
    fn busy_poll_ends(&mut self) {
        let found = !self.nothing_to_read();
        if !found && !self.need_resched() {
            return self.start_poll();
        }
        if self.napi.defer_hard_irqs == 0 {
            return self.unmask();
        }
        self.defers_left = self.napi.defer_hard_irqs;
        self.timer_runs = true;
        let suspended = found && self.irq_suspend_timeout > 0;
        self.plan_interrupt(if suspended { self.irq_suspend_timeout } else { self.gro_flush_timeout });
        self.busy_polling_ends();
    }

    fn busy_polling_ends(&mut self) {
        (self.busy, self.softirq) = (false, None);
        if self.nothing_to_read() { self.schedule() } else { self.next_piece() }
    }

    fn nothing_to_read(&self) -> bool {
        self.world.running.is_none_or(|place| self.world.applications[place].socket.is_empty())
    }

    fn start_thread_poll(&mut self) {
        self.kernel_awake = false;
        self.softirq =
            Some(Softirq { round: 0, end_jiffy: 0, budget: 0, time_limit: 0, work: 0, cleaned: None, unclean: false });
        self.start_poll();
    }
}
