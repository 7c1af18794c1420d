//! Where the journal and the lock live.

use super::{JournalError, trust};
use crate::{process, testbed::Permission};
use std::{
    env,
    path::{Path, PathBuf},
};

/// What a state directory holds.
const STATE: [&str; 3] = ["lock", "journal", "tuned"];

/// The directory of the undo journal and of the host lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// It is the user's usual one, so that its runs and those of other users keep out of each other's way.
    is_shared: bool,
}

impl StateDir {
    /// `$NETCLIFF_STATE_DIR` ([`StateDir::at`]), else `/run/netcliff` for root (it vanishes at boot, as the changes do),
    /// else `$XDG_STATE_HOME/netcliff`, else `~/.local/state/netcliff`.
    ///
    /// # Errors
    /// When none of these can be named, or the directory cannot be created.
    pub fn default_for_user() -> Result<StateDir, JournalError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = variable("NETCLIFF_STATE_DIR") {
            if path.is_absolute() {
                return StateDir::at(path);
            }
            let why = "the path is relative: a run elsewhere would not find what one here left";
            return Err(JournalError::io("use", &path)(std::io::Error::other(why)));
        }
        // A relative one is no base directory (XDG Base Directory Specification).
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

    /// A directory of the caller's choice, created if it does not exist, for this user alone (mode 0700). In one that others can enter,
    /// as /tmp, it is a directory `netcliff` of its own: what is there stays as it is. Runs there exclude each other, and see nothing
    /// of runs elsewhere.
    ///
    /// # Errors
    /// When it cannot be created; it is another user's, or others can change it or what is above it; it holds a state that others can
    /// enter.
    pub fn at(path: impl Into<PathBuf>) -> Result<StateDir, JournalError> {
        let path = path.into();
        let own = path.join("netcliff");
        let state_in = |dir: &Path| STATE.into_iter().find(|name| dir.join(name).symlink_metadata().is_ok());
        let path = match trust::is_shared(&path).map_err(JournalError::io("use", &path))? {
            // One that was shared before: what is in its own directory is not forgotten.
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
        private(&dir, true)?;
        Ok(dir)
    }

    /// Where journals of changes that are to stay lie.
    pub(crate) fn kept_dir(&self) -> Result<PathBuf, JournalError> {
        let dir = self.path.join("tuned");
        private(&dir, true)?;
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

    /// What the user owns is never changed to fit.
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
        // Changed without the sticky bit, by anyone: refused.
        assert!(of(0o777).unwrap_err().contains("every user"));
        // Its state is found where it was left, whatever becomes of the mode.
        fs::write(own.join("lock"), "").unwrap();
        assert_eq!(of(0o700).unwrap(), own);
        fs::create_dir(dir.path().join("journal")).unwrap();
        assert!(of(0o755).unwrap_err().contains("holds journal"));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(StateDir::at(&file).unwrap_err().to_string().contains("no directory"));
    }
}
