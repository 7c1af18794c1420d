//! Counters and samples of perf_event_open(2).

#[cfg(target_os = "linux")]
mod attributes;
#[cfg_attr(not(target_os = "linux"), path = "not_linux/counter.rs")]
mod counter;
mod record;
#[cfg_attr(not(target_os = "linux"), path = "not_linux/sampler.rs")]
mod sampler;
pub mod tracepoint;

pub use counter::Counter;
pub use record::{Fields, Mode, Record, Sample};
pub use sampler::{Every, Sampler};

/// What is counted or sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The CPU's own: PERF_COUNT_HW_*.
    Hardware(u64),
    /// Nanoseconds of a CPU's time, idle or not: PERF_COUNT_SW_CPU_CLOCK.
    CpuClock,
    /// A tracepoint by its number in tracefs.
    Tracepoint(u64),
}

/// Of whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The thread that opens it, on any CPU.
    Thread,
    /// Another thread of this host, by its number, on any CPU.
    Another(u32),
    /// All that runs on a CPU.
    Cpu(usize),
}

/// CLOCK_MONOTONIC (ns), the clock of samples.
pub fn now_ns() -> u64 {
    crate::cpu::util::monotonic_ns()
}
