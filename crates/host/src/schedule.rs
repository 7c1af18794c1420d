//! Scheduling policies of threads. BSD has no policies for single threads.

use std::io;

use nix::unistd::Pid;

use crate::system;

/// The policy with the lowest priority (SCHED_IDLE, linux/sched.h).
pub const IDLE: libc::c_int = 5;
/// Flag that is added to a real-time policy: threads that the thread starts have the default policy
/// (SCHED_RESET_ON_FORK, linux/sched.h).
pub const RESET_ON_FORK: libc::c_int = 0x4000_0000;

/// Gives a thread (0: the calling one) a policy and a real-time priority (0 for policies without priorities).
///
/// # Errors
/// The right is missing, or there is no such thread; always on BSD.
pub fn set(thread: Pid, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    system::set_policy(thread.as_raw(), policy, priority)
}

/// The policy of the calling thread.
///
/// # Errors
/// The kernel refuses the call; always on BSD.
pub fn policy() -> io::Result<libc::c_int> {
    system::policy()
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
        assert_eq!((IDLE, RESET_ON_FORK), (libc::SCHED_IDLE, libc::SCHED_RESET_ON_FORK));
    }
}
