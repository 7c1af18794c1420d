//! Keeping a CPU from halting while something is measured on it.
//!
//! A CPU that halts has to be woken: by its own idle states' exit times, and in a virtual machine by the hypervisor, which may give
//! it back milliseconds late. Two means: `/dev/cpu_dma_latency` held at 0 forbids idle states but the shallowest (which on many
//! machines still halts), and a thread of policy SCHED_IDLE that loops on the CPU, which never lets it halt and gives way to all else.
//! Both end with the process, however it ends: the kernel takes the latency request back when the file is closed.
//!
//! The loop counts as idle time in this crate's accounting: eBPF takes tasks of SCHED_IDLE for idle, procfs subtracts
//! `loop_ns`. The soaker is such a loop and a meter at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::cpu::util::{clock_ns, pin_to, this_thread, thread_cpu_clock};

/// Threads of this process that loop, for the meters.
static LOOPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A CPU that does not halt until this is dropped.
#[derive(Debug)]
pub struct Awake {
    /// Held open: closing it takes the request back.
    _latency: Option<File>,
    stop: Arc<AtomicBool>,
    looping: Option<(u32, JoinHandle<()>)>,
}

impl Awake {
    /// Keeps `cpu` from halting: by a loop, and with `/dev/cpu_dma_latency` at 0 besides where it can be opened, which keeps the other
    /// CPUs' idle states shallow too.
    ///
    /// # Errors
    /// No thread can be started, pinned to the CPU or given SCHED_IDLE.
    pub fn hold(cpu: u32) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let theirs = Arc::clone(&stop);
        let (started, outcome) = mpsc::channel();
        let handle = std::thread::Builder::new().name("netcliff-awake".into()).spawn(move || {
            let ready = pin_to(cpu as usize).and_then(|()| become_idle_class()).map(|()| this_thread());
            let go = ready.is_ok();
            if started.send(ready).is_ok() && go {
                while !theirs.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        })?;
        let thread = outcome.recv().map_err(|_| io::Error::other("the loop ended at once"))??;
        LOOPS.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(Self { _latency: latency(), stop, looping: Some((thread, handle)) })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some((thread, handle)) = self.looping.take() {
            LOOPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != thread);
            // It has nothing to say, even of a panic.
            let _ = handle.join();
        }
    }
}

/// CPU time of this process's loops so far (ns).
pub(crate) fn loop_ns() -> u64 {
    let loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.iter().filter_map(|thread| clock_ns(thread_cpu_clock(*thread)).ok()).sum()
}

/// The request for no latency of idle states; None where this may not be asked for.
fn latency() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

/// Makes the calling thread give way to all others.
pub(crate) fn become_idle_class() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is a valid sched_param; 0 means the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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
        let cpu = *online_cpus().last().expect("a CPU");
        let spec = MeterSpec { cpus: vec![cpu], watch: vec![Watch::Process(std::process::id())] };
        let awake = Awake::hold(cpu as u32).expect("a thread of SCHED_IDLE");
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
