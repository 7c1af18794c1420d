//! `dim`: masked coalescing whose timer and count follow the decisions of lib/dim along a profile.
//!
//! A decision is made whenever the ring has been emptied, as drivers call `net_dim` when a poll completes. The new
//! profile applies at once. As in `coalesce:masked`, polls have no overhead.

mod net_dim;

pub(crate) use net_dim::{NetDim, Sample};
use netcliff_core::{Dim as Scheme, DimProfile};

use super::Policy;
use super::coalesce::{Coalesce, Moderation};
use crate::clock::Clock;
use crate::machine::{Machine, Watch};

/// Limits of a profile's entry: timer from the first packet, timer from the last packet [ticks], and number of frames.
pub(crate) fn limits(profile: DimProfile, index: usize, clock: Clock) -> (Option<u64>, Option<u64>, u64) {
    let (timer_s, frames) = netcliff_core::net_dim::entry(profile, index);
    let timer = Some(clock.whole(timer_s));
    if profile == DimProfile::Eqe { (timer, None, frames) } else { (None, timer, frames) }
}

/// Masked coalescing, and the decisions that change its limits.
pub(super) struct Dim {
    coalesce: Coalesce,
    profile: DimProfile,
    clock: Clock,
    net_dim: NetDim,
    bytes: u64,
}

impl Dim {
    pub(super) fn new<W>(scheme: Scheme, clock: Clock, machine: &Machine<W>) -> Self {
        let (absolute, packet, frames) = limits(scheme.profile, scheme.start as usize, clock);
        let moderation = Moderation::new(Some(frames), absolute, packet, None);
        Self {
            coalesce: Coalesce::with(moderation, true, false, machine),
            profile: scheme.profile,
            clock,
            net_dim: NetDim::new(scheme.start as usize),
            bytes: 0,
        }
    }
}

impl<W: Watch> Policy<W> for Dim {
    #[inline]
    fn timer(&self) -> u64 {
        Policy::<W>::timer(&self.coalesce)
    }

    #[inline]
    fn event(&mut self, machine: &mut Machine<W>) {
        self.coalesce.event(machine);
    }

    #[inline]
    fn ready(&self, machine: &Machine<W>) -> bool {
        self.coalesce.ready(machine)
    }

    fn serve(&mut self, machine: &mut Machine<W>) {
        self.bytes += u64::from(machine.head().bytes);
        self.coalesce.serve(machine);
        if self.coalesce.masked() {
            return;
        }
        let sample = Sample {
            micros: (self.clock.seconds(machine.now as f64) * 1e6) as u64,
            events: machine.counts.interrupts,
            packets: machine.counts.processed,
            bytes: self.bytes,
        };
        if let Some(index) = self.net_dim.sample(sample) {
            let moderation = &mut self.coalesce.moderation;
            (moderation.absolute, moderation.packet, moderation.frames) = limits(self.profile, index, self.clock);
        }
    }
}
