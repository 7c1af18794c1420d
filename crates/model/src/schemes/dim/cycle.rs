//! [`Cycle`]: mean and variance of the packets and of the length of one busy period, including its gathering and ISR.
//!
//! With K packets when service starts, the length is L = idle + gathering G + ISR + K busy periods of one packet, and
//! the number of packets N is the sum of the packets of these K periods. If the end of a time depends only on past
//! arrivals, arrivals - lambda x time is a martingale, which gives all covariances from variances (Wald): Cov(K, G) =
//! (Var K + lambda^2 Var G - lambda E[G])/(2 lambda).

use crate::answer::Ring;
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::schemes::Work;
use crate::schemes::gathered::Gathering;
use netcliff_core::math;

/// Highest load whose noise is computed; higher loads have the noise of this load.
const HIGHEST_LOAD: f64 = 0.98;

/// Busy periods that start less often count as endless: beyond saturation all profiles behave alike, so that their
/// shares of time do not matter.
const RAREST_HZ: f64 = 1e-200;

/// One busy period, with its gathering and ISR.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cycle {
    /// Packets per second.
    pub packet_rate: f64,
    /// Mean length (s).
    pub length_s: f64,
    /// [variance of ln(packets/length), variance of ln(1/length), their covariance], for one busy period.
    pub noise: [f64; 3],
}

impl Cycle {
    /// Computes the cycle; `ring` is the profile's solution, which gives the rates and the mean length.
    pub fn new(work: &Work, gathering: Gathering, interrupt_s: f64, ring: &Ring) -> Self {
        let lambda = work.arrival_pps;
        let variation = work.shape.squared_variation();
        let load = (lambda * work.service_s).min(HIGHEST_LOAD);
        let service_s = load / lambda;
        // Variances of the length and of the packets of a busy period that one packet starts.
        let own = variation * service_s * service_s;
        let left = (1.0 - load).powi(3);
        let (one_s, one) = (service_s / (1.0 - load), 1.0 / (1.0 - load));
        let length_var = (own + load * service_s * service_s) / left;
        let packets_var = (load * (1.0 - load) + load * load * (1.0 + variation)) / left;
        let both = (length_var + service_s * service_s * packets_var - own * one) / (2.0 * service_s);
        // Part before the start of service.
        let (gathered, gathering_s, _) = gathering.solve(lambda, work.places as usize);
        let (mean, variance) = moments(&gathered);
        let gathering_var = (square_s2(gathering, lambda, work.places as usize) - gathering_s.powi(2)).max(0.0);
        let isr_var = variation * interrupt_s * interrupt_s;
        let present = mean + lambda * interrupt_s;
        let present_var = variance + lambda * interrupt_s + lambda * lambda * isr_var;
        let before_s = 1.0 / lambda + gathering_s + interrupt_s;
        let before_var = 1.0 / (lambda * lambda) + gathering_var + isr_var;
        let before_both =
            (variance + lambda * lambda * gathering_var - lambda * gathering_s) / (2.0 * lambda) + lambda * isr_var;
        let (length_s, packets) = (before_s + present * one_s, present * one);
        let length_var = before_var + 2.0 * one_s * before_both + present * length_var + one_s * one_s * present_var;
        let both = one * before_both + present * both + one_s * one * present_var;
        let (relative, together) = (length_var / length_s.powi(2), both / (packets * length_s));
        Self {
            packet_rate: ring.throughput_pps,
            length_s: 1.0 / ring.cycles_per_s.max(RAREST_HZ),
            noise: [1.0 / packets, relative, relative - together],
        }
    }
}

fn moments(shares: &[f64]) -> (f64, f64) {
    let mean: f64 = shares.iter().enumerate().map(|(i, share)| (i + 1) as f64 * share).sum();
    let variance = shares.iter().enumerate().map(|(i, share)| ((i + 1) as f64 - mean).powi(2) * share).sum();
    (mean, variance)
}

/// Returns E[G^2] of the gathering time G after its first frame (s^2).
fn square_s2(gathering: Gathering, lambda: f64, places: usize) -> f64 {
    let further = gathering.frames.map_or(places, |frames| frames.min(places as u64) as usize).saturating_sub(1);
    if let Some(timer_s) = gathering.packet_timer_s {
        return by_gaps(lambda, timer_s, further);
    }
    let Some(timer_s) = gathering.timer_s else {
        return (further * (further + 1)) as f64 / (lambda * lambda);
    };
    // E[G^2] = integral of 2 t P(G > t) up to the timer = sum over j of 2 (j + 1)/lambda^2 P(at least j + 2 frames
    // within the timer).
    let counts = ArrivalCounts::new(&TimeShape::Deterministic, lambda * timer_s, further + 2);
    let terms = (0..further).map(|j| 2.0 * (j + 1) as f64 / (lambda * lambda) * counts.above[j + 1]);
    terms.sum()
}

/// Returns E[G^2] if each frame restarts the timer (s^2): by recursion from the last frame.
fn by_gaps(lambda: f64, timer_s: f64, further: usize) -> f64 {
    let alone = math::exp(-lambda * timer_s);
    let followed = 1.0 - alone;
    let (mut first, mut second) = (0.0, 0.0);
    // Moments of a gap shorter than the timer, times its probability.
    let gap = followed / lambda - timer_s * alone;
    let gap2 = 2.0 * followed / (lambda * lambda) - alone * (timer_s * timer_s + 2.0 * timer_s / lambda);
    for _ in 0..further {
        second = gap2 + 2.0 * gap * first + followed * second + alone * timer_s * timer_s;
        first = gap + followed * first + alone * timer_s;
    }
    second
}
