//! A transfer with an agent: the near end in this process, the far end in the agent.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use netcliff_host::cpu::system::SystemShares;
use netcliff_host::nic::counts::DeviceCounts;
use serde::{Deserialize, Serialize};

use super::conduct::{self, EndResult, Go, Part, Played};
use super::far::{FarReport, TransferKind};
use super::far_end_request::FarEndRequest;
use super::open::{Opener, Recipe};
use super::{Channel, End, Settings, Spans, Transfer, Watch, join, local};
use netcliff_packets::error::ControlError;
use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_remote::control::CPU_LISTS;
use netcliff_remote::control::CPU_METER;
use netcliff_remote::control::DEVICE_COUNTS;
use netcliff_remote::control::RX_CPU;
use netcliff_remote::control::SHARED_THREADS;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::message::Ready;
use netcliff_remote::far_meter::FarCpu;

/// Time that the far end may need after the near end has finished, in addition to the stall limit \[s\]: for its meters
/// and its report.
const GRACE_S: f64 = 2.0;

/// What the far end reports about its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FarHost {
    /// CPU use of the far host's CPUs over the far end's windows, by /proc/stat.
    pub ticks: Vec<SystemShares>,
    /// CPU use of the far host by the exact meter (eBPF). `None` if not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<FarCpu>,
    /// Counters of the far host's devices over the far end's windows. `None` if not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceCounts>,
    /// Number of connections and datagrams refused because they did not prove the token.
    pub refused: u64,
    /// Facts of the far host that explain why results differ between hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

/// Runs one transfer with an agent. The data go to `address`; the channel's own address is not used.
///
/// Each end has its own windows, which open when it has all flows: about a round trip apart. The transfer ends early if
/// an end sees no data for `stall_s`, or if the agent is silent for the session's limit. The counts up to then are
/// returned.
///
/// # Errors
/// A setting is out of range at either end, the agent refuses, the agent is gone before anything was measured, or an
/// error of [`super::run`].
pub fn run_with(
    settings: &Settings,
    session: &mut Session,
    address: IpAddr,
    watch: &mut dyn Watch,
) -> Result<Transfer, WireError> {
    let spans = settings.spans()?.between_hosts();
    settings.check_ends()?;
    for (needed, feature) in [
        (!settings.far_cpus.is_empty(), CPU_LISTS),
        (settings.shared_threads().is_some(), SHARED_THREADS),
        (settings.far_rx.is_some(), RX_CPU),
    ] {
        if needed && !session.offers(feature) {
            return Err(WireError::Far(session.lacks(feature).into()));
        }
    }
    let can_meter = session.offers(CPU_METER);
    // An older agent refuses a request with unknown keys.
    let order = FarEndRequest {
        meter: settings.far_meter && can_meter,
        devices: settings.far_devices && session.offers(DEVICE_COUNTS),
        ..FarEndRequest::of(settings)?
    };
    let gone = session.gone();
    let ready = session.start(TransferKind::NAME, &order)?;
    let parts = parts(settings, settings, spans, address, (&ready, 0))?;
    let played = conduct::run_flows(settings, spans, parts, Some(&gone), watch);
    let whole = played.as_ref().is_ok_and(|played| played.stopped.is_none());
    let reported = last_report(session, settings, whole);
    let (played, reported) = match (played, reported) {
        // If the far end failed too, its failure is the cause.
        (Err(ours), Ok(FarReport { failed: Some(why), .. })) => {
            return Err(WireError::Far(why.and(&format!("; this end: {ours}"))));
        }
        (Err(ours), _) => return Err(ours),
        (Ok(played), reported) => (played, reported),
    };
    let mut made = together(settings, played, reported);
    if let Some(far) = made.far.as_mut().filter(|_| settings.far_meter && !can_meter) {
        far.cpu = Some(FarCpu::NotAvailable(session.lacks(CPU_METER)));
    }
    Ok(made)
}

