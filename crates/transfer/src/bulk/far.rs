//! The far end of a transfer in an agent.

use std::net::{IpAddr, Ipv6Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use netcliff_core::Fingerprint;
use netcliff_host::cpu::system::{SystemShares, SystemStamp};
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::counts::DeviceCounts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::admit::admit;
use super::conduct::{self, Go, Part, Played};
use super::far_end_request::FarEndRequest;
use super::join;
use super::open::{Opener, Recipe};
use super::start::{StartNotice, StartTime};
use super::{Channel, Settings, Spans, Watch};
use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_remote::control::COMMON_START;
use netcliff_remote::control::CPU_LISTS;
use netcliff_remote::control::CPU_METER;
use netcliff_remote::control::DEVICE_COUNTS;
use netcliff_remote::control::RX_CPU;
use netcliff_remote::control::SHARED_THREADS;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::key::Token;
use netcliff_remote::far_meter::{FarCpu, FarMeter};

/// The transfer test of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferKind {
    /// Congestion controls that clients may request.
    pub congestion: Congestion,
}

/// Congestion controls that an agent permits its clients. A root process may use all congestion controls of the kernel,
/// and makes the kernel load modules for others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Congestion {
    /// The congestion controls that the host permits to all users (sysctl net.ipv4.tcp_allowed_congestion_control).
    #[default]
    OfTheHost,
    /// The congestion controls that the host permits to all users, and those in this list.
    Also(Vec<String>),
    /// All congestion controls of the kernel, for clients who could start programs as this user anyway.
    Any,
}

impl Congestion {
    fn check(&self, wanted: Option<&str>) -> Result<(), String> {
        let (Some(wanted), false) = (wanted, *self == Self::Any) else { return Ok(()) };
        let file = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
        let host = std::fs::read_to_string(file).unwrap_or_default();
        let also: &[String] = if let Self::Also(also) = self { also } else { &[] };
        let allowed: Vec<&str> = host.split_whitespace().chain(also.iter().map(String::as_str)).collect();
        if allowed.contains(&wanted) {
            return Ok(());
        }
        Err(format!(
            "congestion control {wanted} is not one that this host lets everybody have: {}; start the agent with \
             --allow-congestion {wanted}, or add it to the sysctl net.ipv4.tcp_allowed_congestion_control there",
            allowed.join(", ")
        ))
    }
}

impl TransferKind {
    /// Name of the kind on the control channel.
    pub const NAME: &'static str = "transfer";
}

impl Kind for TransferKind {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn features(&self) -> &'static [&'static str] {
        &[COMMON_START, CPU_LISTS, CPU_METER, DEVICE_COUNTS, RX_CPU, SHARED_THREADS]
    }

    fn memory_bytes(&self, settings: &Value) -> u64 {
        let order =
            serde_json::from_value::<FarEndRequest>(settings.clone()).ok().filter(|order| order.check().is_ok());
        order.map_or(0, |order| order.memory_bytes())
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let order: FarEndRequest = serde_json::from_value(settings.clone()).map_err(|e| format!("transfer: {e}"))?;
        order.check()?;
        self.congestion.check(order.options.congestion.as_deref())?;
        let address = context.local.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let mut far = FarTransfer::listen(order.settings(address), address, context.token)?;
        far.settings = context.settings;
        Ok(Box::new(far))
    }

    fn summary(&self, report: &Value) -> Option<String> {
        // Read in place, because a copy of a long report would need as much memory again.
        let sides = report.pointer("/played/sides")?.as_array()?;
        let bytes: u64 = sides.iter().filter_map(|side| side.pointer("/end/total_bytes")?.as_u64()).sum();
        let flows = if sides.len() == 1 { "1 flow".to_owned() } else { format!("{} flows", sides.len()) };
        Some(format!("{bytes} bytes were moved here in {flows}"))
    }
}

/// The report of a far end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FarReport {
    /// Results of the far host's ends, in the order of the flows. `None` while the transfer runs, or if it failed.
    pub played: Option<Played>,
    /// Why there are no results. `None` if there are results, or the transfer still runs.
    pub failed: Option<Refusal>,
    /// CPU use of the far host over the far end's windows, by the kernel's ticks.
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
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
}

/// Fingerprint of this host, read once. An agent runs for long, but facts that may change come from the near end's
/// requests.
fn fingerprint() -> Fingerprint {
    static FINGERPRINT: OnceLock<Fingerprint> = OnceLock::new();
    FINGERPRINT.get_or_init(|| netcliff_host::fingerprint::of_host(&Inventory::of_this_host(), &[])).clone()
}

