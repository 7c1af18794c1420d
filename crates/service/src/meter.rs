//! [`HostMeter`]: activity of a service's host during a trial. The run meters this host itself; if the service is on
//! another host, an agent meters that one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use netcliff_host::cpu::heartbeat::Heartbeat;
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{CpuMeter, CpuSplit, MeterSpec, Method, Preference, Watch, choose};
use netcliff_host::idle::loop_ns;
use netcliff_host::inventory::Inventory;
use netcliff_host::process::{ProcessId, tree};
use netcliff_host::serving::{DEFAULT_RECEIVE_BUFFER_BYTES, Program, Sockets};
use serde::{Deserialize, Serialize};

use crate::error::FindError;
use crate::process::{NetworkCounts, Times, Waits, softirq_threads};
use crate::requester::SpanNs;

/// What is metered, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeterOptions {
    /// CPUs of the service; empty: all CPUs of its host except `without`.
    pub cpus: Vec<u32>,
    /// The requester's CPU, if the requester runs on the service's host.
    pub without: Option<u32>,
    /// How CPU time is measured.
    pub cpu: Preference,
}

/// Activity of a service's host in a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCounts {
    /// Length of the measured time (s).
    pub elapsed_s: f64,
    /// CPU time of each CPU; empty: not measured.
    pub cpus: Vec<CpuSplit>,
    /// CPU time of the service (user mode, kernel mode) in ticks.
    pub ticks: (u64, u64),
    /// (CPU time (s), name) of the busiest thread of the service; `None` if its threads are unknown.
    pub busiest: Option<(f64, String)>,
    /// Queues that overflowed.
    pub network: NetworkCounts,
    /// Time in which a thread of the service waited for a CPU that other programs used (s).
    pub others_s: f64,
    /// Busy time of the least used of the service's CPUs, as the kernel counts it (s), without loops that keep CPUs from
    /// halting.
    pub least_used_s: f64,
}

/// Meters a service's host in one trial after another.
pub trait Meter {
    /// Begins a trial. `exact`: CPU time is measured, which itself costs CPU time.
    ///
    /// # Errors
    /// The meter's host is gone.
    fn mark(&mut self, exact: bool) -> Result<(), FindError>;

    /// Returns the activity since [`Meter::mark`].
    ///
    /// # Errors
    /// The meter's host or the service is gone.
    fn read(&mut self) -> Result<HostCounts, FindError>;
}

/// The meter of the host that it runs on.
pub struct HostMeter {
    watched: Vec<ProcessId>,
    cpus: Vec<u32>,
    /// Threads ksoftirqd of the service's CPUs; `None`: not visible, so that disturbed trials cannot be recognised.
    softirqs: Option<Vec<u32>>,
    meter: Option<Box<dyn CpuMeter>>,
    /// Heartbeats of the CPUs, which show their pauses. Without the eBPF programs, only loops that keep the CPUs from
    /// halting beat.
    heartbeats: BTreeMap<usize, Heartbeat>,
    /// True: netcliff did not start the service, so that only this meter notices its end.
    runs_already: bool,
    /// True: CPU time is measured in the present trial.
    exact: bool,
    mark: Mark,
}

/// Counters at the beginning of a trial.
struct Mark {
    began: Instant,
    /// CPU time on each CPU of the loop that keeps it from halting (ns).
    loops_ns: Vec<u64>,
    stamp: Option<SystemStamp>,
    waits: Option<Waits>,
    times: Times,
    network: NetworkCounts,
}

