//! `dim`: masked coalescing whose timer and count walk along a profile as lib/dim decides.
//!
//! A decision is sought whenever the ring has been emptied, as drivers call `net_dim` when a poll completes; the new
//! profile holds at once. Polls cost nothing of their own here, as in `coalesce:masked`.

mod net_dim;

pub(crate) use net_dim::{NetDim, Sample};
use netcliff_core::{Dim as Scheme, DimProfile};

use super::Policy;
use super::coalesce::{Coalesce, Moderation};
use crate::clock::Clock;
use crate::machine::{Machine, Watch};

/// NET_DIM_RX_EQE_PROFILES: usecs, frames.
const EQE: [(u64, u64); 5] = [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];
/// NET_DIM_RX_CQE_PROFILES.
const CQE: [(u64, u64); 5] = [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)];

/// Timer from the first packet, timer from the last [ticks], and frames of a profile's entry.
pub(crate) fn limits(profile: DimProfile, index: usize, clock: Clock) -> (Option<u64>, Option<u64>, u64) {
    let (usecs, frames) = if profile == DimProfile::Eqe { EQE[index] } else { CQE[index] };
    let timer = Some(clock.whole(usecs as f64 * 1e-6));
    if profile == DimProfile::Eqe { (timer, None, frames) } else { (None, timer, frames) }
}

/// Masked coalescing and what walks it.
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
        self.bytes += u64::from(machine.ring.front().bytes);
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
