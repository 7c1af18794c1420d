//! Simple formulas for a CPU that is taken away at times: latency with an unlimited ring, losses by long pauses, and
//! the longest pause without loss. The exact chains are in `schemes::paused`.

use netcliff_core::Host;
use netcliff_core::finding::Buffer;
use netcliff_core::host::{MeasuredTimes, PauseTimes, Pauses};
use netcliff_core::math;

/// Maximum number of halvings of an interval, enough for the last bit of a double.
const HALVINGS: u32 = 200;

/// First and second moments of a packet's service time S.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceTimes {
    /// `E[S]` (s).
    pub mean_s: f64,
    /// `E[S^2]` (s^2).
    pub squared_mean_s2: f64,
}

/// Mean latency of Poisson arrivals with an unlimited ring (s): an M/G/1 queue whose service is the completion time C
/// (service with pauses), plus the rest of a pause for packets that arrive in one. `E[C]` = `E[S]` (1 + R/U), `E[C^2]`
/// = `E[S^2]` (1 + R/U)^2 + `E[S]` `E[R^2]`/U. `None` if the CPU is overloaded.
pub fn mean_latency_s(arrival_pps: f64, service: ServiceTimes, pauses: &Pauses) -> Option<f64> {
    let longer = 1.0 + pauses.mean_s / pauses.every_s;
    let squared_length_s2 = squared_mean_s2(pauses);
    let completion_s = service.mean_s * longer;
    let squared_completion_s2 =
        service.squared_mean_s2 * longer * longer + service.mean_s * squared_length_s2 / pauses.every_s;
    let left = 1.0 - arrival_pps * completion_s;
    let rest_of_pause_s = pauses.share() * squared_length_s2 / (2.0 * pauses.mean_s);
    (left > 0.0).then(|| arrival_pps * squared_completion_s2 / (2.0 * left) + rest_of_pause_s + completion_s)
}

/// `E[R^2]`: mean square of the pauses' length (s^2).
fn squared_mean_s2(pauses: &Pauses) -> f64 {
    let relative = match &pauses.times {
        PauseTimes::Exponential => 2.0,
        PauseTimes::Constant => 1.0,
        PauseTimes::Erlang(stages) => 1.0 + 1.0 / f64::from(*stages),
        PauseTimes::Empirical(_) | PauseTimes::Recorded(_) => {
            parts(pauses).iter().map(|(length, share)| share * length * length).sum()
        }
    };
    relative * pauses.mean_s * pauses.mean_s
}

/// Distribution of the measured pause lengths, as (length / mean, share).
fn parts(pauses: &Pauses) -> &[(f64, f64)] {
    pauses.times.measured().map_or(&[], MeasuredTimes::parts)
}

/// E[(R - time)+]: mean length of pauses beyond `time_s`, over all pauses (s).
fn beyond_s(pauses: &Pauses, time_s: f64) -> f64 {
    let mean_s = pauses.mean_s;
    match &pauses.times {
        PauseTimes::Exponential => mean_s * math::exp(-time_s / mean_s),
        PauseTimes::Constant => (mean_s - time_s).max(0.0),
        PauseTimes::Erlang(stages) => erlang_beyond(*stages, time_s / mean_s) * mean_s,
        PauseTimes::Empirical(_) | PauseTimes::Recorded(_) => {
            parts(pauses).iter().map(|(length, share)| share * (length * mean_s - time_s).max(0.0)).sum()
        }
    }
}

/// E[(R - time)+] for an Erlang distribution of `stages` stages with mean 1: the average over j < `stages` of P(at most
/// j stage ends within `time`).
fn erlang_beyond(stages: u32, time: f64) -> f64 {
    let events = f64::from(stages) * time;
    let (mut log_term, mut at_most, mut sum) = (-events, math::exp(-events), 0.0);
    for j in 0..stages {
        if j > 0 {
            log_term += math::ln(events / f64::from(j));
            at_most += math::exp(log_term);
        }
        sum += at_most;
    }
    sum / f64::from(stages)
}

/// Share of packets lost in long pauses, by a fluid model: in each pause all arrivals beyond `buffer` packets are lost.
/// If queues are not empty when a pause begins, more are lost: 3 to 9 % more in the examples of docs/theory/pauses.md.
pub fn loss(arrival_pps: f64, buffer: u64, pauses: &Pauses) -> f64 {
    pauses.per_s() * beyond_s(pauses, buffer as f64 / arrival_pps)
}

/// Load (pps) above which long pauses lose more than the share `loss_target`, by a fluid model. `None` if no load loses
/// that much, because pauses take a smaller share of the time.
pub fn cliff_pps(loss_target: f64, buffer: u64, pauses: &Pauses) -> Option<f64> {
    let excess = |buffer_s: f64| pauses.per_s() * beyond_s(pauses, buffer_s) - loss_target;
    if excess(0.0) <= 0.0 {
        return None;
    }
    // Bisect for the time that the buffer must last, between one that is too short and one that suffices.
    let (mut short_s, mut enough_s) = (0.0, pauses.mean_s);
    while excess(enough_s) > 0.0 {
        (short_s, enough_s) = (enough_s, 2.0 * enough_s);
    }
    for _ in 0..HALVINGS {
        let middle_s = 0.5 * (short_s + enough_s);
        if excess(middle_s) > 0.0 { short_s = middle_s } else { enough_s = middle_s }
    }
    Some(buffer as f64 / enough_s)
}

/// Time to drain the queue after a pause of this length (s); `None` if the CPU is overloaded.
pub fn drain_s(arrival_pps: f64, service_pps: f64, length_s: f64) -> Option<f64> {
    (service_pps > arrival_pps).then(|| arrival_pps * length_s / (service_pps - arrival_pps))
}

/// The longest pause that a host survives without loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Length of that pause (s).
    pub longest_s: f64,
    /// The buffer that overflows first in a longer pause.
    pub first: Buffer,
}

/// Computes the longest pause without loss at this load (pps) of frames of this mean length (bytes), by a fluid model
/// and from empty queues. The ring takes the arrivals of the pause. After the pause, protocol processing runs before
/// the application until the ring is empty, and passes lambda R/(1 - rho) packets to the socket, where R is the pause
/// and rho the load of protocol processing. `None` if the CPU is overloaded even without pauses.
pub fn budget(host: &Host, frame_bytes: f64, arrival_pps: f64) -> Option<Budget> {
    let load = arrival_pps * host.service_s(frame_bytes);
    if load + arrival_pps * host.mean_application_s().unwrap_or(0.0) >= 1.0 {
        return None;
    }
    let ring_s = host.ring as f64 / arrival_pps;
    let socket_s = (1.0 - load) * first_full_socket(host) / arrival_pps;
    let first = if socket_s < ring_s { Buffer::Socket } else { Buffer::Ring };
    Some(Budget { longest_s: ring_s.min(socket_s), first })
}

/// Total number of unread packets of all applications at which the first socket is full, if each application has its
/// share of them; infinite without an application.
pub fn first_full_socket(host: &Host) -> f64 {
    host.each_application().iter().map(|one| one.buffer as f64 / one.share).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests;
