//! The answering end.

mod serve;

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use netcliff_host::cpu::procfs::ProcfsMeter;
use netcliff_host::cpu::system::SystemStamp;
use netcliff_host::cpu::{CpuMeter, MeterSpec};
use netcliff_host::inventory::Inventory;
use serde_json::Value;

use super::report::ServerCount;
use super::settings::{Settings, Transport};
use crate::bulk::hardware::{Counters, Hardware};
use netcliff_packets::clock;
use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::{self as place, Placement};
use netcliff_remote::control::CPU_METER;
use netcliff_remote::control::RR_CPU_LISTS;
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::key::{Proven, Purpose, Token};
use netcliff_remote::far_meter::FarMeter;

/// Number of connections without proof that may wait, in addition to the expected ones. If there are more, a connection
/// of the source address that has the most of them is closed.
const MOST_PENDING: usize = 32;

/// A running answering end. Dropping it ends its threads.
#[derive(Debug)]
pub struct Server {
    ports: Vec<u16>,
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
    began_ns: u64,
    meter: Option<ProcfsMeter>,
    /// System counters at the last count.
    stamp: Option<SystemStamp>,
    /// The exact CPU meter, if requested.
    exact: Option<FarMeter>,
}

/// What the threads of a server share.
#[derive(Debug)]
struct Tally {
    settings: Settings,
    token: Token,
    placement: Placement,
    stop: Arc<AtomicBool>,
    responses: AtomicU64,
    refused: AtomicU64,
    /// Number of the next connection to admit, by flow: no proof is valid twice.
    next: Vec<AtomicU64>,
    threads: Mutex<Threads>,
}

/// CPU use of the threads: of each running thread, and the sum over threads that have ended.
#[derive(Debug, Default)]
struct Threads {
    running: Vec<Thread>,
    ended_ns: u64,
    ended: Hardware,
}

/// A serving thread.
#[derive(Debug)]
struct Thread {
    id: libc::pid_t,
    /// Hardware counters of the thread. `None` if the CPU has none.
    counters: Option<Counters>,
}

impl Thread {
    fn hardware(&self) -> Option<Hardware> {
        self.counters.as_ref()?.read().ok()
    }
}

impl Server {
    /// Starts to listen on an address, with the given placement, on ports chosen by the kernel.
    ///
    /// # Errors
    /// A setting is out of range, or the placement or the address cannot be used.
    pub fn listen(settings: &Settings, ip: IpAddr, token: Token, placement: &Placement) -> Result<Self, WireError> {
        settings.check()?;
        let tally = Arc::new(Tally::new(settings, token, placement));
        // A socket belongs to the network namespace of the thread that opens it.
        let bound = thread::scope(|scope| scope.spawn(|| bind(settings, ip, placement)).join());
        let bound = bound.map_err(|panic| WireError::died("server", &*panic))??;
        let mut server = Self::new(&tally);
        match bound {
            Bound::Listener(listener, port) => {
                server.ports.push(port);
                let listener = Arc::new(listener);
                // Connections for a single transaction are served by the thread that accepts them.
                let acceptors = if settings.connect_each { settings.flows } else { 1 };
                for number in 0..acceptors as usize {
                    let listener = Arc::clone(&listener);
                    server.spawn(number, move |tally| serve::accept(tally, &listener))?;
                }
            }
            Bound::Sockets(sockets) => {
                for (number, (socket, port)) in sockets.into_iter().enumerate() {
                    server.ports.push(port);
                    server.spawn(number, move |tally| serve::datagrams(tally, &socket, number))?;
                }
            }
        }
        Ok(server)
    }

    /// Serves one end of each pair of Unix sockets.
    ///
    /// # Errors
    /// A setting is out of range, or a thread cannot be started.
    pub fn over(settings: &Settings, ends: Vec<UnixStream>, placement: &Placement) -> Result<Self, WireError> {
        settings.check()?;
        let token = Token::new().map_err(|e| WireError::system("make a token", std::io::Error::other(e)))?;
        let mut server = Self::new(&Arc::new(Tally::new(settings, token, placement)));
        for (number, end) in ends.into_iter().enumerate() {
            server.spawn(number, move |tally| serve::stream(tally, end.into()))?;
        }
        Ok(server)
    }

