//! Undoes changes. Every undo may be repeated: a thing that no longer exists counts as undone.

mod bounds;
mod file;
mod settings;

use super::{Change, JournalError, StateDir, trust};
use crate::{process::ProcessId, procfs, rtnl, system, testbed::NETNS_DIR};
use serde::Serialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(super) use file::Parsed;

/// The result of one undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoOutcome {
    /// The change that was to be undone.
    pub change: Change,
    /// A remark on an undo that succeeded, for example that somebody else had changed the value since.
    pub note: Option<String>,
    /// Why the change could not be undone; `None` if it was undone.
    pub error: Option<String>,
}

impl UndoOutcome {
    /// Whether there was nothing to undo and nothing to report: the settings at risk had not changed.
    pub fn is_silent(&self) -> bool {
        matches!(self.change, Change::SettingsAtRisk { .. }) && self.note.is_none() && self.error.is_none()
    }
}

/// The result of [`replay`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// The undos of the changes of dead owners, in order (the newest change first).
    pub outcomes: Vec<UndoOutcome>,
    /// Owners that still run; their changes were not touched.
    pub alive: Vec<ProcessId>,
    /// Damaged journal files: what could be read in them was undone, and they were renamed to these names. A file that
    /// does not name its owner was left in place.
    pub unreadable: Vec<PathBuf>,
    /// Journal files that were ignored because they do not belong to this user, with the reason, as sentences.
    pub refused: Vec<String>,
    /// Runs of other users that continue at the same time, as sentences.
    pub other_runs: Vec<String>,
}

impl ReplayReport {
    /// Whether nothing is left to undo.
    pub fn is_clean(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.error.is_none())
    }

    /// The damaged journals and what was done with them, as sentences.
    pub fn damaged(&self) -> Vec<String> {
        let sentence = |path: &PathBuf| {
            let aside = path.extension().is_some_and(|extension| extension == "damaged");
            let path = path.display();
            match aside {
                true => format!(
                    "a journal is damaged: what could be read in it was set back; it is put aside as {path}: look into it for the \
                     rest, then remove it"
                ),
                false => format!("{path} is damaged and does not say whose it is: it was left alone; remove it"),
            }
        };
        self.unreadable.iter().map(sentence).chain(self.refused.iter().cloned()).collect()
    }

    /// What dead runs left and could not be undone, as sentences. One sentence names all namespaces that another mount
    /// covers.
    pub fn left_over(&self) -> Vec<String> {
        let covered: Vec<&str> = self.outcomes.iter().filter_map(covered_namespace).collect();
        let others = self.outcomes.iter().filter(|outcome| covered_namespace(outcome).is_none());
        let others = others.filter_map(|outcome| Some((&outcome.change, outcome.error.as_ref()?)));
        let others =
            others.map(|(change, error)| format!("a killed run left {change}, which could not be undone: {error}"));
        let covered = (!covered.is_empty()).then(|| describe_covered(&covered));
        others.chain(covered).chain(self.damaged()).chain(self.other_runs.iter().cloned()).collect()
    }
}

/// Largest number of namespaces that a sentence names.
const NAMED: usize = 4;

/// Name of the namespace that an undo could not remove because another mount covers it.
fn covered_namespace(outcome: &UndoOutcome) -> Option<&str> {
    match &outcome.change {
        Change::NamespaceCreated { path } if outcome.error.as_deref() == Some(COVERED) => path.file_name()?.to_str(),
        _ => None,
    }
}

/// A sentence on namespaces that another mount covers: how they limit the result, and how they are removed.
fn describe_covered(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (noun, they, change, them) = match names.len() {
        1 => ("network namespace", "it", "changes", "it"),
        _ => ("network namespaces", "they", "change", "them"),
    };
    format!(
        "a killed run left the {noun} {}{more}: another mount on {NETNS_DIR} covers {them}, so that {they} cannot be removed; {they} \
         {change} no setting of this host; a reboot removes {them}, or the next run after `umount {NETNS_DIR}`",
        names[..names.len().min(NAMED)].join(", ")
    )
}

/// Undoes the changes of dead runs. It may be called at every start and any number of times.
///
/// # Errors
/// The state directory cannot be read. Changes that could not be undone are in the report.
pub fn replay(state: &StateDir) -> Result<ReplayReport, JournalError> {
    let dir = state.journal_dir()?;
    let mut report = ReplayReport::default();
    for name in procfs::names(&dir).iter().filter(|name| name.ends_with(".jsonl")) {
        replay_file(&dir.join(name), state.path(), false, &mut report)?;
    }
    Ok(report)
}

/// Undoes the changes that tuning left in force ([`super::Journal::keep`]), the newest first. A change that cannot be
/// undone stays in its file.
///
/// # Errors
/// As [`replay`].
pub fn undo_kept(state: &StateDir) -> Result<ReplayReport, JournalError> {
    let mut report = ReplayReport::default();
    for path in kept_files(state)?.iter().rev() {
        replay_file(path, state.path(), true, &mut report)?;
    }
    Ok(report)
}

/// The changes of tuning that were left in force ([`super::Journal::keep`]) since this boot, the oldest first.
///
/// # Errors
/// As [`replay`].
pub fn kept(state: &StateDir) -> Result<Vec<Change>, JournalError> {
    let mut changes = Vec::new();
    for path in kept_files(state)? {
        let Ok(text) = trust::read(&path).map_err(JournalError::io("read", &path))? else { continue };
        let parsed = Parsed::of(&text);
        if parsed.is_of_this_boot(&path) {
            changes.extend(parsed.open);
        }
    }
    Ok(changes)
}

