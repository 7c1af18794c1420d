//! Kinds of file systems by number.

use crate::{Error, NixPath};
use std::{convert::Infallible, os::fd::AsFd};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsType(pub i64);

pub const TMPFS_MAGIC: FsType = FsType(-1);
pub const HUGETLBFS_MAGIC: FsType = FsType(-1);

/// A file system: none is told.
#[derive(Debug, Clone, Copy)]
pub struct Statfs(Infallible);

impl Statfs {
    pub fn filesystem_type(&self) -> FsType {
        match self.0 {}
    }
}

/// # Errors
/// Always.
pub fn statfs<P: NixPath + ?Sized>(_: &P) -> Result<Statfs, Error> {
    Err(Error::ENOSYS)
}

/// # Errors
/// Always.
pub fn fstatfs<F: AsFd>(_: F) -> Result<Statfs, Error> {
    Err(Error::ENOSYS)
}
