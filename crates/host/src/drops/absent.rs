//! Replaces the tracer in a build without eBPF.

use super::{Ask, Reading, TracerError, symbols::Symbols};
use netcliff_core::{drops::Path, filter::Filter};
use std::convert::Infallible;
use std::time::Duration;

/// Counts drops at the kernel's tracepoint; in this build it cannot be started.
#[derive(Debug)]
pub struct Tracer(Infallible);

impl Tracer {
    /// Fails with the reason this build has no eBPF.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &Ask) -> Result<Self, TracerError> {
        Err(TracerError { reason: env!("NETCLIFF_NO_BPF_REASON").to_owned() })
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never called.
    pub fn read(&self) -> Result<Reading, TracerError> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn reason(&self, _: u32) -> String {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn limits(&self) -> &[String] {
        match self.0 {}
    }

    pub(super) fn stack(&self, _: i32, _: &Symbols) -> Vec<String> {
        match self.0 {}
    }
}

/// Follows packets; in this build it cannot be started.
#[derive(Debug)]
pub struct Follower(Infallible);

impl Follower {
    /// Fails with the reason this build has no eBPF.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: Option<&Filter>, _: u32, _: f64) -> Result<Self, TracerError> {
        Err(TracerError { reason: env!("NETCLIFF_NO_BPF_REASON").to_owned() })
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never called.
    pub fn follow(&mut self, _: Duration, _: &Symbols, _: impl Fn() -> bool) -> Result<Vec<Path>, TracerError> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn limits(&self) -> Vec<String> {
        match self.0 {}
    }
}
