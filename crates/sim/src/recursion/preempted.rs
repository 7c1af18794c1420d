//! Schemes `interrupt` and unmasked `coalesce`. Interrupts preempt protocol work and depend only on arrivals and
//! timers, so that they are computed first. V(t) = t minus the interrupt handling up to t is a clock that stands still
//! while an interrupt is handled. On this clock, protocol work is Lindley's recursion: a packet announced by an
//! interrupt at v departs at d_n = max(v, d_{n-1}) + S_n. In real time, that is d_n plus all handling that started
//! before d_n on this clock.
//!
//! A protocol time that rounds to 0 ticks counts as one tick here, so that no packet departs at the instant of its
//! interrupt.

use netcliff_core::{Point, Scheme};

use super::Recursion;
use super::handled::{ABREAST, Handled, NONE, began_before};
use crate::clock::{Clock, NEVER};
use crate::draw::Times;
use crate::free_running::FreeRunning;
use crate::random::{BLOCK, Purpose};
use crate::schemes::Moderation;
use crate::source::PacketBlock;
use crate::tally::{Account, Counts, Histogram};

/// An accepted packet.
#[derive(Debug, Clone, Copy, Default)]
struct Accepted {
    arrived: u64,
    /// Protocol time [ticks].
    work: u64,
    /// Departure on the clock of protocol work, which stands still during interrupts; [`NEVER`] until an interrupt
    /// announces the packet.
    departs: u64,
    bytes: u32,
}

/// The latest accepted packets in a ring buffer, interrupts after the last counted departure, and the counts.
pub(super) struct Preempted {
    /// The moderation. `None`: every arrival interrupts, unless an interrupt is being handled.
    moderation: Option<Moderation>,
    drops_interrupt: bool,
    handling: Times,
    now: u64,
    /// End of the latest interrupt.
    ends: u64,
    /// Total interrupt handling up to the end of the latest interrupt.
    total: u64,
    /// Whether the latest interrupt may still announce packets. Not up to date without moderation.
    open: bool,
    packets: Box<[Accepted]>,
    ring: usize,
    accepted: usize,
    announced: usize,
    delivered: usize,
    /// Departure of the last announced packet, and below the idle time before it, on the clock of protocol work, which
    /// stands still during interrupts.
    last: u64,
    idle: u64,
    /// Interrupts not before the last counted departure, followed by [`NONE`] entries.
    interrupts: Vec<Handled>,
    /// Total interrupt handling before the last counted departure.
    passed: u64,
    counts: Counts,
}

impl Preempted {
    /// Prepares the recursion. `None` for other schemes, or if packets (or some measured times) take no time.
    pub(super) fn new(point: &Point, ring: usize, clock: Clock, seed: u64, replication: u64) -> Option<Self> {
        let (moderation, drops_interrupt) = match &point.scheme {
            Scheme::Interrupt { drops_interrupt } => (None, *drops_interrupt),
            Scheme::Coalesce(scheme) if !scheme.masked => {
                let timer = |period| FreeRunning::new(period, seed, Purpose::PollTimer, replication);
                (Some(Moderation::of(scheme, clock, timer)), scheme.drops_interrupt)
            }
            _ => return None,
        };
        let host = &point.host;
        if !super::lasts(clock, host, host.packet_s()) {
            return None;
        }
        let mean_ticks = clock.ticks(host.interrupt_s);
        Some(Self {
            moderation,
            drops_interrupt,
            handling: Times::new(seed, Purpose::Interrupt, replication, &host.service, mean_ticks),
            now: 0,
            ends: 0,
            total: 0,
            open: false,
            // Room for the packets inside, and for packets of the block that have not been counted yet.
            packets: vec![Accepted::default(); (ring + BLOCK).next_power_of_two()].into_boxed_slice(),
            ring,
            accepted: 0,
            announced: 0,
            delivered: 0,
            last: 0,
            idle: 0,
            interrupts: vec![NONE; ABREAST],
            passed: 0,
            counts: Counts::default(),
        })
    }

    #[inline]
    fn place(&self, number: usize) -> usize {
        number & (self.packets.len() - 1)
    }

    /// Returns the clock of protocol work, which stands still during interrupts, at `at`. `at` must not be before the
    /// latest interrupt.
    #[inline]
    fn shown(&self, at: u64) -> u64 {
        at.max(self.ends) - self.total
    }

    /// Handles the events before an arrival at `at`: the end of an interrupt, and timers.
    #[inline]
    fn catch_up(&mut self, at: u64) {
        loop {
            let Some(moderation) = &mut self.moderation else { return };
            if self.open {
                if self.ends > at {
                    return;
                }
                self.open = false;
                moderation.handled(self.ends);
            }
            let timer = moderation.timer();
            if timer >= at {
                return;
            }
            if moderation.fire(timer) {
                self.interrupt(timer);
            }
        }
    }

    /// Starts an interrupt at `at`, which announces all waiting packets. Packets that arrive before its end are
    /// announced at their arrival.
    #[inline]
    fn interrupt(&mut self, at: u64) {
        let shown = at - self.total;
        let handling = self.handling.next();
        self.total += handling;
        self.ends = at + handling;
        self.open = true;
        self.counts.interrupts += 1;
        let end = self.interrupts.len() - ABREAST;
        self.interrupts[end] = Handled { at: shown, total: self.total };
        self.interrupts.push(NONE);
        self.announce(shown);
    }

