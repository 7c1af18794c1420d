//! Compares figures of the model with the simulator's, and their differences with the bounds in the model's notes.

use netcliff_core::{Figure, Outcome};
use netcliff_model::bounds::Bounds;

/// How a figure of the model is compared with the simulator's.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// By the ratio of the two.
    Ratio,
    /// By the difference of two shares.
    Difference,
    /// By the difference, as a share of the offered load.
    ShareOfOffered,
}

/// A figure, and how it is compared.
pub struct Compared {
    pub name: &'static str,
    pub of: fn(&Outcome) -> Option<Figure>,
    /// Smallest difference that matters, as a share of the value.
    pub matters: f64,
    pub by: By,
    pub bounds: fn(&Bounds) -> (f64, f64),
    /// Largest value that a run may miss completely with probability 1 in 1000. The arguments are the number of
    /// arrivals and the arrivals per second.
    pub unseen: fn(u64, f64) -> f64,
}

/// ln 1000: expected number of events for which a run shows no event at all with probability 1 in 1000 (Poisson).
const NONE_SEEN: f64 = 6.9;

/// The figures for which the model's notes give bounds.
pub const COMPARED: [Compared; 5] = [
    Compared {
        name: "throughput",
        of: |o| o.throughput_pps,
        matters: 1e-3,
        by: By::ShareOfOffered,
        bounds: |b| (-b.loss.1, -b.loss.0),
        unseen: |packets, pps| NONE_SEEN * pps / (packets / 2) as f64,
    },
    Compared {
        name: "loss",
        of: |o| o.loss_fraction,
        matters: 1e-2,
        by: By::Difference,
        bounds: |b| b.loss,
        unseen: |packets, _| NONE_SEEN / (packets / 2) as f64,
    },
    Compared {
        name: "mean latency",
        of: |o| o.latency_s?.mean,
        matters: 1e-3,
        by: By::Ratio,
        bounds: |b| b.mean_latency,
        unseen: |_, _| 0.0,
    },
    Compared {
        name: "CPU available",
        of: |o| o.cpu?.available,
        matters: 1e-3,
        by: By::Difference,
        bounds: |b| b.available,
        // An idle time lasts about as long as a gap.
        unseen: |packets, _| NONE_SEEN / (packets / 2) as f64,
    },
    Compared {
        name: "interrupts",
        of: |o| o.interrupts_per_s,
        matters: 1e-3,
        by: By::Ratio,
        bounds: |b| b.interrupts,
        unseen: |packets, pps| NONE_SEEN * pps / (packets / 2) as f64,
    },
];

impl Compared {
    /// Returns 1 if the model is above the simulator's interval, -1 if it is below, and 0 if it is inside or so near
    /// that the difference does not matter.
    pub fn side(&self, model: f64, sim: Figure, unseen: f64) -> i8 {
        let Some(ends) = sim.interval else { return 0 };
        let slack = self.matters * model.abs().max(sim.value.abs()) + unseen;
        if model > ends.high + slack {
            1
        } else if model < ends.low - slack {
            -1
        } else {
            0
        }
    }

    /// The model's value divided by the simulator's, or minus the simulator's, depending on `self.by`.
    pub fn apart(&self, model: f64, sim: f64, offered_pps: f64) -> f64 {
        match self.by {
            By::Ratio => model / sim,
            By::Difference => model - sim,
            By::ShareOfOffered => (model - sim) / offered_pps,
        }
    }

    /// The value that is `bound` apart from the simulated one: the inverse of `apart`, which is undefined for 0 over 0.
    fn at(&self, bound: f64, sim: f64, offered_pps: f64) -> f64 {
        match self.by {
            By::Ratio => sim * bound,
            By::Difference => sim + bound,
            By::ShareOfOffered => sim + bound * offered_pps,
        }
    }

    /// True if the difference is within the bounds at one end of the simulator's interval at least.
    pub fn is_within(&self, bounds: &Bounds, model: f64, sim: Figure, offered_pps: f64) -> bool {
        let (least, most) = sim.interval.map_or((sim.value, sim.value), |ends| (ends.low, ends.high));
        let (low, high) = (self.bounds)(bounds);
        model >= self.at(low, least, offered_pps) && model <= self.at(high, most, offered_pps)
    }
}
