//! napi with interrupt moderation by the NIC.
//!
//! At the end of unmasking, the ring holds exactly the packets that arrived during unmasking, whatever happened before.
//! Then the NIC gathers packets ([`announce`]) and interrupts once, and polls run until the ring is empty. The only
//! memory between cycles is how much of the NIC's minimum gap is left ([`residual`]).
//!
//! With exponential times, the Markov chain at the starts of polls ([`polls`](super::polls)) is solved; a cycle enters
//! it with the packets that the interrupt announces. With other times, or if that chain has too many states or its
//! matrix too wide a band, an M/G/1/K queue is solved instead. Its set-up is the time from the end of the last poll to
//! the first service, and a poll overhead follows each service with a fixed probability.

use netcliff_core::Napi;
use netcliff_core::math;
use netcliff_core::note::Note;
use netcliff_core::scheme::Gap;

use super::announce::{Gathered, Nic};
use super::polls::Polls;
use super::{Chain, ISR, Work, full_polls, qualify, residual};
use crate::answer::{Ring, Shares};
use crate::bounds;
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::mg1k::{Mg1k, Setup};

/// Maximum number of states (packets, phase).
const MOST_STATES: usize = super::MOST_STATES;

/// Checks that the moderation is supported; the error is the reason why not.
pub fn supported(napi: &Napi) -> Result<(), String> {
    if napi.moderation.quirk.gap != Gap::Each {
        return Err(
            "napi behind an emulated NIC, which interrupts as no hardware does, is simulated only: use the simulator"
                .to_owned(),
        );
    }
    match Nic::new(&napi.moderation, 1.0, 1).lacking() {
        Some(lacking) => Err(format!("napi: {lacking}; leave one of them out, or use the simulator")),
        None => Ok(()),
    }
}

/// Solves the scheme; the error is a reason for the user.
pub fn solve(work: &Work, napi: &Napi) -> Result<Ring, String> {
    let nic = Nic::new(&napi.moderation, work.arrival_pps, work.places as usize);
    let exponential = Work { shape: TimeShape::Exponential, quantiles: false, ..work.clone() };
    if work.shape == TimeShape::Exponential {
        let cycle = cycle(work, napi, &nic)?;
        return match by_polls(&exponential, napi, &cycle)? {
            Some(mut ring) => {
                if nic.gap_s > 0.0 {
                    ring.exact = false;
                    ring.notes.push(Note::Approximate(bounds::GAP));
                }
                Ok(ring)
            }
            None => Ok(by_setup(work, &work.shape, &cycle, 1.0 / napi.weight as f64)),
        };
    }
    let cycle = cycle(&exponential, napi, &nic)?;
    let again = match by_polls(&exponential, napi, &cycle)? {
        Some(ring) => full_polls(&ring, napi),
        None => 1.0 / napi.weight as f64,
    };
    // The number of packets of an unmasking is known for all distributions, the rest of a gap only for exponential
    // times.
    if nic.gap_s > 0.0 {
        return Ok(by_setup(work, &TimeShape::Exponential, &cycle, again));
    }
    Ok(by_setup(work, &work.shape, &nic.after_unmask(&unmasked(work), work.mask_s, 0.0), again))
}

/// A timer that the first packet starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AsTimer {
    /// Length of the timer (s); 0: no timer.
    pub timer_s: f64,
    /// True: each packet restarts it.
    pub from_last: bool,
    /// Number of packets that ends the timer earlier; `None` if packets are not counted.
    pub frames: Option<usize>,
    /// True: the NIC does exactly this; false: an approximation.
    pub is_exact: bool,
}

/// Replaces the NIC's moderation and the interrupt's latency by one timer with the same mean time until the interrupt,
/// for chains that allow no other conditions. `None` if unmasking takes time, so that packets may arrive during it.
pub fn as_timer(work: &Work, napi: &Napi) -> Option<AsTimer> {
    if work.mask_s > 0.0 {
        return None;
    }
    let nic = Nic::new(&napi.moderation, work.arrival_pps, work.places as usize);
    let is_exact = work.delivery_s == 0.0;
    let frames = napi.moderation.frames.map(|frames| frames as usize).filter(|frames| *frames > 1);
    if let Some(timer_s) = nic.only_absolute_s().filter(|_| is_exact) {
        return Some(AsTimer { timer_s, from_last: false, frames, is_exact });
    }
    if let Some(packet_s) = nic.only_packet_s() {
        // Without a count, the gathering has the mean length (e^(lambda P) - 1)/lambda, which grows by e^(lambda P) per
        // unit of P.
        let timer_s = packet_s + work.delivery_s * math::exp(-work.arrival_pps * packet_s);
        return Some(AsTimer { timer_s, from_last: true, frames, is_exact });
    }
    let exponential = Work { shape: TimeShape::Exponential, ..work.clone() };
    let cycle = cycle(&exponential, napi, &nic).ok()?;
    let later_s = work.delivery_s * cycle.delivered.iter().sum::<f64>();
    // The mean cycle is the wait for the first packet plus the timer.
    let timer_s = (cycle.times_s.iter().sum::<f64>() - 1.0 / work.arrival_pps).max(0.0) + later_s;
    Some(AsTimer { timer_s, from_last: false, frames: None, is_exact: false })
}

