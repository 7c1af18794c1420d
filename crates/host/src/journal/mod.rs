//! The undo journal: each change to the machine is written and synced to disk BEFORE it is made.
//!
//! One file per run, `journal/PID-STARTTIME.jsonl` in the [`StateDir`], with one JSON object per line. The first line
//! names the owner; then come [`Change`]s, and a further line for each change that was undone. A run that ends properly
//! removes its file. [`replay`] undoes the changes of dead owners, the newest first. It ignores a file whose owner
//! still runs, and an incomplete last line, whose change was never made.
//!
//! Changes of tuning stay in force after the run: [`Journal::keep`] moves their file to `tuned/`, and only
//! [`undo_kept`] undoes them.

mod lock;
mod others;
mod state_dir;
mod trust;
mod undo;
mod who;

#[cfg(test)]
mod tests;

pub use lock::HostLock;
pub use state_dir::StateDir;
pub use undo::{ReplayReport, UndoOutcome, kept, replay, undo_change, undo_kept};

use crate::{
    process::{ProcessId, boot_id},
    setting::{self, Setting},
};
use nix::net::if_::if_nametoindex;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// An error of the journal or of the host lock.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of the state directory cannot be read or written.
    #[error(
        "cannot {action} {path}: {source}; name a directory of your own, writable by nobody else, with NETCLIFF_STATE_DIR=DIR"
    )]
    Io {
        /// The failed action: create, write, read, lock.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another run of this user holds the lock.
    #[error(
        "another netcliff run ({holder}) is measuring or changing this host, and two would disturb each \
         other: wait for it to end (--wait), or stop it"
    )]
    Busy {
        /// The process that holds the lock: its pid, user, command and age, as far as they are known.
        holder: String,
    },
    /// A run of another user is in progress.
    #[error(
        "another netcliff run ({other}) is measuring or changing this host, and two would disturb each other: wait for it to end \
         (--wait), measure at the same time (--no-wait), or ask that user"
    )]
    OtherUser {
        /// Process id, user, command and age of the run.
        other: String,
    },
    /// The user ended the wait for another run.
    #[error("stopped while waiting for another netcliff run ({other})")]
    WaitEnded {
        /// Process id, user, command and age of the run.
        other: String,
    },
    /// The run that holds the lock started this process, but the command that it waited for has ended.
    #[error(
        "netcliff (pid {pid}) has this host measured by a command that this process no longer belongs to: a command that is \
         measured must not leave a netcliff in the background"
    )]
    LeftBehind {
        /// The process that holds the lock.
        pid: String,
    },
    /// The run that holds the lock already has another process that measures for it.
    #[error(
        "another netcliff (pid {pid}) of the same measured command is measuring this host, and two would disturb each other: \
         let the command run one after the other"
    )]
    Sibling {
        /// Process id of the other process.
        pid: String,
    },
}

impl JournalError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        let path = path.to_owned();
        move |source| JournalError::Io { action, path, source }
    }
}

