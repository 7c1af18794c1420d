//! Events of perf_event_open(2): what is counted, for which thread or CPU, and a counter.

use std::fs::File;
use std::io::{self, Read as _};

/// What is counted or sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A hardware event of the CPU: PERF_COUNT_HW_*.
    Hardware(u64),
    /// Nanoseconds of a CPU's time, idle or not: PERF_COUNT_SW_CPU_CLOCK.
    CpuClock,
    /// A tracepoint by its number in tracefs.
    Tracepoint(u64),
}

/// The thread or CPU whose events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The thread that opens the event, on any CPU.
    Thread,
    /// Another thread of this host, by its number, on any CPU.
    Another(u32),
    /// Everything that runs on a CPU.
    Cpu(usize),
}

/// `perf_event_attr` up to PERF_ATTR_SIZE_VER3 (96 bytes, Linux 4.1).
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    /// Events between two samples; samples per second with `FREQUENCY`.
    pub period: u64,
    pub sample_type: u64,
    read_format: u64,
    pub flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    pub clock: i32,
}

impl Attributes {
    pub(super) fn of(event: Event) -> Self {
        // PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE (PERF_COUNT_SW_CPU_CLOCK is 0), PERF_TYPE_TRACEPOINT
        let (kind, config) = match event {
            Event::Hardware(config) => (0, config),
            Event::CpuClock => (1, 0),
            Event::Tracepoint(config) => (2, config),
        };
        Self { kind, config, size: size_of::<Self>() as u32, ..Self::default() }
    }

    /// # Errors
    /// The kernel refuses the call.
    pub(super) fn open(&self, of: Of) -> io::Result<File> {
        let (thread, cpu) = match of {
            Of::Thread => (0, -1),
            Of::Another(number) => (number as libc::pid_t, -1),
            Of::Cpu(cpu) => (-1, cpu as libc::c_int),
        };
        // SAFETY: the attributes are of the size they state.
        unsafe { crate::system::open_perf_event(self, thread, cpu) }.map(File::from)
    }
}

/// A counter that counts until it is dropped.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Opens a counter and starts it.
    ///
    /// # Errors
    /// The kernel has no such event, or the right is missing.
    pub fn open(event: Event, of: Of) -> io::Result<Self> {
        Attributes::of(event).open(of).map(Self)
    }

    /// Number of events so far.
    ///
    /// # Errors
    /// The kernel refuses the read.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.0).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
