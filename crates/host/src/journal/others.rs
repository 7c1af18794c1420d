//! Finds the runs of other users. Each user's lock is in a directory that others cannot reach, so that no user can hold
//! another user's lock.
//!
//! A run announces itself by a POSIX lock at [`MARK`] of a file in memory. Every user sees this lock in /proc/locks,
//! with the process id that the kernel writes there. No shared directory is used: there is no name that another user
//! could take first and no symbolic link to follow. Processes in other PID namespaces (containers) are not seen.

use super::who::{Who, is_ancestor, user_of};
use crate::{procfs, system};
use nix::{
    fcntl::{FcntlArg, fcntl},
    unistd::geteuid,
};
use std::{collections::BTreeSet, io, os::fd::OwnedFd};

/// Offset of the locked byte: `netcliff` in ASCII, shifted to be a positive offset. No other program locks there by
/// chance.
pub(super) const MARK: i64 = 0x6e65_7463_6c69_6666;

/// Number of times that the table of locks is read to find all announced runs.
const LOOKS: usize = 4;

/// Announces a run as long as this value and the process live.
#[derive(Debug)]
pub(super) struct Announcement {
    _file: OwnedFd,
}

impl Announcement {
    /// Announces this process.
    pub(super) fn new() -> io::Result<Self> {
        let file = system::memory_file(c"netcliff-run")?;
        // SAFETY: `flock` has only integer fields, for which zero is a valid value. Some systems have more fields than
        // those set below.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = MARK;
        lock.l_len = 1;
        fcntl(&file, FcntlArg::F_SETLK(&lock))?;
        Ok(Self { _file: file })
    }
}

/// The announced runs of other users, without the run that this process belongs to.
pub(super) fn others() -> Vec<Who> {
    let own = geteuid().as_raw();
    shown()
        .into_iter()
        .filter(|pid| user_of(*pid) != Some(own) && *pid != std::process::id())
        .filter(|pid| !is_ancestor(&pid.to_string()))
        .map(Who::of)
        .collect()
}

/// The process ids of the runs that are announced now.
///
/// For each read(2) the kernel finds its place in the table of locks by counting (seq_hlist_start_percpu). If a lock
/// before that place was released since the last read, the kernel skips one that still exists. One reading may miss it;
/// several readings do not.
fn shown() -> BTreeSet<u32> {
    (0..LOOKS).flat_map(|_| announced(&procfs::whole("/proc/locks"))).collect()
}

/// Parses the process ids of announced runs from /proc/locks, whose columns are (proc_locks(5)): number, kind,
/// ADVISORY, WRITE, pid, file, first and last byte.
fn announced(locks: &str) -> Vec<u32> {
    let mark = MARK.to_string();
    let pid = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "POSIX", _, "WRITE", pid, _, first, last] if first == mark && last == mark => pid.parse().ok(),
            _ => None,
        }
    };
    locks.lines().filter_map(pid).collect()
}

/// The process that holds flock(2) on the file with this device and inode.
pub(super) fn holder_of(device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (libc::major(device as _), libc::minor(device as _));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    procfs::whole("/proc/locks").lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{HostLock, StateDir};
    use nix::fcntl::FdFlag;
    use std::{
        fs::File,
        os::unix::process::CommandExt,
        process::{Child, Command},
        sync::atomic::{AtomicBool, Ordering},
        time::{Duration, Instant},
    };

    /// User id of `nobody`, who owns no files.
    const NOBODY: u32 = 65_534;

    #[test]
    fn a_run_that_shows_itself_is_seen_until_it_ends() {
        let own = std::process::id();
        let seen = || announced(&procfs::whole("/proc/locks")).contains(&own);
        let shown = Announcement::new().unwrap();
        assert!(seen());
        assert!(!others().iter().any(|other| other.pid == own), "it is no other's");
        drop(shown);
        assert!(!seen());
        assert_eq!(user_of(own), Some(geteuid().as_raw()));
    }

    /// Starts a process of another user that announces itself for a minute, or until it is killed.
    fn theirs() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").uid(NOBODY);
        // SAFETY: the code between fork and exec takes no lock and allocates nothing that the parent shares.
        unsafe {
            command.pre_exec(|| {
                let shown = Announcement::new()?;
                // The descriptor stays open over exec(2), and with it the lock.
                fcntl(&shown._file, FcntlArg::F_SETFD(FdFlag::empty()))?;
                std::mem::forget(shown);
                Ok(())
            })
        };
        command.spawn().unwrap()
    }

    #[test]
    fn root_goes_on_beside_another_users_run_and_says_so() {
        if !netcliff_testkit::has(netcliff_testkit::Need::Root) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let state = StateDir::at(dir.path()).unwrap().shared();
        let mut theirs = theirs();
        let pid = theirs.id();
        assert!(others().iter().any(|other| (other.pid, other.uid) == (pid, Some(NOBODY))));
        let begun = Instant::now();
        let (_lock, report) = HostLock::acquire_and_replay(&state).unwrap();
        assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
        let told = report.left_over().join("; ");
        assert!(told.contains(&format!("pid {pid} of user")) && told.contains("65534"), "{told}");
        assert!(told.contains("\"sleep 60\", running for "), "{told}");
        theirs.kill().unwrap();
        theirs.wait().unwrap();
        assert!(!others().iter().any(|other| other.pid == pid));
    }

    #[test]
    fn a_run_is_seen_while_others_take_and_give_back_locks() {
        let own = std::process::id();
        let standing = Announcement::new().unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        drop((0..60).map(|_| elsewhere()).collect::<Vec<_>>());
                    }
                });
            }
            let missed = (0..300).filter(|_| !shown().contains(&own)).count();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0, "of 300 looks");
        });
        drop(standing);
    }

    /// A flock(2) lock on another file, which announces no run.
    fn elsewhere() -> File {
        let file = tempfile::tempfile().unwrap();
        file.lock().unwrap();
        file
    }

    #[test]
    fn other_locks_are_none_of_ours() {
        let mark = MARK;
        let text = format!(
            "1: POSIX  ADVISORY  WRITE 7 00:01:1027 {mark} {mark}\n2: FLOCK  ADVISORY  WRITE 8 00:01:1028 0 EOF\n\
             3: POSIX  ADVISORY  READ  9 00:01:1029 {mark} {mark}\n3: -> POSIX  ADVISORY  WRITE 10 00:01:1029 {mark} {mark}\n\
             4: POSIX  ADVISORY  WRITE 11 00:01:1030 0 EOF\nrubbish\n"
        );
        assert_eq!(announced(&text), [7]);
    }
}
