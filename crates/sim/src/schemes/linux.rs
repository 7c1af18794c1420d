//! `napi`: reception as in Linux (net/core/dev.c, kernel/softirq.c, 6.5 to 6.18), with one NAPI instance.
//!
//! The functions have the kernel's names. With a single instance, `net_rx_action` polls once: an instance that used its
//! whole weight goes to the repoll list, which ends the loop and raises NET_RX again. The limits are therefore the
//! limits of `handle_softirqs`: after ten rounds, or the jiffy after two milliseconds, or if a thread must run,
//! ksoftirqd is woken.

mod busy;
mod gaps;
mod threads;

use netcliff_core::{Host, Napi};

use super::Moderation;
use crate::clock::{Clock, NEVER};
use crate::free_running::FreeRunning;
use crate::machine::{Arrival, Machine, SLICE_S, Watch};
use crate::tally::Account;

/// MAX_SOFTIRQ_RESTART.
pub(crate) const ROUNDS: u32 = 10;
/// Maximum number of completions per poll (IGB_DEFAULT_TX_WORK and similar limits).
const COMPLETIONS: u32 = 128;
/// MAX_SOFTIRQ_TIME (s).
const SOFTIRQ_TIME_S: f64 = 2e-3;

/// The thread that has the CPU when no interrupt or softirq runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    Idle,
    Application,
    /// ksoftirqd, or the NAPI thread.
    Kernel,
}

/// The limits that end rounds of softirqs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub budget: u64,
    pub budget_jiffies: u64,
    pub softirq_jiffies: u64,
    /// Whether the kernel is older than 6.5. Then softirqs wait for a ksoftirqd that is awake, and an instance that is
    /// scheduled again waits for the next round.
    pub older: bool,
    scheduler: FreeRunning,
}

impl Limits {
    /// Whether `jiffies` or more have passed from `began` to `now`.
    #[inline]
    pub(crate) fn too_long(&self, began: u64, now: u64, jiffies: u64) -> bool {
        self.scheduler.count(now) >= self.scheduler.count(began) + jiffies
    }
}

/// State of the kernel on this CPU.
pub(crate) struct Linux {
    weight: u64,
    /// Number of packets that a device's poll collects before it passes them on.
    batch: u64,
    /// Number of packets that the present poll has collected and not passed on yet: its last, incomplete batch.
    gathered: u64,
    limits: Limits,
    backlog: bool,
    threaded: bool,
    interrupt_ticks: f64,
    /// Duration of an interrupt that finds NAPI scheduled [ticks].
    polling_ticks: f64,
    /// Duration of an interrupt that preempts the softirq that has just unmasked [ticks].
    softirq_ticks: f64,
    /// Whether an interrupt that started a poll has been handled.
    began_poll: bool,
    /// Decides when the NIC asserts its interrupt while the interrupt is not masked.
    nic: Moderation,
    slice: u64,
    /// NAPI_STATE_SCHED: the interrupt is masked, and a poll will follow.
    scheduled: bool,
    /// NAPI_STATE_MISSED: an interrupt that was not masked occurred during the poll.
    missed: bool,
    /// Number of packets accepted when the NIC last had a cause to interrupt.
    cause_at: u64,
    /// Whether the interrupt for that cause is masked and waits for the end of a gap.
    postponed: bool,
    /// Whether the interrupt stays unmasked after an interrupt at unmasking ([`netcliff_core::scheme::Gap::Reopened`]).
    open: bool,
    /// Time at which the interrupt being delivered, or the timer of a deferred interrupt, is handled [ticks];
    /// [`NEVER`]: no such interrupt.
    interrupt_due: u64,
    /// Whether `interrupt_due` is the timer of a deferred interrupt.
    deferring: bool,
    /// napi_defer_hard_irqs.
    defer_hard_irqs: u32,
    /// gro_flush_timeout [ticks].
    gro_flush_timeout: u64,
    /// Number of further polls without work during which the interrupt stays masked; starts at `defer_hard_irqs`.
    defers_left: u32,
    /// Whether the application polls when its socket is empty.
    busy_poll: bool,
    /// How long interrupts stay off after a poll of the application that found packets [ticks].
    irq_suspend_timeout: Option<u64>,
    /// Whether NET_RX is raised.
    pending: bool,
    current: Thread,
    /// Time at which `current` got the CPU [ticks].
    since: u64,
    /// Whether ksoftirqd or the NAPI thread wants the CPU.
    kernel_awake: bool,
    /// Number of applications that have waited longer than the kernel thread.
    kernel_behind: usize,
    /// Whether the NAPI thread has slept and the context switch to it must still be paid.
    kernel_owes_switch: bool,
    /// CPU time by which the other threads are ahead of the NAPI thread, at most a slice [ticks]; negative if it is ahead.
    credit: i64,
    /// Whether a woken thread preempts the running one: it idles, or it is the application and the NAPI thread has credit.
    preempted: bool,
}

