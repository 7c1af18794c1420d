//! The packet timer, which each packet restarts, alone or in combination with an absolute timer.

use super::{Gathered, Nic, put};
use crate::queue::quadrature::gauss_legendre;
use netcliff_core::math;

/// Probability below which further packets are left out.
const RARE: f64 = 1e-16;
/// Quadrature points per interval of the packet timer's length, in which densities are polynomials times an
/// exponential.
const POINTS: usize = 8;

impl Nic {
    /// Adds to `out` the packets gathered until the packet timer interrupts, with `packets` present at its start.
    /// `limit_s`: an absolute timer that ends the gathering at the latest.
    pub(super) fn quiet(&self, packets: usize, timer_s: f64, limit_s: Option<f64>, share: f64, out: &mut Gathered) {
        match limit_s {
            None => self.endless(packets, timer_s, share, out),
            Some(limit_s) => self.limited(packets, timer_s, limit_s, share, out),
        }
    }

    /// Without a limit: before the timer ends, another packet follows with the same probability each time. A dropped
    /// packet does not restart the timer.
    fn endless(&self, packets: usize, timer_s: f64, share: f64, out: &mut Gathered) {
        let load = self.arrival_pps * timer_s;
        let (followed, alone) = (-math::exp_m1(-load), math::exp(-load));
        let mut reached = share;
        for present in packets..=self.places {
            if self.frames == Some(present) || reached < RARE * share {
                put(&mut out.delivered, present, reached);
                return;
            }
            if present == self.places {
                put(&mut out.delivered, present, reached);
                put(&mut out.times_s, present, reached * timer_s);
                return;
            }
            put(&mut out.delivered, present, reached * alone);
            put(&mut out.times_s, present, reached * followed / self.arrival_pps);
            reached *= followed;
        }
    }

    /// With a limit: the j-th further packet arrives at t, with no gap longer than the timer's length P before it, with
    /// density lambda e^(-lambda t) (lambda P)^(j-1) f_j(t/P), where f_j is the density of a sum of j uniform variables
    /// (Irwin-Hall): f_j(x) = (x f_(j-1)(x) + (j-x) f_(j-1)(x-1))/(j-1), all terms positive.
    fn limited(&self, packets: usize, timer_s: f64, limit_s: f64, share: f64, out: &mut Gathered) {
        let lambda = self.arrival_pps;
        let load = lambda * timer_s;
        let intervals = (limit_s / timer_s).ceil().max(1.0) as usize;
        // The limit cuts the last interval; densities also have a knot at this position in every interval.
        let cut = limit_s / timer_s - (intervals - 1) as f64;
        let mut nodes = gauss_legendre(cut, 1, POINTS);
        let rest = gauss_legendre(1.0 - cut, 1, POINTS);
        nodes.extend(rest.into_iter().map(|(x, weight)| (cut + x, weight)));
        // If no further packet arrives, the timer ends as it started.
        self.end(packets, limit_s.min(timer_s), share, out);
        if self.is_last(packets) {
            return;
        }
        // densities[i][node]: density of the current packet at (i + x) P, for share 1.
        let mut densities = vec![vec![0.0; nodes.len()]; intervals];
        densities[0] = nodes.iter().map(|(x, _)| lambda * math::exp(-load * x)).collect();
        let mut now = packets;
        for further in 1.. {
            now += 1;
            if further > 1 {
                let j = further as f64;
                for i in (0..intervals).rev() {
                    for (node, (x, _)) in nodes.iter().enumerate() {
                        let place = i as f64 + x;
                        let before = if i > 0 { densities[i - 1][node] * math::exp(-load) } else { 0.0 };
                        let both = place * densities[i][node] + (j - place).max(0.0) * before;
                        densities[i][node] = load / (j - 1.0) * both;
                    }
                }
            }
            let mut weight = 0.0;
            for (i, own) in densities.iter().enumerate() {
                for ((x, width), density) in nodes.iter().zip(own) {
                    let at_s = (i as f64 + x) * timer_s;
                    if at_s < limit_s {
                        let here = share * density * width * timer_s;
                        weight += here;
                        self.end(now, (limit_s - at_s).min(timer_s), here, out);
                    }
                }
            }
            if self.is_last(now) || weight < RARE * share {
                return;
            }
        }
    }

    /// True if this number of packets reaches the count or fills the ring.
    fn is_last(&self, packets: usize) -> bool {
        self.frames == Some(packets) || packets >= self.places
    }

    /// Continues with `packets` present and `left_s` of a timer, which ends unless another packet arrives.
    fn end(&self, packets: usize, left_s: f64, share: f64, out: &mut Gathered) {
        if self.frames == Some(packets) {
            return put(&mut out.delivered, packets, share);
        }
        if packets >= self.places {
            put(&mut out.delivered, packets, share);
            return put(&mut out.times_s, packets, share * left_s);
        }
        let load = self.arrival_pps * left_s;
        put(&mut out.delivered, packets, share * math::exp(-load));
        put(&mut out.times_s, packets, share * -math::exp_m1(-load) / self.arrival_pps);
    }
}
