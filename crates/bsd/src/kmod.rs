//! Modules of Linux's kernel.

use crate::{Error, c_uint};
use std::{ffi::CStr, os::fd::AsFd};

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ModuleInitFlags: c_uint {}
}

/// # Errors
/// Always.
pub fn finit_module<F: AsFd>(_: F, _: &CStr, _: ModuleInitFlags) -> Result<(), Error> {
    Err(Error::ENOSYS)
}
