//! Request/response with both ends placed: on this host in a testbed, or against an agent. [`Sweep`] repeats it.

mod merge;
mod several;
mod sweep;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use crate::exchange::near::run;
use crate::exchange::{Near, Rendezvous, RrKind, Server, ServerCount, Target};
use netcliff_core::cpus::{CpuRow, ExactRow};
use netcliff_core::repeats::Known;
use netcliff_core::{Fingerprint, Provenance};
use netcliff_host::cpu::{self, Choice, MeterError, MeterSpec, Method, Preference, Watch};
use netcliff_host::inventory::Inventory;
use netcliff_host::testbed::netns::Side;
use netcliff_packets::WireError;
use netcliff_packets::error::ControlError;
use netcliff_packets::thread::{Placement, print_cpus};
use netcliff_remote::FarCpu;
use netcliff_remote::control::CPU_METER;
use netcliff_remote::control::RR_CPU_LISTS;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::Token;
use netcliff_remote::ground::FarGround;
use serde::{Deserialize, Serialize};

pub use crate::exchange::report::{AgentShare, Cost, HostCost, HostTicks, OneWay, Report, ThreadCost, Together};
pub use crate::exchange::settings::{Receive, Settings, Transport};
pub use crate::exchange::{Interval, Intervals};
pub use merge::{Doubt, RrSample, doubts, limited_by, merged};
pub use netcliff_packets::schedule::Arrivals;
pub use several::several;
pub use sweep::{RrRun, Sweep};

use crate::companion::Companion;
use netcliff_trial::rig::{Rig, RigError};
use netcliff_trial::stand::{Place, Stand, both};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RrError {
    /// The testbed cannot be made.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// A setting is out of its range, or the kernel refused a call.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The agent refused the test or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// CPU time cannot be measured as requested.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

/// A report with how it was produced, as `netcliff rr --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RrRecord {
    /// `rr`.
    pub kind: String,
    /// Results over all repeats together.
    #[serde(flatten)]
    pub report: Report,
    /// Use of each CPU of both ends' hosts: medians over the repeats.
    #[serde(flatten)]
    pub cpus: HostCpus,
    /// The repeats one by one, in the order of measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<RrSample>,
    /// Uncertainty of the mean rate; in an open loop, of the mean of the median latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Facts of this host that explain a difference to another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Facts of the far end's host; absent: the far end runs on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_fingerprint: Option<Fingerprint>,
    /// How the report was produced.
    pub provenance: Provenance,
}

/// Use of each CPU of both ends' hosts, in the form of `netcliff stream`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostCpus {
    /// CPUs of this host, by the kernel's tick counters.
    pub system: Vec<CpuRow>,
    /// CPUs of the far end's host, by tick counters; absent: the far end runs on this host, or its host does not report
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub far_system: Vec<CpuRow>,
    /// CPUs of this host, by eBPF; absent: eBPF is not available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exact: Vec<ExactRow>,
    /// CPUs of the far end's host, by eBPF; absent: eBPF is not available there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub far_exact: Vec<ExactRow>,
    /// How each CPU figure was measured: (name of the figure, method).
    pub cpu_methods: Vec<(String, String)>,
}

/// Whether the answering end runs in a [`Companion`] process, like the server of other request/response tools. Threads
/// of one process share its table of descriptors, which each call would have to lock.
pub fn apart(settings: &Settings) -> bool {
    // One process makes both ends of a pair of Unix sockets. Spinning threads would leave a companion no CPU to send
    // heartbeats.
    settings.transport != Transport::Unix && settings.receive != Receive::Spin
}

/// Runs a test with both ends on this host: the client in the rig's sender, the server in its host under test, in the
/// companion or in threads of this process. `intervals` receives interim reports.
///
/// # Errors
/// A setting cannot be used, CPU time cannot be measured as requested, or the companion is gone.
pub fn here(
    settings: &Settings,
    rig: &Rig,
    meter: Preference,
    companion: Option<&mut Companion>,
    intervals: Option<Intervals<'_>>,
) -> Result<Report, RrError> {
    settings.check()?;
    let settings = Settings {
        client_cpu: Some(rig.sender_cpu as usize),
        server_cpu: Some(rig.host_cpu as usize),
        ..settings.clone()
    };
    // A pair of Unix sockets depends on no network.
    let places = if settings.transport == Transport::Unix { Vec::new() } else { rig.places() };
    let mut report = standing(&places, || match companion {
        Some(companion) => by_companion(&settings, (rig, intervals), meter, companion),
        None => by_threads(&settings, (rig, intervals), meter),
    })?;
    report.notes.extend(rig.link().map(|link| format!("link: {link}")));
    // The limits of the host are always reported; limits of the network only if requests pass a network.
    let limits = if settings.transport == Transport::Unix { &rig.host_limits } else { &rig.limits };
    report.notes.extend(limits.iter().cloned());
    Ok(report)
}

