//! ppoll(2), which nix leaves out on OpenBSD.

pub use ::nix::poll::*;

#[cfg(target_os = "openbsd")]
use crate::{
    Error,
    sys::{signal::SigSet, time::TimeSpec},
};

/// # Errors
/// The kernel's.
#[cfg(target_os = "openbsd")]
pub fn ppoll(fds: &mut [PollFd<'_>], timeout: Option<TimeSpec>, mask: Option<SigSet>) -> Result<::libc::c_int, Error> {
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |time| std::ptr::from_ref(time.as_ref()));
    let mask = mask.as_ref().map_or(std::ptr::null(), |mask| std::ptr::from_ref(mask.as_ref()));
    // SAFETY: a PollFd is a pollfd (repr(transparent)), and all pointers are null or to values that outlive the call.
    Error::result(unsafe { ::libc::ppoll(fds.as_mut_ptr().cast(), fds.len() as ::libc::nfds_t, timeout, mask) })
}
