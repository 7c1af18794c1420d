//! The generator of an agent.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use netcliff_core::units::print_pps;
use netcliff_host::nic::neighbour::{self, print_mac};
use netcliff_host::nic::vlan::below_vlan;
use serde_json::Value;

use super::{LOAD, Load, LoadReady, LoadReport, LoadRequest, Route, UNHEARD_S};
use crate::control::far::{Context, FarEnd, Kind};
use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_packets::frame::{Checksum, FrameSpec};
use netcliff_packets::generator::{Ceiling, GeneratorConfig, Lease, RateLimits, RateShare, SenderFailure, ceiling};
use netcliff_packets::schedule::Schedule;
use netcliff_packets::source::{LocalSource, Source};
use netcliff_packets::thread::{Placement, Priority, allowed_cpus};

/// Time from the agent's answer to the first frame \[ns\]. During this time the client sets its window.
const LEAD_NS: u64 = 150_000_000;
/// Relative amount by which the requested share of a load may exceed the limit (rounding).
const ROUNDING: f64 = 1e-9;
/// [`UNHEARD_S`] in nanoseconds.
const UNHEARD_NS: u64 = (UNHEARD_S * 1e9) as u64;
/// Memory of a generator: histograms, ring, slots (bytes).
const MEMORY_BYTES: u64 = 32 << 20;

/// The interfaces through which clients may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Any interface, for clients who could start programs as this user anyway.
    Any,
    /// Only the interfaces of this list.
    Interfaces(Vec<String>),
}

/// A kind of test of the agent: it sends a load for a client.
#[derive(Debug, Clone)]
pub struct LoadKind {
    /// Interfaces through which clients may send.
    pub permission: Permission,
    /// Network namespace of the generator. `None`: the agent's namespace.
    pub netns: Option<PathBuf>,
    /// Highest rate of all clients together, at each interface.
    pub limits: RateLimits,
    /// Scheduling priority of the generator on its CPU.
    pub priority: Priority,
}

impl Kind for LoadKind {
    fn name(&self) -> &'static str {
        LOAD
    }

    fn memory_bytes(&self, _settings: &Value) -> u64 {
        MEMORY_BYTES
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let request: LoadRequest = serde_json::from_value(settings.clone()).map_err(|e| format!("{LOAD}: {e}"))?;
        let far = FarLoad::start(self, &request, context.local)?;
        Ok(Box::new(far))
    }

    fn summary(&self, report: &Value) -> Option<String> {
        Some(format!("{} frames were sent", report.get("sent")?.as_u64()?))
    }
}

impl LoadKind {
    /// Finds the route to the host under test, and refuses an interface that clients may not use.
    fn way(&self, request: &LoadRequest, control: Option<IpAddr>) -> Result<Route, String> {
        let (address, interface) = (request.destination.ip(), request.interface.clone());
        let placement = Placement { netns: self.netns.clone(), priority: self.priority, ..Placement::default() };
        // A separate thread enters the namespace, because a thread cannot leave it again.
        let found = std::thread::spawn(move || {
            placement.enter().map_err(|error| error.to_string())?;
            let found = neighbour::find(address, interface.as_deref()).map_err(|error| error.to_string())?;
            let carries_control = control.is_some_and(|control| neighbour::carries(&found.interface, control));
            Ok::<_, String>((found, carries_control))
        });
        let found = found.join().map_err(|panic| WireError::died("generator", &*panic).to_string())?;
        let (found, carries_control) = found?;
        let name = &found.interface;
        if let Permission::Interfaces(allowed) = &self.permission
            && !allowed.contains(name)
        {
            let given = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            return Err(format!(
                "{address} is reached by {name}, and this agent lets clients send by {given}: start it with --allow-find {name}"
            ));
        }
        if carries_control && !request.by_control_link {
            return Err(format!(
                "{name} also carries the control connection, which the load would cut off: connect to the agent by another \
                 network, or give --i-know"
            ));
        }
        if let Some(own) = request.destination_mac
            && own != found.mac
        {
            return Err(format!(
                "{} answers for {address} on {name}, the host under test has {}: another host has its address, or a router or \
                 proxy answers for it",
                print_mac(found.mac),
                print_mac(own)
            ));
        }
        let frame_bytes = u32::try_from(request.frame_bytes).unwrap_or(u32::MAX);
        neighbour::fits(frame_bytes, found.mtu_bytes, name).map_err(|error| error.to_string())?;
        Ok(Route::of(found, request.source_port))
    }