/// Runs a test while watching these places: a change of one makes the result partial.
fn standing(places: &[Place], test: impl FnOnce() -> Result<Report, RrError>) -> Result<Report, RrError> {
    let mut stand = Stand::on(places);
    let made = test();
    explained(made, stand.changed())
}

/// Adds what changed during a test to its report or its error.
fn explained(made: Result<Report, RrError>, changed: Option<String>) -> Result<Report, RrError> {
    match (made, changed) {
        (Ok(mut report), Some(changed)) => {
            let partial = report.partial.take();
            report.partial = Some(partial.map_or_else(|| changed.clone(), |why| format!("{changed} ({why})")));
            Ok(report)
        }
        (Err(error), Some(changed)) => Err(WireError::Changed(format!("{changed} ({error})")).into()),
        (made, None) => made,
    }
}

fn by_threads(
    settings: &Settings,
    (rig, intervals): (&Rig, Option<Intervals<'_>>),
    meter: Preference,
) -> Result<Report, RrError> {
    let far = Placement { netns: rig.netns(Side::HostUnderTest), cpu: settings.server_cpu, ..Placement::default() };
    let token = Token::new()?;
    let (mut server, targets) = if settings.transport == Transport::Unix {
        let pairs = (0..settings.flows).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>();
        let failed = |source| WireError::System { action: "make a pair of Unix sockets".into(), source };
        let (ours, theirs): (Vec<_>, Vec<_>) = pairs.map_err(failed)?.into_iter().unzip();
        (Server::over(settings, theirs, &far)?, ours.into_iter().map(Target::Pair).collect())
    } else {
        let address = rig.host_address();
        let server = Server::listen(settings, address, token, &far)?;
        let targets = targets(settings, address, server.ports());
        (server, targets)
    };
    let near = Near { intervals, ..in_rig(settings, rig, targets, token) };
    let mut choice = start(meter, &[std::process::id()])?;
    let mut report = run(settings, near, &mut || Some(server.count()), Some(&mut *choice.meter))?;
    report.notes.extend(choice.passed_over.iter().map(ToString::to_string));
    Ok(report)
}

fn by_companion(
    settings: &Settings,
    (rig, intervals): (&Rig, Option<Intervals<'_>>),
    meter: Preference,
    companion: &mut Companion,
) -> Result<Report, RrError> {
    let ready = companion.session.start(RrKind::NAME, settings)?;
    let targets = targets(settings, rig.host_address(), &ready.ports);
    let mut near = Near { intervals, ..in_rig(settings, rig, targets, ready.token) };
    near.path.push_str("; the server is a process of its own");
    near.gone = Some(companion.session.gone());
    let choice = start(meter, &[std::process::id(), companion.pid()])?;
    answered(settings, near, &mut companion.session, choice)
}

/// The requesting end in a rig.
fn in_rig<'a>(settings: &Settings, rig: &'a Rig, targets: Vec<Target>, token: Token) -> Near<'a> {
    Near {
        targets,
        token,
        placement: Placement { netns: rig.netns(Side::Sender), cpu: settings.client_cpu, ..Placement::default() },
        path: path(settings, rig),
        same_clock: true,
        same_host: true,
        stop: &rig.stop,
        gone: None,
        intervals: None,
        others: None,
    }
}

/// Runs a test with the far end in an agent whose data address is `address`. `intervals` receives interim reports.
///
/// # Errors
/// The agent refuses the test, or is gone before the test began, or an error of [`here`].
pub fn there(
    settings: &Settings,
    (session, address): (&mut Session, IpAddr),
    meter: Preference,
    stop: &AtomicBool,
    intervals: Option<Intervals<'_>>,
) -> Result<Report, RrError> {
    there_together(settings, (session, address), meter, stop, (intervals, None))
}