impl HostMeter {
    /// Starts to meter these processes of a service, which may have been started by another program. Also returns how
    /// CPU time is measured, or why it is not, as a sentence.
    pub fn start(watched: Vec<ProcessId>, runs_already: bool, options: &MeterOptions) -> (Self, Option<String>) {
        let all: Vec<u32> = match options.cpus.is_empty() {
            true => {
                let online = Inventory::of_this_host().cpu.online.into_iter();
                online.filter(|cpu| Some(*cpu) != options.without).collect()
            }
            false => options.cpus.clone(),
        };
        let mut meter = None;
        let note = (!watched.is_empty()).then(|| {
            let watch = watched.iter().map(|process| Watch::Process(process.pid)).collect();
            match choose(options.cpu, &MeterSpec { cpus: all.iter().map(|cpu| *cpu as usize).collect(), watch }) {
                Ok(choice) => {
                    let method = choice.meter.method();
                    meter = Some(choice.meter);
                    let why: String = choice.passed_over.iter().map(|why| format!("; {why}")).collect();
                    let cost = match method {
                        Method::Ebpf => {
                            ". Its programs also run in the other trials, so that the measured cliff includes their time; the costs of a \
                             request are without it, if it is known"
                        }
                        Method::Procfs | Method::Soaker => "",
                    };
                    format!("CPU time is metered by {method}, in the trials for costs and bottleneck, not in the searches{cost}{why}")
                }
                Err(error) => format!("CPU time is not metered: {error}"),
            }
        });
        let mark = Mark::now(&watched, &all, None);
        let heartbeat = |cpu: &u32| {
            let programs = meter.as_ref().and_then(|meter| meter.heartbeat(*cpu as usize));
            (*cpu as usize, programs.unwrap_or_else(Heartbeat::plain))
        };
        let heartbeats: BTreeMap<usize, Heartbeat> = all.iter().map(heartbeat).collect();
        let softirqs = softirq_threads(&all);
        (Self { watched, softirqs, cpus: all, meter, heartbeats, runs_already, exact: false, mark }, note)
    }

    /// Meters other processes, such as workers that the service has forked since.
    pub fn watch(&mut self, processes: Vec<ProcessId>) {
        self.watched = processes;
    }

    /// The metered programs.
    pub fn programs(&self) -> Vec<Program> {
        self.watched.iter().filter_map(|one| Program::of(one.pid)).collect()
    }

    /// The metered CPUs and their heartbeats, for loops that keep these CPUs from halting.
    pub fn heartbeats(&self) -> impl Iterator<Item = (u32, &Heartbeat)> {
        self.heartbeats.iter().map(|(cpu, heartbeat)| (*cpu as u32, heartbeat))
    }

    /// Times in `window_ns` in which a metered CPU made no transition, of all these CPUs [ns of `CLOCK_MONOTONIC`]. Such a
    /// time is a pause of the CPU if an interrupt was due during it. Without the eBPF programs, only pauses of a loop that
    /// keeps the CPU from halting are known.
    pub fn still(&self, window_ns: &Range<u64>) -> Vec<SpanNs> {
        let of = |heartbeat: &Heartbeat| heartbeat.pauses(window_ns.start, window_ns.end);
        self.heartbeats.values().flat_map(of).map(|pause| (pause.from_ns, pause.to_ns)).collect()
    }

    /// Times in `window_ns` in which another program or a thread of the kernel had a metered CPU for longer than
    /// [`PAUSE_NS`](netcliff_host::cpu::heartbeat::PAUSE_NS), of all these CPUs [ns of `CLOCK_MONOTONIC`]. Programs with the name of one of the service's programs
    /// do not count. Empty without the eBPF programs.
    pub fn others(&self, window_ns: &Range<u64>) -> Vec<SpanNs> {
        let own: Vec<String> = self.programs().into_iter().map(|program| program.name).collect();
        let visits = self.heartbeats.values().filter_map(|one| one.visits(window_ns.start, window_ns.end)).flatten();
        let others = visits.filter(|visit| !own.contains(&visit.task));
        others.map(|visit| (visit.time.from_ns, visit.time.to_ns)).collect()
    }

    /// Number of metered processes, and number of their threads.
    pub fn size(&self) -> (u32, u32) {
        (self.watched.len() as u32, Times::of(&self.watched).threads() as u32)
    }
}

impl Mark {
    fn now(watched: &[ProcessId], cpus: &[u32], softirqs: Option<&[u32]>) -> Self {
        Self {
            loops_ns: cpus.iter().map(|cpu| loop_ns(*cpu)).collect(),
            stamp: SystemStamp::now().ok(),
            waits: softirqs.map(|threads| Waits::of(watched, threads)),
            times: Times::of(watched),
            network: network(watched),
            began: Instant::now(),
        }
    }
}

/// Loss counters of the network namespace of the first process; zeros without processes.
fn network(watched: &[ProcessId]) -> NetworkCounts {
    watched.first().map(|process| NetworkCounts::of(process.pid)).unwrap_or_default()
}

impl Meter for HostMeter {
    fn mark(&mut self, exact: bool) -> Result<(), FindError> {
        self.mark = Mark::now(&self.watched, &self.cpus, self.softirqs.as_deref());
        self.exact = exact && self.meter.as_mut().is_some_and(|meter| meter.mark().is_ok());
        Ok(())
    }

