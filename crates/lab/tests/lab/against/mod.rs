//! What tests of the model against the simulator share: intervals and how many of them may miss; seeded points.
// Each test uses a part of it.
#![allow(dead_code)]

pub mod compared;

use netcliff_core::Host;
use netcliff_core::math::SplitMix64;

/// Confidence of each interval.
pub const CONFIDENCE: f64 = 0.99;
/// Chance of more misses than allowed, with both engines right.
const RARE: f64 = 1e-4;

/// Misses that a correct pair of engines exceeds less than once in 10 000 runs: the smallest k with
/// P(Binomial(trials, 1 - CONFIDENCE) > k) < RARE.
pub fn bound(trials: u32) -> u32 {
    let miss = 1.0 - CONFIDENCE;
    let mut term = (1.0 - miss).powi(trials as i32);
    let mut below = term;
    for misses in 0..trials {
        if 1.0 - below < RARE {
            return misses;
        }
        term *= f64::from(trials - misses) / f64::from(misses + 1) * miss / (1.0 - miss);
        below += term;
    }
    trials
}

/// Numbers from a seed.
pub struct Dice(SplitMix64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// Evenly from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly by logarithm.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// The same, whole.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.between(low as f64, high as f64 + 1.0) as u64
    }

    /// One of several.
    pub fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[((self.unit() * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// A time with its unit.
    pub fn time_us(&mut self, low: f64, high: f64) -> String {
        format!("{:.1}us", self.between(low, high))
    }

    /// One way or the other.
    pub fn flag(&mut self) -> bool {
        self.unit() < 0.5
    }

    /// Costs, ring and socket of a host, all over the range of machines.
    pub fn host(&mut self, rings: (u64, u64), sockets: (u64, u64)) -> Host {
        Host {
            protocol_s: self.between(1e-6, 8e-6),
            interrupt_s: self.between(0.5e-6, 6e-6),
            poll_s: self.between(0.2e-6, 3e-6),
            mask_s: self.between(0.1e-6, 1e-6),
            ring: self.whole(rings.0, rings.1),
            socket_buffer: self.whole(sockets.0, sockets.1),
            ..Host::pentium4_2530mhz()
        }
    }
}
