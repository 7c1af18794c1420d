//! Stands in for perf_event_open(2), which only Linux has.

use std::convert::Infallible;
use std::io;

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
    /// A CPU, whoever has it.
    Cpu(u32),
}

/// A counter; on this system none can be opened.
#[derive(Debug)]
pub struct Counter(Infallible);

impl Counter {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: Event, _: Of) -> io::Result<Self> {
        Err(netcliff_bsd::refused("perf_event_open"))
    }

    /// See Linux's.
    ///
    /// # Errors
    /// Never called.
    pub fn read(&self) -> io::Result<u64> {
        match self.0 {}
    }
}
