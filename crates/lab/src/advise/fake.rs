//! Exact fakes: seeded normal numbers, and a model and a simulator whose best setting is known.

use std::collections::BTreeMap;
use std::ops::Range;

use netcliff_core::math::SplitMix64;
use netcliff_core::{CpuShares, Engine, EngineFailure, EngineKind, Figure, Latency, Outcome, Point, Unsupported};
use netcliff_sim::Replica;
use statrs::distribution::{ContinuousCDF, Normal};

use super::{Observer, Sampler};

/// Standard normal numbers as a pure function of their indices.
pub struct Normals;

impl Normals {
    /// The number for a seed, a system and a sample.
    pub fn at(seed: u64, system: u64, sample: u64) -> f64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (system << 48) ^ sample;
        // Draw twice, to decorrelate neighbouring indices.
        for _ in 0..2 {
            state = SplitMix64(state).draw();
        }
        let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        Normal::standard().inverse_cdf(uniform)
    }
}

/// True figures of a setting: mean p99 (s), CPU left, loss.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    pub p99_s: f64,
    pub available: f64,
    pub loss: f64,
}

/// A model and a simulator that know the true figures of settings (by their text). The model returns them exactly, the
/// simulator with noise.
pub struct Fake {
    pub truths: BTreeMap<String, Truth>,
    /// Settings that the model does not support.
    pub no_paper: Vec<String>,
    /// Settings that the simulator does not support.
    pub no_sim: Vec<String>,
    /// Relative standard deviation of a replication.
    pub noise: f64,
    pub seed: u64,
}

impl Fake {
    pub fn new(truths: &[(&str, f64, f64, f64)]) -> Self {
        let truth = |(name, p99_s, available, loss): &(&str, f64, f64, f64)| {
            ((*name).to_owned(), Truth { p99_s: *p99_s, available: *available, loss: *loss })
        };
        let truths = truths.iter().map(truth).collect();
        Self { truths, no_paper: Vec::new(), no_sim: Vec::new(), noise: 0.05, seed: 1 }
    }

    fn truth(&self, point: &Point) -> (u64, Truth) {
        let name = point.scheme.to_string();
        let place = self.truths.keys().position(|key| *key == name).unwrap_or_else(|| panic!("no truth of {name}"));
        (place as u64, self.truths[&name])
    }
}

fn outcome(truth: Truth, factor: f64) -> Outcome {
    Outcome {
        throughput_pps: Some(Figure::exact(100e3 * (1.0 - truth.loss))),
        loss_fraction: Some(Figure::exact(truth.loss * factor)),
        latency_s: Some(Latency { p99: Some(Figure::exact(truth.p99_s * factor)), ..Latency::default() }),
        cpu: Some(CpuShares { available: Some(Figure::exact(truth.available * factor)), ..CpuShares::default() }),
        ..Outcome::default()
    }
}

impl Engine for Fake {
    fn kind(&self) -> EngineKind {
        EngineKind::Model
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        let absent = self.no_paper.contains(&point.scheme.to_string());
        if absent { Err(Unsupported::new(EngineKind::Model, "no formula is known")) } else { Ok(()) }
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(outcome(self.truth(point).1, 1.0))
    }
}

impl Sampler for Fake {
    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        let absent = self.no_sim.contains(&point.scheme.to_string());
        if absent { Err(Unsupported::new(EngineKind::Sim, "it is not built")) } else { Ok(()) }
    }

    fn sample(&self, point: &Point, numbers: Range<u64>, _packets: u64) -> Result<Vec<Replica>, EngineFailure> {
        let (system, truth) = self.truth(point);
        let one = |number| Replica {
            outcome: outcome(truth, 1.0 + self.noise * Normals::at(self.seed, system + 1, number)),
            settled: true,
        };
        Ok(numbers.map(one).collect())
    }
}

/// Records the progress it receives.
#[derive(Default)]
pub struct Noted(pub Vec<String>);

impl Observer for Noted {
    fn stage(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    fn packets(&mut self, simulated: u64, at_most: u64) {
        assert!(simulated <= at_most, "{simulated} of {at_most}");
    }
}
