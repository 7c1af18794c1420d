//! Weights over pairs (packets in the ring, stage).

use crate::queue::wide::sum;

/// Weights that are a smaller share of the total are left out.
pub const LEFT_OUT: f64 = 1e-15;

/// Weights level by level, from the level `low` upwards.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    /// Number of packets of the first level.
    pub low: usize,
    /// Weight of each stage, level by level.
    pub at: Vec<f64>,
}

impl Weights {
    /// A weight of 1 at one pair.
    pub fn one(stages: usize, packets: usize, stage: usize) -> Self {
        let mut at = vec![0.0; stages];
        at[stage] = 1.0;
        Self { low: packets, at }
    }

    /// Sum of all weights.
    pub fn total(&self) -> f64 {
        sum(&self.at)
    }

    /// Adds a weight at one pair.
    pub fn add_one(&mut self, stages: usize, packets: usize, stage: usize, weight: f64) {
        if self.at.is_empty() {
            self.low = packets;
        }
        if packets < self.low {
            let lacking = (self.low - packets) * stages;
            self.at.splice(0..0, std::iter::repeat_n(0.0, lacking));
            self.low = packets;
        }
        let place = (packets - self.low) * stages;
        if self.at.len() < place + stages {
            self.at.resize(place + stages, 0.0);
        }
        self.at[place + stage] += weight;
    }

    /// Adds `factor` times other weights.
    pub fn add(&mut self, stages: usize, other: &Self, factor: f64) {
        if other.at.is_empty() || factor == 0.0 {
            return;
        }
        if self.at.is_empty() {
            self.low = other.low;
        }
        if other.low < self.low {
            let lacking = (self.low - other.low) * stages;
            self.at.splice(0..0, std::iter::repeat_n(0.0, lacking));
            self.low = other.low;
        }
        let first = (other.low - self.low) * stages;
        if self.at.len() < first + other.at.len() {
            self.at.resize(first + other.at.len(), 0.0);
        }
        self.at[first..].iter_mut().zip(&other.at).for_each(|(sum, weight)| *sum += factor * weight);
    }

    /// Leaves out levels without weight at both ends.
    pub fn trim(&mut self, stages: usize) {
        let heavy = |level: &[f64]| sum(level) > LEFT_OUT;
        let last = self.at.chunks(stages).rposition(heavy).map_or(0, |last| last + 1);
        self.at.truncate(last * stages);
        let first = self.at.chunks(stages).position(heavy).unwrap_or(0);
        self.at.drain(..first * stages);
        self.low += first;
    }
}
