//! Metering of a service on another host, by an agent there: [`MeterKind`] is the agent's end, [`FarMeter`] the run's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;

use netcliff_core::Fingerprint;
use netcliff_host::cpu::{CpuSplit, Method, PollTable, Preference};
use netcliff_host::inventory::Inventory;
use netcliff_host::serving::{self, NoProgram, Program};
use netcliff_packets::error::Refusal;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::far_meter::FAR_METER_BYTES;
use netcliff_remote::fingerprint::far_fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::FindError;
use crate::meter::{
    HostCounts, HostMeter, Meter, MeterOptions, processes, receive_buffer_bytes, smallest_buffer_bytes,
};
use crate::protocol::Transport;

/// Name of this kind of test on the control channel.
pub const SERVICE_METER: &str = "service-meter";

/// A client's request: which program is metered, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeterRequest {
    /// Address to which requests are sent.
    to: SocketAddr,
    /// True: by UDP; false: by TCP.
    is_udp: bool,
    /// The service's process; absent: the program with the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// CPUs of the service; empty: all but `without`.
    cpus: Vec<u32>,
    /// The requester's CPU, if the requester runs on the agent's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    without: Option<u32>,
    /// How CPU time is measured; absent: by the best method available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<Method>,
}

impl MeterRequest {
    /// The request for a service at this address.
    pub fn of(to: SocketAddr, transport: Transport, pid: Option<u32>, options: &MeterOptions) -> Self {
        let method = match options.cpu {
            Preference::Best => None,
            Preference::Only(method) => Some(method),
        };
        let MeterOptions { cpus, without, cpu: _ } = options.clone();
        Self { to, is_udp: transport == Transport::Udp, pid, cpus, without, method }
    }
}

/// The service, as the agent on the service's host reports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FarService {
    /// The service's programs, such as `nsd (pid 12)`.
    pub programs: Vec<String>,
    /// Number of the service's processes.
    pub processes: u32,
    /// Number of the threads of all these processes.
    pub threads: u32,
    /// Default receive buffer of a socket on the service's host (bytes).
    pub receive_buffer_bytes: u64,
    /// One sentence: how CPU time is measured, or why it is not.
    pub note: Option<String>,
}

/// Information that the run sends to the agent during the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Begin {
    /// A trial begins; `exact`: CPU time is measured.
    Trial { exact: bool },
}

/// Kind of test: an agent meters a service. It changes nothing, and reads only the counters of programs that listen for
/// requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeterKind;

impl Kind for MeterKind {
    fn name(&self) -> &'static str {
        SERVICE_METER
    }

    fn memory_bytes(&self, _settings: &Value) -> u64 {
        FAR_METER_BYTES
    }

    fn start(&self, settings: &Value, _context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let request: MeterRequest =
            serde_json::from_value(settings.clone()).map_err(|error| format!("{SERVICE_METER}: {error}"))?;
        let MeterRequest { to, is_udp, pid, cpus, without, method } = request;
        if method == Some(Method::Soaker) {
            return Err("--cpu-meter soaker: it would take the service's CPU; an agent meters by ebpf or procfs".into());
        }
        if !is_own(to) {
            let ip = to.ip();
            return Err(format!(
                "{ip} is no address of the agent's host: name the agent of the host that has it, or the service's address there"
            )
            .into());
        }
        let programs = match pid {
            Some(pid) => vec![named(pid, to)?],
            None => serving::of_address(to, is_udp).map_err(|why| explain(&why))?,
        };
        let online = Inventory::of_this_host().cpu.online;
        if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
            return Err(format!(
                "the agent's host has no CPU {cpu} that is online; --service-cpus names those of the service"
            )
            .into());
        }
        let watched = processes(&programs);
        let options = MeterOptions { cpus, without, cpu: method.map_or(Preference::Best, Preference::Only) };
        let (meter, note) = HostMeter::start(watched, true, &options);
        let (processes, threads) = meter.size();
        let receive_buffer_bytes =
            smallest_buffer_bytes(&meter.programs(), to.port()).map_or_else(receive_buffer_bytes, u64::from);
        let programs = programs.iter().map(Program::title).collect();
        let info = FarService { programs, processes, threads, receive_buffer_bytes, note };
        Ok(Box::new(Metering { meter, info }))
    }
}

/// True if packets to this address end at this host.
pub fn is_own(to: SocketAddr) -> bool {
    UdpSocket::bind((to.ip(), 0)).is_ok()
}

