//! [`Queue`]: a ring with its NIC side: when its packets interrupt, and when they may be served.

use netcliff_core::{Point, Scheme};

use crate::clock::{Clock, NEVER};
use crate::fifo::{Fifo, Packet};
use crate::machine::{Records, Times};
use crate::schemes::Moderation;
use crate::source::Source;
use crate::tally::Counts;

/// What a scheme makes of arrivals.
enum Rule {
    Ideal,
    Interrupt { drops_interrupt: bool },
    DisableEnable,
    Coalesce { moderation: Moderation, masks: bool, drops_interrupt: bool },
    Napi { defer_hard_irqs: u32, gro_flush_timeout: u64 },
}

/// One queue.
pub(super) struct Queue {
    pub ring: Fifo,
    pub counts: Counts,
    pub records: Records,
    pub next_arrival: u64,
    /// When an interrupt on its way, or deferred, is handled [ticks]; [`NEVER`] if none is.
    pub interrupt_due: u64,
    /// An interrupt waits or is handled.
    pub interrupting: bool,
    pub times: Times,
    ring_limit: usize,
    arriving: Packet,
    source: Source,
    rule: Rule,
    /// Interrupts are off; for NAPI, scheduled.
    masked: bool,
    /// What is due is the timer of a deferred interrupt.
    deferring: bool,
    defers_left: u32,
    /// Packets at the head of the ring that a moderated interrupt has announced.
    announced: usize,
}

impl Queue {
    pub(super) fn new(point: &Point, clock: Clock, seed: u64, replication: u64, packets: u64) -> Self {
        let mut source = Source::new(point, clock, seed, replication);
        let arriving = source.next();
        let rule = match &point.scheme {
            Scheme::Interrupt { drops_interrupt } => Rule::Interrupt { drops_interrupt: *drops_interrupt },
            Scheme::DisableEnable { .. } => Rule::DisableEnable,
            Scheme::Coalesce(scheme) => Rule::Coalesce {
                moderation: Moderation::of(scheme, clock),
                masks: scheme.masked,
                drops_interrupt: scheme.drops_interrupt,
            },
            Scheme::Napi(napi) => Rule::Napi {
                defer_hard_irqs: napi.defer_hard_irqs,
                gro_flush_timeout: clock.whole(napi.gro_flush_timeout_s).max(1),
            },
            _ => Rule::Ideal,
        };
        Self {
            ring: Fifo::new(),
            counts: Counts::default(),
            records: Records::new(packets),
            next_arrival: arriving.arrived,
            interrupt_due: NEVER,
            interrupting: false,
            ring_limit: usize::try_from(point.host.ring).unwrap_or(usize::MAX),
            times: Times::new(point, clock, seed, replication),
            arriving,
            source,
            rule,
            masked: false,
            deferring: false,
            defers_left: 0,
            announced: 0,
        }
    }

    /// The arrival that is due; true if it interrupts now.
    pub(super) fn arrival(&mut self, now: u64) -> bool {
        self.counts.offered += 1;
        let packet = Packet { arrived: now, ..self.arriving };
        self.arriving = self.source.next();
        self.next_arrival = now + self.arriving.arrived;
        let accepted = self.ring.len() < self.ring_limit;
        if accepted {
            self.ring.push(packet);
        } else {
            self.counts.dropped_ring += 1;
        }
        if self.interrupting || self.masked {
            return false;
        }
        match &mut self.rule {
            Rule::Ideal => false,
            Rule::Interrupt { drops_interrupt } => accepted || *drops_interrupt,
            Rule::Coalesce { moderation, drops_interrupt, .. } => {
                (accepted || *drops_interrupt) && moderation.packet(now)
            }
            Rule::DisableEnable => {
                self.masked = accepted;
                accepted
            }
            Rule::Napi { .. } => accepted && self.schedule(now),
        }
    }

    /// The first arrival while NAPI is idle masks and interrupts: at once (true), or when that is delivered.
    fn schedule(&mut self, now: u64) -> bool {
        self.masked = true;
        let delivery = self.times.delivery.next();
        if delivery > 0 {
            self.interrupt_due = now + delivery;
        }
        delivery == 0
    }

    /// The NIC's next timer [ticks].
    pub(super) fn moderation_timer(&self) -> u64 {
        match &self.rule {
            Rule::Coalesce { moderation, .. } => moderation.timer(),
            _ => NEVER,
        }
    }

