//! A second count at skb:kfree_skb: perf counts each drop, also where the kernel does not run the tracer's program.
//!
//! There are kernels that run no tracing program while a certain process has the CPU (docs/results/2026-11-25-ledger), without counting that as
//! recursion_misses. What a softirq drops in this time is in no map. The count costs each drop of the host time, which is why only trials of a
//! ledger have it.

#[cfg_attr(not(target_os = "linux"), path = "../not_linux/tracefs.rs")]
mod tracefs;

use crate::cpu::util::online_cpus;
use crate::perf::{Counter, Event, Of};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;

/// Where tracefs may be mounted. Sources: Documentation/trace/ftrace.rst.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const NUMBER: &str = "events/skb/kfree_skb/id";

/// Counts the drops of each CPU.
#[derive(Debug)]
pub(super) struct Witness(Vec<Counter>);

impl Witness {
    /// Counts from now on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub(super) fn start() -> Result<Self, String> {
        let number = number().map_err(|error| format!("tracefs does not tell the number of skb:kfree_skb: {error}"))?;
        let open = |cpu: usize| Counter::open(Event::Tracepoint(number), Of::Cpu(cpu as u32));
        let all: io::Result<Vec<Counter>> = online_cpus().into_iter().map(open).collect();
        all.map(Self).map_err(|error| format!("perf does not count skb:kfree_skb: {error}"))
    }

    /// Drops of this host until now; None: a counter cannot be read.
    pub(super) fn read(&self) -> Option<u64> {
        self.0.iter().map(|counter| counter.read().ok()).sum()
    }
}

fn number() -> io::Result<u64> {
    let read = |root: &str| fs::read_to_string(format!("{root}/{NUMBER}"));
    let text = match MOUNTED.iter().find_map(|root| read(root).ok()) {
        Some(text) => text,
        None => {
            let mount = tracefs::unseen_mount()?;
            read(&format!("/proc/thread-self/fd/{}", mount.as_raw_fd()))?
        }
    };
    text.trim().parse().map_err(|_| io::Error::other(format!("{NUMBER} is {:?}, not a number", text.trim())))
}
