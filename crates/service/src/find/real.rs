//! [`Real`]: a bench with a real service and a real requester.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use netcliff_core::finding::CheckedSetting;
use netcliff_core::service::ServiceSummary;
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{CpuMeter, MeterSpec, Watch, choose};
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use netcliff_host::process::{ProcessId, tree};
use netcliff_host::serving::{DEFAULT_RECEIVE_BUFFER_BYTES, Program, SMALL_DATAGRAM_BYTES, Sockets};
use netcliff_host::testbed::netns::Side;
use netcliff_host::testbed::sysctl::SysctlOverrides;
use netcliff_host::tune::device::Made;
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::thread::allowed_cpus;
use netcliff_transfer::hosts::Fingerprints;
use netcliff_trial::rig::{LinkOptions, Place, Rig, RigOptions};

use super::values::Found;
use super::{Options, Target};
use crate::bench::{Bench, Metered, Spec};
use crate::check::SetUp;
use crate::error::FindError;
use crate::process::{NetworkCounts, Service, Times, Waits, softirq_threads};
use crate::protocol::Transport;
use crate::request::Gaps;
use crate::requester::{Load, OnceError, Report, Requester};

/// Time allowed for a service to answer its first request, and to answer it correctly.
const START: Duration = Duration::from_secs(10);
const RIGHT: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const AGAIN: Duration = Duration::from_millis(50);
/// Default numbers: source ports of datagrams with numbers, ports of datagrams without, connections.
const CONNECTIONS: (u32, u32, u32) = (16, 64, 32);
/// Warm-up of a trial (s).
const WARM_UP_S: f64 = 0.1;
/// Share of the loaded time above which a CPU counts as fully busy: the kernel counts it in ticks.
const SATURATED: f64 = 0.97;

/// A running service with its requester and meter. The service ends before its testbed.
pub(super) struct Real {
    requester: Requester,
    meter: Option<Box<dyn CpuMeter>>,
    service: Option<Service>,
    watched: Vec<ProcessId>,
    /// Threads ksoftirqd of the service's CPUs; `None`: not visible, so that disturbed trials cannot be recognised.
    softirqs: Option<Vec<u32>>,
    summary: ServiceSummary,
    rig: Rig,
    stop: Arc<AtomicBool>,
    arrivals: Option<Arrivals>,
    notes: Vec<String>,
    failure: Option<String>,
    /// Values of the host that were changed while the service started.
    changed: Vec<CheckedSetting>,
    /// True: the service was already running.
    running: bool,
}

