//! Searches for the throughput of a device. The crate has no input or output: the caller makes the trials.
//!
//! [`binary`]: the search of RFC 2544 (26.1). [`mlr`]: MLRsearch (RFC 9971). It classifies loads as the RFC specifies;
//! which loads are tried, the RFC leaves to the implementation.

pub mod asked;
pub mod binary;
pub mod goal;
pub mod load;
pub mod mlr;
pub mod simulated;
#[cfg(test)]
mod tests;
pub mod trial;

use serde::{Deserialize, Serialize};

use crate::trial::Trial;
use load::Loads;

pub use goal::Goal;

/// Result of a search for one goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Found {
    /// Relevant lower bound (pps): the highest load that upheld the goal below every load that failed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Relevant upper bound (pps): the lowest load that failed the goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Load times forwarding ratio at the lower bound (pps), RFC 9971's conditional throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// How the search ended.
    pub end: End,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Both bounds, as close as requested (RFC 9971: a regular result).
    Regular,
    /// The highest load that the medium allows upheld the goal: the device is at least as fast.
    AboveMaximum,
    /// The highest load that the sender reaches upheld the goal: the device is at least as fast.
    AboveSender,
    /// Trials at all higher loads were void although the sender reached these loads (late frames, a full sink, pauses
    /// of a CPU). The device is at least as fast as the result; its limit was not reached.
    AboveVoid,
    /// The lowest load failed the goal.
    BelowMinimum,
    /// The sender does not reach the lowest load: nothing is known of the device.
    SenderTooSlow,
    /// The time limit was reached before the bounds were as close as requested.
    OutOfTime,
    /// The run was stopped or failed during the search; the result has the bounds known until then.
    Interrupted,
}

impl End {
    /// True if both bounds were found and are as close as requested.
    pub fn is_regular(self) -> bool {
        self == Self::Regular
    }

    /// True if the highest load upheld the goal, so that the result is a lower limit.
    pub fn is_lower_limit(self) -> bool {
        matches!(self, Self::AboveMaximum | Self::AboveSender | Self::AboveVoid)
    }
}

impl std::fmt::Display for End {
    /// Writes the name that JSON has.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular",
            Self::AboveMaximum => "above-maximum",
            Self::AboveSender => "above-sender",
            Self::AboveVoid => "above-void",
            Self::BelowMinimum => "below-minimum",
            Self::SenderTooSlow => "sender-too-slow",
            Self::OutOfTime => "out-of-time",
            Self::Interrupted => "interrupted",
        })
    }
}

/// A search's results with their trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Searched {
    /// One result per goal, in the order of the goals.
    pub found: Vec<Found>,
    /// Valid trials, in the order they were made.
    pub trials: Vec<Trial>,
    /// Number of void trials, which do not count because they say nothing about the device.
    pub void_trials: u32,
    /// Total length of all trials (s); void trials count with their requested length.
    pub trial_time_s: f64,
}

impl Searched {
    /// Results of an interrupted search: for each goal the bounds by its trials so far.
    pub fn interrupted(goals: &[Goal], trials: Vec<Trial>, void_trials: u32, trial_time_s: f64) -> Self {
        let mut loads = Loads::default();
        trials.iter().for_each(|trial| loads.add(*trial));
        let found = |goal: &Goal| {
            let (lower_pps, upper_pps) = loads.bounds(goal);
            // Only a completed search states a throughput.
            Found { lower_pps, upper_pps, throughput_pps: None, end: End::Interrupted }
        };
        Self { found: goals.iter().map(found).collect(), trials, void_trials, trial_time_s }
    }

    /// (Lower bound, upper bound) of the first goal (pps); `None` if it has no lower bound.
    pub fn bounds(&self) -> Option<(f64, Option<f64>)> {
        self.bounds_of(0)
    }

    /// (Lower bound, upper bound) of the goal with this index, from 0 (pps); `None` if it has no lower bound, or the
    /// index is too large.
    pub fn bounds_of(&self, goal: usize) -> Option<(f64, Option<f64>)> {
        let found = self.found.get(goal)?;
        Some((found.lower_pps?, found.upper_pps))
    }
}
