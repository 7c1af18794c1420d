//! Stands in for Linux's scheduling policies of single threads.

use nix::unistd::Pid;
use std::io;

/// Fails.
///
/// # Errors
/// Always.
pub fn set(_: Pid, _: libc::c_int, _: libc::c_int) -> io::Result<()> {
    Err(netcliff_bsd::refused("sched_setscheduler of a thread"))
}

/// Fails.
///
/// # Errors
/// Always.
pub fn policy() -> io::Result<libc::c_int> {
    Err(netcliff_bsd::refused("sched_getscheduler of a thread"))
}
