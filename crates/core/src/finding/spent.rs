//! Where the time of a run went.

use serde::{Deserialize, Serialize};

/// Where the time of a run went (s). The three add up to the time of its stages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSpent {
    /// The windows of trials, which count.
    pub measured_s: f64,
    /// The rest of trials: set-up, warm-up, cool-down, and the wait for the last packets.
    pub waited_s: f64,
    /// Everything else: model, simulation, fits.
    pub computed_s: f64,
    /// The time of each stage, in order.
    pub stages: Vec<StageTime>,
}

/// Where the time of a stage went (s).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageTime {
    /// The stage, as progress names it.
    pub stage: String,
    /// Its trials.
    pub trials: u32,
    /// As in [`TimeSpent`].
    pub measured_s: f64,
    /// As in [`TimeSpent`].
    pub waited_s: f64,
    /// As in [`TimeSpent`].
    pub computed_s: f64,
}

impl TimeSpent {
    /// Adds up stages.
    pub fn of(stages: Vec<StageTime>) -> Self {
        let sum = |of: fn(&StageTime) -> f64| stages.iter().map(of).sum();
        Self {
            measured_s: sum(|stage| stage.measured_s),
            waited_s: sum(|stage| stage.waited_s),
            computed_s: sum(|stage| stage.computed_s),
            stages,
        }
    }
}
