//! Stands in for samples of perf_event_open(2), which only Linux has.

use std::convert::Infallible;
use std::io;

use super::{Event, Fields, Record};

/// See Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// See Linux's.
    Events(u64),
    /// See Linux's.
    Hertz(u64),
}

/// A sampler; on this system none can be opened.
#[derive(Debug)]
pub struct Sampler(Infallible);

impl Sampler {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: Event, _: Every, _: &[usize], _: Fields) -> io::Result<Self> {
        Err(netcliff_bsd::refused("perf_event_open"))
    }

    /// See Linux's.
    ///
    /// # Errors
    /// Never called.
    pub fn start(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// See Linux's.
    ///
    /// # Errors
    /// Never called.
    pub fn stop(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// See Linux's.
    ///
    /// # Errors
    /// Never called.
    pub fn set_period(&self, _: u64) -> io::Result<()> {
        match self.0 {}
    }

    /// See Linux's.
    pub fn drain(&mut self, _: impl FnMut(usize, Record)) {
        match self.0 {}
    }
}
