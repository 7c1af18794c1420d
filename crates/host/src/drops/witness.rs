//! A second count at skb:kfree_skb, of the drops while a thread of process 1 has the CPU.
//!
//! There are kernels that run no tracing program while process 1 has the CPU (docs/accuracy.md, "Packets accounted
//! for"), without counting that as recursion_misses. What a softirq drops in this time is in no map, but perf counts
//! it. Only that time is counted: a count of all drops costs each of them most of a microsecond, this one next to
//! nothing: perf's probe returns where no event of this CPU is active (include/trace/perf.h, `hlist_empty(head)`).

use crate::perf::{Counter, Event, Of, tracepoint};
use crate::process::other_pid_namespace;
use crate::procfs;
use std::io;

/// Counts the drops of each thread of process 1.
#[derive(Debug)]
pub(super) struct Witness(Vec<Counter>);

impl Witness {
    /// Counts from now on.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub(super) fn start() -> Result<Self, String> {
        let number = tracepoint::number("skb/kfree_skb")
            .map_err(|error| format!("tracefs does not tell the number of skb:kfree_skb: {error}"))?;
        let threads = threads().map_err(|why| format!("the threads of process 1 are not known: {why}"))?;
        let open = |thread: u32| Counter::open(Event::Tracepoint(number), Of::Another(thread));
        let all: io::Result<Vec<Counter>> = threads.into_iter().map(open).collect();
        all.map(Self).map_err(|error| format!("perf does not count skb:kfree_skb of process 1: {error}"))
    }

    /// Drops while process 1 had a CPU, until now; None: a counter cannot be read.
    pub(super) fn read(&self) -> Option<u64> {
        self.0.iter().map(|counter| counter.read().ok()).sum()
    }
}

/// Of the process that the tracer's program knows as 1.
fn threads() -> Result<Vec<u32>, String> {
    if other_pid_namespace().is_some() {
        return Err("this is a container with a process 1 of its own".to_owned());
    }
    let threads: Vec<u32> = procfs::numbered("/proc/1/task", "").into_iter().map(|(number, _)| number).collect();
    if threads.is_empty() { Err("/proc/1/task cannot be read".to_owned()) } else { Ok(threads) }
}
