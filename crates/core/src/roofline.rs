//! [`Roofline`]: what `netcliff limits` found, ready for JSON and for rendering.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::parts::{Bus, Offload};
use crate::scheme::Scheme;

/// What can bind, in the order of the path.
pub const PARTS: [&str; 7] = ["link", "bus", "memory", "interrupts", "packet CPU", "byte CPU", "CPU"];

/// The bounds of one host at some frame sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Roofline {
    /// Link speed (bit/s); None: not known, so not part of the bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// Between NIC and memory.
    pub bus: Bus,
    /// Memory bandwidth (byte/s); None: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_s: Option<f64>,
    /// Copies of each byte by the CPU.
    pub copies: u32,
    /// Costs of one CPU; None: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// CPUs that share the frames.
    pub cpus: u32,
    /// Frames an interrupt; the fewest where rows have `highest`.
    pub frames_per_interrupt: f64,
    /// Scheme whose frames an interrupt at its predicted cliff give the rows' `highest`; None: frames an interrupt were given or measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_by: Option<Scheme>,
    /// Without offloads and with those asked for, by frame size.
    pub rows: Vec<RoofRow>,
    /// Parts that are not known, and how to name them.
    pub unknown: Vec<String>,
}

/// The bounds at one frame size with one set of offloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoofRow {
    /// The size that was asked for (bytes with FCS).
    pub asked_bytes: f64,
    /// The size that is sent; jumbo frames replace the longest.
    pub frame_bytes: f64,
    /// What was on.
    pub offloads: Vec<Offload>,
    /// Bound by part (pps).
    pub bounds_pps: BTreeMap<String, f64>,
    /// The lowest bound (pps); None where nothing is known.
    pub pps: Option<f64>,
    /// The same in frame bits (bit/s).
    pub bps: Option<f64>,
    /// The part that binds; of the CPU its costliest item.
    pub binding: Option<String>,
    /// The same with as few interrupts as the model has at its cliff; None: frames an interrupt were given or measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<RoofHighest>,
}

/// The bounds with as few interrupts as the model has at its cliff, where nobody measured how many there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoofHighest {
    /// Frames an interrupt; None: the model has no answer for this host, so that interrupts cost nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_interrupt: Option<f64>,
    /// The model's cliff at this frame size (pps), as `predict --cliff` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_pps: Option<f64>,
    /// Bound by part (pps).
    pub bounds_pps: BTreeMap<String, f64>,
    /// The lowest of them (pps).
    pub pps: Option<f64>,
    /// The same in frame bits (bit/s).
    pub bps: Option<f64>,
    /// The part that binds.
    pub binding: Option<String>,
}

impl Roofline {
    /// The offloads that were asked for; empty where none were.
    pub fn offloads(&self) -> &[Offload] {
        self.rows.iter().map(|row| row.offloads.as_slice()).find(|offloads| !offloads.is_empty()).unwrap_or(&[])
    }

    /// Names of the parts with a bound, in the order of the path.
    pub fn parts(&self) -> Vec<&str> {
        let known = |part: &&str| self.rows.iter().any(|row| row.bounds_pps.contains_key(*part));
        PARTS.into_iter().filter(known).collect()
    }
}
