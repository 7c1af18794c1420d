//! Result of `netcliff stream`: one row per block size, each figure the median of its repeats with minimum and maximum;
//! and formulas that turn counts into figures.

mod frames;
mod many;
mod probe;
mod row;
mod wire;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::{Fingerprint, OtherRun, Provenance};

pub use frames::{DatagramFrames, ETHERNET_BYTES, datagram_frames, payload_share, wire_bytes};
pub use many::{AgentRow, IncastRow, ManyRow, jain};
pub use probe::{ProbePhase, ProbePoint, ProbeQueue, ProbeRow, quantile, round_trips_per_minute};
pub use row::{
    DatagramRow, DeviceRow, EndCpu, FollowedRow, MappedRow, OTHER_PROGRAMS, PacingRow, StreamRow, StreamSample,
    ZeroCopyRow,
};
pub use wire::{TcpFlow, TcpFlows, TcpInterval, TcpRow, UdpRow};

/// Last words of the sentence of [`FullCpus`], by which it is read.
const FULL_CPUS: &str = " fully busy, softirqs and other programs included";

/// Median, minimum and maximum over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of the finite values; `None` if no value is finite.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { median, min, max })
    }
}

/// CPU time of one end in one repeat (s).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTimes {
    /// CPU time in user mode (s).
    pub user_s: f64,
    /// CPU time in kernel mode (s).
    pub system_s: f64,
    /// Elapsed time (s).
    pub wall_s: f64,
}

/// Kernel share of the CPU as in the 2003 study (docs/theory/README.md; its section 5.6.3): mean over repeats of
/// `sys / (sys + user) * percent`, where percent is CPU time divided by elapsed time; here 0 to 1. `None` if no repeat
/// used any CPU time.
pub fn kernel_share(repeats: &[CpuTimes]) -> Option<f64> {
    let shares: Vec<f64> = repeats
        .iter()
        .filter(|times| times.user_s + times.system_s > 0.0 && times.wall_s > 0.0)
        .map(|times| {
            let used_s = times.system_s + times.user_s;
            times.system_s / used_s * (used_s / times.wall_s)
        })
        .collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The result of `netcliff stream`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamReport {
    /// The configuration: (name, value).
    pub asked: Vec<(String, String)>,
    /// Settings in force at the sender's socket, as the kernel reports them: (name, value).
    pub in_force: Vec<(String, String)>,
    /// End whose clock `goodput_bps` uses: `receiver` or `sender`.
    pub clock: String,
    /// One row per block size.
    pub rows: Vec<StreamRow>,
    /// Settings that were requested but not possible, with the reason.
    pub not_had: Vec<String>,
    /// Rate at which one thread reads the sent file from its disk, without a network (bit/s); absent: no file is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bps: Option<f64>,
    /// Limits of the figures, one sentence each.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub warnings: Vec<StreamWarning>,
    /// How each kind of CPU figure was measured: (kind, method).
    pub cpu_methods: Vec<(String, String)>,
    /// Properties of host and software that explain a difference to another run.
    pub fingerprint: Fingerprint,
    /// Fingerprint of the far end's host; absent if it is this host, or if it is not known (`not_had` has the reason).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// Version and settings of the run.
    pub provenance: Provenance,
    /// True if it was stopped, or cut short by an error.
    pub partial: bool,
}

/// Threads of an end that were fully busy in a row, and limited the rate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullThreads {
    /// The row: path and block size.
    pub row: String,
    /// True: the threads of the sender; false: those of the receiver.
    pub sends: bool,
    /// True: the end has several threads.
    pub several: bool,
}

impl FullThreads {
    /// The threads that a sentence is about. `None` if it is another sentence.
    fn read(sentence: &str) -> Option<Self> {
        let ends = [(true, false), (true, true), (false, false), (false, true)];
        ends.into_iter().find_map(|(sends, several)| {
            let full = Self { row: String::new(), sends, several };
            let row = sentence.strip_suffix(&full.to_string())?.to_owned();
            Some(Self { row, ..full })
        })
    }

    /// The threads of the other end of the same row.
    #[must_use]
    pub fn other_end(&self) -> Self {
        Self { sends: !self.sends, ..self.clone() }
    }

    /// The sentence of both ends, each of which limited the rate in some transfers.
    pub fn of_both_ends(&self) -> String {
        let (row, used) = (&self.row, self.used());
        format!(
            "{row}: in some transfers the sender's {used} to the full, in some the receiver's; the fully busy end limits the rate"
        )
    }

    fn used(&self) -> &'static str {
        if self.several { "threads used their CPUs" } else { "thread used its CPU" }
    }
}

impl fmt::Display for FullThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.sends { "sender" } else { "receiver" };
        write!(f, "{}: the {end}'s {} to the full: it is what limits the rate", self.row, self.used())
    }
}

