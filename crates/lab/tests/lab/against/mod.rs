//! Shared by tests that compare the model with the simulator: the number of permitted misses, and points from a seed.
// Each test uses only a part of this module.
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

/// Random numbers from a seed.
pub struct Dice(SplitMix64);

impl Dice {
    /// Starts the random numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    /// A number from 0 to 1, uniformly distributed.
    pub fn unit(&mut self) -> f64 {
        (self.0.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from `low` to `high`, whose logarithm is uniformly distributed.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// A whole number from `low` to `high`, whose logarithm is about uniformly distributed.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        self.between(low as f64, high as f64 + 1.0) as u64
    }

    /// One of the texts, each with the same probability.
    pub fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[((self.unit() * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// A time from `low` to `high` (us), as text with its unit.
    pub fn time_us(&mut self, low: f64, high: f64) -> String {
        format!("{:.1}us", self.between(low, high))
    }

    /// True or false, each with probability one half.
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
