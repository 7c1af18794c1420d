//! [`Profile`]: CPU time of a packet by stage of its path, as sampled by `netcliff profile`.

use serde::{Deserialize, Serialize};

use crate::finding::{HostSummary, Missing};
use crate::outcome::Figure;
use crate::record::{Fingerprint, Provenance};

/// A stage of a packet's path through the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Interrupt handling, polling and driver.
    Interrupt,
    /// XDP and tc programs.
    Xdp,
    /// Allocation of buffers.
    Allocation,
    /// DMA mapping, and refilling of rings.
    Refill,
    /// Generic receive offload.
    Gro,
    /// IP and layers below it: routing, neighbours, bridges, tunnels, checksums.
    Ip,
    /// Netfilter.
    Netfilter,
    /// TCP and UDP.
    Transport,
    /// Socket queue, and waking the program.
    Socket,
    /// Copying between kernel and program.
    Copy,
    /// Release of buffers.
    Release,
    /// Queueing disciplines, and the driver's transmit part.
    Transmit,
    /// System call entry, arguments, file descriptors, and waiting for several sockets.
    Syscall,
    /// Context switches.
    Switch,
    /// Waiting for locks.
    Locks,
    /// The program itself.
    Application,
    /// eBPF programs at tracepoints, and sampling itself.
    Tracing,
    /// Timers, RCU, scheduler, memory, files.
    Other,
    /// Kernel functions that are not in the table of stages.
    Unknown,
}

impl Stage {
    /// All stages, in the order of a received packet's path.
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

    /// Returns the stage with this key; `None` if no stage has it.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.key() == key)
    }

    /// Its name on screens.
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

    /// True if a task that spends time there works for the network.
    pub fn is_network(self) -> bool {
        use Stage::{Gro, Ip, Netfilter, Socket, Transmit, Transport, Xdp};
        matches!(self, Xdp | Gro | Ip | Netfilter | Transport | Socket | Transmit)
    }
}

/// A function, and its share of a stage's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionShare {
    /// Name of the function, and of its module if it is in one: `ip_rcv`, `nf_hook_slow [nf_tables]`.
    pub function: String,
    /// Share of the time of the stage.
    pub share: f64,
}

/// CPU time of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageRow {
    /// The stage.
    pub stage: Stage,
    /// CPU time per packet (s); absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_packet_s: Option<Figure>,
    /// Share of the CPU time of all counted stages.
    pub share: Figure,
    /// CPU time as a share of one CPU; above 1 if several CPUs work on it.
    pub cpu: f64,
    /// Number of samples.
    pub samples: u64,
    /// Share of the stage's time in functions that are not in the table of stages, but whose caller is.
    #[serde(default)]
    pub by_caller: f64,
    /// CPU time per packet (s) in each slice of time with packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_slice_s: Vec<f64>,
    /// The innermost functions, largest share first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
}

/// Samples with the same stack, for flame graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// The program, then the kernel's functions, outermost first.
    pub stack: Vec<String>,
    /// Its stage.
    pub stage: Stage,
    /// True if the samples count in the stages.
    pub counted: bool,
    /// Number of samples.
    pub samples: u64,
    /// CPU time (s).
    pub seconds: f64,
}

/// A program that ran during the profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramRow {
    /// Name of the program; `name (pid 12)` if the process was given by number.
    pub name: String,
    /// CPU time of the program as a share of one CPU, without the interrupts and softirqs that interrupted it.
    pub cpu: f64,
    /// Part of `cpu` spent in its own code (user mode).
    pub user: f64,
    /// True if its samples count in the stages.
    pub counted: bool,
}

/// CPU time by class, each as a share of one CPU and summed over the CPUs. Together with `idle` the sum is the number
/// of CPUs, or less if samples are missing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileClasses {
    /// Interrupts and softirqs, whichever task they interrupted, with ksoftirqd and NAPI threads.
    pub softirq: f64,
    /// Programs that count in the stages: their own code and their system calls.
    pub application: f64,
    /// Other programs and kernel threads.
    pub others: f64,
    /// netcliff itself.
    pub own: f64,
    /// Idle time.
    pub idle: f64,
}

impl ProfileClasses {
    /// All time that has samples, as a share of one CPU.
    pub fn sum(&self) -> f64 {
        let Self { softirq, application, others, own, idle } = self;
        softirq + application + others + own + idle
    }
}

/// CPU time of the same window by another meter, to check the samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileMeter {
    /// `ebpf` or `procfs`.
    pub method: String,
    /// Time in interrupts and softirqs by the meter, as a share of one CPU.
    pub softirq: f64,
    /// Time of all tasks by the meter, as a share of one CPU.
    pub tasks: f64,
    /// Time of interrupts, softirqs and tasks by samples, divided by the meter's, minus 1.
    pub difference: f64,
}

/// Packets counted during the profile.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilePackets {
    /// Interfaces that were counted.
    pub interfaces: Vec<String>,
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets by which CPU time is divided: `received`, or `sent` if almost none were received.
    pub divisor: String,
    /// Rate of these packets (packets/s).
    pub per_s: f64,
}

