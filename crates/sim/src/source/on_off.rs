//! Aggregated Pareto ON/OFF sources: frames at link speed during ON periods, none during OFF periods.
//!
//! An ON period sends at least one frame and lasts until its last frame ends, so it sends more than its length implies.
//! The OFF periods are scaled so that the mean rate is the requested one, or follow from the paper's printed formula.

use netcliff_core::Traffic;
use netcliff_core::math;
use netcliff_core::traffic::{OnOff as Shape, WIRE_OVERHEAD_BYTES};

use crate::clock::Clock;
use crate::random::{Singles, Stream};

/// Longest time drawn [ticks], which prevents overflow of the sum over a run.
const LONGEST: f64 = (1u64 << 57) as f64;

/// Largest number of steps of the renewal equation (number of sizes times bytes): at most some 10 ms. Times up to at
/// least four of the longest frames are computed; beyond that the error is below 1e-3 of the load.
const REACH: usize = 8_000_000;

/// A Pareto distribution with the smallest value `least`, cut off at `most`.
#[derive(Debug, Clone, Copy)]
struct Pareto {
    alpha: f64,
    least: f64,
    most: f64,
}

impl Pareto {
    fn draw(&self, uniform: f64) -> f64 {
        (self.least * math::pow(uniform, -1.0 / self.alpha)).min(self.most).min(LONGEST)
    }

    fn mean(&self) -> f64 {
        let tail = math::pow(self.least / self.most, self.alpha - 1.0);
        self.least + self.least / (self.alpha - 1.0) * (1.0 - tail)
    }

    /// P(X > x).
    fn beyond(&self, x: f64) -> f64 {
        if x < self.least {
            1.0
        } else if x >= self.most {
            0.0
        } else {
            math::pow(self.least / x, self.alpha)
        }
    }

    /// The integral of P(X > x) from `from` to infinity.
    fn excess(&self, from: f64) -> f64 {
        let below = (self.least.min(self.most) - from).max(0.0);
        let start = from.max(self.least);
        if start >= self.most {
            return below;
        }
        let integral = |x: f64| math::pow(self.least, self.alpha) * math::pow(x, 1.0 - self.alpha) / (self.alpha - 1.0);
        below + integral(start) - if self.most.is_finite() { integral(self.most) } else { 0.0 }
    }

    /// Returns a distribution of the same shape with the mean `mean`, which must be below the cut-off.
    fn with_mean(self, mean: f64) -> Self {
        let (mut low, mut high) = (0.0, mean);
        for _ in 0..200 {
            let least = 0.5 * (low + high);
            if (Self { least, ..self }).mean() < mean { low = least } else { high = least }
        }
        Self { least: high, ..self }
    }
}

/// Mean number of frames in an ON period: 1 + sum of u(k) P(ON > k), i.e. one, plus one for each frame that ends within
/// the period. u(k) is the probability that one of endless consecutive frames ends at the time of k bytes. It follows
/// from its renewal equation up to [`REACH`]; beyond that, one frame ends per mean slot.
fn mean_frames(on: &Pareto, slots: &[(usize, f64)], ticks_per_byte: f64) -> f64 {
    let mean: f64 = slots.iter().map(|(slot, share)| *slot as f64 * share).sum();
    let square: f64 = slots.iter().map(|(slot, share)| (*slot * *slot) as f64 * share).sum();
    let longest = slots.iter().map(|(slot, _)| *slot).max().unwrap_or(1);
    let reach = (REACH / slots.len()).clamp(4 * longest, 64 * longest);
    let mut ends = vec![0.0; reach + 1];
    ends[0] = 1.0;
    for at in 1..=reach {
        ends[at] = slots.iter().filter(|(slot, _)| *slot <= at).map(|(slot, share)| share * ends[at - slot]).sum();
    }
    let beyond = |at: usize| on.beyond(at as f64 * ticks_per_byte);
    let near: f64 = (1..=reach).map(|at| ends[at] * beyond(at)).sum();
    // Renewal theory: the expected number of frames that end within a long time x is x/mean + square/(2 mean^2) - 1.
    // The last computed number may deviate from this limit.
    let within: f64 = ends[1..].iter().sum();
    let expected = reach as f64 / mean + square / (2.0 * mean * mean) - 1.0;
    let far = on.excess(reach as f64 * ticks_per_byte) / (mean * ticks_per_byte);
    1.0 + near + beyond(reach) * (expected - within) + far
}

