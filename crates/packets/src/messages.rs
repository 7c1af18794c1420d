//! sendmmsg(2) and recvmmsg(2): on Linux by the system calls themselves, on BSD by the C library.
//!
//! musl's sendmmsg calls sendmsg once per message, because its headers declare some lengths as 32 bits plus padding
//! where the kernel reads 64 bits. The callers here zero the messages before they fill them in, so on little-endian
//! machines both layouts read the same. The types differ between C libraries in nothing else.

use std::os::fd::RawFd;

use libc::{c_int, mmsghdr};

#[cfg(all(target_os = "linux", not(target_endian = "little")))]
compile_error!(
    "lengths in messages are read by the kernel with 64 bits, of which musl's headers have the lower 32 first"
);

/// Sends at most `count` messages. Returns the number sent, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages that were zeroed before they were filled in. Their pointers are valid for
/// their lengths.
pub unsafe fn send(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller promises valid pointers, see above.
    unsafe {
        #[cfg(target_os = "linux")]
        let sent = libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags);
        #[cfg(not(target_os = "linux"))]
        let sent = libc::sendmmsg(fd, messages, count as _, flags);
        sent as c_int
    }
}

/// Receives at most `count` messages without a time limit. Returns the number received, or -1 with errno.
///
/// # Safety
/// `messages` fulfils the conditions of [`send`]; its buffers are writable.
pub unsafe fn receive(fd: RawFd, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller promises valid pointers, see above; a null timeout is allowed.
    unsafe {
        #[cfg(target_os = "linux")]
        let received =
            libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, std::ptr::null_mut::<libc::timespec>());
        #[cfg(not(target_os = "linux"))]
        let received = libc::recvmmsg(fd, messages, count as _, flags, std::ptr::null_mut());
        received as c_int
    }
}
