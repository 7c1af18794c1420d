//! Measures which tasks and softirqs wait for which lock, and how long, from the tracepoints lock:contention_begin and
//! lock:contention_end (Linux 5.19). These fire only when a task or softirq has to wait, not when it takes a free lock.

use std::collections::HashMap;
use std::io;

use netcliff_core::profile::{LockContention, LockRow};
use netcliff_host::perf::{Event, Every, Fields, Record, Sampler, tracepoint};

/// Maximum number of rows of the result.
const MOST_ROWS: usize = 20;
/// Maximum number of programs named in a row.
const MOST_WAITERS: usize = 4;

/// Returns the kernel's name for the kind of a lock. Source: include/trace/events/lock.h, LCB_F_*.
fn kind(flags: u32) -> &'static str {
    const SPIN: u32 = 1;
    const READ: u32 = 2;
    const WRITE: u32 = 4;
    const RT: u32 = 8;
    const PERCPU: u32 = 16;
    const MUTEX: u32 = 32;
    match flags {
        flags if flags & MUTEX != 0 => "mutex",
        flags if flags & PERCPU != 0 && flags & WRITE != 0 => "percpu-rwsem write",
        flags if flags & PERCPU != 0 => "percpu-rwsem read",
        flags if flags & RT != 0 => "rt-mutex",
        flags if flags & SPIN != 0 && flags & READ != 0 => "rwlock read",
        flags if flags & SPIN != 0 && flags & WRITE != 0 => "rwlock write",
        flags if flags & SPIN != 0 => "spinlock",
        flags if flags & READ != 0 => "rwsem read",
        flags if flags & WRITE != 0 => "rwsem write",
        _ => "semaphore",
    }
}

/// The begin or the end of a wait, on one CPU.
#[derive(Debug, Clone, PartialEq)]
struct Turn {
    time_ns: u64,
    pid: u32,
    tid: u32,
    address: u64,
    /// Lock kind and stack at the begin of a wait; `None` for the end.
    begin: Option<(u32, Vec<u64>)>,
}

/// Recording of the two tracepoints.
#[derive(Debug)]
pub struct Waits {
    begins: Sampler,
    ends: Sampler,
    open: HashMap<(u32, u64), Turn>,
    waits: HashMap<(u32, u64, Vec<u64>), Waited>,
    lost: u64,
}

/// All waits at one place in the code.
#[derive(Debug, Default, Clone, PartialEq)]
struct Waited {
    waits: u64,
    total_ns: u64,
    longest_ns: u64,
    by_pid_ns: HashMap<u32, u64>,
}

impl Waits {
    /// Starts to record on these CPUs.
    ///
    /// # Errors
    /// The kernel has no such tracepoints, or the permission is missing.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let open = |name: &str, stack| {
            let number = tracepoint::number(&format!("lock/contention_{name}"))?;
            let fields = Fields { stack, raw: true, ..Fields::default() };
            Sampler::open(Event::Tracepoint(number), Every::Events(1), cpus, fields)
        };
        let (begins, ends) = (open("begin", true)?, open("end", false)?);
        begins.start()?;
        ends.start()?;
        Ok(Self { begins, ends, open: HashMap::new(), waits: HashMap::new(), lost: 0 })
    }

    /// Stops the recording.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn stop(&self) -> io::Result<()> {
        self.begins.stop()?;
        self.ends.stop()
    }

    /// Reads the records since the last call.
    pub fn take(&mut self) {
        let mut turns = Vec::new();
        let lost = &mut self.lost;
        let mut read = |sampler: &mut Sampler, begins: bool| {
            sampler.drain(|_, record| match record {
                Record::Lost(records) => *lost += records,
                // Common fields of 8 bytes, then the address, then the flags of a begin or the result of an end.
                Record::Sample(sample) => {
                    let word = |at: usize| Some(u64::from_ne_bytes(sample.raw.get(at..at + 8)?.try_into().ok()?));
                    let flags = sample
                        .raw
                        .get(16..20)
                        .map_or(0, |bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                    let Some(address) = word(8) else { return };
                    let begin = begins.then_some((flags, sample.stack));
                    turns.push(Turn { time_ns: sample.time_ns, pid: sample.pid, tid: sample.tid, address, begin });
                }
            });
        };
        read(&mut self.begins, true);
        read(&mut self.ends, false);
        turns.sort_by_key(|turn| turn.time_ns);
        turns.into_iter().for_each(|turn| self.turn(turn));
    }

    fn turn(&mut self, turn: Turn) {
        // Between the begin and the end of a wait, a task may wait for another lock in an interrupt, but not for the
        // same one.
        let key = (turn.tid, turn.address);
        if turn.begin.is_some() {
            self.open.insert(key, turn);
            return;
        }
        let Some(Turn { begin: Some((flags, stack)), time_ns, pid, .. }) = self.open.remove(&key) else { return };
        let ns = turn.time_ns.saturating_sub(time_ns);
        let waited = self.waits.entry((flags, turn.address, stack)).or_default();
        waited.waits += 1;
        waited.total_ns += ns;
        waited.longest_ns = waited.longest_ns.max(ns);
        *waited.by_pid_ns.entry(pid).or_default() += ns;
    }

    /// Returns the locks with the longest waits. `name` returns the name of a process; `wants` returns the function of
    /// a stack that wants the lock.
    pub fn contention(&self, name: impl Fn(u32) -> String, wants: impl Fn(&[u64]) -> String) -> LockContention {
        let mut merged = HashMap::<(u32, u64, String), Waited>::new();
        for ((flags, address, stack), waited) in &self.waits {
            let sum = merged.entry((*flags, *address, wants(stack))).or_default();
            sum.waits += waited.waits;
            sum.total_ns += waited.total_ns;
            sum.longest_ns = sum.longest_ns.max(waited.longest_ns);
            waited.by_pid_ns.iter().for_each(|(pid, ns)| *sum.by_pid_ns.entry(*pid).or_default() += ns);
        }
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let (waits, total_ns) = merged.values().fold((0, 0), |(waits, ns), one| (waits + one.waits, ns + one.total_ns));
        let row = |((flags, address, function), waited): ((u32, u64, String), Waited)| {
            let mut pids: Vec<(u32, u64)> = waited.by_pid_ns.into_iter().collect();
            pids.sort_by_key(|(pid, ns)| (std::cmp::Reverse(*ns), *pid));
            let mut waiters: Vec<String> = Vec::new();
            for (pid, _) in pids {
                let name = name(pid);
                if !waiters.contains(&name) && waiters.len() < MOST_WAITERS {
                    waiters.push(name);
                }
            }
            LockRow {
                kind: kind(flags).to_owned(),
                function,
                address: format!("{address:#x}"),
                waiters,
                waits: waited.waits,
                total_s: seconds(waited.total_ns),
                longest_s: seconds(waited.longest_ns),
            }
        };
        let mut rows: Vec<LockRow> = merged.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.total_s.total_cmp(&a.total_s).then_with(|| a.address.cmp(&b.address)));
        rows.truncate(MOST_ROWS);
        LockContention { rows, waits, total_s: seconds(total_ns), lost: self.lost }
    }
}
