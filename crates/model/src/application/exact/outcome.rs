//! Converts a solution to an [`Outcome`].

use netcliff_core::note::Note;
use netcliff_core::outcome::packets_per_poll;
use netcliff_core::{CpuShares, Figure, Host, Latency, Loss, Napi, Outcome, Scheme};

use super::Solved;
use crate::answer::Shares;
use crate::bounds;
use crate::schemes::LARGEST_WEIGHT;

/// Shares below this count as 0.
const NEVER: f64 = 1e-9;
/// Number of full polls after which Linux ends a softirq (MAX_SOFTIRQ_RESTART, kernel/softirq.c).
const ROUNDS: f64 = 10.0;

/// The outcome; `frame_bytes` is the mean frame size (bytes).
pub fn outcome(solved: &Solved, scheme: &Scheme, host: &Host, frame_bytes: f64) -> Outcome {
    let exact = |value: f64| Some(Figure::exact(value));
    let Shares { interrupt, poll, protocol, available } = solved.shares;
    let mut notes = vec![Note::ToApplication];
    let limits = match scheme {
        Scheme::Napi(napi) => napi_limits(solved, napi, host),
        _ => Vec::new(),
    };
    let near = near(solved, host);
    let is_exact = near.is_empty() && limits.is_empty();
    notes.extend(limits);
    notes.extend(near);
    let loss = (solved.ring_loss + solved.socket_loss).min(1.0);
    // At higher losses, packets are delivered mainly by effects that the chain lacks, such as the packet that an
    // application takes after ten full polls.
    let knows_latency = is_exact || loss <= bounds::MOST_LOSS;
    if !is_exact {
        notes.push(Note::Approximate(if solved.near.moderation { bounds::MODERATED_READ } else { bounds::CHAIN }));
    }
    if !knows_latency {
        notes.push(Note::NoLatencyBeyond(bounds::MOST_LOSS));
    }
    Outcome {
        throughput_pps: exact(solved.read_pps),
        goodput_bps: exact(solved.read_pps * 8.0 * frame_bytes),
        loss_fraction: exact(loss),
        loss: Some(Loss { ring: exact(solved.ring_loss), socket: exact(solved.socket_loss), sender: None }),
        latency_s: Some(Latency { mean: exact(solved.mean_latency_s).filter(|_| knows_latency), ..Latency::default() }),
        latency_to: Some("application".to_owned()),
        cpu: Some(CpuShares {
            interrupt: exact(interrupt),
            poll: exact(poll),
            protocol: exact(protocol),
            application: exact(solved.application),
            paused: None,
            available: exact(available),
        }),
        cpu_method: Some(if is_exact { "exact" } else { "approximate" }.to_owned()),
        interrupts_per_s: exact(solved.interrupts_per_s),
        polls_per_s: solved.polls_per_s.map(Figure::exact),
        packets_per_poll: solved.polls_per_s.and_then(|polls| packets_per_poll(solved.delivered_pps, polls)),
        notes,
        ..Outcome::default()
    }
}

/// Notes on the approximations of the chain.
fn near(solved: &Solved, host: &Host) -> Vec<Note> {
    let mut notes = Vec::new();
    if solved.near.polls {
        notes.push(Note::FullPollsAtRandom);
    }
    if solved.near.moderation {
        notes.push(Note::ModerationAsTimer);
    }
    if solved.near.cold {
        notes.push(Note::ColdCaches(host.cold_protocol_s, host.cold_application_s));
    }
    notes
}

/// Notes on differences between Linux and the chain's strict priorities, if they matter at this point.
fn napi_limits(solved: &Solved, napi: &Napi, host: &Host) -> Vec<Note> {
    let mut notes = Vec::new();
    let full = solved.full_polls_per_s / solved.polls_per_s.unwrap_or(0.0).max(f64::MIN_POSITIVE);
    if full > NEVER {
        // After ten full polls, and at every tick, Linux may let the application take a packet, which the chain does
        // not allow.
        let more_pps = solved.full_polls_per_s / ROUNDS + 1.0 / host.tick_s;
        notes.push(Note::FullPolls(full, napi.weight, more_pps));
    }
    if napi.weight > LARGEST_WEIGHT {
        notes.push(Note::NeverUsedUp(napi.weight, LARGEST_WEIGHT));
    }
    if napi.backlog && solved.ring_loss > NEVER {
        notes.push(Note::BacklogAsQueue);
    }
    notes
}