/// A change to the machine, with all that is needed to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A network namespace was mounted at `path`, a file made for it.
    NamespaceCreated {
        /// The mount point, for example `/run/netns/nc-17-snd`.
        path: PathBuf,
    },
    /// A directory was made; the undo removes it if it is empty.
    DirectoryCreated {
        /// The directory.
        path: PathBuf,
    },
    /// A network interface was made in the namespace in which this process started.
    LinkCreated {
        /// Interface name.
        name: String,
    },
    /// A value was written to a file below `/proc/sys` or `/sys`.
    SysctlChanged {
        /// The file, for example `/proc/sys/net/core/netdev_budget`.
        path: PathBuf,
        /// The file's text before the change, without the newline; the undo writes it back.
        old: String,
        /// The text that the change writes.
        new: String,
    },
    /// Tuning changed a [`Setting`].
    SettingChanged {
        /// The setting.
        setting: Setting,
        /// Inode number of the network namespace in which the setting was changed; `None` if the setting belongs to the
        /// whole host.
        namespace: Option<u64>,
        /// Index of the setting's interface, which does not change when the interface is renamed; `None` if the setting
        /// has no interface, or if an earlier version wrote the record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ifindex: Option<u32>,
        /// The value before the change.
        old: String,
        /// The value that the change writes.
        new: String,
    },
    /// Settings of a device that the next change to it may also alter, because a driver can change several settings at
    /// once.
    SettingsAtRisk {
        /// The device.
        interface: String,
        /// As in [`Change::SettingChanged`].
        namespace: Option<u64>,
        /// As in [`Change::SettingChanged`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ifindex: Option<u32>,
        /// The settings, each with its value before the change.
        settings: Vec<(Setting, String)>,
    },
    /// A process was started that must end with the run.
    ProcessStarted {
        /// The process.
        process: ProcessId,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceCreated { path } => write!(f, "network namespace {}", path.display()),
            Self::DirectoryCreated { path } => write!(f, "directory {}", path.display()),
            Self::LinkCreated { name } => write!(f, "interface {name}"),
            Self::SysctlChanged { path, new, .. } => write!(f, "{} = {new}", path.display()),
            Self::SettingChanged { setting, new, .. } => write!(f, "{setting} = {new}"),
            Self::SettingsAtRisk { interface, .. } => write!(f, "settings of {interface}"),
            Self::ProcessStarted { process } => write!(f, "process {}", process.pid),
        }
    }
}

/// A line of a journal file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    Owner { version: u32, owner: ProcessId, boot_id: Option<String> },
    Change { id: u64, change: Change },
    Undone { id: u64 },
}

/// The number of an interface of this network namespace; `None` if there is no such interface.
fn index_of(interface: &str) -> Option<u32> {
    if_nametoindex(interface).ok()
}

/// Identifies a recorded change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeId(u64);

/// The open journal of this run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Length of the complete lines written so far (bytes).
    length_bytes: u64,
    next_id: u64,
    open: Vec<(ChangeId, Change)>,
    /// Whether [`Journal::keep`] was called: the end of this journal then does not undo the changes.
    kept: bool,
}

