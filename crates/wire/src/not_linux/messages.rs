//! sendmmsg(2) and recvmmsg(2) of the C library.

use std::os::fd::RawFd;

use libc::{c_int, mmsghdr};

/// Sends at most `count` messages; gives how many went, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages that were zeroed before they were filled in and whose pointers are valid with their lengths.
pub(crate) unsafe fn send(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { libc::sendmmsg(fd, messages, count as _, flags) as c_int }
}

/// Receives at most `count` messages without a time limit; gives how many came, or -1 with errno.
///
/// # Safety
/// As of [`send`], for buffers that are written.
pub(crate) unsafe fn receive(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: as the caller promises; a null timeout is allowed.
    unsafe { libc::recvmmsg(fd, messages, count as _, flags, std::ptr::null_mut()) as c_int }
}
