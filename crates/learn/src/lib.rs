//! `netcliff learn`: estimates the cliff of a host in production, and how far its load is from the cliff, from the
//! host's own traffic. It only observes and sends no packets.
//!
//! | module | contents |
//! | --- | --- |
//! | [`slice`](mod@slice) | observations as plain data: time slices, packet counts, fill levels of sockets |
//! | [`watching`] | observes this host |
//! | [`costs`] | costs of a packet, by regression over slices with different loads |
//! | [`arrivals`] | rate, burstiness by time scale, and the queue length that bursts need |
//! | [`cliff`] | the load at which each part overloads, with an interval that includes the extrapolation's error |
//! | [`report`] | the result as a [`netcliff_core::Learned`] |
//!
//! # From slices to a cliff
//!
//! The CPU time of a receive CPU is not proportional to its packets: at low load each packet has its own interrupt,
//! poll and wake-up; near the cliff, packets share them. Therefore costs are fitted separately, as in `find`: the time
//! of polls by their number of packets (even a single slice separates a packet from a poll), the program's time by
//! packets and context switches, the rest by packets and a constant part. The model extrapolates with these costs,
//! because it computes the interrupts, polls and wake-ups at any load. Without eBPF, the kernel's ticks yield only one
//! cost per packet and one constant part, and the interval is wider.
//!
//! The interval includes three errors: the error of the fits, which are repeated on resampled blocks of slices and
//! converted to cliffs by the model's slopes; the error of dividing costs that cannot be separated with this traffic,
//! which each repetition divides at random; and an allowance for changes of costs beyond the observed loads
//! ([`cliff::allowance`]).

pub mod arrivals;
pub mod cliff;
pub mod costs;
pub mod report;
pub mod slice;
pub mod watching;

use std::sync::atomic::AtomicBool;

use netcliff_core::Learned;

pub use watching::{LearnError, Options, Progress};

/// Watches this host for a while, and computes its costs and its cliff. `progress` is called about once a second.
/// Setting `stop` ends the watch early, with a partial result.
///
/// # Errors
/// One sentence: an interface or program does not exist, or no packets or times could be counted.
pub fn learn(options: &Options, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Learned, LearnError> {
    let watch = watching::watch(options, stop, progress)?;
    Ok(report::learned(&watch, options))
}

#[cfg(test)]
mod tests;
