//! [`Analysis`]: a host's cliff by the model, how much it still delivers past the cliff, and how the cliff depends on
//! each cost.

use serde::{Deserialize, Serialize};

/// Cliff, livelock index and sensitivities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// Highest offered load with a loss of at most `loss_target` (pps).
    pub cliff_pps: f64,
    /// The loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Delivered rate at twice the cliff, divided by the highest delivered rate: 1 without livelock, 0 in full receive
    /// livelock.
    pub livelock: f64,
    /// Step h of the sensitivities, which compare the figures at the cost times e^h and times e^-h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Sensitivity to each cost, largest effect on the cliff first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivities: Vec<CostSensitivity>,
}

/// How three figures change with one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostSensitivity {
    /// Key of the cost, as `--set` takes it.
    pub cost: String,
    /// Change of the cliff (percent) if the cost grows by 1 percent.
    pub cliff: f64,
    /// Change of the mean latency at the point's load (percent) if the cost grows by 1 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<f64>,
    /// Change of the CPU's available share at the point's load (percent of one CPU) if the cost grows by 1 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<f64>,
}
