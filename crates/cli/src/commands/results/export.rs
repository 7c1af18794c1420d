//! `netcliff results export` and `import`: results as files, and back.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use netcliff_host::files;
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::{Stored, StoredError};

use super::pick;
use crate::args::run_name;
use crate::output;

/// Larger files are surely something else (bytes).
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// Exports a run to a file, or all of them to a directory. Nothing is overwritten unless `force` is set.
pub(super) fn export(store: &Store, run: Option<&str>, to: &Path, force: bool) -> anyhow::Result<()> {
    if let Some(run) = run {
        let run = pick(store, Some(run))?;
        if store.is_under_way(&run)? {
            return Err(output::usage(super::goes_on(&run)));
        }
        let json = super::stored(store, &run)?.export(&run)?;
        let to = if to.is_dir() { to.join(file_name(&run)) } else { to.to_owned() };
        written(&to, &json, force)?;
        return output::data(&format!("{}\n", to.display()));
    }
    std::fs::create_dir_all(to).map_err(|error| output::usage(format!("-o {}: {error}", to.display())))?;
    for run in store.runs()?.into_iter().rev() {
        if store.is_under_way(&run)? {
            output::say(format!("netcliff: not written: {}", super::goes_on(&run)));
            continue;
        }
        match Stored::of_run(store, &run) {
            Ok(stored) => {
                let path = to.join(file_name(&run));
                written(&path, &stored.export(&run)?, force)?;
                output::data(&format!("{}\n", path.display()))?;
            }
            // An empty run does not keep the others from being written.
            Err(error @ StoredError::Empty { .. }) => output::say(format!("netcliff: not written: {error}")),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

/// `3-find-before.json`: nothing of a name that a file system would read as a path.
fn file_name(run: &RunSummary) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name = run.name.as_ref().map(|name| format!("-{}", name.chars().map(safe).collect::<String>()));
    format!("{}-{}{}.json", run.id, run.kind, name.unwrap_or_default())
}

fn written(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            output::usage(format!("{} is there already; --force overwrites it", path.display()))
        }
        _ => output::usage(format!("cannot write {}: {error}", path.display())),
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Imports files into the store, a run each; all are read before the first is kept. A name in the file is the run's, unless the user
/// `named` it.
pub(super) fn import(store: &Store, paths: &[PathBuf], named: bool) -> anyhow::Result<()> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = files::text(path, LARGEST_FILE_BYTES)
            .map_err(|error| output::usage(format!("cannot read {name}: {error}")))?;
        let (stored, label) = Stored::labelled(&name, &text).map_err(output::usage)?;
        Ok((name, stored, label))
    };
    let all = paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    for (name, stored, label) in all {
        let run = stored.keep(store, label.as_ref())?;
        // A file may be anyone's: a name that nobody could give is left out.
        let own = label.and_then(|label| run_name(&label.name?).ok()).filter(|_| !named);
        if own.is_some() {
            store.rename(run, own.as_deref())?;
        }
        let called = own.map_or(String::new(), |own| format!(" ({own})"));
        output::say(format!("netcliff: {name} is kept as run {run}{called}"));
    }
    Ok(())
}