fn kept_files(state: &StateDir) -> Result<Vec<PathBuf>, JournalError> {
    let dir = state.kept_dir()?;
    Ok(procfs::names(&dir).iter().filter(|name| name.ends_with(".jsonl")).map(|name| dir.join(name)).collect())
}

/// Undoes the changes of one journal file. `kept`: the owner left the changes in force on purpose, so they are undone
/// even if it still runs.
fn replay_file(path: &Path, home: &Path, kept: bool, report: &mut ReplayReport) -> Result<(), JournalError> {
    let read = match trust::read(path) {
        // The run ended properly after the directory was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(JournalError::io("read", path))?,
    };
    let text = match read {
        Ok(text) => text,
        Err(why) => {
            let path = path.display();
            report.refused.push(format!("{path} was not obeyed: {why}; look into it, then remove it"));
            return Ok(());
        }
    };
    let parsed = Parsed::of(&text);
    // A reboot removed namespaces, links, processes and sysctl values. Writing sysctls back now would overwrite what
    // the new boot configured.
    let same_boot = parsed.is_of_this_boot(path);
    if same_boot && !kept {
        match parsed.owner.or_else(|| file::owner_by_name(path)) {
            None => {
                report.unreadable.push(path.to_owned());
                return Ok(());
            }
            Some(owner) if owner.is_alive() => {
                report.alive.push(owner);
                return Ok(());
            }
            Some(_) => {}
        }
    }
    let mut all_undone = true;
    if same_boot {
        let undone = undo_changes(&parsed.open, home);
        all_undone = undone.iter().all(|outcome| outcome.error.is_none());
        report.outcomes.extend(undone);
    }
    if all_undone && same_boot && parsed.is_damaged(kept) {
        report.unreadable.push(file::put_aside(path)?);
    } else if all_undone {
        fs::remove_file(path).map_err(JournalError::io("remove", path))?;
    }
    Ok(())
}

/// Undoes changes in two rounds, each from the newest to the oldest. An offload can be restored only after the offload
/// that it depends on, and restoring the latter may change the former once more. The returned errors are from the
/// second round.
pub(super) fn undo_changes(oldest_first: &[Change], home: &Path) -> Vec<UndoOutcome> {
    let first: Vec<UndoOutcome> = oldest_first.iter().rev().map(|change| undo_within(change, home)).collect();
    let again = |first: UndoOutcome| {
        let second = undo_within(&first.change, home);
        // Undoing an older change may have reset what the first round had restored: a change of the channels resets
        // settings of a queue.
        let note = if first.error.is_none() { first.note } else { second.note };
        UndoOutcome { note, ..second }
    };
    first.into_iter().map(again).collect()
}

/// Undoes one change, if it is of a kind that netcliff makes.
pub fn undo_change(change: &Change) -> UndoOutcome {
    undo_within(change, Path::new(NETNS_DIR))
}

/// Undoes one change; `home` is the state directory, in which netcliff may have made directories.
pub(super) fn undo_within(change: &Change, home: &Path) -> UndoOutcome {
    let result = bounds::check(change, home).and_then(|()| undone(change));
    let (note, error) = match result {
        Ok(note) => (note, None),
        Err(error) => (None, Some(error.to_string())),
    };
    UndoOutcome { change: change.clone(), note, error }
}

type Undone = io::Result<Option<String>>;

/// Why a namespace cannot be removed. `ip netns` mounts /run/netns on itself; mounts made there before are then below
/// that mount, where umount2(2) does not find them, and the kernel removes no file on which something is mounted.
const COVERED: &str = "another mount on /run/netns covers it";

fn undone(change: &Change) -> Undone {
    match change {
        Change::NamespaceCreated { path } => undo_namespace(path),
        Change::DirectoryCreated { path } => undo_directory(path),
        Change::LinkCreated { name } => undo_link(name),
        Change::SysctlChanged { path, old, new } => undo_sysctl(path, old, new),
        Change::SettingChanged { setting, namespace, ifindex, old, new } => {
            settings::undo_setting(setting, (*namespace, *ifindex), old, new)
        }
        Change::SettingsAtRisk { settings, namespace, ifindex, .. } => {
            settings::undo_at_risk(settings, (*namespace, *ifindex))
        }
        Change::ProcessStarted { process } => process.end().map(|()| None),
    }
}

fn undo_namespace(path: &Path) -> Undone {
    match system::detach_mount(path) {
        // EINVAL: the file exists but the namespace was never mounted on it.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => return Err(error),
        _ => {}
    }
    match gone(fs::remove_file(path)) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(io::Error::new(error.kind(), COVERED)),
        other => other,
    }
}

fn undo_directory(path: &Path) -> Undone {
    match fs::remove_dir(path) {
        // Busy: something is mounted on it, as `ip netns` does with /run/netns.
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy) => {
            Ok(Some(format!("{} is in use by others and stays", path.display())))
        }
        other => gone(other),
    }
}

fn undo_link(name: &str) -> Undone {
    rtnl::Rtnl::new().delete_link(name).map(|()| None)
}

fn undo_sysctl(path: &Path, old: &str, new: &str) -> Undone {
    let current = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(format!("{} does not exist any more", path.display())));
        }
        other => other?,
    };
    if same_words(&current, old) {
        return Ok(None);
    }
    fs::write(path, old)?;
    let note = (!same_words(&current, new))
        .then(|| format!("{} held {:?}, not {new:?}, before it was set back", path.display(), current.trim()));
    Ok(note)
}

/// Whether two texts have the same words: the kernel returns tabs where it accepted spaces.
fn same_words(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn gone(result: io::Result<()>) -> Undone {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(|()| None),
    }
}
