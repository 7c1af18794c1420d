//! Reads a journal file, even if it is damaged: [`Parsed`].

use crate::{
    journal::{Change, JournalError, Line},
    process::{ProcessId, boot_id},
    procfs,
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The readable content of a journal file. Lines that do not parse are skipped.
#[derive(Debug, Default)]
pub(in crate::journal) struct Parsed {
    /// The owner in the first line; `None` if that line cannot be read.
    pub(in crate::journal) owner: Option<ProcessId>,
    boot: Option<String>,
    /// Changes that were not undone, the oldest first.
    pub(in crate::journal) open: Vec<Change>,
    lines: usize,
    /// Numbers of the lines that cannot be read.
    unread: Vec<usize>,
}

impl Parsed {
    /// Parses the bytes of a file.
    pub(in crate::journal) fn of(text: &[u8]) -> Parsed {
        let text = String::from_utf8_lossy(text);
        let mut parsed = Parsed { lines: text.lines().count(), ..Parsed::default() };
        let mut open: Vec<(u64, Change)> = Vec::new();
        for (place, line) in text.lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(Line::Owner { owner, boot_id, .. }) if place == 0 => {
                    (parsed.owner, parsed.boot) = (Some(owner), boot_id);
                }
                Ok(Line::Owner { .. }) => {}
                Ok(Line::Change { id, change }) => open.push((id, change)),
                Ok(Line::Undone { id }) => open.retain(|(open, _)| *open != id),
                Err(error) => {
                    tracing::warn!(%error, line, "skipped a journal line");
                    parsed.unread.push(place);
                }
            }
        }
        parsed.open = open.into_iter().map(|(_, change)| change).collect();
        parsed
    }

    /// Whether a change may be missing. A crash of the owner can leave the last line incomplete, but the change in it
    /// was not made; a file without a complete first line contained no change yet. A journal that tuning stored
    /// (`kept`) was complete, so any unreadable line in it counts.
    pub(super) fn is_damaged(&self, kept: bool) -> bool {
        if kept {
            return self.owner.is_none() || !self.unread.is_empty();
        }
        self.unread.iter().any(|place| place + 1 < self.lines)
    }

    /// Whether the changes in the file can still be in force: they were made in this boot. If the line of the owner
    /// cannot be read, the time of the file decides.
    pub(super) fn is_of_this_boot(&self, path: &Path) -> bool {
        match (self.owner, &self.boot) {
            (Some(_), None) => true,
            (Some(_), boot) => *boot == boot_id(),
            (None, _) => is_written_since_boot(path),
        }
    }
}

fn is_written_since_boot(path: &Path) -> bool {
    let uptime_s = procfs::text("/proc/uptime").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let written = fs::metadata(path).and_then(|file| file.modified());
    let (Some(uptime_s), Ok(written)) = (uptime_s, written) else { return true };
    SystemTime::now().checked_sub(Duration::from_secs_f64(uptime_s)).is_none_or(|boot| written >= boot)
}

/// The owner in the name of an open journal, so that a file which is being written now is left alone.
pub(super) fn owner_by_name(path: &Path) -> Option<ProcessId> {
    let mut parts = path.file_stem()?.to_str()?.split('-').map(str::parse::<u64>);
    let (pid, start_time) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some(ProcessId { pid: u32::try_from(pid).unwrap_or(u32::MAX), start_time })
}

/// Renames the file to a name that is not read again, and so keeps it as evidence.
pub(super) fn put_aside(path: &Path) -> Result<PathBuf, JournalError> {
    let name = |n: u32| path.with_extension(if n == 1 { "damaged".to_owned() } else { format!("{n}.damaged") });
    let aside = (1..=u32::MAX).map(name).find(|aside| !aside.exists()).unwrap_or_else(|| name(1));
    fs::rename(path, &aside).map_err(JournalError::io("move", path))?;
    Ok(aside)
}
