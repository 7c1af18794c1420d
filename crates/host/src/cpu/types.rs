//! Input and output of all meters.

use super::heartbeat::Heartbeat;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How CPU time was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// eBPF programs at the kernel's own transitions: exact and exclusive.
    Ebpf,
    /// The kernel's counters in procfs: sampled by the timer tick.
    Procfs,
    /// A SCHED_IDLE thread that uses the remaining time.
    Soaker,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ebpf => "ebpf",
            Self::Procfs => "procfs",
            Self::Soaker => "soaker",
        })
    }
}

impl std::str::FromStr for Method {
    type Err = MeterError;

    fn from_str(text: &str) -> Result<Self, MeterError> {
        match text {
            "ebpf" => Ok(Self::Ebpf),
            "procfs" => Ok(Self::Procfs),
            "soaker" => Ok(Self::Soaker),
            other => Err(MeterError::UnknownMethod(other.to_owned())),
        }
    }
}

/// Why CPU time could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// The method does not work on this machine or in this build.
    #[error("CPU accounting by {method} is not available: {reason}")]
    Unavailable {
        /// The requested method.
        method: Method,
        /// What is missing, and the remedy if there is one.
        reason: String,
    },
    /// A CPU that is not online (or has a number beyond the method's limit).
    #[error("CPU {cpu} cannot be measured: online CPUs are {online}")]
    NoSuchCpu {
        /// The requested number.
        cpu: usize,
        /// The online CPUs, in the kernel's list format.
        online: String,
    },
    /// No CPU was named.
    #[error("no CPU to measure was named: give at least one CPU number")]
    NoCpu,
    /// A watched process or thread that does not exist.
    #[error("{watch} cannot be watched: it does not exist (any more)")]
    NoSuchTask {
        /// The process or thread.
        watch: Watch,
    },
    /// The name of a method that does not exist.
    #[error("`{0}` is not a method of CPU accounting: give ebpf, procfs or soaker")]
    UnknownMethod(String),
    /// Reading failed after the meter had started.
    #[error("reading {what} failed")]
    Read {
        /// The file or call.
        what: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A kernel file without its documented form.
    #[error("{file} has an unexpected form: {detail}")]
    Form {
        /// The file.
        file: String,
        /// The difference from the documented form.
        detail: String,
    },
}

/// Tasks whose time counts as the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Watch {
    /// All threads of a process, by process id.
    Process(u32),
    /// One thread, by thread id.
    Thread(u32),
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Thread(tid) => write!(f, "thread {tid}"),
        }
    }
}

/// CPUs and tasks to measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterSpec {
    /// The CPUs, by number; at least one.
    pub cpus: Vec<usize>,
    /// Tasks whose time counts as the application's; may be empty.
    pub watch: Vec<Watch>,
}

/// Shares of one CPU's elapsed time in the interval, each 0 to 1; `None` if the method cannot measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// Hard interrupts: devices, timer, IPIs.
    pub interrupt: Option<f64>,
    /// Part of `interrupt` in the handlers of devices.
    #[serde(default)]
    pub device_interrupt: Option<f64>,
    /// Receive processing: NET_RX softirqs and NAPI threads. By procfs: all softirqs.
    pub protocol: Option<f64>,
    /// NET_TX softirqs.
    pub transmit: Option<f64>,
    /// Other softirqs (timers, RCU, scheduler).
    pub softirq_other: Option<f64>,
    /// The watched tasks. By eBPF without what interrupted them; by procfs an upper bound.
    pub application: Option<f64>,
    /// The ksoftirqd thread outside softirqs: the cost of handing work to it.
    pub ksoftirqd: Option<f64>,
    /// All other tasks.
    pub other: Option<f64>,
    /// Idle time.
    pub idle: Option<f64>,
    /// Time before the first transition was seen on the CPU.
    pub unaccounted: Option<f64>,
    /// Taken by the hypervisor, from /proc/stat in steps of 10 ms. It overlaps the other shares.
    pub steal: Option<f64>,
    /// Time that another program could have used: idle time, or the soaker's share.
    pub available: Option<f64>,
}

impl Shares {
    /// The sum of the exclusive classes (all but `device_interrupt`, `steal` and `available`).
    pub fn sum(&self) -> f64 {
        [
            self.interrupt,
            self.protocol,
            self.transmit,
            self.softirq_other,
            self.application,
            self.ksoftirqd,
            self.other,
            self.idle,
            self.unaccounted,
        ]
        .into_iter()
        .flatten()
        .sum()
    }
}