    fn new(tally: &Arc<Tally>) -> Self {
        let cpus = Inventory::of_this_host().cpu.online.iter().map(|cpu| *cpu as usize).collect();
        let meter = ProcfsMeter::start(MeterSpec { cpus, watch: Vec::new() }).ok();
        Self {
            ports: Vec::new(),
            tally: Arc::clone(tally),
            threads: Vec::new(),
            began_ns: clock::monotonic_ns(),
            meter,
            stamp: SystemStamp::now().ok(),
            exact: None,
        }
    }

    /// Starts the thread with this number, on its CPU.
    fn spawn(&mut self, number: usize, work: impl FnOnce(&Arc<Tally>) + Send + 'static) -> Result<(), WireError> {
        let tally = Arc::clone(&self.tally);
        let (ready, placed) = std::sync::mpsc::channel();
        let placement = self.tally.place(number);
        let work = move || {
            let entered = placement.enter();
            let go = entered.is_ok();
            // The starting thread waits for this message.
            let _ = ready.send(entered);
            if go {
                tally.counted(|| work(&tally));
            }
        };
        let thread = thread::Builder::new().name("rr-server".into()).spawn(work);
        self.threads.push(thread.map_err(|e| WireError::system("start a server thread", e))?);
        placed.recv().unwrap_or_else(|_| Err(WireError::died("server", &"before it began")))
    }

    /// The ports: one for TCP, one for each flow for UDP.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Counts the totals since the start.
    pub fn count(&mut self) -> ServerCount {
        let host_busy_s = self.meter.as_mut().and_then(|meter| meter.read().ok()).map(|splits| {
            splits.iter().map(|split| split.elapsed_s * busy_share(split.shares.idle, split.shares.steal)).sum()
        });
        // The next interval starts where this one ends.
        let now = SystemStamp::now().ok();
        let ticks = self.stamp.as_ref().zip(now.as_ref()).map(|(from, to)| from.until(to));
        self.stamp = now;
        let cpu = self.exact.as_mut().map(|meter| {
            let found = meter.read();
            meter.mark();
            found
        });
        ServerCount {
            at_s: (clock::monotonic_ns() - self.began_ns) as f64 * 1e-9,
            responses: self.tally.responses.load(Ordering::Relaxed),
            threads_s: self.tally.cpu_s(),
            host_busy_s,
            ticks,
            cpu,
            hardware: self.tally.hardware(),
            refused: self.tally.refused.load(Ordering::Relaxed),
        }
    }
}

/// Share of the time that is neither idle nor taken by the hypervisor.
pub(super) fn busy_share(idle: Option<f64>, steal: Option<f64>) -> f64 {
    (1.0 - idle.unwrap_or(0.0) - steal.unwrap_or(0.0)).max(0.0)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked needs no further handling.
            let _ = thread.join();
        }
    }
}

impl Tally {
    fn new(settings: &Settings, token: Token, placement: &Placement) -> Self {
        Self {
            settings: settings.clone(),
            token,
            placement: placement.clone(),
            stop: Arc::default(),
            responses: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            next: (0..settings.flows).map(|_| AtomicU64::new(0)).collect(),
            threads: Mutex::default(),
        }
    }

    /// Placement of the thread of a flow.
    fn place(&self, flow: usize) -> Placement {
        let cpu = place::round_robin(self.placement.cpu, &self.settings.server_cpus, flow);
        Placement { cpu, ..self.placement.clone() }
    }