/// A running far end. Dropping it ends its threads.
struct FarTransfer {
    ports: Vec<u16>,
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    /// The common start time. `None` if the ends start at once.
    start: Option<Arc<StartTime>>,
    work: Option<JoinHandle<FarReport>>,
    /// Whether the client understands refusals that name the refused setting.
    settings: bool,
}

/// The sockets at which the near end's flows arrive.
enum Bound {
    Listener(TcpListener),
    Sockets(Vec<UdpSocket>),
}

impl FarTransfer {
    fn listen(mut settings: Settings, address: IpAddr, token: Token) -> Result<Self, WireError> {
        let spans = settings.spans()?.between_hosts();
        let stop = Arc::<AtomicBool>::default();
        settings.stop = Some(Arc::clone(&stop));
        let (bound, ports) = bind(&settings, spans, address)?;
        let refused = Arc::<AtomicU64>::default();
        let start = settings.start.clone();
        let work = {
            let (stop, refused) = (Arc::clone(&stop), Arc::clone(&refused));
            let work = move || work(&settings, spans, bound, address, &token, &stop, &refused);
            thread::Builder::new().name("far end".into()).spawn(work)
        };
        let work = Some(work.map_err(|e| WireError::system("start a thread for the far end", e))?);
        Ok(Self { ports, stop, refused, start, work, settings: false })
    }

    fn end(&mut self) -> FarReport {
        self.stop.store(true, Ordering::Relaxed);
        let Some(work) = self.work.take() else { return FarReport::default() };
        let report = work.join().unwrap_or_else(|panic| FarReport {
            failed: Some(WireError::died("far end", &*panic).into()),
            ..FarReport::default()
        });
        let failed = report.failed.map(|why| why.for_client(self.settings));
        FarReport { failed, refused: self.refused.load(Ordering::Relaxed), ..report }
    }
}

impl Drop for FarTransfer {
    fn drop(&mut self) {
        self.end();
    }
}

impl FarEnd for FarTransfer {
    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    /// Reports only the status; the counts follow at the end.
    fn report(&mut self) -> Result<Value, String> {
        let refused = self.refused.load(Ordering::Relaxed);
        serde_json::to_value(FarReport { refused, ..FarReport::default() }).map_err(|e| e.to_string())
    }

    fn tell(&mut self, said: Value) -> Result<(), String> {
        let start = self.start.as_ref().ok_or("this transfer begins by itself: it was not asked to wait for a time")?;
        let StartNotice { begin_at_ns } = serde_json::from_value(said).map_err(|e| format!("transfer: {e}"))?;
        start.tell(begin_at_ns);
        Ok(())
    }

    fn finished(&mut self) -> bool {
        self.work.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(mut self: Box<Self>) -> Value {
        serde_json::to_value(self.end()).unwrap_or_default()
    }
}

fn recipe(settings: &Settings, spans: Spans, address: IpAddr) -> Recipe<'_> {
    let multipath = matches!(settings.channel, Channel::Tcp { multipath: true, .. });
    Recipe { address, multipath, options: &settings.options, stall_ns: spans.stall_ns }
}

fn bind(settings: &Settings, spans: Spans, address: IpAddr) -> Result<(Bound, Vec<u16>), WireError> {
    let recipe = recipe(settings, spans, address);
    let flows = settings.flow_directions().len();
    let failed = |e| WireError::system("ask for the port", e);
    if matches!(settings.channel, Channel::Udp { .. }) {
        let sockets = (0..flows).map(|_| join::bound(recipe)).collect::<Result<Vec<_>, _>>()?;
        let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port()));
        let ports = ports.collect::<Result<_, _>>().map_err(failed)?;
        return Ok((Bound::Sockets(sockets), ports));
    }
    let listener = join::listener(recipe, flows)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((Bound::Listener(listener), vec![port]))
}

