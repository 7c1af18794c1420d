//! [`Real`]: a bench with a real service and a real requester.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use netcliff_core::finding::CheckedSetting;
use netcliff_core::quote::{cut, in_short};
use netcliff_core::service::ServiceSummary;
use netcliff_host::fingerprint;
use netcliff_host::idle::Awake;
use netcliff_host::inventory::Inventory;
use netcliff_host::process::{ProcessId, tree};
use netcliff_host::serving::{self, SMALL_DATAGRAM_BYTES};
use netcliff_host::setting::Setting;
use netcliff_host::testbed::netns::Side;
use netcliff_host::testbed::sysctl::SysctlOverrides;
use netcliff_host::tune::device::Made;
use netcliff_packets::schedule::Arrivals;
use netcliff_remote::control::client::Session;
use netcliff_transfer::hosts::Fingerprints;
use netcliff_trial::rig::{LinkOptions, Place, Rig, RigOptions};

use super::{Options, Target};
use crate::bench::{Bench, Metered, Spec};
use crate::check::SetUp;
use crate::error::FindError;
use crate::far::{FarMeter, MeterRequest, is_own};
use crate::meter::{
    HostCounts, HostMeter, Meter, MeterOptions, processes, receive_buffer_bytes, smallest_buffer_bytes,
};
use crate::process::Service;
use crate::protocol::Transport;
use crate::request::Gaps;
use crate::requester::{Load, OnceError, Report, Requester, net};

/// Time from the service's start within which it must answer a request, and answer it correctly.
const START: Duration = Duration::from_secs(10);
const RIGHT: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const AGAIN: Duration = Duration::from_millis(50);
/// Default numbers of: source ports for datagrams that carry a request number, source ports for datagrams without one,
/// connections.
const CONNECTIONS: (u32, u32, u32) = (16, 64, 32);
/// Warm-up of a trial (s).
const WARM_UP_S: f64 = 0.1;
/// Share of the loaded time above which a CPU counts as fully busy. It is below 1 because the kernel counts busy time
/// in ticks.
const SATURATED: f64 = 0.97;
/// Longest note of an agent (characters).
const LONGEST_NOTE: usize = 400;

/// The meter of the service's host.
enum Metering<'a> {
    Here(HostMeter),
    There(FarMeter<'a>),
}

/// A running service with its requester and meter. The service ends before its testbed.
pub(super) struct Real<'a> {
    requester: Requester,
    /// `None` until the service answers.
    meter: Option<Metering<'a>>,
    service: Option<Service>,
    summary: ServiceSummary,
    rig: Rig,
    stop: Arc<AtomicBool>,
    arrivals: Option<Arrivals>,
    notes: Vec<String>,
    failure: Option<String>,
    /// Values of the host that the set-up requests, for the whole run or while the service starts.
    changed: Vec<CheckedSetting>,
    /// True: the service was already running.
    running: bool,
    /// Loops that keep the service's CPUs from halting.
    awake: Vec<Awake>,
}