/// Looks up a process that the client names. The process must listen for requests, so that clients learn nothing about
/// other processes of the host.
fn named(pid: u32, to: SocketAddr) -> Result<Program, String> {
    let program =
        Program::of(pid).ok_or_else(|| format!("--pid {pid}: there is no such process on the agent's host"))?;
    let open = serving::open_of(pid).ok_or_else(|| {
        format!(
            "--pid {pid}: the agent's user may not look into that process: run the agent as root, with CAP_SYS_PTRACE"
        )
    })?;
    let end = format!(":{}", to.port());
    // In another network namespace, as in a container, the process may listen on another port.
    let port_is_known = serving::shares_network(pid);
    match &open[..] {
        [] => Err(format!("--pid {pid}: that process of the agent's host takes no requests: it has no open socket")),
        open if port_is_known && !open.iter().any(|name| name.ends_with(&end)) => {
            Err(format!("--pid {pid}: {} has {} open, not port {}", program.title(), open.join(", "), to.port()))
        }
        _ => Ok(program),
    }
}

/// Why the program is not found, as a message for the client's user.
fn explain(why: &NoProgram) -> String {
    match why {
        NoProgram::NothingOpen { at, elsewhere } => {
            let elsewhere = match &elsewhere[..] {
                [] => String::new(),
                names => format!(" (that port is open at {})", names.join(", ")),
            };
            format!(
                "no program of the agent's host listens at {at}{elsewhere}; in a container, --pid names its process"
            )
        }
        NoProgram::NotVisible(names) => format!(
            "{} is open on the agent's host, but the agent's user may not see which process has it: run the agent as root, with CAP_SYS_PTRACE",
            names.join(", ")
        ),
    }
}

/// A running meter.
struct Metering {
    meter: HostMeter,
    info: FarService,
}

impl FarEnd for Metering {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn info(&self) -> Value {
        serde_json::to_value(&self.info).unwrap_or_default()
    }

    fn report(&mut self) -> Result<Value, String> {
        let counts = self.meter.read().map_err(|error| match error {
            FindError::Changed(why) => why,
            other => other.to_string(),
        })?;
        // Leaves out the parts that would make the message long.
        let short =
            |split: CpuSplit| CpuSplit { polls: split.polls.map(PollTable::by_kind), notes: Vec::new(), ..split };
        let counts = HostCounts { cpus: counts.cpus.into_iter().map(short).collect(), ..counts };
        serde_json::to_value(counts).map_err(|error| error.to_string())
    }

    fn tell(&mut self, said: Value) -> Result<(), String> {
        let Begin::Trial { exact } =
            serde_json::from_value(said).map_err(|error| format!("{SERVICE_METER}: {error}"))?;
        self.meter.mark(exact).map_err(|error| error.to_string())
    }

    fn stop(self: Box<Self>) -> Value {
        Value::Null
    }
}

/// The meter of a service's host, by the agent there.
#[derive(Debug)]
pub struct FarMeter<'a> {
    session: &'a mut Session,
    /// Description of the service by the agent's host.
    pub service: FarService,
    /// Facts of the service's host; the error says in one sentence why they are not known.
    pub facts: Result<Fingerprint, String>,
}

impl<'a> FarMeter<'a> {
    /// Starts metering at the agent's host.
    ///
    /// # Errors
    /// The agent is too old to meter a service, or refuses: it finds no such program, or has no permission to read its
    /// counters.
    pub fn start(session: &'a mut Session, request: &MeterRequest) -> Result<Self, FindError> {
        if !session.hello.can.iter().any(|can| can == SERVICE_METER) {
            return Err(FindError::Agent(session.lacks("metering of a service")));
        }
        let facts = far_fingerprint(session, request.to.ip());
        let ready = session.start(SERVICE_METER, request).map_err(|error| FindError::Agent(error.to_string()))?;
        let service = serde_json::from_value(ready.info).map_err(|error| FindError::Agent(error.to_string()))?;
        Ok(Self { session, service, facts })
    }
}

impl Drop for FarMeter<'_> {
    fn drop(&mut self) {
        // An agent that is gone has ended the meter already.
        if !self.session.gone().load(Ordering::Relaxed) {
            let _ = self.session.stop();
        }
    }
}

