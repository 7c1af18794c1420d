//! Figures of the model held against the simulator's, and against what notes tell of them.

use netcliff_core::{Figure, Outcome};
use netcliff_model::bounds::Bounds;

/// How a figure of the model is held against the simulator's.
#[derive(Clone, Copy, PartialEq)]
pub enum By {
    /// As a multiple.
    Ratio,
    /// As a difference of two shares.
    Difference,
    /// As a difference, in shares of the offered load.
    ShareOfOffered,
}

/// A figure, and how it is compared.
pub struct Compared {
    pub name: &'static str,
    pub of: fn(&Outcome) -> Option<Figure>,
    /// The smallest difference that matters, of the value.
    pub matters: f64,
    pub by: By,
    pub bounds: fn(&Bounds) -> (f64, f64),
    /// What a run of so many arrivals at so many a second may not show at all, at a chance of 1 in 1000.
    pub unseen: fn(u64, f64) -> f64,
}

/// ln 1000: so many are expected of what does not come at all once in 1000 runs.
const NONE_SEEN: f64 = 6.9;

/// Those of which notes tell bounds.
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
    /// Which side of the simulator's interval the model is on; 0: inside, or so near that it does not matter.
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

    /// The model's over the simulator's, or less it.
    pub fn apart(&self, model: f64, sim: f64, offered_pps: f64) -> f64 {
        match self.by {
            By::Ratio => model / sim,
            By::Difference => model - sim,
            By::ShareOfOffered => (model - sim) / offered_pps,
        }
    }

    /// Where `bound` lies from what was simulated: the inverse of `apart`, which has no value at 0 over 0.
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