impl Real {
    /// Starts the service in a testbed with this set-up.
    pub(super) fn start(options: &Options, set_up: &SetUp, stop: Arc<AtomicBool>) -> Result<Self, FindError> {
        let running = match options.target {
            Target::Running(to, _) => Some(to),
            Target::Start(_) => None,
        };
        let port = options.port()?;
        let rig = Rig::build(&rig_options(options, set_up), Arc::clone(&stop))?;
        let to = running.unwrap_or_else(|| SocketAddr::new(rig.host_address(), port));
        let (workload, tls) = options.read(to)?;
        let datagrams = workload.transport == Transport::Udp;
        let numbered = datagrams && workload.protocol.numbers_datagrams();
        let usual = match (datagrams, numbered) {
            (false, _) => CONNECTIONS.2,
            (true, true) => CONNECTIONS.0,
            (true, false) => CONNECTIONS.1,
        };
        let connections = options.connections.unwrap_or(usual);
        let depth = if datagrams { 1 } else { options.depth };
        let mut service_cpus = options.service_cpus.clone();
        if service_cpus.is_empty() && running.is_none() {
            service_cpus.push(rig.host_cpu);
        }
        let testbed = match running {
            Some(_) => format!("the service where it runs; requester on CPU {}", rig.sender_cpu),
            None => rig.describe_as("requester", "service"),
        };
        let gaps = workload.gaps(options.arrivals);
        let how = match &gaps {
            Gaps::Drawn(Arrivals::Poisson) => None,
            Gaps::Drawn(Arrivals::Constant) => Some("equal gaps"),
            Gaps::Captured(_) => Some("the capture's gaps, to scale"),
        };
        let how = how.map(|how| format!("requests came with {how}; predictions are for Poisson times"));
        let notes = how.into_iter().chain(workload.notes.iter().cloned()).collect();
        let summary = ServiceSummary {
            address: to.to_string(),
            protocol: workload.protocol.name().to_owned(),
            transport: match (datagrams, &tls) {
                (true, _) => "udp",
                (false, None) => "tcp",
                (false, Some(_)) => "tls",
            }
            .to_owned(),
            connections,
            depth: (!numbered).then_some(depth),
            new_connections: options.new_connections,
            requests: workload.messages.len() as u64,
            arrivals: gaps.name().to_owned(),
            testbed,
            requester_cpu: rig.sender_cpu,
            service_cpus: service_cpus.clone(),
            ..ServiceSummary::default()
        };
        let requester = Requester {
            to,
            workload: Arc::new(workload),
            connections,
            depth,
            new_connections: options.new_connections,
            tls,
            timeout_ns: (options.timeout_s * 1e9) as u64,
            netns: if running.is_some() { None } else { rig.netns(Side::Sender) },
            cpu: rig.sender_cpu as usize,
            stop: Arc::clone(&stop),
        };
        let mut real = Self {
            requester,
            meter: None,
            service: None,
            watched: Vec::new(),
            softirqs: softirq_threads(&service_cpus),
            summary,
            rig,
            stop,
            arrivals: options.arrivals,
            notes,
            failure: None,
            changed: Vec::new(),
            running: running.is_some(),
        };
        real.bring_up(options, &service_cpus, &set_up.at_start)?;
        real.start_meter(options, &service_cpus);
        Ok(real)
    }

    fn bring_up(&mut self, options: &Options, cpus: &[u32], at_start: &SysctlOverrides) -> Result<(), FindError> {
        match &options.target {
            Target::Running(_, pid) => {
                self.requester.ask_once(true)?;
                self.watched = pid.map(tree).unwrap_or_default();
                if let (Some(pid), true) = (pid, self.watched.is_empty()) {
                    return Err(FindError::Usage(format!("--pid {pid}: there is no such process")));
                }
            }
            Target::Start(command) => {
                if self.rig.is_loopback() {
                    self.refuse_taken_port()?;
                }
                self.summary.command = Some(command.clone());
                let before = Found::read(at_start);
                let held = self.rig.hold_sysctls(at_start)?;
                self.changed = before.changed();
                let service = Service::start(command, self.rig.netns(Side::HostUnderTest), cpus)?;
                self.wait_for(&service)?;
                drop(held);
                self.watched = service.processes();
                if !service.is_isolated() {
                    self.notes.push(
                        "PID namespaces are not permitted here: what the service cuts loose from itself may go on after the run"
                            .to_owned(),
                    );
                }
                self.service = Some(service);
            }
        }
        if !self.watched.is_empty() {
            self.summary.processes = Some(self.watched.len() as u32);
            self.summary.threads = Some(Times::of(&self.watched).threads() as u32);
        }
        Ok(())
    }

    /// Refuses a port that is in use on loopback, because another program would be measured instead of the service.
    fn refuse_taken_port(&self) -> Result<(), FindError> {
        let to = self.requester.to;
        let taken = match self.requester.workload.transport {
            Transport::Tcp => TcpListener::bind(to).err(),
            Transport::Udp => UdpSocket::bind(to).err(),
        };
        let transport = &self.summary.transport;
        match taken.filter(|error| error.kind() == std::io::ErrorKind::AddrInUse) {
            Some(_) => Err(FindError::Usage(format!(
                "{transport} {to} is used by another program: end that, give the service another port with --port, or measure that program \
                 with --to {to}"
            ))),
            None => Ok(()),
        }
    }

