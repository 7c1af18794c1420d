//! Calls that differ between Linux, FreeBSD and OpenBSD: `system/linux.rs` has the calls of Linux. `system/bsd.rs` has
//! the calls that BSD has under another name; for all others it returns an error that names what is missing
//! ([`unsupported`]). All other code of netcliff compiles for all three systems, or is in a module for Linux only.

use std::io;

use libc::c_int;

#[cfg_attr(not(target_os = "linux"), path = "system/bsd.rs")]
#[cfg_attr(target_os = "linux", path = "system/linux.rs")]
mod calls;

pub use calls::*;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub use shared::*;

/// The calls that Linux and FreeBSD share.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod shared {
    use std::ffi::CStr;
    use std::io;
    use std::os::fd::OwnedFd;

    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::unistd::Pid;

    /// CPUs that a thread (0: the calling one) may run on, ascending.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn cpus_of_thread(thread: libc::pid_t) -> nix::Result<Vec<usize>> {
        let set = sched_getaffinity(Pid::from_raw(thread))?;
        Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
    }

    /// Binds a thread (0: the calling one) to CPUs. Allocates nothing.
    ///
    /// # Errors
    /// The kernel refuses the call; EINVAL if no such CPU is online and allowed.
    pub fn bind_thread(thread: libc::pid_t, cpus: &[usize]) -> nix::Result<()> {
        let mut set = CpuSet::new();
        cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
        sched_setaffinity(Pid::from_raw(thread), &set)
    }

    /// Creates an unnamed file in memory.
    pub(crate) fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
        Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?)
    }
}

/// Level and name of a socket option; `None` if this system lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOption(Option<(c_int, c_int)>);

impl SocketOption {
    /// An option of Linux. Its numbers mean other options on BSD, so it is `None` there.
    pub const fn of_linux(level: c_int, name: c_int) -> Self {
        Self(if cfg!(target_os = "linux") { Some((level, name)) } else { None })
    }

    /// Whether it is the option of this level and name.
    #[inline]
    pub fn is(self, level: c_int, name: c_int) -> bool {
        self.0 == Some((level, name))
    }

    /// Level and name.
    ///
    /// # Errors
    /// This system lacks the option.
    pub fn level_and_name(self) -> io::Result<(c_int, c_int)> {
        self.0.ok_or_else(|| unsupported("this socket option"))
    }
}

impl From<(c_int, c_int)> for SocketOption {
    fn from(level_and_name: (c_int, c_int)) -> Self {
        Self(Some(level_and_name))
    }
}

/// Error for a call that only Linux has.
pub fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} needs Linux"))
}
