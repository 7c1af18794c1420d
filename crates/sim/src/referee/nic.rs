//! The NIC's moderation by definition: a list of the reasons to interrupt, and the time of each.

use netcliff_core::{DimProfile, Scheme};

use super::decisions::moderation;
use crate::clock::{Clock, NEVER};

/// Limits of entry `ix`: timer from the first frame, timer from the last frame [ticks], and number of frames.
pub(super) fn dim_limits(profile: DimProfile, ix: usize, clock: Clock) -> (Option<u64>, Option<u64>, u64) {
    let (usecs, frames) = moderation(profile, ix);
    let timer = Some(clock.whole(usecs as f64 * 1e-6));
    match profile {
        DimProfile::Eqe => (timer, None, frames),
        DimProfile::Cqe => (None, timer, frames),
    }
}

/// The limits, and the packets that arrived since the end of the last interrupt.
pub(super) struct Nic {
    frames: Option<u64>,
    absolute: Option<u64>,
    packet: Option<u64>,
    gap: u64,
    came: Vec<u64>,
    last_handled: Option<u64>,
    /// Whether the interrupt has a reason and waits for the end of the gap.
    waiting: bool,
    /// A free-running timer: its period, and the latest of its ticks that was examined.
    free: Option<(u64, u64)>,
    /// Start times of the timers. `None` if not running.
    absolute_from: Option<u64>,
    packet_from: Option<u64>,
}

impl Nic {
    pub(super) fn new(scheme: &Scheme, clock: Clock, offset: impl Fn(u64) -> u64) -> Self {
        let ticks = |seconds: Option<f64>| seconds.map(|s| clock.whole(s)).filter(|ticks| *ticks > 0);
        let mut nic = Self {
            frames: None,
            absolute: None,
            packet: None,
            gap: 0,
            came: Vec::new(),
            last_handled: None,
            waiting: false,
            free: None,
            absolute_from: None,
            packet_from: None,
        };
        match scheme {
            Scheme::Coalesce(scheme) => {
                nic.set(scheme.frames, ticks(scheme.absolute_timer_s), ticks(scheme.packet_timer_s));
                nic.gap = ticks(scheme.min_gap_s).unwrap_or(0);
                if scheme.free_timer
                    && let Some(period) = nic.absolute.take()
                {
                    nic.free = Some((period, period - offset(period)));
                }
            }
            Scheme::Dim(dim) => {
                let (absolute, packet, frames) = dim_limits(dim.profile, dim.start as usize, clock);
                nic.set(Some(frames), absolute, packet);
            }
            _ => {}
        }
        nic
    }

    /// Sets new limits. Without any limit, every frame interrupts.
    pub(super) fn set(&mut self, frames: Option<u64>, absolute: Option<u64>, packet: Option<u64>) {
        let none = frames.is_none() && absolute.is_none() && packet.is_none();
        (self.frames, self.absolute, self.packet) = (if none { Some(1) } else { frames }, absolute, packet);
    }

    /// Handles a packet. Returns true if it interrupts now.
    pub(super) fn packet(&mut self, now: u64) -> bool {
        self.came.push(now);
        if self.waiting {
            return false;
        }
        if self.frames.is_some_and(|frames| self.came.len() as u64 >= frames) {
            return self.reason(now);
        }
        if self.came.len() == 1 {
            self.absolute_from = Some(now);
        }
        self.packet_from = Some(now);
        false
    }

    /// Handles the end of a timer. Returns true if it interrupts now.
    pub(super) fn timer(&mut self, now: u64) -> bool {
        self.reason(now)
    }

    fn gap_end(&self) -> u64 {
        self.last_handled.map_or(0, |at| at + self.gap)
    }

    fn reason(&mut self, now: u64) -> bool {
        (self.absolute_from, self.packet_from) = (None, None);
        self.waiting = now < self.gap_end();
        !self.waiting
    }

    /// The first tick of the free-running timer after the first packet that arrived.
    fn next_tick(&mut self) -> Option<u64> {
        let (period, tick) = self.free.as_mut()?;
        let first = self.absolute_from?;
        while *tick <= first {
            *tick += *period;
        }
        Some(*tick)
    }

    pub(super) fn next_timer(&mut self) -> u64 {
        let tick = self.next_tick();
        let timer = |from: Option<u64>, after: Option<u64>| Some(from? + after?);
        let waiting = self.waiting.then(|| self.gap_end());
        [timer(self.absolute_from, self.absolute), tick, timer(self.packet_from, self.packet), waiting]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(NEVER)
    }

    pub(super) fn handled(&mut self, now: u64) {
        self.came.clear();
        self.last_handled = Some(now);
    }
}