/// Requests the last report of the far end. If the transfer was complete, the far end ends by itself, by its own clock
/// or at the end of the data.
pub(super) fn last_report(session: &mut Session, settings: &Settings, whole: bool) -> Result<FarReport, ControlError> {
    let patience = if whole { Duration::from_secs_f64(settings.stall_s + GRACE_S) } else { Duration::ZERO };
    let last = match session.last(patience)? {
        Some(last) => last,
        None => session.stop()?,
    };
    let malformed = |e: serde_json::Error| ControlError::Malformed { peer: "the agent".into(), why: e.to_string() };
    let report: FarReport = serde_json::from_value(last.report).map_err(malformed)?;
    Ok(FarReport { failed: report.failed.or(last.partial.map(Refusal::from)), ..report })
}

/// The near ends of one agent's flows. `base` is the number of its first flow among all flows; `one` is the settings
/// for this agent.
pub(super) fn parts<'a>(
    settings: &'a Settings,
    one: &Settings,
    spans: Spans,
    address: IpAddr,
    (ready, base): (&'a Ready, usize),
) -> Result<Vec<Part<'a>>, WireError> {
    let multipath = matches!(settings.channel, Channel::Tcp { multipath: true, .. });
    let recipe = Recipe { address, multipath, options: &settings.options, stall_ns: spans.stall_ns };
    let udp = matches!(settings.channel, Channel::Udp { .. });
    let deadline = Instant::now() + join::patience(spans.stall_ns);
    let flows = one.flow_directions();
    if ready.ports.len() != if udp { flows.len() } else { 1 } {
        return Err(WireError::Far(
            format!("it listens on {} ports for {} flows", ready.ports.len(), flows.len()).into(),
        ));
    }
    let ports = ready.ports.iter().cycle();
    let part = |(flow, (forward, port)): (usize, (bool, &u16))| {
        let port = *port;
        let opener: Opener<'a> = if udp {
            Box::new(move || join::join(recipe, port, &ready.token, flow, deadline))
        } else {
            Box::new(move || join::dial(recipe, port, &ready.token, flow))
        };
        let go = if udp { Go::Gate } else { Go::Await };
        let placement = settings.near_placement(base + flow);
        Part { flow: base + flow, sender: forward, near: true, placement, opener, go }
    };
    Ok(flows.into_iter().zip(ports).enumerate().map(part).collect())
}

/// Combines the results of both ends into one transfer.
pub(super) fn together(settings: &Settings, near: Played, reported: Result<FarReport, ControlError>) -> Transfer {
    let flows = settings.flow_directions();
    let near_reason = near.cut_short(|flow| flows[flow]);
    let (far, far_failed, host) = match reported {
        Ok(report) => {
            let FarReport { ticks, cpu, devices, refused, fingerprint, .. } = report;
            let host = FarHost { ticks, cpu, devices, refused, fingerprint };
            (report.played, report.failed, Some(host))
        }
        Err(error) => (None, Some(error.to_string().into()), None),
    };
    // If the far end reports another number of flows than requested, its counts are not used.
    let far = far.filter(|far| far.sides.len() == flows.len());
    let far_reason = far.as_ref().and_then(|far| far.cut_short(|flow| !flows[flow]));
    // Order of reasons: the user's stop, then the far end's failure, then the reports of the ends.
    let cut_short = near
        .stopped
        .map(|why| why.to_string())
        .or(far_failed.map(|why| format!("the far end: {why}")))
        .or(near_reason)
        .or(far_reason.map(|why| format!("the far end {why}")));
    let lost = || EndResult {
        end: End { failure: Some("what the far end counted is lost".to_owned()), ..End::default() },
        in_force: None,
        tcp: Vec::new(),
    };
    let far_sides = far.map_or_else(|| flows.iter().map(|_| lost()).collect(), |far| far.sides);
    let made = flows.into_iter().zip(near.sides.into_iter().zip(far_sides)).map(|(forward, (near, far))| {
        let (sender, receiver) = if forward { (near, far) } else { (far, near) };
        local::flow(forward, sender, receiver)
    });
    Transfer { flows: made.collect(), cut_short, far: host, many: None }
}
