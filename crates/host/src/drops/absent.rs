//! Stands in for the tracer in a build without eBPF.

use super::{Ask, Reading, TracerError, symbols::Symbols};
use std::convert::Infallible;

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
