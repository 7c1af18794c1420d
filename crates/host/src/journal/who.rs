//! Describes the process of another run from /proc: its user, command and age.

use super::trust;
use crate::{
    process::{ProcessId, parent_of},
    procfs,
};
use netcliff_core::quote::is_unseen;
use std::fmt;

/// Most characters of a command that are shown.
const SHOWN: usize = 60;
/// The user id that a user namespace shows for a user without an id in it.
const UNKNOWN_USER: u32 = 65_534;
/// Most ancestors that are examined; a process of a measurement has fewer.
const GENERATIONS: usize = 64;

/// The process of a run. A value that /proc does not show is `None`. The user of the process chooses the command line,
/// so it is only shown, never interpreted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Who {
    pub(super) pid: u32,
    /// Effective user id.
    pub(super) uid: Option<u32>,
    command: Option<String>,
    /// Age of the process (s).
    age_s: Option<f64>,
}

impl Who {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, uid: user_of(pid), command: command_of(pid), age_s: age_of(pid) }
    }
}

impl fmt::Display for Who {
    /// Formats the process, for example as `pid 17 of user alice (1000), "netcliff find --quick", running for 3 min`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)?;
        match self.uid.filter(|uid| *uid != UNKNOWN_USER || knows_all_users()) {
            Some(uid) => write!(f, " of {}", trust::user(uid))?,
            None => write!(f, " of another user")?,
        }
        self.command.iter().try_for_each(|command| write!(f, ", \"{command}\""))?;
        self.age_s.iter().try_for_each(|age_s| write!(f, ", running for {}", span(*age_s)))
    }
}

/// The effective user id of a process.
pub(super) fn user_of(pid: u32) -> Option<u32> {
    let status = procfs::text(format!("/proc/{pid}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process with this id is an ancestor of the calling process. A command left in the background gets
/// another parent when its parent ends.
pub(super) fn is_ancestor(holder: &str) -> bool {
    let Ok(holder) = holder.parse::<u32>() else { return false };
    let ancestors = std::iter::successors(Some(std::process::id()), |pid| parent_of(*pid));
    ancestors.skip(1).take(GENERATIONS).any(|pid| pid == holder)
}

/// Whether every user of the host has an id in this process's user namespace; false in a namespace that maps fewer ids.
fn knows_all_users() -> bool {
    let map = procfs::whole("/proc/self/uid_map");
    map.split_whitespace().map(str::parse).eq([Ok(0_u32), Ok(0), Ok(u32::MAX)])
}

/// The command line on one line, with the program's directory removed, shortened if it is long.
fn command_of(pid: u32) -> Option<String> {
    let line = procfs::text(format!("/proc/{pid}/cmdline"))?;
    let (program, rest) = line.split_once('\0').unwrap_or((&line, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let whole = format!("{program} {}", rest.trim_end_matches('\0').replace('\0', " "));
    let plain = |c: char| if is_unseen(c) || c == '"' { '?' } else { c };
    let mut shown: String = whole.trim().chars().map(plain).take(SHOWN).collect();
    if whole.trim().chars().count() > SHOWN {
        shown.push_str("...");
    }
    (!shown.is_empty()).then_some(shown)
}

fn age_of(pid: u32) -> Option<f64> {
    // SAFETY: sysconf takes a number and touches no memory.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let uptime_s: f64 = procfs::text("/proc/uptime")?.split_whitespace().next()?.parse().ok()?;
    let age_s = uptime_s - ProcessId::of(pid)?.start_time as f64 / ticks_per_s;
    (ticks_per_s > 0.0 && age_s >= 0.0).then_some(age_s)
}

/// A duration such as `40 s`, `3 min` or `2 h 5 min`.
fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match (whole / 3600, whole / 60 % 60) {
        (0, 0) => format!("{whole} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_user_command_and_age() {
        let own = Who::of(std::process::id());
        assert_eq!(own.uid, Some(nix::unistd::geteuid().as_raw()));
        let told = own.to_string();
        assert!(told.starts_with(&format!("pid {} of ", own.pid)) && told.contains(", running for "), "{told}");
        assert!(own.command.is_some_and(|command| !command.contains('/') || !command.starts_with('/')));
        // For a process that does not exist nothing is known.
        let none = Who::of(u32::MAX);
        assert_eq!(none, Who { pid: u32::MAX, uid: None, command: None, age_s: None });
        assert_eq!(none.to_string(), format!("pid {} of another user", u32::MAX));
    }

    /// The user of a process chooses its command line, which must not control a terminal, end a sentence or fill the
    /// screen.
    #[test]
    fn a_command_is_one_short_line() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x", "\u{1b}[2J\"\n", "a\u{202e}b\u{2069}c\u{200b}d\u{feff}", &"0".repeat(500)])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let told = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            command_of(child.id()).unwrap_or_default()
        });
        // Before exec(2) the child shows the test's own command.
        let told = told.take(2000).find(|told| told.starts_with("sh -c"));
        child.kill().unwrap();
        child.wait().unwrap();
        let told = told.expect("what runs");
        assert!(told.starts_with("sh -c read x ?[2J?? a?b?c?d? 000") && told.ends_with("000..."), "{told}");
        assert_eq!(told.chars().count(), SHOWN + 3);
    }

    #[test]
    fn spans() {
        assert_eq!([0.4, 59.9, 60.0, 3599.0, 7500.0].map(span), ["0 s", "59 s", "1 min", "59 min", "2 h 5 min"]);
    }
}