/// Runs the far end, in its own thread.
fn work(
    settings: &Settings,
    spans: Spans,
    bound: Bound,
    address: IpAddr,
    token: &Token,
    stop: &AtomicBool,
    refused: &AtomicU64,
) -> FarReport {
    let deadline = Instant::now() + join::patience(spans.stall_ns);
    let recipe = recipe(settings, spans, address);
    let meter = settings.far_meter.then(FarMeter::start);
    let mut host = FarWatch { meter, counts_devices: settings.far_devices, ..FarWatch::default() };
    // This flag is never set: `stop` signals that the client is gone.
    let other_half = AtomicBool::new(false);
    let played = thread::scope(|scope| {
        let parts = match bound {
            Bound::Sockets(sockets) => {
                let opener = |(flow, socket)| -> Opener<'_> {
                    Box::new(move || join::joined(recipe, socket, flow, token, (deadline, stop), refused))
                };
                parts(settings, sockets.into_iter().enumerate().map(opener), Go::Gate)
            }
            Bound::Listener(listener) => {
                let pairs = settings.flow_directions().iter().map(|_| mpsc::channel()).unzip();
                let (takers, admitted): (Vec<_>, Vec<_>) = pairs;
                let takers = takers.into_iter().map(Some).collect();
                // If a flow's connection does not arrive, `admit` drops the flow's sender, and the flow ends.
                scope.spawn(move || admit(&listener, token, takers, deadline, stop, refused));
                let opener =
                    |(flow, admitted)| -> Opener<'_> { Box::new(move || join::accepted(recipe, flow, &admitted)) };
                parts(settings, admitted.into_iter().enumerate().map(opener), Go::Say)
            }
        };
        conduct::run_flows(settings, spans, parts, Some(&other_half), &mut host)
    });
    match played {
        Ok(played) => FarReport {
            played: Some(played),
            ticks: host.shares,
            cpu: host.exact,
            devices: host.devices,
            fingerprint: Some(fingerprint()),
            ..FarReport::default()
        },
        Err(error) => FarReport { failed: Some(error.into()), ..FarReport::default() },
    }
}

/// The far end of each flow.
fn parts<'a>(settings: &'a Settings, openers: impl Iterator<Item = Opener<'a>>, go: Go) -> Vec<Part<'a>> {
    let flows = settings.flow_directions().into_iter().zip(openers).enumerate();
    flows
        .map(|(flow, (forward, opener))| Part {
            flow,
            sender: !forward,
            near: false,
            placement: settings.far_placement(flow),
            opener,
            go,
        })
        .collect()
}

/// Meters of the host's CPUs and devices over the windows.
#[derive(Default)]
struct FarWatch {
    from: Option<SystemStamp>,
    shares: Vec<SystemShares>,
    /// The exact meter, used in addition to the ticks. `None` if not requested.
    meter: Option<FarMeter>,
    exact: Option<FarCpu>,
    counts_devices: bool,
    devices_from: Option<DeviceCounts>,
    devices: Option<DeviceCounts>,
}

impl FarWatch {
    /// Counters of all devices except loopback, which does not carry another host's data.
    fn counts(&self) -> Option<DeviceCounts> {
        let counts = if self.counts_devices { DeviceCounts::read(false).ok()? } else { return None };
        Some(counts.and_interrupts(Path::new("/sys")))
    }
}

impl Watch for FarWatch {
    fn opened(&mut self) {
        self.devices_from = self.counts();
        self.meter.iter_mut().for_each(FarMeter::mark);
        self.from = SystemStamp::now().ok();
    }

    fn closed(&mut self) {
        if let (Some(from), Ok(to)) = (&self.from, SystemStamp::now()) {
            self.shares = from.until(&to);
        }
        self.exact = self.meter.as_mut().map(FarMeter::read);
        self.devices = self.devices_from.and_then(|from| Some(self.counts()?.since(&from)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without `--allow-congestion`, a client cannot make the agent's kernel load a module, or use a congestion control
    /// that the host does not permit all users.
    #[test]
    fn only_allowed_congestion_controls_are_asked_of_the_kernel() {
        let of = |also: &[&str]| Congestion::Also(also.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(of(&[]).check(None), Ok(()));
        assert_eq!(Congestion::Any.check(Some("nobody-has-it")), Ok(()));
        assert_eq!(of(&["nobody-has-it"]).check(Some("nobody-has-it")), Ok(()));
        for asked in [Congestion::OfTheHost, of(&["cubic2"])] {
            let told = asked.check(Some("nobody-has-it")).expect_err("refused");
            assert!(told.contains("--allow-congestion nobody-has-it") && told.contains("tcp_allowed"), "{told}");
        }
        let host = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap_or_default();
        for name in host.split_whitespace() {
            assert_eq!(Congestion::OfTheHost.check(Some(name)), Ok(()));
        }
    }
}
