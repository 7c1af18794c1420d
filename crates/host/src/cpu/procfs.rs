//! CPU shares from procfs.
//!
//! With CONFIG_TICK_CPU_ACCOUNTING (most kernels) /proc/stat is sampled by the timer tick: what runs at the tick is
//! charged the whole tick. A share p over n ticks has the standard error sqrt(p (1 - p) / n), and work that starts in
//! step with the tick is seen too often or never. Protocol work of ksoftirqd counts as softirq here. Watched tasks are
//! read from their CPU clocks, which are exact but include interrupts and softirqs during the task: `application` is an
//! upper bound, limited by the task time that the tick saw.

use super::{
    kernel_counts::{self, Counts},
    types::{CpuMeter, CpuSplit, MeterError, MeterSpec, Method, Shares, Watch},
    util::{check, check_watch, clock_ns, monotonic_ns, process_cpu_clock, thread_cpu_clock},
};
use crate::idle::loop_ns;
use crate::process;
use std::{fs, path::Path};

/// The procfs meter.
#[derive(Debug)]
pub struct ProcfsMeter {
    spec: MeterSpec,
    tick_hz: Option<f64>,
    mark: Reading,
}

#[derive(Debug, Clone)]
struct Reading {
    at_ns: u64,
    counts: Vec<Counts>,
    /// CPU time of all watched tasks (ns); `None` if one of them has ended.
    watched_ns: Option<u64>,
    /// CPU time on each CPU of the loop that keeps it from halting (ns).
    loops_ns: Vec<u64>,
}

impl ProcfsMeter {
    /// Starts measuring.
    ///
    /// # Errors
    /// A CPU or task does not exist, or /proc/stat is not readable.
    pub fn start(spec: MeterSpec) -> Result<Self, MeterError> {
        check(&spec)?;
        let mark = Reading::take(&spec)?;
        Ok(Self { tick_hz: tick_hz(), spec, mark })
    }

    fn notes(&self, sharing_cpus: bool) -> Vec<String> {
        let ticks = match self.tick_hz {
            Some(hz) => format!("sampled {hz} times a second by the timer tick"),
            None => "sampled by the timer tick (the kernel does not say how often)".to_owned(),
        };
        let mut notes = vec![format!(
            "CPU shares are {ticks} and printed by the kernel in steps of {:.0} ms.",
            1000.0 / kernel_counts::user_hz()
        )];
        if !self.spec.watch.is_empty() {
            notes.push(
                "The application's share is an upper bound: it includes interrupts and softirqs that came \
                 on top of it."
                    .to_owned(),
            );
            if sharing_cpus {
                notes.push(
                    "The application's share is given only when one CPU is measured: procfs does not report on \
                     which CPU a task ran."
                        .to_owned(),
                );
            }
        }
        notes
    }

    fn split(&self, index: usize, now: &Reading) -> CpuSplit {
        let elapsed_s = (now.at_ns - self.mark.at_ns).max(1) as f64 * 1e-9;
        let (earlier, later) = (&self.mark.counts[index], &now.counts[index]);
        let (a, b) = (&earlier.ticks, &later.ticks);
        // Whole ticks may add up to slightly more than the interval. Shares refer to the larger of the two, so they
        // cannot exceed 1.
        let counted_s = elapsed_s.max(b.counted_since_s(a));
        let share = |a, b| kernel_counts::share(a, b, counted_s);
        let ticked = share(a.user + a.nice + a.system, b.user + b.nice + b.system);
        // A loop that keeps the CPU from halting yields to everything else: its time was available.
        let looped = now.loops_ns[index].saturating_sub(self.mark.loops_ns[index]) as f64 * 1e-9 / counted_s;
        let looped = looped.min(ticked);
        let tasks = ticked - looped;
        let alone = self.spec.cpus.len() == 1;
        let application = (alone && !self.spec.watch.is_empty())
            .then(|| Some(now.watched_ns?.checked_sub(self.mark.watched_ns?)? as f64 * 1e-9 / counted_s))
            .flatten()
            .map(|share| if self.watches_loop() { (share - looped).max(0.0) } else { share })
            .map(|share| share.min(tasks));
        let idle = share(a.idle + a.iowait, b.idle + b.iowait) + looped;
        CpuSplit {
            cpu: self.spec.cpus[index],
            method: Method::Procfs,
            elapsed_s,
            shares: Shares {
                interrupt: Some(share(a.irq, b.irq)),
                protocol: Some(share(a.softirq, b.softirq)),
                application,
                other: Some(tasks - application.unwrap_or(0.0)),
                idle: Some(idle),
                steal: Some(kernel_counts::steal_share(a, b, counted_s)),
                available: Some(idle),
                ..Shares::default()
            },
            available: None,
            counters: kernel_counts::increase(earlier, later),
            resolution_share: self.resolution_s() / elapsed_s,
            overhead_share: None,
            polls: None,
            notes: self.notes(!alone),
        }
    }

    /// Whether this process is watched: the loops that keep CPUs awake are its threads.
    fn watches_loop(&self) -> bool {
        self.spec.watch.contains(&Watch::Process(std::process::id()))
    }

    /// The larger of the tick and the unit of /proc/stat (s).
    fn resolution_s(&self) -> f64 {
        let printed = 1.0 / kernel_counts::user_hz();
        self.tick_hz.map_or(printed, |hz| printed.max(1.0 / hz))
    }
}

impl CpuMeter for ProcfsMeter {
    fn method(&self) -> Method {
        Method::Procfs
    }

    fn watch(&mut self, watch: Watch) -> Result<(), MeterError> {
        check_watch(watch)?;
        self.spec.watch.push(watch);
        self.mark()
    }

    fn mark(&mut self) -> Result<(), MeterError> {
        self.mark = Reading::take(&self.spec)?;
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<CpuSplit>, MeterError> {
        let now = Reading::take(&self.spec)?;
        Ok((0..self.spec.cpus.len()).map(|index| self.split(index, &now)).collect())
    }
}

impl Reading {
    fn take(spec: &MeterSpec) -> Result<Self, MeterError> {
        let watched_ns = spec.watch.iter().map(|watch| task_cpu_ns(*watch)).sum();
        let loops_ns = spec.cpus.iter().map(|cpu| loop_ns(*cpu as u32)).collect();
        Ok(Self { at_ns: monotonic_ns(), counts: kernel_counts::read(&spec.cpus)?, watched_ns, loops_ns })
    }
}

/// CPU time of a watched task (ns); `None` if it has ended.
fn task_cpu_ns(watch: Watch) -> Option<u64> {
    match watch {
        Watch::Process(pid) => clock_ns(process_cpu_clock(pid)).ok(),
        Watch::Thread(tid) if Path::new(&format!("/proc/self/task/{tid}")).exists() => {
            clock_ns(thread_cpu_clock(tid)).ok()
        }
        // Thread clocks of other processes cannot be read; schedstat has the same number as of the last tick or switch,
        // if CONFIG_SCHED_INFO is set.
        Watch::Thread(tid) => process::scheduled(tid, tid).map(|scheduled| scheduled.ran_ns),
    }
}

/// CONFIG_HZ, from the running kernel's configuration if that is readable.
fn tick_hz() -> Option<f64> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let from_boot = fs::read_to_string(format!("/boot/config-{}", release.trim())).ok();
    let text = from_boot.or_else(|| {
        use std::io::Read as _;
        let mut text = String::new();
        flate2::read::GzDecoder::new(fs::File::open("/proc/config.gz").ok()?).read_to_string(&mut text).ok()?;
        Some(text)
    })?;
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
}
