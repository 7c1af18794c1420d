//! `coalesce`: an interrupt by frame count, by a timer from the first packet, by a timer from the last packet, or by
//! the earliest of these conditions, and at most one interrupt per gap. Packets are served once an interrupt has
//! announced them.
//!
//! Count and timers restart when an interrupt's handling ends. An interrupt also announces the packets that arrive
//! during its handling.

use netcliff_core::scheme::Gap;

use super::{Policy, preemptible};
use crate::clock::{Clock, NEVER};
use crate::free_running::FreeRunning;
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// The NIC's moderation: its limits, and its counts since the last interrupt.
pub(crate) struct Moderation {
    /// Number of frames that causes an interrupt; [`NEVER`] if frames are not counted.
    pub(super) frames: u64,
    /// Timer from the first packet [ticks]. `None` if off.
    pub(super) absolute: Option<u64>,
    /// Timer from the last packet [ticks]. `None` if off.
    pub(super) packet: Option<u64>,
    /// Free-running timer, used instead of the one from the first packet.
    free: Option<FreeRunning>,
    gap: u64,
    counted: u64,
    absolute_at: u64,
    packet_at: u64,
    /// End of the gap [ticks] if an interrupt is due and waits for it; otherwise [`NEVER`].
    held_until: u64,
    gap_ends: u64,
    /// The rule for the gap.
    rule: Gap,
    /// Whether the present interrupt waited for the end of a gap.
    waited: bool,
    /// Delay of the gap's end, which is also the shortest time from that end to the next interrupt [ticks].
    late: u64,
    /// Whether an interrupt that is due waits for the delayed end.
    rests: bool,
}

impl Moderation {
    pub(crate) fn new(frames: Option<u64>, absolute: Option<u64>, packet: Option<u64>, gap: Option<u64>) -> Self {
        let nothing_set = frames.is_none() && absolute.is_none() && packet.is_none();
        Self {
            frames: if nothing_set { 1 } else { frames.unwrap_or(NEVER) },
            absolute,
            packet,
            free: None,
            gap: gap.unwrap_or(0),
            counted: 0,
            absolute_at: NEVER,
            packet_at: NEVER,
            held_until: NEVER,
            gap_ends: 0,
            rule: Gap::Each,
            waited: false,
            late: 0,
            rests: false,
        }
    }

    /// Makes the moderation of a scheme; `timer` makes a free-running timer with a period [ticks].
    pub(crate) fn of(scheme: &netcliff_core::Coalesce, clock: Clock, timer: impl FnOnce(u64) -> FreeRunning) -> Self {
        let times_s = [scheme.absolute_timer_s, scheme.packet_timer_s, scheme.min_gap_s];
        let moderation = Self::of_times(scheme.frames, times_s, clock);
        match scheme.free_period_s() {
            Some(period_s) => Self { absolute: None, free: Some(timer(clock.whole(period_s))), ..moderation },
            None => moderation,
        }
    }

    /// The moderation of a NIC that NAPI polls.
    pub(super) fn of_nic(nic: &netcliff_core::Moderation, clock: Clock) -> Self {
        let times_s = [nic.absolute_timer_s, nic.packet_timer_s, nic.min_gap_s];
        let late = nic.quirk.gap_late_s.map_or(0, |seconds| clock.whole(seconds));
        Self { rule: nic.quirk.gap, late, ..Self::of_times(nic.frames, times_s, clock) }
    }

    /// The rule for the gap.
    #[inline]
    pub(super) fn rule(&self) -> Gap {
        self.rule
    }

