//! The number of a thread.

pub use ::nix::unistd::*;

/// The calling thread.
#[cfg(target_os = "freebsd")]
pub fn gettid() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid::from_raw(unsafe { ::libc::pthread_getthreadid_np() })
}

/// The calling thread.
#[cfg(not(target_os = "freebsd"))]
pub fn gettid() -> Pid {
    // SAFETY: the call takes nothing and cannot fail.
    Pid::from_raw(unsafe { ::libc::getthrid() })
}
