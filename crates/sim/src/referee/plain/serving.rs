//! What each scheme does when a packet arrives and when one has been served, and whether the next one may be served;
//! other work, if not.

use netcliff_core::{Hybrid, Scheme};

use super::{Kind, Plain};
use crate::clock::{NEVER, to_ticks};
use crate::referee::decisions::DimSample;
use crate::referee::nic::dim_limits;
use crate::tally::Account;

impl Plain<'_> {
    /// Handles a packet that reached the ring, with or without room for it.
    pub(super) fn arrived(&mut self, accepted: bool) {
        if self.at_interrupt_level() || self.polls() || self.masked {
            return;
        }
        match self.scheme {
            Scheme::Ideal | Scheme::Polling { .. } | Scheme::FreebsdPolling(_) | Scheme::SoftTimers(_) => {}
            Scheme::Interrupt { drops_interrupt } => {
                if accepted || *drops_interrupt {
                    self.interrupt(self.world.interrupt_mean);
                }
            }
            Scheme::DisableEnable { merged: true } | Scheme::Hybrid(Hybrid { merged: true, .. }) => {
                (self.masked, self.merged_first) = (true, true);
                self.world.counts.interrupts += 1;
            }
            Scheme::DisableEnable { .. } | Scheme::Hybrid(_) | Scheme::Napi2007 { .. } => {
                self.masked = true;
                self.interrupt(self.world.mask_mean + self.world.interrupt_mean);
            }
            Scheme::Coalesce(_) | Scheme::Dim(_) => {
                let drops = matches!(self.scheme, Scheme::Coalesce(scheme) if scheme.drops_interrupt);
                if accepted || drops {
                    let due = self.nic.packet(self.world.now);
                    self.moderated(due);
                }
            }
            Scheme::Napi(_) => unreachable!("refereed elsewhere"),
        }
    }

    pub(super) fn start_cycle(&mut self) {
        self.world.counts.polls += 1;
        self.left = if self.world.ring.is_empty() { 0 } else { self.quota() };
        if let Some(soft) = &mut self.soft {
            let at = soft.plan(self.began);
            if self.left == 0 {
                self.set_timer(at);
            }
        }
    }

    pub(super) fn served(&mut self) {
        let bytes = u32::from(self.world.ring[0].bytes);
        self.world.processed();
        let empty = self.world.ring.is_empty();
        match self.scheme {
            Scheme::DisableEnable { .. } => self.masked &= !empty,
            Scheme::Polling { .. } => self.cycle_goes_on(empty),
            Scheme::FreebsdPolling(_) => {
                self.left = if empty { 0 } else { self.left - 1 };
                if self.left == 0 {
                    self.adapt();
                    self.cycles();
                }
            }
            Scheme::SoftTimers(_) => {
                self.left = if empty { 0 } else { self.left - 1 };
                if self.left == 0
                    && let Some(soft) = &mut self.soft
                {
                    let at = soft.after_work(self.world.now);
                    self.set_timer(at);
                }
            }
            Scheme::Napi2007(napi) => {
                self.left -= 1;
                if empty {
                    (self.masked, self.left) = (false, 0);
                } else if self.left == 0 {
                    let period = self.period();
                    let ticks = |until: u64| (until + self.timer_offset) / period;
                    let (passed, before) = (ticks(self.world.now), ticks(self.began));
                    let next = (passed + 1) * period - self.timer_offset;
                    self.set_timer(if napi.remember && passed > before { self.world.now } else { next });
                }
            }
            Scheme::Coalesce(_) | Scheme::Dim(_) => {
                self.bytes += u64::from(bytes);
                self.announced = if self.masked { self.world.ring.len() } else { self.announced - 1 };
                self.masked &= !empty;
                if let Scheme::Dim(dim) = self.scheme
                    && !self.masked
                {
                    let sample = DimSample {
                        time_us: (self.clock.seconds(self.world.now as f64) * 1e6) as u64,
                        pkt_ctr: self.world.counts.processed,
                        byte_ctr: self.bytes,
                        event_ctr: self.world.counts.interrupts,
                    };
                    if let Some(index) = self.net_dim.net_dim(sample) {
                        let (absolute, packet, frames) = dim_limits(dim.profile, index, self.clock);
                        self.nic.set(Some(frames), absolute, packet);
                    }
                }
            }
            Scheme::Hybrid(_) => {
                if self.hybrid_polls {
                    self.cycle_goes_on(empty);
                } else {
                    self.masked &= !empty;
                }
                self.hybrid_switches(bytes, empty);
            }
            _ => {}
        }
    }

    pub(super) fn cycle_goes_on(&mut self, empty: bool) {
        self.left = if empty { 0 } else { self.left - 1 };
        if self.left == 0 && std::mem::take(&mut self.rearmed) {
            self.start_cycle();
        }
    }

    pub(super) fn hybrid_switches(&mut self, bytes: u32, empty: bool) {
        let now = self.world.now;
        let now_s = self.clock.seconds(now as f64);
        let polls = self.meter.as_mut().and_then(|meter| meter.processed(bytes, now_s));
        if polls == Some(true) && !self.hybrid_polls {
            self.hybrid_polls = true;
            (self.left, self.rearmed) = (0, false);
            self.next_tick = now + self.period();
            self.set_timer(self.next_tick);
        } else if polls == Some(false) && self.hybrid_polls {
            self.hybrid_polls = false;
            self.masked = !empty;
            self.set_timer(NEVER);
        }
    }

    pub(super) fn may_serve(&self) -> bool {
        match self.scheme {
            Scheme::Ideal | Scheme::Interrupt { .. } => !self.world.ring.is_empty(),
            Scheme::Hybrid(_) if !self.hybrid_polls => self.masked,
            Scheme::DisableEnable { .. } => self.masked,
            Scheme::Coalesce(_) | Scheme::Dim(_) => self.announced > 0,
            _ => self.left > 0,
        }
    }

    /// Starts the work that may preempt the running job.
    pub(super) fn fill(&mut self) {
        let free = matches!(self.running(), None | Some(Kind::Application));
        let due = self.world.completion_due();
        if free && due && (self.world.completions_before() == Some(true) || !self.may_serve()) {
            let time = self.world.completion_time();
            self.cpu.push(Kind::Completion, Account::Protocol, time);
        } else if free && self.may_serve() {
            self.start_packet();
        } else if free {
            self.run_applications();
        }
    }

    /// Continues the application that is next.
    pub(super) fn run_applications(&mut self) {
        if !self.world.queue.is_empty() && self.world.slice_used(self.world.since) {
            let left = self.cpu.jobs.pop().map_or(0, |job| job.left);
            self.world.suspend(left);
        }
        if !self.cpu.jobs.is_empty() {
            return;
        }
        while self.world.running.is_some() || !self.world.queue.is_empty() {
            let first = if self.world.running.is_none() { self.world.resume() } else { None };
            if let Some(time) = first.or_else(|| self.world.application_piece()) {
                return self.cpu.push(Kind::Application, Account::Application, time);
            }
        }
    }

    pub(super) fn start_packet(&mut self) {
        let head = self.world.ring[0];
        let work = self.world.protocol_time();
        if !std::mem::replace(&mut self.merged_first, false) {
            self.cpu.push(Kind::Protocol, Account::Protocol, work);
            return;
        }
        let before = self.world.mask_mean + self.world.interrupt_mean;
        let mean = before + (self.fixed + self.per_byte * f64::from(head.bytes));
        let stage = self.world.interrupt.next_of_mean(mean);
        let interrupt = to_ticks(stage as f64 * (before / mean)).min(stage);
        let rest = stage - interrupt + work.saturating_sub(head.protocol);
        self.cpu.push(Kind::MergedStage(rest), Account::Interrupt, interrupt);
    }
}
