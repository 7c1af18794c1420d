//! Sockets that systemd listens on for an agent and passes to it: sd_listen_fds(3).

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Once;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{SockType, getsockopt, sockopt};

/// The first descriptor that is passed (SD_LISTEN_FDS_START).
const FIRST: RawFd = 3;

/// Takes the sockets that systemd passed to this process. Empty if there are none. Only the first call returns them.
///
/// # Errors
/// A sentence: a passed descriptor is not a listening stream socket.
pub fn listeners() -> Result<Vec<TcpListener>, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let count = count(variable("LISTEN_PID").as_deref(), variable("LISTEN_FDS").as_deref(), std::process::id());
    static TAKEN: Once = Once::new();
    let mut first = false;
    TAKEN.call_once(|| first = true);
    if !first {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(taken).collect()
}

/// Number of sockets passed to this process. Child processes inherit the variables, but their process id differs from
/// LISTEN_PID.
fn count(pid: Option<&str>, count: Option<&str>, own: u32) -> RawFd {
    let is_own = pid.and_then(|pid| pid.parse().ok()) == Some(own);
    let count = count.filter(|_| is_own).and_then(|count| count.parse().ok());
    count.filter(|count| (0..=64).contains(count)).unwrap_or(0)
}

fn taken(number: RawFd) -> Result<TcpListener, String> {
    // SAFETY: the service manager passed these descriptors to this process (LISTEN_PID is its id), and only the first
    // call takes them. If one is not open, the next system call reports that, and nothing else is done with it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    let wrong =
        |what: &str| format!("descriptor {number}, passed by systemd, {what}: expected ListenStream= with a port");
    // Programs started from this process must not inherit the descriptor.
    if fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).is_err() {
        std::mem::forget(descriptor);
        return Err(wrong("is not open"));
    }
    let listens = getsockopt(&descriptor, sockopt::AcceptConn).unwrap_or(false);
    let is_stream = getsockopt(&descriptor, sockopt::SockType).is_ok_and(|kind| kind == SockType::Stream);
    if !listens || !is_stream {
        return Err(wrong("is no listening stream socket"));
    }
    let listener = TcpListener::from(descriptor);
    match listener.local_addr() {
        Ok(_) => Ok(listener),
        Err(_) => Err(wrong("is not of TCP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_another_process_do_not_count() {
        assert_eq!(count(Some("17"), Some("2"), 17), 2);
        for (pid, fds) in [
            (Some("18"), Some("2")),
            (None, Some("2")),
            (Some("17"), None),
            (Some("17"), Some("-3")),
            (Some("17"), Some("x")),
        ] {
            assert_eq!(count(pid, fds, 17), 0, "{pid:?} {fds:?}");
        }
    }
}
