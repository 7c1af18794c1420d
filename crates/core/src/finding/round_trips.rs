//! Round trips between two hosts.

use serde::{Deserialize, Serialize};

/// Round trips at one load, in a trial of their own: from the intended send time of a frame to the kernel's receive timestamp of the application's answer, both by
/// the clock of the host that sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTripsAt {
    /// Share of the measured (or else simulated) cliff: 0.1, 0.5, 0.9.
    pub share: f64,
    /// That load (pps).
    pub load_pps: f64,
    /// Answers that the application sent, warm-up included.
    pub answers: u64,
    /// Those to frames of the measured window that arrived: the sample.
    pub samples: u64,
    /// Shortest (s).
    pub min_s: f64,
    /// Median (s).
    pub p50_s: f64,
    /// 90th percentile (s).
    pub p90_s: f64,
    /// 99th percentile (s).
    pub p99_s: f64,
    /// Longest (s).
    pub max_s: f64,
}
