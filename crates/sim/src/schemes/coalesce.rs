//! `coalesce`: an interrupt by frame count, by a timer from the first packet, by a timer from the last, or by all of
//! them, and at most one a gap. Packets are served once an interrupt has announced them.
//!
//! Count and timers start anew when an interrupt's handling ends; what arrived during it is announced with it.

use netcliff_core::scheme::Gap;

use super::{Policy, preemptible};
use crate::clock::{Clock, NEVER};
use crate::machine::{Arrival, Machine, Watch};
use crate::tally::Account;

/// The NIC's moderation: limits and what has been counted since the last interrupt.
pub(crate) struct Moderation {
    /// Interrupt at so many frames; [`NEVER`]: no count.
    pub(super) frames: u64,
    /// From the first packet [ticks].
    pub(super) absolute: Option<u64>,
    /// From the last packet [ticks].
    pub(super) packet: Option<u64>,
    gap: u64,
    counted: u64,
    absolute_at: u64,
    packet_at: u64,
    /// The interrupt is due but waits for the gap to end.
    held_until: u64,
    gap_ends: u64,
    /// How the gap is kept; the interrupt that comes now waited for the end of one.
    rule: Gap,
    waited: bool,
    /// How late the end of a gap comes, and the least from there to the next interrupt [ticks]; what is held waits for that.
    late: u64,
    rests: bool,
}

impl Moderation {
    pub(crate) fn new(frames: Option<u64>, absolute: Option<u64>, packet: Option<u64>, gap: Option<u64>) -> Self {
        let nothing_set = frames.is_none() && absolute.is_none() && packet.is_none();
        Self {
            frames: if nothing_set { 1 } else { frames.unwrap_or(NEVER) },
            absolute,
            packet,
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

    /// That of a scheme.
    pub(crate) fn of(scheme: &netcliff_core::Coalesce, clock: Clock) -> Self {
        Self::of_times(scheme.frames, [scheme.absolute_timer_s, scheme.packet_timer_s, scheme.min_gap_s], clock)
    }

    /// That of a NIC in front of NAPI.
    pub(super) fn of_nic(nic: &netcliff_core::Moderation, clock: Clock) -> Self {
        let times_s = [nic.absolute_timer_s, nic.packet_timer_s, nic.min_gap_s];
        let late = nic.gap_late_s.map_or(0, |seconds| clock.whole(seconds));
        Self { rule: nic.gap, late, ..Self::of_times(nic.frames, times_s, clock) }
    }

    /// How it keeps its gap.
    #[inline]
    pub(super) fn rule(&self) -> Gap {
        self.rule
    }

    /// True while an interrupt waits for the end of a gap.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.held_until != NEVER
    }

    /// With an absolute timer, a packet timer and a gap (s); None and 0 are off.
    fn of_times(frames: Option<u64>, times_s: [Option<f64>; 3], clock: Clock) -> Self {
        let ticks = |seconds: Option<f64>| seconds.map(|seconds| clock.whole(seconds)).filter(|ticks| *ticks > 0);
        let [absolute, packet, gap] = times_s.map(ticks);
        Self::new(frames, absolute, packet, gap)
    }

    /// The next timer [ticks].
    #[inline]
    pub(crate) fn timer(&self) -> u64 {
        self.absolute_at.min(self.packet_at).min(self.held_until)
    }

    /// A packet counts; true if it interrupts now.
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
        if let Some(packet) = self.packet {
            self.packet_at = now + packet;
        }
        false
    }

    /// A timer is due, or the count is full; true if the interrupt may come now, else it is held until the gap ends.
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

    /// An interrupt has been handled.
    #[inline]
    pub(crate) fn handled(&mut self, now: u64) {
        self.counted = 0;
        self.gap_ends = now + self.gap;
    }

    /// The interrupt is masked: nothing is announced, and what was counted is for polls to take.
    #[inline]
    pub(super) fn mask(&mut self) {
        self.counted = 0;
        (self.absolute_at, self.packet_at, self.held_until) = (NEVER, NEVER, NEVER);
    }

    /// The interrupt is asserted, which masks it: the gap begins.
    #[inline]
    pub(super) fn assert(&mut self, now: u64) {
        self.mask();
        let ends = matches!(self.rule, Gap::Direct | Gap::Echo);
        if !ends || !std::mem::take(&mut self.waited) {
            self.gap_ends = now + self.gap + self.late;
            if ends {
                // Its end comes, whatever comes until then.
                self.held_until = self.gap_ends;
            }
        } else {
            self.gap_ends = now + self.late;
        }
    }

    /// The interrupt is unmasked over `packets` that no poll has taken: they are counted and timed as if they came now. True if they
    /// interrupt now.
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

/// Moderated interrupts, preempting protocol work or masked until the ring is empty.
pub(super) struct Coalesce {
    pub(super) moderation: Moderation,
    masks: bool,
    drops_interrupt: bool,
    stage_ticks: f64,
    masked: bool,
    /// Packets at the head of the ring that an interrupt has announced.
    announced: usize,
}

impl Coalesce {
    pub(super) fn new<W>(scheme: &netcliff_core::Coalesce, clock: Clock, machine: &Machine<W>) -> Self {
        Self::with(Moderation::of(scheme, clock), scheme.masked, scheme.drops_interrupt, machine)
    }

    /// Interrupts by `moderation`; where they mask, the register write is part of the interrupt's stage.
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

    /// True while interrupts are off.
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
