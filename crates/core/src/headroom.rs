//! [`Headroom`]: how near a host is now to the cliff that `netcliff find` measured on it.

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::outcome::{Figure, Latency};
use crate::watch::{ConntrackMoment, LinkFilling, LossMoment, ProgramMoment, QuotaMoment};

/// What the share of a CPU is taken from: the largest of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Nearest {
    /// Its packets/s over those at the cliff.
    Packets,
    /// Its time in interrupts and softirqs over that at the cliff: packets that cost more than the calibrated ones.
    Softirq,
    /// Its time that is not idle, or the time of the busiest thread of a program with sockets there: nothing is left for the programs that
    /// read the packets.
    Programs,
}

/// A CPU's load against the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuHeadroom {
    /// Number.
    pub cpu: u32,
    /// Packets that it processed (packets/s).
    pub packets_per_s: f64,
    /// Share of its time in interrupts and softirqs.
    pub softirq: f64,
    /// Share of its time that is not idle; niced programs, which give way to others, count as idle.
    #[serde(default)]
    pub busy: f64,
    /// Its load over that at the cliff, or over all that it can do: 1 is the limit.
    pub share: f64,
    /// What that is taken from.
    pub by: Nearest,
    /// Packets dropped at its backlog (packets/s).
    pub dropped_per_s: f64,
    /// Latency of the calibrated packets at this many packets/s by the model (s); absent without packets, or where the model has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<Latency>,
}

/// A limit of a host other than its CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// What an interface can carry.
    Link(LinkFilling),
    /// CPU time that a cgroup may use.
    Quota(QuotaMoment),
    /// Connections that the kernel tracks.
    Conntrack(ConntrackMoment),
}

impl Bound {
    /// Its load over the limit.
    pub fn share(&self) -> f64 {
        match self {
            Self::Link(link) => link.share(),
            Self::Quota(quota) => quota.share(),
            Self::Conntrack(table) => table.share(),
        }
    }
}

/// A receive queue's load against the cliff of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueHeadroom {
    /// Interface.
    pub interface: String,
    /// Number of the receive queue.
    pub queue: u32,
    /// Packets/s.
    pub packets_per_s: f64,
    /// Packets/s over those at the cliff.
    pub share: f64,
    /// The CPU that took its interrupt most; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Lost at the queue (packets/s); absent: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_per_s: Option<f64>,
}

/// A host's load against its calibrated cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headroom {
    /// Time over which the load was counted (s).
    pub seconds: f64,
    /// Number of the `find` run in the store that the cliff is of; absent: of a file or of given costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i64>,
    /// What the cliff is of: `find run 3`, a file or a preset.
    #[serde(default)]
    pub cliff_of: String,
    /// Why it is that one and not the newest; absent: it is the newest, or was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_why: Option<String>,
    /// False: something speaks against relying on the cliff, see `cautions`.
    #[serde(default)]
    pub cliff_valid: bool,
    /// When that began, seconds since the epoch (UTC).
    pub calibrated_unix_s: f64,
    /// Time since then (s); absent: given costs have no date, or it lies in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// The cliff of one CPU (pps).
    pub cliff_pps: Figure,
    /// Who answered for it: `wire` where it was measured.
    pub engine: EngineKind,
    /// Frames that it is of (bytes with FCS); absent: of several sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u32>,
    /// Share of the CPU in interrupts and softirqs at the cliff; absent: not measured, so that packets alone are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_at_cliff: Option<f64>,
    /// The largest share of a CPU or of one of `bounds`: 0.62 is "at 62 % of its cliff".
    pub share: f64,
    /// Number of the CPU with the largest share.
    pub cpu: u32,
    /// Links, CPU quotas and connection tracking, the nearest to its limit first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// Every CPU.
    pub cpus: Vec<CpuHeadroom>,
    /// Receive queues, where drivers count them.
    pub queues: Vec<QueueHeadroom>,
    /// Lost by sockets, protocols, the kernel or a NIC meanwhile (packets/s): any loss means the limit was passed, whatever the share says.
    pub lost_per_s: f64,
    /// What was lost where, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Frames that devices dropped and that are no loss of any service, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclaimed: Vec<String>,
    /// The losses of sockets and protocols as values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossMoment>,
    /// The programs with most CPU time, at most three a CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramMoment>,
    /// What speaks against relying on this, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

impl Headroom {
    /// The bound that is nearer to its limit than every CPU, or as near; `None` where a CPU is nearer.
    pub fn nearest_bound(&self) -> Option<&Bound> {
        let of_cpus = self.cpus.iter().map(|cpu| cpu.share).fold(0.0, f64::max);
        self.bounds.first().filter(|bound| bound.share() > 0.0 && bound.share() >= of_cpus)
    }
}
