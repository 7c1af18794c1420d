//! The soaker: uses up the remaining time of a CPU, and counts it.
//!
//! A thread with policy SCHED_IDLE, pinned to the measured CPU, counts iterations of a fixed piece of work. It runs
//! only if nothing else needs the CPU (next to a busy normal task it still gets about 0.3 %), so that its rate divided
//! by its rate on an idle CPU is the share that was available to others. This definition of "CPU available" does not
//! rely on the kernel's accounting; interrupts, softirqs and steal all reduce it.
//!
//! The idle rate is calibrated against the thread's own CPU time, so that it is correct even if the CPU is partly busy:
//! iterations per CPU second in batches, of which the median of the upper quarter is used, because disturbances
//! (interrupts during the CPU time) only reduce a batch's rate.
//!
//! Side effects: the CPU never idles. Wake-ups get cheaper (no exit from HLT or a deeper state), the clock frequency
//! stays high, and an SMT sibling becomes slower.

mod batches;

use super::{
    kernel_counts::{self, Counts},
    types::{CpuMeter, CpuSplit, MeterError, MeterSpec, Method, Shares, Watch},
    util::{check, check_watch, clock_ns, monotonic_ns, online_cpus, pin_to, this_thread, thread_cpu_clock},
};
use crate::idle::become_idle_class;
use batches::{Sample, estimate, upper_quarter_median};
use std::{
    hint::black_box,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Multiplications per iteration: about 0.4 us, far below a packet's cost and far above the cost of counting.
const WORK: u32 = 256;
/// Time between two samples of the counters.
const SAMPLE: Duration = Duration::from_millis(20);
/// Most samples stored: at 20 ms more than half an hour. Later samples are dropped.
const MOST_SAMPLES: usize = 100_000;
/// Least CPU time of a calibration batch (ns), so that clock granularity stays below 0.1 %.
const LEAST_BATCH_NS: u64 = 500_000;

/// The soaker meter: one thread per measured CPU, and one that samples their counts.
#[derive(Debug)]
pub struct SoakerMeter {
    spec: MeterSpec,
    shared: Arc<Shared>,
    soakers: Vec<Soaker>,
    threads: Vec<JoinHandle<()>>,
    mark: Sample,
    mark_cpu_ns: Vec<Option<u64>>,
    mark_counts: Vec<Counts>,
}

#[derive(Debug)]
struct Soaker {
    thread: u32,
    /// Iterations per CPU second.
    idle_rate: f64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    counters: Vec<Counter>,
    samples: Mutex<Vec<Sample>>,
}

/// A soaker's count, on its own cache line, so that soakers do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

/// Share of the calibrated speed below which a note is added.
const SLOW: f64 = 0.95;

impl Shared {
    fn sample(&self) -> Sample {
        Sample {
            at_ns: monotonic_ns(),
            iterations: self.counters.iter().map(|c| c.0.load(Ordering::Relaxed)).collect(),
        }
    }
}

impl SoakerMeter {
    /// Starts the threads and calibrates for `calibration` (200 ms suffices on an idle CPU).
    ///
    /// # Errors
    /// A CPU does not exist; the threads cannot be pinned or given SCHED_IDLE; or the CPU is so busy that the
    /// calibration got almost no time of it.
    pub fn start(spec: MeterSpec, calibration: Duration) -> Result<Self, MeterError> {
        check(&spec)?;
        let shared =
            Arc::new(Shared { counters: spec.cpus.iter().map(|_| Counter::default()).collect(), ..Shared::default() });
        let mut meter = Self {
            mark: shared.sample(),
            mark_cpu_ns: Vec::new(),
            mark_counts: kernel_counts::read(&spec.cpus)?,
            spec,
            shared,
            soakers: Vec::new(),
            threads: Vec::new(),
        };
        let mut ids = Vec::new();
        for index in 0..meter.spec.cpus.len() {
            ids.push(meter.spawn_soaker(index)?);
        }
        meter.soakers = calibrate(&meter.shared, &meter.spec.cpus, &ids, calibration)?;
        meter.spawn_sampler()?;
        meter.mark()?;
        Ok(meter)
    }

    /// The calibrated rate of each CPU when idle (iterations/s).
    pub fn idle_rates(&self) -> Vec<f64> {
        self.soakers.iter().map(|soaker| soaker.idle_rate).collect()
    }

    /// Thread IDs of the soakers: if another meter watches them, their time is the available time.
    pub fn threads(&self) -> Vec<u32> {
        self.soakers.iter().map(|soaker| soaker.thread).collect()
    }

    fn cpu_ns(&self) -> Vec<Option<u64>> {
        self.soakers.iter().map(|soaker| clock_ns(thread_cpu_clock(soaker.thread)).ok()).collect()
    }

    /// Iterations per CPU second since the mark, relative to the calibrated rate.
    fn speed(&self, index: usize, last: &Sample) -> Option<f64> {
        let ran_ns = self.cpu_ns()[index]?.checked_sub(self.mark_cpu_ns[index]?)?;
        let iterations = last.iterations[index].checked_sub(self.mark.iterations[index])?;
        (ran_ns >= LEAST_BATCH_NS).then(|| iterations as f64 * 1e9 / ran_ns as f64 / self.soakers[index].idle_rate)
    }

    fn notes(&self, index: usize, last: &Sample) -> Vec<String> {
        let mut notes = vec![
            "The soaker keeps the CPU from idling: wake-ups are cheaper than without it, and whatever else uses \
             this CPU counts as not available."
                .to_owned(),
        ];
        if let Some(speed) = self.speed(index, last).filter(|speed| *speed < SLOW) {
            notes.push(format!(
                "While it ran, the soaker got {:.0} % of its calibrated speed: interrupts and softirqs on top of it, \
                 a busy SMT sibling, a lower clock, or the hypervisor.",
                speed * 100.0
            ));
        }
        notes
    }

    fn spawn_soaker(&mut self, index: usize) -> Result<u32, MeterError> {
        let (shared, cpu) = (Arc::clone(&self.shared), self.spec.cpus[index]);
        let (started, outcome) = mpsc::channel();
        let handle = thread::Builder::new()
            .name(format!("soaker/{cpu}"))
            .spawn(move || {
                let ready = pin_to(cpu).and_then(|()| become_idle_class()).map(|()| this_thread());
                let go = ready.is_ok();
                if started.send(ready).is_ok() && go {
                    soak(&shared, index);
                }
            })
            .map_err(|source| unavailable(format!("no thread could be started: {source}")))?;
        self.threads.push(handle);
        outcome
            .recv()
            .map_err(|_| unavailable(format!("the thread on CPU {cpu} ended at once")))?
            .map_err(|source| unavailable(format!("no SCHED_IDLE thread on CPU {cpu}: {source}")))
    }

    fn spawn_sampler(&mut self) -> Result<(), MeterError> {
        let shared = Arc::clone(&self.shared);
        let measured = self.spec.cpus.clone();
        let handle = thread::Builder::new()
            .name("soaker/sampler".to_owned())
            .spawn(move || {
                // Best effort: on a machine with no other CPU it samples on any CPU.
                if let Some(cpu) = online_cpus().into_iter().find(|cpu| !measured.contains(cpu)) {
                    let _ = pin_to(cpu);
                }
                while !shared.stop.load(Ordering::Relaxed) {
                    thread::sleep(SAMPLE);
                    let mut samples = shared.samples.lock().unwrap_or_else(PoisonError::into_inner);
                    if samples.len() < MOST_SAMPLES {
                        samples.push(shared.sample());
                    }
                }
            })
            .map_err(|source| unavailable(format!("no thread could be started: {source}")))?;
        self.threads.push(handle);
        Ok(())
    }

    fn split(&self, index: usize, samples: &[Sample], counts: &[Counts]) -> CpuSplit {
        let last = samples.last().unwrap_or(&self.mark);
        let elapsed_s = (last.at_ns - self.mark.at_ns).max(1) as f64 * 1e-9;
        let rate = self.soakers[index].idle_rate;
        let available = estimate(&self.mark, samples, index, rate);
        let (earlier, later) = (&self.mark_counts[index], &counts[index]);
        CpuSplit {
            cpu: self.spec.cpus[index],
            method: Method::Soaker,
            elapsed_s,
            shares: Shares {
                available: Some(available.mean.clamp(0.0, 1.0)),
                steal: Some(kernel_counts::steal_share(&earlier.ticks, &later.ticks, elapsed_s)),
                ..Shares::default()
            },
            available: Some(available),
            counters: kernel_counts::increase(earlier, later),
            resolution_share: 1.0 / (rate * elapsed_s),
            overhead_share: None,
            polls: None,
            notes: self.notes(index, last),
        }
    }
}

impl CpuMeter for SoakerMeter {
    fn method(&self) -> Method {
        Method::Soaker
    }

    fn watch(&mut self, watch: Watch) -> Result<(), MeterError> {
        check_watch(watch)?;
        self.mark()
    }

    fn mark(&mut self) -> Result<(), MeterError> {
        self.mark_counts = kernel_counts::read(&self.spec.cpus)?;
        let mut samples = self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.clear();
        self.mark = self.shared.sample();
        self.mark_cpu_ns = self.cpu_ns();
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<CpuSplit>, MeterError> {
        let mut samples = self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
        samples.push(self.shared.sample());
        let counts = kernel_counts::read(&self.spec.cpus)?;
        Ok((0..self.spec.cpus.len()).map(|index| self.split(index, &samples, &counts)).collect())
    }
}

impl Drop for SoakerMeter {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for handle in self.threads.drain(..) {
            // A soaker that panicked has no more results.
            let _ = handle.join();
        }
    }
}

fn unavailable(reason: String) -> MeterError {
    MeterError::Unavailable { method: Method::Soaker, reason }
}

fn soak(shared: &Shared, index: usize) {
    let counter = &shared.counters[index].0;
    let (mut state, mut iterations) = (1u64, 0u64);
    while !shared.stop.load(Ordering::Relaxed) {
        for _ in 0..WORK {
            // Each step depends on the one before, so that the time does not depend on the CPU's width.
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        iterations += 1;
        counter.store(iterations, Ordering::Relaxed);
    }
}

/// Measures each soaker's rate per CPU second.
fn calibrate(shared: &Shared, cpus: &[usize], ids: &[u32], duration: Duration) -> Result<Vec<Soaker>, MeterError> {
    let read = || -> io::Result<Vec<(u64, u64)>> {
        ids.iter()
            .zip(&shared.counters)
            .map(|(id, counter)| Ok((clock_ns(thread_cpu_clock(*id))?, counter.0.load(Ordering::Relaxed))))
            .collect()
    };
    let failed = |source| MeterError::Read { what: "the soaker's CPU clock".to_owned(), source };
    let mut rates = vec![Vec::new(); ids.len()];
    let mut before = read().map_err(failed)?;
    let end = monotonic_ns() + duration.as_nanos() as u64;
    while monotonic_ns() < end {
        thread::sleep(Duration::from_millis(5));
        let after = read().map_err(failed)?;
        for (index, (a, b)) in before.iter_mut().zip(after).enumerate() {
            // A batch grows until it covers enough CPU time.
            if b.0 - a.0 >= LEAST_BATCH_NS {
                rates[index].push((b.1 - a.1) as f64 * 1e9 / (b.0 - a.0) as f64);
                *a = b;
            }
        }
    }
    rates
        .iter_mut()
        .zip(cpus.iter().zip(ids))
        .map(|(rates, (cpu, thread))| {
            let idle_rate = upper_quarter_median(rates).ok_or_else(|| {
                unavailable(format!(
                    "CPU {cpu} was too busy for {duration:?} to calibrate the soaker; free the CPU or \
                     calibrate for longer"
                ))
            })?;
            Ok(Soaker { thread: *thread, idle_rate })
        })
        .collect()
}
