//! What a `find` measures and how precisely: the options of the command line and their defaults, also in the form of a
//! request to another host.

use netcliff_packets::schedule::Arrivals;
use serde::{Deserialize, Serialize};

/// Settings of a `find`, as the command line gives them and as a client sends them to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whether to make fewer and shorter trials (one to two minutes on two cores).
    pub quick: bool,
    /// Loss fraction that defines the cliff.
    pub loss: f64,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Configured CPU time of the application per packet, in addition to reading it (s).
    pub work_s: f64,
    /// Requested receive buffer (bytes).
    pub receive_buffer_bytes: u64,
    /// Repeats of each load of the sweep; `None`: the default of [`super::Plan::new`].
    pub repeats: Option<u32>,
    /// Length of one measurement (s); `None`: the default of [`super::Plan::new`].
    pub trial_s: Option<f64>,
    /// Total length of the trials that decide on a load in a search (s); `None`: the default of [`super::Plan::new`].
    pub duration_sum_s: Option<f64>,
    /// Share of the trials at the cliff that may lose more than `loss`; `None`: [`Settings::EXCEED`].
    pub exceed: Option<f64>,
    /// Relative width of the bounds at which a search ends; `None`: the default of [`super::Plan::new`].
    pub width: Option<f64>,
    /// Number of searches for the cliff; `None`: the default of [`super::Plan::new`].
    pub searches: Option<u32>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Loads at which a check of a device's settings is measured besides its cliff (pps); empty: three shares of the
    /// check's cliff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_loads_pps: Vec<f64>,
    /// Whether the most promising suggestion is measured, too.
    pub try_suggestions: bool,
    /// Command line, for the provenance.
    pub command: String,
    /// Start, seconds since the epoch (UTC).
    pub started_unix_s: f64,
}

impl Settings {
    /// Default of [`Settings::exceed`].
    pub const EXCEED: f64 = 0.5;
}

/// The settings of `netcliff find` without arguments.
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
