//! Namespaces, and CPUs of threads where the system has no such calls.

use crate::{Error, c_int};
use std::os::fd::AsFd;

pub use ::nix::sched::*;

bitflags::bitflags! {
    /// Which namespaces.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CloneFlags: c_int {
        const CLONE_NEWNET = 1;
        const CLONE_NEWNS = 2;
        const CLONE_NEWUSER = 4;
        const CLONE_FS = 8;
    }
}

/// # Errors
/// Always.
pub fn unshare(_: CloneFlags) -> Result<(), Error> {
    Err(Error::ENOSYS)
}

/// # Errors
/// Always.
pub fn setns(_: impl AsFd, _: CloneFlags) -> Result<(), Error> {
    Err(Error::ENOSYS)
}

#[cfg(target_os = "openbsd")]
pub use affinity::*;

/// OpenBSD binds no thread to a CPU.
#[cfg(target_os = "openbsd")]
mod affinity {
    use crate::{Error, unistd::Pid};

    /// A set of no CPUs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub struct CpuSet;

    impl CpuSet {
        pub fn new() -> Self {
            Self
        }

        pub const fn count() -> usize {
            0
        }

        /// # Errors
        /// Always.
        pub fn set(&mut self, _: usize) -> Result<(), Error> {
            Err(Error::ENOSYS)
        }

        /// # Errors
        /// Always.
        pub fn unset(&mut self, _: usize) -> Result<(), Error> {
            Err(Error::ENOSYS)
        }

        /// # Errors
        /// Always.
        pub fn is_set(&self, _: usize) -> Result<bool, Error> {
            Err(Error::ENOSYS)
        }
    }

    /// # Errors
    /// Always.
    pub fn sched_setaffinity(_: Pid, _: &CpuSet) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn sched_getaffinity(_: Pid) -> Result<CpuSet, Error> {
        Err(Error::ENOSYS)
    }
}
