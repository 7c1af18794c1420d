//! `netcliff learn`: the cliff of a host at work and its distance, from the host's own traffic. It only observes and
//! sends nothing.
//!
//! | module | holds |
//! | --- | --- |
//! | [`slice`](mod@slice) | observations as plain data: time slices, packet counts, looks at sockets |
//! | [`watching`] | observes this host |
//! | [`costs`] | costs of a packet, by regression over slices with different loads |
//! | [`arrivals`] | rate, burstiness by time scale, and the room that bursts need |
//! | [`cliff`] | the load at which each part overloads, with an interval that covers the extrapolation |
//! | [`report`] | the result as a [`netcliff_core::Learned`] |
//!
//! # From slices to a cliff
//!
//! The CPU time of a receive CPU is not proportional to its packets: at low load each packet has its own interrupt,
//! poll and wake-up, which packets share near the cliff. Therefore costs are fitted separately, as `find` does: the
//! time of polls by the packets they took (even a single slice separates a packet from a poll), the program's time by
//! packets and switches, the rest by packets and a constant part. The model extrapolates with these costs, since it
//! knows the interrupts, polls and wake-ups at any load. Without eBPF, the kernel's ticks give only one cost per packet
//! and one constant part, and the interval is wider.
//!
//! The interval has three parts: the fits repeated on resampled blocks of slices, converted to cliffs by the model's
//! slopes; the division between costs that this traffic does not separate, drawn anew each time; and an allowance for
//! changes of costs beyond the observed loads ([`cliff::allowance`]).

pub mod arrivals;
pub mod cliff;
pub mod costs;
pub mod report;
pub mod slice;
pub mod watching;

use std::sync::atomic::AtomicBool;

use netcliff_core::Learned;

pub use watching::{LearnError, Options, Progress};

/// Watches this host for a while and computes costs and cliff. `progress` is called about once a second. Setting `stop`
/// ends the watch early, with a partial result.
///
/// # Errors
/// One sentence: an interface or program does not exist, or nothing could be counted.
pub fn learn(options: &Options, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Learned, LearnError> {
    let watch = watching::watch(options, stop, progress)?;
    Ok(report::learned(&watch, options))
}

#[cfg(test)]
mod tests;