    /// Waits until the service answers, then fills its cache.
    fn wait_for(&self, service: &Service) -> Result<(), FindError> {
        let began = Instant::now();
        loop {
            service.check()?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(FindError::Stopped);
            }
            let why = match self.requester.ask_once(false) {
                Ok(()) => break,
                Err(why) => why,
            };
            let patience = if matches!(why, OnceError::Wrong { .. } | OnceError::Tls { .. }) { RIGHT } else { START };
            if began.elapsed() > patience {
                service.check()?;
                return Err(service.not_ready(why.to_string()).into());
            }
            std::thread::sleep(AGAIN);
        }
        self.requester.ask_once(true).map_err(|why| service.not_ready(why.to_string()))?;
        Ok(())
    }

    /// Starts measuring the service's CPUs. Without that the cliff is measured nevertheless.
    fn start_meter(&mut self, options: &Options, cpus: &[u32]) {
        if self.watched.is_empty() {
            self.notes.push("CPU time is not metered: --pid says which process the service is".to_owned());
            return;
        }
        let others = || allowed_cpus().into_iter().filter(|cpu| *cpu != self.requester.cpu).collect();
        let cpus: Vec<usize> = if cpus.is_empty() { others() } else { cpus.iter().map(|cpu| *cpu as usize).collect() };
        let watch = self.watched.iter().map(|process| Watch::Process(process.pid)).collect();
        match choose(options.cpu, &MeterSpec { cpus, watch }) {
            Ok(choice) => {
                let method = choice.meter.method();
                self.notes.push(format!(
                    "CPU time is metered by {method}, in trials of their own: the cliff is measured without"
                ));
                self.meter = Some(choice.meter);
            }
            Err(error) => self.notes.push(format!("CPU time is not metered: {error}")),
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        self.requester.workload.transport == Transport::Tcp
    }

    /// Number of small datagrams that the service's socket holds; if that is unknown, that a socket with the default size
    /// holds.
    pub(super) fn socket_packets(&self) -> u64 {
        let usual = || {
            let text = std::fs::read_to_string("/proc/sys/net/core/rmem_default").unwrap_or_default();
            text.trim().parse().unwrap_or(DEFAULT_RECEIVE_BUFFER_BYTES)
        };
        self.socket_bytes().map_or_else(usual, u64::from) / SMALL_DATAGRAM_BYTES
    }

    /// Receive buffer of the service's UDP socket (bytes), of several the smallest; `None`: it has none, or none is visible.
    pub(super) fn socket_bytes(&self) -> Option<u32> {
        let port = self.requester.to.port();
        let programs: Vec<Program> = self.watched.iter().filter_map(|one| Program::of(one.pid)).collect();
        let look = || Sockets::of(&programs, Some(port)).look();
        let found = if self.running { look() } else { self.rig.in_host(look).ok()? };
        found.into_iter().map(|socket| socket.room_bytes).min()
    }

    /// Values of the host that were changed while the service started, and settings of the testbed's interface.
    pub(super) fn changed(&self) -> Vec<CheckedSetting> {
        let of_interface = self.rig.settings().iter().map(|made| {
            let Made { name, found, requested, effective } = made.clone();
            CheckedSetting { name: name.to_owned(), found, requested, effective }
        });
        self.changed.iter().cloned().chain(of_interface).collect()
    }

    /// How the testbed limits the result, without limits of the host.
    pub(super) fn testbed_limits(&self) -> impl Iterator<Item = &String> {
        self.rig.limits.iter().filter(|limit| !self.rig.host_limits.contains(limit))
    }

    pub(super) fn summary(&self) -> ServiceSummary {
        self.summary.clone()
    }

    pub(super) fn limits(&self) -> Vec<String> {
        if self.running { self.rig.host_limits.clone() } else { self.rig.limits.clone() }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.as_ref().map(|why| format!("the first request that failed: {why}"))
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        if self.running {
            return fingerprint::towards(&Inventory::of_this_host(), self.requester.to.ip());
        }
        Fingerprints::of_rig(&self.rig).near
    }

    /// Ends the service and then the testbed; returns what could not be restored.
    pub(super) fn end(mut self) -> Vec<String> {
        self.meter = None;
        self.service = None;
        self.rig.end()
    }

    fn check(&self) -> Result<(), FindError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(FindError::Stopped);
        }
        self.service.as_ref().map_or(Ok(()), Service::check)?;
        self.rig.changed().map_or(Ok(()), |why| Err(FindError::Changed(why)))
    }

    /// True if all of the service's CPUs worked during the whole time `loaded_s` in which requests came.
    fn is_saturated(&self, from: &SystemStamp, to: &SystemStamp, loaded_s: f64) -> bool {
        let cpus: Vec<usize> = self.summary.service_cpus.iter().map(|cpu| *cpu as usize).collect();
        let shares = from.until(to);
        let full = |cpu: &usize| {
            shares.iter().any(|one| one.cpu == *cpu && one.used_s() + one.steal * one.counted_s >= SATURATED * loaded_s)
        };
        !cpus.is_empty() && cpus.iter().all(full)
    }

    fn ask(&mut self, load: &Load) -> Result<Report, FindError> {
        let before = SystemStamp::now().ok();
        let waits = || self.softirqs.as_ref().map(|threads| Waits::of(&self.watched, threads));
        let waited = waits();
        let mut report = self.requester.trial(load)?;
        let loaded_s = load.warm_up_s + load.window_s;
        report.saturated =
            before.zip(SystemStamp::now().ok()).is_some_and(|(from, to)| self.is_saturated(&from, &to, loaded_s));
        report.others =
            waited.zip(waits()).map_or(0.0, |(from, to)| from.others_until(&to) / loaded_s.max(1e-9)).clamp(0.0, 1.0);
        self.check()?;
        // Overload causes many equal failures: the first one suffices.
        if self.failure.is_none() {
            self.failure.clone_from(&report.failure);
        }
        Ok(report)
    }
}

