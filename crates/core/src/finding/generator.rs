//! The load generators of a run.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// The load generators, measured without a host under test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorSummary {
    /// Method by which the generators send: `AF_PACKET transmit ring, PACKET_QDISC_BYPASS` or another method.
    pub method: String,
    /// Highest total rate that the generators can send (packets/s), limited to `max_rate_pps` if given; None: not
    /// measured.
    pub ceiling_pps: Option<Figure>,
    /// 99th percentile of actual minus intended send time (s), at the highest load at which the generators kept their
    /// times.
    pub lateness_p99_s: Option<f64>,
    /// Frame length, FCS included (bytes).
    pub frame_bytes: u32,
    /// Highest load that `--max-rate` allows, here or at an agent (pps); absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate_pps: Option<f64>,
    /// True if `max_rate_pps`, not the generators, limited the rate.
    #[serde(default, skip_serializing_if = "is_false")]
    pub limited_by_max_rate: bool,
    /// Flows of the load, in words, if another host sent it: `1 flow to one queue, receive queue 0 (counted)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<String>,
    /// The generators on other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<GeneratorPart>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One of several generators over a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorPart {
    /// The host it runs on.
    pub at: String,
    /// How it sends.
    pub method: String,
    /// Highest rate that the generator can send while the other generators also send (packets/s); absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_pps: Option<f64>,
    /// Rate requested from it at the highest load of all (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_pps: Option<f64>,
    /// Rate that it achieved at that load (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_pps: Option<f64>,
    /// Number of trials that it took part in.
    pub trials: u32,
    /// Number of the generator's stalls in these trials: times above 100 us in which it did not read its clock.
    pub stalls: u64,
    /// Longest stall (s).
    pub longest_stall_s: f64,
}
