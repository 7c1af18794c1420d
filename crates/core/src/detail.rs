//! [`Detail`]: what a simulation can show beside its figures: how often how many packets wait, how long the CPU is
//! busy without a break, and what happened when.

use serde::{Deserialize, Serialize};

use crate::outcome::{CpuShares, Figure};

/// Distributions over the whole run after its warm-up, and a series of its first replication.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Detail {
    /// Packets in ring and protocol, by share of time; numbers that never occurred are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ring: Vec<QueueShare>,
    /// The same for the application's socket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub socket: Vec<QueueShare>,
    /// Times in which the CPU is busy without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_periods: Option<BusyPeriods>,
    /// Slices of the first replication, from its start, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Slice>,
}

/// How much of the time so many packets are there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QueueShare {
    /// Packets, the one in service included.
    pub packets: u64,
    /// Share of time (1).
    pub share: Figure,
}

/// Maximal times in which the CPU is never available: interrupt, poll, protocol or application follow each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyPeriods {
    /// How many end (1/s).
    pub per_s: Figure,
    /// Mean length (s); None if none ended: the CPU never rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_s: Option<Figure>,
    /// Median length (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<Figure>,
    /// 99th percentile (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<Figure>,
    /// Longest that ended (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<Figure>,
}

/// What happened in one slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Slice {
    /// Start (s).
    pub from_s: f64,
    /// End (s).
    pub to_s: f64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets delivered: by protocol processing, or to the application where there is one.
    pub delivered: u64,
    /// Packets lost at the ring.
    pub dropped_ring: u64,
    /// Packets lost at the socket.
    pub dropped_socket: u64,
    /// Mean packets in ring and protocol.
    pub ring_mean: f64,
    /// Most packets in ring and protocol.
    pub ring_max: u64,
    /// Where the CPU's time went.
    pub cpu: CpuShares,
}
