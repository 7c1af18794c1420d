//! The eBPF meter.

use super::{Overhead, Snapshot, load::Programs, overhead};
use crate::cpu::{
    heartbeat::Heartbeat,
    kernel_counts::{self, Counts},
    types::{CpuMeter, CpuSplit, MeterError, MeterSpec, Method, Watch},
    util::{check, check_watch, pin_to},
};
use std::{fmt, thread};

/// Measures by eBPF programs until it is dropped.
pub struct EbpfMeter {
    spec: MeterSpec,
    programs: Programs,
    overhead: Option<Overhead>,
    mark: Snapshot,
    mark_counts: Vec<Counts>,
}

impl fmt::Debug for EbpfMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EbpfMeter")
            .field("spec", &self.spec)
            .field("overhead", &self.overhead)
            .field("missing", &self.programs.missing)
            .finish_non_exhaustive()
    }
}

impl EbpfMeter {
    /// Loads the programs, measures their cost (about 50 ms, with datagrams to itself over loopback), and starts.
    ///
    /// # Errors
    /// A CPU or task does not exist; [`MeterError::Unavailable`] if kernel or permissions do not allow it.
    pub fn start(spec: MeterSpec) -> Result<Self, MeterError> {
        Self::start_by(spec, overhead::measure)
    }

    /// As [`EbpfMeter::start`], but without datagrams: the programs' cost is measured over the machine's usual activity
    /// in 100 ms.
    ///
    /// # Errors
    /// As [`EbpfMeter::start`].
    pub fn start_silent(spec: MeterSpec) -> Result<Self, MeterError> {
        Self::start_by(spec, overhead::measure_silently)
    }

    fn start_by(spec: MeterSpec, cost: fn(&Programs) -> Option<Overhead>) -> Result<Self, MeterError> {
        check(&spec)?;
        let mut programs = Programs::load()?;
        if let Some(cpu) = spec.cpus.iter().find(|cpu| **cpu >= programs.most_cpus()) {
            return Err(MeterError::Unavailable {
                method: Method::Ebpf,
                reason: format!("CPU {cpu} is beyond the {} the programs have room for", programs.most_cpus()),
            });
        }
        for watch in &spec.watch {
            programs.watch(*watch)?;
        }
        visit(&spec.cpus);
        let mut meter = Self {
            overhead: cost(&programs),
            mark: Snapshot { cpus: Vec::new() },
            mark_counts: Vec::new(),
            spec,
            programs,
        };
        meter.mark()?;
        Ok(meter)
    }

    /// Stops measuring until [`EbpfMeter::wake`]; the programs cost no CPU time in between.
    pub fn rest(&mut self) {
        self.programs.detach();
    }

    /// Measures again after [`EbpfMeter::rest`]. Snapshots from before and after the rest cannot be compared.
    ///
    /// # Errors
    /// A required tracepoint refuses its program.
    pub fn wake(&mut self) -> Result<(), MeterError> {
        self.programs.attach_again()?;
        visit(&self.spec.cpus);
        self.mark()
    }

    /// All counters of the measured CPUs at this time.
    ///
    /// # Errors
    /// A CPU's counters changed during each attempt to copy them.
    pub fn snapshot(&self) -> Result<Snapshot, MeterError> {
        let cpus = self.spec.cpus.iter().map(|&cpu| {
            self.programs.snapshot(cpu).ok_or_else(|| MeterError::Read {
                what: format!("the eBPF counters of CPU {cpu}"),
                source: std::io::Error::other("they changed under every attempt to copy them"),
            })
        });
        Ok(Snapshot { cpus: cpus.collect::<Result<_, _>>()? })
    }

    /// CPU time of the programs; `None` if the kernel does not report it.
    pub fn overhead(&self) -> Option<Overhead> {
        self.overhead
    }

    /// Tracepoints that this kernel lacks; their events count for what they interrupt.
    pub fn missing(&self) -> &[String] {
        &self.programs.missing
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(cost) = self.overhead {
            notes.push(format!(
                "The meter's programs take {:.0} ns an event (measured over {} events); their time is contained in \
                 the shares.",
                cost.ns_per_event, cost.runs
            ));
        }
        if !self.missing().is_empty() {
            notes.push(format!(
                "This kernel lacks the tracepoints {}; their time counts for what they interrupt.",
                self.missing().join(", ")
            ));
        }
        notes
    }
}

impl CpuMeter for EbpfMeter {
    fn method(&self) -> Method {
        Method::Ebpf
    }

    fn watch(&mut self, watch: Watch) -> Result<(), MeterError> {
        check_watch(watch)?;
        self.programs.watch(watch)?;
        self.spec.watch.push(watch);
        visit(&self.spec.cpus);
        self.mark()
    }

    fn heartbeat(&self, cpu: usize) -> Option<Heartbeat> {
        self.programs.heartbeat(cpu)
    }

    fn mark(&mut self) -> Result<(), MeterError> {
        self.mark_counts = kernel_counts::read(&self.spec.cpus)?;
        self.mark = self.snapshot()?;
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<CpuSplit>, MeterError> {
        // Read in the same order as in `mark`: reading the kernel's files takes milliseconds, which must fall into the
        // interval of the kernel's counters, not into that of the snapshots.
        let counts = kernel_counts::read(&self.spec.cpus)?;
        let interval = &self.snapshot()? - &self.mark;
        let splits = interval.cpus.iter().zip(self.mark_counts.iter().zip(&counts));
        Ok(splits
            .map(|(interval, (earlier, later))| {
                let elapsed_s = interval.elapsed_ns.max(1) as f64 * 1e-9;
                let mut shares = interval.shares();
                shares.steal = Some(kernel_counts::steal_share(&earlier.ticks, &later.ticks, elapsed_s));
                CpuSplit {
                    cpu: interval.cpu,
                    method: Method::Ebpf,
                    elapsed_s,
                    shares,
                    available: None,
                    counters: interval.counters(kernel_counts::increase(earlier, later)),
                    resolution_share: 1e-9 / elapsed_s,
                    overhead_share: self.overhead.map(|cost| interval.figures.overhead_ns(&cost) * 1e-9 / elapsed_s),
                    polls: Some(interval.figures.poll_table()),
                    notes: self.notes(),
                }
            })
            .collect())
    }
}

/// Runs briefly on each CPU, so that a task switch shows the programs what runs there. Best effort: on CPUs where this
/// process must not run, the time until the first switch counts as unaccounted.
fn visit(cpus: &[usize]) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for &cpu in cpus {
                if pin_to(cpu).is_ok() {
                    thread::yield_now();
                }
            }
        });
    });
}
