//! [`Profile`]: where the time of a packet goes, by stage of its path, as `netcliff profile` sampled it.

use serde::{Deserialize, Serialize};

use crate::finding::{HostSummary, Missing};
use crate::outcome::Figure;
use crate::record::{Fingerprint, Provenance};

/// A stage of a packet's path through the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Interrupt, poll and driver.
    Interrupt,
    /// Programs of XDP and tc.
    Xdp,
    /// Allocation of buffers.
    Allocation,
    /// DMA mapping, and refilling of rings.
    Refill,
    /// Generic receive offload.
    Gro,
    /// IP and what is below it: routing, neighbours, bridges, tunnels, checksums.
    Ip,
    /// Netfilter.
    Netfilter,
    /// TCP and UDP.
    Transport,
    /// Queue of the socket, and waking its program.
    Socket,
    /// Copying between kernel and program.
    Copy,
    /// Release of buffers.
    Release,
    /// Queueing disciplines and the sending half of drivers.
    Transmit,
    /// Entry to system calls, their arguments and descriptors, waiting for several sockets.
    Syscall,
    /// Switching from task to task.
    Switch,
    /// Waiting for locks.
    Locks,
    /// The program itself.
    Application,
    /// Programs at tracepoints, and sampling.
    Tracing,
    /// Timers, RCU, scheduler, memory, files.
    Other,
    /// Kernel functions that the table of stages does not know.
    Unknown,
}

impl Stage {
    /// All, in the order of a packet that is received.
    pub const ALL: [Self; 19] = [
        Self::Interrupt,
        Self::Xdp,
        Self::Allocation,
        Self::Refill,
        Self::Gro,
        Self::Ip,
        Self::Netfilter,
        Self::Transport,
        Self::Socket,
        Self::Copy,
        Self::Release,
        Self::Transmit,
        Self::Syscall,
        Self::Switch,
        Self::Locks,
        Self::Application,
        Self::Tracing,
        Self::Other,
        Self::Unknown,
    ];

    /// Its name in JSON and in the table of stages.
    pub fn key(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Xdp => "xdp",
            Self::Allocation => "allocation",
            Self::Refill => "refill",
            Self::Gro => "gro",
            Self::Ip => "ip",
            Self::Netfilter => "netfilter",
            Self::Transport => "transport",
            Self::Socket => "socket",
            Self::Copy => "copy",
            Self::Release => "release",
            Self::Transmit => "transmit",
            Self::Syscall => "syscall",
            Self::Switch => "switch",
            Self::Locks => "locks",
            Self::Application => "application",
            Self::Tracing => "tracing",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }

    /// The stage of a key; `None` if no stage has it.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.key() == key)
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt and driver",
            Self::Xdp => "XDP and tc programs",
            Self::Allocation => "allocation of buffers",
            Self::Refill => "DMA map and refill",
            Self::Gro => "GRO",
            Self::Ip => "IP and link layer",
            Self::Netfilter => "netfilter",
            Self::Transport => "TCP and UDP",
            Self::Socket => "socket and wake-up",
            Self::Copy => "copy",
            Self::Release => "release of buffers",
            Self::Transmit => "queueing and sending",
            Self::Syscall => "system call",
            Self::Switch => "task switch",
            Self::Locks => "locks (waiting)",
            Self::Application => "application",
            Self::Tracing => "tracing and sampling",
            Self::Other => "other kernel work",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a task that spends time there works for the network.
    pub fn is_network(self) -> bool {
        use Stage::{Gro, Ip, Netfilter, Socket, Transmit, Transport, Xdp};
        matches!(self, Xdp | Gro | Ip | Netfilter | Transport | Socket | Transmit)
    }
}

/// A function with its share of a stage's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionShare {
    /// `ip_rcv`, with its module where it is of one: `nf_hook_slow [nf_tables]`.
    pub function: String,
    /// Of the time of the stage.
    pub share: f64,
}

/// What one stage took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageRow {
    /// Which.
    pub stage: Stage,
    /// CPU time a packet (s); absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_packet_s: Option<Figure>,
    /// Of the time of the account.
    pub share: Figure,
    /// CPU time, as a share of one CPU; more than 1 where several CPUs work.
    pub cpu: f64,
    /// Samples in it.
    pub samples: u64,
    /// Of its time, what functions take that have no row themselves and are called by one that has.
    #[serde(default)]
    pub by_caller: f64,
    /// CPU time a packet by slice of time (s), of slices with packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_slice_s: Vec<f64>,
    /// The innermost functions, the one that takes most in front.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
}

/// Samples of one stack, for flame graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// The program, then the kernel's functions from the outermost.
    pub stack: Vec<String>,
    /// Its stage.
    pub stage: Stage,
    /// Whether it is part of the account.
    pub counted: bool,
    /// Samples.
    pub samples: u64,
    /// CPU time (s).
    pub seconds: f64,
}

/// A program that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramRow {
    /// Its name; `name (pid 12)` where the process was named.
    pub name: String,
    /// CPU time, without the interrupts and softirqs that hit it, as a share of one CPU.
    pub cpu: f64,
    /// Of that, in its own code.
    pub user: f64,
    /// Whether it is part of the account.
    pub counted: bool,
}