/// Counts of events on one CPU in the interval; `None` if the method cannot measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// NAPI polls (per-CPU backlog and devices) that ran on this CPU.
    pub polls: Option<u64>,
    /// Packets processed by these polls. A packet moved by RPS is polled on both CPUs.
    pub packets: Option<u64>,
    /// Polls of the per-CPU backlog (loopback, veth, RPS).
    pub backlog_polls: Option<u64>,
    /// Packets processed by these polls.
    pub backlog_packets: Option<u64>,
    /// Polls that found no packets.
    pub empty_polls: Option<u64>,
    /// Polls that processed their whole weight.
    pub full_polls: Option<u64>,
    /// NET_RX softirqs.
    pub softirqs: Option<u64>,
    /// NET_RX softirqs run at the end of an interrupt or by the idle task.
    pub softirqs_from_irq: Option<u64>,
    /// NET_RX softirqs run by ksoftirqd.
    pub softirqs_from_ksoftirqd: Option<u64>,
    /// NET_RX softirqs run by a task when it left a section with softirqs disabled. They are distinguished from
    /// `softirqs_from_irq` by the time since the last interrupt (2 us).
    pub softirqs_from_process: Option<u64>,
    /// Inter-processor interrupts: function calls and reschedules.
    pub ipis: Option<u64>,
    /// Device interrupts.
    pub device_interrupts: Option<u64>,
    /// Local timer interrupts.
    pub timer_interrupts: Option<u64>,
    /// Task switches to a watched task.
    pub application_switches: Option<u64>,
    /// Those of them before which the CPU was idle since a watched task last had it.
    pub application_wakes: Option<u64>,
    /// Task switches to ksoftirqd.
    pub ksoftirqd_switches: Option<u64>,
    /// softnet_stat: packets that entered the protocol stack.
    pub softnet_processed: Option<u64>,
    /// softnet_stat: packets dropped because the backlog was full.
    pub softnet_dropped: Option<u64>,
    /// softnet_stat: NET_RX softirqs that stopped with work left (budget or time exhausted).
    pub time_squeezes: Option<u64>,
    /// softnet_stat: IPIs received from RPS on another CPU.
    pub rps_ipis: Option<u64>,
}

/// Events of the queue from which packets are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// Polls.
    pub polls: u64,
    /// Packets they processed.
    pub packets: u64,
    /// Interrupts that announced packets.
    pub interrupts: u64,
}

impl Counters {
    /// Events of the per-CPU backlog if most packets go through it, otherwise of devices. `None` if the method cannot
    /// measure them.
    pub fn reception(&self) -> Option<Reception> {
        let backlog = Reception { polls: self.backlog_polls?, packets: self.backlog_packets?, interrupts: self.ipis? };
        // With RPS on one CPU a packet is polled twice: at the device, and at the backlog.
        let packets = self.packets?.saturating_sub(backlog.packets);
        if 2 * backlog.packets >= packets {
            return Some(backlog);
        }
        let interrupts = backlog.interrupts + self.device_interrupts.unwrap_or(0);
        Some(Reception { polls: self.polls?.saturating_sub(backlog.polls), packets, interrupts })
    }
}

/// A sampled value: its mean and the half width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval; `None` with fewer than two batches.
    pub half_width: Option<f64>,
    /// The confidence, for example 0.95.
    pub confidence: f64,
    /// Number of batches.
    pub batches: usize,
}

/// Position of a poll in its softirq, which determines what the time since the previous event includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PollKind {
    /// First poll of a NET_RX softirq that found the CPU idle: includes entry and cold caches.
    FirstFromIdle,
    /// First poll of a NET_RX softirq that interrupted or followed a task.
    FirstFromBusy,
    /// A later poll of the same softirq.
    Next,
    /// A poll in a NAPI thread.
    Threaded,
}

impl PollKind {
    /// All kinds, in the order of the programs' table.
    pub const ALL: [Self; 4] = [Self::FirstFromIdle, Self::FirstFromBusy, Self::Next, Self::Threaded];
}

/// All polls of one kind with the same number of packets (above 64: with a number in one range).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollCell {
    /// Position of the polls in their softirqs.
    pub kind: PollKind,
    /// Fewest packets of a poll in this cell.
    pub work_low: u32,
    /// Most packets of a poll; equal to `work_low` up to 64. `None` if there is no upper limit.
    pub work_high: Option<u32>,
    /// Number of polls.
    pub polls: u64,
    /// Total number of packets.
    pub packets: u64,
    /// Total time (s), without interrupts during the polls.
    pub total_s: f64,
    /// Sum of the squared times (s^2), for the variance.
    pub total_squared_s2: f64,
}