    /// That timer is due; true if it interrupts now.
    pub(super) fn moderation_fires(&mut self, now: u64) -> bool {
        match &mut self.rule {
            Rule::Coalesce { moderation, .. } => moderation.fire(now),
            _ => false,
        }
    }

    /// Time of the interrupt whose handling begins [ticks].
    pub(super) fn interrupt_work(&mut self) -> u64 {
        self.counts.interrupts += 1;
        let masks = match &self.rule {
            Rule::Ideal | Rule::Interrupt { .. } => false,
            Rule::DisableEnable => true,
            Rule::Coalesce { masks, .. } => *masks,
            // The timer of a deferred interrupt finds the NIC masked already.
            Rule::Napi { .. } => !std::mem::take(&mut self.deferring),
        };
        let mask_ticks = if masks { self.times.mask_ticks } else { 0.0 };
        let mean = mask_ticks + self.times.interrupt.mean_ticks();
        self.times.interrupt.next_of_mean(mean)
    }

    /// The interrupt's handler ends.
    pub(super) fn interrupt_handled(&mut self, now: u64) {
        if let Rule::Coalesce { moderation, masks, .. } = &mut self.rule {
            moderation.handled(now);
            self.announced = self.ring.len();
            self.masked = *masks && self.announced > 0;
        }
    }

    /// True if protocol processing may serve a packet now. NAPI's is served by polls.
    pub(super) fn ready(&self) -> bool {
        match &self.rule {
            Rule::Ideal | Rule::Interrupt { .. } => !self.ring.is_empty(),
            Rule::DisableEnable => self.masked,
            Rule::Coalesce { .. } => self.announced > 0,
            Rule::Napi { .. } => false,
        }
    }

    /// The packet at the head has been processed.
    pub(super) fn served(&mut self, now: u64) {
        let packet = self.ring.pop();
        let latency = now - packet.arrived;
        self.counts.processed += 1;
        self.counts.processed_latency += u128::from(latency);
        self.counts.delivered += 1;
        self.counts.delivered_bytes += u64::from(packet.bytes);
        self.counts.latency += u128::from(latency);
        self.records.latency(latency);
        match self.rule {
            Rule::DisableEnable => self.masked = !self.ring.is_empty(),
            Rule::Coalesce { .. } if self.masked => {
                self.announced = self.ring.len();
                self.masked = self.announced > 0;
            }
            Rule::Coalesce { .. } => self.announced -= 1,
            _ => {}
        }
    }

    /// Overhead of a poll that begins [ticks].
    pub(super) fn poll_work(&mut self) -> u64 {
        self.counts.polls += 1;
        self.times.poll.next()
    }

    /// A poll completes, after no packets if `idle`. True: interrupts stay deferred, and a timer schedules the next poll.
    pub(super) fn defers(&mut self, idle: bool, now: u64) -> bool {
        let Rule::Napi { defer_hard_irqs, gro_flush_timeout } = self.rule else { return false };
        if !idle {
            self.defers_left = defer_hard_irqs;
        }
        if self.defers_left == 0 {
            return false;
        }
        self.defers_left -= 1;
        self.deferring = true;
        self.interrupt_due = now + gro_flush_timeout;
        true
    }

    /// Time to unmask [ticks].
    pub(super) fn unmask_work(&mut self) -> u64 {
        let mean = self.times.mask_ticks;
        self.times.poll.next_of_mean(mean)
    }

    /// Interrupts are on again; true if packets that came meanwhile interrupt at once.
    pub(super) fn unmasked(&mut self) -> bool {
        // The driver's handler masks at once again.
        self.masked = !self.ring.is_empty();
        self.masked
    }

    /// Records the counts up to now; true if that was the last time.
    pub(super) fn mark(&mut self, now: u64) -> bool {
        let ages = self.ring.iter().map(|packet| u128::from(now - packet.arrived)).sum::<u128>();
        let area = self.counts.processed_latency + ages;
        let counts =
            Counts { at: now, inside_ring: self.ring.len() as u64, ring_area: area, system_area: area, ..self.counts };
        debug_assert_eq!(counts.offered, counts.delivered + counts.dropped_ring + counts.inside_ring, "{counts:?}");
        self.records.push(counts, &[])
    }
}
