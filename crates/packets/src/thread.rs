//! Placement of a measuring thread (namespace, CPU, priority) and its CPU use.

use std::cell::Cell;
use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use netcliff_host::{schedule as policies, system};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::WireError;

/// How a thread competes with others for its CPU.
///
/// Niceness is not offered: with autogroups (the default of most kernels) it counts only among the programs of one
/// terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// An ordinary thread (SCHED_OTHER, or the caller's policy).
    #[default]
    Ordinary,
    /// A thread that precedes all ordinary threads (SCHED_FIFO, 1 to 99), for a generator on a busy machine. If
    /// ordinary threads wait, the kernel still gives them 50 ms of each second, in which the generator is late.
    RealTime(u8),
    /// A thread that yields to all others (SCHED_IDLE), for a generator on a CPU that the device it sends to also needs
    /// (an emulated device). A thread that wakes up on this CPU runs at once; an ordinary generator, which spins, would
    /// delay it.
    Behind,
}

/// Where a thread runs. By default: the caller's namespace, any CPU, ordinary priority.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Network namespace to enter first, e.g. `/run/netns/NAME` or `/proc/PID/ns/net`.
    pub netns: Option<PathBuf>,
    /// CPU to pin the thread to.
    pub cpu: Option<usize>,
    /// How the thread competes with others for its CPU.
    pub priority: Priority,
}

impl Placement {
    /// Applies the placement to the calling thread.
    ///
    /// # Errors
    /// The namespace cannot be opened or entered, or the CPU does not exist or is not allowed.
    pub fn enter(&self) -> Result<(), WireError> {
        if let Some(path) = &self.netns {
            let action = || format!("enter the network namespace {}", path.display());
            let file = File::open(path).map_err(|e| WireError::system(action(), e))?;
            system::enter_network_namespace(file).map_err(|e| WireError::system(action(), e))?;
        }
        if let Some(cpu) = self.cpu {
            pin(cpu)?;
        }
        match self.priority {
            Priority::Ordinary => Ok(()),
            Priority::RealTime(level) => real_time(level),
            Priority::Behind if schedule(policies::IDLE, 0) => Ok(()),
            Priority::Behind => Err(WireError::last_os("let a thread run behind all others".to_owned())),
        }
    }
}

/// Duration of the trial in [`Priority::behind_on`].
const TRIED_NS: u64 = 200_000_000;
/// Smallest share of its CPU that a thread of lowest priority must get in that trial.
const MOST: f64 = 0.8;

impl Priority {
    /// Returns [`Self::Behind`] for a thread on this CPU if other programs leave the CPU mostly idle. Otherwise such a
    /// thread would hardly run, and the result is [`Self::Ordinary`]. Takes a fifth of a second.
    pub fn behind_on(cpu: usize) -> Self {
        let behind = Placement { cpu: Some(cpu), priority: Self::Behind, ..Placement::default() };
        let tried = std::thread::spawn(move || {
            behind.enter().ok()?;
            let (before, start_ns) = (CpuStamp::now().ok()?, clock::monotonic_ns());
            while clock::monotonic_ns() < start_ns + TRIED_NS {
                std::hint::spin_loop();
            }
            let used = before.until(&CpuStamp::now().ok()?);
            Some((used.user_s + used.system_s) / used.wall_s)
        });
        let is_free = tried.join().ok().flatten().is_some_and(|share| share >= MOST);
        if is_free { Self::Behind } else { Self::Ordinary }
    }
}

/// Runs `work` in a network namespace, in a separate thread that enters the namespace. If there is no namespace to
/// enter, or it is already the namespace of this thread, `work` runs on the calling thread, because entering needs a
/// privilege.
///
/// # Errors
/// The namespace cannot be opened or entered.
pub fn in_netns<T: Send>(netns: Option<&Path>, work: impl FnOnce() -> T + Send) -> Result<T, WireError> {
    let number = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.ino());
    let own = number(Path::new("/proc/thread-self/ns/net"));
    let Some(path) = netns.filter(|path| own.is_none() || number(path) != own) else { return Ok(work()) };
    let placement = Placement { netns: Some(path.to_owned()), ..Placement::default() };
    let entered = std::thread::scope(|scope| scope.spawn(move || placement.enter().map(|()| work())).join());
    entered.map_err(|panic| WireError::died("working in a network namespace", &*panic))?
}

