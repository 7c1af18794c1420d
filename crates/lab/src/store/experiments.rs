//! Runs of experiments: which points have records, which runs can be continued, and which are in progress.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

use netcliff_core::Record;
use netcliff_host::files;
use rusqlite::params;

use super::{RunSummary, Store, StoreError};

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// In progress, or killed.
    Running,
    /// Stopped by the user.
    Interrupted,
    /// All points were tried; some failed.
    Failed,
    /// Each point has a record or was declined.
    Done,
}

impl RunState {
    /// Name of the state in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }
}

/// The lock of a run that this process works on. While it exists, no other process continues the run. The kernel
/// releases it when the process ends, also after kill -9.
#[derive(Debug)]
pub struct Held {
    /// Number of the run.
    pub run: i64,
    path: PathBuf,
    _lock: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        // If the removal fails, an empty file remains, which the next run with that number uses.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Store {
    /// Starts and locks a run of the experiment with this identifier.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin_experiment(&self, experiment: &str, command: &str, started_unix_s: f64) -> Result<Held, StoreError> {
        self.begin_held("run", experiment, command, started_unix_s)
    }

    /// Starts and locks a run of another kind that can be continued.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn begin_held(
        &self,
        kind: &str,
        experiment: &str,
        command: &str,
        started_unix_s: f64,
    ) -> Result<Held, StoreError> {
        self.refuse_removed()?;
        self.connection
            .execute(
                "INSERT INTO run (kind, state, started_unix_s, command, experiment, name)
                 VALUES (?4, 'running', ?1, ?2, ?3, ?5)",
                params![started_unix_s, command, experiment, kind, self.name],
            )
            .map_err(|error| self.sql(error))?;
        let run = self.connection.last_insert_rowid();
        // No other process knows the run's number yet, so only this one can lock it.
        self.hold(run)?.ok_or_else(|| StoreError::Lock {
            path: self.lock_path(run),
            source: std::io::Error::other("the run is held although it is new"),
        })
    }

    fn lock_path(&self, run: i64) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".run-{run}.lock"));
        path.into()
    }

    /// Locks a run. `None` if another process has locked it.
    ///
    /// # Errors
    /// The lock file next to the store cannot be made.
    pub fn hold(&self, run: i64) -> Result<Option<Held>, StoreError> {
        let path = self.lock_path(run);
        let fail = |source: std::io::Error| StoreError::Lock { path: path.clone(), source };
        let file = files::lock(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held { run, path, _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(fail(source)),
        }
    }

    /// The runs of an experiment that are not done, newest first, including one in progress.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn unfinished(&self, experiment: &str) -> Result<Vec<RunSummary>, StoreError> {
        self.summaries("WHERE experiment = ?1 AND state <> 'done' ORDER BY run.id DESC", params![experiment])
    }

    /// Locks the newest unfinished run of an experiment. `None` if it has no unfinished run.
    ///
    /// # Errors
    /// Another process works on that run, the store cannot be read, or the lock file cannot be made.
    pub fn hold_unfinished(&self, experiment: &str) -> Result<Option<Held>, StoreError> {
        let Some(unfinished) = self.unfinished(experiment)?.into_iter().next() else { return Ok(None) };
        let held = self.hold(unfinished.id)?;
        held.map(Some).ok_or(StoreError::UnderWay { run: unfinished.id })
    }

    /// Adds the record of a task. It is stored durably before this returns. A second record of a task is refused.
    ///
    /// # Errors
    /// The store cannot be written, or the task already has a record.
    pub fn add_task(&self, run: i64, task: usize, record: &Record) -> Result<(), StoreError> {
        let json = serde_json::to_string(record).map_err(|source| self.damaged(run, source))?;
        self.connection
            .execute(
                "INSERT INTO record (run, engine, json, task) VALUES (?1, ?2, ?3, ?4)",
                params![run, record.engine.name(), json, task as i64],
            )
            .map_err(|error| self.sql(error))?;
        Ok(())
    }

    /// The records of a run, by task.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn task_records(&self, run: i64) -> Result<BTreeMap<usize, Record>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(i64, i64, String)>> {
            let query = "SELECT id, task, json FROM record WHERE run = ?1 AND task IS NOT NULL";
            let mut statement = self.connection.prepare(query)?;
            statement.query_map(params![run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        };
        let rows = read().map_err(|error| self.sql(error))?;
        rows.into_iter()
            .map(|(id, task, json)| {
                let record = serde_json::from_str(&json).map_err(|source| self.damaged(id, source))?;
                Ok((task as usize, record))
            })
            .collect()
    }

    /// Sets the state of a run.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn set_state(&self, run: i64, state: RunState) -> Result<(), StoreError> {
        self.connection
            .execute("UPDATE run SET state = ?2 WHERE id = ?1", params![run, state.name()])
            .map_err(|error| self.sql(error))?;
        Ok(())
    }
}
