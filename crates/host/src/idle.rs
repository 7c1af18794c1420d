//! Keeps a CPU from halting while something is measured on it.
//!
//! A halted CPU takes time to wake: the exit time of its idle state, and in a virtual machine the time until the
//! hypervisor runs it again, which may be milliseconds. There are two means. A 0 written to `/dev/cpu_dma_latency`,
//! which stays open, forbids all idle states but the shallowest, which on many machines still halts. A looping thread
//! of policy SCHED_IDLE never lets the CPU halt, and gives way to all other threads. Both end with the process, even if
//! it is killed: the kernel withdraws the latency request when the file is closed.
//!
//! This crate counts the loop as idle time: eBPF takes tasks of SCHED_IDLE as idle, procfs subtracts `loop_ns`. The
//! soaker is such a loop and also a meter. A turn of the loop does a fixed amount of work between two clock reads,
//! which measures the CPU's speed, and updates its [`Heartbeat`], which shows when the CPU did not run the loop.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::cpu::heartbeat::{Heartbeat, PLAIN_PAUSE_NS, Pause};
use crate::cpu::util::{clock_ns, monotonic_ns, pin_to, this_thread, thread_cpu_clock};

/// Multiplications in one turn: about 0.3 us, short enough to see a pause at once, long enough that reading the clock
/// is a small part.
const WORK: u32 = 256;
/// Number of turns after which the loop yields. To a task that has just woken, the scheduler may owe less than to this
/// loop, which then keeps the CPU until the next tick (1 ms at 1000 Hz), unless it yields: EEVDF, `pick_eevdf` and
/// `yield_task_fair` in kernel/sched/fair.c. 16 turns take about 5 us.
const YIELD: u64 = 16;
/// A turn of more than this many times the shortest turn was interrupted: an interrupt takes longer than a turn.
const INTERRUPTED: u64 = 2;

/// (CPU, thread id) of each of this process's loops, for the meters.
static LOOPS: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());

/// Keeps a CPU from halting until this value is dropped.
#[derive(Debug)]
pub struct Awake {
    /// The open latency file: closing it withdraws the request. `None` if it could not be opened.
    _latency: Option<File>,
    stop: Arc<AtomicBool>,
    heartbeat: Heartbeat,
    looping: Option<(u32, JoinHandle<()>)>,
}

impl Awake {
    /// Keeps `cpu` from halting by a loop. If `/dev/cpu_dma_latency` can be opened, a latency of 0 is requested, too,
    /// which keeps the idle states of all CPUs shallow.
    ///
    /// # Errors
    /// A thread cannot be started, pinned to the CPU or set to SCHED_IDLE.
    pub fn hold(cpu: u32, heartbeat: Heartbeat) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let (theirs, heart) = (Arc::clone(&stop), heartbeat.clone());
        let (started, outcome) = mpsc::channel();
        let handle = std::thread::Builder::new().name("netcliff-awake".into()).spawn(move || {
            let ready = pin_to(cpu as usize).and_then(|()| become_idle_class()).map(|()| this_thread());
            let go = ready.is_ok();
            if started.send(ready).is_ok() && go {
                turn(&theirs, &heart);
            }
        })?;
        let thread = outcome.recv().map_err(|_| io::Error::other("the loop ended at once"))??;
        LOOPS.lock().unwrap_or_else(PoisonError::into_inner).push((cpu, thread));
        heartbeat.set_kept_awake(true);
        Ok(Self { _latency: latency(), stop, heartbeat, looping: Some((thread, handle)) })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.heartbeat.set_kept_awake(false);
        self.stop.store(true, Ordering::Relaxed);
        if let Some((thread, handle)) = self.looping.take() {
            LOOPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, other)| *other != thread);
            // The thread returns nothing, and its panic is ignored.
            let _ = handle.join();
        }
    }
}

/// The body of the loop's thread.
fn turn(stop: &AtomicBool, heartbeat: &Heartbeat) {
    let (mut state, mut count, mut shortest_ns, mut switches) = (1u64, 0u64, u64::MAX, switches());
    let mut last_ns = monotonic_ns();
    heartbeat.begin(last_ns);
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let yields = count.is_multiple_of(YIELD);
        if yields {
            std::thread::yield_now();
        }
        for _ in 0..WORK {
            // Each multiplication depends on the previous one, so the time does not depend on how many instructions the
            // CPU executes in parallel.
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let now_ns = monotonic_ns();
        heartbeat.beat(now_ns);
        let turn_ns = now_ns.saturating_sub(last_ns);
        if !yields {
            shortest_ns = shortest_ns.min(turn_ns.max(1));
        }
        if turn_ns < INTERRUPTED * shortest_ns {
            if !yields {
                heartbeat.turned(turn_ns);
            }
        } else if turn_ns > PLAIN_PAUSE_NS && heartbeat.is_plain() {
            let before = std::mem::replace(&mut switches, self::switches());
            if before.is_some() && before == switches {
                heartbeat.note(Pause { from_ns: last_ns, to_ns: now_ns });
            }
        } else if heartbeat.is_plain() {
            switches = self::switches();
        }
        last_ns = now_ns;
    }
}

/// Context switches of the calling thread so far, voluntary and involuntary; `None` if the kernel does not report them.
fn switches() -> Option<i64> {
    // SAFETY: all zeroes is a valid rusage, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid and writable.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (done == 0).then_some(usage.ru_nvcsw + usage.ru_nivcsw)
}

/// CPU time so far (ns) of this process's loops on `cpu`; 0 without a loop.
pub fn loop_ns(cpu: u32) -> u64 {
    let loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = loops.iter().filter(|(of, _)| *of == cpu).map(|(_, thread)| thread);
    threads.filter_map(|thread| clock_ns(thread_cpu_clock(*thread)).ok()).sum()
}

/// Opens the latency file and requests 0 us; `None` without permission.
fn latency() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

/// Gives the calling thread the policy SCHED_IDLE, so that it yields to all other threads.
pub(crate) fn become_idle_class() -> io::Result<()> {
    crate::schedule::set(nix::unistd::Pid::from_raw(0), crate::schedule::IDLE, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::procfs::ProcfsMeter;
    use crate::cpu::util::online_cpus;
    use crate::cpu::{CpuMeter, MeterSpec, Watch};
    use std::time::Duration;

    #[test]
    fn the_loop_is_seen_to_run_and_counts_as_idle() {
        if !netcliff_testkit::has(netcliff_testkit::Need::Quiet) {
            return;
        }
        let cpu = *online_cpus().last().expect("a CPU");
        let spec = MeterSpec { cpus: vec![cpu], watch: vec![Watch::Process(std::process::id())] };
        let awake = Awake::hold(cpu as u32, Heartbeat::plain()).expect("a thread of SCHED_IDLE");
        let mut meter = ProcfsMeter::start(spec).expect("procfs");
        let before = loop_ns(cpu as u32);
        std::thread::sleep(Duration::from_millis(400));
        let split = meter.read().expect("procfs").remove(0);
        let looped = (loop_ns(cpu as u32) - before) as f64 * 1e-9 / split.elapsed_s;
        drop(awake);
        assert!(looped > 0.0, "it ran");
        let shares = split.shares;
        let (application, idle) = (shares.application.expect("one CPU"), shares.idle.expect("idle"));
        assert!(idle >= looped - 0.1, "idle {idle} holds the loop's {looped}");
        assert!(
            application < 0.5 * looped.max(0.2),
            "application {application} of a process that sleeps, loop {looped}"
        );
    }
}