/// Checks that threads of this process, and of processes that it starts, can be pinned to these CPUs.
///
/// # Errors
/// A CPU does not exist or is not allowed.
pub fn check_cpus(cpus: impl IntoIterator<Item = usize>) -> Result<(), WireError> {
    let cpus: Vec<usize> = cpus.into_iter().collect();
    // A separate thread tries the CPUs, because it stays pinned to the last one.
    let tried = std::thread::spawn(move || cpus.into_iter().try_for_each(pin)).join();
    tried.map_err(|panic| WireError::died("trying", &*panic))?
}

/// The CPUs that this process may use, in ascending order. Empty if the kernel does not report them.
pub fn allowed_cpus() -> Vec<usize> {
    system::cpus_of_thread(0).unwrap_or_default()
}

/// Returns the CPU of thread `number` of several threads: an entry of the list, round robin, or `cpu` if the list is
/// empty.
pub fn round_robin(cpu: Option<usize>, cpus: &[usize], number: usize) -> Option<usize> {
    cpus.iter().copied().cycle().nth(number).or(cpu)
}

/// Formats the CPUs of threads, given as one CPU for all or a list that is used round robin: `any`, `3`, or `0+2`.
pub fn print_cpus(cpu: Option<usize>, cpus: &[usize]) -> String {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    if list.is_empty() { cpu.map_or("any".to_owned(), |cpu| cpu.to_string()) } else { list.join("+") }
}

fn real_time(level: u8) -> Result<(), WireError> {
    if !(1..=99).contains(&level) {
        return Err(WireError::setting("priority", level, "a real-time priority of 1 to 99"));
    }
    if !schedule(libc::SCHED_FIFO, i32::from(level)) {
        return Err(WireError::last_os(format!("give a thread the real-time priority {level}")));
    }
    Ok(())
}

/// While this value lives, the calling thread precedes all ordinary threads (SCHED_FIFO), provided that it is an
/// ordinary thread and has the privilege. It is for a thread that measures times of others and must not wait for them.
/// Threads that it starts in this time are ordinary threads.
pub struct RealtimeGuard {
    changed: bool,
    /// Not `Send`: the guard belongs to the calling thread.
    _here: PhantomData<*const ()>,
}

impl RealtimeGuard {
    /// Makes the calling thread a real-time thread until the guard is dropped, where that is allowed.
    pub fn begin() -> Self {
        let ordinary = policies::policy().is_ok_and(|policy| policy == libc::SCHED_OTHER);
        Self { changed: ordinary && schedule(libc::SCHED_FIFO | policies::RESET_ON_FORK, 1), _here: PhantomData }
    }
}

impl Drop for RealtimeGuard {
    fn drop(&mut self) {
        if self.changed {
            // Returning to the ordinary policy is always allowed.
            schedule(libc::SCHED_OTHER, 0);
        }
    }
}

/// Sets the scheduling policy of the calling thread. Returns false without the privilege.
fn schedule(policy: libc::c_int, level: libc::c_int) -> bool {
    policies::set(Pid::from_raw(0), policy, level).is_ok()
}

/// Threads that ended on another CPU than the one they were pinned to, one phrase each.
static ASTRAY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns and clears the list of threads of this process that ended on another CPU than the one they were pinned to,
/// one phrase each. Such a thread measured another CPU. The cause is a CPU that went offline, or a program that moves
/// threads.
pub fn astray() -> Vec<String> {
    std::mem::take(&mut *ASTRAY.lock().unwrap_or_else(PoisonError::into_inner))
}

thread_local! {
    static PINNED: Pinned = const { Pinned(Cell::new(None)) };
}

/// The CPU that the calling thread was pinned to. Checked when the thread ends.
struct Pinned(Cell<Option<usize>>);

impl Drop for Pinned {
    fn drop(&mut self) {
        let Some(cpu) = self.0.get() else { return };
        let held = allowed_cpus();
        if held.is_empty() || held == [cpu] {
            return;
        }
        let message = format!(
            "a thread that was pinned to CPU {cpu} was moved to {}: its CPU was taken offline, or another program moved it",
            print_cpus(None, &held)
        );
        let mut astray = ASTRAY.lock().unwrap_or_else(PoisonError::into_inner);
        if !astray.contains(&message) {
            astray.push(message);
        }
    }
}

