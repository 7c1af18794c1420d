//! Finds the directory of the journal and the lock.

use super::{JournalError, trust};
use crate::{process, testbed::Permission};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Files and directories in a state directory.
const STATE: [&str; 3] = ["lock", "journal", "tuned"];

/// The directory of the undo journal and of the host lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// Whether this is the user's usual directory: its runs and other users' runs then avoid each other.
    is_shared: bool,
}

impl StateDir {
    /// Returns `$NETCLIFF_STATE_DIR` (see [`StateDir::at`]); without that variable `/run/netcliff` for root, which a
    /// reboot clears like the changes themselves; for other users `$XDG_STATE_HOME/netcliff` or
    /// `~/.local/state/netcliff`.
    ///
    /// # Errors
    /// No directory can be named, or it cannot be created.
    pub fn default_for_user() -> Result<StateDir, JournalError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = variable("NETCLIFF_STATE_DIR") {
            if path.is_absolute() {
                return StateDir::at(path);
            }
            let why = "the path is relative: a run elsewhere would not find what one here left";
            return Err(JournalError::io("use", &path)(std::io::Error::other(why)));
        }
        // The XDG Base Directory Specification ignores relative paths.
        let absolute = |name| variable(name).filter(|path| path.is_absolute());
        let path = if Permission::probe() == Permission::Root {
            PathBuf::from("/run/netcliff")
        } else if let Some(path) = absolute("XDG_STATE_HOME") {
            path.join("netcliff")
        } else if let Some(path) = absolute("HOME").or_else(process::home_directory) {
            path.join(".local/state/netcliff")
        } else {
            let reason = "neither NETCLIFF_STATE_DIR, XDG_STATE_HOME nor HOME names a directory";
            return Err(JournalError::io("choose", Path::new("state directory"))(std::io::Error::other(reason)));
        };
        private(&path, true)?;
        Ok(StateDir { path, is_shared: true })
    }

    /// A directory that the caller chooses, created for this user only (mode 0700) if it does not exist. If others can
    /// enter it (as /tmp), the state is in a directory `netcliff` inside, and the chosen directory is not changed. Runs
    /// with this directory exclude each other, and see no runs with other directories.
    ///
    /// # Errors
    /// The directory cannot be created; or it belongs to another user; or others can change it or a directory above it;
    /// or it already holds a state and others can enter it.
    pub fn at(path: impl Into<PathBuf>) -> Result<StateDir, JournalError> {
        let path = path.into();
        let own = path.join("netcliff");
        let state_in = |dir: &Path| STATE.into_iter().find(|name| dir.join(name).symlink_metadata().is_ok());
        let path = match trust::is_shared(&path).map_err(JournalError::io("use", &path))? {
            // Others could enter the directory before; the state in its subdirectory is still used.
            false if state_in(&own).is_none() => path,
            false => own,
            true => match state_in(&path) {
                None => own,
                Some(name) => {
                    let why = format!("others can enter it, and it holds {name}: if that is netcliff's, chmod 700 it");
                    return Err(JournalError::io("use", &path)(std::io::Error::other(why)));
                }
            },
        };
        private(&path, false)?;
        Ok(StateDir { path, is_shared: false })
    }

    /// Marks this as the user's usual directory.
    #[cfg(test)]
    pub(super) fn shared(self) -> StateDir {
        StateDir { is_shared: true, ..self }
    }

    /// Whether this run looks for runs of other users.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn journal_dir(&self) -> Result<PathBuf, JournalError> {
        let dir = self.path.join("journal");
        private(&dir, true)?;
        Ok(dir)
    }

    /// Directory of the journals whose changes stay in force after the run.
    pub(crate) fn kept_dir(&self) -> Result<PathBuf, JournalError> {
        let dir = self.path.join("tuned");
        private(&dir, true)?;
        Ok(dir)
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Lock file for the processes that measure for the lock's holder.
    pub(crate) fn shared_lock_path(&self) -> PathBuf {
        self.path.join("lock.shared")
    }
}

fn private(path: &Path, is_ours: bool) -> Result<(), JournalError> {
    trust::private_directory(path, is_ours).map_err(JournalError::io("use", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    /// A directory of the user is never changed.
    #[test]
    fn a_directory_of_the_users_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let of = |mode: u32| {
            fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let named = StateDir::at(dir.path()).map(|state| state.path().to_owned());
            assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o7777, mode);
            named.map_err(|error| error.to_string())
        };
        let own = dir.path().join("netcliff");
        assert_eq!(of(0o700).unwrap(), dir.path());
        for mode in [0o1777, 0o755, 0o750] {
            assert_eq!(of(mode).unwrap(), own);
            assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        // Others can change the directory and it has no sticky bit: refused.
        assert!(of(0o777).unwrap_err().contains("every user"));
        // The state is found again even if the directory's mode changed.
        fs::write(own.join("lock"), "").unwrap();
        assert_eq!(of(0o700).unwrap(), own);
        fs::create_dir(dir.path().join("journal")).unwrap();
        assert!(of(0o755).unwrap_err().contains("holds journal"));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(StateDir::at(&file).unwrap_err().to_string().contains("no directory"));
    }
}
