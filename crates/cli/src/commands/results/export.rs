//! `netcliff results export` and `import`: results as files, and back.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use netcliff_host::files::{self, Form};
use netcliff_lab::store::{RunSummary, Store};
use netcliff_lab::stored::{Label, Stored, StoredError};
use netcliff_report::format;

use super::pick;
use crate::args::run_name;
use crate::commands::write_as;
use crate::output;

/// Largest file that is imported (bytes). A larger file is not netcliff's.
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// Most characters of a run's kind and of its name in a file name. File systems limit the whole name to 255 bytes, and
/// a character has up to four.
const LONGEST: (usize, usize) = (12, 45);

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
    let mut failed = Vec::new();
    std::fs::create_dir_all(to).map_err(|error| output::usage(format!("-o {}: {error}", to.display())))?;
    for run in store.runs()?.into_iter().rev() {
        if store.is_under_way(&run)? {
            output::say(format!("netcliff: not written: {}", super::goes_on(&run)));
            continue;
        }
        // A run that is empty, damaged or cannot be written does not prevent the export of the others.
        let path = to.join(file_name(&run));
        let write = |stored: Stored| written(&path, &stored.export(&run)?, force);
        match Stored::of_run(store, &run) {
            Err(error @ StoredError::Empty { .. }) => output::say(format!("netcliff: not written: {error}")),
            read => match read.map_err(anyhow::Error::from).and_then(write) {
                Ok(()) => output::data(&format!("{}\n", path.display()))?,
                Err(error) => {
                    output::say(format!("netcliff: {} not written: {}", run.title(), output::sentence_of(&error)));
                    failed.push(error);
                }
            },
        }
    }
    let message = match failed.len() {
        0 => return Ok(()),
        1 => "1 run was not written".to_owned(),
        several => format!("{several} runs were not written"),
    };
    Err(if failed.iter().all(|error| error.is::<output::Usage>()) {
        output::usage(message)
    } else {
        anyhow::Error::msg(message)
    })
}

/// Name of a run's file, such as `3-find-before.json`, without characters that a file system reads as part of a path.
fn file_name(run: &RunSummary) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let safe = |text: &str, longest| -> String { text.chars().map(safe).take(longest).collect() };
    let name = run.name.as_ref().map(|name| format!("-{}", safe(name, LONGEST.1)));
    // A database may come from anyone, so its kinds may contain any text.
    format!("{}-{}{}.json", run.id, safe(&run.kind, LONGEST.0), name.unwrap_or_default())
}

fn written(path: &Path, json: &str, force: bool) -> anyhow::Result<()> {
    let form = Form { is_new: !force, ..Form::default() };
    write_as(path, &format::json(json), form).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            output::usage(format!("{} is there already; --force overwrites it", path.display()))
        }
        // The disk is full, or fails: not the user's error.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::Other => {
            anyhow::anyhow!("cannot write {}: {error}", path.display())
        }
        _ => output::usage(format!("cannot write {}: {error}", path.display())),
    })
}

/// Imports files into the store, each as a run: either all or none. A name in the file becomes the run's name, unless
/// the user gave one (`named`).
pub(super) fn import(store: &Store, paths: &[PathBuf], named: bool) -> anyhow::Result<()> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = files::text(path, LARGEST_FILE_BYTES)
            .map_err(|error| output::usage(format!("cannot read {name}: {error}")))?;
        let (stored, label) = Stored::labelled(&name, &text).map_err(output::usage)?;
        Ok((name, stored, label))
    };
    let all = paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let keep = |(name, stored, label): (String, Stored, Option<Label>)| -> anyhow::Result<String> {
        let run = stored.keep(store, label.as_ref())?;
        // The file may come from anyone: a name that is not valid for a run is left out.
        let own = label.and_then(|label| run_name(&label.name?).ok()).filter(|_| !named);
        if own.is_some() {
            store.rename(run, own.as_deref())?;
        }
        let called = own.map_or(String::new(), |own| format!(" ({own})"));
        Ok(format!("netcliff: {name} is stored as run {run}{called}"))
    };
    let kept = store.atomically(|| all.into_iter().map(keep).collect::<anyhow::Result<Vec<_>>>())?;
    kept.iter().for_each(output::say);
    Ok(())
}
