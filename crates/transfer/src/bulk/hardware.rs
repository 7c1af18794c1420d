//! Hardware counters of a thread: cycles and instructions, in user and kernel mode.

use std::io;

use netcliff_host::perf::{Counter, Event, Of};
use serde::{Deserialize, Serialize};

/// Hardware counts of a thread, over its measured windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// Number of CPU cycles.
    pub cycles: u64,
    /// Number of instructions.
    pub instructions: u64,
}

impl Hardware {
    /// The counts between `earlier` and `self`.
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

const CPU_CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;

/// Hardware counters of the thread that opened them.
#[derive(Debug)]
pub(crate) struct Counters {
    cycles: Counter,
    instructions: Counter,
}

impl Counters {
    /// Opens the counters for the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let open = |which| Counter::open(Event::Hardware(which), Of::Thread);
        Ok(Self { cycles: open(CPU_CYCLES)?, instructions: open(INSTRUCTIONS)? })
    }

    pub(crate) fn read(&self) -> io::Result<Hardware> {
        Ok(Hardware { cycles: self.cycles.read()?, instructions: self.instructions.read()? })
    }
}

/// Explains why this thread has no hardware counters. `None` if it has them.
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
