//! Counters and samples of perf_event_open(2).

mod attributes;
mod record;
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

mod counter {
    //! A counter of perf_event_open(2).

    use std::fs::File;
    use std::io::{self, Read as _};

    use super::attributes::Attributes;
    use super::{Event, Of};

    /// A counter that counts until it is dropped.
    #[derive(Debug)]
    pub struct Counter(File);

    impl Counter {
        /// Counts from now on.
        ///
        /// # Errors
        /// The kernel has no such counter, or the right is missing.
        pub fn open(event: Event, of: Of) -> io::Result<Self> {
            Attributes::of(event).open(of).map(Self)
        }

        /// How many until now.
        ///
        /// # Errors
        /// The kernel's.
        pub fn read(&self) -> io::Result<u64> {
            let mut bytes = [0; 8];
            (&self.0).read_exact(&mut bytes)?;
            Ok(u64::from_ne_bytes(bytes))
        }
    }
}
