//! Counters of perf_event_open(2).

#[cfg_attr(not(target_os = "linux"), path = "not_linux/counter.rs")]
mod counter;

pub use counter::Counter;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The CPU's own: PERF_COUNT_HW_*.
    Hardware(u64),
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
}