    fn read(&mut self) -> Result<HostCounts, FindError> {
        let elapsed_s = self.mark.began.elapsed().as_secs_f64();
        let cpus = self.meter.as_mut().filter(|_| self.exact).and_then(|meter| meter.read().ok());
        let now = Mark::now(&self.watched, &self.cpus, self.softirqs.as_deref());
        if self.runs_already && !self.watched.is_empty() && !self.watched.iter().any(ProcessId::is_alive) {
            return Err(FindError::Changed("the service has ended".to_owned()));
        }
        let before = &self.mark;
        let ticks = |of: fn(&Times) -> u64| of(&now.times).saturating_sub(of(&before.times));
        let shares = before.stamp.as_ref().zip(now.stamp.as_ref()).map(|(from, to)| from.until(to));
        let looped_s = |place: usize| (now.loops_ns[place] - before.loops_ns[place]) as f64 * 1e-9;
        let used_s = |(place, cpu): (usize, &u32)| {
            let mut all = shares.iter().flatten();
            let used_s =
                all.find(|one| one.cpu == *cpu as usize).map_or(0.0, |one| one.used_s() + one.steal * one.counted_s);
            (used_s - looped_s(place)).max(0.0)
        };
        let waits = before.waits.as_ref().zip(now.waits.as_ref());
        Ok(HostCounts {
            elapsed_s,
            cpus: cpus.unwrap_or_default(),
            ticks: (ticks(|times| times.user_ticks), ticks(|times| times.system_ticks)),
            busiest: before.times.busiest_until(&now.times),
            network: before.network.until(&now.network),
            others_s: waits.map_or(0.0, |(from, to)| from.others_until(to)),
            least_used_s: self.cpus.iter().enumerate().map(used_s).reduce(f64::min).unwrap_or(0.0),
        })
    }
}

/// The processes of a service: these programs and all processes that they started.
pub fn processes(programs: &[Program]) -> Vec<ProcessId> {
    let mut all: Vec<ProcessId> = programs.iter().flat_map(|program| tree(program.pid)).collect();
    all.sort_unstable_by_key(|process| process.pid);
    all.dedup();
    all
}

/// Receive buffer (bytes) of the UDP socket of these programs at a port of the calling thread's network namespace; the
/// smallest if there are several. `None` if the programs have no such socket, or none is visible.
pub fn smallest_buffer_bytes(programs: &[Program], port: u16) -> Option<u32> {
    Sockets::of(programs, Some(port)).look().into_iter().map(|socket| socket.room_bytes).min()
}

/// Default receive buffer of this host's sockets (bytes).
pub fn receive_buffer_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/core/rmem_default").unwrap_or_default();
    text.trim().parse().unwrap_or(DEFAULT_RECEIVE_BUFFER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_host::serving::own_thread_cpu_s;

    /// Measures by the kernel's ticks, which need no rights.
    fn options() -> MeterOptions {
        MeterOptions { cpu: Preference::Only(Method::Procfs), ..MeterOptions::default() }
    }

    #[test]
    fn a_trial_has_the_time_of_the_service_and_of_its_cpus() {
        let me = vec![ProcessId::current().unwrap()];
        let (mut meter, note) = HostMeter::start(me, true, &options());
        assert!(note.is_some_and(|note| note.contains("procfs")));
        assert!(meter.size().1 >= 1);
        for exact in [true, false] {
            meter.mark(exact).unwrap();
            let until_s = own_thread_cpu_s() + 0.03;
            while own_thread_cpu_s() < until_s {
                std::hint::spin_loop();
            }
            let counts = meter.read().unwrap();
            assert!(counts.elapsed_s >= 0.03 && counts.cpus.is_empty() != exact, "{counts:?}");
            assert!(counts.busiest.as_ref().is_some_and(|(used_s, _)| *used_s > 0.01));
            // The kernel counts in ticks.
            assert!(counts.least_used_s <= counts.elapsed_s + 0.05, "{counts:?}");
        }
    }

    #[test]
    fn a_service_that_has_ended_is_reported() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let service = processes(&[Program::of(child.id()).unwrap()]);
        let (mut meter, _) = HostMeter::start(service, true, &options());
        meter.mark(true).unwrap();
        assert!(meter.read().is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(meter.read().unwrap_err().to_string().contains("the service has ended"));
    }

    #[test]
    fn an_unknown_service_is_not_metered() {
        let (mut meter, note) = HostMeter::start(Vec::new(), true, &options());
        meter.mark(true).unwrap();
        let counts = meter.read().unwrap();
        assert_eq!((note, counts.cpus.len(), counts.busiest), (None, 0, None));
    }
}
