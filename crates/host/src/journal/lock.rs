//! One measuring run at a time on a host.

use super::{JournalError, ReplayReport, StateDir, replay};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::Path,
    sync::Arc,
};

/// Held by the run that measures or changes this host; released when the last clone is dropped and by
/// the kernel when the process dies, so it never goes stale.
#[derive(Debug, Clone)]
pub struct HostLock {
    _file: Arc<Flock<File>>,
    state: StateDir,
}

impl HostLock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// [`JournalError::Busy`] with the holder's pid, or an I/O error of the state directory.
    pub fn acquire(state: &StateDir) -> Result<HostLock, JournalError> {
        let path = state.lock_path();
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
                Ok(HostLock { _file: Arc::new(file), state: state.clone() })
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

    /// The state directory that the lock guards.
    pub fn state(&self) -> &StateDir {
        &self.state
    }
}

fn holder(path: &Path) -> String {
    let pid = fs::read_to_string(path).unwrap_or_default();
    let pid = pid.trim();
    if pid.is_empty() { "unknown".to_owned() } else { pid.to_owned() }
}