/// CPU time by class, each as a share of one CPU, summed over the CPUs. Together with `idle` it is the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileClasses {
    /// Interrupts and softirqs, whatever they hit, with ksoftirqd and NAPI threads.
    pub softirq: f64,
    /// Programs of the account, in their own code and in system calls.
    pub application: f64,
    /// Other programs and kernel threads.
    pub others: f64,
    /// netcliff itself.
    pub own: f64,
    /// Nothing to do.
    pub idle: f64,
}

/// The meter of CPU time over the same window, to hold the samples against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileMeter {
    /// `ebpf` or `procfs`.
    pub method: String,
    /// Interrupts and softirqs by the meter, as a share of one CPU.
    pub softirq: f64,
    /// Tasks by the meter, all of them, as a share of one CPU.
    pub tasks: f64,
    /// Interrupts, softirqs and tasks by samples over the same by the meter, less 1.
    pub difference: f64,
}

/// What was counted in the window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilePackets {
    /// Interfaces whose counters these are.
    pub interfaces: Vec<String>,
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Of these the ones by which time is divided: `received`, or `sent` where next to nothing was received.
    pub divisor: String,
    /// Those a second.
    pub per_s: f64,
}

/// How samples were taken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// CPUs.
    pub cpus: Vec<u32>,
    /// Length (s).
    pub seconds: f64,
    /// Slices of time, over which intervals are.
    pub slices: u64,
    /// Event: `cpu-clock`, or `cycles` with times by the CPU clock.
    pub event: String,
    /// Samples a second on each CPU.
    pub rate_hz: f64,
    /// Samples.
    pub samples: u64,
    /// Samples that the kernel could not hand over.
    pub lost: u64,
    /// CPU time of a sample in the kernel (s), by the kernel's own tracepoints; absent: `missing` has why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_s: Option<f64>,
    /// CPU time of the thread that reads the samples, as a share of one CPU.
    pub own_cpu: f64,
    /// Whole names of the table of stages that this kernel has.
    pub names_known: u64,
    /// Whole names of the table of stages.
    pub names: u64,
}

impl Sampled {
    /// What sampling cost, as a share of the CPUs' time; `None`: the cost of a sample was not measured.
    pub fn overhead(&self) -> Option<f64> {
        let cpus = self.cpus.len().max(1) as f64;
        Some(self.sample_s? * self.rate_hz + self.own_cpu / cpus)
    }
}

/// Waiting for one lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockRow {
    /// Kind: `spinlock`, `mutex`, `rwsem read`, ...
    pub kind: String,
    /// The function that wants it.
    pub function: String,
    /// Address of the lock, by which two locks of one kind differ.
    pub address: String,
    /// Programs that waited, the one that waited longest in front.
    pub waiters: Vec<String>,
    /// Waits.
    pub waits: u64,
    /// Time waited (s), summed.
    pub total_s: f64,
    /// Longest wait (s).
    pub longest_s: f64,
}

/// Contention of locks, by the tracepoints lock:contention_begin and contention_end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockContention {
    /// The locks that were waited for longest.
    pub rows: Vec<LockRow>,
    /// Waits, of all.
    pub waits: u64,
    /// Time waited (s), of all.
    pub total_s: f64,
    /// Events that the kernel could not hand over.
    pub lost: u64,
}

/// The result of `netcliff profile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profile {
    /// `profile`.
    pub kind: String,
    /// The load that netcliff made in the window, in words; absent where traffic was not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// What the host is.
    pub host: HostSummary,
    /// How samples were taken, and what that cost.
    pub sampled: Sampled,
    /// Packets of the window.
    pub packets: ProfilePackets,
    /// The account: CPU time a packet (s); absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_packet_s: Option<Figure>,
    /// Stages with samples, in the order of a packet that is received.
    pub stages: Vec<StageRow>,
    /// CPU time by class.
    pub classes: ProfileClasses,
    /// Programs, the one that takes most in front.
    pub programs: Vec<ProgramRow>,
    /// The meter over the same window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<ProfileMeter>,
    /// Contention of locks, where it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockContention>,
    /// What could not be measured, each with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What speaks against relying on it, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Everything that explains a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
    /// True: stopped before its time.
    pub partial: bool,
}

impl Profile {
    /// A stage's row; `None`: it has no sample.
    pub fn stage(&self, stage: Stage) -> Option<&StageRow> {
        self.stages.iter().find(|row| row.stage == stage)
    }

    /// Of the account's time, what the table of stages does not know.
    pub fn unknown(&self) -> f64 {
        self.stage(Stage::Unknown).map_or(0.0, |row| row.share.value)
    }

    /// Of the account's time, what functions take that have a stage by their caller only.
    pub fn by_caller(&self) -> f64 {
        self.stages.iter().map(|row| row.share.value * row.by_caller).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_json() {
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.key());
            assert_eq!(Stage::of_key(stage.key()), Some(stage));
        }
        assert_eq!(Stage::of_key("helper"), None);
    }

    #[test]
    fn sampling_costs_its_interrupts_and_its_reader() {
        let sampled =
            Sampled { cpus: vec![0, 1], rate_hz: 1000.0, sample_s: Some(3e-6), own_cpu: 0.004, ..Sampled::default() };
        assert!((sampled.overhead().unwrap() - 0.005).abs() < 1e-12);
        assert_eq!(Sampled { sample_s: None, ..sampled }.overhead(), None);
    }
}