/// CPUs of the host that were fully busy in a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullCpus {
    /// The row: path and block size.
    pub row: String,
    /// Numbers of the CPUs, at least one.
    pub cpus: Vec<usize>,
}

impl FullCpus {
    /// The CPUs that a sentence is about. `None` if it is another sentence.
    fn read(sentence: &str) -> Option<Self> {
        let (row, cpus) = sentence.strip_suffix(FULL_CPUS)?.rsplit_once(": CPU")?;
        let numbers = cpus.strip_prefix("s ").and_then(|cpus| cpus.strip_suffix(" were"));
        let numbers = numbers.or_else(|| cpus.strip_prefix(' ')?.strip_suffix(" was"))?;
        let cpus: Option<Vec<usize>> = numbers.split(", ").map(|cpu| cpu.parse().ok()).collect();
        Some(Self { row: row.to_owned(), cpus: cpus? })
    }
}

impl fmt::Display for FullCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        let (what, were) = if cpus.len() > 1 { ("CPUs", "were") } else { ("CPU", "was") };
        write!(f, "{}: {what} {} {were}{FULL_CPUS}", self.row, cpus.join(", "))
    }
}

/// A limit of a stream's figures. In JSON it is a sentence; what is read from JSON has its kind again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StreamWarning {
    /// The threads of an end were fully busy, and limited the rate.
    FullThreads(FullThreads),
    /// CPUs of the host were fully busy.
    FullCpus(FullCpus),
    /// Another netcliff run was active during this run.
    OtherRun(OtherRun),
    /// Any other limit.
    Other(String),
}

impl fmt::Display for StreamWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FullThreads(full) => write!(f, "{full}"),
            Self::FullCpus(full) => write!(f, "{full}"),
            Self::OtherRun(other) => write!(f, "{other}"),
            Self::Other(sentence) => f.write_str(sentence),
        }
    }
}

impl From<String> for StreamWarning {
    fn from(sentence: String) -> Self {
        if let Some(full) = FullThreads::read(&sentence) {
            Self::FullThreads(full)
        } else if let Some(full) = FullCpus::read(&sentence) {
            Self::FullCpus(full)
        } else if let Some(other) = OtherRun::read(&sentence) {
            Self::OtherRun(other)
        } else {
            Self::Other(sentence)
        }
    }
}

impl From<StreamWarning> for String {
    fn from(warning: StreamWarning) -> Self {
        warning.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_ordered_and_ignores_what_is_no_number() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0, f64::NAN, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn the_kernel_share_is_the_mean_over_repeats() {
        let times = |user_s, system_s| CpuTimes { user_s, system_s, wall_s: 1.0 };
        // 0.6/0.8 x 80 % = 60 %; 0.2/0.4 x 40 % = 20 %.
        let share = kernel_share(&[times(0.2, 0.6), times(0.2, 0.2)]).expect("CPU was used");
        assert!((share - 0.4).abs() < 1e-12, "{share}");
        assert_eq!(kernel_share(&[times(0.0, 0.0)]), None);
    }

    /// JSON has the sentences, as it had before there were kinds, and a stored warning is read with its kind.
    #[test]
    fn a_stored_warning_is_read_with_its_kind() {
        let cpus =
            |cpus: &[usize]| StreamWarning::FullCpus(FullCpus { row: "write of 1MiB".to_owned(), cpus: cpus.to_vec() });
        let full = |sends, several| {
            StreamWarning::FullThreads(FullThreads { row: "write of 1MiB".to_owned(), sends, several })
        };
        let all = [
            full(false, false),
            full(true, true),
            cpus(&[2]),
            cpus(&[2, 3]),
            StreamWarning::OtherRun(OtherRun { process: "pid 17 of user alice (1000)".to_owned() }),
            "devices dropped 3 packets".to_owned().into(),
        ];
        let kinds = |warning: &StreamWarning| std::mem::discriminant(warning);
        assert_eq!(all.iter().map(kinds).collect::<std::collections::HashSet<_>>().len(), 4, "{all:?}");
        for warning in all {
            let json = serde_json::to_string(&warning).unwrap();
            assert_eq!(json, serde_json::to_string(&warning.to_string()).unwrap());
            assert_eq!(serde_json::from_str::<StreamWarning>(&json).unwrap(), warning);
        }
        let stored = "write of 1MiB: the receiver's thread used its CPU to the full: it is what limits the rate";
        assert_eq!(full(false, false).to_string(), stored);
        let stored = "write of 1MiB: CPUs 2, 3 were fully busy, softirqs and other programs included";
        assert_eq!(cpus(&[2, 3]).to_string(), stored);
    }
}
