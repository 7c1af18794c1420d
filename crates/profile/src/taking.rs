//! Takes samples and counters from this host: [`profile`].

mod names;
mod packets;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netcliff_core::Provenance;
use netcliff_core::finding::{FigurePath, HostSummary, Missing};
use netcliff_core::math::SplitMix64;
use netcliff_core::profile::{Folded, IDLE_IN_STAGES, Profile, ProfileClasses, ProfileMeter, Sampled, Stage};
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{self, CpuMeter, CpuSplit, MeterSpec, Preference, Watch};
use netcliff_host::drops::symbols::Symbols;
use netcliff_host::fingerprint;
use netcliff_host::inspect::Inspection;
use netcliff_host::perf::{Event, Every, Fields, Mode, Record, Sampler, now_ns};
use netcliff_host::serving::{Counted, Program, own_thread_cpu_s};

use crate::account::{self, Slice, Stack, Window};
use crate::cost::Timers;
use crate::locks::Waits;
use crate::table::{self, Table};
use crate::weights::{Heap, Key, Lattice, Source, Timed, in_ns};
use names::{Namer, name};
use packets::{Device, devices};

/// Interval between readings of the kernel's ring buffers of samples. At 999 samples per second, each with 40 stack
/// frames, a CPU's ring of 2 MiB has room for the samples of six seconds; the smallest ring, of 32 KiB, for the samples
/// of a tenth of a second.
const LOOK: Duration = Duration::from_millis(50);
/// A new random period of the clock is drawn after this number of readings. With a constant period, samples would be
/// synchronous with a load that has its own timer, as most generators do: with a period of 1.001 ms, a loop behind a
/// sender with a period of 1 ms appeared 21 % too long.
const REDRAWN: u32 = 2;
/// Largest deviation of the random period from its mean, as a share.
const JITTER: f64 = 0.3;
/// Maximum number of periods for which one sample counts. A virtual CPU may resume late after a halt; the time of this
/// gap beyond the maximum is in no stage.
const LONGEST_GAP: u64 = 4;
/// Number of slices of a window.
const SLICES: u32 = 20;
/// Minimum length of a slice.
const SHORTEST_SLICE: Duration = Duration::from_millis(200);
/// Samples per second on each CPU: neither a divisor nor a multiple of usual timer rates, so that samples are not
/// synchronous with timers.
const RATE_HZ: u32 = 999;
/// Share of a CPU that samples may take if no rate is given. The tracepoints of the timer interrupt in which samples
/// are taken measure this share.
///
/// The tracepoints miss the CPU's entry into the interrupt and its exit. According to the gaps in a loop on a quiet
/// guest, a sample takes 13 to 14 us when the tracepoints measure 10 us; 499 samples per second take 0.54 to 0.75 %,
/// and 677 take 1.0 to 1.3 %. The promise is 1 % for samples and reader together; the reader may use the rest.
const BUDGET: f64 = 0.0045;
/// Minimum number of samples per second, whatever the budget.
const LEAST_HZ: f64 = 99.0;
/// Time before the window during which the cost of a sample is measured.
const COST: Duration = Duration::from_millis(400);
/// Maximum number of distinct stacks that are stored, at some 500 bytes each; samples of further stacks are lost.
const MOST_PLACES: usize = 400_000;
/// Share of packets on other interfaces above which the report warns.
const OTHERS: f64 = 0.1;
/// Share of steal time above which the report warns.
const STOLEN: f64 = 0.005;
/// Share of missing samples above which the report warns.
const MISSING: f64 = 0.03;
/// Idle time explains missing samples if it covers this share of the time without samples.
const EXPLAINED: f64 = 0.9;
/// Idle time in the stages, as a share of all busy time by the samples, above which the report warns.
const IDLE_INSIDE: f64 = 0.05;
/// Share of time in unknown functions above which the report warns.
const UNKNOWN: f64 = 0.05;
/// Share of late samples above which the report warns.
const LATE: f64 = 0.05;
/// Number of samples below which the report warns.
const FEW_SAMPLES: u64 = 400;
/// Number of packets below which the report warns.
const FEW_PACKETS: u64 = 1000;
/// Options of a profile.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interfaces whose packets are counted. Empty: the main interfaces, or all packets that enter the stack if the
    /// main interfaces have less than a tenth of them.
    pub interfaces: Vec<String>,
    /// CPUs to sample; empty: all.
    pub cpus: Vec<usize>,
    /// Process that counts as the application; `None`: all programs that work for the network.
    pub pid: Option<u32>,
    /// Length of the profile.
    pub length: Duration,
    /// True: the profile ends with a load, at a time unknown before, and counts as complete then.
    pub until_stopped: bool,
    /// Samples per second on each CPU; `None`: `RATE_HZ`, or fewer if these would cost too much.
    pub rate_hz: Option<u32>,
    /// Whether contention of locks is measured.
    pub locks: bool,
    /// Meter with which the samples are compared; `None`: no comparison.
    pub meter: Option<Preference>,
    /// Whether netcliff's own work is part of the account, because netcliff is the application.
    pub own: bool,
    /// The load that netcliff generates, in words; `None` if it generates no load.
    pub load: Option<String>,
    /// The command line.
    pub command: String,
}

