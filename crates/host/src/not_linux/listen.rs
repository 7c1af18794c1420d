//! Stands in for netlink's reports of changes.

use std::{io, os::fd::OwnedFd};

pub(super) fn to_links() -> io::Result<OwnedFd> {
    Err(netcliff_bsd::refused("netlink"))
}

pub(super) fn to_events() -> io::Result<OwnedFd> {
    Err(netcliff_bsd::refused("netlink"))
}
