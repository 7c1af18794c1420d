//! Telling one process from a later one with the same pid.

use crate::procfs;
use serde::{Deserialize, Serialize};

/// A process that cannot be confused with a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id as seen by this process.
    pub pid: u32,
    /// Start time (clock ticks since boot), field 22 of `/proc/PID/stat`, see proc_pid_stat(5).
    pub start_time: u64,
}

impl ProcessId {
    /// The running process `pid`, or `None` if there is none (a zombie counts as gone).
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = procfs::text(format!("/proc/{pid}/stat"))?;
        let (state, start_time) = parse_stat(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(ProcessId { pid, start_time })
    }

    /// This process.
    ///
    /// # Errors
    /// When `/proc` is not mounted or does not show this process.
    pub fn current() -> std::io::Result<ProcessId> {
        let pid = std::process::id();
        ProcessId::of(pid)
            .ok_or_else(|| std::io::Error::other(format!("/proc/{pid}/stat cannot be read: is /proc mounted?")))
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        ProcessId::of(self.pid) == Some(*self)
    }
}

/// State and start time. The command name in parentheses may itself hold spaces and parentheses, so
/// fields are counted from the last `)`.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let fields = &stat[stat.rfind(')')? + 1..];
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

/// The identity of this boot (`/proc/sys/kernel/random/boot_id`); `None` where it is not shown.
pub fn boot_id() -> Option<String> {
    procfs::text("/proc/sys/kernel/random/boot_id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_awkward_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(stat), Some(('S', 4242)));
        assert_eq!(parse_stat("7 (x"), None);
        assert_eq!(parse_stat("7 (x) S 1"), None);
    }

    #[test]
    fn this_process_is_alive_and_a_former_one_is_not() {
        let me = ProcessId::current().unwrap();
        assert!(me.is_alive());
        let former = ProcessId { start_time: me.start_time + 1, ..me };
        assert!(!former.is_alive());
    }
}
