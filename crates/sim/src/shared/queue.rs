//! [`Queue`]: a receive ring with the NIC's part: when packets interrupt and when they may be served.

use netcliff_core::{Point, Scheme};

use crate::clock::{Clock, NEVER};
use crate::fifo::{Fifo, Packet};
use crate::free_running::FreeRunning;
use crate::machine::{Records, Times};
use crate::random::Purpose;
use crate::schemes::Moderation;
use crate::source::Source;
use crate::tally::Counts;

/// How a scheme reacts to arrivals.
enum Rule {
    Ideal,
    Interrupt { drops_interrupt: bool },
    DisableEnable,
    Coalesce { moderation: Moderation, masks: bool, drops_interrupt: bool },
    Napi { defer_hard_irqs: u32, gro_flush_timeout: u64 },
}

/// One queue of a shared core.
pub(super) struct Queue {
    pub ring: Fifo,
    pub counts: Counts,
    pub records: Records,
    pub next_arrival: u64,
    /// Time at which an interrupt that is being delivered or was deferred will be handled [ticks]; [`NEVER`]:
    /// no such interrupt.
    pub interrupt_due: u64,
    /// Whether an interrupt waits or is being handled.
    pub interrupting: bool,
    pub times: Times,
    ring_limit: usize,
    arriving: Packet,
    source: Source,
    rule: Rule,
    /// Whether interrupts are masked; for NAPI: whether its instance is scheduled.
    masked: bool,
    /// Whether `interrupt_due` is the timer of a deferred interrupt.
    deferring: bool,
    defers_left: u32,
    /// Number of packets at the head of the ring that a moderated interrupt has announced.
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
                moderation: Moderation::of(scheme, clock, |period| {
                    FreeRunning::new(period, seed, Purpose::PollTimer, replication)
                }),
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

    /// Processes the arrival that is due. Returns true if it interrupts now.
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

    /// Masks and raises the interrupt for the first arrival while NAPI is idle. Returns true if it is handled at once,
    /// false if it is delivered later.
    fn schedule(&mut self, now: u64) -> bool {
        self.masked = true;
        let delivery = self.times.delivery.next();
        if delivery > 0 {
            self.interrupt_due = now + delivery;
        }
        delivery == 0
    }

    /// Time of the NIC's next timer [ticks].
    pub(super) fn moderation_timer(&self) -> u64 {
        match &self.rule {
            Rule::Coalesce { moderation, .. } => moderation.timer(),
            _ => NEVER,
        }
    }

    /// Processes the NIC's timer, which is due. Returns true if it interrupts now.
    pub(super) fn moderation_fires(&mut self, now: u64) -> bool {
        match &mut self.rule {
            Rule::Coalesce { moderation, .. } => moderation.fire(now),
            _ => false,
        }
    }

    /// Duration of the interrupt whose handling starts [ticks].
    pub(super) fn interrupt_work(&mut self) -> u64 {
        self.counts.interrupts += 1;
        let masks = match &self.rule {
            Rule::Ideal | Rule::Interrupt { .. } => false,
            Rule::DisableEnable => true,
            Rule::Coalesce { masks, .. } => *masks,
            // When the timer of a deferred interrupt fires, the NIC is masked already.
            Rule::Napi { .. } => !std::mem::take(&mut self.deferring),
        };
        let mask_ticks = if masks { self.times.mask_ticks } else { 0.0 };
        let mean = mask_ticks + self.times.interrupt.mean_ticks();
        self.times.interrupt.next_of_mean(mean)
    }

    /// Records that the interrupt's handler has ended.
    pub(super) fn interrupt_handled(&mut self, now: u64) {
        if let Rule::Coalesce { moderation, masks, .. } = &mut self.rule {
            moderation.handled(now);
            self.announced = self.ring.len();
            self.masked = *masks && self.announced > 0;
        }
    }

    /// Whether protocol processing may serve a packet now. Under NAPI, polls serve the packets.
    pub(super) fn ready(&self) -> bool {
        match &self.rule {
            Rule::Ideal | Rule::Interrupt { .. } => !self.ring.is_empty(),
            Rule::DisableEnable => self.masked,
            Rule::Coalesce { .. } => self.announced > 0,
            Rule::Napi { .. } => false,
        }
    }

    /// Records that the packet at the head has been processed.
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

    /// Overhead of the poll that starts [ticks].
    pub(super) fn poll_work(&mut self) -> u64 {
        self.counts.polls += 1;
        self.times.poll.next()
    }

    /// Records that a poll is complete; `idle` if it served no packets. Returns true if interrupts stay deferred; a
    /// timer then schedules the next poll.
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

    /// Duration of the unmasking [ticks].
    pub(super) fn unmask_work(&mut self) -> u64 {
        let mean = self.times.mask_ticks;
        self.times.poll.next_of_mean(mean)
    }

    /// Enables interrupts again. Returns true if packets that arrived during the unmasking interrupt at once.
    pub(super) fn unmasked(&mut self) -> bool {
        // In that case the driver's handler masks the interrupt again at once.
        self.masked = !self.ring.is_empty();
        self.masked
    }

    /// Records the counts up to now (sets a mark). Returns true if this was the last recording of the run.
    pub(super) fn mark(&mut self, now: u64) -> bool {
        let ages = self.ring.iter().map(|packet| u128::from(now - packet.arrived)).sum::<u128>();
        let area = self.counts.processed_latency + ages;
        let counts =
            Counts { at: now, inside_ring: self.ring.len() as u64, ring_area: area, system_area: area, ..self.counts };
        debug_assert_eq!(counts.offered, counts.delivered + counts.dropped_ring + counts.inside_ring, "{counts:?}");
        self.records.push(counts, &[])
    }
}