impl<'a> Real<'a> {
    /// Starts the service in a testbed with this set-up, or connects to a running service. `agent`: a session with an
    /// agent on the service's host.
    pub(super) fn start(
        options: &Options,
        set_up: &SetUp,
        agent: Option<&'a mut Session>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, FindError> {
        let running = match options.target {
            Target::Running(to, _) => Some(to),
            Target::Start(_) => None,
        };
        let port = options.port()?;
        let before = Found::read(&set_up.sysctls);
        let rig = Rig::build(&rig_options(options, set_up, agent.is_some()), Arc::clone(&stop))?;
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
        let testbed = match (running, &agent) {
            (Some(_), Some(agent)) => {
                format!(
                    "a running service at its own address, metered by the agent {}; requester on CPU {}",
                    agent.peer(),
                    rig.sender_cpu
                )
            }
            (Some(_), None) => format!("a running service at its own address; requester on CPU {}", rig.sender_cpu),
            (None, _) => rig.describe_as("requester", "service"),
        };
        let gaps = workload.gaps(options.arrivals);
        let how = match &gaps {
            Gaps::Drawn(Arrivals::Poisson) => None,
            Gaps::Drawn(Arrivals::Constant) => {
                Some(("equal gaps", "for equal gaps, which make shorter queues, the predicted cliff may be too low"))
            }
            Gaps::Captured(_) => Some((
                "the capture's gaps, scaled to the load",
                "if these come in larger bursts, the predicted cliff is too high",
            )),
        };
        let how = how.map(|(how, effect)| {
            format!("requests were sent with {how}; predictions assume Poisson arrivals: {effect}")
        });
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
            at: agent.as_ref().map(|agent| agent.peer().to_owned()),
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
            summary,
            rig,
            stop,
            arrivals: options.arrivals,
            notes,
            failure: None,
            changed: before.changed(),
            running: running.is_some(),
            awake: Vec::new(),
        };
        real.bring_up(options, &service_cpus, set_up, agent)?;
        Ok(real)
    }

    fn bring_up(
        &mut self,
        options: &Options,
        cpus: &[u32],
        set_up: &SetUp,
        agent: Option<&'a mut Session>,
    ) -> Result<(), FindError> {
        let SetUp { at_start, without_rps, .. } = set_up;
        let here = agent.as_ref().is_none_or(|agent| agent.shares_clock());
        let meter =
            MeterOptions { cpus: cpus.to_vec(), without: here.then_some(self.rig.sender_cpu), cpu: options.cpu };
        match &options.target {
            Target::Running(to, pid) => {
                self.requester.ask_once(true)?;
                match agent {
                    Some(agent) => self.meter_there(agent, *to, *pid, &meter)?,
                    None => {
                        let watched = self.found(*to, *pid)?;
                        self.meter_here(watched, &meter);
                    }
                }
            }
            Target::Start(command) => {
                if self.rig.is_loopback() {
                    self.refuse_taken_port()?;
                }
                self.summary.command = Some(command.clone());
                let before = Found::read(at_start);
                let held = self.rig.hold_sysctls(at_start)?;
                self.changed.extend(before.changed());
                let service = Service::start(command, self.rig.netns(Side::HostUnderTest), cpus)?;
                self.wait_for(&service)?;
                drop(held);
                self.meter_here(service.processes(), &meter);
                self.prepare_cpus(options.awake, !self.rig.is_loopback() && !without_rps);
                if !service.is_isolated() {
                    self.notes.push(
                        "PID namespaces are not permitted here: processes that the service detaches may keep running after the run"
                            .to_owned(),
                    );
                }
                self.service = Some(service);
            }
        }
        Ok(())
    }

    /// Finds the processes of a service that runs on this host. Returns an empty list, and adds a note, if they are
    /// unknown.
    fn found(&mut self, to: SocketAddr, pid: Option<u32>) -> Result<Vec<ProcessId>, FindError> {
        if let Some(pid) = pid {
            let watched = tree(pid);
            return match watched.is_empty() {
                true => Err(FindError::Usage(format!("--pid {pid}: there is no such process"))),
                false => Ok(watched),
            };
        }
        let is_udp = self.requester.workload.transport == Transport::Udp;
        let found = match is_own(to) {
            true => serving::of_address(to, is_udp).map_err(|why| why.to_string()),
            false => Err("the service is on another host, whose agent meters it: --agent HOST".to_owned()),
        };
        Ok(found.map(|programs| processes(&programs)).unwrap_or_else(|why| {
            self.notes.push(format!("CPU time is not metered: {why}"));
            Vec::new()
        }))
    }

    /// Meters this host. Without CPU time the cliff is measured nevertheless.
    fn meter_here(&mut self, watched: Vec<ProcessId>, options: &MeterOptions) {
        let is_known = !watched.is_empty();
        let (meter, note) = HostMeter::start(watched, self.running, options);
        if is_known {
            let (processes, threads) = meter.size();
            (self.summary.processes, self.summary.threads) = (Some(processes), Some(threads));
        }
        self.notes.extend(note);
        self.meter = Some(Metering::Here(meter));
    }

    /// Prepares the service's CPUs for trials. `awake`: keeps them from halting, as far as possible. `steered`: each request
    /// interrupts the CPU under test, so that this CPU's pauses are visible whatever it runs.
    fn prepare_cpus(&mut self, awake: bool, steered: bool) {
        let Some(Metering::Here(meter)) = &self.meter else { return };
        for (cpu, heartbeat) in meter.heartbeats() {
            if steered && cpu == self.rig.host_cpu {
                heartbeat.record_all_gaps();
            }
            if !awake {
                continue;
            }
            match Awake::hold(cpu, heartbeat.clone()) {
                Ok(awake) => self.awake.push(awake),
                Err(error) => self.notes.push(format!("CPU {cpu} could not be kept from halting: {error}")),
            }
        }
    }

    /// Makes the agent meter its host.
    fn meter_there(
        &mut self,
        agent: &'a mut Session,
        to: SocketAddr,
        pid: Option<u32>,
        options: &MeterOptions,
    ) -> Result<(), FindError> {
        let request = MeterRequest::of(to, self.requester.workload.transport, pid, options);
        let meter = FarMeter::start(agent, &request)?;
        let service = &meter.service;
        (self.summary.processes, self.summary.threads) = (Some(service.processes), Some(service.threads));
        let programs: Vec<String> = service.programs.iter().map(|name| in_short(name)).collect();
        self.notes.push(format!("the service there: {}", programs.join(", ")));
        self.notes.extend(service.note.as_deref().map(|note| cut(note, LONGEST_NOTE)));
        if let Err(why) = &meter.facts {
            self.notes.push(format!("facts of the service's host: not available: {}", cut(why, LONGEST_NOTE)));
        }
        self.meter = Some(Metering::There(meter));
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

    pub(super) fn is_stream(&self) -> bool {
        self.requester.workload.transport == Transport::Tcp
    }

    /// Number of requests that the service's socket holds; if its size is unknown, the number for a socket of the default
    /// size.
    pub(super) fn socket_packets(&self) -> u64 {
        let bytes = match &self.meter {
            Some(Metering::There(far)) => far.service.receive_buffer_bytes,
            _ => self.socket_bytes().map_or_else(receive_buffer_bytes, u64::from),
        };
        (bytes as f64 / self.room_bytes()) as u64
    }

    /// Time to switch between two threads on the first CPU of the service, while it has no requests (s). `None`: this
    /// process may not use the CPU.
    pub(super) fn switch_s(&self) -> Option<f64> {
        let cpu = *self.summary.service_cpus.first()?;
        netcliff_host::cpu::switch_s(cpu as usize).ok()
    }

    /// Mean space that a request occupies in a socket's buffer (bytes), by this host's kernel.
    fn room_bytes(&self) -> f64 {
        let messages = &self.requester.workload.messages;
        let mut rooms: BTreeMap<usize, f64> = BTreeMap::new();
        let of = |bytes: usize| net::room_bytes(bytes).unwrap_or(SMALL_DATAGRAM_BYTES as f64);
        let each = messages.iter().map(|message| {
            let bytes = message.bytes.len();
            *rooms.entry(bytes).or_insert_with(|| of(bytes))
        });
        each.sum::<f64>() / messages.len().max(1) as f64
    }

    /// Receive buffer of the service's UDP socket on this host (bytes), the smallest if there are several. `None` if
    /// the service has no UDP socket, or none is visible.
    pub(super) fn socket_bytes(&self) -> Option<u32> {
        let Some(Metering::Here(meter)) = &self.meter else { return None };
        let (programs, port) = (meter.programs(), self.requester.to.port());
        let look = || smallest_buffer_bytes(&programs, port);
        if self.running { look() } else { self.rig.in_host(look).ok()? }
    }

    /// Values of the host and settings of the testbed's interface that the set-up requests, each with its value before and
    /// the value in force, even if they are equal. RPS and threaded NAPI are left out.
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
        self.failure
            .as_ref()
            .map(|why| format!("first failed request of the run, trials that do not count included: {why}"))
    }

    /// Facts of the service's host; if it is another host, facts of the requester's host are added.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        if !self.running {
            return Fingerprints::of_rig(&self.rig).near;
        }
        let near = fingerprint::towards(&Inventory::of_this_host(), self.requester.to.ip());
        let Some(Metering::There(far)) = &self.meter else { return near };
        let mut facts = far.facts.clone().unwrap_or_default();
        facts.facts.extend(near.facts.into_iter().map(|(name, fact)| (format!("sender.{name}"), fact)));
        facts
    }

    /// Ends the service and then the testbed; returns what could not be restored.
    pub(super) fn end(mut self) -> Vec<String> {
        self.awake.clear();
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

    fn ask(&mut self, load: &Load, exact: bool) -> Result<(Report, Option<Metered>), FindError> {
        let Some(meter) = &mut self.meter else { return Ok((self.requester.trial(load)?, None)) };
        meter.mark(exact)?;
        let mut report = self.requester.trial(load)?;
        let counts = meter.read();
        self.check()?;
        let counts = counts?;
        let loaded_s = load.warm_up_s + load.window_s;
        report.saturated = counts.least_used_s >= SATURATED * loaded_s;
        report.others = (counts.others_s / loaded_s.max(1e-9)).clamp(0.0, 1.0);
        if report.saturated {
            // The service would have lost the requests of a burst in any case.
            report = report.whole();
        } else if let (Some(Metering::Here(meter)), false) = (&self.meter, self.running) {
            // A service that was already running may use any CPU, and other programs use some of them all the time.
            let window_ns = report.opened_ns..report.opened_ns + (report.window_s * 1e9) as u64;
            report.leave_out(meter.still(&window_ns), meter.others(&window_ns));
        }
        // Overload causes many equal failures: the first one suffices.
        if self.failure.is_none() {
            self.failure.clone_from(&report.failure);
        }
        let HostCounts { elapsed_s, cpus, ticks, busiest, network, .. } = counts;
        let (answers, loaded_s) = (report.all_answers, loaded_s.min(elapsed_s));
        let metered =
            (!cpus.is_empty()).then_some(Metered { elapsed_s, loaded_s, answers, cpus, ticks, busiest, network });
        Ok((report, metered))
    }
}

