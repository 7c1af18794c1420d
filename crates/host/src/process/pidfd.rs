//! Signals by a descriptor of a process, pidfd_open(2), which never reach a later one of the same pid.

use super::ProcessId;
use nix::errno::Errno;
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// Signals a process; one that has ended is no error.
pub(super) fn signal(process: ProcessId, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(process.pid).map_err(io::Error::other)?;
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = match Errno::result(fd) {
        Err(Errno::ESRCH) => return Ok(()),
        other => RawFd::try_from(other?).map_err(io::Error::other)?,
    };
    // SAFETY: the descriptor was just returned by the kernel and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Checked after the descriptor is held: from here on the pid cannot be reused under our feet.
    if !process.is_alive() {
        return Ok(());
    }
    // SAFETY: a valid pidfd, a signal number, no siginfo, no flags.
    let sent = unsafe {
        let siginfo = std::ptr::null::<libc::siginfo_t>();
        libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, siginfo, 0)
    };
    match Errno::result(sent) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
