//! One measuring run at a time on a host.

use super::{JournalError, ReplayReport, StateDir, replay};
use crate::process::parent_of;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::Arc,
};

/// Names the open file by which a child shares the lock of its parent.
const INHERITED: &str = "NETCLIFF_LOCK_FD";
/// Names the process that holds the lock, for those that it has measure, children of children too.
const HOLDER: &str = "NETCLIFF_LOCK_PID";
/// More generations than any measurement has.
const GENERATIONS: usize = 64;

/// Held by the run that measures or changes this host; released when the last clone is dropped and by
/// the kernel when the process dies, so it never goes stale.
#[derive(Debug, Clone)]
pub struct HostLock {
    held: Arc<Held>,
    state: StateDir,
}

#[derive(Debug)]
enum Held {
    Own(Flock<File>),
    /// The parent's: it lets go of it, this process does not.
    Parents,
    /// An ancestor's, who measures by this process; the file admits one such process at a time.
    Ancestors {
        _file: Flock<File>,
    },
}

impl HostLock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// [`JournalError::Busy`] with the holder's pid, or an I/O error of the state directory.
    pub fn acquire(state: &StateDir) -> Result<HostLock, JournalError> {
        let path = state.lock_path();
        if is_inherited(&path) {
            return Ok(HostLock { held: Arc::new(Held::Parents), state: state.clone() });
        }
        match exclusive(&path)? {
            Ok(file) => Ok(HostLock { held: Arc::new(Held::Own(file)), state: state.clone() }),
            Err(pid) if !is_announced(&pid) => Err(JournalError::Busy { pid }),
            Err(pid) if !is_ancestor(&pid) => Err(JournalError::LeftBehind { pid }),
            Err(_) => match exclusive(&state.shared_lock_path())? {
                Ok(file) => Ok(HostLock { held: Arc::new(Held::Ancestors { _file: file }), state: state.clone() }),
                Err(pid) => Err(JournalError::Sibling { pid }),
            },
        }
    }

    /// Takes the lock, then undoes what dead runs left: the proper start of every run.
    ///
    /// # Errors
    /// As [`HostLock::acquire`] and [`replay`].
    pub fn acquire_and_replay(state: &StateDir) -> Result<(HostLock, ReplayReport), JournalError> {
        let lock = HostLock::acquire(state)?;
        let report = replay(state)?;
        Ok((lock, report))
    }

    /// Lets a child that measures for this run share the lock as long as it has the file open: name and value for its
    /// environment, and the file, which has to stay until the child has been started. Only for a netcliff: any other
    /// program would keep it and, left in the background, the lock.
    ///
    /// # Errors
    /// When the process may not open more files; or the lock is itself the parent's, which is not passed on.
    pub fn share(&self) -> io::Result<(&'static str, String, OwnedFd)> {
        let Held::Own(file) = &*self.held else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the lock of a parent is not passed on"));
        };
        // Without close-on-exec, unlike File::try_clone.
        let file = nix::unistd::dup(&**file)?;
        Ok((INHERITED, file.as_raw_fd().to_string(), file))
    }

    /// Lets the commands that a child starts, such as a netcliff in a script, share the lock as long as this process lives and
    /// is their ancestor: name and value for the child's environment. One of them at a time; what is left in the background
    /// when the child ends has no such ancestor any more.
    pub fn announce(&self) -> (&'static str, String) {
        (HOLDER, std::process::id().to_string())
    }

    /// The state directory that the lock guards.
    pub fn state(&self) -> &StateDir {
        &self.state
    }
}

/// Whether the environment names an open file of this process that is the lock: only a child of its holder can have it.
fn is_inherited(path: &Path) -> bool {
    let Some(number) = std::env::var(INHERITED).ok().and_then(|text| text.parse::<u32>().ok()) else { return false };
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (fs::metadata(format!("/proc/self/fd/{number}")), fs::metadata(path)) {
        (Ok(open), Ok(lock)) => same(open, lock),
        _ => false,
    }
}

/// Takes a lock file without waiting, and writes this process into it; the pid of who has it where it is taken.
fn exclusive(path: &Path) -> Result<Result<Flock<File>, String>, JournalError> {
    // Not truncated on open: until the lock is ours the file names its holder.
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(JournalError::io("open", path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut file) => {
            file.set_len(0)
                .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
                .map_err(JournalError::io("write", path))?;
            Ok(Ok(file))
        }
        Err((_, Errno::EWOULDBLOCK)) => Ok(Err(holder(path))),
        Err((_, errno)) => Err(JournalError::io("lock", path)(errno.into())),
    }
}

/// Whether the process that has the lock says by the environment that it measures by this one.
fn is_announced(holder: &str) -> bool {
    std::env::var(HOLDER).is_ok_and(|announced| announced == holder)
}

/// The environment is passed on to what is left in the background, too; that has another parent once the command ends.
pub(super) fn is_ancestor(holder: &str) -> bool {
    let Ok(holder) = holder.parse::<u32>() else { return false };
    let ancestors = std::iter::successors(Some(std::process::id()), |pid| parent_of(*pid));
    ancestors.skip(1).take(GENERATIONS).any(|pid| pid == holder)
}

fn holder(path: &Path) -> String {
    let pid = fs::read_to_string(path).unwrap_or_default();
    let pid = pid.trim();
    if pid.is_empty() { "unknown".to_owned() } else { pid.to_owned() }
}
