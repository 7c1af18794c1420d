//! Replaces the meter in a build without eBPF.

use super::{Overhead, Snapshot};
use crate::cpu::types::{CpuMeter, CpuSplit, MeterError, MeterSpec, Method, Watch};
use std::convert::Infallible;

/// The eBPF meter; in this build it cannot be started.
#[derive(Debug)]
pub struct EbpfMeter(Infallible);

impl EbpfMeter {
    /// Fails with the reason this build has no eBPF.
    ///
    /// # Errors
    /// Always [`MeterError::Unavailable`].
    pub fn start(_: MeterSpec) -> Result<Self, MeterError> {
        Err(MeterError::Unavailable { method: Method::Ebpf, reason: env!("NETCLIFF_NO_BPF_REASON").to_owned() })
    }

    /// As [`EbpfMeter::start`].
    ///
    /// # Errors
    /// Always [`MeterError::Unavailable`].
    pub fn start_silent(spec: MeterSpec) -> Result<Self, MeterError> {
        Self::start(spec)
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never called.
    pub fn snapshot(&self) -> Result<Snapshot, MeterError> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn rest(&mut self) {
        match self.0 {}
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never called.
    pub fn wake(&mut self) -> Result<(), MeterError> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn overhead(&self) -> Option<Overhead> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn missing(&self) -> &[String] {
        match self.0 {}
    }
}

impl CpuMeter for EbpfMeter {
    fn method(&self) -> Method {
        match self.0 {}
    }

    fn watch(&mut self, _: Watch) -> Result<(), MeterError> {
        match self.0 {}
    }

    fn mark(&mut self) -> Result<(), MeterError> {
        match self.0 {}
    }

    fn read(&mut self) -> Result<Vec<CpuSplit>, MeterError> {
        match self.0 {}
    }
}
