//! Taking changes back. Every undo is idempotent: a thing that is already gone counts as undone.

mod settings;

use super::{Change, JournalError, Line, StateDir};
use crate::{
    process::{ProcessId, boot_id},
    procfs, rtnl,
};
use nix::{errno::Errno, mount::MntFlags};
use std::{
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

/// What became of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoOutcome {
    /// The change.
    pub change: Change,
    /// Something worth telling although the undo succeeded, for example that a value had been
    /// changed by someone else since.
    pub note: Option<String>,
    /// Why it is still there; `None` when it has been undone.
    pub error: Option<String>,
}

impl UndoOutcome {
    /// Whether there was nothing to do, nor to tell: what was at risk had not been touched.
    pub fn is_silent(&self) -> bool {
        matches!(self.change, Change::SettingsAtRisk { .. }) && self.note.is_none() && self.error.is_none()
    }
}

/// What [`replay`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Changes of dead owners, in the order in which they were undone (newest first).
    pub outcomes: Vec<UndoOutcome>,
    /// Owners that still run; their changes were left alone.
    pub alive: Vec<ProcessId>,
    /// Journal files that hold no readable owner line, or a damaged line that was not the last: what it said to undo is not
    /// known. They were left, what could be read in them undone.
    pub unreadable: Vec<PathBuf>,
}

impl ReplayReport {
    /// Whether nothing was left to undo or all of it was undone.
    pub fn is_clean(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.error.is_none())
    }
}

/// Undoes what dead runs left behind. Safe to call at every start and as often as one likes.
///
/// # Errors
/// When the state directory itself cannot be read; what could not be undone is in the report.
pub fn replay(state: &StateDir) -> Result<ReplayReport, JournalError> {
    let dir = state.journal_dir()?;
    let mut report = ReplayReport::default();
    for name in procfs::names(&dir).iter().filter(|name| name.ends_with(".jsonl")) {
        replay_file(&dir.join(name), false, &mut report)?;
    }
    Ok(report)
}

/// Undoes the changes that tuning keeps, newest first. What cannot be undone stays written down.
///
/// # Errors
/// As [`replay`].
pub fn undo_kept(state: &StateDir) -> Result<ReplayReport, JournalError> {
    let mut report = ReplayReport::default();
    for path in kept_files(state)?.iter().rev() {
        replay_file(path, true, &mut report)?;
    }
    Ok(report)
}

/// The changes of this boot that tuning keeps, oldest first.
///
/// # Errors
/// As [`replay`].
pub fn kept(state: &StateDir) -> Result<Vec<Change>, JournalError> {
    let mut changes = Vec::new();
    for path in kept_files(state)? {
        let text = fs::read(&path).map_err(JournalError::io("read", &path))?;
        if let Some((_, boot, open)) = parse(&String::from_utf8_lossy(&text))
            && (boot.is_none() || boot == boot_id())
        {
            changes.extend(open);
        }
    }
    Ok(changes)
}

fn kept_files(state: &StateDir) -> Result<Vec<PathBuf>, JournalError> {
    let dir = state.kept_dir()?;
    Ok(procfs::names(&dir).iter().filter(|name| name.ends_with(".jsonl")).map(|name| dir.join(name)).collect())
}

/// `kept`: the owner has ended its part, whether it still runs or not.
fn replay_file(path: &Path, kept: bool, report: &mut ReplayReport) -> Result<(), JournalError> {
    let text = match fs::read(path) {
        // A run that ended cleanly between the listing and here.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(JournalError::io("read", path))?,
    };
    let (owner, boot, open) = match parse(&String::from_utf8_lossy(&text)) {
        Some(parsed) => parsed,
        None if kept => {
            report.unreadable.push(path.to_owned());
            return Ok(());
        }
        None => return drop_headless(path, report),
    };
    // A reboot took namespaces, links, processes and sysctls with it; undoing sysctls now would
    // overwrite what the new boot was configured with.
    let same_boot = boot.is_none() || boot == boot_id();
    if same_boot && !kept && owner.is_alive() {
        report.alive.push(owner);
        return Ok(());
    }
    let mut all_undone = true;
    if same_boot {
        let undone = undo_changes(&open);
        all_undone = undone.iter().all(|outcome| outcome.error.is_none());
        report.outcomes.extend(undone);
    }
    if all_undone && same_boot && is_damaged(&text) {
        // Kept as evidence, under a name that is not read again.
        let aside = path.with_extension("damaged");
        fs::rename(path, &aside).map_err(JournalError::io("move", path))?;
        report.unreadable.push(aside);
        return Ok(());
    }
    if all_undone {
        fs::remove_file(path).map_err(JournalError::io("remove", path))?;
    }
    Ok(())
}

/// A line that does not parse and is not the last, which alone a crash can tear.
fn is_damaged(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    let Some((_, whole)) = lines.split_last() else { return false };
    whole.iter().any(|line| serde_json::from_str::<Line>(line).is_err())
}

