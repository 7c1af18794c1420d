//! The undo journal: each change to the machine is written and synced to disk BEFORE it is made.
//!
//! One file a run, `journal/PID-STARTTIME.jsonl` in the [`StateDir`], one JSON object a line. The first
//! line names the owner; then follow [`Change`]s and, once a change is undone, a line that says so. A
//! clean end removes the file. [`replay`] undoes what dead owners left, newest change first; a file
//! whose owner still runs is left alone, and so is a torn last line (its change was never made).
//!
//! Changes that are to stay (tuning) are kept by [`Journal::keep`], which moves the file to `tuned/`, where only [`undo_kept`]
//! undoes it.

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
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Why the journal or the host lock could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file of the state directory cannot be read or written.
    #[error(
        "cannot {action} {path}: {source}; name a directory of your own, writable by nobody else, with NETCLIFF_STATE_DIR=DIR"
    )]
    Io {
        /// What was tried: create, write, read, lock.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another run holds the host.
    #[error(
        "another netcliff run ({holder}) is measuring or changing this host, and two would disturb each \
         other: wait for it to end (--wait), or stop it"
    )]
    Busy {
        /// The process that holds the lock: its pid, user, command and age, as far as they are known.
        holder: String,
    },
    /// Another user's run is under way.
    #[error(
        "another netcliff run ({other}) is measuring or changing this host, and two would disturb each other: wait for it to end \
         (--wait), measure at the same time (--no-wait), or ask that user"
    )]
    OtherUser {
        /// Its pid, user, command and age.
        other: String,
    },
    /// The user ended the wait for another run.
    #[error("stopped while waiting for another netcliff run ({other})")]
    WaitEnded {
        /// As above.
        other: String,
    },
    /// The run that holds the host had this process started, but the command it waited for has ended.
    #[error(
        "netcliff (pid {pid}) has this host measured by a command that this process no longer belongs to: a command that is \
         measured must not leave a netcliff in the background"
    )]
    LeftBehind {
        /// The process that holds the lock.
        pid: String,
    },
    /// The run that holds the host has it measured by two processes at once.
    #[error(
        "another netcliff (pid {pid}) of the same measured command is measuring this host, and two would disturb each other: \
         let the command run one after the other"
    )]
    Sibling {
        /// The other process.
        pid: String,
    },
}

impl JournalError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
        let path = path.to_owned();
        move |source| JournalError::Io { action, path, source }
    }
}

/// A change to the machine, with all that is needed to take it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A network namespace bind-mounted at `path`, which exists only for it.
    NamespaceCreated {
        /// The mount point, for example `/run/netns/nc-17-snd`.
        path: PathBuf,
    },
    /// A directory that was made; undone by removing it if it is empty.
    DirectoryCreated {
        /// The directory.
        path: PathBuf,
    },
    /// A link made in the namespace this process started in.
    LinkCreated {
        /// Interface name.
        name: String,
    },
    /// A value written to a file below `/proc/sys` or `/sys`.
    SysctlChanged {
        /// The file, for example `/proc/sys/net/core/netdev_budget`.
        path: PathBuf,
        /// Its text before, without the newline; written back by the undo.
        old: String,
        /// The text about to be written.
        new: String,
    },
    /// A [`Setting`] changed by tuning.
    SettingChanged {
        /// Which one.
        setting: Setting,
        /// The network namespace it is seen from, by the number of its file; None: it belongs to the whole host.
        namespace: Option<u64>,
        /// Number of its interface, which a new name does not change; None: it has none, or the record is older.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ifindex: Option<u32>,
        /// Its value before.
        old: String,
        /// The value about to be written.
        new: String,
    },
    /// Settings that what is done to a device may move beside what it is to change.
    SettingsAtRisk {
        /// The device.
        interface: String,
        /// As in [`Change::SettingChanged`].
        namespace: Option<u64>,
        /// As in [`Change::SettingChanged`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ifindex: Option<u32>,
        /// Each with its value before.
        settings: Vec<(Setting, String)>,
    },
    /// A process that was started and has to end with the run.
    ProcessStarted {
        /// Which one.
        process: ProcessId,
    },
}