fn pin(cpu: usize) -> Result<(), WireError> {
    match system::bind_thread(0, &[cpu]) {
        Ok(()) => {
            PINNED.with(|pinned| pinned.0.set(Some(cpu)));
            Ok(())
        }
        Err(nix::Error::EINVAL) => {
            Err(WireError::setting("cpu", cpu, "the number of an online CPU this process may use"))
        }
        Err(e) => Err(WireError::system(format!("pin a thread to CPU {cpu}"), e)),
    }
}

/// CPU time and context switches of one thread over a span of wall time (getrusage, RUSAGE_THREAD). The kernel's split
/// between user and system time is estimated from clock ticks; the sum is precise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Wall time of the span \[s\].
    pub wall_s: f64,
    /// Time in user mode \[s\].
    pub user_s: f64,
    /// Time in kernel mode \[s\].
    pub system_s: f64,
    /// Number of times the thread gave up the CPU, i.e. blocked.
    pub voluntary_switches: u64,
    /// Number of times the thread was preempted.
    pub involuntary_switches: u64,
}

impl CpuUse {
    /// Adds the CPU use of another thread over the same span of time.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        Self {
            wall_s: self.wall_s.max(other.wall_s),
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

/// A reading of the calling thread's CPU meters. Two readings make a [`CpuUse`].
#[derive(Debug, Clone, Copy)]
pub struct CpuStamp {
    wall_ns: u64,
    user_us: i64,
    system_us: i64,
    voluntary: i64,
    involuntary: i64,
}

impl CpuStamp {
    /// Reads the meters of the calling thread.
    pub fn now() -> Result<Self, WireError> {
        let usage =
            getrusage(UsageWho::RUSAGE_THREAD).map_err(|e| WireError::system("read the thread's CPU time", e))?;
        Ok(Self {
            wall_ns: clock::monotonic_ns(),
            user_us: usage.user_time().num_microseconds(),
            system_us: usage.system_time().num_microseconds(),
            voluntary: usage.voluntary_context_switches(),
            involuntary: usage.involuntary_context_switches(),
        })
    }

    /// The CPU use between `self` and `later`.
    pub fn until(&self, later: &Self) -> CpuUse {
        CpuUse {
            wall_s: (later.wall_ns - self.wall_ns) as f64 * 1e-9,
            user_s: (later.user_us - self.user_us) as f64 * 1e-6,
            system_s: (later.system_us - self.system_us) as f64 * 1e-6,
            voluntary_switches: (later.voluntary - self.voluntary).unsigned_abs(),
            involuntary_switches: (later.involuntary - self.involuntary).unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_named() {
        let error =
            std::thread::spawn(|| pin(1000).unwrap_err().to_string()).join().expect("the thread only pins itself");
        assert!(error.contains("cpu is 1000"), "{error}");
        let error =
            std::thread::spawn(|| pin(1_000_000).unwrap_err().to_string()).join().expect("the thread only pins itself");
        assert!(error.contains("online CPU"), "{error}");
    }

    #[test]
    fn cpus_are_used_round_robin() {
        let cpus: Vec<Option<usize>> = (0..4).map(|number| round_robin(Some(7), &[4, 5, 6], number)).collect();
        assert_eq!(cpus, [4, 5, 6, 4].map(Some));
        assert_eq!((round_robin(Some(7), &[], 3), round_robin(None, &[], 3)), (Some(7), None));
        let printed = [print_cpus(None, &[]), print_cpus(Some(3), &[]), print_cpus(Some(0), &[0, 2])];
        assert_eq!(printed, ["any", "3", "0+2"]);
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let placement = Placement { netns: Some("/run/netns/does-not-exist".into()), ..Placement::default() };
        let error = placement.enter().unwrap_err().to_string();
        assert!(error.contains("/run/netns/does-not-exist"), "{error}");
    }

    #[test]
    fn a_busy_thread_uses_its_cpu() {
        let begin = CpuStamp::now().expect("getrusage works");
        let from = clock::monotonic_ns();
        while clock::monotonic_ns() - from < 20_000_000 {}
        let used = begin.until(&CpuStamp::now().expect("getrusage works"));
        assert!(used.wall_s >= 0.02);
        assert!(used.user_s + used.system_s > 0.0 && used.user_s + used.system_s <= used.wall_s + 0.004);
    }
}
