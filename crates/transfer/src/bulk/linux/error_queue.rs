//! A socket's error queue: the kernel's reports on earlier sends.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_void, sock_extended_err};

/// Takes one message off the queue and passes it to `note`. Returns false if the queue is empty.
pub(super) fn fetch(channel: BorrowedFd<'_>, mut note: impl FnMut(&sock_extended_err)) -> io::Result<bool> {
    let mut control = [0_u64; 32];
    // SAFETY: all zeros is a valid msghdr: null pointers with lengths of zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: the message names a buffer that is writable for the length given.
    let done = unsafe { libc::recvmsg(channel.as_raw_fd(), &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
    }
    // SAFETY: the kernel has filled the control buffer and set its length; CMSG_* stay within it, and a
    // message of these kinds holds a sock_extended_err.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let kind = ((*header).cmsg_level, (*header).cmsg_type);
            if matches!(kind, (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)) {
                note(&libc::CMSG_DATA(header).cast::<sock_extended_err>().read_unaligned());
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(true)
}

/// Empties the queue, so that the next call returns no old error. Returns the number of ICMP messages whose errors
/// `counts` accepts.
pub(in crate::bulk) fn icmp(channel: BorrowedFd<'_>, counts: impl Fn(i32) -> bool) -> u64 {
    let mut messages = 0;
    let mut note = |error: &sock_extended_err| {
        let is_icmp = matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
        messages += u64::from(is_icmp && i32::try_from(error.ee_errno).is_ok_and(&counts));
    };
    while matches!(fetch(channel, &mut note), Ok(true)) {}
    messages
}
