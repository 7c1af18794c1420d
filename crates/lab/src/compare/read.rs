//! What a comparison is given: a run of the store, or a file of JSON that netcliff wrote.

use std::path::Path;

use netcliff_core::{Fingerprint, Record};
use netcliff_host::files;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Measured, kinds};
use crate::store::{LAST, RunSummary, Store, StoreError, name_and_back};

/// Larger files are surely something else (bytes).
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// What the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The newest run that can be compared, less so many.
    Last(usize),
    /// The run of this number.
    Run(i64),
    /// The newest run of this name, less so many.
    Named(String, usize),
    /// A file.
    File(String),
}

impl Source {
    /// `last`, `last~2`, the number of a run, or else a file. What is neither may still be a [`Self::named`] run.
    pub fn parse(text: &str) -> Self {
        match name_and_back(text) {
            (LAST, back) => Self::Last(back),
            _ => text.parse().map_or_else(|_| Self::File(text.to_owned()), Self::Run),
        }
    }

    /// `new-kernel`, or `new-kernel~1` for the one before it.
    pub fn named(text: &str) -> Self {
        let (name, back) = name_and_back(text);
        Self::Named(name.to_owned(), back)
    }
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; a run of the store is named by its number, its name or last, last~1")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is not JSON.
    #[error("{path} is not JSON: {source}; write it with `netcliff ... --json > FILE`")]
    NotJson {
        /// The file.
        path: String,
        /// Line and column.
        source: serde_json::Error,
    },
    /// It is JSON of something else.
    #[error(
        "{path} holds {what}: expected what `stream`, `rr`, `run`, `rfc2544`, `find`, `predict` or `simulate` print with --json"
    )]
    NotOurs {
        /// The file, or the run.
        path: String,
        /// What was found.
        what: String,
    },
    /// There is no such run.
    #[error("there is no run {wanted} in {path}; {newest}")]
    NoSuchRun {
        /// As it was named.
        wanted: String,
        /// The store.
        path: String,
        /// Which runs there are.
        newest: String,
    },
    /// The run has nothing yet.
    #[error("run {id} (`{kind}`, {state}) has no figures to compare")]
    Empty {
        /// Its number.
        id: i64,
        /// Its kind.
        kind: String,
        /// How it ended.
        state: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Measured {
    /// A file of JSON, one object or one a line.
    ///
    /// # Errors
    /// It cannot be read, or is not what netcliff wrote.
    pub fn of_file(path: &str) -> Result<Self, ReadError> {
        let failed = |source| ReadError::File { path: path.to_owned(), source };
        let text = files::text(Path::new(path), LARGEST_FILE_BYTES).map_err(failed)?;
        Self::of_json(path, &text)
    }

    /// The text of such a file; `name` is how errors and pages name it.
    ///
    /// # Errors
    /// It is not JSON, or not what netcliff wrote.
    pub fn of_json(name: &str, text: &str) -> Result<Self, ReadError> {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        let values = values.map_err(|source| ReadError::NotJson { path: name.to_owned(), source })?;
        of_values(name, values, None, false)
    }

    /// A run of the store.
    ///
    /// # Errors
    /// There is no such run, it has no figures, or the store cannot be read.
    pub fn of_store(store: &Store, source: &Source) -> Result<Self, ReadError> {
        let run = find(store, source)?;
        let name = match &run.name {
            Some(name) => format!("run {} ({name})", run.id),
            None => format!("run {}", run.id),
        };
        if let Some(finding) = store.finding(run.id)? {
            return Ok(kinds::finding(name, finding));
        }
        if let Some(document) = store.document(run.id)? {
            return of_values(&name, rows_of(document), store.fingerprint(run.id)?, run.state != "done");
        }
        let records = store.records(run.id)?;
        if records.is_empty() {
            return Err(ReadError::Empty { id: run.id, kind: run.kind, state: run.state });
        }
        let fingerprint = store.fingerprint(run.id)?;
        Ok(kinds::records(name, records, fingerprint, run.state != "done"))
    }
}

/// A document of several records in one, as `rr` keeps them: its records.
fn rows_of(mut document: Value) -> Vec<Value> {
    let several = document.get("kind").is_some_and(|kind| kind == "rr") && document.get("rows").is_some();
    match document.get_mut("rows").filter(|_| several).map(Value::take) {
        Some(Value::Array(rows)) => rows,
        _ => vec![document],
    }
}

fn find(store: &Store, source: &Source) -> Result<RunSummary, ReadError> {
    let is_over = |run: &RunSummary| run.state != "running";
    let found = match source {
        Source::Run(id) => store.run(*id)?,
        Source::Last(back) => store.newest(LAST, *back, is_over)?,
        Source::Named(name, back) => store.newest(name, *back, is_over)?,
        Source::File(_) => None,
    };
    match found {
        Some(run) => Ok(run),
        None => Err(no_such(store, source)?),
    }
}

fn no_such(store: &Store, source: &Source) -> Result<ReadError, StoreError> {
    let newest = |name: &str, back: usize| if back == 0 { name.to_owned() } else { format!("{name}~{back}") };
    Ok(ReadError::NoSuchRun {
        wanted: match source {
            Source::Last(back) => newest(LAST, *back),
            Source::Named(name, back) => newest(name, *back),
            Source::Run(id) => id.to_string(),
            Source::File(path) => path.clone(),
        },
        path: store.path().display().to_string(),
        newest: store.newest_numbers()?,
    })
}

/// Which kind of run these objects are.
fn of_values(
    name: &str,
    values: Vec<Value>,
    fingerprint: Option<Fingerprint>,
    partial: bool,
) -> Result<Measured, ReadError> {
    let has = |keys: &[&str]| !values.is_empty() && values.iter().all(|v| keys.iter().all(|key| v.get(key).is_some()));
    let owned = name.to_owned();
    if has(&["point", "engine", "outcome"]) {
        return Ok(kinds::records(owned, all::<Record>(name, values)?, fingerprint, partial));
    }
    let of_kind = |wanted: &str| {
        !values.is_empty() && values.iter().all(|value| value.get("kind").is_some_and(|kind| kind == wanted))
    };
    if of_kind("rr") {
        return Ok(kinds::rr(owned, all(name, values)?));
    }
    if of_kind("forwarding") {
        return Ok(kinds::forwarding(owned, single(name, values)?));
    }
    if of_kind("rfc2544") {
        return Ok(kinds::rfc2544(owned, single(name, values)?, fingerprint));
    }
    if of_kind("transfer") {
        return Ok(kinds::transfers(owned, single(name, values)?));
    }
    if has(&["clock", "rows", "asked"]) {
        return Ok(kinds::stream(owned, single(name, values)?));
    }
    if has(&["cliff_pps", "sweep"]) {
        return Ok(kinds::finding(owned, single(name, values)?));
    }
    let what = if values.is_empty() { "nothing" } else { "JSON of another kind" };
    Err(ReadError::NotOurs { path: name.to_owned(), what: what.to_owned() })
}

/// The only object of a file that can hold but one.
fn single<T: DeserializeOwned>(name: &str, mut values: Vec<Value>) -> Result<T, ReadError> {
    match (values.len(), values.pop()) {
        (1, Some(value)) => one_of(name, value),
        (several, _) => {
            Err(ReadError::NotOurs { path: name.to_owned(), what: format!("{several} runs: name a file of one") })
        }
    }
}

fn one_of<T: DeserializeOwned>(name: &str, value: Value) -> Result<T, ReadError> {
    serde_json::from_value(value).map_err(|error| ReadError::NotOurs {
        path: name.to_owned(),
        what: format!("a run that cannot be read: {error}"),
    })
}

fn all<T: DeserializeOwned>(name: &str, values: Vec<Value>) -> Result<Vec<T>, ReadError> {
    values.into_iter().map(|value| one_of(name, value)).collect()
}
