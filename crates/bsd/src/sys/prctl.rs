//! A process that ends with its parent.

use crate::{Error, sys::signal::Signal};

/// # Errors
/// Always.
pub fn set_pdeathsig<T: Into<Option<Signal>>>(_: T) -> Result<(), Error> {
    Err(Error::ENOSYS)
}
