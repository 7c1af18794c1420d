//! What `netcliff tune` proposes, for people and programs: [`Proposal`].

use serde::{Deserialize, Serialize};

use crate::inspection::Objective;

/// One setting that would serve the objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What is to be set.
    pub name: String,
    /// The value in force.
    pub old: String,
    /// The value proposed.
    pub new: String,
    /// Why.
    pub reason: String,
    /// Where that is written.
    pub source: String,
    /// The shell command that does it, as root.
    pub command: String,
    /// What it is expected to change, from model or simulation with this host's costs, or that no engine knows it; None: not
    /// calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// A plan for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSheet {
    /// What it is for.
    pub objective: Objective,
    /// In the order in which they are set.
    pub proposals: Vec<Proposal>,
    /// What the plan does not do, and why.
    pub notes: Vec<String>,
}
