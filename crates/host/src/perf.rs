//! Counters and samples of perf_event_open(2).

mod event;
mod record;
mod sampler;

pub use event::{Counter, Event, Of};
pub use record::{Fields, Mode, Record, Sample};
pub use sampler::{Every, Sampler};

/// CLOCK_MONOTONIC (ns), the clock of samples.
pub fn now_ns() -> u64 {
    crate::cpu::util::monotonic_ns()
}

pub mod tracepoint {
    //! Looks up tracepoints by name: their numbers for perf_event_open(2), from tracefs, mounted or not.

    use std::os::fd::AsRawFd as _;
    use std::{fs, io};

    /// Usual mount points of tracefs. Sources: Documentation/trace/ftrace.rst.
    const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

    /// The number of a tracepoint, named `group/event`.
    ///
    /// # Errors
    /// tracefs cannot be read, or the kernel has no such tracepoint.
    pub fn number(name: &str) -> io::Result<u64> {
        let file = format!("events/{name}/id");
        let text = read(&file)?;
        text.trim().parse().map_err(|_| io::Error::other(format!("{file} is {:?}, not a number", text.trim())))
    }

    fn read(file: &str) -> io::Result<String> {
        if let Some(text) = MOUNTED.iter().find_map(|root| fs::read_to_string(format!("{root}/{file}")).ok()) {
            return Ok(text);
        }
        let mount = crate::system::unseen_tracefs()?;
        fs::read_to_string(format!("/proc/thread-self/fd/{}/{file}", mount.as_raw_fd()))
    }
}
