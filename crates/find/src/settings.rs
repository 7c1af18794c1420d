//! What a `find` measures and how well: one row an option, with its default and its place in a request to another host.

use netcliff_packets::schedule::Arrivals;
use serde::{Deserialize, Serialize};

/// Settings of a `find`, as the command line gives them and as a client sends them to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// About a minute on two cores.
    pub quick: bool,
    /// Loss fraction that defines the cliff.
    pub loss: f64,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// CPU time the application spends a packet beyond reading it (s).
    pub work_s: f64,
    /// Receive buffer to ask for (bytes).
    pub receive_buffer_bytes: u64,
    /// Repeats of each load; `None`: as [`super::Plan::new`] says.
    pub repeats: Option<u32>,
    /// Length of one measurement (s); `None`: as [`super::Plan::new`] says.
    pub trial_s: Option<f64>,
    /// Length of the trials that judge a load in a search (s); `None`: as [`super::Plan::new`] says.
    pub duration_sum_s: Option<f64>,
    /// Share of the trials at the cliff that may lose more than `loss`; `None`: half of them.
    pub exceed: Option<f64>,
    /// Relative width at which a search ends; `None`: as [`super::Plan::new`] says.
    pub width: Option<f64>,
    /// Searches for the cliff; `None`: as [`super::Plan::new`] says.
    pub searches: Option<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// Loads at which a check of the device's settings is measured besides (pps); empty: three shares of its cliff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_loads_pps: Vec<f64>,
    /// Whether the most promising suggestion is measured, too.
    pub try_suggestions: bool,
    /// Command line, for the provenance.
    pub command: String,
    /// Start, seconds since the epoch (UTC).
    pub started_unix_s: f64,
}

/// As `netcliff find` without options.
impl Default for Settings {
    fn default() -> Self {
        Self {
            quick: false,
            loss: 1e-4,
            frame_bytes: 64,
            arrivals: Arrivals::Poisson,
            work_s: 0.0,
            receive_buffer_bytes: 1 << 20,
            repeats: None,
            trial_s: None,
            duration_sum_s: None,
            exceed: None,
            width: None,
            searches: None,
            seed: 1,
            check_loads_pps: Vec::new(),
            try_suggestions: false,
            command: String::new(),
            started_unix_s: 0.0,
        }
    }
}
