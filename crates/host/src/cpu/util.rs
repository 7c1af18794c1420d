//! Helpers shared by the meters: clocks, CPU numbers, running on a CPU.

use super::types::{MeterError, MeterSpec, Watch};
use std::time::{Duration, Instant};
use std::{fs, io, path::Path, thread};

/// CLOCK_MONOTONIC (ns), the clock of `bpf_ktime_get_ns`.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC always exists on Linux")
}

/// Reads any clock (ns); fails for the CPU clock of a task that has ended.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to write to.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The CPU clock of a whole process (clock_getcpuclockid(3)); in ns on any kernel with CFS or EEVDF.
pub(crate) fn process_cpu_clock(pid: u32) -> libc::clockid_t {
    // As encoded by the kernel: ~pid << 3 | CPUCLOCK_SCHED.
    (!(pid as libc::clockid_t) << 3) | 2
}

/// The CPU clock of one thread of this process.
pub(crate) fn thread_cpu_clock(tid: u32) -> libc::clockid_t {
    // As encoded by the kernel, with CPUCLOCK_PERTHREAD_MASK.
    (!(tid as libc::clockid_t) << 3) | 4 | 2
}

/// This thread's id.
pub(crate) fn this_thread() -> u32 {
    crate::system::thread_id() as u32
}

/// Reads a file; an error names it.
pub(crate) fn read_file(path: impl AsRef<Path>) -> Result<String, MeterError> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|source| MeterError::Read { what: path.display().to_string(), source })
}

/// The online CPUs; if the kernel does not report them, CPUs 0 to N - 1, where N is the number of CPUs that this thread
/// may use.
pub(crate) fn online_cpus() -> Vec<usize> {
    match crate::inventory::online_cpus(Path::new("/")) {
        none if none.is_empty() => (0..std::thread::available_parallelism().map_or(1, |n| n.get())).collect(),
        cpus => cpus.into_iter().map(|cpu| cpu as usize).collect(),
    }
}

/// Checks a specification before a meter uses it.
pub(crate) fn check(spec: &MeterSpec) -> Result<(), MeterError> {
    if spec.cpus.is_empty() {
        return Err(MeterError::NoCpu);
    }
    let online = online_cpus();
    for &cpu in &spec.cpus {
        if !online.contains(&cpu) {
            let online: Vec<String> = online.iter().map(usize::to_string).collect();
            return Err(MeterError::NoSuchCpu { cpu, online: online.join(",") });
        }
    }
    spec.watch.iter().try_for_each(|watch| check_watch(*watch))
}

/// Checks that a task to be watched exists.
pub(crate) fn check_watch(watch: Watch) -> Result<(), MeterError> {
    let (Watch::Process(id) | Watch::Thread(id)) = watch;
    // /proc/TID exists for threads, too, although it is not listed.
    if id == 0 || !Path::new(&format!("/proc/{id}")).exists() {
        return Err(MeterError::NoSuchTask { watch });
    }
    Ok(())
}

/// Pins the calling thread to one CPU.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    Ok(crate::system::bind_thread(0, &[cpu])?)
}

/// Time to switch between two threads on a CPU (s): the median of five comparisons of two threads that yield to each
/// other with one that yields to itself. Takes 0.1 s. Other work on the CPU makes it longer.
///
/// # Errors
/// This process may not use the CPU, or cannot create a thread.
pub fn switch_s(cpu: usize) -> io::Result<f64> {
    let times: io::Result<Vec<f64>> = (0..5).map(|_| Ok((yield_s(cpu, 2)? - yield_s(cpu, 1)?).max(0.0))).collect();
    let mut times = times?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Mean time of a sched_yield(2) in this number of threads on one CPU (s).
fn yield_s(cpu: usize, threads: usize) -> io::Result<f64> {
    const FOR: Duration = Duration::from_millis(10);
    let count = move || -> io::Result<u64> {
        pin_to(cpu)?;
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < FOR {
            (0..32).for_each(|_| thread::yield_now());
            count += 32;
        }
        Ok(count)
    };
    let counters = (0..threads).map(|_| thread::Builder::new().spawn(count)).collect::<io::Result<Vec<_>>>()?;
    let counts: io::Result<u64> = counters.into_iter().map(|one| one.join().expect("it does not panic")).sum();
    Ok(FOR.as_secs_f64() / counts?.max(1) as f64)
}

/// The two-sided 95 % quantile of Student's t.
pub(crate) fn t_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match degrees_of_freedom {
        0 => f64::INFINITY,
        n if n <= TABLE.len() => TABLE[n - 1],
        // Cornish-Fisher expansion around the normal quantile; error below 0.001 above 30.
        n => 1.95996 + 2.3722 / n as f64 + 2.8225 / (n as f64).powi(2),
    }
}
