//! Processes and threads: their identity (which differs from that of a later process with the same pid), scheduler
//! times, descendants, and signals.

use crate::{procfs, system};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use serde::{Deserialize, Serialize};
use std::{io, os::unix::fs::MetadataExt as _, path::PathBuf};

/// Entries of a directory that are numbers: processes in /proc, threads in /proc/PID/task.
pub fn numbers(directory: &str) -> Vec<u32> {
    procfs::names(directory).into_iter().filter_map(|name| name.parse().ok()).collect()
}

/// Scheduler times of a thread since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// Time on a CPU (ns).
    pub ran_ns: u64,
    /// Time in which it was runnable and waited for a CPU (ns).
    pub waited_ns: u64,
}

/// Scheduler times of a thread, as of its last tick or switch. `None` if it has ended, or the kernel does not count
/// (CONFIG_SCHED_INFO). Source: Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`.
pub fn scheduled(pid: u32, tid: u32) -> Option<Scheduled> {
    let text = procfs::small(format!("/proc/{pid}/task/{tid}/schedstat"))?;
    let mut columns = text.split_ascii_whitespace().map(str::parse);
    Some(Scheduled { ran_ns: columns.next()?.ok()?, waited_ns: columns.next()?.ok()? })
}

/// Name of a process, with `?` in place of control characters; only `?` if the process has ended.
pub(crate) fn name(pid: u32) -> String {
    let name = procfs::text(format!("/proc/{pid}/comm")).unwrap_or_else(|| "?".to_owned());
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Identity of a process, distinct from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessId {
    /// Process ID in the PID namespace of this process.
    pub pid: u32,
    /// Start time (clock ticks since boot), field 22 of `/proc/PID/stat`, see proc_pid_stat(5).
    pub start_time: u64,
}

impl ProcessId {
    /// The running process `pid`; `None` if no process has that pid, or it is a zombie.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = procfs::text(format!("/proc/{pid}/stat"))?;
        let (state, start_time) = parse_stat(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(ProcessId { pid, start_time })
    }

    /// This process.
    ///
    /// # Errors
    /// When `/proc` is not mounted or does not show this process.
    pub fn current() -> io::Result<ProcessId> {
        let pid = std::process::id();
        ProcessId::of(pid)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be read: is /proc mounted?")))
    }

    /// Whether this process still runs.
    pub fn is_alive(&self) -> bool {
        ProcessId::of(self.pid) == Some(*self)
    }

    /// Sends SIGTERM to the process, which requests that it ends. A process that has already ended is no error.
    ///
    /// # Errors
    /// This process lacks the right.
    pub fn ask_to_end(&self) -> io::Result<()> {
        self.signal(libc::SIGTERM)
    }

    /// Kills the process (SIGKILL). A process that has already ended is no error.
    ///
    /// # Errors
    /// This process lacks the right.
    pub fn end(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)
    }

    fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        system::signal_process(self.pid, || self.is_alive(), signal)
    }
}

/// Inode of this process's PID namespace, if it is not the initial one: pids here then differ from the kernel's. `None`
/// in the initial PID namespace. Source: include/linux/proc_ns.h, PROC_PID_INIT_INO.
pub(crate) fn other_pid_namespace() -> Option<u64> {
    const FIRST: u64 = 0xEFFF_FFFC;
    let inode = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    (inode != FIRST).then_some(inode)
}

/// A process, and all its running descendants whose chain of parents still leads to it. The process is first. Zombies
/// are left out.
pub fn tree(root: u32) -> Vec<ProcessId> {
    let pids = procfs::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid);
        let new: Vec<u32> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        next += 1;
    }
    found.into_iter().filter_map(ProcessId::of).collect()
}

/// Parent of a process; `None` if it has ended. proc(5): the parent is the second field after the name, which is in
/// brackets and may contain anything.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = procfs::text(format!("/proc/{pid}/stat"))?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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

/// Makes a program that is about to be started receive SIGINT when the thread that starts it ends.
pub fn end_with_this(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: the call is async-signal-safe.
    unsafe { command.pre_exec(|| system::end_with_parent(Signal::SIGINT)) };
}

/// Home directory of this process's user by /etc/passwd, even in a user namespace in which the process is root.
pub fn home_directory() -> Option<PathBuf> {
    let map = procfs::text("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<u32> = map.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let uid = match words[..] {
        // A user namespace with a single user: this is the user's ID outside it.
        [_, outside, 1] => outside,
        _ => nix::unistd::geteuid().as_raw(),
    };
    let home = nix::unistd::User::from_uid(uid.into()).ok()??.dir;
    home.is_absolute().then_some(home)
}

/// Handles SIGQUIT (Ctrl-\) like SIGINT from now on. By default it would end the process before the process could
/// restore settings.
///
/// # Errors
/// The system refuses the handler.
pub fn quit_as_interrupt() -> io::Result<()> {
    extern "C" fn interrupt(_: libc::c_int) {
        // SAFETY: kill and getpid are async-signal-safe and take no pointers.
        unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
    }
    let action = SigAction::new(SigHandler::Handler(interrupt), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler calls only async-signal-safe functions.
    unsafe { sigaction(Signal::SIGQUIT, &action) }?;
    Ok(())
}

/// Identity of this boot (`/proc/sys/kernel/random/boot_id`); `None` if the file cannot be read.
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
    fn a_tree_holds_children_of_children_and_ends() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 987654 & wait"]).spawn().unwrap();
        let whole = || {
            (0..200).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                Some(tree(shell.id())).filter(|tree| tree.len() == 2)
            })
        };
        let both = whole().expect("a shell and its child");
        assert_eq!(both[0].pid, shell.id());
        assert_eq!(parent_of(both[1].pid), Some(shell.id()));
        both.iter().for_each(|process| process.ask_to_end().unwrap());
        shell.wait().unwrap();
        let gone = || {
            (0..200).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                !both[1].is_alive()
            })
        };
        assert!(gone());
        both[1].end().unwrap();
    }

    #[test]
    fn this_process_is_alive_and_a_former_one_is_not() {
        let me = ProcessId::current().unwrap();
        assert!(me.is_alive());
        let former = ProcessId { start_time: me.start_time + 1, ..me };
        assert!(!former.is_alive());
    }
}
