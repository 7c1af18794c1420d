//! The record store: one SQLite file. Its schema is migrated forward. Writes are transactions, so that no record is
//! lost or half written.

mod experiments;
mod keep;
mod schema;

use std::cell::RefCell;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netcliff_core::{Finding, Fingerprint, Record};
use netcliff_host::files;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

pub use experiments::{Held, RunState};
pub(crate) use keep::{LAST, name_and_back};

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory cannot be made, or the file cannot be opened.
    #[error("cannot open the record store {path}: {reason}; choose another place with --db FILE")]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A newer netcliff wrote the file.
    #[error(
        "the record store {path} has schema {found}, this netcliff knows up to {known}: use a newer netcliff or --db FILE"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Schema version of the file.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// A read or write failed; nothing was half written.
    #[error("the record store {path}: {source}; nothing was half written")]
    Sql {
        /// The file.
        path: PathBuf,
        /// SQLite's reason (a full disk is named here).
        source: rusqlite::Error,
    },
    /// A stored record cannot be read back.
    #[error("record {id} in {path} cannot be read: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Number of the record's row.
        id: i64,
        /// What is wrong with the record's JSON.
        source: serde_json::Error,
    },
    /// Another process works on the run that should be continued.
    #[error("run {run} of this experiment is under way in another netcliff")]
    UnderWay {
        /// Number of the run.
        run: i64,
    },
    /// The lock file of a run, next to the store, cannot be made.
    #[error("cannot write {path}: {source}; choose another place with --db FILE")]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Kinds of runs. The same names are used in the list, its filter, its JSON and file names. An experiment of `run` has
/// the kind `run` if it consists of points, or `forwarding` or `transfer` as its file says.
pub const KINDS: [&str; 12] = [
    "find",
    "service",
    "learn",
    "profile",
    "predict",
    "simulate",
    "run",
    "forwarding",
    "transfer",
    "stream",
    "rr",
    "rfc2544",
];

/// Whether runs of this kind consist of records. Others have a single result.
pub fn has_records(kind: &str) -> bool {
    matches!(kind, "find" | "predict" | "simulate" | "run")
}

/// A run as `results list` shows it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSummary {
    /// Number of the run.
    pub id: i64,
    /// Kind of the run: `find`, `service`, `learn`, `profile`, `predict`, `simulate`, `run`, `forwarding`, `transfer`,
    /// `stream`, `rr` or `rfc2544`.
    pub kind: String,
    /// State of the run: `running` (also if it was killed), `partial`, `interrupted`, `failed` or `done`.
    pub state: String,
    /// Name given with `--name`; otherwise the name of the experiment, or `learn` for a run of `learn --repeat`; absent if
    /// the run has none of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Start of the run, in seconds since the epoch (UTC).
    pub started_unix_s: f64,
    /// Command line of the run.
    pub command: String,
    /// Number of records in the store; 0 if the run has a single result instead.
    pub records: i64,
    /// Identifier of the host's fingerprint; `null` if the run stored none, as for computed results.
    pub fingerprint_id: Option<String>,
}

impl RunSummary {
    /// Name of the run in messages: `run 3 (new-kernel)`.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("run {} ({name})", self.id),
            None => format!("run {}", self.id),
        }
    }
}

/// The open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    /// Name for the runs that this process starts. `None`: no name.
    name: Option<String>,
    /// Locks of the runs that this process works on. The lock of an experiment belongs to the caller that started it.
    held: RefCell<Vec<Held>>,
    /// What this process created for the store. `None` if the store existed.
    made: Option<Made>,
    /// The opened file. `None` if it does not exist and was not to be created.
    file: Option<StoreFile>,
}

/// A file by its absolute path, device and inode.
#[derive(Debug, PartialEq)]
struct StoreFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl StoreFile {
    fn at(path: &Path) -> std::io::Result<Self> {
        let about = std::fs::metadata(path)?;
        Ok(Self { path: path.to_owned(), device: about.dev(), inode: about.ino() })
    }

    /// Whether its path still leads to this file.
    fn is_there(&self) -> bool {
        Self::at(&self.path).is_ok_and(|now| now == *self)
    }
}

/// What was created for a new store.
#[derive(Debug)]
struct Made {
    /// Process that created it. After a fork, the child has a copy of this value.
    process: u32,
    /// The directories, the deepest first.
    directories: Vec<PathBuf>,
}

