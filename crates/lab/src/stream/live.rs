//! Reports while a sweep runs: [`Told`].

use std::sync::mpsc;
use std::time::Duration;

pub use netcliff_wire::transfer::Interval;

/// Where and how often a running sweep reports.
#[derive(Debug, Clone)]
pub struct Live {
    /// Length of an interval.
    pub every: Duration,
    /// The receiver; reports to one that is gone are dropped.
    pub to: mpsc::Sender<Told>,
}

/// A report.
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
    /// An interval of it has passed.
    Passed(Interval),
}
