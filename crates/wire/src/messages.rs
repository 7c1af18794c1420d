//! sendmmsg(2) and recvmmsg(2) by the system calls themselves.
//!
//! musl's sendmmsg calls sendmsg once a message, since its headers give some lengths 32 bits with padding where the kernel reads 64. The
//! messages here are zeroed before they are filled in, so that on little-endian machines both read the same; their types differ between
//! C libraries in nothing else.

use std::os::fd::RawFd;

use libc::{c_int, mmsghdr};

#[cfg(not(target_endian = "little"))]
compile_error!(
    "lengths in messages are read by the kernel with 64 bits, of which musl's headers have the lower 32 first"
);

/// Sends at most `count` messages; gives how many went, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages that were zeroed before they were filled in and whose pointers are valid with their lengths.
pub(crate) unsafe fn send(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags) as c_int }
}

/// Receives at most `count` messages without a time limit; gives how many came, or -1 with errno.
///
/// # Safety
/// As of [`send`], for buffers that are written.
pub(crate) unsafe fn receive(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: as the caller promises; a null timeout is allowed.
    unsafe {
        libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, std::ptr::null_mut::<libc::timespec>()) as c_int
    }
}
