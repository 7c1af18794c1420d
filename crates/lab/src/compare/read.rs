//! Reads the inputs of a comparison: runs of the store, and files of netcliff's JSON.

use std::path::Path;

use netcliff_core::Fingerprint;
use netcliff_host::files;

use super::{Measured, kinds};
use crate::store::{LAST, RunSummary, Store, StoreError, name_and_back};
use crate::stored::{Stored, StoredError, Unfit};

/// Size limit of a file (bytes). A larger one is not netcliff's JSON.
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// Description of an empty file's content, for messages.
const NOTHING: &str = "nothing";

/// A run as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The newest comparable run (0), or the run this many runs before it.
    Last(usize),
    /// The run of this number.
    Run(i64),
    /// The newest run of this name (0), or the run this many runs before it.
    Named(String, usize),
    /// A file.
    File(String),
}

impl Source {
    /// Parses `last`, `last~2`, the number of a run, or a file. A text that is no existing file may also be a
    /// [`Self::named`] run.
    pub fn parse(text: &str) -> Self {
        match name_and_back(text) {
            (LAST, back) => Self::Last(back),
            _ => text.parse().map_or_else(|_| Self::File(text.to_owned()), Self::Run),
        }
    }

    /// Parses the name of a run: `new-kernel`, or `new-kernel~1` for the run before it.
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
    /// The file is not JSON.
    #[error("{path} is not JSON: {source}; write it with `netcliff ... --json > FILE`")]
    NotJson {
        /// The file.
        path: String,
        /// Error of the JSON parser, with line and column.
        source: serde_json::Error,
    },
    /// The file contains JSON of something else.
    #[error(
        "{path} holds {what}: expected what `stream`, `rr`, `run`, `rfc2544`, `find`, `predict` or `simulate` print with --json"
    )]
    NotOurs {
        /// The file, or the run.
        path: String,
        /// Description of the content.
        what: String,
    },
    /// There is no such run.
    #[error("there is no run {wanted} in {path}; {newest}")]
    NoSuchRun {
        /// The run as the user named it.
        wanted: String,
        /// The store.
        path: String,
        /// Numbers of the newest runs in the store, for the message.
        newest: String,
    },
    /// The run has no results.
    #[error("run {id} (`{kind}`, {state}) has no figures to compare")]
    Empty {
        /// Number of the run.
        id: i64,
        /// Kind of the run.
        kind: String,
        /// State of the run: how it ended.
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
    /// Reads a file of JSON: a single object, or one per line.
    ///
    /// # Errors
    /// The file cannot be read, or netcliff did not write it.
    pub fn of_file(path: &str) -> Result<Self, ReadError> {
        let failed = |source| ReadError::File { path: path.to_owned(), source };
        let text = files::text(Path::new(path), LARGEST_FILE_BYTES).map_err(failed)?;
        Self::of_json(path, &text)
    }

    /// Reads the text of such a file. `name` is its name in messages and on pages.
    ///
    /// # Errors
    /// The text is not JSON, or netcliff did not write it.
    pub fn of_json(name: &str, text: &str) -> Result<Self, ReadError> {
        of_stored(name.to_owned(), Stored::of_json(name, text)?, None, false)
    }

    /// Reads a run of the store.
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

/// Converts a result into points. `fingerprint` and `partial` come from the store, for kinds of results that do not
/// contain them.
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
