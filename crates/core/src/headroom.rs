//! [`Headroom`]: how close a host's present load is to its cliff, which `netcliff find` measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::outcome::{Figure, Latency};
use crate::watch::{ConntrackMoment, LinkFilling, LossMoment, ProgramMoment, QuotaMoment};

/// The ratio that determines [`CpuHeadroom::share`]: the largest of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Nearest {
    /// Packet rate divided by the packet rate at the cliff.
    Packets,
    /// Time in interrupts and softirqs divided by this time at the cliff. It is the largest ratio if packets cost more
    /// than the calibrated packets.
    Softirq,
    /// Time that is not idle, or time of the busiest thread of a program with sockets on this CPU. It is the largest
    /// ratio if the programs that read the packets run out of CPU time.
    Programs,
}

/// Load of a CPU relative to the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuHeadroom {
    /// Number of the CPU.
    pub cpu: u32,
    /// Packets that it processed (packets/s): a packet counts once for each device of this host that receives it (bridge,
    /// bond, VLAN, veth); packets that GRO merges count as one.
    pub packets_per_s: f64,
    /// Share of its time in interrupts and softirqs.
    pub softirq: f64,
    /// Share of the CPU's time that is not idle. Niced programs count as idle, because they yield to others.
    #[serde(default)]
    pub busy: f64,
    /// Load of the CPU relative to the cliff or to the CPU's capacity: 1 is the limit.
    pub share: f64,
    /// The ratio that is the largest, and so is `share`.
    pub by: Nearest,
    /// Packets dropped at its backlog (packets/s).
    pub dropped_per_s: f64,
    /// Latency of the calibrated packets at this packet rate, by the model (s); absent without packets, or if the model
    /// cannot compute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_s: Option<Latency>,
}

/// A limit of a host other than its CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Capacity of an interface.
    Link(LinkFilling),
    /// CPU quota of a cgroup.
    Quota(QuotaMoment),
    /// Size of the connection tracking table.
    Conntrack(ConntrackMoment),
}

impl Bound {
    /// Load divided by the limit.
    pub fn share(&self) -> f64 {
        match self {
            Self::Link(link) => link.share(),
            Self::Quota(quota) => quota.share(),
            Self::Conntrack(table) => table.share(),
        }
    }
}

/// Load of a receive queue relative to the cliff of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueHeadroom {
    /// Interface.
    pub interface: String,
    /// Number of the receive queue.
    pub queue: u32,
    /// Packets received (packets/s).
    pub packets_per_s: f64,
    /// Packet rate divided by the packet rate at the cliff.
    pub share: f64,
    /// CPU that handled most of the queue's interrupts; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Lost at the queue (packets/s); absent: not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_per_s: Option<f64>,
}

/// Source of costs and of a cliff. In JSON it is its name in messages, such as `find run 3`; what is read from JSON has
/// its kind again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum CliffSource {
    /// A `find` run of the store, by its number.
    Find(i64),
    /// A `learn` run of the store, by its number.
    Learn(i64),
    /// A file, a preset or a short watch, by its name.
    Named(String),
}

impl Default for CliffSource {
    fn default() -> Self {
        Self::Named(String::new())
    }
}

impl fmt::Display for CliffSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find(run) => write!(f, "find run {run}"),
            Self::Learn(run) => write!(f, "learn run {run}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl From<String> for CliffSource {
    fn from(name: String) -> Self {
        let run = |before: &str| name.strip_prefix(before)?.parse::<i64>().ok();
        let source = run("find run ").map(Self::Find).or_else(|| run("learn run ").map(Self::Learn));
        source.unwrap_or(Self::Named(name))
    }
}

impl From<CliffSource> for String {
    fn from(source: CliffSource) -> Self {
        source.to_string()
    }
}

/// Load of a host relative to its calibrated cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Headroom {
    /// Time over which the load was counted (s).
    pub seconds: f64,
    /// Number, in the store, of the `find` run that gave the cliff; absent: the cliff is from a file or from given
    /// costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i64>,
    /// Source of the cliff: `find run 3`, a file or a preset.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cliff_of: CliffSource,
    /// Why the newest run was not used; absent: it was used, or the user named a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_why: Option<String>,
    /// False: the cliff may not apply to the present host, see `cautions`.
    #[serde(default)]
    pub cliff_valid: bool,
    /// Start of the calibration, seconds since the epoch (UTC).
    pub calibrated_unix_s: f64,
    /// Age of the calibration (s); absent: it has no date, or a date in the future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// The cliff of one CPU (pps).
    pub cliff_pps: Figure,
    /// Engine that gave the cliff: `wire` if it was measured.
    pub engine: EngineKind,
    /// Frame length that the cliff is for, FCS included (bytes); absent: several lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u32>,
    /// Share of the CPU in interrupts and softirqs at the cliff; absent: not measured, so that only packets are
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_at_cliff: Option<f64>,
    /// The share of `cpu` or the largest share of `bounds`, whichever is larger: 0.62 means 62 % of the limit.
    pub share: f64,
    /// Number of the CPU with the largest share. Among CPUs whose shares differ from it by at most 0.05, one that runs
    /// a program with sockets is preferred.
    pub cpu: u32,
    /// Links, CPU quotas and connection tracking, the limit with the largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
    /// Every CPU.
    pub cpus: Vec<CpuHeadroom>,
    /// Receive queues whose packets the driver counts.
    pub queues: Vec<QueueHeadroom>,
    /// Packets lost by sockets, protocols, the kernel or a NIC (packets/s). Any loss means that a limit was passed,
    /// whatever `share` is.
    pub lost_per_s: f64,
    /// Where packets were lost, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Frames that devices dropped without a loss to any service on this host, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclaimed: Vec<String>,
    /// Losses of sockets and protocols as numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossMoment>,
    /// Programs with the most CPU time, at most three per CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramMoment>,
    /// Reasons not to rely on this result, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

impl Headroom {
    /// The bound that is closest to its limit, if no CPU is closer; otherwise `None`.
    pub fn nearest_bound(&self) -> Option<&Bound> {
        let of_cpus = self.cpus.iter().map(|cpu| cpu.share).fold(0.0, f64::max);
        self.bounds.first().filter(|bound| bound.share() > 0.0 && bound.share() >= of_cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_from_its_name() {
        for source in [CliffSource::Find(3), CliffSource::Learn(4), CliffSource::Named("find.json".into())] {
            let json = serde_json::to_string(&source).unwrap();
            assert_eq!(json, format!("\"{source}\""));
            assert_eq!(serde_json::from_str::<CliffSource>(&json).unwrap(), source);
        }
    }
}
