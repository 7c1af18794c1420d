//! Scheduling policies of threads, by the system calls themselves: musl's functions of these names only return ENOSYS, since POSIX has
//! them act on processes, which Linux cannot. Refused on BSD, which has no policy of a single thread.

use std::io;

use nix::unistd::Pid;

/// struct sched_param of the kernel (include/uapi/linux/sched/types.h).
#[cfg(target_os = "linux")]
#[repr(C)]
struct Parameters {
    priority: libc::c_int,
}

/// Gives a thread (0: the calling one) a policy and a real-time priority (0 for policies without).
///
/// # Errors
/// The right is missing, or there is no such thread; always on BSD.
pub fn set(thread: Pid, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let parameters = Parameters { priority };
        // SAFETY: the parameters outlive the call, which only reads them.
        let set =
            unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread.as_raw(), policy, &raw const parameters) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (thread, policy, priority);
        Err(netcliff_bsd::refused("sched_setscheduler of a thread"))
    }
}

/// The policy of the calling thread.
///
/// # Errors
/// The kernel refuses the call; always on BSD.
pub fn policy() -> io::Result<libc::c_int> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the call takes no pointer; 0 is the calling thread.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
        libc::c_int::try_from(policy).ok().filter(|policy| *policy >= 0).ok_or_else(io::Error::last_os_error)
    }
    #[cfg(not(target_os = "linux"))]
    Err(netcliff_bsd::refused("sched_getscheduler of a thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_give_way_and_says_so() {
        let changed = std::thread::spawn(|| {
            assert_eq!(policy().expect("a policy"), libc::SCHED_OTHER);
            set(Pid::from_raw(0), libc::SCHED_BATCH, 0).expect("every thread may");
            policy().expect("a policy")
        });
        assert_eq!(changed.join().expect("the thread ends"), libc::SCHED_BATCH);
        assert!(set(Pid::from_raw(0), libc::SCHED_FIFO, 1000).is_err(), "no such priority");
    }
}