/// `[n]`: P(n packets come while interrupts are being unmasked).
fn unmasked(work: &Work) -> Vec<f64> {
    if work.mask_s <= 0.0 {
        return vec![1.0];
    }
    let places = work.places as usize;
    let counts = ArrivalCounts::new(&work.shape, work.arrival_pps * work.mask_s, places);
    let reach = counts.above.iter().position(|tail| *tail < 1e-18).map_or(places, |last| last + 1).min(places);
    let mut found = counts.equal[..=reach].to_vec();
    found[reach] += counts.above[reach];
    found
}

/// Computes the mean cycle from unmasking to the interrupt.
fn cycle(work: &Work, napi: &Napi, nic: &Nic) -> Result<Gathered, String> {
    let found = unmasked(work);
    let at = |residual_s: f64| nic.after_unmask(&found, work.mask_s, residual_s);
    residual::mean_cycle(work, napi.weight, work.mask_s, nic, &at)
}

/// Solves by the chain of poll starts; `None` if its band would be too wide.
fn by_polls(work: &Work, napi: &Napi, cycle: &Gathered) -> Result<Option<Ring>, String> {
    let chain = Chain::new(work, napi);
    if (work.places as usize + 1).saturating_mul(chain.phases()) > MOST_STATES {
        return Ok(None);
    }
    let Some(solution) = Polls::entered(&chain, Some(cycle)).and_then(|polls| polls.stationary()) else {
        return Ok(None);
    };
    let mut ring = chain.ring(&solution);
    ring.interrupts_per_s = solution.phase_probability(ISR, 1) * chain.isr_rate;
    ring.cycles_per_s = ring.interrupts_per_s;
    ring.clocked = true;
    qualify(&mut ring, napi);
    Ok(Some(ring))
}

/// Returns the distribution of packets after another stage, and the mean number of packets lost in it.
fn stage(present: &[f64], counts: &ArrivalCounts, places: usize) -> (Vec<f64>, f64) {
    let lost = present.iter().enumerate().map(|(n, share)| share * counts.excess[places - n]).sum();
    let reach = counts.above.iter().position(|tail| *tail < 1e-18).map_or(places, |last| last + 1);
    let mut after = vec![0.0; (present.len() + reach).min(places + 1)];
    for (n, share) in present.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let room = reach.min(after.len() - 1 - n);
        for (more, probability) in counts.equal[..=room].iter().enumerate() {
            after[n + more] += share * probability;
        }
        after[n + room] += share * counts.above[room];
    }
    (after, lost)
}

/// Solves as M/G/1/K with the cycle as its set-up. An overhead follows a service with probability `again`: both
/// together count as one longer service with the same shape. `unmasking`: shape of the unmasking in the cycle.
fn by_setup(work: &Work, unmasking: &TimeShape, cycle: &Gathered, again: f64) -> Ring {
    let (lambda, places) = (work.arrival_pps, work.places as usize);
    let counts = |mean_s: f64| ArrivalCounts::new(&work.shape, lambda * mean_s, places);
    let isr_s = work.mask_s + work.interrupt_s;
    let delivered: f64 = cycle.delivered.iter().sum();
    let top_s = cycle.times_s.get(places).copied().unwrap_or(0.0);
    let (mut present, lost_in_delivery) = stage(&cycle.delivered, &counts(work.delivery_s), places);
    present.resize(present.len().max(cycle.immediate.len()), 0.0);
    present.iter_mut().zip(&cycle.immediate).for_each(|(sum, share)| *sum += share);
    let (present, lost_in_isr) = stage(&present, &counts(isr_s), places);
    let (present, lost_in_poll) = stage(&present, &counts(work.poll_s), places);
    let lost_unmasking = ArrivalCounts::new(unmasking, lambda * work.mask_s, places).excess[places];
    let lost = lambda * top_s + lost_unmasking + lost_in_delivery + lost_in_isr + lost_in_poll;
    let waiting_s = cycle.times_s.iter().sum::<f64>() + delivered * work.delivery_s;
    let first_poll_s = work.mask_s + work.poll_s;
    // A cycle always begins with a packet.
    let setup = Setup { present: present[1..].to_vec(), mean_s: waiting_s + first_poll_s + isr_s, lost };
    let mean_s = work.service_s + again * work.poll_s;
    let parts = [(1.0 - again, work.service_s / mean_s), (again, (work.service_s + work.poll_s) / mean_s)];
    let parts = if again * work.poll_s > 0.0 { &parts[..] } else { &[] };
    let services = ArrivalCounts::mixture(&work.shape, lambda * mean_s, parts, places);
    let queue = Mg1k::new(lambda, mean_s, &services, places, &setup);
    Ring {
        throughput_pps: queue.throughput,
        loss: queue.loss,
        mean_present: queue.mean_present,
        mean_latency_s: queue.mean_present / queue.throughput,
        quantiles: None,
        latencies: None,
        interrupts_per_s: queue.cycles,
        cycles_per_s: queue.cycles,
        clocked: true,
        polls_per_s: Some(queue.cycles + queue.throughput * again),
        shares: Shares {
            interrupt: queue.cycles * isr_s,
            poll: queue.cycles * first_poll_s + queue.throughput * again * work.poll_s,
            protocol: queue.throughput * work.service_s,
            available: queue.cycles * waiting_s,
        },
        exact: false,
        notes: vec![Note::Approximate(bounds::MODERATED)],
    }
}
