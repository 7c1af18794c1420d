//! The CPU's own counters of a thread: cycles and instructions, in user and kernel mode.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

use serde::{Deserialize, Serialize};

/// What a thread has used over its windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// CPU cycles.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
}

impl Hardware {
    /// Used between `earlier` and `self`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            cycles: self.cycles.saturating_sub(earlier.cycles),
            instructions: self.instructions.saturating_sub(earlier.instructions),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, instructions: self.instructions + other.instructions }
    }
}

/// `perf_event_attr` as far as its first version goes (PERF_ATTR_SIZE_VER0, 64 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_kind: u32,
    config1: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
/// Closed by exec.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Counters of the thread that opened them.
#[derive(Debug)]
pub(crate) struct Counters {
    cycles: File,
    instructions: File,
}

impl Counters {
    /// Opens them for the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { cycles: open(CPU_CYCLES)?, instructions: open(INSTRUCTIONS)? })
    }

    pub(crate) fn read(&self) -> io::Result<Hardware> {
        Ok(Hardware { cycles: count(&self.cycles)?, instructions: count(&self.instructions)? })
    }
}

fn open(config: u64) -> io::Result<File> {
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes { kind: PERF_TYPE_HARDWARE, size, config, ..Attributes::default() };
    // SAFETY: the attributes are of the size they state and outlive the call; 0 and -1 are this thread on any CPU, -1 no group.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor the kernel has just given to us alone.
    Ok(unsafe { File::from_raw_fd(fd as libc::c_int) })
}

fn count(mut counter: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    counter.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Why this thread has no such counters, in words; None where it has.
pub fn refusal() -> Option<String> {
    let error = Counters::open().err()?;
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this CPU, or the hypervisor below, has no performance counters"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "counting the kernel needs kernel.perf_event_paranoid of at most 1, or CAP_PERFMON"
        }
        _ => "perf_event_open refused",
    };
    Some(format!("cycles and instructions: not available: {hint} ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_count_or_say_why_not() {
        let Ok(counters) = Counters::open() else {
            let why = refusal().expect("it was refused");
            assert!(why.contains("not available") && why.contains("os error"), "{why}");
            return;
        };
        let from = counters.read().expect("they are open");
        let sum: u64 = std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum());
        let used = counters.read().expect("they are open").since(from);
        assert!(sum > 0 && used.instructions > 100_000 && used.cycles > 0, "{used:?}");
    }
}
