//! Stands in for tracefs, which only Linux has.

use std::{io, os::fd::OwnedFd};

pub(super) fn unseen_mount() -> io::Result<OwnedFd> {
    Err(netcliff_bsd::refused("tracefs"))
}
