//! `netcliff learn`: where the cliff of a host at work is and how near it is, from its own traffic. It watches and sends nothing.
//!
//! | module | holds |
//! | --- | --- |
//! | [`slice`](mod@slice) | what was seen, as plain data: slices of time, counts, looks at sockets |
//! | [`watching`] | takes it from this host |
//! | [`costs`] | what a packet costs, by regression over slices whose load differs |
//! | [`arrivals`] | rate, burstiness by time scale, and the room that bursts need |
//! | [`cliff`] | the load at which each part gives out, with an interval that covers the extrapolation |
//! | [`report`] | all of it as a [`netcliff_core::Learned`] |
//!
//! # From slices to a cliff
//!
//! The CPU time of a receive CPU is not proportional to its packets: at a low load each packet has an interrupt, a poll and a wake-up of its
//! own, near the cliff they share them. So the costs are fitted apart, as `find` does: polls by the packets that they took (one slice alone
//! separates a packet from a poll), the program's time by packets and switches, the rest by packets and by the clock. The model extrapolates
//! with them: it has the interrupts, polls and wake-ups of any load. Where a meter by eBPF is not available, the kernel's ticks leave one cost
//! a packet and one by the clock, and the interval is wider.
//!
//! The interval has three parts: the fits repeated on resampled blocks of slices, carried to the cliff by the model's slopes; shares of costs that
//! this traffic cannot separate, drawn anew each time; and an allowance for what costs do beyond the loads that were seen
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

/// Watches this host for a while and learns from it. `progress` is called about once a second. Setting `stop` ends the watch early, and the result is
/// partial.
///
/// # Errors
/// What was to be watched is not there, or nothing could be counted: a sentence.
pub fn learn(options: &Options, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Learned, LearnError> {
    let watch = watching::watch(options, stop, progress)?;
    Ok(report::learned(&watch, options))
}

#[cfg(test)]
mod tests;
