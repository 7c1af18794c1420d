//! Programs by the CPU time of their threads: [`Threads`].

use super::sockets::{self, Sockets};
use crate::procfs;
use netcliff_core::watch::ProgramMoment;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    os::unix::fs::MetadataExt,
};

/// Programs that are shown of a CPU.
const MOST_A_CPU: usize = 3;
/// Share of a CPU below which a thread is left out.
const LEAST_SHARE: f64 = 0.01;
/// Share of a CPU from which a program's sockets are looked up.
const LOOKED_UP: f64 = 0.1;
/// Sockets that are named.
const MOST_SOCKETS: usize = 3;
/// Time of a tick of /proc/PID/stat (ns): USER_HZ is 100 on all architectures that netcliff runs on.
const TICK_NS: u64 = 10_000_000;

/// CPU time of all threads since they began (ns), by process and thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads(BTreeMap<(u32, u32), u64>);

impl Threads {
    /// Of all threads that this process may see.
    pub(super) fn now() -> Self {
        let numbers = |path: &str| -> Vec<u32> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        };
        let mut all = BTreeMap::new();
        for pid in numbers("/proc") {
            for tid in numbers(&format!("/proc/{pid}/task")) {
                all.extend(ran_ns(pid, tid).map(|ran_ns| ((pid, tid), ran_ns)));
            }
        }
        Self(all)
    }

    /// The programs that used a CPU most until a later reading, by CPU.
    pub(super) fn until(&self, later: &Self, seconds: f64) -> Vec<ProgramMoment> {
        let mut programs: BTreeMap<(u32, u32), ProgramMoment> = BTreeMap::new();
        for (&(pid, tid), ran_ns) in &later.0 {
            // One that is new began since.
            let before_ns = self.0.get(&(pid, tid)).copied().unwrap_or(0);
            let share = ran_ns.saturating_sub(before_ns) as f64 / 1e9 / seconds;
            let Some(cpu) = Some(share).filter(|share| *share >= LEAST_SHARE).and_then(|_| last_cpu(pid, tid)) else {
                continue;
            };
            let program =
                programs.entry((cpu, pid)).or_insert_with(|| ProgramMoment { cpu, pid, ..Default::default() });
            program.share += share;
            program.busiest_thread = program.busiest_thread.max(share.min(1.0));
        }
        let mut programs: Vec<ProgramMoment> = programs.into_values().collect();
        programs.sort_by(|a, b| a.cpu.cmp(&b.cpu).then(b.share.total_cmp(&a.share)));
        let mut of_cpu = (u32::MAX, 0);
        programs.retain(|program| {
            of_cpu = if of_cpu.0 == program.cpu { (of_cpu.0, of_cpu.1 + 1) } else { (program.cpu, 1) };
            of_cpu.1 <= MOST_A_CPU
        });
        let mut tables = BTreeMap::new();
        programs.iter_mut().for_each(|program| describe(program, &mut tables));
        programs
    }
}

/// CPU time of a thread (ns), by the scheduler's own clock where the kernel shows it, else by ticks.
fn ran_ns(pid: u32, tid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/task/{tid}");
    if let Ok(text) = fs::read_to_string(format!("{path}/schedstat")) {
        return text.split_ascii_whitespace().next()?.parse().ok();
    }
    let (user, system): (u64, u64) = (stat(pid, tid, 14)?, stat(pid, tid, 15)?);
    Some((user + system) * TICK_NS)
}

/// A column of a thread's stat, counted from 1 as in proc(5); it is behind the name, which may hold anything.
fn stat<T: std::str::FromStr>(pid: u32, tid: u32, column: usize) -> Option<T> {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(column - 3)?.parse().ok()
}

/// The CPU that a thread ran on last.
fn last_cpu(pid: u32, tid: u32) -> Option<u32> {
    stat(pid, tid, 39)
}

fn namespace(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|about| about.ino())
}

/// The name of a process, control characters taken out.
pub(super) fn name(pid: u32) -> Option<String> {
    let name = procfs::text(format!("/proc/{pid}/comm"))?;
    Some(name.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

/// Name, namespace and sockets of a program; tables of sockets are read once a namespace.
fn describe(program: &mut ProgramMoment, tables: &mut BTreeMap<u64, Sockets>) {
    let pid = program.pid;
    program.name = name(pid).unwrap_or_else(|| "?".to_owned());
    if program.share < LOOKED_UP {
        return;
    }
    let (own, first, theirs) = (namespace("thread-self"), namespace("1"), namespace(&pid.to_string()));
    // The first namespace has all programs of the host; another only its own.
    program.elsewhere = own.is_some() && theirs.is_some() && own != first && own != theirs;
    if program.elsewhere {
        return;
    }
    let Some((inodes, theirs)) = sockets::inodes(pid).zip(theirs) else { return };
    let table = match tables.entry(theirs) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => entry.insert(sockets::of_namespace(&pid.to_string())),
    };
    let named = |open: bool| {
        let of = inodes.iter().filter_map(|inode| table.get(inode)).filter(|socket| socket.open == open);
        let mut names: Vec<String> = of.map(|socket| socket.name.clone()).collect();
        names.sort();
        // Several workers may share one address.
        names.dedup();
        names
    };
    let mut names = named(true);
    if names.is_empty() {
        names = named(false);
    }
    program.more_sockets = names.len().saturating_sub(MOST_SOCKETS) as u64;
    names.truncate(MOST_SOCKETS);
    program.sockets = Some(names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A thread that never rests has a CPU to itself, and its process is named with its socket.
    #[test]
    fn a_busy_thread_is_named_with_its_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = Threads::now();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let ran = ran_ns(std::process::id(), nix::unistd::gettid().as_raw() as u32).expect("this thread");
        assert!(ran > 10_000_000, "{ran}");
        let programs = before.until(&Threads::now(), began.elapsed().as_secs_f64());
        // On a machine where others use every CPU it may have little of one.
        let Some(own) = programs.iter().find(|program| program.pid == std::process::id() && program.share >= LOOKED_UP)
        else {
            return;
        };
        let name = format!("udp {}", socket.local_addr().unwrap());
        assert!(own.busiest_thread <= 1.0 && !own.name.is_empty() && !own.elsewhere, "{own:?}");
        let sockets = own.sockets.as_ref().expect("own files");
        assert!(sockets.contains(&name) || own.more_sockets > 0, "{name} in {own:?}");
    }
}
