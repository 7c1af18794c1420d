//! The record store: any number of processes may read it, one may write it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netcliff_core::Record;
use netcliff_lab::inputs;
use netcliff_lab::store::{self, Held, RunState};
use pyo3::prelude::*;

use crate::errors::Fault;
use crate::plan::Plan;

/// The SQLite store; rows are JSON texts.
#[pyclass(frozen, module = "netcliff._core")]
pub(crate) struct StoreFile {
    inner: Mutex<store::Store>,
    path: PathBuf,
}

/// Returns the given path, or else the default place of the store.
fn place(path: Option<PathBuf>) -> Result<PathBuf, Fault> {
    let usual = || store::default_path(|name| std::env::var(name).ok());
    path.or_else(usual).ok_or_else(|| Fault::usage("there is no place for the record store: set HOME, or give a path"))
}

impl StoreFile {
    fn lock(&self) -> MutexGuard<'_, store::Store> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries the store while the interpreter's lock is released.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&store::Store) -> Result<T, Fault> + Send,
    ) -> PyResult<T> {
        Ok(py.detach(|| question(&self.lock()))?)
    }
}

#[pymethods]
impl StoreFile {
    /// Opens the store for reading. With `keeps`, opens it for storing runs of that experiment, under the experiment's
    /// name.
    #[new]
    #[pyo3(signature = (path = None, keeps = None))]
    fn new(path: Option<PathBuf>, keeps: Option<&Plan>) -> PyResult<Self> {
        let path = place(path)?;
        if keeps.is_none() && !path.exists() {
            return Err(Fault::Store(format!("there is no record store at {}", path.display())).into());
        }
        let inner = match keeps {
            Some(plan) => {
                let store = store::Store::open(&path).map_err(Fault::from)?;
                store.naming(inputs::experiment_name(Path::new(&plan.path)))
            }
            None => store::Store::open_to_read(&path).map_err(Fault::from)?,
        };
        Ok(Self { inner: Mutex::new(inner), path })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Returns the runs, newest first, as JSON.
    fn runs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.ask(py, |store| store.runs()?.iter().map(|run| Ok(serde_json::to_string(run)?)).collect())
    }

    /// Returns the number of the run that a text identifies: a number, a name, `last`, `last~2`.
    fn find(&self, py: Python<'_>, text: &str) -> PyResult<i64> {
        self.ask(py, |store| match store.find(text)? {
            Some(run) => Ok(run.id),
            None => Err(Fault::usage(format!("run \"{text}\" does not exist; {}", store.newest_numbers()?))),
        })
    }

    /// Returns the records of a run as JSON, in the order in which they were added.
    fn records(&self, py: Python<'_>, run: i64) -> PyResult<Vec<String>> {
        self.ask(py, |store| store.records(run)?.iter().map(|record| Ok(serde_json::to_string(record)?)).collect())
    }

    /// Returns the whole result of a run as JSON; `None` if it has none. Runs of `find`, `stream` and some others have
    /// one.
    fn document(&self, py: Python<'_>, run: i64) -> PyResult<Option<String>> {
        self.ask(py, |store| {
            if let Some(finding) = store.finding(run)? {
                return Ok(Some(serde_json::to_string(&finding)?));
            }
            Ok(store.document(run)?.map(|document| document.to_string()))
        })
    }

    /// Begins a run of an experiment or, with `resume`, continues the newest unfinished one.
    fn take_up(&self, py: Python<'_>, plan: &Plan, resume: bool, command: &str) -> PyResult<Run> {
        let provenance = crate::engines::provenance(command.to_owned(), None, Default::default());
        self.ask(py, |store| {
            if resume && let Some(held) = store.hold_unfinished(&plan.inner.id)? {
                store.set_state(held.run, RunState::Running)?;
                return Ok(Run { number: held.run, _held: held });
            }
            let held = store.begin_experiment(&plan.inner.id, &provenance.command, provenance.started_unix_s)?;
            Ok(Run { number: held.run, _held: held })
        })
    }

    /// Returns the records of a run with the index of their tasks.
    fn task_records(&self, py: Python<'_>, run: i64) -> PyResult<Vec<(usize, String)>> {
        self.ask(py, |store| {
            let records = store.task_records(run)?;
            records.iter().map(|(task, record)| Ok((*task, serde_json::to_string(record)?))).collect()
        })
    }

    /// Adds the record of a task, synchronised to disk.
    fn add(&self, py: Python<'_>, run: i64, task: usize, record: &str) -> PyResult<()> {
        let record: Record = serde_json::from_str(record).map_err(Fault::from)?;
        self.ask(py, |store| Ok(store.add_task(run, task, &record)?))
    }

    /// Sets the state of a run: interrupted, failed or done.
    fn set_state(&self, py: Python<'_>, run: i64, state: &str) -> PyResult<()> {
        let known = [RunState::Interrupted, RunState::Failed, RunState::Done];
        let state = known.into_iter().find(|known| known.name() == state);
        let state = state.ok_or_else(|| Fault::usage("state: expected interrupted, failed or done"))?;
        self.ask(py, |store| Ok(store.set_state(run, state)?))
    }
}

/// A run that this process has locked.
#[pyclass(frozen, module = "netcliff._core")]
pub(crate) struct Run {
    #[pyo3(get)]
    number: i64,
    _held: Held,
}