impl Bench for Real {
    fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
        self.check()?;
        let load = Load {
            rate_rps: spec.rate_rps,
            arrivals: self.arrivals,
            warm_up_s: WARM_UP_S,
            window_s: spec.window_s,
            seed: spec.seed,
        };
        if !spec.is_metered() || self.meter.is_none() {
            return Ok((self.ask(&load)?, None));
        }
        // Includes the workers that it has forked since.
        if let Some(service) = &self.service {
            self.watched = service.processes();
        }
        let pid = self.service.as_ref().map(Service::any_process).or(self.watched.first().map(|process| process.pid));
        let network = || pid.map(NetworkCounts::of).unwrap_or_default();
        let (times, counts, began) = (Times::of(&self.watched), network(), Instant::now());
        let marked = self.meter.as_mut().is_some_and(|meter| meter.mark().is_ok());
        let report = self.ask(&load)?;
        let elapsed_s = began.elapsed().as_secs_f64();
        let cpus = self.meter.as_mut().filter(|_| marked).and_then(|meter| meter.read().ok());
        let later = Times::of(&self.watched);
        let ticks = |now: u64, before: u64| now.saturating_sub(before);
        let metered = cpus.map(|cpus| Metered {
            elapsed_s,
            loaded_s: (load.warm_up_s + load.window_s).min(elapsed_s),
            answers: report.all_answers,
            cpus,
            ticks: (ticks(later.user_ticks, times.user_ticks), ticks(later.system_ticks, times.system_ticks)),
            busiest: times.busiest_until(&later),
            network: counts.until(&network()),
        });
        Ok((report, metered))
    }
}

fn rig_options(options: &Options, set_up: &SetUp) -> RigOptions {
    let running = matches!(options.target, Target::Running(..));
    let place = match options.place {
        _ if running => Place::Loopback,
        Place::Best if set_up.needs_interface() => Place::Netns,
        place => place,
    };
    RigOptions {
        place,
        sender_cpu: options.requester_cpu,
        host_cpu: options.service_cpus.first().copied(),
        sysctls: set_up.sysctls.clone(),
        link: LinkOptions {
            mtu_bytes: Some(1500),
            ipv6: options.ipv6,
            steer_sender: true,
            reception: set_up.reception,
            without_rps: set_up.without_rps,
            ..LinkOptions::default()
        },
        settings: set_up.settings.clone(),
        ..RigOptions::default()
    }
}
