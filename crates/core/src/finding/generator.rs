//! The load generators of a run.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// The load generators measured alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorSummary {
    /// `AF_PACKET transmit ring, PACKET_QDISC_BYPASS` or what was used instead.
    pub method: String,
    /// Packets/s they can send flat out, all together; with `max_rate_pps` at most that; None: not measured.
    pub ceiling_pps: Option<Figure>,
    /// 99th percentile of actual minus intended send time at the highest load it kept up with (s).
    pub lateness_p99_s: Option<f64>,
    /// Frame bytes, FCS included.
    pub frame_bytes: u32,
    /// Highest load that was allowed (pps): `--max-rate`, here or of an agent; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate_pps: Option<f64>,
    /// True where that, and not the generators, was the limit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub limited_by_max_rate: bool,
    /// The flows of the load, in words, where it came from another host: `1 flow to one queue, receive queue 0 (counted)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<String>,
    /// Each generator on another host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<GeneratorPart>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What one of several generators did over a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GeneratorPart {
    /// Where it is.
    pub at: String,
    /// How it sends.
    pub method: String,
    /// Packets/s it can send flat out, while the others do, too; absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_pps: Option<f64>,
    /// Its share of the highest load asked of all (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_pps: Option<f64>,
    /// What it achieved of that (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_pps: Option<f64>,
    /// Trials that it took part in.
    pub trials: u32,
    /// Its stalls in these: times in which it did not read its clock for more than 100 us.
    pub stalls: u64,
    /// The longest (s).
    pub longest_stall_s: f64,
}