impl Meter for Metering<'_> {
    fn mark(&mut self, exact: bool) -> Result<(), FindError> {
        match self {
            Self::Here(meter) => meter.mark(exact),
            Self::There(meter) => meter.mark(exact),
        }
    }

    fn read(&mut self) -> Result<HostCounts, FindError> {
        match self {
            Self::Here(meter) => meter.read(),
            Self::There(meter) => meter.read(),
        }
    }
}

impl Bench for Real<'_> {
    fn trial(&mut self, spec: &Spec) -> Result<(Report, Option<Metered>), FindError> {
        self.check()?;
        let load = Load {
            rate_rps: spec.rate_rps,
            arrivals: self.arrivals,
            warm_up_s: WARM_UP_S,
            window_s: spec.window_s,
            seed: spec.seed,
        };
        // The metered processes include workers that the service has forked since the last trial.
        if let (Some(service), Some(Metering::Here(meter)), true) = (&self.service, &mut self.meter, spec.is_metered())
        {
            meter.watch(service.processes());
        }
        self.ask(&load, spec.is_metered())
    }
}

/// Options of the testbed for a run. `far`: the service runs on another host, so its CPUs do not belong to this host.
fn rig_options(options: &Options, set_up: &SetUp, far: bool) -> RigOptions {
    let running = matches!(options.target, Target::Running(..));
    let place = match options.place {
        _ if running => Place::Loopback,
        Place::Best if set_up.needs_interface() => Place::Netns,
        place => place,
    };
    RigOptions {
        place,
        sender_cpu: options.requester_cpu,
        host_cpu: options.service_cpus.first().copied().filter(|_| !far),
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

/// The value that each override of the whole host had before a check set it. Values that cannot be read are omitted.
struct Found(Vec<(&'static str, u32, String)>);

impl Found {
    fn read(overrides: &SysctlOverrides) -> Self {
        let read = |(name, requested)| Some((name, requested, Setting::sysctl(name).read().ok()?));
        Self(overrides.entries().into_iter().filter_map(read).collect())
    }

    /// Returns each value with its requested value and the present value read back from the kernel.
    fn changed(self) -> Vec<CheckedSetting> {
        let changed = |(name, requested, found): (&str, u32, String)| {
            let effective = Setting::sysctl(name).read().ok()?;
            Some(CheckedSetting { name: name.to_owned(), found, requested: requested.to_string(), effective })
        };
        self.0.into_iter().filter_map(changed).collect()
    }
}
