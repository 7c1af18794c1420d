//! The CPUs of both ends' hosts over the repeats of a test, by ticks and exactly, with the methods.

use netcliff_core::cpus::{CpuRow, ExactRow};
use netcliff_host::cpu::CpuSplit;
use netcliff_host::cpu::system::SystemShares;

/// How a figure was measured, under the name of its figures in JSON.
type Method = (&'static str, &'static str);

/// The near end's host by ticks.
pub const SYSTEM: Method = ("system", "/proc/stat: sampled by the timer tick");
/// The far end's.
pub const FAR_SYSTEM: Method = ("far system", "the far host's /proc/stat over its own windows, a round trip apart");
/// The near end's host exactly.
pub const EXACT: Method = ("exact", "eBPF at the kernel's transitions: exclusive of each other");
/// The far end's.
pub const FAR_EXACT: Method = ("far exact", "eBPF on the far host, over its own windows; the application is the agent");

/// A method as a report has it.
pub fn told((name, method): Method) -> (String, String) {
    (name.to_owned(), method.to_owned())
}

/// The CPUs of one host: medians over its repeats, whose shares these are.
pub fn by_ticks<'a>(shares: impl Iterator<Item = &'a SystemShares>) -> Vec<CpuRow> {
    CpuRow::medians(shares.map(SystemShares::row))
}

/// The same by the exact meter.
pub fn exactly<'a>(splits: impl Iterator<Item = &'a CpuSplit>) -> Vec<ExactRow> {
    ExactRow::medians(splits.map(exact))
}

fn exact(split: &CpuSplit) -> ExactRow {
    let known = |share: Option<f64>| share.unwrap_or(0.0);
    let shares = &split.shares;
    ExactRow {
        cpu: split.cpu,
        application: known(shares.application),
        softirq: known(shares.protocol) + known(shares.transmit) + known(shares.softirq_other),
        interrupt: known(shares.interrupt),
        other: known(shares.other) + known(shares.ksoftirqd) + known(shares.unaccounted),
        idle: known(shares.idle),
        overhead: known(split.overhead_share),
    }
}