    /// Whether an interrupt waits for the end of a gap.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.held_until != NEVER
    }

    /// Moderation with an absolute timer, a packet timer and a gap (s). `None` and 0 mean off.
    fn of_times(frames: Option<u64>, times_s: [Option<f64>; 3], clock: Clock) -> Self {
        let ticks = |seconds: Option<f64>| seconds.map(|seconds| clock.whole(seconds)).filter(|ticks| *ticks > 0);
        let [absolute, packet, gap] = times_s.map(ticks);
        Self::new(frames, absolute, packet, gap)
    }

    /// Time of the next timer [ticks].
    #[inline]
    pub(crate) fn timer(&self) -> u64 {
        self.absolute_at.min(self.packet_at).min(self.held_until)
    }

    /// Counts a packet. Returns true if it interrupts now.
    #[inline]
    pub(crate) fn packet(&mut self, now: u64) -> bool {
        self.counted += 1;
        if self.held_until != NEVER {
            return false;
        }
        if self.counted >= self.frames {
            return self.fire(now);
        }
        if self.counted == 1
            && let Some(absolute) = self.absolute
        {
            self.absolute_at = now + absolute;
        }
        if self.counted == 1
            && let Some(free) = self.free
        {
            self.absolute_at = free.next(now);
        }
        if let Some(packet) = self.packet {
            self.packet_at = now + packet;
        }
        false
    }

    /// Handles a timer that is due, or a frame count that is reached. Returns true if the interrupt may be raised now;
    /// false if it waits for the end of the gap.
    #[inline]
    pub(crate) fn fire(&mut self, now: u64) -> bool {
        let held = self.held_until != NEVER;
        self.waited = held && !std::mem::take(&mut self.rests);
        (self.absolute_at, self.packet_at, self.held_until) = (NEVER, NEVER, NEVER);
        if now < self.gap_ends {
            self.held_until = self.gap_ends;
            self.rests = self.rule == Gap::Echo && !held;
        }
        self.held_until == NEVER
    }

    /// Records that an interrupt has been handled.
    #[inline]
    pub(crate) fn handled(&mut self, now: u64) {
        self.counted = 0;
        self.gap_ends = now + self.gap;
    }

    /// Masks the interrupt: nothing is announced; polls take the counted packets.
    #[inline]
    pub(super) fn mask(&mut self) {
        self.counted = 0;
        (self.absolute_at, self.packet_at, self.held_until) = (NEVER, NEVER, NEVER);
    }

    /// Asserts the interrupt, which masks it: the gap starts.
    #[inline]
    pub(super) fn assert(&mut self, now: u64) {
        self.mask();
        let ends = matches!(self.rule, Gap::Direct | Gap::Echo);
        if !ends || !std::mem::take(&mut self.waited) {
            self.gap_ends = now + self.gap + self.late;
            if ends {
                // With this rule the end of the gap always interrupts, whatever arrives before.
                self.held_until = self.gap_ends;
            }
        } else {
            self.gap_ends = now + self.late;
        }
    }

    /// Unmasks the interrupt while the ring has `packets` packets that no poll has taken: they count as if they arrived
    /// now. Returns true if they interrupt now.
    pub(super) fn unmask(&mut self, packets: usize, now: u64) -> bool {
        if packets == 0 {
            return false;
        }
        self.counted = packets as u64 - 1;
        let interrupts = self.packet(now);
        if self.counted < self.frames {
            self.absolute_at = self.absolute.map_or(NEVER, |absolute| now + absolute);
        }
        interrupts
    }
}

/// Moderated interrupts that preempt protocol work, or are masked until the ring is empty.
pub(super) struct Coalesce {
    pub(super) moderation: Moderation,
    masks: bool,
    drops_interrupt: bool,
    stage_ticks: f64,
    masked: bool,
    /// Number of packets at the head of the ring that an interrupt has announced.
    announced: usize,
}

impl Coalesce {
    pub(super) fn new<W>(scheme: &netcliff_core::Coalesce, clock: Clock, machine: &Machine<W>) -> Self {
        let moderation = Moderation::of(scheme, clock, |period| machine.times.poll_timer(period));
        Self::with(moderation, scheme.masked, scheme.drops_interrupt, machine)
    }

    /// Makes the scheme with interrupts by `moderation`. If interrupts mask, the register write is part of the
    /// interrupt's stage.
    pub(super) fn with<W>(moderation: Moderation, masks: bool, drops_interrupt: bool, machine: &Machine<W>) -> Self {
        let mask_ticks = if masks { machine.times.mask_ticks } else { 0.0 };
        let stage_ticks = mask_ticks + machine.times.interrupt.mean_ticks();
        Self { moderation, masks, drops_interrupt, stage_ticks, masked: false, announced: 0 }
    }

    fn interrupt<W: Watch>(&mut self, machine: &mut Machine<W>) {
        machine.counts.interrupts += 1;
        let stage = machine.times.interrupt.next_of_mean(self.stage_ticks);
        machine.spend(Account::Interrupt, stage);
        self.moderation.handled(machine.now);
        self.announced = machine.ring_len();
        self.masked = self.masks && self.announced > 0;
    }

    /// Whether interrupts are masked.
    pub(super) fn masked(&self) -> bool {
        self.masked
    }
}

impl<W: Watch> Policy<W> for Coalesce {
    #[inline]
    fn timer(&self) -> u64 {
        self.moderation.timer()
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        let interrupts = if machine.arrival_due() {
            let counts = match machine.take_arrival() {
                Arrival::Accepted => !self.masked,
                Arrival::Dropped => !self.masked && self.drops_interrupt,
                Arrival::Completion | Arrival::Elsewhere | Arrival::Ended => false,
            };
            counts && self.moderation.packet(machine.now)
        } else {
            self.moderation.fire(machine.now)
        };
        if interrupts {
            self.interrupt(machine);
        }
    }

    #[inline]
    fn ready(&self, _machine: &Machine<W>) -> bool {
        self.announced > 0
    }

    #[inline]
    fn serve(&mut self, machine: &mut Machine<W>) {
        let work = machine.protocol_work();
        if self.masked {
            machine.spend(Account::Protocol, work);
            machine.finish_packet();
            self.announced = machine.ring_len();
            self.masked = self.announced > 0;
        } else {
            preemptible(machine, self, Account::Protocol, work);
            machine.finish_packet();
            self.announced -= 1;
        }
    }
}