/// Durations of polls, by packets processed, without empty cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PollTable {
    /// The cells with polls.
    pub cells: Vec<PollCell>,
    /// Time in NET_RX softirqs after their last poll (s).
    pub tail_s: f64,
    /// Polls in which a driver passed a packet of its ring to GRO.
    #[serde(default)]
    pub looks: u64,
    /// Total time from the start of the polls in `looks` to their first packet (s), without interrupts.
    #[serde(default)]
    pub look_s: f64,
    /// Number of the polls in `looks` with a device interrupt before their first packet.
    #[serde(default)]
    pub hit_looks: u64,
    /// Total time from the start of the polls in `hit_looks` to their first packet (s), without the interrupt handlers.
    #[serde(default)]
    pub hit_look_s: f64,
    /// Device interrupts during `hit_look_s`.
    #[serde(default)]
    pub look_hits: u64,
    /// Device interrupts that interrupted the watched task.
    #[serde(default)]
    pub hit_application: u64,
    /// Device interrupts that interrupted a NET_RX softirq.
    #[serde(default)]
    pub hit_softirqs: u64,
}

impl PollTable {
    /// Polls by packets in power-of-two buckets: index 0 counts empty polls, index i the polls of
    /// 2^(i-1) to 2^i - 1 packets; the last bucket (index 9) is 256 and more.
    pub fn histogram_log2(&self) -> [u64; 10] {
        let mut buckets = [0; 10];
        for cell in &self.cells {
            let bucket = (32 - cell.work_low.leading_zeros()).min(9);
            // Each cell lies in one bucket: the cell of 65..=127 packets, for example, in the bucket of 64..=127, with
            // the cell of 64.
            buckets[bucket as usize] += cell.polls;
        }
        buckets
    }

    /// One cell for all polls of a kind, for a message of limited length. Keeps the total numbers and times.
    #[must_use]
    pub fn by_kind(self) -> Self {
        let sum = |kind: PollKind| {
            let cells = self.cells.iter().filter(|cell| cell.kind == kind).copied();
            cells.reduce(|sum, cell| PollCell {
                kind,
                work_low: sum.work_low.min(cell.work_low),
                work_high: sum.work_high.zip(cell.work_high).map(|(one, other)| one.max(other)),
                polls: sum.polls + cell.polls,
                packets: sum.packets + cell.packets,
                total_s: sum.total_s + cell.total_s,
                total_squared_s2: sum.total_squared_s2 + cell.total_squared_s2,
            })
        };
        Self { cells: PollKind::ALL.into_iter().filter_map(sum).collect(), ..self }
    }
}

/// Activity of one CPU between two marks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSplit {
    /// The CPU.
    pub cpu: usize,
    /// How this was measured.
    pub method: Method,
    /// Length of the interval (s).
    pub elapsed_s: f64,
    /// Shares of the CPU.
    pub shares: Shares,
    /// Estimate of `shares.available` with its confidence interval if it was sampled (by the soaker).
    pub available: Option<Estimate>,
    /// Counts.
    pub counters: Counters,
    /// Smallest difference of a share that can be detected in this interval.
    pub resolution_share: f64,
    /// Share of this CPU used by the meter itself; included in the other shares. `None` if it was not measured.
    pub overhead_share: Option<f64>,
    /// Poll durations; `None` if the method does not measure them.
    pub polls: Option<PollTable>,
    /// What a reader must know for a correct interpretation; complete sentences.
    pub notes: Vec<String>,
}

/// A running CPU meter. It is started by its constructor (or [`super::choose`]) and stops on drop.
pub trait CpuMeter: Send {
    /// Its method.
    fn method(&self) -> Method;

    /// Counts one more task as the application, and starts a new interval.
    ///
    /// # Errors
    /// The task does not exist, or the mark fails.
    fn watch(&mut self, watch: Watch) -> Result<(), MeterError>;

    /// Starts a new interval.
    ///
    /// # Errors
    /// A kernel file could not be read.
    fn mark(&mut self) -> Result<(), MeterError>;

    /// Activity of each CPU since the last [`CpuMeter::mark`] (or the start), in the order of the specification. The
    /// mark does not change.
    ///
    /// # Errors
    /// A kernel file could not be read.
    fn read(&mut self) -> Result<Vec<CpuSplit>, MeterError>;

    /// The heartbeat for threads on `cpu`, which shows pauses of the CPU; `None` if this method cannot distinguish
    /// pauses from the time of other tasks and softirqs.
    fn heartbeat(&self, _cpu: usize) -> Option<Heartbeat> {
        None
    }
}
