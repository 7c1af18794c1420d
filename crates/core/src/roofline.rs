//! [`Roofline`]: result of `netcliff limits`, for JSON and for rendering.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::parts::{Bus, Offload};
use crate::scheme::Scheme;

/// Parts that can limit the rate, in the order of the path.
pub const PARTS: [&str; 7] = ["link", "bus", "memory", "interrupts", "packet CPU", "byte CPU", "CPU"];

/// Upper bounds of a host's packet rate, by frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Roofline {
    /// Link speed (bit/s); None: unknown, so that the link gives no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// Bus between NIC and memory.
    pub bus: Bus,
    /// Memory bandwidth (byte/s); None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_s: Option<f64>,
    /// Number of copies of each byte by the CPU.
    pub copies: u32,
    /// Costs of one CPU; None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Number of CPUs that share the frames.
    pub cpus: u32,
    /// Frames per interrupt; the fewest possible if rows have `highest`.
    pub frames_per_interrupt: f64,
    /// Scheme whose cliff, by the model, determines the frames per interrupt of the rows' `highest`; None: frames per
    /// interrupt were given or measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_by: Option<Scheme>,
    /// Rows by frame size, without offloads and with the requested ones.
    pub rows: Vec<RoofRow>,
    /// Parts that are unknown, and how to specify them.
    pub unknown: Vec<String>,
}

/// Bounds at one frame size with one set of offloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoofRow {
    /// Requested frame size (bytes, FCS included).
    pub asked_bytes: f64,
    /// Frame size sent: jumbo frames replace the longest (bytes, FCS included).
    pub frame_bytes: f64,
    /// Offloads that are on.
    pub offloads: Vec<Offload>,
    /// Bound of each part (pps).
    pub bounds_pps: BTreeMap<String, f64>,
    /// The lowest bound (pps); None if no part is known.
    pub pps: Option<f64>,
    /// The lowest bound in frame bits (bit/s).
    pub bps: Option<f64>,
    /// The part with the lowest bound; for the CPU its largest cost.
    pub binding: Option<String>,
    /// Bounds at the lowest interrupt rate, which the model has at its cliff; `None`: frames per interrupt were given
    /// or measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<RoofHighest>,
}

impl RoofRow {
    /// True if a cost of the CPU is the lowest bound.
    pub fn is_bound_by_cpu(&self) -> bool {
        let [_, _, _, cpu @ ..] = PARTS;
        self.binding.as_deref().is_some_and(|part| cpu.contains(&part))
    }
}

/// Bounds at the lowest interrupt rate, which the model has at its cliff. Present if frames per interrupt were neither
/// given nor measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoofHighest {
    /// Frames per interrupt; None: the model does not support this host, so that interrupts cost nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_interrupt: Option<f64>,
    /// The model's cliff at this frame size (pps), as by `predict --cliff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_pps: Option<f64>,
    /// Bound of each part (pps).
    pub bounds_pps: BTreeMap<String, f64>,
    /// The lowest bound (pps).
    pub pps: Option<f64>,
    /// The lowest bound in frame bits (bit/s).
    pub bps: Option<f64>,
    /// The part with the lowest bound.
    pub binding: Option<String>,
}

impl Roofline {
    /// The requested offloads; empty if none were requested.
    pub fn offloads(&self) -> &[Offload] {
        self.rows.iter().map(|row| row.offloads.as_slice()).find(|offloads| !offloads.is_empty()).unwrap_or(&[])
    }

    /// Names of the parts that have a bound, in the order of the path.
    pub fn parts(&self) -> Vec<&str> {
        let known = |part: &&str| self.rows.iter().any(|row| row.bounds_pps.contains_key(*part));
        PARTS.into_iter().filter(known).collect()
    }
}