/// A line of a journal file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    Owner { version: u32, owner: ProcessId, boot_id: Option<String> },
    Change { id: u64, change: Change },
    Undone { id: u64 },
}

/// The number of an interface of this network namespace.
fn index_of(interface: &str) -> Option<u32> {
    if_nametoindex(interface).ok()
}

/// Names a recorded change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangeId(u64);

/// The open journal of this run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Length of the whole lines written so far.
    length_bytes: u64,
    next_id: u64,
    open: Vec<(ChangeId, Change)>,
    /// The changes are to stay: this journal's end does not undo them.
    kept: bool,
}

impl Journal {
    /// Opens a journal for this process. Several may be open at once in one process.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub fn begin(state: &StateDir) -> Result<Journal, JournalError> {
        let owner = ProcessId::current().map_err(JournalError::io("read", Path::new("/proc/self")))?;
        let dir = state.journal_dir()?;
        let (path, file) = create_journal_file(&dir, owner)?;
        let mut journal = Journal { path, file, length_bytes: 0, next_id: 0, open: Vec::new(), kept: false };
        journal.append(&Line::Owner { version: 1, owner, boot_id: boot_id() })?;
        // The name itself must survive a crash, not only the bytes.
        File::open(&dir).and_then(|dir| dir.sync_all()).map_err(JournalError::io("sync", &dir))?;
        Ok(journal)
    }

    /// Writes a change down, synced to disk. Make the change only after this returned `Ok`.
    ///
    /// # Errors
    /// When the journal cannot be written (a full disk, say): then the change must not be made.
    pub fn record(&mut self, change: Change) -> Result<ChangeId, JournalError> {
        let id = ChangeId(self.next_id);
        self.append(&Line::Change { id: id.0, change: change.clone() })?;
        self.next_id += 1;
        self.open.push((id, change));
        Ok(id)
    }

    /// Writes the change of a setting down, in a journal that begins with the first of them.
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

    /// Writes down what the next changes of a device may move, in a journal that begins with the first change. As undoing goes
    /// backwards, they are checked once those changes are undone.
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

    /// Notes that a change has been taken back by other means.
    ///
    /// # Errors
    /// When the journal cannot be written; a later replay then undoes the change once more, harmlessly.
    pub fn undone(&mut self, id: ChangeId) -> Result<(), JournalError> {
        self.open.retain(|(open, _)| *open != id);
        self.append(&Line::Undone { id: id.0 })
    }

    /// Takes every open change back, newest first, and removes the file if all succeeded. What could not be undone stays open,
    /// and in the file for the next start.
    pub fn undo_all(&mut self) -> Vec<UndoOutcome> {
        let (ids, changes): (Vec<ChangeId>, Vec<Change>) = self.open.iter().cloned().unzip();
        // journal/FILE or tuned/FILE of the state directory.
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

    /// Ends this journal without undoing anything: from now on the changes stay until [`undo_kept`]. They are safe at
    /// every instant: before the file is moved a dead run's changes are replayed, after it they are kept.
    ///
    /// # Errors
    /// When the file cannot be moved; the changes are then undone when the journal is dropped.
    pub fn keep(mut self, state: &StateDir) -> Result<PathBuf, JournalError> {
        let dir = state.kept_dir()?;
        let path = (1_u32..).map(|n| dir.join(format!("{n:06}.jsonl"))).find(|path| !path.exists());
        let path = path.unwrap_or_else(|| dir.join("last.jsonl"));
        std::fs::rename(&self.path, &path).map_err(JournalError::io("move", &self.path))?;
        self.kept = true;
        Ok(path)
    }

    /// The changes that have been recorded and not yet undone, oldest first.
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
        // One write: a crash tears at most this line.
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.length_bytes += text.len() as u64,
            // Half a line (a full disk) would swallow the next one: cut it off again.
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
