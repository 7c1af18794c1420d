//! Counters and samples of perf_event_open(2).

#[cfg(target_os = "linux")]
mod attributes;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the sampler, which is Linux's, reads records"))]
mod record;
#[cfg(target_os = "linux")]
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

#[cfg(target_os = "linux")]
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

#[cfg(not(target_os = "linux"))]
mod counter {
    //! Stands in for perf_event_open(2), which only Linux has.

    use std::convert::Infallible;
    use std::io;

    use super::{Event, Of};

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
}

#[cfg(not(target_os = "linux"))]
mod sampler {
    //! Stands in for samples of perf_event_open(2), which only Linux has.

    use std::convert::Infallible;
    use std::io;

    use super::{Event, Fields, Record};

    /// See Linux's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Every {
        /// See Linux's.
        Events(u64),
        /// See Linux's.
        Hertz(u64),
    }

    /// A sampler; on this system none can be opened.
    #[derive(Debug)]
    pub struct Sampler(Infallible);

    impl Sampler {
        /// Fails.
        ///
        /// # Errors
        /// Always.
        pub fn open(_: Event, _: Every, _: &[usize], _: Fields) -> io::Result<Self> {
            Err(netcliff_bsd::refused("perf_event_open"))
        }

        /// See Linux's.
        ///
        /// # Errors
        /// Never called.
        pub fn start(&self) -> io::Result<()> {
            match self.0 {}
        }

        /// See Linux's.
        ///
        /// # Errors
        /// Never called.
        pub fn stop(&self) -> io::Result<()> {
            match self.0 {}
        }

        /// See Linux's.
        ///
        /// # Errors
        /// Never called.
        pub fn set_period(&self, _: u64) -> io::Result<()> {
            match self.0 {}
        }

        /// See Linux's.
        pub fn drain(&mut self, _: impl FnMut(usize, Record)) {
            match self.0 {}
        }
    }
}