impl Meter for FarMeter<'_> {
    fn mark(&mut self, exact: bool) -> Result<(), FindError> {
        self.session.tell(&Begin::Trial { exact }).map_err(FindError::lost)?;
        // The agent answers after it has set the mark.
        self.session.report().map(drop).map_err(FindError::lost)
    }

    fn read(&mut self) -> Result<HostCounts, FindError> {
        let counts = self.session.report().map_err(FindError::lost)?;
        serde_json::from_value(counts).map_err(|error| FindError::Agent(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread::{self, JoinHandle};

    use netcliff_remote::control::Limits;
    use netcliff_remote::control::agent::{Agent, Settings};
    use netcliff_remote::fingerprint::FingerprintService;

    /// An agent in this process, and the flag that ends it.
    struct Here {
        address: String,
        stop: Arc<AtomicBool>,
        agent: Option<JoinHandle<()>>,
    }

    impl Here {
        fn with(kinds: Vec<Arc<dyn Kind>>) -> Self {
            let stop = Arc::<AtomicBool>::default();
            let settings = Settings {
                key: None,
                limits: Limits::default(),
                kinds,
                services: vec![Arc::new(FingerprintService)],
                version: "0.0.1".into(),
                stop: Arc::clone(&stop),
            };
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let agent = Agent::bind(&[at], settings, Arc::new(|_: &_| ())).expect("loopback");
            let address = agent.addresses().expect("it listens")[0].to_string();
            let agent = thread::spawn(move || agent.run().expect("it ends cleanly"));
            Self { address, stop, agent: Some(agent) }
        }

        fn session(&self) -> Session {
            Session::connect(&self.address, None, "0", Limits::default()).expect("an agent")
        }

        fn end(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            self.agent.take().into_iter().for_each(|agent| agent.join().expect("no panic"));
        }
    }

    impl Drop for Here {
        fn drop(&mut self) {
            self.end();
        }
    }

    fn by_ticks() -> MeterOptions {
        MeterOptions { cpu: Preference::Only(Method::Procfs), ..MeterOptions::default() }
    }

    #[test]
    fn an_agent_meters_the_program_of_the_socket_until_it_goes() {
        let mut here = Here::with(vec![Arc::new(MeterKind)]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let mut session = here.session();
        let request = MeterRequest::of(to, Transport::Udp, None, &by_ticks());
        let mut far = FarMeter::start(&mut session, &request).unwrap();
        let own = format!("(pid {})", std::process::id());
        assert!(far.service.programs.iter().any(|name| name.ends_with(&own)), "{:?}", far.service);
        assert!(far.service.threads > 1 && far.service.receive_buffer_bytes > 1000, "{:?}", far.service);
        assert!(far.service.note.as_ref().is_some_and(|note| note.contains("procfs")));
        assert!(far.facts.as_ref().is_ok_and(|facts| facts.facts.contains_key("kernel.release")));
        for exact in [true, false] {
            far.mark(exact).unwrap();
            thread::sleep(std::time::Duration::from_millis(30));
            let counts = far.read().unwrap();
            assert!(counts.elapsed_s >= 0.03 && counts.cpus.is_empty() != exact, "{counts:?}");
            assert!(counts.busiest.is_some());
        }
        here.end();
        let lost = far.mark(true).and_then(|()| far.read()).unwrap_err().to_string();
        assert!(lost.contains("no longer metered") && lost.contains("the run ends here"), "{lost}");
    }

    #[test]
    fn what_an_agent_does_not_meter_is_a_sentence() {
        let mut here = Here::with(vec![Arc::new(MeterKind)]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let port = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let soaker = MeterOptions { cpu: Preference::Only(Method::Soaker), ..by_ticks() };
        let no_cpu = MeterOptions { cpus: vec![100_000], ..by_ticks() };
        for (request, says) in [
            (
                MeterRequest::of(to, Transport::Tcp, None, &by_ticks()),
                ["no program of the agent's host", "open at udp"],
            ),
            (
                MeterRequest::of("192.0.2.77:53".parse().unwrap(), Transport::Udp, None, &by_ticks()),
                ["192.0.2.77", "no address"],
            ),
            (MeterRequest::of(to, Transport::Udp, Some(u32::MAX), &by_ticks()), ["no such process", "--pid"]),
            (MeterRequest::of(to, Transport::Udp, Some(child.id()), &by_ticks()), ["takes no requests", "--pid"]),
            (
                MeterRequest::of(port(1), Transport::Udp, Some(std::process::id()), &by_ticks()),
                ["not port 1", "udp 127.0.0.1"],
            ),
            (MeterRequest::of(to, Transport::Udp, None, &soaker), ["--cpu-meter soaker", "ebpf"]),
            (MeterRequest::of(to, Transport::Udp, None, &no_cpu), ["CPU 100000", "online"]),
        ] {
            let error = FarMeter::start(&mut here.session(), &request).map(drop).unwrap_err().to_string();
            assert!(says.iter().all(|part| error.contains(part)), "{error}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // An agent of a version before this kind of test.
        here.end();
        let older = Here::with(Vec::new());
        let request = MeterRequest::of(to, Transport::Udp, None, &by_ticks());
        let error = FarMeter::start(&mut older.session(), &request).map(drop).unwrap_err().to_string();
        assert!(error.contains("0.0.1") && error.contains("install the same version"), "{error}");
    }

    /// A request with unknown fields comes from a newer version; this agent would answer it wrongly.
    #[test]
    fn an_unknown_question_is_refused() {
        let request = MeterRequest::of("127.0.0.1:53".parse().unwrap(), Transport::Udp, None, &by_ticks());
        let mut value = serde_json::to_value(&request).unwrap();
        assert_eq!(serde_json::from_value::<MeterRequest>(value.clone()).unwrap(), request);
        value["file"] = "/etc/shadow".into();
        assert!(serde_json::from_value::<MeterRequest>(value).unwrap_err().to_string().contains("unknown field"));
    }
}