    /// Announces all waiting packets by an interrupt that started at `at` on the clock of protocol work.
    #[inline]
    fn announce(&mut self, at: u64) {
        while self.announced < self.accepted {
            let place = self.place(self.announced);
            let start = self.last.max(at);
            self.idle += start - self.last;
            self.last = start + self.packets[place].work;
            self.packets[place].departs = self.last;
            self.announced += 1;
        }
    }

    /// Handles the arrival of a packet at `at`.
    #[inline]
    fn arrive_one(&mut self, at: u64, work: u64, bytes: u32) {
        let shown = self.shown(at);
        let oldest = self.place(self.accepted.wrapping_sub(self.ring));
        let accepted = self.packets[oldest].departs <= shown;
        if accepted {
            let place = self.place(self.accepted);
            self.packets[place] = Accepted { arrived: at, work: work.max(1), departs: NEVER, bytes };
            self.accepted += 1;
        } else {
            self.counts.dropped_ring += 1;
        }
        if self.open {
            self.announce(shown);
        } else if (accepted || self.drops_interrupt) && self.moderation.as_mut().is_some_and(|m| m.packet(at)) {
            self.interrupt(at);
        }
    }

    /// Handles arrivals without moderation. Whether an arrival interrupts is computed without a branch, because the CPU
    /// could not predict it.
    fn arrive_unmoderated(&mut self, packets: PacketBlock<'_>) {
        let mask = self.packets.len() - 1;
        let kept = &mut self.packets[..=mask];
        let (mut now, mut last, mut idle, mut accepted) = (self.now, self.last, self.idle, self.accepted);
        let (mut ends, mut total) = (self.ends, self.total);
        let handlings = self.handling.ahead(packets.gaps.len());
        let first = self.interrupts.len() - ABREAST;
        self.interrupts.resize(first + packets.gaps.len() + ABREAST, NONE);
        let interrupts = &mut self.interrupts[first..];
        let mut begun = 0;
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            now += gap;
            let shown = now.max(ends) - total;
            let room = kept[accepted.wrapping_sub(self.ring) & mask].departs <= shown;
            if room {
                let start = last.max(shown);
                idle += start - last;
                last = start + (*work).max(1);
                kept[accepted & mask] = Accepted { arrived: now, work: 0, departs: last, bytes: *bytes };
                accepted += 1;
            } else if !self.drops_interrupt {
                continue;
            }
            let begins = now >= ends;
            let handling = if begins { handlings[begun] } else { 0 };
            total += handling;
            ends = if begins { now + handling } else { ends };
            interrupts[begun] = Handled { at: shown, total };
            begun += usize::from(begins);
        }
        self.interrupts[first + begun..].fill(NONE);
        self.interrupts.truncate(first + begun + ABREAST);
        self.handling.took(begun);
        self.counts.interrupts += begun as u64;
        self.counts.dropped_ring += (packets.gaps.len() - (accepted - self.accepted)) as u64;
        (self.now, self.last, self.idle, self.accepted, self.announced) = (now, last, idle, accepted, accepted);
        (self.ends, self.total) = (ends, total);
    }
}

impl Recursion for Preempted {
    fn arrive(&mut self, packets: PacketBlock<'_>) {
        if self.moderation.is_none() {
            return self.arrive_unmoderated(packets);
        }
        for ((gap, work), bytes) in packets.gaps.iter().zip(packets.protocol).zip(packets.bytes) {
            let at = self.now + gap;
            self.catch_up(at);
            self.now = at;
            self.arrive_one(at, *work, *bytes);
        }
    }

    fn deliver(&mut self, at: u64, latencies: &mut Histogram) {
        let shown = self.shown(at);
        let mask = self.packets.len() - 1;
        let packets = &self.packets[..=mask];
        let (first, mut delivered, mut unpassed) = (self.delivered, self.delivered, 0);
        let mut sum = 0_u128;
        while delivered < self.accepted {
            let packet = &packets[delivered & mask];
            if packet.departs > shown {
                break;
            }
            unpassed = began_before(&self.interrupts, unpassed, packet.departs);
            let passed = if unpassed == 0 { self.passed } else { self.interrupts[unpassed - 1].total };
            let latency = packet.departs + passed - packet.arrived;
            sum += u128::from(latency);
            latencies.add(latency);
            self.counts.delivered_bytes += u64::from(packet.bytes);
            delivered += 1;
        }
        self.counts.processed_latency += sum;
        self.counts.processed += (delivered - first) as u64;
        self.delivered = delivered;
        if unpassed > 0 {
            self.passed = self.interrupts[unpassed - 1].total;
            self.interrupts.drain(..unpassed);
        }
    }

    fn reach(&mut self, gap: u64) -> u64 {
        let at = self.now + gap;
        self.catch_up(at);
        at
    }

    fn counts(&mut self, at: u64) -> Counts {
        let inside = (self.delivered..self.accepted).map(|number| self.packets[self.place(number)]);
        let ages: u128 = inside.map(|packet| u128::from(at - packet.arrived)).sum();
        let shown = self.shown(at);
        let available = self.idle + shown.saturating_sub(self.last);
        let mut counts = Counts {
            at,
            inside_ring: (self.accepted - self.delivered) as u64,
            delivered: self.counts.processed,
            latency: self.counts.processed_latency,
            ring_area: self.counts.processed_latency + ages,
            system_area: self.counts.processed_latency + ages,
            ..self.counts
        };
        counts.cpu[Account::Interrupt as usize] = at - shown;
        counts.cpu[Account::Protocol as usize] = shown - available;
        counts.cpu[Account::Available as usize] = available;
        counts
    }
}
