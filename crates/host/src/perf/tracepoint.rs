//! Tracepoints by name: their numbers for perf_event_open(2), from tracefs, mounted or not.

use std::os::fd::AsRawFd as _;
use std::{fs, io};

/// Where tracefs may be mounted. Sources: Documentation/trace/ftrace.rst.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The number of a tracepoint, named `group/event`.
///
/// # Errors
/// tracefs cannot be read, or the kernel has no such tracepoint.
pub fn number(name: &str) -> io::Result<u64> {
    let file = format!("events/{name}/id");
    let text = read(&file)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{file} is {:?}, not a number", text.trim())))
}

fn read(file: &str) -> io::Result<String> {
    if let Some(text) = MOUNTED.iter().find_map(|root| fs::read_to_string(format!("{root}/{file}")).ok()) {
        return Ok(text);
    }
    let mount = tracefs::unseen_mount()?;
    fs::read_to_string(format!("/proc/thread-self/fd/{}/{file}", mount.as_raw_fd()))
}

#[cfg(target_os = "linux")]
mod tracefs {
    //! The new calls of mounting.

    use std::io;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    /// include/uapi/linux/mount.h
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

    /// tracefs without a place in the file system: nobody else sees it, and it goes with the descriptor.
    pub(super) fn unseen_mount() -> io::Result<OwnedFd> {
        let own = |fd: libc::c_long| {
            if fd < 0 {
                Err(io::Error::last_os_error())
            } else {
                // SAFETY: a descriptor that the kernel has just given to us alone.
                Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
            }
        };
        let none = std::ptr::null::<libc::c_char>();
        // SAFETY: the name is a string with an end, and outlives the call.
        let context = own(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1 as libc::c_uint) })?;
        // SAFETY: the call takes no pointer but two that are null, as FSCONFIG_CMD_CREATE wants.
        let made = unsafe {
            libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0 as libc::c_int)
        };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call takes no pointer. The first 1 is FSMOUNT_CLOEXEC.
        own(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1 as libc::c_uint, 0 as libc::c_uint) })
    }
}

#[cfg(not(target_os = "linux"))]
mod tracefs {
    //! Stands in for tracefs, which only Linux has.

    use std::{io, os::fd::OwnedFd};

    pub(super) fn unseen_mount() -> io::Result<OwnedFd> {
        Err(netcliff_bsd::refused("tracefs"))
    }
}
