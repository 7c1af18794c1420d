//! `netcliff profile`: CPU time per packet by stage of its path, from samples while the host's own traffic runs. It
//! sends no packets.
//!
//! | module | contents |
//! | --- | --- |
//! | [`table`] | which stage a kernel function belongs to (`stages.txt`) |
//! | [`account`](mod@account) | CPU time per packet and stage, from stacks with names; folded stacks |
//! | [`taking`] | takes samples and counters from this host |
//! | [`weights`] | samples of two events as CPU time |
//! | [`cost`] | what a sample costs |
//! | [`locks`] | tasks and softirqs that wait for locks |
//!
//! # Why the ring of perf events, and the kernel's own symbols
//!
//! Samples are read from the ring buffer of perf_event_open(2) with the kernel's call chain, not from a BPF program
//! with a map of stacks. The ring needs no compiler, no BTF and no permission to load programs, and it works in builds
//! without eBPF. At 999 samples per second the kernel writes a quarter of a MB/s per CPU, which is read every `LOOK`
//! (50 ms). A map in the kernel would avoid this copy, but would lose the times of the samples, which the intervals
//! need. Functions are named from /proc/kallsyms, which suffices for the kernel's stacks; a library that reads debug
//! information (blazesym) would also name lines of programs, which the account does not need.

pub mod account;
pub mod cost;
pub mod locks;
pub mod table;
pub mod taking;
pub mod weights;

pub use account::{account, folded};
pub use taking::{Options, ProfileError, Progress, profile};