/// How samples were taken, and the cost of sampling.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// CPUs that were sampled.
    pub cpus: Vec<u32>,
    /// Length of the profile (s).
    pub seconds: f64,
    /// Number of time slices, from which confidence intervals are computed.
    pub slices: u64,
    /// Event that triggers samples: `cpu-clock`, or `cycles` with times from the CPU clock.
    pub event: String,
    /// Samples per second on each CPU.
    pub rate_hz: f64,
    /// Number of samples.
    pub samples: u64,
    /// Samples that the kernel lost because its buffer was full.
    pub lost: u64,
    /// CPU time of one sample in the kernel (s), by the kernel's own tracepoints; absent: see `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_s: Option<f64>,
    /// CPU time of the thread that reads the samples, as a share of one CPU.
    pub own_cpu: f64,
    /// Number of full function names of the table of stages that this kernel has.
    pub names_known: u64,
    /// Number of full function names in the table of stages.
    pub names: u64,
}

impl Sampled {
    /// Number of CPUs, at least 1, as a divisor.
    fn divisor(&self) -> f64 {
        self.cpus.len().max(1) as f64
    }

    /// Samples per second on each CPU, as taken: fewer than `rate_hz` if samples are missing.
    pub fn taken_hz(&self) -> f64 {
        self.samples as f64 / (self.seconds.max(1e-9) * self.divisor())
    }

    /// CPU time that sampling cost, as a share of the CPUs' time; `None`: the cost of a sample was not measured.
    pub fn overhead(&self) -> Option<f64> {
        Some(self.sample_s? * self.taken_hz() + self.own_cpu / self.divisor())
    }
}

/// Contention of one lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockRow {
    /// Kind: `spinlock`, `mutex`, `rwsem read`, ...
    pub kind: String,
    /// The function that takes the lock.
    pub function: String,
    /// Address of the lock, which distinguishes locks of one kind.
    pub address: String,
    /// Programs that waited for it, longest time first.
    pub waiters: Vec<String>,
    /// Number of waits.
    pub waits: u64,
    /// Total time waited (s).
    pub total_s: f64,
    /// Longest wait (s).
    pub longest_s: f64,
}

/// Lock contention, by the tracepoints lock:contention_begin and contention_end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockContention {
    /// The locks with the longest total waits.
    pub rows: Vec<LockRow>,
    /// Number of waits for all locks.
    pub waits: u64,
    /// Total time waited for all locks (s).
    pub total_s: f64,
    /// Events that the kernel lost because its buffer was full.
    pub lost: u64,
}

/// How the caution begins that gives the idle time in the stages ([`Profile::has_idle_in_stages`]).
pub const IDLE_IN_STAGES: &str = "Idle time is in the stages:";

/// The result of `netcliff profile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profile {
    /// Always `profile`.
    pub kind: String,
    /// Load that netcliff itself sent during the profile, in words; absent: the traffic was not netcliff's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Description of the host.
    pub host: HostSummary,
    /// How samples were taken, and the cost of sampling.
    pub sampled: Sampled,
    /// Packets counted during the profile.
    pub packets: ProfilePackets,
    /// CPU time per packet (s), sum of all counted stages; absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_packet_s: Option<Figure>,
    /// Stages that have samples, in the order of a received packet's path.
    pub stages: Vec<StageRow>,
    /// CPU time by class.
    pub classes: ProfileClasses,
    /// Programs, largest CPU time first.
    pub programs: Vec<ProgramRow>,
    /// CPU time of the same window by another meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<ProfileMeter>,
    /// Lock contention, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockContention>,
    /// Figures that could not be measured, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Reasons not to rely on this result, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Properties of host and software that explain a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// Version and settings of the run.
    pub provenance: Provenance,
    /// True: stopped before the requested time.
    pub partial: bool,
}

impl Profile {
    /// A stage's row; `None` if it has no samples.
    pub fn stage(&self, stage: Stage) -> Option<&StageRow> {
        self.stages.iter().find(|row| row.stage == stage)
    }

    /// CPU time that has no sample, as a share of one CPU and summed over the CPUs; 0 if samples are for all of it.
    pub fn without_samples(&self) -> f64 {
        (self.sampled.cpus.len() as f64 - self.classes.sum()).max(0.0)
    }

    /// True if a caution says that the stages include idle time: times per packet are then upper values.
    pub fn has_idle_in_stages(&self) -> bool {
        self.cautions.iter().any(|caution| caution.starts_with(IDLE_IN_STAGES))
    }

    /// Number of samples in the stages.
    pub fn samples_in_stages(&self) -> u64 {
        self.stages.iter().map(|row| row.samples).sum()
    }

    /// Share of the counted CPU time in functions that are not in the table of stages, and whose callers are not in it.
    pub fn unknown(&self) -> f64 {
        self.stage(Stage::Unknown).map_or(0.0, |row| row.share.value)
    }

    /// Share of the counted CPU time in functions whose stage is known only from their caller.
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
        let sampled = Sampled {
            cpus: vec![0, 1],
            seconds: 4.0,
            rate_hz: 1000.0,
            samples: 8000,
            sample_s: Some(3e-6),
            own_cpu: 0.004,
            ..Sampled::default()
        };
        assert!((sampled.overhead().unwrap() - 0.005).abs() < 1e-12);
        // Samples that were not taken cost nothing.
        let half = Sampled { samples: 4000, ..sampled.clone() };
        assert!((half.taken_hz() - 500.0).abs() < 1e-9);
        assert!((half.overhead().unwrap() - 0.0035).abs() < 1e-12);
        assert_eq!(Sampled { sample_s: None, ..sampled }.overhead(), None);
    }
}