/// Like [`there`], but with a common start of several requesting ends.
fn there_together(
    settings: &Settings,
    (session, address): (&mut Session, IpAddr),
    meter: Preference,
    stop: &AtomicBool,
    (intervals, others): (Option<Intervals<'_>>, Option<&Rendezvous>),
) -> Result<Report, RrError> {
    settings.check()?;
    let same_host = session.shares_clock();
    // If both ends are on one host, the meter of this process sees both.
    let wants_meter = !same_host && meter.allows(Method::Ebpf);
    if !settings.server_cpus.is_empty() && !session.offers(RR_CPU_LISTS) {
        return Err(WireError::Far(session.lacks(RR_CPU_LISTS).into()).into());
    }
    let can_meter = session.offers(CPU_METER);
    let settings = &Settings { far_meter: wants_meter && can_meter, ..settings.clone() };
    let watched = FarGround::on(session, address);
    let ready = session.start(RrKind::NAME, settings)?;
    let near = Near {
        targets: targets(settings, address, &ready.ports),
        token: ready.token,
        placement: Placement { cpu: settings.client_cpu, ..Placement::default() },
        path: format!("this host to an agent at {address} (netcliff {})", session.hello.version),
        same_clock: same_host,
        same_host,
        stop,
        gone: Some(session.gone()),
        intervals,
        others,
    };
    let mut stand = Stand::on(&[Place::towards(address)]);
    let choice = start(meter, &[std::process::id()]).map_err(RrError::from);
    let made = choice.and_then(|choice| answered(settings, near, session, choice));
    let here = stand.changed();
    let far = watched.changed(session, here.as_deref());
    let mut report = explained(made, both(here, far))?;
    report.notes.extend(watched.refusal().map(str::to_owned));
    if wants_meter && !can_meter {
        report.notes.extend(FarCpu::NotAvailable(session.lacks(CPU_METER)).refusal());
    }
    Ok(report)
}

/// Runs a test that an agent has accepted, and ends it at the agent.
fn answered(settings: &Settings, near: Near<'_>, session: &mut Session, mut choice: Choice) -> Result<Report, RrError> {
    let mut lost = None;
    let mut far = || -> Option<ServerCount> {
        let answer = session.report();
        let answer = answer.map_err(|error| lost = Some(error.to_string())).ok()?;
        serde_json::from_value(answer).ok()
    };
    let report = run(settings, near, &mut far, Some(&mut *choice.meter));
    // The results of this end are returned even if the agent is gone.
    let last = session.stop();
    let mut report = report?;
    report.notes.extend(choice.passed_over.iter().map(ToString::to_string));
    let ended = lost.or_else(|| match last {
        Ok(last) => last.partial,
        Err(error) => Some(error.to_string()),
    });
    report.partial = match (report.partial, ended) {
        (Some(why), Some(more)) if why != more => Some(format!("{why}; {more}")),
        (why, more) => why.or(more),
    };
    Ok(report)
}

fn path(settings: &Settings, rig: &Rig) -> String {
    let client = print_cpus(settings.client_cpu, &settings.client_cpus);
    let server = print_cpus(settings.server_cpu, &settings.server_cpus);
    let ip = if rig.is_ipv6() { "IPv6" } else { "IPv4" };
    match (&settings.transport, rig.testbed()) {
        (Transport::Unix, _) => format!("Unix sockets on this host: client on CPU {client}, server on CPU {server}"),
        (_, Some(testbed)) => {
            let mtu_bytes = testbed.options().mtu_bytes;
            format!("netns: client on CPU {client}, server on CPU {server}, joined by veth, MTU {mtu_bytes}, {ip}")
        }
        _ => format!("loopback: client on CPU {client}, server on CPU {server}, {ip}"),
    }
}

fn targets(settings: &Settings, address: IpAddr, ports: &[u16]) -> Vec<Target> {
    let ports = ports.iter().cycle().take(settings.flows as usize);
    ports.map(|port| Target::Address(SocketAddr::new(address, *port))).collect()
}

/// A meter of all CPUs and of these processes.
fn start(meter: Preference, processes: &[u32]) -> Result<Choice, MeterError> {
    let cpus = Inventory::of_this_host().cpu.online.iter().map(|cpu| *cpu as usize).collect();
    cpu::choose(meter, &MeterSpec { cpus, watch: processes.iter().copied().map(Watch::Process).collect() })
}
