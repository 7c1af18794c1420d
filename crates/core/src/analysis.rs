//! [`Analysis`]: where a host's cliff lies by the model, what is left beyond it, and which cost is worth attacking.

use serde::{Deserialize, Serialize};

/// Cliff, livelock index and sensitivities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// Highest offered load with a loss of at most `loss_target` (pps).
    pub cliff_pps: f64,
    /// The loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Throughput at twice the cliff over the peak: 1 holds, 0 is receive livelock.
    pub livelock: f64,
    /// Step h of the sensitivities: costs are multiplied by e^h and e^-h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// By cost, the most telling for the cliff first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivities: Vec<CostSensitivity>,
}

/// How three figures move with one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostSensitivity {
    /// The cost's key of `--set`.
    pub cost: String,
    /// Percent of change of the cliff a percent of the cost.
    pub cliff: f64,
    /// Percent of change of the mean latency a percent of the cost, at the point's load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
    /// Change of the CPU's available share a percent of the cost, in percent of one CPU, at the point's load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<f64>,
}
