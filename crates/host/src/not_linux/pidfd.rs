//! Stands in for pidfd_open(2), which only Linux has.

use super::ProcessId;
use std::io;

pub(super) fn signal(_: ProcessId, _: libc::c_int) -> io::Result<()> {
    Err(netcliff_bsd::refused("pidfd_open"))
}
