//! Exact CPU accounting by eBPF programs at the kernel's transitions (bpf/cpu.bpf.c).
//!
//! Every nanosecond of a CPU belongs to one [`Class`]; the classes are exclusive, so their sum is the wall
//! time. [`EbpfMeter::snapshot`] reads all counters of the measured CPUs, with the class that runs
//! at that moment closed off; the difference of two [`Snapshot`]s is an [`Interval`].
//!
//! What it cannot see: the few dozen instructions between the hardware's interrupt and the kernel's
//! tracepoint (they count for what was interrupted), and time the hypervisor took (it counts for what
//! was running; `steal` is reported alongside). Where no heartbeat came for longer than any work takes,
//! [`crate::cpu::heartbeat`] reports the time between as a pause.

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

/// What the programs themselves cost, from the kernel's run time statistics. It contains one clock
/// reading a run that only the statistics need, and not the tracepoint's own call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Mean over all runs of the measurement (ns).
    pub ns_per_event: f64,
    /// One task switch (ns).
    pub switch_ns: f64,
    /// One softirq, entry and exit (ns).
    pub softirq_ns: f64,
    /// One hard interrupt, entry and exit (ns).
    pub interrupt_ns: f64,
    /// One NAPI poll (ns).
    pub poll_ns: f64,
    /// Runs the means are over.
    pub runs: u64,
}

#[cfg(test)]
mod tests;