/// Why a profile failed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// An interface, program or CPU that was named does not exist.
    #[error("{0}")]
    Usage(String),
    /// The kernel does not permit sampling, or a call failed.
    #[error("{0}")]
    Failed(String),
}

/// Progress of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Time since the start (s).
    pub elapsed_s: f64,
    /// Number of samples so far.
    pub samples: u64,
}

fn failed(error: impl std::fmt::Display) -> ProfileError {
    ProfileError::Failed(error.to_string())
}

/// Samples this host for a while, and divides the CPU time by its packets. Setting `stop` ends the profile early, with
/// a partial result.
///
/// # Errors
/// One sentence: an interface, program or CPU does not exist, or the kernel does not permit this process to sample.
pub fn profile(
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Profile, Vec<Folded>), ProfileError> {
    let cpus = cpus(&options.cpus)?;
    if let Some(pid) = options.pid.filter(|pid| Program::of(*pid).is_none()) {
        return Err(ProfileError::Usage(format!(
            "--pid {pid}: there is no process of that number; `pgrep NAME` finds one"
        )));
    }
    let host = Inspection::of_this_host(Duration::ZERO)
        .map_err(|error| failed(format!("cannot ask the kernel for its interfaces: {error}")))?;
    refuse_interfaces(&options.interfaces, &host)?;
    let symbols = Symbols::read().map_err(|error| failed(format!("cannot read /proc/kallsyms: {error}")))?;
    if let Some(limit) = symbols.limit() {
        return Err(failed(format!("stages cannot be named: {limit}")));
    }
    let mut taking = Taking::open(options, &host, cpus)?;
    taking.measure_cost(stop)?;
    taking.run(stop, progress)?;
    // Programs and modules may have been loaded since the start.
    let symbols = Symbols::read().map(|now| symbols.and(now)).map_err(failed)?;
    Ok(taking.conclude(&symbols, &host))
}

/// Returns the CPUs to sample: the CPUs in `named`, or all.
fn cpus(named: &[usize]) -> Result<Vec<usize>, ProfileError> {
    let online: Vec<usize> =
        netcliff_host::inventory::online_cpus(std::path::Path::new("/")).into_iter().map(|cpu| cpu as usize).collect();
    if let Some(cpu) = named.iter().find(|cpu| !online.contains(cpu)) {
        let online: Vec<String> = online.iter().map(usize::to_string).collect();
        return Err(ProfileError::Usage(format!(
            "--cpu {cpu}: no such CPU is online; online are {}",
            online.join(",")
        )));
    }
    let mut cpus = if named.is_empty() { online } else { named.to_vec() };
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn refuse_interfaces(named: &[String], host: &Inspection) -> Result<(), ProfileError> {
    let Some(name) = named.iter().find(|name| host.port(name).is_none()) else { return Ok(()) };
    let names: Vec<&str> = host.ports.iter().map(|port| port.nic.name.as_str()).collect();
    let there =
        if names.is_empty() { "it has no interface".to_owned() } else { format!("there are {}", names.join(", ")) };
    Err(ProfileError::Usage(format!("--if {name}: there is no such interface in this network namespace; {there}")))
}

/// Describes why perf_event_open(2) failed, and what to do about it.
fn refused(error: &std::io::Error) -> ProfileError {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    failed(match error.raw_os_error() {
        Some(libc_number) if libc_number == 13 || libc_number == 1 => format!(
            "the kernel refuses samples of its CPUs ({error}): run as root or with CAP_PERFMON, or set kernel.perf_event_paranoid to 0 or less \
             (it is {paranoid}); a container's seccomp filter has to allow perf_event_open, too"
        ),
        Some(38) => "this kernel has no perf_event_open (CONFIG_PERF_EVENTS): nothing can be sampled".to_owned(),
        Some(24) => format!("too few file descriptors for an event a CPU ({error}): raise `ulimit -n`"),
        _ => format!("perf_event_open failed: {error}"),
    })
}

/// The state of a profile.
struct Taking<'a> {
    options: &'a Options,
    cpus: Vec<usize>,
    clock: Sampler,
    cycles: Option<Sampler>,
    waits: Option<Waits>,
    devices: Vec<Device>,
    rate_hz: u32,
    chance: SplitMix64,
    lattice: Lattice,
    meter: Option<Box<dyn CpuMeter>>,
    split: Vec<CpuSplit>,
    heap: Heap,
    names: HashMap<u32, String>,
    /// Times at which slices end (ns of CLOCK_MONOTONIC); the first entry is the start.
    bounds: Vec<u64>,
    /// Packets of each device by slice.
    counted: Vec<Vec<Counted>>,
    sample_s: Option<f64>,
    /// Time that the hypervisor took and idle time by /proc/stat, as shares of one CPU, summed over the CPUs.
    stolen: f64,
    idle: f64,
    own_s: f64,
    seconds: f64,
    started_unix_s: f64,
    partial: bool,
    missing: Vec<Missing>,
    cautions: Vec<String>,
}

