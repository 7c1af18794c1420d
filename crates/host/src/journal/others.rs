//! Runs of other users: each user's lock is in a place that others cannot reach, so that nobody can hold another's.
//!
//! A run shows itself by a POSIX lock at [`MARK`] of a file in memory, which everybody sees in /proc/locks with the pid that
//! the kernel, not the run, put there. Nothing lies in a shared directory: there is no name to take first and no link to follow.
//! Processes of other pid namespaces (containers) are not seen.

use super::who::{Who, is_ancestor, user_of};
use crate::{procfs, system};
use nix::{
    fcntl::{FcntlArg, fcntl},
    unistd::geteuid,
};
use std::{collections::BTreeSet, io, os::fd::OwnedFd};

/// The byte that is locked: `netcliff` in ASCII, shifted to be a positive offset. Nobody locks there by chance.
pub(super) const MARK: i64 = 0x6e65_7463_6c69_6666;

/// How often the table of locks is read to find all runs that announce themselves.
const LOOKS: usize = 4;

/// The announcement of a run, for as long as this value and the process live.
#[derive(Debug)]
pub(super) struct Announcement {
    _file: OwnedFd,
}

impl Announcement {
    /// Shows this process.
    pub(super) fn new() -> io::Result<Self> {
        let file = system::memory_file(c"netcliff-run")?;
        // SAFETY: plain numbers, for which all zeroes is a valid value; some systems have more of them than these.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = MARK;
        lock.l_len = 1;
        fcntl(&file, FcntlArg::F_SETLK(&lock))?;
        Ok(Self { _file: file })
    }
}

/// The runs of other users that show themselves; those that this process belongs to are not others.
pub(super) fn others() -> Vec<Who> {
    let own = geteuid().as_raw();
    shown()
        .into_iter()
        .filter(|pid| user_of(*pid) != Some(own) && *pid != std::process::id())
        .filter(|pid| !is_ancestor(&pid.to_string()))
        .map(Who::of)
        .collect()
}

/// The pids of the runs that announce themselves now.
///
/// The kernel finds its place in the table of locks by counting, anew for every read(2) (seq_hlist_start_percpu): where a lock
/// before that place was given up in between, one that stands is skipped. One look may miss it, several in a row do not.
fn shown() -> BTreeSet<u32> {
    (0..LOOKS).flat_map(|_| announced(&procfs::whole("/proc/locks"))).collect()
}

/// proc_locks(5): place, kind, ADVISORY, WRITE, pid, file, first and last byte.
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

/// Who holds the flock of a file by its device and inode.
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

    /// The user that owns nothing.
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

    /// A process of another user that shows itself for a minute, unless it is ended before.
    fn theirs() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60").uid(NOBODY);
        // SAFETY: what is called between fork and exec takes no lock and allocates nothing that the parent shares.
        unsafe {
            command.pre_exec(|| {
                let shown = Announcement::new()?;
                // It stays open over the exec, and the lock with it.
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

    /// A lock on a file of its own at a byte that says nothing.
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