impl Journal {
    /// Opens a journal for this process. Several may be open at once in one process.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn begin(state: &StateDir) -> Result<Journal, JournalError> {
        let owner = ProcessId::current().map_err(JournalError::io("read", Path::new("/proc/self")))?;
        let dir = state.journal_dir()?;
        let (path, file) = create_journal_file(&dir, owner)?;
        let mut journal = Journal { path, file, length_bytes: 0, next_id: 0, open: Vec::new(), kept: false };
        journal.append(&Line::Owner { version: 1, owner, boot_id: boot_id() })?;
        // The directory is synced as well, so that the file's name survives a crash.
        File::open(&dir).and_then(|dir| dir.sync_all()).map_err(JournalError::io("sync", &dir))?;
        Ok(journal)
    }

    /// Writes a change to the journal and syncs it to disk. Make the change only after this returned `Ok`.
    ///
    /// # Errors
    /// The journal cannot be written, for example on a full disk; then the change must not be made.
    pub fn record(&mut self, change: Change) -> Result<ChangeId, JournalError> {
        let id = ChangeId(self.next_id);
        self.append(&Line::Change { id: id.0, change: change.clone() })?;
        self.next_id += 1;
        self.open.push((id, change));
        Ok(id)
    }

    /// Records the change of a setting. The first such change opens the journal.
    ///
    /// # Errors
    /// As [`Journal::begin`] and [`Journal::record`].
    pub(crate) fn record_setting(
        journal: &mut Option<Journal>,
        state: &StateDir,
        setting: &Setting,
        (old, new): (&str, &str),
    ) -> Result<(), JournalError> {
        let namespace = setting.is_of_namespace().then(setting::namespace).flatten();
        let ifindex = setting.interface().and_then(index_of);
        let (setting, old, new) = (setting.clone(), old.to_owned(), new.to_owned());
        Self::begun(journal, state)?.record(Change::SettingChanged { setting, namespace, ifindex, old, new }).map(drop)
    }

    /// Records the settings that the next changes to a device may also alter. The first record opens the journal. An
    /// undo goes from the newest record to the oldest, so it checks these settings after it has undone the changes.
    ///
    /// # Errors
    /// As [`Journal::begin`] and [`Journal::record`].
    pub(crate) fn record_at_risk(
        journal: &mut Option<Journal>,
        state: &StateDir,
        interface: &str,
        settings: Vec<(Setting, String)>,
    ) -> Result<(), JournalError> {
        let (namespace, ifindex) = (setting::namespace(), index_of(interface));
        let interface = interface.to_owned();
        Self::begun(journal, state)?
            .record(Change::SettingsAtRisk { interface, namespace, ifindex, settings })
            .map(drop)
    }

    fn begun<'a>(journal: &'a mut Option<Journal>, state: &StateDir) -> Result<&'a mut Journal, JournalError> {
        Ok(match journal {
            Some(journal) => journal,
            none => none.insert(Self::begin(state)?),
        })
    }

    /// Records that a change was undone by other means.
    ///
    /// # Errors
    /// The journal cannot be written. A later replay then undoes the change once more, without harm.
    pub fn undone(&mut self, id: ChangeId) -> Result<(), JournalError> {
        self.open.retain(|(open, _)| *open != id);
        self.append(&Line::Undone { id: id.0 })
    }

    /// Undoes every open change, the newest first, and removes the file if all undos succeed. A change that could not
    /// be undone stays open, and stays in the file for the next start.
    pub fn undo_all(&mut self) -> Vec<UndoOutcome> {
        let (ids, changes): (Vec<ChangeId>, Vec<Change>) = self.open.iter().cloned().unzip();
        // The path is journal/FILE or tuned/FILE in the state directory.
        let home = self.path.ancestors().nth(2).unwrap_or(&self.path);
        let outcomes = undo::undo_changes(&changes, home);
        for (id, outcome) in ids.into_iter().rev().zip(&outcomes) {
            if outcome.error.is_none()
                && let Err(error) = self.undone(id)
            {
                tracing::warn!(%error, "an undone change could not be ticked off");
            }
        }
        if self.open.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
        outcomes
    }

    /// Ends this journal without an undo: the changes stay until [`undo_kept`]. A crash at any moment is safe: before
    /// the file is moved, a replay undoes the changes; afterwards they stay.
    ///
    /// # Errors
    /// The file cannot be moved. The changes are then undone when the journal is dropped.
    pub fn keep(mut self, state: &StateDir) -> Result<PathBuf, JournalError> {
        let dir = state.kept_dir()?;
        let path = (1_u32..).map(|n| dir.join(format!("{n:06}.jsonl"))).find(|path| !path.exists());
        let path = path.unwrap_or_else(|| dir.join("last.jsonl"));
        std::fs::rename(&self.path, &path).map_err(JournalError::io("move", &self.path))?;
        self.kept = true;
        Ok(path)
    }

    /// The changes that were recorded and not yet undone, the oldest first.
    pub fn open_changes(&self) -> impl Iterator<Item = &Change> {
        self.open.iter().map(|(_, change)| change)
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let mut text =
            serde_json::to_string(line).map_err(|error| JournalError::io("write", &self.path)(error.into()))?;
        text.push('\n');
        // A single write, so that a crash leaves at most this line incomplete.
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length_bytes += text.len() as u64,
            // An incomplete line (full disk) would merge with the next one, so it is cut off.
            Err(_) => self.file.set_len(self.length_bytes).map_err(JournalError::io("truncate", &self.path))?,
        }
        written.map_err(JournalError::io("write", &self.path))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for outcome in self.undo_all() {
            if let Some(error) = outcome.error {
                tracing::warn!(change = ?outcome.change, %error, "a change could not be undone");
            }
        }
    }
}

fn create_journal_file(dir: &Path, owner: ProcessId) -> Result<(PathBuf, File), JournalError> {
    for n in 0..u32::MAX {
        let suffix = if n == 0 { String::new() } else { format!("-{n}") };
        let path = dir.join(format!("{}-{}{suffix}.jsonl", owner.pid, owner.start_time));
        match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(JournalError::io("create", &path)(error)),
        }
    }
    Err(JournalError::io("create", dir)(io::Error::other("no free journal name")))
}
