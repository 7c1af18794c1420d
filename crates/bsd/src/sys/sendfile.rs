//! Linux's sendfile(2); FreeBSD's takes other arguments, and OpenBSD has none.

use crate::{Error, off_t};
use std::os::fd::AsFd;

/// # Errors
/// Always.
pub fn sendfile<Out: AsFd, In: AsFd>(_: Out, _: In, _: Option<&mut off_t>, _: usize) -> Result<usize, Error> {
    Err(Error::ENOSYS)
}
