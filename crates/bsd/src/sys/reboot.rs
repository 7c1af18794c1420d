//! The end of a guest.

use crate::Error;
use std::convert::Infallible;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootMode {
    RB_AUTOBOOT,
}

/// # Errors
/// Always.
pub fn reboot(_: RebootMode) -> Result<Infallible, Error> {
    Err(Error::ENOSYS)
}
