//! Where the journal and the lock live.

use super::{JournalError, trust};
use crate::testbed::Permission;
use std::{
    env,
    path::{Path, PathBuf},
};

/// The directory of the undo journal and of the host lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// It is the user's usual one, so that its runs and those of other users keep out of each other's way.
    is_shared: bool,
}

impl StateDir {
    /// `$NETCLIFF_STATE_DIR`, else `/run/netcliff` for root (it vanishes at boot, as the changes do),
    /// else `$XDG_STATE_HOME/netcliff`, else `~/.local/state/netcliff`.
    ///
    /// # Errors
    /// When none of these can be named, or the directory cannot be created.
    pub fn default_for_user() -> Result<StateDir, JournalError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = variable("NETCLIFF_STATE_DIR") {
            return StateDir::at(path);
        }
        let path = if Permission::probe() == Permission::Root {
            PathBuf::from("/run/netcliff")
        } else if let Some(path) = variable("XDG_STATE_HOME") {
            path.join("netcliff")
        } else if let Some(path) = variable("HOME") {
            path.join(".local/state/netcliff")
        } else {
            let reason = "neither NETCLIFF_STATE_DIR, XDG_STATE_HOME nor HOME is set";
            return Err(JournalError::io("choose", Path::new("state directory"))(std::io::Error::other(reason)));
        };
        Ok(StateDir { is_shared: true, ..StateDir::at(path)? })
    }

    /// A directory of the caller's choice, created if it does not exist, for this user alone (mode 0700). Runs there exclude
    /// each other, and see nothing of runs elsewhere.
    ///
    /// # Errors
    /// When it cannot be created; it is another user's, or others can change it or what is above it.
    pub fn at(path: impl Into<PathBuf>) -> Result<StateDir, JournalError> {
        let path = path.into();
        private(&path)?;
        Ok(StateDir { path, is_shared: false })
    }

    /// As the user's usual one.
    #[cfg(test)]
    pub(super) fn shared(self) -> StateDir {
        StateDir { is_shared: true, ..self }
    }

    /// Whether runs of other users are looked for.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn journal_dir(&self) -> Result<PathBuf, JournalError> {
        let dir = self.path.join("journal");
        private(&dir)?;
        Ok(dir)
    }

    /// Where journals of changes that are to stay lie.
    pub(crate) fn kept_dir(&self) -> Result<PathBuf, JournalError> {
        let dir = self.path.join("tuned");
        private(&dir)?;
        Ok(dir)
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// The lock among those that measure for the holder of the lock.
    pub(crate) fn shared_lock_path(&self) -> PathBuf {
        self.path.join("lock.shared")
    }
}

fn private(path: &Path) -> Result<(), JournalError> {
    trust::private_directory(path).map_err(JournalError::io("use", path))
}