/// Default path of the store: `$XDG_DATA_HOME/netcliff/records.db`, otherwise `~/.local/share/netcliff/records.db`.
/// `None` if neither variable is set. `environment` looks up a variable, so that this function reads no global state.
pub fn default_path(environment: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let directory = |name| environment(name).filter(|dir| dir.starts_with('/')).map(PathBuf::from);
    let base = directory("XDG_DATA_HOME").or_else(|| Some(directory("HOME")?.join(".local/share")))?;
    Some(base.join("netcliff/records.db"))
}

/// Creates the file of a new store, readable only by this user; SQLite would use the umask. An existing file keeps its
/// mode. Returns whether the file is new.
fn make(path: &Path) -> std::io::Result<bool> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        // A store in a read-only directory can still be read.
        Err(_) if path.exists() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a new store that contains nothing, so that a failed command leaves nothing behind.
impl Drop for Store {
    fn drop(&mut self) {
        let Some(made) = self.made.take().filter(|made| made.process == std::process::id()) else { return };
        // No other process can start a run between the check and the removal. `begin` refuses a process that opened the
        // file earlier.
        let is_empty = || -> rusqlite::Result<bool> {
            self.connection.busy_timeout(std::time::Duration::ZERO)?;
            self.connection.execute_batch("ROLLBACK").ok();
            self.connection.execute_batch("BEGIN EXCLUSIVE")?;
            let empty = "SELECT NOT EXISTS (SELECT 1 FROM run) AND NOT EXISTS (SELECT 1 FROM setting)";
            self.connection.query_row(empty, [], |row| row.get(0))
        };
        if let Some(file) = self.file.as_ref().filter(|file| is_empty().unwrap_or(false) && file.is_there()) {
            let _ = std::fs::remove_file(&file.path);
            made.directories.iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
        }
    }
}

