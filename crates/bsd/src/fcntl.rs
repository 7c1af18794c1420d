//! Pipes of pages, and advice about files.

use crate::{Error, c_uint};
use std::{io::IoSlice, os::fd::AsFd};

pub use ::nix::fcntl::*;

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SpliceFFlags: c_uint {
        const SPLICE_F_MOVE = 1;
        const SPLICE_F_NONBLOCK = 2;
    }
}

/// # Errors
/// Always.
pub fn splice<In: AsFd, Out: AsFd>(
    _: In,
    _: Option<&mut i64>,
    _: Out,
    _: Option<&mut i64>,
    _: usize,
    _: SpliceFFlags,
) -> Result<usize, Error> {
    Err(Error::ENOSYS)
}

/// # Errors
/// Always.
pub fn vmsplice<F: AsFd>(_: F, _: &[IoSlice<'_>], _: SpliceFFlags) -> Result<usize, Error> {
    Err(Error::ENOSYS)
}

#[cfg(target_os = "openbsd")]
pub use advice::*;

#[cfg(target_os = "openbsd")]
mod advice {
    use crate::Error;
    use std::os::fd::AsFd;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PosixFadviseAdvice {
        POSIX_FADV_DONTNEED,
    }

    /// # Errors
    /// Always.
    pub fn posix_fadvise<F: AsFd>(_: F, _: i64, _: i64, _: PosixFadviseAdvice) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }
}
