//! Inputs of a comparison: a run of the store, or a file of JSON that netcliff wrote.

use std::path::Path;

use netcliff_core::Fingerprint;
use netcliff_host::files;

use super::{Measured, kinds};
use crate::store::{LAST, RunSummary, Store, StoreError, name_and_back};
use crate::stored::{Stored, StoredError, Unfit};

/// Larger files are surely something else (bytes).
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// Name of the content of an empty file.
const NOTHING: &str = "nothing";

/// A run as the user named it.
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

impl From<StoredError> for ReadError {
    fn from(error: StoredError) -> Self {
        let (path, why) = match error {
            StoredError::NotOurs { name, why } => (name, why),
            StoredError::Empty { id, kind, state } => return Self::Empty { id, kind, state },
            StoredError::Store(error) => return Self::Store(error),
        };
        let what = match why {
            Unfit::NotJson(source) => return Self::NotJson { path, source },
            Unfit::Nothing => NOTHING.to_owned(),
            Unfit::OtherKind => "JSON of another kind".to_owned(),
            Unfit::Several(runs) => format!("{runs} runs: name a file of one"),
            Unfit::Damaged(error) => format!("a run that cannot be read: {error}"),
            Unfit::Incomplete(there, of) => format!("{there} of the {of} objects of a run: export it anew, by itself"),
            Unfit::Joined(runs) => format!("{runs} exported runs: name a file of one"),
        };
        Self::NotOurs { path, what }
    }
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
        of_stored(name.to_owned(), Stored::of_json(name, text)?, None, false)
    }

    /// A run of the store.
    ///
    /// # Errors
    /// There is no such run, it has no figures, or the store cannot be read.
    pub fn of_store(store: &Store, source: &Source) -> Result<Self, ReadError> {
        let run = find(store, source)?;
        let stored = Stored::of_run(store, &run)?;
        of_stored(run.title(), stored, store.fingerprint(run.id)?, run.state != "done")
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

/// The points of a result. `fingerprint` and `partial` are the store's, for kinds that do not have them in their result.
fn of_stored(
    name: String,
    stored: Stored,
    fingerprint: Option<Fingerprint>,
    partial: bool,
) -> Result<Measured, ReadError> {
    Ok(match stored {
        Stored::Finding(finding) => kinds::finding(name, *finding),
        Stored::Service(finding) => kinds::service(name, *finding),
        Stored::Records(records) => kinds::records(name, records, fingerprint, partial),
        Stored::Rfc2544(report) => kinds::rfc2544(name, *report, fingerprint),
        Stored::Forwarding(report) => kinds::forwarding(name, *report),
        Stored::Transfers(report) => kinds::transfers(name, *report),
        Stored::Stream(report) => kinds::stream(name, *report),
        Stored::Rr(run) if run.rows.is_empty() => {
            return Err(ReadError::NotOurs { path: name, what: NOTHING.to_owned() });
        }
        Stored::Rr(run) => kinds::rr(name, run),
        Stored::Profile(profile) => kinds::profile(name, *profile),
        Stored::Learned(learned) => kinds::learned(name, *learned),
    })
}