impl Store {
    /// Opens `path`. If necessary, creates it and its directory for this user alone, and updates its schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_as(path, true)
    }

    /// Opens `path` to change the runs in it. If the store does not exist, it is treated as empty and not created: it
    /// would be removed again, and another process that opened the file in between could not start a run in it.
    ///
    /// # Errors
    /// An error of [`Store::open`].
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        Self::open_as(path, false)
    }

    /// Like [`Store::open_existing`], but refuses changes.
    ///
    /// # Errors
    /// An error of [`Store::open`].
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let store = Self::open_existing(path)?;
        store.connection.pragma_update(None, "query_only", true).map_err(|error| store.sql(error))?;
        Ok(store)
    }

    /// Opens `path`. If the store does not exist, `makes` decides whether it is created, or replaced by an empty one in
    /// memory.
    fn open_as(path: &Path, makes: bool) -> Result<Self, StoreError> {
        let fail = |reason: String| StoreError::Open { path: path.to_owned(), reason };
        // SQLite would write a journal next to a device, and wait for a pipe.
        files::refuse_other_than_file(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput => fail(format!("it {error}")),
            _ => fail(error.to_string()),
        })?;
        if let Some(why) = path.ancestors().find_map(files::linked_by_others) {
            return Err(fail(why));
        }
        let missing = path.ancestors().skip(1).take_while(|parent| !parent.as_os_str().is_empty() && !parent.exists());
        let directories: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        if let Some(parent) = path.parent().filter(|parent| makes && !parent.as_os_str().is_empty()) {
            files::private_directory(parent).map_err(|error| fail(format!("{}: {error}", parent.display())))?;
        }
        // Use the absolute path: SQLite gives names such as `:memory:` or `file:x?mode=memory` a special meaning.
        let file = std::path::absolute(path).map_err(|error| fail(error.to_string()))?;
        let made = makes && make(&file).map_err(|error| fail(error.to_string()))?;
        let made = made.then(|| Made { process: std::process::id(), directories });
        let opened = match StoreFile::at(&file) {
            Err(error) if !makes && error.kind() == std::io::ErrorKind::NotFound => None,
            found => Some(found.map_err(|error| fail(error.to_string()))?),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let flags = if makes { flags } else { flags.difference(OpenFlags::SQLITE_OPEN_CREATE) };
        let connection = match &opened {
            Some(_) => Connection::open_with_flags(&file, flags),
            None => Connection::open_in_memory(),
        };
        let mut connection = connection.map_err(|error| fail(error.to_string()))?;
        connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(|error| fail(error.to_string()))?;
        schema::migrate(&mut connection, path)?;
        Ok(Self { path: path.to_owned(), connection, name: None, held: RefCell::default(), made, file: opened })
    }

    /// Sets the name of the runs that are started from now on, unless one is set already.
    #[must_use]
    pub fn naming(mut self, name: Option<String>) -> Self {
        self.name = self.name.take().or(name);
        self
    }

    /// Path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses to start a run in a file that was removed or replaced, where nobody would find it.
    fn refuse_removed(&self) -> Result<(), StoreError> {
        if self.file.as_ref().is_some_and(StoreFile::is_there) {
            return Ok(());
        }
        let reason = "its file was removed or replaced since it was opened: repeat the command".to_owned();
        Err(StoreError::Open { path: self.path.clone(), reason })
    }

    fn sql(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Sql { path: self.path.clone(), source }
    }

    /// Starts a run in state `running` and locks it until it is finished. Add its records by [`Store::add`].
    pub fn begin(&self, kind: &str, command: &str, started_unix_s: f64) -> Result<i64, StoreError> {
        self.refuse_removed()?;
        self.connection
            .execute(
                "INSERT INTO run (kind, state, started_unix_s, command, name) VALUES (?1, 'running', ?2, ?3, ?4)",
                params![kind, started_unix_s, command, self.name],
            )
            .map_err(|error| self.sql(error))?;
        let run = self.connection.last_insert_rowid();
        // No other process knows the run's number yet, so this one gets the lock.
        self.held.borrow_mut().extend(self.hold(run)?);
        Ok(run)
    }

    /// Runs `work` in one transaction. If it fails, the store is unchanged.
    ///
    /// # Errors
    /// An error of `work`, or the store cannot be written.
    pub fn atomically<T, E: From<StoreError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sql = |text: &str| self.connection.execute_batch(text).map_err(|error| self.sql(error));
        sql("BEGIN IMMEDIATE")?;
        let held = self.held.borrow().len();
        let done = work().and_then(|done| sql("COMMIT").map(|()| done).map_err(E::from));
        if done.is_err() {
            // SQLite may have ended the transaction itself, for example because the disk is full.
            let _ = sql("ROLLBACK");
            self.held.borrow_mut().truncate(held);
        }
        done
    }

    /// Releases the lock of a run that is over, so that other processes may remove it.
    fn release(&self, run: i64) {
        self.held.borrow_mut().retain(|held| held.run != run);
    }

    /// Adds a record to a run. It is stored durably before this returns.
    pub fn add(&self, run: i64, record: &Record) -> Result<(), StoreError> {
        let json = serde_json::to_string(record).map_err(|source| self.damaged(run, source))?;
        self.connection
            .execute(
                "INSERT INTO record (run, engine, json) VALUES (?1, ?2, ?3)",
                params![run, record.engine.name(), json],
            )
            .map_err(|error| self.sql(error))?;
        Ok(())
    }

    /// Stores the fingerprint of a run's host.
    pub fn set_fingerprint(&self, run: i64, fingerprint: &Fingerprint) -> Result<(), StoreError> {
        let id = fingerprint.id();
        let json = serde_json::to_string(fingerprint).map_err(|source| self.damaged(run, source))?;
        let write = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            transaction.execute("INSERT OR IGNORE INTO fingerprint (id, json) VALUES (?1, ?2)", params![id, json])?;
            transaction.execute("UPDATE run SET fingerprint = ?2 WHERE id = ?1", params![run, id])?;
            transaction.commit()
        };
        write().map_err(|error| self.sql(error))
    }

    /// Ends a run. The finding is stored as a whole, in addition to the run's records.
    pub fn finish(&self, run: i64, partial: bool, finding: Option<&Finding>) -> Result<(), StoreError> {
        let state = if partial { "partial" } else { "done" };
        let json = finding.map(serde_json::to_string).transpose().map_err(|source| self.damaged(run, source))?;
        self.connection
            .execute("UPDATE run SET state = ?2, finding = ?3 WHERE id = ?1", params![run, state, json])
            .map_err(|error| self.sql(error))?;
        self.release(run);
        Ok(())
    }

    /// Ends a run whose result is neither records nor a finding, and stores the result as a whole.
    pub fn finish_document(&self, run: i64, partial: bool, document: &impl serde::Serialize) -> Result<(), StoreError> {
        let state = if partial { "partial" } else { "done" };
        let json = serde_json::to_string(document).map_err(|source| self.damaged(run, source))?;
        self.connection
            .execute("UPDATE run SET state = ?2, document = ?3 WHERE id = ?1", params![run, state, json])
            .map_err(|error| self.sql(error))?;
        self.release(run);
        Ok(())
    }

    /// Stores the results so far of a run that continues.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_document(&self, run: i64, document: &impl serde::Serialize) -> Result<(), StoreError> {
        let json = serde_json::to_string(document).map_err(|source| self.damaged(run, source))?;
        self.connection
            .execute("UPDATE run SET document = ?2 WHERE id = ?1", params![run, json])
            .map_err(|error| self.sql(error))?;
        Ok(())
    }

    /// The result that [`Store::finish_document`] stored, if any.
    pub fn document(&self, run: i64) -> Result<Option<serde_json::Value>, StoreError> {
        let json: Option<Option<String>> = self
            .connection
            .query_row("SELECT document FROM run WHERE id = ?1", params![run], |row| row.get(0))
            .optional()
            .map_err(|error| self.sql(error))?;
        json.flatten().map(|json| serde_json::from_str(&json).map_err(|source| self.damaged(run, source))).transpose()
    }

    /// The fingerprint of a run's host, if it has one.
    ///
    /// # Errors
    /// The store cannot be read, or the fingerprint is damaged.
    pub fn fingerprint(&self, run: i64) -> Result<Option<Fingerprint>, StoreError> {
        let query =
            "SELECT fingerprint.json FROM fingerprint JOIN run ON run.fingerprint = fingerprint.id WHERE run.id = ?1";
        let json: Option<String> = self
            .connection
            .query_row(query, params![run], |row| row.get(0))
            .optional()
            .map_err(|error| self.sql(error))?;
        json.map(|json| serde_json::from_str(&json).map_err(|source| self.damaged(run, source))).transpose()
    }

    /// All runs, newest first.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.summaries("ORDER BY run.id DESC", params![])
    }

    /// The run with this number. `None` if there is no such run.
    pub fn run(&self, id: i64) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.summaries("WHERE run.id = ?1", params![id])?.pop())
    }

    fn summaries(&self, clause: &str, values: impl rusqlite::Params) -> Result<Vec<RunSummary>, StoreError> {
        let query = format!(
            "SELECT id, kind, state, started_unix_s, command, fingerprint, name,
                    (SELECT count(*) FROM record WHERE record.run = run.id) FROM run {clause}"
        );
        let read = || -> rusqlite::Result<Vec<RunSummary>> {
            let mut statement = self.connection.prepare(&query)?;
            let rows = statement.query_map(values, |row| {
                Ok(RunSummary {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    state: row.get(2)?,
                    started_unix_s: row.get(3)?,
                    command: row.get(4)?,
                    fingerprint_id: row.get(5)?,
                    name: row.get(6)?,
                    records: row.get(7)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|error| self.sql(error))
    }

    /// The records of a run, in the order in which they were added.
    pub fn records(&self, run: i64) -> Result<Vec<Record>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(i64, String)>> {
            let mut statement = self.connection.prepare("SELECT id, json FROM record WHERE run = ?1 ORDER BY id")?;
            statement.query_map(params![run], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = read().map_err(|error| self.sql(error))?;
        rows.into_iter()
            .map(|(id, json)| serde_json::from_str(&json).map_err(|source| self.damaged(id, source)))
            .collect()
    }

    /// The finding of a run, if it has one.
    pub fn finding(&self, run: i64) -> Result<Option<Finding>, StoreError> {
        let json: Option<Option<String>> = self
            .connection
            .query_row("SELECT finding FROM run WHERE id = ?1", params![run], |row| row.get(0))
            .optional()
            .map_err(|error| self.sql(error))?;
        json.flatten().map(|json| serde_json::from_str(&json).map_err(|source| self.damaged(run, source))).transpose()
    }

    fn damaged(&self, id: i64, source: serde_json::Error) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), id, source }
    }
}

#[cfg(test)]
mod tests;
