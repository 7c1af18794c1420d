//! Devices whose throughput is known, to test searches on. All randomness follows from the seed.

use super::trial::{Answer, Request, Trial};
use netcliff_core::verdict::VoidReason;
use netcliff_stats::chance::{Chance, normal_quantile};

/// A simulated device: how its capacity limits forwarding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Device {
    /// Forwards up to its capacity (pps) and loses the rest.
    Sharp {
        /// Capacity (pps).
        capacity_pps: f64,
    },
    /// Like `Sharp`, with a buffer, which absorbs a small overload during a short trial.
    Buffered {
        /// Capacity (pps).
        capacity_pps: f64,
        /// Capacity of the buffer (frames).
        buffer: f64,
    },
    /// Above its capacity, forwards less the higher the load is: capacity^2 / load.
    Livelock {
        /// Capacity (pps).
        capacity_pps: f64,
    },
    /// Has a new capacity in each second; capacities are normally distributed and independent.
    Unsteady {
        /// Median capacity (pps).
        capacity_pps: f64,
        /// Standard deviation over the median.
        spread: f64,
    },
    /// Like `Unsteady`, with a new capacity in each step of `step_s` instead of each second. The first step begins with
    /// the trial; with [`f64::INFINITY`] a trial has one step.
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
    /// Has a lower capacity in some seconds, chosen at random.
    TwoModes {
        /// The higher capacity (pps).
        capacity_pps: f64,
        /// Difference of the two capacities divided by the higher one.
        drop: f64,
        /// Share of the seconds with the lower capacity.
        share: f64,
    },
    /// Loses some frames at any load, in bursts at random times, as if other work took the CPU.
    Disturbed {
        /// Capacity (pps).
        capacity_pps: f64,
        /// Disturbances (1/s).
        per_s: f64,
        /// Frames that each disturbance loses.
        frames: u64,
    },
}

impl Device {
    /// Highest load (pps) at which a trial of `trial_s` (s) loses no frame; if the capacity is random, at which half of
    /// the trials lose none. `None` if no load is free of loss.
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

/// Distance below the median capacity, in standard deviations, of the load that all of `parts` independent capacities
/// carry with probability 1/2.
fn upheld_by_all(parts: f64) -> f64 {
    normal_quantile(0.5f64.powf(1.0 / parts.max(1.0)))
}

/// Rate (pps) that a device of this capacity delivers: the load, up to its capacity; above it the capacity or, with
/// `livelock`, capacity^2 / load.
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

    /// Limits the load that the sender reaches to `sender_pps` (pps).
    #[must_use]
    pub fn with_sender(self, sender_pps: f64) -> Self {
        Self { sender_pps, ..self }
    }

    /// Makes one whole trial of `duration_s` (s) at `load_pps` (pps).
    pub fn trial(&mut self, duration_s: f64, load_pps: f64) -> Answer {
        self.trial_until(Request { duration_s, load_pps, most_lost: None })
    }

    /// Makes one trial, which ends with the frame that decides its result ([`Request::most_lost`]).
    pub fn trial_until(&mut self, request: Request) -> Answer {
        let Request { duration_s, load_pps, most_lost } = request;
        if load_pps > self.sender_pps {
            return Answer::Void { reached_pps: self.sender_pps, why: VoidReason::SenderTooSlow };
        }
        let parts = self.parts(duration_s, load_pps);
        let whole: f64 = parts.iter().map(|part| part.lost).sum();
        let sent = (duration_s * load_pps).round() as u64;
        let lost = whole.clamp(0.0, sent as f64).round() as u64;
        let whole = Trial { load_pps, duration_s, sent, lost };
        Answer::Valid(
            most_lost.filter(|most| lost > *most).and_then(|most| ended(&whole, &parts, most)).unwrap_or(whole),
        )
    }

    /// Losses of a trial, in the order in which they occur.
    fn parts(&mut self, duration_s: f64, load_pps: f64) -> Vec<Part> {
        let excess = |capacity_pps: f64| load_pps - delivered_pps(load_pps, capacity_pps, false);
        let excess_livelocked = |capacity_pps: f64| load_pps - delivered_pps(load_pps, capacity_pps, true);
        let evenly = |lost_per_s: f64| vec![Part { length_s: duration_s, lost: lost_per_s * duration_s }];
        match self.device {
            Device::Sharp { capacity_pps } => evenly(excess(capacity_pps)),
            Device::Buffered { capacity_pps, buffer } => {
                let lost_per_s = excess(capacity_pps);
                let fills_s = if lost_per_s > 0.0 { (buffer / lost_per_s).min(duration_s) } else { duration_s };
                let rest_s = duration_s - fills_s;
                vec![Part { length_s: fills_s, lost: 0.0 }, Part { length_s: rest_s, lost: lost_per_s * rest_s }]
            }
            Device::Livelock { capacity_pps } => evenly(excess_livelocked(capacity_pps)),
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
                let lost_per_s = excess(capacity_pps);
                let part = |length_s: f64| Part { length_s, lost: lost_per_s * length_s };
                let (mut parts, mut from_s) = (Vec::new(), 0.0);
                let mut at_s = self.chance.exponential() / per_s;
                while at_s < duration_s {
                    parts.extend([part(at_s - from_s), Part { length_s: 0.0, lost: frames as f64 }]);
                    from_s = at_s;
                    at_s += self.chance.exponential() / per_s;
                }
                parts.push(part(duration_s - from_s));
                parts
            }
        }
    }

    /// Losses of a trial in equal steps of at most `step_s` (s). `lost_per_s` draws the loss rate of a step (frames/s).
    fn by_steps(&mut self, duration_s: f64, step_s: f64, mut lost_per_s: impl FnMut(&mut Chance) -> f64) -> Vec<Part> {
        let steps = (duration_s / step_s).ceil().max(1.0) as u64;
        let length_s = duration_s / steps as f64;
        (0..steps).map(|_| Part { length_s, lost: lost_per_s(&mut self.chance) * length_s }).collect()
    }
}

/// A part of a trial in which losses come evenly.
struct Part {
    length_s: f64,
    lost: f64,
}

/// Cuts a trial off when it has lost more than `most` frames; `None` if the whole trial loses at most `most`.
fn ended(whole: &Trial, parts: &[Part], most: u64) -> Option<Trial> {
    let past = most as f64 + 1.0;
    let (mut duration_s, mut lost) = (0.0, 0.0);
    for part in parts {
        if lost + part.lost >= past {
            duration_s += part.length_s * (past - lost) / part.lost;
            let sent = ((duration_s * whole.load_pps).ceil() as u64).max(most + 1);
            return Some(Trial { duration_s, sent, lost: most + 1, ..*whole });
        }
        duration_s += part.length_s;
        lost += part.lost;
    }
    None
}