/// Runs the scheme `napi` to the end of the replication.
pub(super) fn run<W: Watch>(napi: &Napi, host: &Host, clock: Clock, machine: &mut Machine<W>) {
    let mut linux = Linux::new(napi, host, clock, machine);
    while !machine.done {
        linux.step(machine);
    }
}

impl Linux {
    /// Makes the kernel's state on an idle CPU.
    pub(crate) fn new<W: Watch>(napi: &Napi, host: &Host, clock: Clock, machine: &mut Machine<W>) -> Self {
        let mask_ticks = if napi.backlog { 0.0 } else { machine.times.mask_ticks };
        let whole_ticks = machine.times.interrupt.mean_ticks() + mask_ticks;
        let resume_ticks = if host.application_s.is_some() { machine.times.resume.mean_ticks() } else { 0.0 };
        let interrupt_ticks = (whole_ticks - resume_ticks).max(0.0);
        let polling_ticks = host.interrupt_polling_s.map_or(interrupt_ticks, |seconds| clock.ticks(seconds));
        if napi.backlog {
            // enqueue_to_backlog drops only if the queue is longer than netdev_max_backlog, so that one more packet
            // fits.
            machine.ring_limit = machine.ring_limit.saturating_add(1);
        }
        Self {
            weight: napi.weight,
            batch: napi.gro_normal_batch,
            gathered: 0,
            limits: Limits {
                budget: napi.budget,
                budget_jiffies: (napi.budget_time_s / host.tick_s).ceil() as u64,
                softirq_jiffies: (SOFTIRQ_TIME_S / host.tick_s).ceil() as u64,
                older: napi.ksoftirqd && !napi.threaded,
                scheduler: machine.times.scheduler,
            },
            backlog: napi.backlog,
            threaded: napi.threaded,
            interrupt_ticks,
            began_poll: false,
            polling_ticks,
            softirq_ticks: if resume_ticks > 0.0 { polling_ticks } else { interrupt_ticks },
            nic: Moderation::of_nic(&napi.moderation, clock),
            slice: clock.whole(SLICE_S),
            scheduled: false,
            missed: false,
            cause_at: 0,
            postponed: false,
            open: false,
            interrupt_due: NEVER,
            deferring: false,
            defer_hard_irqs: napi.defer_hard_irqs,
            gro_flush_timeout: clock.whole(napi.gro_flush_timeout_s).max(1),
            defers_left: 0,
            busy_poll: napi.busy_poll,
            irq_suspend_timeout: (napi.irq_suspend_timeout_s > 0.0)
                .then(|| clock.whole(napi.irq_suspend_timeout_s).max(1)),
            pending: false,
            current: Thread::Idle,
            since: 0,
            kernel_awake: false,
            kernel_behind: 0,
            kernel_owes_switch: true,
            credit: 0,
            preempted: false,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Runs the thread that has the CPU, and picks the next one.
    pub(crate) fn step<W: Watch>(&mut self, machine: &mut Machine<W>) {
        match self.current {
            Thread::Idle => self.idle(machine),
            Thread::Application => self.application(machine),
            Thread::Kernel if self.threaded => self.napi_thread(machine),
            Thread::Kernel => self.ksoftirqd(machine),
        }
        self.schedule(machine);
    }

    /// Whether the CPU is idle and no interrupt is being delivered: nothing happens until a packet arrives.
    pub(crate) fn rests<W: Watch>(&self, machine: &Machine<W>) -> bool {
        let idle = self.current == Thread::Idle && !self.kernel_awake && !self.pending && !self.scheduled;
        idle && machine.is_empty()
    }

    /// Continues after a round of softirqs that woke ksoftirqd for pending work. Before that, the CPU was idle or, if
    /// `since` is given, had run the application since then.
    pub(crate) fn leave_to_ksoftirqd<W: Watch>(&mut self, machine: &mut Machine<W>, since: Option<u64>) {
        (self.scheduled, self.pending) = (true, true);
        self.current = if since.is_some() { Thread::Application } else { Thread::Idle };
        self.since = since.unwrap_or(machine.now);
        self.wake_kernel_thread(machine);
        if since.is_none() {
            self.schedule(machine);
        }
    }

    /// Time of the next arrival, timer of the NIC or interrupt [ticks].
    fn next_event<W: Watch>(&self, machine: &mut Machine<W>) -> u64 {
        let arrival = machine.next_look(!self.scheduled || self.interrupts_polls());
        // An event that was due during the handling of a transmit interrupt is due now.
        arrival.min(self.interrupt_due).min(self.nic.timer()).max(machine.now)
    }

    /// Handles the event that is due now: a delivered interrupt, an arrival, or a timer of the NIC. Returns true if an
    /// interrupt was handled.
    fn event<W: Watch>(&mut self, machine: &mut Machine<W>) -> bool {
        if machine.now >= self.interrupt_due {
            if self.deferring {
                machine.note_timer();
            }
            self.interrupt(machine);
            return true;
        }
        let now = machine.now;
        let missed = self.nic.timer() < now;
        let asserts = if machine.arrival_due() && !missed {
            match machine.take_arrival() {
                Arrival::Accepted if !self.scheduled || self.interrupts_polls() => self.packet(machine),
                // Count and timers apply to packets, the gap applies to every interrupt.
                Arrival::Completion if !self.scheduled => self.nic.fire(now),
                _ => false,
            }
        } else {
            machine.note_timer();
            self.nic.fire(now)
        };
        asserts && self.assert(machine)
    }

    /// Asserts and masks the NIC's interrupt. Returns true if it is handled at once, false if it is delivered later.
    fn assert<W: Watch>(&mut self, machine: &mut Machine<W>) -> bool {
        if self.scheduled {
            return self.again(machine);
        }
        self.scheduled = true;
        self.nic.assert(machine.now);
        let delivery = machine.times.delivery.next();
        if delivery == 0 {
            self.interrupt(machine);
            return true;
        }
        self.interrupt_due = machine.now + delivery;
        false
    }

    /// Runs the interrupt's handler, which passes NAPI to a softirq or to its thread.
    fn interrupt<W: Watch>(&mut self, machine: &mut Machine<W>) {
        self.interrupt_of(machine, self.interrupt_ticks);
    }

    /// Runs an interrupt's handler with the mean `mean` [ticks].
    fn interrupt_of<W: Watch>(&mut self, machine: &mut Machine<W>, mean: f64) {
        self.scheduled = true;
        self.interrupt_due = NEVER;
        self.began_poll = true;
        machine.counts.interrupts += 1;
        self.read_cause(machine);
        // When the timer fires, the NIC is masked already.
        let timer = std::mem::take(&mut self.deferring);
        let mean = if timer { machine.times.interrupt.mean_ticks() } else { mean };
        let latched = self.handle(machine, mean);
        if self.threaded {
            self.wake_kernel_thread(machine);
        } else {
            self.pending = true;
        }
        machine.transmit_interrupts();
        if latched {
            self.again(machine);
        }
    }

    /// wakeup_softirqd, or the wake-up of the NAPI thread.
    fn wake_kernel_thread<W: Watch>(&mut self, machine: &Machine<W>) {
        if !self.kernel_awake {
            self.kernel_behind = machine.applications_waiting();
            // As in EEVDF, whose running entity keeps the CPU only while it is eligible (__pick_eevdf, kernel/sched/fair.c).
            if self.threaded && self.current == Thread::Application && self.credit_at(machine.now) > 0 {
                (self.kernel_behind, self.preempted) = (0, true);
            }
        }
        self.kernel_awake = true;
        self.preempted |= self.current == Thread::Idle;
    }

    /// The credit if the running thread has had the CPU up to `now`.
    fn credit_at(&self, now: u64) -> i64 {
        let ran = (now - self.since) as i64;
        let credit = if self.current == Thread::Kernel { self.credit - ran } else { self.credit + ran };
        credit.min(self.slice as i64)
    }

    /// TIF_NEED_RESCHED of the running thread: set by a wake-up that preempts it, and at a tick when another thread waits
    /// and the running thread's slice is used up.
    fn need_resched<W: Watch>(&self, machine: &Machine<W>) -> bool {
        match self.current {
            Thread::Idle => self.preempted,
            Thread::Application if self.preempted => true,
            Thread::Application => {
                (self.kernel_awake || machine.applications_waiting() > 0) && self.tick_passed(machine.now)
            }
            Thread::Kernel => machine.application_awake() && self.tick_passed(machine.now),
        }
    }

    fn tick_passed(&self, now: u64) -> bool {
        self.limits.scheduler.since(self.since + self.slice, now)
    }

    /// Whether softirqs run at the end of an interrupt or of a section with softirqs disabled. With `ksoftirqd_running`
    /// of older kernels, they wait for ksoftirqd.
    fn softirqs_due(&self) -> bool {
        self.pending && !(self.limits.older && self.kernel_awake)
    }

    /// handle_softirqs: runs rounds of net_rx_action while NET_RX is raised and the limits allow; ksoftirqd does the
    /// rest.
    fn handle_softirqs<W: Watch>(&mut self, machine: &mut Machine<W>) {
        let began = machine.now;
        for round in 1.. {
            self.pending = false;
            self.net_rx_action(machine);
            if !self.pending || machine.done {
                return;
            }
            let too_long = self.limits.too_long(began, machine.now, self.limits.softirq_jiffies);
            if round == ROUNDS || too_long || self.need_resched(machine) {
                break;
            }
        }
        self.wake_kernel_thread(machine);
    }

    /// net_rx_action for one instance. A poll that used its weight raises NET_RX again. If a poll completed and its
    /// instance was scheduled again, it is polled again while packet and time budget last. Older kernels leave this to
    /// the next round: they splice `list` from poll_list once; `goto start` came with `in_net_rx_action` in 6.4.
    fn net_rx_action<W: Watch>(&mut self, machine: &mut Machine<W>) {
        let began = machine.now;
        let mut left = self.limits.budget;
        loop {
            let work = self.poll(machine);
            if work == self.weight {
                self.pending = true;
                return;
            }
            left = left.saturating_sub(work);
            let too_long = self.limits.too_long(began, machine.now, self.limits.budget_jiffies);
            if !self.pending || self.limits.older || left == 0 || too_long {
                return;
            }
            self.pending = false;
        }
    }

    /// Runs one poll. Returns the number of packets processed. If the poll used the whole weight, or completions
    /// remain, the instance stays scheduled.
    fn poll<W: Watch>(&mut self, machine: &mut Machine<W>) -> u64 {
        let (work, clean) = self.poll_once(machine, self.weight);
        if !clean {
            return self.weight;
        }
        if work < self.weight {
            self.complete(machine, work);
        }
        work
    }

    /// Runs the driver's part of a poll. Returns the number of packets processed, at most `weight`, and false if
    /// completions remain.
    #[inline]
    fn poll_once<W: Watch>(&mut self, machine: &mut Machine<W>, weight: u64) -> (u64, bool) {
        machine.counts.polls += 1;
        let overhead = machine.times.poll.next();
        self.spend(machine, Account::Poll, overhead);
        let before = machine.completions_before();
        let mut clean = before != Some(true) || self.clean_transmit(machine);
        let work = if self.backlog { self.process_backlog(machine) } else { self.poll_ring(machine, weight) };
        if before == Some(false) && work < weight {
            clean = self.clean_transmit(machine);
        }
        // gro_normal_list, after the driver has left its loop over the ring.
        for _ in 0..std::mem::take(&mut self.gathered) {
            self.process(machine);
        }
        (work, clean)
    }

    /// A driver's clean_tx_irq: processes completions until no completion waits. Returns false if it reached its limit
    /// first.
    #[inline(never)]
    fn clean_transmit<W: Watch>(&mut self, machine: &mut Machine<W>) -> bool {
        for _ in 0..COMPLETIONS {
            if !machine.completion_due() {
                return true;
            }
            let work = machine.completion_work();
            machine.spend(Account::Protocol, work);
            machine.finish_completion();
        }
        false
    }

    /// process_backlog: moves the whole input queue to the process queue whenever the latter is empty. Once the weight
    /// is used up, only the next poll examines the queues, even if they are empty.
    fn process_backlog<W: Watch>(&mut self, machine: &mut Machine<W>) -> u64 {
        for work in 0..self.weight {
            if machine.uncounted == 0 {
                if machine.ring_is_empty() {
                    return work;
                }
                machine.splice();
            }
            // In the kernel, a packet leaves the process queue before its processing; here it stays at the head of
            // `ring`, uncounted, until the end of the processing.
            self.process(machine);
        }
        self.weight
    }

    /// A driver's poll: takes packets from the ring until it is empty or the weight is used up.
    fn poll_ring<W: Watch>(&mut self, machine: &mut Machine<W>, weight: u64) -> u64 {
        if self.batch > 1 {
            return self.poll_in_batches(machine, weight);
        }
        for work in 0..weight {
            if machine.ring_is_empty() {
                return work;
            }
            self.process(machine);
        }
        weight
    }

    /// A driver's poll if napi_gro_receive collects packets: a full batch is passed on at once, the last batch after
    /// the loop. A packet occupies its ring slot until then, because drivers refill the ring in batches too.
    fn poll_in_batches<W: Watch>(&mut self, machine: &mut Machine<W>, weight: u64) -> u64 {
        let mut work = 0;
        while work < weight {
            let found = self.batch.min(weight - work).min(machine.ring_len() as u64);
            work += found;
            if found < self.batch {
                self.gathered = found;
                return work;
            }
            for _ in 0..found {
                self.process(machine);
            }
        }
        work
    }

    #[inline(always)]
    fn process<W: Watch>(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        self.spend(machine, Account::Protocol, work);
        machine.uncounted = machine.uncounted.saturating_sub(1);
        if machine.finish_packet() {
            self.preempted |= self.current == Thread::Idle;
        }
    }

    /// napi_complete_done, then the driver unmasks; packets that arrived during the poll interrupt at once. If hard
    /// interrupts are deferred, the NIC stays masked and a timer schedules the next poll.
    fn complete<W: Watch>(&mut self, machine: &mut Machine<W>, work: u64) {
        if std::mem::take(&mut self.missed) {
            // The instance stays scheduled and is polled again, because an interrupt came during the poll
            // (napi_complete_done).
            if self.threaded {
                self.wake_kernel_thread(machine);
            } else {
                self.pending = true;
            }
            return;
        }
        if work > 0 {
            self.defers_left = self.defer_hard_irqs;
        }
        if self.defers_left > 0 {
            self.defers_left -= 1;
            self.deferring = true;
            self.interrupt_due = machine.now + self.gro_flush_timeout;
            return;
        }
        self.unmask(machine);
    }

    /// Unmasks the NIC. Packets that arrived earlier interrupt at once, unless the NIC's count, timers or gap delay the
    /// interrupt.
    fn unmask<W: Watch>(&mut self, machine: &mut Machine<W>) {
        let before = self.before_unmask(machine);
        if !self.backlog && machine.times.mask_ticks > 0.0 {
            let unmask = machine.times.poll.next_of_mean(machine.times.mask_ticks);
            machine.spend(Account::Poll, unmask);
        }
        self.scheduled = false;
        let causes = self.causes_at_unmask(machine, before);
        let packets = self.nic.unmask(causes, machine.now);
        if packets || (machine.completion_due() && self.nic.fire(machine.now)) {
            self.nic.assert(machine.now);
            self.interrupt_of(machine, self.softirq_ticks);
        }
    }
}
