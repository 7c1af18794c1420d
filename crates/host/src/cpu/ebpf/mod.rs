//! Exact CPU accounting by eBPF programs at the kernel's transitions (bpf/cpu.bpf.c).
//!
//! Every nanosecond of a CPU belongs to one [`Class`]; classes exclude each other, so that their sum is the elapsed
//! time. [`EbpfMeter::snapshot`] reads all counters of the measured CPUs, including the class that runs at that time;
//! the difference of two [`Snapshot`]s is an [`Interval`].
//!
//! Not visible: the few dozen instructions between the hardware's interrupt and the kernel's tracepoint (they count for
//! what was interrupted), and time taken by the hypervisor (it counts for what was running; `steal` is reported in
//! addition). If no heartbeat came for longer than any work takes, [`crate::cpu::heartbeat`] reports that time as a
//! pause.

mod snapshot;

#[cfg(not(have_bpf))]
mod absent;
#[cfg(have_bpf)]
mod load;
#[cfg(have_bpf)]
mod meter;
#[cfg(have_bpf)]
mod overhead;

#[cfg(not(have_bpf))]
pub use absent::EbpfMeter;
#[cfg(have_bpf)]
pub use meter::EbpfMeter;
pub use snapshot::{Class, CpuInterval, CpuSnapshot, Figures, Interval, Snapshot};

use serde::{Deserialize, Serialize};

/// CPU time of the programs, from the kernel's run time statistics. It includes one clock reading per run that only the
/// statistics need, but not the tracepoint's call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Mean over all runs (ns).
    pub ns_per_event: f64,
    /// Per task switch (ns).
    pub switch_ns: f64,
    /// Per softirq, entry and exit (ns).
    pub softirq_ns: f64,
    /// Per hard interrupt, entry and exit (ns).
    pub interrupt_ns: f64,
    /// Per NAPI poll (ns).
    pub poll_ns: f64,
    /// Number of runs.
    pub runs: u64,
}

#[cfg(test)]
mod tests;
