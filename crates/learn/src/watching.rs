//! Observes this host in time slices: [`watch`]. It reads counters and, if the kernel permits, runs eBPF programs at
//! tracepoints; it sends no packets.
//!
//! One thread reads the interfaces' counters every `TICK`, and ten times as often for a tenth of a second every few
//! seconds. At the end of a slice it reads the CPUs' times. The eBPF meter costs some ten nanoseconds per event; if the
//! watch would exceed its CPU budget (`BUDGET`), the meter runs for `METERED` at a time, with breaks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netcliff_core::learned::QueueLoad;
use netcliff_core::watch::Moment;
use netcliff_host::cpu::ebpf::{EbpfMeter, Snapshot};
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{Counters, MeterSpec, Method, Preference, Watch as WatchTask};
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::serving::{self, Devices, Program, Sockets};
use netcliff_host::softnet::{SoftnetStat, UdpCounters, softnet_stats};
use netcliff_host::watch::Look;
use netcliff_trial::trial::poll_time;

use crate::slice::{Count, CpuSlice, Slice, SocketLook, SocketLooks, ThreadSlice, Watch};

/// Interval between readings of the counters.
const TICK: Duration = Duration::from_millis(10);
/// Interval of fast readings.
const FINE_TICK: Duration = Duration::from_millis(1);
/// Number of fast readings per run.
const FINE_LOOKS: usize = 100;
/// Time from one run of fast readings to the next.
const FINE_EVERY: Duration = Duration::from_secs(3);
/// Maximum CPU use of the whole watch while the meter's programs run, as a share of one CPU; within the promised 1 %.
const BUDGET: f64 = 0.008;
/// Share of one CPU that the meter's programs may use in any case.
const LEAST_METERED: f64 = 0.002;
/// Share of one CPU that readings of counters may use.
const LOOKING: f64 = 0.002;
/// A reading is discarded if the time from reading the clock to reading the counters exceeds this multiple of the usual
/// time.
const SLOW_LOOK: f64 = 3.0;
/// The usual time assumed at the start (s).
const USUAL_S: f64 = 1e-4;
/// Minimum time that the meter runs once started.
const METERED: Duration = Duration::from_secs(2);
/// Minimum time that the meter runs at the start of a watch.
const METERED_FIRST: Duration = Duration::from_secs(5);
/// Assumed cost of restarting the meter, until it has been measured (s of CPU time).
const WAKE_S: f64 = 5e-3;
/// Length of the shortest slices with exact times.
const SLICE: Duration = Duration::from_millis(400);
/// Length of the shortest slices with the kernel's ticks, whose relative error is 1/sqrt(ticks).
const SLICE_OF_TICKS: Duration = Duration::from_secs(1);
/// Maximum number of slices of a watch; a longer watch has longer slices.
const MOST_SLICES: u32 = 4000;
/// Maximum number of stored readings of each kind, enough for two hours.
const MOST_COUNTS: usize = 720_000;
/// If no program is named: time over which CPU use of the programs with sockets is measured.
const SEARCH: Duration = Duration::from_secs(1);
/// If no program is named: share of a CPU above which a program is watched.
const SERVING: f64 = 0.02;
/// Maximum number of programs that are watched.
const MOST_PROGRAMS: usize = 4;

/// Settings of a watch.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names of the interfaces; empty: the main interfaces.
    pub interfaces: Vec<String>,
    /// Port on which the program listens; `None` if not given.
    pub port: Option<u16>,
    /// Process ID of the program; `None` if not given.
    pub pid: Option<u32>,
    /// Length of the watch.
    pub length: Duration,
    /// How CPU time is measured.
    pub meter: Preference,
    /// Loss fraction that defines the cliff.
    pub loss: f64,
    /// The command line.
    pub command: String,
}

/// Why a watch failed.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// An interface, port or process does not exist.
    #[error("{0}")]
    Usage(String),
    /// Counters cannot be read.
    #[error("{0}")]
    Failed(String),
}

/// Progress of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Time since the start (s).
    pub elapsed_s: f64,
    /// Requested length of the watch (s).
    pub of_s: f64,
    /// Packet rate in the last slice (packets/s).
    pub packets_per_s: f64,
}

