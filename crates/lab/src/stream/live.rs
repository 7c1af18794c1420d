//! What is told while a sweep runs: [`Told`].

use std::sync::mpsc;
use std::time::Duration;

pub use netcliff_wire::transfer::Interval;

/// Who is told what moves while a sweep runs.
#[derive(Debug, Clone)]
pub struct Live {
    /// Length of an interval.
    pub every: Duration,
    /// Where it goes; one that is not heard any more is told for nothing.
    pub to: mpsc::Sender<Told>,
}

/// What is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A repeat begins.
    Repeat {
        /// How blocks are sent, as on the command line.
        path: &'static str,
        /// Bytes of a write or datagram.
        block_bytes: usize,
        /// Which one, from 1.
        repeat: usize,
    },
    /// What moved in a part of it.
    Passed(Interval),
}
