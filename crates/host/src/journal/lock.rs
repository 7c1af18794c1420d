//! One measuring run at a time on a host.

use super::{JournalError, ReplayReport, StateDir, replay};
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
        // Not truncated on open: until the lock is ours the file names its holder.
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(JournalError::io("open", &path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                file.set_len(0)
                    .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
                    .map_err(JournalError::io("write", &path))?;
                Ok(HostLock { held: Arc::new(Held::Own(file)), state: state.clone() })
            }
            Err((_, Errno::EWOULDBLOCK)) => Err(JournalError::Busy { pid: holder(&path) }),
            Err((_, errno)) => Err(JournalError::io("lock", &path)(errno.into())),
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

fn holder(path: &Path) -> String {
    let pid = fs::read_to_string(path).unwrap_or_default();
    let pid = pid.trim();
    if pid.is_empty() { "unknown".to_owned() } else { pid.to_owned() }
}
