//! Stands in for perf_event_open(2), which only Linux has.

use std::convert::Infallible;
use std::io;

use super::{Event, Of};

/// A counter; on this system none can be opened.
#[derive(Debug)]
pub struct Counter(Infallible);

impl Counter {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: Event, _: Of) -> io::Result<Self> {
        Err(netcliff_bsd::refused("perf_event_open"))
    }

    /// See Linux's.
    ///
    /// # Errors
    /// Never called.
    pub fn read(&self) -> io::Result<u64> {
        match self.0 {}
    }
}