/// The sources and their common link.
#[derive(Debug)]
pub(super) struct OnOff {
    on: Pareto,
    off: Pareto,
    uniforms: Singles,
    /// For each source, the time of its next frame and the end of its ON period [ticks].
    sources: Vec<(f64, f64)>,
    ticks_per_byte: f64,
    serialise: bool,
    link_free: f64,
    last: u64,
}

/// Whether the load cannot be offered, because a source would have to be ON for more than 100 % of the time.
pub(super) fn too_fast(shape: &Shape, traffic: &Traffic, rate_pps: f64) -> bool {
    load(traffic, rate_pps) >= if shape.superpose || shape.printed_off { f64::from(shape.sources) } else { 1.0 }
}

/// Share of the link that frames of the mean size take at `rate_pps`.
fn load(traffic: &Traffic, rate_pps: f64) -> f64 {
    let bytes = traffic.size.mean_bytes().unwrap_or(64.0) + WIRE_OVERHEAD_BYTES;
    rate_pps * bytes * 8.0 / traffic.link_bps
}

impl OnOff {
    pub(super) fn new(shape: &Shape, traffic: &Traffic, rate_pps: f64, clock: Clock, stream: Stream) -> Self {
        let ticks_per_byte = clock.ticks(8.0 / traffic.link_bps);
        let most = shape.cutoff_s.map_or(f64::INFINITY, |seconds| clock.ticks(seconds));
        let on = Pareto { alpha: shape.alpha_on, least: clock.ticks(shape.min_on_s), most };
        let slot = |bytes: u32| bytes as usize + WIRE_OVERHEAD_BYTES as usize;
        let mixture = traffic.size.mixture().unwrap_or_else(|| vec![(64, 1.0)]);
        let slots: Vec<(usize, f64)> = mixture.iter().map(|(bytes, share)| (slot(*bytes), *share)).collect();
        let frames = mean_frames(&on, &slots, ticks_per_byte);
        let mean_slot: f64 = slots.iter().map(|(slot, share)| *slot as f64 * share).sum::<f64>() * ticks_per_byte;
        let cycle = frames * f64::from(shape.sources) * clock.ticks(1.0 / rate_pps);
        let off = Pareto { alpha: shape.alpha_off, least: 0.0, most };
        let off = if shape.printed_off {
            Pareto { least: clock.ticks(shape.printed_least_off_s(load(traffic, rate_pps))), ..off }
        } else {
            off.with_mean(cycle - frames * mean_slot)
        };
        let mut uniforms = Singles::new(stream, false);
        let sources = (0..shape.sources)
            .map(|_| {
                let start = uniforms.next() * off.draw(uniforms.next());
                (start, start + on.draw(uniforms.next()))
            })
            .collect();
        Self { on, off, uniforms, sources, ticks_per_byte, serialise: !shape.superpose, link_free: 0.0, last: 0 }
    }

    /// The gap before the next frame, which has `bytes` [ticks].
    pub(super) fn next(&mut self, bytes: u32) -> u64 {
        let slot = (f64::from(bytes) + WIRE_OVERHEAD_BYTES) * self.ticks_per_byte;
        let mut first = 0;
        for source in 1..self.sources.len() {
            if self.sources[source].0 < self.sources[first].0 {
                first = source;
            }
        }
        let (start, on_ends) = self.sources[first];
        let frame_ends = start + slot;
        self.sources[first] = if frame_ends < on_ends {
            (frame_ends, on_ends)
        } else {
            let next = frame_ends + self.off.draw(self.uniforms.next());
            (next, next + self.on.draw(self.uniforms.next()))
        };
        let arrives = if self.serialise {
            let sent = start.max(self.link_free);
            self.link_free = sent + slot;
            // A packet is in memory once its last byte has arrived; the inter-frame gap after it only occupies the
            // wire.
            sent + f64::from(bytes) * self.ticks_per_byte
        } else {
            start
        };
        let at = arrives as u64;
        let gap = at.saturating_sub(self.last);
        self.last = at.max(self.last);
        gap
    }
}
