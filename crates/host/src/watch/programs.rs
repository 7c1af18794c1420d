//! Programs by the CPU time of their threads: [`Threads`].

use crate::{
    process, procfs,
    sockets::{self, Names},
};
use netcliff_core::watch::ProgramMoment;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Largest number of programs shown per CPU.
const MOST_A_CPU: usize = 3;
/// Share of a CPU below which a thread is omitted.
const LEAST_SHARE: f64 = 0.01;
/// Share of a CPU from which a program's sockets are looked up.
const LOOKED_UP: f64 = 0.1;
/// Largest number of sockets named.
const MOST_SOCKETS: usize = 3;
/// Time of a tick of /proc/PID/stat (ns): USER_HZ is 100 on all architectures that netcliff runs on.
const TICK_NS: u64 = 10_000_000;

/// Time for which the names of a program's sockets are cached: a table of thousands takes longer to read than
/// everything else.
const NAMES_AGE: Duration = Duration::from_secs(10);
/// Flag of a thread of the kernel. Source: include/linux/sched.h, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// CPU time of all threads since they started, by process.
#[derive(Debug, Clone, Default)]
pub(super) struct Threads {
    processes: BTreeMap<u32, Process>,
    named: Arc<Mutex<BTreeMap<u32, NamedSockets>>>,
}

#[derive(Debug, Clone)]
struct Process {
    used: Used,
    /// CPU time by thread (ns).
    ran_ns: Arc<BTreeMap<u32, u64>>,
}

/// Values that change when a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    /// User and system time (ticks).
    ticks: (u64, u64),
    threads: u64,
    /// Start (ticks since boot).
    began: u64,
}

#[derive(Debug, Clone)]
struct NamedSockets {
    began: u64,
    at: Instant,
    names: Vec<String>,
}

impl Threads {
    /// Reads all processes that this one may see; threads are read only for processes that ran since an earlier
    /// snapshot.
    pub(super) fn now(before: Option<&Threads>) -> Self {
        let read = |pid: u32| {
            let stat = stat(&format!("/proc/{pid}/stat"))?;
            let used = Used {
                ticks: (column(&stat, 14)?, column(&stat, 15)?),
                threads: column(&stat, 20)?,
                began: column(&stat, 22)?,
            };
            let known = before.and_then(|threads| threads.processes.get(&pid)).filter(|known| known.used == used);
            let thread = |tid: u32| Some((tid, ran_ns(pid, tid)?));
            let ran_ns = match known {
                Some(known) => Arc::clone(&known.ran_ns),
                None if used.threads == 1 => Arc::new(thread(pid).into_iter().collect()),
                None => {
                    Arc::new(process::numbers(&format!("/proc/{pid}/task")).into_iter().filter_map(thread).collect())
                }
            };
            Some((pid, Process { used, ran_ns }))
        };
        let processes = process::numbers("/proc").into_iter().filter_map(read).collect();
        Self { processes, named: before.map(|threads| Arc::clone(&threads.named)).unwrap_or_default() }
    }

    /// Process IDs of all processes read, each with its start time (ticks since boot).
    pub(super) fn processes(&self) -> impl Iterator<Item = (u32, u64)> {
        self.processes.iter().map(|(pid, process)| (*pid, process.used.began))
    }

    /// The programs with the most CPU time until a later snapshot, by CPU.
    pub(super) fn until(&self, later: &Self, seconds: f64) -> Vec<ProgramMoment> {
        let mut programs: BTreeMap<(u32, u32), ProgramMoment> = BTreeMap::new();
        let threads = later.processes.iter().flat_map(|(pid, process)| {
            let known = self.processes.get(pid).filter(|known| known.used.began == process.used.began);
            // A process that did not run shares its table with the snapshot before.
            let ran = known.is_none_or(|known| !Arc::ptr_eq(&known.ran_ns, &process.ran_ns));
            process.ran_ns.iter().filter(move |_| ran).map(move |(tid, ran_ns)| {
                // A thread absent from the earlier snapshot started since.
                let before_ns = known.and_then(|known| known.ran_ns.get(tid)).copied().unwrap_or(0);
                (*pid, *tid, before_ns, *ran_ns)
            })
        });
        for (pid, tid, before_ns, ran_ns) in threads {
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
        let mut named = later.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, known| known.at.elapsed() < NAMES_AGE);
        for program in &mut programs {
            let began = later.processes.get(&program.pid).map_or(0, |process| process.used.began);
            describe(program, began, &mut named, &mut tables);
        }
        programs
    }
}