    /// The flow to which this proof admits a connection. `None` if the proof is not valid; it is counted as refused.
    fn lets_in(&self, shown: &[u8]) -> Option<usize> {
        let joins = |proven: Proven| {
            let flow = proven.flow as usize;
            let (next, after) = (self.next.get(flow)?, proven.number.checked_add(1)?);
            // If two acceptors see the same proof, only one of them admits it.
            (next.fetch_max(after, Ordering::AcqRel) < after).then_some(flow)
        };
        let flow = self.token.proven(Purpose::Join, shown).and_then(joins);
        self.refused.fetch_add(u64::from(flow.is_none()), Ordering::Relaxed);
        flow
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs `work` and counts the CPU time of its thread.
    fn counted(&self, work: impl FnOnce()) {
        let id = netcliff_host::system::thread_id();
        let counters = Counters::open().ok();
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).running.push(Thread { id, counters });
        work();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = threads.running.iter().position(|running| running.id == id) {
            let ended = threads.running.swap_remove(place);
            threads.ended = threads.ended.plus(ended.hardware().unwrap_or_default());
        }
        threads.ended_ns += clock::thread_cpu_ns(id).unwrap_or(0);
    }

    /// Hardware counters of all threads. `None` if a thread has no counters, or if no thread runs.
    fn hardware(&self) -> Option<Hardware> {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Option<Vec<Hardware>> = threads.running.iter().map(Thread::hardware).collect();
        let running = running.filter(|running| !running.is_empty())?;
        Some(running.into_iter().fold(threads.ended, Hardware::plus))
    }

    fn cpu_s(&self) -> f64 {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let running: u64 = threads.running.iter().filter_map(|thread| clock::thread_cpu_ns(thread.id)).sum();
        (threads.ended_ns + running) as f64 * 1e-9
    }
}

enum Bound {
    Listener(TcpListener, u16),
    Sockets(Vec<(UdpSocket, u16)>),
}

fn bind(settings: &Settings, ip: IpAddr, placement: &Placement) -> Result<Bound, WireError> {
    // Check the CPUs now: later, a flow that cannot be placed would just be missing.
    place::check_cpus(settings.server_cpus.iter().copied())?;
    // Enter the namespace only: CPU and priority apply to the threads that serve.
    Placement { netns: placement.netns.clone(), ..Placement::default() }.enter()?;
    let any = SocketAddr::new(ip, 0);
    let failed = |e| WireError::system(format!("listen on {ip}"), e);
    match settings.transport {
        Transport::Tcp => {
            let listener = TcpListener::bind(any).map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            Ok(Bound::Listener(listener, port))
        }
        Transport::Udp => {
            let bind = |_| {
                let socket = UdpSocket::bind(any).map_err(failed)?;
                let port = socket.local_addr().map_err(failed)?.port();
                Ok((socket, port))
            };
            Ok(Bound::Sockets((0..settings.flows).map(bind).collect::<Result<_, WireError>>()?))
        }
        Transport::Unix => Err(WireError::setting("transport", "unix", "tcp or udp between two hosts")),
    }
}

/// The request/response test of an agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct RrKind;

impl RrKind {
    /// Name of the kind on the control channel.
    pub const NAME: &'static str = "rr";
}

impl Kind for RrKind {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn features(&self) -> &'static [&'static str] {
        &[CPU_METER, RR_CPU_LISTS]
    }

    fn memory_bytes(&self, settings: &Value) -> u64 {
        let settings = serde_json::from_value::<Settings>(settings.clone()).ok();
        settings.filter(|settings| settings.check().is_ok()).map_or(0, |settings| serve::memory_bytes(&settings))
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        let settings: Settings = serde_json::from_value(settings.clone()).map_err(|e| format!("rr: {e}"))?;
        let any = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
        let placement = Placement { cpu: settings.server_cpu, ..Placement::default() };
        let server = Server::listen(&settings, context.local.unwrap_or(any), context.token, &placement);
        let mut server = server?;
        server.exact = settings.far_meter.then(FarMeter::start);
        Ok(Box::new(server))
    }

    fn summary(&self, report: &Value) -> Option<String> {
        let count: ServerCount = serde_json::from_value(report.clone()).ok()?;
        Some(format!("{} responses were sent", count.responses))
    }
}

impl FarEnd for Server {
    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn report(&mut self) -> Result<Value, String> {
        serde_json::to_value(self.count()).map_err(|e| e.to_string())
    }

    fn stop(mut self: Box<Self>) -> Value {
        serde_json::to_value(self.count()).unwrap_or_default()
    }
}
