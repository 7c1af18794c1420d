//! dim: each of its profiles is masked coalescing, solved exactly. The share of time in each profile follows from a
//! Markov chain over the states of Linux's lib/dim, with noisy measurements.
//!
//! A measurement covers 64 independent busy periods, so that the logarithms of its packet rate and of its event rate
//! are assumed to be normal, with the moments of one busy period ([`cycle`]). Approximations: normality; each profile
//! is in equilibrium immediately; noise beyond saturation equals the noise just below saturation; equal frame sizes.

mod cycle;
mod walk;

use netcliff_core::net_dim::{self, PROFILES};
use netcliff_core::note::Note;
use netcliff_core::{Dim, DimProfile};

use super::gathered::{self, Gathering};
use super::{Work, afford};
use crate::answer::{Ring, Shares};
use crate::bounds;
use cycle::Cycle;

/// Solves the scheme.
pub fn solve(work: &Work, dim: Dim) -> Result<Ring, String> {
    afford::mg1k("dim", work)?;
    let work = &Work { quantiles: false, ..work.clone() };
    let interrupt_s = work.mask_s + work.interrupt_s;
    let parts: [(Ring, Cycle); PROFILES] = std::array::from_fn(|index| {
        let (timer_s, frames) = net_dim::entry(dim.profile, index);
        let frames = Some(frames);
        let gathering = match dim.profile {
            DimProfile::Eqe => Gathering { frames, timer_s: Some(timer_s), ..Gathering::default() },
            DimProfile::Cqe => Gathering { frames, packet_timer_s: Some(timer_s), ..Gathering::default() },
        };
        let ring = gathered::solve(work, gathering, interrupt_s);
        let cycle = Cycle::new(work, gathering, interrupt_s, &ring);
        (ring, cycle)
    });
    let shares = walk::time_shares(&parts.each_ref().map(|(_, cycle)| *cycle), dim.start as usize, work.frame_bytes);
    Ok(mixed(work, &parts.map(|(ring, _)| ring), &shares))
}

/// Averages the figures of all profiles, weighted by each profile's share of the time.
fn mixed(work: &Work, parts: &[Ring; PROFILES], shares: &[f64; PROFILES]) -> Ring {
    let mean = |pick: fn(&Ring) -> f64| parts.iter().zip(shares).map(|(part, share)| share * pick(part)).sum::<f64>();
    let throughput_pps = mean(|ring| ring.throughput_pps);
    let mean_present = mean(|ring| ring.mean_present);
    Ring {
        throughput_pps,
        loss: mean(|ring| ring.loss),
        mean_present,
        mean_latency_s: mean_present / throughput_pps,
        quantiles: None,
        latencies: None,
        interrupts_per_s: mean(|ring| ring.interrupts_per_s),
        cycles_per_s: mean(|ring| ring.cycles_per_s),
        clocked: true,
        polls_per_s: None,
        shares: Shares {
            interrupt: mean(|ring| ring.shares.interrupt),
            poll: 0.0,
            protocol: throughput_pps * work.service_s,
            available: mean(|ring| ring.shares.available),
        },
        exact: false,
        notes: vec![Note::DimWalk, Note::Approximate(bounds::DIM), Note::DimProfiles(shares.to_vec())],
    }
}
