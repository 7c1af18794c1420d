//! Keeping a CPU from halting while something is measured on it.
//!
//! A CPU that halts has to be woken: by its own idle states' exit times, and in a virtual machine by the hypervisor, which may give
//! it back milliseconds late. Two means: `/dev/cpu_dma_latency` held at 0 forbids idle states but the shallowest (which on many
//! machines still halts), and a thread of policy SCHED_IDLE that loops on the CPU, which never lets it halt and gives way to all else.
//! Both end with the process, however it ends: the kernel takes the latency request back when the file is closed.
//!
//! The loop counts as idle time in this crate's accounting: eBPF takes tasks of SCHED_IDLE for idle, procfs subtracts
//! `loop_ns`. The soaker is such a loop and a meter at once. The loop does a fixed piece of work between two clock reads, which
//! measures how fast the CPU is, and beats its [`Heartbeat`], which shows when the CPU was away.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::cpu::heartbeat::{Heartbeat, PLAIN_PAUSE_NS, Pause};
use crate::cpu::util::{clock_ns, monotonic_ns, pin_to, this_thread, thread_cpu_clock};

/// Multiplications of a turn: about 0.3 us, so that a pause shows at once and the clock is a small part of it.
const WORK: u32 = 256;
/// A turn of more than this many times the shortest was interrupted: an interrupt takes longer than a turn.
const INTERRUPTED: u64 = 2;

/// Threads of this process that loop, for the meters.
static LOOPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A CPU that does not halt until this is dropped.
#[derive(Debug)]
pub struct Awake {
    /// Held open: closing it takes the request back.
    _latency: Option<File>,
    stop: Arc<AtomicBool>,
    heartbeat: Heartbeat,
    looping: Option<(u32, JoinHandle<()>)>,
}

impl Awake {
    /// Keeps `cpu` from halting: by a loop, and with `/dev/cpu_dma_latency` at 0 besides where it can be opened, which keeps the other
    /// CPUs' idle states shallow too.
    ///
    /// # Errors
    /// No thread can be started, pinned to the CPU or given SCHED_IDLE.
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
        LOOPS.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        heartbeat.set_kept_awake(true);
        Ok(Self { _latency: latency(), stop, heartbeat, looping: Some((thread, handle)) })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.heartbeat.set_kept_awake(false);
        self.stop.store(true, Ordering::Relaxed);
        if let Some((thread, handle)) = self.looping.take() {
            LOOPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != thread);
            // It returns nothing; a panic is ignored.
            let _ = handle.join();
        }
    }
}

/// The loop.
fn turn(stop: &AtomicBool, heartbeat: &Heartbeat) {
    let (mut state, mut shortest_ns, mut switches) = (1u64, u64::MAX, switches());
    let mut last_ns = monotonic_ns();
    heartbeat.begin(last_ns);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..WORK {
            // Each step needs the one before, so the time does not depend on how wide the CPU is.
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let now_ns = monotonic_ns();
        heartbeat.beat(now_ns);
        let turn_ns = now_ns.saturating_sub(last_ns);
        shortest_ns = shortest_ns.min(turn_ns.max(1));
        if turn_ns < INTERRUPTED * shortest_ns {
            heartbeat.turned(turn_ns);
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

/// How often the calling thread has given up its CPU or was made to; None: the kernel does not report.
fn switches() -> Option<i64> {
    // SAFETY: all zeroes is a valid rusage, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid and writable.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (done == 0).then_some(usage.ru_nvcsw + usage.ru_nivcsw)
}

/// CPU time of this process's loops so far (ns).
pub(crate) fn loop_ns() -> u64 {
    let loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.iter().filter_map(|thread| clock_ns(thread_cpu_clock(*thread)).ok()).sum()
}

/// The request for no latency of idle states; None without the right to it.
fn latency() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

/// Makes the calling thread give way to all others.
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
        let before = loop_ns();
        std::thread::sleep(Duration::from_millis(400));
        let split = meter.read().expect("procfs").remove(0);
        let looped = (loop_ns() - before) as f64 * 1e-9 / split.elapsed_s;
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
