//! The content of a journal file, damaged or not: [`Parsed`].

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

/// A journal file, as far as it can be read. Lines that do not parse are skipped.
#[derive(Debug, Default)]
pub(in crate::journal) struct Parsed {
    /// By its first line; None: that cannot be read.
    pub(in crate::journal) owner: Option<ProcessId>,
    boot: Option<String>,
    /// Changes that have not been taken back, oldest first.
    pub(in crate::journal) open: Vec<Change>,
    lines: usize,
    /// Lines that cannot be read, by their place.
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

    /// Whether a change may be missing. While the owner wrote, a crash can tear the last line, and the change that it announced
    /// was not made; a file without a whole first line was torn before its first change. A journal that was kept was whole.
    pub(super) fn is_damaged(&self, kept: bool) -> bool {
        if kept {
            return self.owner.is_none() || !self.unread.is_empty();
        }
        self.unread.iter().any(|place| place + 1 < self.lines)
    }

    /// Whether what it says can still be in force. If the owner's line cannot be read, the file's time decides.
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

/// The name of an open journal carries its owner, so that a file which is just being written is left alone.
pub(super) fn owner_by_name(path: &Path) -> Option<ProcessId> {
    let mut parts = path.file_stem()?.to_str()?.split('-').map(str::parse::<u64>);
    let (pid, start_time) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some(ProcessId { pid: u32::try_from(pid).unwrap_or(u32::MAX), start_time })
}

/// Kept as evidence, under a name that is not read again.
pub(super) fn put_aside(path: &Path) -> Result<PathBuf, JournalError> {
    let name = |n: u32| path.with_extension(if n == 1 { "damaged".to_owned() } else { format!("{n}.damaged") });
    let aside = (1..=u32::MAX).map(name).find(|aside| !aside.exists()).unwrap_or_else(|| name(1));
    fs::rename(path, &aside).map_err(JournalError::io("move", path))?;
    Ok(aside)
}