    /// The device below the route's VLAN device, if the generator inserts the VLAN tags itself.
    fn below(&self, way: &Route, vlan: u16) -> Result<String, String> {
        let placement = Placement { netns: self.netns.clone(), priority: self.priority, ..Placement::default() };
        let name = way.interface.clone();
        let found = std::thread::spawn(move || {
            placement.enter().map_err(|error| error.to_string())?;
            below_vlan(&name, vlan).map_err(|error| error.to_string())
        });
        found.join().map_err(|panic| WireError::died("generator", &*panic).to_string())?
    }

    /// The highest rate granted to a request [packets/s]. `None` without a limit.
    fn most_pps(&self, request: &LoadRequest) -> Result<Option<f64>, String> {
        let most_pps = match (self.limits.most_pps(), request.most_pps) {
            (Some(own), Some(theirs)) => Some(own.min(theirs)),
            (own, theirs) => own.or(theirs),
        };
        match (request.load, most_pps) {
            (Load::Paced { rate_pps, .. }, Some(most_pps)) if rate_pps > most_pps * (1.0 + ROUNDING) => Err(format!(
                "a load of {} was asked for, and this generator offers at most {} (--max-rate)",
                print_pps(rate_pps),
                print_pps(most_pps)
            )),
            _ => Ok(most_pps),
        }
    }

    /// Reserves this generator's share of the rate that all clients have together.
    fn share(
        &self,
        request: &LoadRequest,
        interface: &str,
        most_pps: Option<f64>,
    ) -> Result<Option<Arc<RateShare>>, String> {
        let wanted_pps = match request.load {
            Load::Paced { rate_pps, .. } => rate_pps,
            Load::FlatOut { .. } => most_pps.unwrap_or(f64::INFINITY),
        };
        self.limits.share(interface, wanted_pps).map_err(|left_pps| {
            let all_pps = self.limits.most_pps().unwrap_or(f64::INFINITY);
            format!(
                "a load of {} by {interface} was asked for, and {} is left of the {} that all clients of this agent have together \
                 (--max-rate): wait until the other load ends, or give find --max-rate {}, which its generators share",
                print_pps(wanted_pps),
                print_pps(left_pps),
                print_pps(all_pps),
                print_pps(if left_pps > 0.0 { left_pps } else { all_pps })
            )
        })
    }

    fn config(&self, request: &LoadRequest, way: &Route) -> Result<GeneratorConfig, String> {
        let interface = match request.vlan {
            Some(vlan) => self.below(way, vlan)?,
            None => way.interface.clone(),
        };
        let frame = FrameSpec {
            source_mac: way.source_mac,
            destination_mac: way.destination_mac,
            source: way.source,
            destination: request.destination,
            more_flows: request.more_flows.clone(),
            vlan: request.vlan,
            frame_bytes: request.frame_bytes,
            checksum: Checksum::default(),
            run_id: request.run_id,
            replay: None,
        };
        let most_pps = self.most_pps(request)?;
        // The limit belongs to the interface that clients may use, whether the generator or that interface inserts the
        // VLAN tag.
        let share = self.share(request, &way.interface, most_pps)?;
        let cpu = request.cpu.or_else(|| allowed_cpus().first().copied());
        let placement = Placement { netns: self.netns.clone(), cpu, priority: self.priority };
        Ok(GeneratorConfig {
            placement,
            max_burst: request.max_burst,
            method: request.method.unwrap_or_default(),
            most_pps,
            share,
            lease: Lease::of(UNHEARD_NS),
            round_trips: request.round_trips,
            ..GeneratorConfig::new(interface, frame)
        })
    }
}

/// A running generator. Dropping it ends its threads.
struct FarLoad {
    ready: LoadReady,
    work: Work,
    /// Extended by each progress request; the generator stops when it expires.
    lease: Lease,
}

