//! How the time of a CPU is spent, measured by one of three methods.
//!
//! | method | measures | resolution | overhead |
//! | --- | --- | --- | --- |
//! | [`Method::Ebpf`] | every class, exclusive of each other; polls and packets | nanoseconds | some tens of ns an event, measured and reported |
//! | [`Method::Procfs`] | classes as the timer tick saw them; softirq and IPI counts | 1/HZ samples, printed in 1/USER_HZ | nothing |
//! | [`Method::Soaker`] | only what is left over for others | its iteration rate, with batch means | the CPU never idles |
//!
//! Where to start: [`choose`] selects the best method that works here, and reports why better ones do not; [`CpuMeter`]
//! is their common interface; [`CpuSplit`] is the result, which names its method. [`ebpf::EbpfMeter`] also gives the
//! table of poll durations by packets that calibration uses.

mod choose;
pub mod ebpf;
pub mod heartbeat;
mod kernel_counts;
pub mod procfs;
pub mod soaker;
pub mod system;
mod types;
pub(crate) mod util;

pub use choose::{Choice, Preference, choose};
pub use types::{
    Counters, CpuMeter, CpuSplit, Estimate, MeterError, MeterSpec, Method, PollCell, PollKind, PollTable, Reception,
    Shares, Watch,
};

#[cfg(test)]
mod tests;
