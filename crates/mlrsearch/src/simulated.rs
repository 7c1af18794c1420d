//! Devices whose throughput is known, to test searches on. All randomness follows from the seed.

use super::trial::{Answer, Trial};
use netcliff_core::verdict::VoidReason;
use netcliff_stats::chance::{Chance, normal_quantile};

/// What loses frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Device {
    /// Forwards up to its capacity (pps) and loses the rest.
    Sharp {
        /// Capacity (pps).
        capacity_pps: f64,
    },
    /// The same with a buffer (frames), so that short trials hide a small overload.
    Buffered {
        /// Capacity (pps).
        capacity_pps: f64,
        /// Frames the buffer holds.
        buffer: f64,
    },
    /// Past its capacity it forwards less the more is offered: capacity^2 / load.
    Livelock {
        /// Capacity (pps).
        capacity_pps: f64,
    },
    /// Its capacity differs from second to second: normal, independent.
    Unsteady {
        /// Median capacity (pps).
        capacity_pps: f64,
        /// Standard deviation over the median.
        spread: f64,
    },
    /// The same from step to step, each of the same length and begun anew with a trial: of [`f64::INFINITY`], from trial to trial.
    Steps {
        /// Median capacity (pps).
        capacity_pps: f64,
        /// Standard deviation over the median.
        spread: f64,
        /// Length of a step (s).
        step_s: f64,
    },
    /// Both [`Device::Unsteady`] and [`Device::Livelock`].
    UnsteadyLivelock {
        /// Median capacity (pps).
        capacity_pps: f64,
        /// Standard deviation over the median.
        spread: f64,
    },
    /// In some seconds, at random, its capacity is lower.
    TwoModes {
        /// The higher capacity (pps).
        capacity_pps: f64,
        /// How much lower the other is, over the higher.
        drop: f64,
        /// Share of the seconds with the lower.
        share: f64,
    },
    /// Loses some frames at any load, in bursts at random times, as where other work takes the CPU.
    Disturbed {
        /// Capacity (pps).
        capacity_pps: f64,
        /// Disturbances (1/s).
        per_s: f64,
        /// Frames that each costs.
        frames: u64,
    },
}

impl Device {
    /// The load (pps) up to which a trial of `trial_s` (s) loses no frame, or where the capacity is random loses none
    /// in half of the cases; None where no load is free of loss.
    pub fn throughput_pps(&self, trial_s: f64) -> Option<f64> {
        match *self {
            Self::Sharp { capacity_pps } | Self::Livelock { capacity_pps } => Some(capacity_pps),
            Self::Buffered { capacity_pps, buffer } => Some(capacity_pps + buffer / trial_s),
            Self::Unsteady { capacity_pps, spread } | Self::UnsteadyLivelock { capacity_pps, spread } => {
                Some(capacity_pps * (1.0 - spread * upheld_by_all(trial_s.ceil())))
            }
            Self::Steps { capacity_pps, spread, step_s } => {
                Some(capacity_pps * (1.0 - spread * upheld_by_all((trial_s / step_s).ceil())))
            }
            Self::TwoModes { capacity_pps, drop, share } => {
                let is_rare = (1.0 - share).powf(trial_s.ceil()) >= 0.5;
                Some(capacity_pps * if is_rare { 1.0 } else { 1.0 - drop })
            }
            Self::Disturbed { .. } => None,
        }
    }
}

/// So many deviations below the median a load is carried by all of `parts` with probability 1/2.
fn upheld_by_all(parts: f64) -> f64 {
    normal_quantile(0.5f64.powf(1.0 / parts.max(1.0)))
}

/// What a device of this capacity delivers of a load (pps): all up to it; past it the capacity, or in a livelock the less the more is
/// offered.
pub fn delivered_pps(load_pps: f64, capacity_pps: f64, livelock: bool) -> f64 {
    match (load_pps > capacity_pps, livelock) {
        (false, _) => load_pps,
        (true, false) => capacity_pps,
        (true, true) => capacity_pps * capacity_pps / load_pps,
    }
}

/// A device under test with the randomness of one run.
#[derive(Debug, Clone)]
pub struct Bench {
    device: Device,
    chance: Chance,
    /// Highest load that the sender reaches (pps).
    sender_pps: f64,
}

impl Bench {
    /// A device and the seed of its noise; the sender reaches every load.
    pub fn new(device: Device, seed: u64) -> Self {
        Self { device, chance: Chance::new(seed), sender_pps: f64::INFINITY }
    }

    /// The same with a sender that reaches no more than this (pps).
    #[must_use]
    pub fn with_sender(self, sender_pps: f64) -> Self {
        Self { sender_pps, ..self }
    }

    /// One trial of (s) at (pps).
    pub fn trial(&mut self, duration_s: f64, load_pps: f64) -> Answer {
        if load_pps > self.sender_pps {
            return Answer::Void { reached_pps: self.sender_pps, why: VoidReason::SenderTooSlow };
        }
        let sent = (duration_s * load_pps).round() as u64;
        let lost = self.lost(duration_s, load_pps).clamp(0.0, sent as f64).round() as u64;
        Answer::Valid(Trial { load_pps, duration_s, sent, lost })
    }

    fn lost(&mut self, duration_s: f64, load_pps: f64) -> f64 {
        let excess = |capacity_pps: f64| load_pps - delivered_pps(load_pps, capacity_pps, false);
        let excess_livelocked = |capacity_pps: f64| load_pps - delivered_pps(load_pps, capacity_pps, true);
        match self.device {
            Device::Sharp { capacity_pps } => excess(capacity_pps) * duration_s,
            Device::Buffered { capacity_pps, buffer } => excess(capacity_pps) * duration_s - buffer,
            Device::Livelock { capacity_pps } => excess_livelocked(capacity_pps) * duration_s,
            Device::Unsteady { capacity_pps, spread } => {
                self.by_steps(duration_s, 1.0, |chance| excess(capacity_pps * (1.0 + spread * chance.normal())))
            }
            Device::Steps { capacity_pps, spread, step_s } => {
                self.by_steps(duration_s, step_s, |chance| excess(capacity_pps * (1.0 + spread * chance.normal())))
            }
            Device::UnsteadyLivelock { capacity_pps, spread } => self
                .by_steps(duration_s, 1.0, |chance| excess_livelocked(capacity_pps * (1.0 + spread * chance.normal()))),
            Device::TwoModes { capacity_pps, drop, share } => self.by_steps(duration_s, 1.0, |chance| {
                excess(capacity_pps * if chance.uniform() < share { 1.0 - drop } else { 1.0 })
            }),
            Device::Disturbed { capacity_pps, per_s, frames } => {
                let mut events = 0.0;
                let mut at_s = self.chance.exponential() / per_s;
                while at_s < duration_s {
                    events += 1.0;
                    at_s += self.chance.exponential() / per_s;
                }
                excess(capacity_pps) * duration_s + events * frames as f64
            }
        }
    }

    /// Frames lost where each step of a trial loses so many a second.
    fn by_steps(&mut self, duration_s: f64, step_s: f64, mut lost_per_s: impl FnMut(&mut Chance) -> f64) -> f64 {
        let steps = (duration_s / step_s).ceil().max(1.0) as u64;
        let each_s = duration_s / steps as f64;
        (0..steps).map(|_| lost_per_s(&mut self.chance) * each_s).sum()
    }
}
