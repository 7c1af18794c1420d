//! How a measured CPU split is brought to the rows of model and simulation.

use serde::{Deserialize, Serialize};

use crate::outcome::Figure;

/// What was moved between the rows of the measured split, and what it has beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuMeasured {
    /// Time of each interrupt that was moved to the interrupt row from the application or idle time it hit (s).
    pub hidden_s: f64,
    /// Time of each interrupt that was moved there from the softirq it hit (s); None: a finding of before 27 November 2026.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_softirq_s: Option<f64>,
    /// Time of each poll that was moved to the poll row from NET_RX softirqs (s).
    pub poll_s: f64,
    /// By rising load.
    pub besides: Vec<CpuBesides>,
}

/// Shares of one CPU that no row of model and simulation has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuBesides {
    /// Offered load (pps).
    pub load_pps: f64,
    /// Other tasks, other softirqs than NET_RX, behind a NIC also the interrupts of the timer and of other CPUs.
    pub other: Figure,
    /// The meter itself, contained in the other rows; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Figure>,
}

impl CpuMeasured {
    /// At one load.
    pub fn at(&self, load_pps: f64) -> Option<&CpuBesides> {
        self.besides.iter().find(|besides| (besides.load_pps / load_pps - 1.0).abs() < 1e-6)
    }
}