/// CPU time of a thread (ns), by the scheduler's clock if the kernel shows it, else by ticks; `None` if it has ended.
fn ran_ns(pid: u32, tid: u32) -> Option<u64> {
    if let Some(scheduled) = process::scheduled(pid, tid) {
        return Some(scheduled.ran_ns);
    }
    let stat = stat(&format!("/proc/{pid}/task/{tid}/stat"))?;
    Some((column(&stat, 14)? + column(&stat, 15)?) * TICK_NS)
}

/// Text of a stat file after the name, which may contain anything; `None` if it cannot be read.
fn stat(path: &str) -> Option<String> {
    procfs::small(path)?.rsplit_once(')').map(|(_, behind)| behind.to_owned())
}

/// A column of a stat, counted from 1 as in proc(5).
fn column(stat: &str, column: usize) -> Option<u64> {
    stat.split_ascii_whitespace().nth(column - 3)?.parse().ok()
}

/// The CPU that a thread ran on last.
fn last_cpu(pid: u32, tid: u32) -> Option<u32> {
    column(&stat(&format!("/proc/{pid}/task/{tid}/stat"))?, 39)?.try_into().ok()
}

pub(super) fn namespace(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|about| about.ino())
}

/// Name, namespace and sockets of a program; tables of sockets are read once per namespace.
fn describe(
    program: &mut ProgramMoment,
    began: u64,
    named: &mut BTreeMap<u32, NamedSockets>,
    tables: &mut BTreeMap<u64, Names>,
) {
    let pid = program.pid;
    program.name = process::name(pid);
    let flags = stat(&format!("/proc/{pid}/stat")).and_then(|stat| column(&stat, 9)).unwrap_or(0);
    if program.share < LOOKED_UP || flags & KERNEL_THREAD != 0 {
        return;
    }
    let (own, first, theirs) = (namespace("thread-self"), namespace("1"), namespace(&pid.to_string()));
    // Seen from the host's network namespace (that of process 1) no program is elsewhere; seen from any other
    // namespace, the programs outside it are.
    program.elsewhere = own.is_some() && theirs.is_some() && own != first && own != theirs;
    if program.elsewhere {
        return;
    }
    let known = named.get(&pid).filter(|known| known.began == began).map(|known| known.names.clone());
    let Some(mut names) = known.or_else(|| names_of(pid, theirs?, tables)) else { return };
    named.entry(pid).or_insert_with(|| NamedSockets { began, at: Instant::now(), names: names.clone() });
    program.more_sockets = names.len().saturating_sub(MOST_SOCKETS) as u64;
    names.truncate(MOST_SOCKETS);
    program.sockets = Some(names);
}

/// Names of a process's sockets: the open sockets, or the connections if it has no open socket; `None` if the process
/// may not be inspected.
fn names_of(pid: u32, space: u64, tables: &mut BTreeMap<u64, Names>) -> Option<Vec<String>> {
    let inodes = sockets::inodes(pid)?;
    let table = match tables.entry(space) {
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
    Some(Some(named(true)).filter(|names| !names.is_empty()).unwrap_or_else(|| named(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A thread that never sleeps has a CPU for itself, and its process is named with its socket.
    #[test]
    fn a_busy_thread_is_named_with_its_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = Threads::now(None);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let ran = ran_ns(std::process::id(), nix::unistd::gettid().as_raw() as u32).expect("this thread");
        assert!(ran > 10_000_000, "{ran}");
        let programs = before.until(&Threads::now(None), began.elapsed().as_secs_f64());
        // On a machine whose CPUs are all in use the thread may have only a small share of a CPU.
        let Some(own) = programs.iter().find(|program| program.pid == std::process::id() && program.share >= LOOKED_UP)
        else {
            return;
        };
        let name = format!("udp {}", socket.local_addr().unwrap());
        assert!(own.busiest_thread <= 1.0 && !own.name.is_empty() && !own.elsewhere, "{own:?}");
        let sockets = own.sockets.as_ref().expect("own files");
        assert!(sockets.contains(&name) || own.more_sockets > 0, "{name} in {own:?}");
    }

    /// Threads of a process that did not run are not read again; a process that ran is.
    #[test]
    fn only_what_ran_is_read() {
        let mut child = std::process::Command::new("sleep").arg("20").spawn().expect("sleep");
        std::thread::sleep(Duration::from_millis(200));
        let before = Threads::now(None);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let after = Threads::now(Some(&before));
        let same = |pid: u32| Arc::ptr_eq(&before.processes[&pid].ran_ns, &after.processes[&pid].ran_ns);
        let (sleeps, runs) = (same(child.id()), !same(std::process::id()));
        let _ = (child.kill(), child.wait());
        assert!(sleeps && runs, "{sleeps} {runs}");
    }
}