enum Work {
    Paced(Box<LocalSource<Schedule>>),
    FlatOut { stop: Arc<AtomicBool>, thread: Option<JoinHandle<Result<Ceiling, SenderFailure>>> },
}

impl FarLoad {
    fn start(kind: &LoadKind, request: &LoadRequest, control: Option<IpAddr>) -> Result<Self, WireError> {
        let way = kind.way(request, control).map_err(WireError::Changed)?;
        let config = kind.config(request, &way).map_err(WireError::Changed)?;
        let (method, most_pps, lease) = (config.method, config.most_pps, config.lease.clone());
        let (work, window) = match request.load {
            Load::Paced { arrivals, rate_pps, seed, timing } => {
                let mut source = LocalSource::new(config, Schedule::new(arrivals, rate_pps, seed, 0)?).after(LEAD_NS);
                let window = source.prepare(timing)?.first().copied();
                source.start()?;
                (Work::Paced(Box::new(source)), window)
            }
            Load::FlatOut { seconds } => {
                let stop = Arc::<AtomicBool>::default();
                let theirs = Arc::clone(&stop);
                let thread = std::thread::Builder::new().name("netcliff-load".into());
                let thread = thread.spawn(move || ceiling(config, seconds, theirs));
                let thread = thread.map_err(|e| WireError::system("start the generator thread", e))?;
                (Work::FlatOut { stop, thread: Some(thread) }, None)
            }
        };
        // The lease runs from now on: the first frame leaves only after the answer.
        lease.extend(UNHEARD_NS);
        Ok(Self { ready: LoadReady { window, way, method, most_pps }, work, lease })
    }

    fn halt(&mut self) {
        match &mut self.work {
            Work::Paced(source) => source.stop(),
            Work::FlatOut { stop, .. } => stop.store(true, Ordering::Relaxed),
        }
    }

    fn end(&mut self) -> LoadReport {
        self.halt();
        match &mut self.work {
            Work::Paced(source) => match source.finish() {
                Ok(sender) => LoadReport { sent: sender.frames.total(), sender: Some(sender), ..LoadReport::default() },
                Err(SenderFailure { reason, measured }) => LoadReport {
                    sent: measured.as_ref().map_or(0, |measured| measured.frames.total()),
                    sender: measured.map(|measured| *measured),
                    late_s: late_s(&reason),
                    failed: Some(reason.to_string()),
                    ..LoadReport::default()
                },
            },
            Work::FlatOut { thread, .. } => match thread.take().map(JoinHandle::join) {
                Some(Ok(Ok(ceiling))) => {
                    LoadReport { sent: ceiling.frames.total(), ceiling: Some(ceiling), ..LoadReport::default() }
                }
                Some(Ok(Err(failure))) => LoadReport {
                    late_s: late_s(&failure.reason),
                    failed: Some(failure.reason.to_string()),
                    ..LoadReport::default()
                },
                Some(Err(panic)) => {
                    let why = WireError::died("generator", &*panic).to_string();
                    LoadReport { failed: Some(why), ..LoadReport::default() }
                }
                None => LoadReport::default(),
            },
        }
    }
}

fn late_s(reason: &WireError) -> Option<f64> {
    if let WireError::StartMissed { late_s } = reason { Some(*late_s) } else { None }
}

impl FarEnd for FarLoad {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn info(&self) -> Value {
        serde_json::to_value(&self.ready).unwrap_or_default()
    }

    fn report(&mut self) -> Result<Value, String> {
        self.lease.extend(UNHEARD_NS);
        let sent = if let Work::Paced(source) = &mut self.work { source.sent() } else { 0 };
        serde_json::to_value(LoadReport { sent, ..LoadReport::default() }).map_err(|e| e.to_string())
    }

    fn finished(&mut self) -> bool {
        match &mut self.work {
            Work::Paced(source) => source.is_finished(),
            Work::FlatOut { thread, .. } => thread.as_ref().is_none_or(JoinHandle::is_finished),
        }
    }

    fn stop(mut self: Box<Self>) -> Value {
        serde_json::to_value(self.end()).unwrap_or_default()
    }
}

impl Drop for FarLoad {
    fn drop(&mut self) {
        self.halt();
    }
}