fn lacks(missing: &mut Vec<Missing>, figure: &str, why: String) {
    missing.push(Missing { figure: FigurePath::Named(figure.to_owned()), why });
}

impl<'a> Taking<'a> {
    fn open(options: &'a Options, host: &Inspection, cpus: Vec<usize>) -> Result<Self, ProfileError> {
        let (mut missing, mut cautions) = (Vec::new(), Vec::new());
        let rate_hz = options.rate_hz.unwrap_or(RATE_HZ);
        let clock = clock(rate_hz, &cpus)?;
        let cycles = cycles(rate_hz, &cpus);
        if let Err(error) = &cycles {
            // ENOENT: the kernel has no such counter, and its message adds nothing.
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => String::new(),
                _ => format!(" ({error})"),
            };
            lacks(
                &mut missing,
                "cycles",
                format!(
                    "This machine gives no hardware cycles{why}: samples are of the CPU clock, whose timer waits while interrupts are off. Time with interrupts off is shown at the function that turns them on again, which counts for its caller; time of a device interrupt, at the softirq after it. A virtual CPU that halts takes its timer late, in what runs when it wakes: on CPUs with idle time, stages at the beginning of a packet's path are too long (in a test, code that runs 34 us showed as 84 to 90 us), and interrupts that no softirq follows count as idle time."
                ),
            );
        }
        let waits = options.locks.then(|| Waits::start(&cpus)).transpose().unwrap_or_else(|error| {
            lacks(&mut missing, "locks", format!("The kernel's tracepoints lock:contention_begin and lock:contention_end (Linux 5.19) cannot be recorded: {error}."));
            None
        });
        let devices = devices(host, &options.interfaces, &cpus, &mut cautions);
        Ok(Self {
            options,
            clock,
            cycles: cycles.ok(),
            waits,
            devices,
            rate_hz,
            chance: SplitMix64(now_ns()),
            lattice: Lattice::new(period_ns(f64::from(rate_hz)), LONGEST_GAP, 0),
            meter: None,
            split: Vec::new(),
            heap: Heap::default(),
            names: HashMap::new(),
            bounds: Vec::new(),
            counted: Vec::new(),
            sample_s: None,
            stolen: 0.0,
            idle: 0.0,
            own_s: 0.0,
            seconds: 0.0,
            started_unix_s: 0.0,
            partial: false,
            missing,
            cautions,
            cpus,
        })
    }

    /// Samples for a short time while recording the timer's interrupts, to measure the cost of a sample. These samples
    /// are not part of the window.
    fn measure_cost(&mut self, stop: &AtomicBool) -> Result<(), ProfileError> {
        let mut why = "the samples of that moment were too few".to_owned();
        match Timers::start(&self.cpus).and_then(|timers| self.clock.start().map(|()| timers)) {
            Ok(timers) => {
                wait(Instant::now() + COST, stop);
                let mut samples = Vec::new();
                self.clock.drain(|cpu, record| {
                    if let Record::Sample(sample) = record {
                        samples.push((cpu, sample.time_ns));
                    }
                });
                match timers.finish(&samples) {
                    Ok(mean_s) => self.sample_s = mean_s,
                    Err(error) => why = error.to_string(),
                }
            }
            Err(error) => why = error.to_string(),
        }
        let affordable = self.sample_s.map(|sample_s| (BUDGET / sample_s).max(LEAST_HZ));
        if let Some(affordable) =
            affordable.filter(|most| self.options.rate_hz.is_none() && *most < f64::from(self.rate_hz))
        {
            // An odd rate, so that samples are not synchronous with timers (see `RATE_HZ`).
            self.rate_hz = (affordable as u32 - 1) | 1;
            self.clock = clock(self.rate_hz, &self.cpus)?;
            self.cycles = self.cycles.take().and_then(|_| cycles(self.rate_hz, &self.cpus).ok());
        }
        if self.sample_s.is_none() {
            lacks(
                &mut self.missing,
                "sample_s",
                format!(
                    "What a sample costs was not measured by the tracepoints irq_vectors:local_timer_entry and local_timer_exit: {why}."
                ),
            );
        }
        Ok(())
    }

    fn run(&mut self, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<(), ProfileError> {
        let shortest = if self.options.until_stopped { Duration::ZERO } else { self.options.length / SLICES };
        let mut slice = shortest.max(SHORTEST_SLICE);
        if let Some(preference) = self.options.meter {
            let watch = self.options.pid.map(Watch::Process).into_iter().collect();
            let spec = MeterSpec { cpus: self.cpus.clone(), watch };
            self.meter = Some(cpu::choose(preference, &spec).map_err(failed)?.meter);
        }
        self.clock.start().map_err(|error| refused(&error))?;
        self.cycles.as_ref().map_or(Ok(()), Sampler::start).map_err(|error| refused(&error))?;
        self.started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let system = SystemStamp::now().map_err(failed)?;
        let own_s = own_thread_cpu_s();
        if let Some(meter) = &mut self.meter {
            meter.mark().map_err(failed)?;
        }
        self.devices.iter_mut().for_each(Device::mark);
        let began = Instant::now();
        // Samples before this time are not part of the window.
        let start_ns = now_ns();
        self.bounds.push(start_ns);
        self.lattice = Lattice::new(period_ns(f64::from(self.rate_hz)), LONGEST_GAP, start_ns);
        let end = began + self.options.length;
        let mut next = began + slice;
        let mut reported = began;
        let mut looks = 0;
        progress(&Progress::default());
        loop {
            let until = next.min(end).min(Instant::now() + LOOK);
            wait(until, stop);
            let ended = stop.load(Ordering::Relaxed) || Instant::now() >= end;
            if ended || Instant::now() >= next {
                self.count();
                next += slice;
                if self.bounds.len() > 2 * SLICES as usize {
                    self.halve();
                    slice *= 2;
                }
            }
            if ended {
                break;
            }
            self.drain();
            looks += 1;
            if looks % REDRAWN == 0 {
                let drawn = drawn_hz(f64::from(self.rate_hz), self.chance.uniform());
                self.clock.set_period(period_ns(drawn)).map_err(failed)?;
                self.lattice.redraw(period_ns(drawn), now_ns());
            }
            if reported.elapsed() >= Duration::from_secs(1) {
                reported = Instant::now();
                progress(&Progress { elapsed_s: began.elapsed().as_secs_f64(), samples: self.heap.samples });
            }
        }
        self.seconds = began.elapsed().as_secs_f64();
        if let Some(meter) = &mut self.meter {
            self.split = meter.read().map_err(failed)?;
        }
        self.clock.stop().and_then(|()| self.cycles.as_ref().map_or(Ok(()), Sampler::stop)).map_err(failed)?;
        if let Some(waits) = &self.waits {
            waits.stop().map_err(failed)?;
        }
        self.own_s = own_thread_cpu_s() - own_s;
        self.drain();
        self.partial = !self.options.until_stopped && self.seconds < 0.99 * self.options.length.as_secs_f64();
        let mut shares = system.until(&SystemStamp::now().map_err(failed)?);
        shares.retain(|share| self.cpus.contains(&share.cpu));
        self.stolen = shares.iter().map(|share| share.steal).sum();
        self.idle = shares.iter().map(|share| share.idle).sum();
        Ok(())
    }

    /// Ends a slice.
    fn count(&mut self) {
        self.bounds.push(now_ns());
        self.counted.push(self.devices.iter_mut().map(Device::grown).collect());
    }

    /// Merges slices in pairs, to limit the number of slices of a profile whose end is not known.
    fn halve(&mut self) {
        self.drain();
        let slices = self.counted.len();
        let mut bounds: Vec<u64> = self.bounds.iter().copied().step_by(2).collect();
        if slices % 2 == 1 {
            bounds.extend(self.bounds.last());
        }
        self.bounds = bounds;
        let pair = |pair: &[Vec<Counted>]| {
            let add = |at: usize| {
                pair.iter().fold(Counted::default(), |sum, slice| Counted {
                    rx_packets: sum.rx_packets + slice[at].rx_packets,
                    rx_bytes: sum.rx_bytes + slice[at].rx_bytes,
                    rx_dropped: sum.rx_dropped + slice[at].rx_dropped,
                    tx_packets: sum.tx_packets + slice[at].tx_packets,
                })
            };
            (0..self.devices.len()).map(add).collect()
        };
        self.counted = self.counted.chunks(2).map(pair).collect();
        for (_, by_slice) in self.heap.places.values_mut() {
            *by_slice = by_slice.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// Reads all records from the rings.
    fn drain(&mut self) {
        let (heap, names, bounds, lattice) = (&mut self.heap, &mut self.names, &self.bounds, &mut self.lattice);
        let own = std::process::id();
        let mut take = |source: Source, cpu: usize, record: Record| match record {
            Record::Lost(samples) => heap.lost += samples,
            Record::Sample(sample) => {
                let Some(slice) = bounds.partition_point(|bound| *bound <= sample.time_ns).checked_sub(1) else {
                    return;
                };
                names.entry(sample.pid).or_insert_with(|| name(sample.pid, own));
                let events = match source {
                    Source::Clock => lattice.stands_for(cpu, sample.time_ns),
                    Source::Cycles => sample.period as f64,
                };
                if heap.places.len() >= MOST_PLACES {
                    heap.lost += 1;
                } else {
                    heap.add(source, cpu, slice, sample, events);
                }
            }
        };
        self.clock.drain(|cpu, record| take(Source::Clock, cpu, record));
        if let Some(cycles) = &mut self.cycles {
            cycles.drain(|cpu, record| take(Source::Cycles, cpu, record));
        }
        if let Some(waits) = &mut self.waits {
            waits.take();
        }
    }

    fn conclude(mut self, symbols: &Symbols, host: &Inspection) -> (Profile, Vec<Folded>) {
        let release = host.host.kernel.release.clone().unwrap_or_default();
        let drivers: Vec<String> = host.ports.iter().filter_map(|port| port.nic.driver.clone()).collect();
        let table = Table::new(table::kernel(&release), &drivers);
        let namer = Namer { symbols, known: HashMap::new() };
        let heap = std::mem::take(&mut self.heap);
        let (lost, samples) = (heap.lost, heap.samples);
        let (stacks, by_cycles, namer) = self.stacks(heap, &table, namer);
        let (chosen, packets) = self.packets(host);
        let slices = self.bounds.windows(2).zip(&self.counted).map(|(bounds, counted)| {
            let sum = |of: fn(&Counted) -> u64| chosen.iter().map(|at| of(&counted[*at])).sum::<u64>() as f64;
            let sent = packets.divisor == "sent";
            Slice {
                seconds: (bounds[1] - bounds[0]) as f64 * 1e-9,
                packets: if sent { sum(|one| one.tx_packets) } else { sum(|one| one.rx_packets) },
            }
        });
        let window = Window {
            slices: slices.collect(),
            stacks,
            own: (!self.options.own).then(std::process::id),
            watched: self.options.pid,
        };
        let account = account::account(&table, &window);
        let known = symbols.have(table.names()) as u64;
        let sampled = Sampled {
            cpus: self.cpus.iter().map(|cpu| *cpu as u32).collect(),
            seconds: self.seconds,
            slices: window.slices.len() as u64,
            event: if by_cycles { "cycles" } else { "cpu-clock" }.to_owned(),
            rate_hz: f64::from(self.rate_hz),
            samples,
            lost,
            sample_s: self.sample_s,
            own_cpu: self.own_s / self.seconds.max(1e-9),
            names_known: known,
            names: table.names().count() as u64,
        };
        let inventory = &host.host;
        let fingerprint =
            fingerprint::of_host(inventory, &host.ports.iter().map(|port| port.nic.clone()).collect::<Vec<_>>());
        let driver = |name: &String| {
            let nic = &host.port(name)?.nic;
            Some(format!("{name}: {}", nic.driver.as_ref().or(nic.kind.as_ref())?))
        };
        let locks = self.waits.as_ref().map(|waits| {
            let names = &self.names;
            let named = |pid: u32| {
                if pid == 0 { "idle task".to_owned() } else { names.get(&pid).cloned().unwrap_or_else(|| name(pid, 0)) }
            };
            waits.contention(named, |stack| namer.wants(stack, &table))
        });
        let mut profile = Profile {
            kind: "profile".to_owned(),
            load: self.options.load.clone(),
            host: HostSummary {
                cpu: format!(
                    "{} x {}",
                    inventory.cpu.online.len(),
                    inventory.cpu.model.as_deref().unwrap_or("unknown CPU")
                ),
                kernel: format!("Linux {}", inventory.kernel.release.as_deref().unwrap_or("of unknown release")),
                testbed: "none: sampled at work".to_owned(),
                driver: packets.interfaces.iter().filter_map(driver).collect::<Vec<_>>().join(", "),
                limits: Vec::new(),
                at: None,
            },
            meter: meter(&self.split, &account.classes),
            sampled,
            packets,
            per_packet_s: account.per_packet_s,
            stages: account.stages,
            classes: account.classes,
            programs: account.programs,
            locks,
            missing: std::mem::take(&mut self.missing),
            cautions: std::mem::take(&mut self.cautions),
            provenance: Provenance {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                command: self.options.command.clone(),
                started_unix_s: self.started_unix_s,
                elapsed_s: Some(self.seconds),
                fingerprint_id: Some(fingerprint.id()),
                ..Provenance::default()
            },
            fingerprint,
            partial: self.partial,
        };
        self.doubt(&mut profile, account.samples, &chosen);
        (profile, account.folded)
    }

    /// Converts the samples to stacks of function names.
    fn stacks<'s>(&self, heap: Heap, table: &Table, mut namer: Namer<'s>) -> (Vec<Stack>, bool, Namer<'s>) {
        heap.places.keys().for_each(|key| namer.learn(&key.stack));
        let idles = |key: &Key| {
            let frames = namer.frames(&key.stack);
            key.mode == Mode::Kernel
                && key.pid == 0
                && !frames.iter().any(|frame| table.interrupts(frame))
                && (frames.is_empty() || frames.iter().any(|frame| table.idles(frame)))
        };
        let (timed, by_cycles) = in_ns(heap, self.counted.len(), idles);
        let stack = |timed: Timed| {
            let title = self.names.get(&timed.pid).cloned().unwrap_or_default();
            let named = self.options.pid == Some(timed.pid);
            Stack {
                pid: timed.pid,
                program: if named { format!("{title} (pid {})", timed.pid) } else { title },
                mode: timed.mode,
                frames: namer.frames(&timed.stack),
                ns: timed.ns,
                samples: timed.samples,
            }
        };
        (timed.into_iter().map(stack).collect(), by_cycles, namer)
    }

    /// Adds reasons to doubt the profile.
    fn doubt(&self, profile: &mut Profile, samples: u64, chosen: &[usize]) {
        let packets = if profile.packets.divisor == "sent" { profile.packets.sent } else { profile.packets.received };
        if chosen.is_empty() || packets == 0 {
            lacks(&mut profile.missing, "per_packet_s", "No packet was counted: without packets there is no CPU time per packet, only shares of the time. Profile while the host has traffic, and name its interface with --if.".to_owned());
        } else if packets < FEW_PACKETS {
            let were = if packets == 1 { "1 packet was".to_owned() } else { format!("{packets} packets were") };
            profile.cautions.push(format!("Only {were} counted: most of the time is not theirs."));
        }
        profile.cautions.extend(idle_in_stages(&profile.sampled, &profile.classes, self.idle));
        profile.cautions.extend(missing_samples(&profile.sampled, &profile.classes, self.idle));
        if samples < FEW_SAMPLES {
            let are = if samples == 1 { "1 sample is".to_owned() } else { format!("{samples} samples are") };
            profile.cautions.push(format!("Only {are} in the stages: profile for longer, or under more traffic."));
        }
        if profile.unknown() > UNKNOWN {
            let row = profile.stage(Stage::Unknown);
            let most: Vec<&str> =
                row.iter().flat_map(|row| &row.functions).take(4).map(|one| one.function.as_str()).collect();
            profile.cautions.push(format!(
                "netcliff cannot assign {} of the time to a stage, most of it in these functions: {}.",
                percent(profile.unknown()),
                most.join(", ")
            ));
        }
        if self.stolen > STOLEN {
            profile.cautions.push(format!(
                "The hypervisor took {} of a CPU: of each such gap, up to four periods are in the stage that ran then.",
                percent(self.stolen)
            ));
        }
        if self.lattice.late() > LATE && profile.sampled.event == "cpu-clock" {
            profile.cautions.push(format!(
                "{} of the samples came more than 10 us after their timer was due: a hypervisor delivers it late, often where the CPU wakes another. Stages there are too long, and others too short.",
                percent(self.lattice.late())
            ));
        }
        if profile.sampled.overhead().is_some_and(|overhead| overhead > 0.01) {
            profile.cautions.push("Sampling took more than 1 % of the CPUs: lower --rate.".to_owned());
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A sentence on idle time in the stages, which begins with [`IDLE_IN_STAGES`]; `None` if the idle time by /proc/stat
/// leaves room for all busy time by the samples. `idle` is as in [`missing_samples`].
fn idle_in_stages(sampled: &Sampled, classes: &ProfileClasses, idle: f64) -> Option<String> {
    let cpus = sampled.cpus.len() as f64;
    let busy = classes.sum() - classes.idle;
    let excess = busy - (cpus - idle).max(0.0);
    if busy <= 0.0 || excess <= IDLE_INSIDE * busy {
        return None;
    }
    Some(format!(
        "{IDLE_IN_STAGES} about {} of a CPU. The samples say that the CPUs were busy for {} of one CPU's time, /proc/stat says {}. A time per packet is therefore an upper value; by /proc/stat it is about {} shorter.",
        percent(excess),
        percent(busy),
        percent(busy - excess),
        percent(excess / busy)
    ))
}

/// A sentence on samples that are missing, and why; `None` if nearly all were taken. `idle` is the CPUs' idle time by
/// /proc/stat, as a share of one CPU and summed over the CPUs.
fn missing_samples(sampled: &Sampled, classes: &ProfileClasses, idle: f64) -> Option<String> {
    let cpus = sampled.cpus.len() as f64;
    let expected = sampled.seconds * sampled.rate_hz * cpus;
    let short = 1.0 - sampled.samples as f64 / expected.max(1.0);
    if short <= MISSING {
        return None;
    }
    let without = cpus - classes.sum();
    // Idle time that the samples lack.
    let unseen = idle - classes.idle;
    let why = if without > 0.0 && unseen >= EXPLAINED * without {
        format!(
            "Idle time explains it: by /proc/stat the CPUs were idle for {} of one CPU's time, by the samples for {}.",
            percent(idle),
            percent(classes.idle)
        )
    } else {
        "A hypervisor took the CPU, or the kernel throttled sampling (kernel.perf_event_max_sample_rate).".to_owned()
    };
    Some(format!(
        "{} of the {expected:.0} expected samples are missing. {why} The sample after a gap counts for at most four periods; the rest of the gap is in no stage (of all gaps: {} of a CPU).",
        percent(short),
        percent(without.max(0.0))
    ))
}

/// Returns the rate (samples/s) until the next draw: its period is uniform within `JITTER` around the mean period, for
/// a `uniform` from 0 to 1. The mean of the rates is `rate_hz`, although the mean of 1 / x exceeds 1 / the mean of x.
fn drawn_hz(rate_hz: f64, uniform: f64) -> f64 {
    let mean_of_inverse = ((1.0 + JITTER) / (1.0 - JITTER)).ln() / (2.0 * JITTER);
    rate_hz / (mean_of_inverse * (1.0 + JITTER * (2.0 * uniform - 1.0)))
}

fn period_ns(rate_hz: f64) -> u64 {
    (1e9 / rate_hz) as u64
}

fn clock(rate_hz: u32, cpus: &[usize]) -> Result<Sampler, ProfileError> {
    let fields = Fields { stack: true, ..Fields::default() };
    Sampler::open(Event::CpuClock, Every::Events(period_ns(f64::from(rate_hz))), cpus, fields)
        .map_err(|error| refused(&error))
}

/// PERF_COUNT_HW_CPU_CYCLES.
fn cycles(rate_hz: u32, cpus: &[usize]) -> std::io::Result<Sampler> {
    let fields = Fields { stack: true, period: true, ..Fields::default() };
    Sampler::open(Event::Hardware(0), Every::Hertz(u64::from(rate_hz)), cpus, fields)
}

/// Waits in short steps, so that `stop` ends the wait.
fn wait(until: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK));
    }
}

/// Returns the meter's sums over the CPUs.
fn meter(split: &[CpuSplit], classes: &ProfileClasses) -> Option<ProfileMeter> {
    let method = split.first()?.method;
    let sum = |of: &dyn Fn(&CpuSplit) -> [Option<f64>; 4]| split.iter().flat_map(of).flatten().sum::<f64>();
    let softirq = sum(&|one| {
        let shares = one.shares;
        [shares.interrupt, shares.protocol, shares.transmit, shares.softirq_other]
    });
    let tasks = sum(&|one| [one.shares.application, one.shares.ksoftirqd, one.shares.other, one.shares.unaccounted]);
    let samples = classes.softirq + classes.application + classes.others + classes.own;
    let difference = samples / (softirq + tasks).max(1e-9) - 1.0;
    Some(ProfileMeter { method: method.to_string(), softirq, tasks, difference })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An idle virtual machine, 4 s on two CPUs: one of them gave hardly any sample.
    #[test]
    fn missing_samples_are_explained_by_idle_time_or_not() {
        let sampled = Sampled { cpus: vec![0, 1], seconds: 4.0, rate_hz: 457.0, samples: 1928, ..Sampled::default() };
        let classes =
            ProfileClasses { softirq: 0.000_582, application: 0.0, others: 0.0086, own: 0.006_31, idle: 0.996 };
        let said = missing_samples(&sampled, &classes, 1.98).expect("half of them are missing");
        assert!(said.starts_with("47.3 % of the 3656 expected samples are missing. Idle time explains it:"), "{said}");
        assert!(said.contains("198.0 % of one CPU's time, by the samples for 99.6 %"), "{said}");
        // The CPUs worked while samples are missing: idle time is no explanation.
        let said = missing_samples(&sampled, &classes, 1.2).expect("half of them are missing");
        assert!(said.contains("missing. A hypervisor took the CPU") && !said.contains("Idle"), "{said}");
        assert_eq!(missing_samples(&Sampled { samples: 3600, ..sampled }, &classes, 1.98), None);
    }

    /// `stream` on two CPUs of a virtual machine: the samples say 159 % busy, and /proc/stat 133 %.
    #[test]
    fn idle_time_in_the_stages_is_a_caution() {
        let sampled = Sampled { cpus: vec![0, 1], ..Sampled::default() };
        let classes = ProfileClasses { softirq: 0.917, application: 0.66, others: 0.013, own: 0.0, idle: 0.024 };
        let said = idle_in_stages(&sampled, &classes, 0.67).expect("a caution");
        assert!(said.starts_with(IDLE_IN_STAGES) && said.contains("about 26.0 % of a CPU."), "{said}");
        assert!(said.contains("159.0 %") && said.contains("133.0 %") && said.contains("16.4 % shorter"), "{said}");
        assert_eq!(idle_in_stages(&sampled, &classes, 0.42), None);
    }

    /// Rates are drawn for equal times: their mean is the mean rate.
    #[test]
    fn drawn_rates_have_the_requested_mean() {
        let steps = 10_000_u32;
        let drawn = |step: u32| drawn_hz(999.0, (f64::from(step) + 0.5) / f64::from(steps));
        let mean = (0..steps).map(drawn).sum::<f64>() / f64::from(steps);
        assert!((mean / 999.0 - 1.0).abs() < 1e-6, "{mean}");
        // The longest period is 1.3 / 0.7 times the shortest.
        assert!((drawn_hz(999.0, 0.0) / drawn_hz(999.0, 1.0) - 1.3 / 0.7).abs() < 1e-9);
    }
}
