//! Aggregated Pareto ON/OFF sources: frames back to back at link speed while ON, nothing while OFF.
//!
//! An ON period sends at least one frame and runs until its last frame ends, so it sends more than its length says; the
//! OFF periods are scaled such that the mean rate is the one asked for.

use netcliff_core::Traffic;
use netcliff_core::traffic::{OnOff as Shape, WIRE_OVERHEAD_BYTES};

use super::gaps::Singles;
use crate::clock::Clock;
use crate::random::Stream;

/// Longest time drawn at once [ticks]: keeps the sum of a run in range.
const LONGEST: f64 = (1u64 << 57) as f64;

/// A Pareto time with the smallest value `least`, cut off at `most`.
#[derive(Debug, Clone, Copy)]
struct Pareto {
    alpha: f64,
    least: f64,
    most: f64,
}

impl Pareto {
    fn draw(&self, uniform: f64) -> f64 {
        (self.least * uniform.powf(-1.0 / self.alpha)).min(self.most).min(LONGEST)
    }

    fn mean(&self) -> f64 {
        let tail = (self.least / self.most).powf(self.alpha - 1.0);
        self.least + self.least / (self.alpha - 1.0) * (1.0 - tail)
    }

    /// P(X > x).
    fn beyond(&self, x: f64) -> f64 {
        if x < self.least {
            1.0
        } else if x >= self.most {
            0.0
        } else {
            (self.least / x).powf(self.alpha)
        }
    }

    /// The same shape with the smallest value such that the mean is `mean`; the cut-off must be above it.
    fn with_mean(self, mean: f64) -> Self {
        let (mut low, mut high) = (0.0, mean);
        for _ in 0..200 {
            let least = 0.5 * (low + high);
            if (Self { least, ..self }).mean() < mean { low = least } else { high = least }
        }
        Self { least: high, ..self }
    }
}

/// Mean frames of an ON period: sum over n of P(ON > n slots), slots of mean and squared coefficient of variation given.
fn mean_frames(on: &Pareto, slots: &[(f64, f64)]) -> f64 {
    let mean: f64 = slots.iter().map(|(slot, share)| slot * share).sum();
    let square: f64 = slots.iter().map(|(slot, share)| slot * slot * share).sum();
    let scv = square / (mean * mean) - 1.0;
    let first: f64 = slots.iter().map(|(slot, share)| on.beyond(*slot) * share).sum();
    let correction = on.alpha * (on.alpha + 1.0) / 2.0 * scv;
    // From two frames on by the delta method around n mean slots; from LIMIT on by the integral.
    const LIMIT: u32 = 100_000;
    let beyond = |n: f64| (on.beyond(n * mean) * (1.0 + correction / n)).min(1.0);
    let near: f64 = (2..LIMIT).map(|n| beyond(f64::from(n))).sum();
    let from = (f64::from(LIMIT) - 0.5) * mean;
    let far = if from >= on.most {
        0.0
    } else {
        let integral = |x: f64| on.least.powf(on.alpha) * x.powf(1.0 - on.alpha) / (on.alpha - 1.0);
        (integral(from) - if on.most.is_finite() { integral(on.most) } else { 0.0 }) / mean
    };
    1.0 + first + near + far
}

/// The sources and the link they share.
#[derive(Debug)]
pub(super) struct OnOff {
    on: Pareto,
    off: Pareto,
    uniforms: Singles,
    /// Each source's next frame [ticks] and the end of its ON period.
    sources: Vec<(f64, f64)>,
    ticks_per_byte: f64,
    serialise: bool,
    link_free: f64,
    last: u64,
}

/// Share of its time that a source would have to be ON beyond all bounds: the load cannot be offered.
pub(super) fn too_fast(shape: &Shape, traffic: &Traffic, rate_pps: f64) -> bool {
    let bytes = traffic.size.mean_bytes().unwrap_or(64.0) + WIRE_OVERHEAD_BYTES;
    let load = rate_pps * bytes * 8.0 / traffic.link_bps;
    load >= if shape.superpose { f64::from(shape.sources) } else { 1.0 }
}

impl OnOff {
    pub(super) fn new(shape: &Shape, traffic: &Traffic, rate_pps: f64, clock: Clock, stream: Stream) -> Self {
        let ticks_per_byte = clock.ticks(8.0 / traffic.link_bps);
        let most = shape.cutoff_s.map_or(f64::INFINITY, |seconds| clock.ticks(seconds));
        let on = Pareto { alpha: shape.alpha_on, least: clock.ticks(shape.min_on_s), most };
        let slot = |bytes: u32| (f64::from(bytes) + WIRE_OVERHEAD_BYTES) * ticks_per_byte;
        let mixture = traffic.size.mixture().unwrap_or_else(|| vec![(64, 1.0)]);
        let slots: Vec<(f64, f64)> = mixture.iter().map(|(bytes, share)| (slot(*bytes), *share)).collect();
        let frames = mean_frames(&on, &slots);
        let mean_slot: f64 = slots.iter().map(|(slot, share)| slot * share).sum();
        let cycle = frames * f64::from(shape.sources) * clock.ticks(1.0 / rate_pps);
        let off = Pareto { alpha: shape.alpha_off, least: 0.0, most }.with_mean(cycle - frames * mean_slot);
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
            // In memory when the last byte is; the gap after it is the wire's.
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
