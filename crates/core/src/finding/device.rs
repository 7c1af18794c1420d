//! What the interface under test counted over a run.

use serde::{Deserialize, Serialize};

/// What the device under test counted while trials ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceAccount {
    /// The device.
    pub interface: String,
    /// Packets of all trials that it received.
    pub received: u64,
    /// The driver's counters of loss that rose, by ethtool's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<DeviceLoss>,
    /// Its interrupts, one entry a vector that rose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<DeviceVector>,
}

/// One counter of loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceLoss {
    /// Its name: `rx_missed_errors`.
    pub counter: String,
    /// By how much it rose.
    pub packets: u64,
    /// What it means: `no room`, `waited for a buffer`, `dropped by XDP`, `beyond the cloud's allowance` or `other`.
    pub cause: String,
}

/// One interrupt of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceVector {
    /// Its number in /proc/interrupts.
    pub irq: u32,
    /// How often it came while trials ran, their time before and after the measured window included.
    pub interrupts: u64,
}
