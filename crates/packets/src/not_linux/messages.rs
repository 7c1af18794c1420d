//! sendmmsg(2) and recvmmsg(2) of the C library.

use std::os::fd::RawFd;

use libc::{c_int, mmsghdr};

/// Sends at most `count` messages. Returns the number sent, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages that were zeroed before they were filled in. Their pointers are valid for
/// their lengths.
pub(crate) unsafe fn send(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller promises valid pointers, see above.
    unsafe { libc::sendmmsg(fd, messages, count as _, flags) as c_int }
}

/// Receives at most `count` messages without a time limit. Returns the number received, or -1 with errno.
///
/// # Safety
/// `messages` fulfils the conditions of [`send`]; its buffers are writable.
pub(crate) unsafe fn receive(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller promises valid pointers, see above; a null timeout is allowed.
    unsafe { libc::recvmmsg(fd, messages, count as _, flags, std::ptr::null_mut()) as c_int }
}
