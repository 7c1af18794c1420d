//! `netcliff profile`: where the time of a packet goes, by stage of its path, from samples of the traffic that runs. It sends nothing.
//!
//! | module | holds |
//! | --- | --- |
//! | [`table`] | which stage a kernel function belongs to (`stages.txt`) |
//! | [`account`](mod@account) | stacks by name as CPU time a packet and stage; folded stacks |
//! | [`taking`] | takes samples and counters from this host |
//! | [`weights`] | samples of two events as CPU time |
//! | [`cost`] | what a sample costs |
//! | [`locks`] | who waits for which lock |
//!
//! # Why the ring of perf events, and the kernel's own symbols
//!
//! Samples come through the ring buffer of perf_event_open(2) with the kernel's call chain, not through a BPF program with a map of stacks: the
//! ring needs no compiler, no BTF and no right to load programs, it works in builds without eBPF, and at 999 samples a second on each CPU the
//! kernel writes a quarter of a MB/s a CPU, which one look every `LOOK` takes out. A map in the kernel would save that copy, and would cost
//! the times of the samples, over which intervals are computed. Functions are named from /proc/kallsyms, which is all that a stack of
//! the kernel has; a library that reads debug information (blazesym) would name lines of programs, which the account does not ask for.

pub mod account;
pub mod cost;
pub mod locks;
pub mod table;
pub mod taking;
pub mod weights;

pub use account::{account, folded};
pub use taking::{Options, ProfileError, Progress, profile};
