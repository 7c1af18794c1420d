//! Replaces `live/kernel.rs` in a build without eBPF, where the programs cannot be loaded.

use std::{convert::Infallible, io};

use super::{Counted, Frames, Sent, Trial};
use crate::xdp::Mode;

/// The programs; in this build they cannot be loaded.
#[derive(Debug)]
pub struct Live(Infallible);

/// Ends a trial early; in this build there is no trial to end.
#[derive(Debug)]
pub struct Stopper(Infallible);

impl Stopper {
    /// See the build with eBPF.
    pub fn stop(&self) {
        match self.0 {}
    }
}

impl Live {
    /// Fails with the reason this build has no eBPF.
    ///
    /// # Errors
    /// Always.
    pub fn load(_: &Frames) -> Result<Self, String> {
        Err(env!("NETCLIFF_NO_BPF_REASON").to_owned())
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never reached.
    pub fn attach(&mut self, _: u32) -> io::Result<Mode> {
        match self.0 {}
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never reached.
    pub fn probe(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never reached.
    pub fn stopper(&self) -> io::Result<Stopper> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn begin(&mut self, _: &Trial) {
        match self.0 {}
    }

    /// See the build with eBPF.
    ///
    /// # Errors
    /// Never reached.
    pub fn send(&mut self, _: u32) -> io::Result<()> {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn progress(&self) -> (u64, bool) {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn arrived(&self) -> u64 {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn sent(&self) -> Sent {
        match self.0 {}
    }

    /// See the build with eBPF.
    pub fn counted(&self) -> Counted {
        match self.0 {}
    }
}