/// A file without an owner line was torn before its first change could be made. Its name carries the
/// owner, so that a file which is just being written is not removed.
fn drop_headless(path: &Path, report: &mut ReplayReport) -> Result<(), JournalError> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut parts = stem.split('-').map(str::parse::<u64>);
    let (Some(Ok(pid)), Some(Ok(start_time))) = (parts.next(), parts.next()) else {
        report.unreadable.push(path.to_owned());
        return Ok(());
    };
    let owner = ProcessId { pid: u32::try_from(pid).unwrap_or(u32::MAX), start_time };
    if owner.is_alive() {
        report.alive.push(owner);
        return Ok(());
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    if text.lines().count() > 1 {
        // Changes follow an owner line that cannot be read: keep the evidence.
        report.unreadable.push(path.to_owned());
        return Ok(());
    }
    fs::remove_file(path).map_err(JournalError::io("remove", path))
}

type Parsed = (ProcessId, Option<String>, Vec<Change>);

/// Owner, boot and open changes. Lines that do not parse are skipped: only the last can be torn, and
/// the change it announced was not made.
pub(super) fn parse(text: &str) -> Option<Parsed> {
    let mut lines = text.lines();
    let Line::Owner { owner, boot_id, .. } = serde_json::from_str(lines.next()?).ok()? else {
        return None;
    };
    let mut open: Vec<(u64, Change)> = Vec::new();
    for line in lines {
        match serde_json::from_str(line) {
            Ok(Line::Change { id, change }) => open.push((id, change)),
            Ok(Line::Undone { id }) => open.retain(|(open, _)| *open != id),
            Ok(Line::Owner { .. }) => {}
            Err(error) => tracing::warn!(%error, line, "skipped a journal line"),
        }
    }
    Some((owner, boot_id, open.into_iter().map(|(_, change)| change).collect()))
}

/// Takes changes back, newest first, in two rounds: an offload does not hold before the one that it depends on is back, and may
/// be moved by it. Errors are those of the second round.
pub(super) fn undo_changes(oldest_first: &[Change]) -> Vec<UndoOutcome> {
    let first: Vec<UndoOutcome> = oldest_first.iter().rev().map(undo_change).collect();
    let again = |first: UndoOutcome| {
        let second = undo_change(&first.change);
        // What was undone at once may since have gone with an older change, such as a queue with the channels.
        let note = if first.error.is_none() { first.note } else { second.note };
        UndoOutcome { note, ..second }
    };
    first.into_iter().map(again).collect()
}

/// Takes one change back.
pub fn undo_change(change: &Change) -> UndoOutcome {
    let result = match change {
        Change::NamespaceCreated { path } => undo_namespace(path),
        Change::DirectoryCreated { path } => undo_directory(path),
        Change::LinkCreated { name } => undo_link(name),
        Change::SysctlChanged { path, old, new } => undo_sysctl(path, old, new),
        Change::SettingChanged { setting, namespace, old, new } => {
            settings::undo_setting(setting, *namespace, old, new)
        }
        Change::SettingsAtRisk { settings, namespace, .. } => settings::undo_at_risk(settings, *namespace),
        Change::ProcessStarted { process } => undo_process(*process),
    };
    let (note, error) = match result {
        Ok(note) => (note, None),
        Err(error) => (None, Some(error.to_string())),
    };
    UndoOutcome { change: change.clone(), note, error }
}

type Undone = io::Result<Option<String>>;

fn undo_namespace(path: &Path) -> Undone {
    match nix::mount::umount2(path, MntFlags::MNT_DETACH) {
        // EINVAL: the file exists but the namespace was never mounted on it.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    gone(fs::remove_file(path))
}

fn undo_directory(path: &Path) -> Undone {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Ok(Some(format!("{} is in use by others and stays", path.display())))
        }
        other => gone(other),
    }
}

fn undo_link(name: &str) -> Undone {
    rtnl::Rtnl::new().delete_link(name).map(|()| None)
}

fn undo_sysctl(path: &Path, old: &str, new: &str) -> Undone {
    let inside = ["/proc/sys", "/sys"].iter().any(|root| path.starts_with(root));
    if !inside || path.components().any(|part| part.as_os_str() == "..") {
        return Err(io::Error::other(format!(
            "{} is not below /proc/sys or /sys, so it is not written",
            path.display()
        )));
    }
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

/// The kernel answers with tabs where it took spaces.
fn same_words(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn undo_process(process: ProcessId) -> Undone {
    let pid = libc::pid_t::try_from(process.pid).map_err(io::Error::other)?;
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = match Errno::result(fd) {
        Err(Errno::ESRCH) => return Ok(None),
        other => RawFd::try_from(other?).map_err(io::Error::other)?,
    };
    // SAFETY: the descriptor was just returned by the kernel and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Checked after the descriptor is held: from here on the pid cannot be reused under our feet.
    if !process.is_alive() {
        return Ok(None);
    }
    // SAFETY: a valid pidfd, a signal number, no siginfo, no flags.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    match Errno::result(sent) {
        Ok(_) | Err(Errno::ESRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn gone(result: io::Result<()>) -> Undone {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(|()| None),
    }
}