/// A watch, with the host and programs that were watched.
#[derive(Debug)]
pub struct Taken {
    /// The observations.
    pub watch: Watch,
    /// Description of the host.
    pub host: Inspection,
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// The watched programs.
    pub programs: Vec<Program>,
    /// Start, seconds since the epoch (UTC).
    pub started_unix_s: f64,
    /// Length of the watch (s).
    pub seconds: f64,
    /// Length of a slice (s).
    pub slice_s: f64,
    /// How CPU time was measured, in words.
    pub method: String,
    /// CPU time of this process (s).
    pub own_s: f64,
    /// CPU time of the meter's eBPF programs (s); `None` if no eBPF programs run or their time is unknown.
    pub meter_s: Option<f64>,
    /// Share of each receive queue in the packets.
    pub queues: Vec<QueueLoad>,
    /// Losses during the watch, one sentence each.
    pub lost: Vec<String>,
    /// Warnings for the reader, one sentence each.
    pub cautions: Vec<String>,
    /// True: stopped before the requested time.
    pub partial: bool,
}

fn failed(error: impl std::fmt::Display) -> LearnError {
    LearnError::Failed(error.to_string())
}

/// Watches this host.
///
/// # Errors
/// See [`LearnError`].
pub fn watch(options: &Options, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Taken, LearnError> {
    let host = Inspection::of_this_host(Duration::ZERO)
        .map_err(|error| failed(format!("cannot ask the kernel for its interfaces: {error}")))?;
    let names = interfaces(&options.interfaces, &host)?;
    let ports: Vec<&Port> = names.iter().filter_map(|name| host.port(name)).collect();
    let own_before_s = serving::own_cpu_s();
    let (programs, mut cautions) = programs(options, &ports, stop)?;
    let before = Look::now(&ports).map_err(failed)?;
    let (began, started_unix_s) = (Instant::now(), unix_s());
    let mut taking = Taking::start(options, &names, &programs, own_before_s)?;
    cautions.append(&mut taking.cautions);
    let ended = taking.run(stop, progress)?;
    let seconds = began.elapsed().as_secs_f64();
    let moment = before.until(&before.next(&ports).map_err(failed)?, &ports);
    let partial = stop.load(Ordering::Relaxed) || ended.is_some();
    cautions.extend(ended);
    let gone = programs.iter().filter(|program| !program.is_there());
    cautions.extend(
        gone.map(|program| format!("{} ended during the watch: its costs are of the time before.", program.title())),
    );
    let (watch, meter_s) = (taking.watch, taking.meter_s);
    Ok(Taken {
        watch: Watch { ring: None, tick_s: None, ..watch },
        interfaces: names,
        programs,
        started_unix_s,
        seconds,
        slice_s: taking.slice.as_secs_f64(),
        method: taking.method,
        own_s: serving::own_cpu_s() - own_before_s,
        meter_s,
        queues: queues(&moment),
        lost: moment.lost(),
        cautions,
        partial,
        host,
    })
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn interfaces(named: &[String], host: &Inspection) -> Result<Vec<String>, LearnError> {
    let there = || {
        let names: Vec<&str> = host.ports.iter().map(|port| port.nic.name.as_str()).collect();
        if names.is_empty() { "it has no interface".to_owned() } else { format!("there are {}", names.join(", ")) }
    };
    if let Some(name) = named.iter().find(|name| host.port(name).is_none()) {
        return Err(LearnError::Usage(format!(
            "--if {name}: there is no such interface in this network namespace; {}",
            there()
        )));
    }
    let names: Vec<String> = match named {
        [] => host.main_ports().iter().map(|port| port.nic.name.clone()).collect(),
        named => named.to_vec(),
    };
    if names.is_empty() {
        return Err(LearnError::Usage(format!(
            "no interface is up in this network namespace: give --if NAME; {}",
            there()
        )));
    }
    Ok(names)
}

/// Returns the named programs, or else the programs with sockets that use the most CPU time; and cautions about this
/// choice.
fn programs(options: &Options, ports: &[&Port], stop: &AtomicBool) -> Result<(Vec<Program>, Vec<String>), LearnError> {
    if let Some(pid) = options.pid {
        let none =
            || LearnError::Usage(format!("--pid {pid}: there is no process of that number; `pgrep NAME` finds one"));
        let program = Program::of(pid).ok_or_else(none)?;
        if let Some(port) = options.port {
            let owners = serving::of_port(port).map_err(|why| LearnError::Usage(format!("--port {port}: {why}")))?;
            if !owners.contains(&program) {
                let names: Vec<String> = owners.iter().map(Program::title).collect();
                return Err(LearnError::Usage(format!(
                    "--pid {pid} --port {port}: that port is open in {}; give one of the two",
                    names.join(", ")
                )));
            }
        }
        return Ok((vec![program], Vec::new()));
    }
    if let Some(port) = options.port {
        let found = serving::of_port(port).map_err(|why| LearnError::Usage(format!("--port {port}: {why}")))?;
        return Ok((found, Vec::new()));
    }
    let before = Look::now(ports).map_err(failed)?;
    wait(SEARCH.min(options.length), stop);
    let moment = before.until(&before.next(ports).map_err(failed)?, ports);
    let mut shares = BTreeMap::<u32, f64>::new();
    let own = std::process::id();
    for program in moment.programs.iter().filter(|program| program.serves() && program.pid != own) {
        *shares.entry(program.pid).or_default() += program.share;
    }
    let mut shares: Vec<(u32, f64)> = shares.into_iter().filter(|(_, share)| *share >= SERVING).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let found: Vec<Program> = shares.into_iter().take(MOST_PROGRAMS).filter_map(|(pid, _)| Program::of(pid)).collect();
    let caution = match found.is_empty() {
        true => "No program with sockets used CPU time when the watch began, so that no program's own limit is known: name a program with --port or --pid.".to_owned(),
        false => {
            let names: Vec<String> = found.iter().map(Program::title).collect();
            format!("No program was named: the ones with sockets that used most CPU time were watched: {}.", names.join(", "))
        }
    };
    Ok((found, vec![caution]))
}

fn queues(moment: &Moment) -> Vec<QueueLoad> {
    let all: f64 = moment.interfaces.iter().flat_map(|one| one.receive_queues()).map(|queue| queue.packets_per_s).sum();
    let load = |interface: &netcliff_core::watch::InterfaceMoment, queue: &netcliff_core::watch::QueueMoment| {
        QueueLoad { interface: interface.name.clone(), queue: queue.queue, share: queue.packets_per_s / all }
    };
    let of = |one| netcliff_core::watch::InterfaceMoment::receive_queues(one).map(move |queue| load(one, queue));
    if all > 0.0 { moment.interfaces.iter().flat_map(of).collect() } else { Vec::new() }
}

/// Waits for `length` in short steps, so that `stop` ends the wait.
fn wait(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        sleep(TICK.min(end.saturating_duration_since(Instant::now())));
    }
}

/// State of a watch.
struct Taking {
    length: Duration,
    slice: Duration,
    meter: Meter,
    method: String,
    meter_s: Option<f64>,
    /// CPU time of this process before the watch (s).
    own_before_s: f64,
    devices: Devices,
    programs: Vec<Program>,
    sockets: Sockets,
    port: Option<u16>,
    watch: Watch,
    cautions: Vec<String>,
    start: Mark,
}

/// Counters at the start of a slice.
struct Mark {
    at: Instant,
    unix_s: f64,
    system: SystemStamp,
    softnet: Vec<SoftnetStat>,
    udp: Option<UdpCounters>,
    counted: serving::Counted,
    /// CPU time by (process, thread).
    threads: BTreeMap<(u32, u32), serving::ThreadTime>,
    snapshot: Option<Snapshot>,
}

/// The eBPF meter, and when it runs.
struct Meter {
    /// The eBPF programs; `None` if only the kernel's ticks are read.
    programs: Option<EbpfMeter>,
    runs: bool,
    since: Instant,
    /// CPU time of restarting the meter (s).
    wake_s: f64,
    /// CPU time per second of running the meter (s).
    a_second_s: f64,
    first: bool,
}

impl Meter {
    fn start(options: &Options, programs: &[Program]) -> Result<(Self, Option<String>), LearnError> {
        let cpus: Vec<usize> =
            SystemStamp::now().map_err(failed)?.seconds().iter().map(|(cpu, _)| *cpu as usize).collect();
        let spec = MeterSpec { cpus, watch: programs.iter().map(|program| WatchTask::Process(program.pid)).collect() };
        let mut meter =
            Self { programs: None, runs: false, since: Instant::now(), wake_s: WAKE_S, a_second_s: 0.0, first: true };
        if !options.meter.allows(Method::Ebpf) {
            return Ok((meter, None));
        }
        match EbpfMeter::start_silent(spec) {
            Ok(started) => {
                (meter.programs, meter.runs, meter.since) = (Some(started), true, Instant::now());
                Ok((meter, None))
            }
            Err(error) if options.meter == Preference::Best => Ok((meter, Some(error.to_string()))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns true if the meter measures exact times while it runs.
    fn works(&self) -> bool {
        self.programs.is_some()
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, LearnError> {
        self.programs.as_ref().filter(|_| self.runs).map(EbpfMeter::snapshot).transpose().map_err(failed)
    }

    /// Stops or starts the meter, so that the whole watch stays within `BUDGET`. `meter_s`: CPU time of the meter so
    /// far; `own_s`: CPU time of this process. Returns true if the meter was started or stopped.
    fn turn(&mut self, meter_s: f64, own_s: f64, elapsed_s: f64) -> bool {
        let fits = |more_s: f64, elapsed_s: f64| {
            meter_s + own_s + more_s <= BUDGET * elapsed_s || meter_s + more_s <= LEAST_METERED * elapsed_s
        };
        let Some(programs) = &mut self.programs else { return false };
        if self.runs {
            let least = if self.first { METERED_FIRST } else { METERED };
            if fits(0.0, elapsed_s) || self.since.elapsed() < least || self.a_second_s <= 0.0 {
                return false;
            }
            programs.rest();
            (self.runs, self.first) = (false, false);
            return true;
        }
        let next_s = METERED.as_secs_f64();
        if !fits(self.wake_s + self.a_second_s * next_s, elapsed_s + next_s) {
            return false;
        }
        let before_s = serving::own_cpu_s();
        self.runs = programs.wake().is_ok();
        if !self.runs {
            self.programs = None;
        }
        (self.wake_s, self.since) = (serving::own_cpu_s() - before_s, Instant::now());
        true
    }
}

/// Result of reading the counters.
enum Looked {
    /// An interface does not exist any more.
    Gone,
    /// This thread waited for a CPU between reading the clock and the counters.
    Late,
    Counted,
}

/// State of the readings: the last ones, and the time of the next one.
struct Looks {
    last: serving::Counted,
    last_at: Instant,
    coarse: serving::Counted,
    coarse_at: Instant,
    tick: Duration,
    /// CPU time of a reading, smoothed (s).
    look_s: f64,
    /// Time of a reading from clock to counters, smoothed (s).
    usual_s: f64,
    fine_left: usize,
    fine_next: Instant,
}

impl Looks {
    fn new(counted: serving::Counted) -> Self {
        let now = Instant::now();
        Self {
            last: counted,
            last_at: now,
            coarse: counted,
            coarse_at: now,
            tick: TICK,
            look_s: 0.0,
            usual_s: USUAL_S,
            fine_left: 0,
            fine_next: now + FINE_EVERY / 2,
        }
    }

    fn pause(&self) -> Duration {
        if self.fine_left > 0 { FINE_TICK } else { self.tick }
    }

    /// Returns true if this thread waited for a CPU between clock and counters. Arrivals in that time would look like a
    /// burst; they are left to the next reading.
    fn is_late(&mut self, took_s: f64) -> bool {
        let late = took_s > SLOW_LOOK * self.usual_s;
        self.usual_s += 0.1 * (took_s.min(2.0 * self.usual_s) - self.usual_s);
        late
    }

    /// Reads less often on hosts with thousands of sockets or devices, where a reading is expensive. Averages over
    /// recent readings, because a single one may be slow for other reasons.
    fn slow_down(&mut self, looking_s: f64, slice: Duration) {
        self.look_s += 0.05 * (looking_s - self.look_s);
        self.tick = Duration::from_secs_f64(self.look_s / LOOKING).clamp(TICK, slice / 4);
    }
}

impl Taking {
    fn start(options: &Options, names: &[String], programs: &[Program], own_before_s: f64) -> Result<Self, LearnError> {
        let devices = Devices::open(names).map_err(|error| failed(format!("cannot read /proc/net/dev: {error}")))?;
        let (meter, why_not) = Meter::start(options, programs)?;
        let shortest = if meter.works() { SLICE } else { SLICE_OF_TICKS };
        let slice = shortest.max(options.length / MOST_SLICES);
        let method = match meter.works() {
            true => "eBPF programs at the kernel's transitions, exact".to_owned(),
            false => "the kernel's timer ticks (/proc/stat), sampled".to_owned(),
        };
        let cautions = why_not.map(|why| {
            format!("CPU time is that of the kernel's ticks: costs that packets share cannot be separated, and the interval is wide ({why}).")
        });
        let mut taking = Self {
            length: options.length,
            slice,
            method,
            meter_s: None,
            own_before_s,
            sockets: Sockets::of(programs, options.port),
            port: options.port,
            programs: programs.to_vec(),
            watch: Watch::default(),
            cautions: cautions.into_iter().collect(),
            start: Mark::now(&devices, programs, &meter)?,
            devices,
            meter,
        };
        taking.watch.sockets = taking
            .sockets
            .look()
            .into_iter()
            .map(|fill| SocketLooks {
                name: fill.socket,
                room_bytes: f64::from(fill.room_bytes),
                looks: Vec::new(),
                dropped: 0.0,
            })
            .collect();
        Ok(taking)
    }

    /// Runs until the time is over. If the watch ends early, returns a sentence with the reason.
    fn run(&mut self, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Option<String>, LearnError> {
        let began = Instant::now();
        let drops_before = self.sockets.look();
        let mut looks = Looks::new(self.devices.read().map_err(failed)?);
        let mut reported = began;
        while began.elapsed() < self.length && !stop.load(Ordering::Relaxed) {
            sleep(looks.pause());
            match self.look(&mut looks) {
                Looked::Gone => {
                    return Ok(Some(
                        "An interface went away during the watch: it was removed, renamed or moved.".to_owned(),
                    ));
                }
                Looked::Late => continue,
                Looked::Counted => {}
            }
            if self.start.at.elapsed() < self.slice {
                continue;
            }
            self.end_slice()?;
            let elapsed_s = began.elapsed().as_secs_f64();
            let own_s = serving::own_cpu_s() - self.own_before_s;
            if self.meter.turn(self.meter_s.unwrap_or(0.0), own_s, elapsed_s) {
                self.start = Mark::now(&self.devices, &self.programs, &self.meter)?;
            }
            if reported.elapsed() >= Duration::from_secs(1) {
                reported = Instant::now();
                let packets_per_s = self.watch.slices.last().map_or(0.0, |slice| slice.packets / slice.seconds);
                progress(&Progress { elapsed_s, of_s: self.length.as_secs_f64(), packets_per_s });
            }
        }
        let drops = self.sockets.look();
        for socket in &mut self.watch.sockets {
            let of = |looks: &[serving::Fill]| looks.iter().find(|one| one.socket == socket.name).map(|one| one.drops);
            socket.dropped =
                of(&drops_before).zip(of(&drops)).map_or(0.0, |(then, now)| f64::from(now.wrapping_sub(then)));
        }
        Ok(None)
    }

    /// Reads the interfaces' counters and, every `TICK`, the sockets.
    fn look(&mut self, looks: &mut Looks) -> Looked {
        let (looked, spent_s) = (Instant::now(), serving::own_thread_cpu_s());
        let Ok(now) = self.devices.read() else { return Looked::Gone };
        if looks.is_late(looked.elapsed().as_secs_f64()) {
            return Looked::Late;
        }
        if looks.fine_left > 0 {
            let seconds = (looked - looks.last_at).as_secs_f64();
            self.fine(Count { seconds, packets: now.packets_since(&looks.last) });
            looks.fine_left -= 1;
        } else if looked >= looks.fine_next && self.watch.fine.len() * FINE_LOOKS < MOST_COUNTS {
            self.watch.fine.push(Vec::with_capacity(FINE_LOOKS));
            (looks.fine_left, looks.fine_next) = (FINE_LOOKS, looked + FINE_EVERY);
        }
        (looks.last, looks.last_at) = (now, looked);
        let since_s = (looked - looks.coarse_at).as_secs_f64();
        if since_s < 0.95 * TICK.as_secs_f64() {
            return Looked::Counted;
        }
        let count = Count { seconds: since_s, packets: now.packets_since(&looks.coarse) };
        (looks.coarse, looks.coarse_at) = (now, looked);
        if self.watch.counts.len() < MOST_COUNTS {
            self.watch.counts.push(count);
            self.look_at_sockets(count.packets / count.seconds);
        }
        if looks.fine_left == 0 {
            looks.slow_down(serving::own_thread_cpu_s() - spent_s, self.slice);
        }
        Looked::Counted
    }

    fn fine(&mut self, count: Count) {
        if let Some(run) = self.watch.fine.last_mut() {
            run.push(count);
        }
    }

    fn look_at_sockets(&mut self, packets_per_s: f64) {
        for fill in self.sockets.look() {
            if let Some(socket) = self.watch.sockets.iter_mut().find(|socket| socket.name == fill.socket) {
                socket.looks.push(SocketLook { share: fill.share, packets_per_s });
            }
        }
    }

    /// Returns the activity of each CPU since the start of the slice.
    fn cpus_until(&mut self, end: &Mark, seconds: f64) -> Vec<CpuSlice> {
        let start = &self.start;
        let dropped = |cpu: u32| {
            let of = |all: &[SoftnetStat]| all.iter().find(|stat| stat.cpu == cpu).copied();
            of(&start.softnet).zip(of(&end.softnet)).map(|(then, now)| now.since(&then)).unwrap_or_default()
        };
        let shares = start.system.until(&end.system);
        let steal = |cpu: usize| shares.iter().find(|one| one.cpu == cpu).map_or(0.0, |one| one.steal * one.counted_s);
        match (&start.snapshot, &end.snapshot) {
            (Some(then), Some(now)) => {
                let interval = now - then;
                let cost = self.meter.programs.as_ref().and_then(EbpfMeter::overhead);
                if let Some(cost) = cost {
                    let spent_s: f64 = interval.cpus.iter().map(|cpu| cpu.figures.overhead_ns(&cost) * 1e-9).sum();
                    self.meter.a_second_s = spent_s / seconds;
                    *self.meter_s.get_or_insert(0.0) += spent_s;
                }
                let of = |cpu: &netcliff_host::cpu::ebpf::CpuInterval| {
                    let stat = dropped(cpu.cpu as u32);
                    CpuSlice { steal_s: steal(cpu.cpu), dropped: f64::from(stat.dropped), ..exact(cpu) }
                };
                interval.cpus.iter().map(of).collect()
            }
            _ => {
                let ticked = |one: &netcliff_host::cpu::system::SystemShares| {
                    let stat = dropped(one.cpu as u32);
                    let time = |share: f64| share * one.counted_s;
                    CpuSlice {
                        cpu: one.cpu as u32,
                        // While the eBPF meter is paused, CPUs have only counts, not times.
                        seconds: if self.meter.works() { 0.0 } else { one.counted_s },
                        interrupt_s: time(one.irq),
                        protocol_s: time(one.softirq),
                        other_s: time(one.user + one.nice + one.system),
                        idle_s: time(one.idle),
                        steal_s: time(one.steal),
                        packets: f64::from(stat.processed),
                        dropped: f64::from(stat.dropped),
                        backlog: stat.received_rps > 0,
                        ..CpuSlice::default()
                    }
                };
                shares.iter().map(ticked).collect()
            }
        }
    }

    fn end_slice(&mut self) -> Result<(), LearnError> {
        let end = Mark::now(&self.devices, &self.programs, &self.meter)?;
        let seconds = (end.at - self.start.at).as_secs_f64();
        let cpus = self.cpus_until(&end, seconds);
        let start = &self.start;
        let thread = |((pid, tid), now): (&(u32, u32), &serving::ThreadTime)| {
            let then = start.threads.get(&(*pid, *tid))?;
            let ran_s = now.ran_ns.saturating_sub(then.ran_ns) as f64 * 1e-9;
            (ran_s > 0.0).then_some(ThreadSlice {
                pid: *pid,
                tid: *tid,
                cpu: now.cpu,
                ran_s,
                is_realtime: now.is_realtime,
            })
        };
        let udp = start.udp.zip(end.udp).map_or(0, |(then, now)| now.since(&then).rcvbuf_errors);
        let grown = end.counted.since(&start.counted);
        let backlogs: f64 = cpus.iter().map(|cpu| cpu.dropped).sum();
        self.watch.slices.push(Slice {
            at_unix_s: start.unix_s,
            seconds,
            packets: grown.rx_packets as f64,
            bytes: grown.rx_bytes as f64,
            sent: grown.tx_packets as f64,
            cpus,
            threads: end.threads.iter().filter_map(thread).collect(),
            lost: udp as f64 + backlogs.max(grown.rx_dropped as f64),
        });
        self.start = end;
        // Look once more for sockets, which may have been opened since the start.
        if self.watch.slices.len() == 1 && self.watch.sockets.is_empty() {
            self.sockets = Sockets::of(&self.programs, self.port);
        }
        Ok(())
    }
}

/// Converts the activity of a CPU as measured by the eBPF programs.
fn exact(cpu: &netcliff_host::cpu::ebpf::CpuInterval) -> CpuSlice {
    let (shares, counters) = (cpu.shares(), cpu.counters(Counters::default()));
    let seconds = cpu.elapsed_ns as f64 * 1e-9;
    let time = |share: Option<f64>| share.unwrap_or(0.0) * seconds;
    let table = cpu.figures.poll_table();
    let reception = counters.reception();
    let count = |of: Option<u64>| of.unwrap_or(0) as f64;
    CpuSlice {
        cpu: cpu.cpu as u32,
        seconds,
        exact: true,
        interrupt_s: time(shares.interrupt),
        protocol_s: time(shares.protocol),
        application_s: time(shares.application),
        softirq_other_s: time(shares.transmit) + time(shares.softirq_other),
        other_s: time(shares.ksoftirqd) + time(shares.other) + time(shares.unaccounted),
        idle_s: time(shares.idle),
        steal_s: 0.0,
        packets: reception.map_or(0.0, |reception| reception.packets as f64),
        polls: reception.map_or(0.0, |reception| reception.polls as f64),
        interrupts: reception.map_or(0.0, |reception| reception.interrupts as f64),
        wakeups: count(counters.application_switches),
        poll_times: table.cells.iter().filter_map(poll_time).collect(),
        tail_s: table.tail_s,
        backlog: 2.0 * count(counters.backlog_packets) >= count(counters.packets),
        dropped: 0.0,
    }
}

impl Mark {
    fn now(devices: &Devices, programs: &[Program], meter: &Meter) -> Result<Self, LearnError> {
        let threads = programs.iter().flat_map(|program| {
            serving::threads(program.pid).into_iter().map(move |one| ((program.pid, one.tid), one))
        });
        Ok(Self {
            unix_s: unix_s(),
            threads: threads.collect(),
            udp: UdpCounters::read().ok(),
            system: SystemStamp::now().map_err(failed)?,
            softnet: softnet_stats().unwrap_or_default(),
            counted: devices.read().map_err(failed)?,
            snapshot: meter.snapshot()?,
            at: Instant::now(),
        })
    }
}
