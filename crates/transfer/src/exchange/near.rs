//! The requesting end: one thread per flow, one window for all flows, and the results.

mod summary;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use netcliff_host::cpu::system::{SystemShares, SystemStamp};
use netcliff_host::cpu::{CpuMeter, CpuSplit};

use super::flow::{Counts, Flow, Window};
use super::live::{Cell, IntervalReader, Intervals};
use super::rendezvous::{LEAD_NS, Rendezvous};
use super::report::{Report, ServerCount};
use super::settings::{Settings, Transport};
use super::socket::Socket;
use super::{closed, connect, open};
use crate::bulk::wait_until;
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::schedule::Schedule;
use netcliff_packets::thread::{self as place, Placement};
use netcliff_remote::control::key::Token;

/// Reported by an end that waited for another end which gave up.
pub const OTHER_GAVE_UP: &str = "another end that was to begin with it gave up";
/// Interval between checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a flow reaches its far end.
#[derive(Debug)]
pub enum Target {
    /// By TCP or UDP to an address. The token admits the flow.
    Address(SocketAddr),
    /// By one end of a pair of Unix sockets.
    Pair(UnixStream),
}

/// Reads the far end's totals when the window opens and when it closes. `None` if the far end is gone.
pub type Far<'a> = dyn FnMut() -> Option<ServerCount> + 'a;

/// The environment of a run, in addition to its settings.
#[derive(Debug)]
pub struct Near<'a> {
    /// A target for each flow.
    pub targets: Vec<Target>,
    /// The token that flows have to prove to the far end.
    pub token: Token,
    /// Placement of the flows' threads. Its CPU applies if the settings have no list of CPUs.
    pub placement: Placement,
    /// Description of the path between the two ends.
    pub path: String,
    /// Whether the far end reads the same monotonic clock.
    pub same_clock: bool,
    /// Whether the far end is on this host, so that its CPU time is measured here.
    pub same_host: bool,
    /// Flag that ends the test early; the results so far are reported.
    pub stop: &'a AtomicBool,
    /// Flag that is set when the far end is gone.
    pub gone: Option<Arc<AtomicBool>>,
    /// Receives the interim reports. `None` if none were requested.
    pub intervals: Option<Intervals<'a>>,
    /// Other requesting ends that start at the same time.
    pub others: Option<&'a Rendezvous>,
}

/// All measured values, before they are summarised.
struct Measured {
    window: Window,
    closed_ns: u64,
    flows: Vec<Counts>,
    far: (Option<ServerCount>, Option<ServerCount>),
    splits: Vec<CpuSplit>,
    /// CPU use of the host by the kernel's ticks.
    ticks: Vec<SystemShares>,
    stopped: Option<&'static str>,
}

/// Runs the requesting end through warm-up and window.
///
/// # Errors
/// A setting is out of range, or a flow cannot be placed or connected. A later failure makes the report partial.
pub fn run(
    settings: &Settings,
    mut near: Near<'_>,
    far: &mut Far<'_>,
    meter: Option<&mut dyn CpuMeter>,
) -> Result<Report, WireError> {
    settings.check()?;
    let quit = Arc::<AtomicBool>::default();
    let targets = std::mem::take(&mut near.targets);
    let (connected, ready) = mpsc::channel();
    let wanted = if near.intervals.is_some() { targets.len() } else { 0 };
    let cells: Vec<Cell> = std::iter::repeat_with(Cell::default).take(wanted).collect();
    let measured = thread::scope(|scope| -> Result<Measured, WireError> {
        let mut threads = Vec::new();
        for (number, target) in targets.into_iter().enumerate() {
            let (go, start) = mpsc::channel();
            let (connected, quit, near, cell) = (connected.clone(), Arc::clone(&quit), &near, cells.get(number));
            let work = move || {
                let prepared = prepare(settings, number, target, near, &quit);
                let failed = prepared.is_err();
                let (socket, outcome) = prepared.map_or_else(|e| (None, Err(e)), |socket| (Some(socket), Ok(())));
                // The run waits for this message.
                let _ = connected.send(outcome);
                let (Some(socket), Ok(window), false) = (socket, start.recv(), failed) else {
                    return Counts::default();
                };
                let mut at_work = Flow::new(settings, window, cell);
                if near.others.is_some() {
                    wait_until(window.begins_ns);
                }
                at_work.counts.began_ns = Some(clock::monotonic_ns());
                flow(at_work, number as u32, socket, near, &quit)
            };
            let thread = thread::Builder::new().name("rr-client".into()).spawn_scoped(scope, work);
            threads.push((thread.map_err(|e| WireError::system("start a client thread", e))?, go));
        }
        drop(connected);
        // Report the first failure. The other threads end when their start channel is dropped.
        ready.iter().take(threads.len()).collect::<Result<(), _>>()?;
        let begins_ns = match near.others {
            None => clock::monotonic_ns() + LEAD_NS,
            Some(others) => others.arrive().ok_or_else(|| WireError::Far(OTHER_GAVE_UP.into()))?,
        };
        let opens_ns = begins_ns + clock::ns_from_s(settings.warm_up_s).unwrap_or(0);
        let closes_ns = opens_ns + clock::ns_from_s(settings.time_s).unwrap_or(0);
        let window = Window { begins_ns, opens_ns, closes_ns };
        for (_, go) in &threads {
            // A thread that has died is noticed below.
            let _ = go.send(window);
        }
        let reader = near.intervals.map(|wanted| IntervalReader::new(wanted, &cells, window.opens_ns));
        let watch = watch((window, reader), &near, &quit, far, meter, || {
            threads.iter().all(|(thread, _)| thread.is_finished())
        });
        let flows: Result<Vec<Counts>, _> = threads
            .into_iter()
            .map(|(thread, _)| thread.join().map_err(|panic| WireError::died("client", &*panic)))
            .collect();
        Ok(Measured { flows: flows?, ..watch })
    })?;
    Ok(summary::report(settings, &near, measured))
}

/// Opens a flow's socket. `None` if each transaction opens its own.
fn prepare(
    settings: &Settings,
    number: usize,
    target: Target,
    near: &Near<'_>,
    quit: &Arc<AtomicBool>,
) -> Result<Prepared, WireError> {
    let cpu = place::round_robin(near.placement.cpu, &settings.client_cpus, number);
    Placement { cpu, ..near.placement.clone() }.enter()?;
    let fd: OwnedFd = match target {
        Target::Address(address) if settings.connect_each => return Ok(Prepared::Address(address)),
        Target::Address(address) if settings.transport == Transport::Udp => {
            connect::udp(address, &near.token, number as u32)?
        }
        Target::Address(address) => connect::tcp(address, &connect::greeting(&near.token, number as u32, 0))?,
        Target::Pair(end) => end.into(),
    };
    Ok(Prepared::Socket(Socket::new(fd, settings.receive, quit)?))
}

enum Prepared {
    Socket(Socket),
    Address(SocketAddr),
}

fn flow(mut flow: Flow<'_>, number: u32, prepared: Prepared, near: &Near<'_>, quit: &AtomicBool) -> Counts {
    let settings = flow.settings;
    let ended = match (prepared, settings.rate_per_s) {
        (Prepared::Address(address), _) => {
            closed::connections(&mut flow, (address, number), &near.token, &|| quit.load(Ordering::Relaxed))
        }
        (Prepared::Socket(socket), Some(rate)) => {
            let rate = rate / f64::from(settings.flows);
            match Schedule::new(settings.arrivals, rate, settings.seed, number) {
                Ok(mut schedule) => open::run(&mut flow, &socket, &mut schedule),
                Err(e) => Some(e.to_string()),
            }
        }
        (Prepared::Socket(socket), None) if settings.transport == Transport::Udp => {
            closed::datagrams(&mut flow, &socket)
        }
        (Prepared::Socket(socket), None) => closed::stream(&mut flow, &socket),
    };
    flow.finish(ended)
}

/// Reads the meters when the window opens and when it closes. Ends the test early if necessary.
fn watch(
    (window, mut intervals): (Window, Option<IntervalReader<'_>>),
    near: &Near<'_>,
    quit: &AtomicBool,
    far: &mut Far<'_>,
    mut meter: Option<&mut dyn CpuMeter>,
    all_ended: impl Fn() -> bool,
) -> Measured {
    let why = |near: &Near<'_>| {
        if near.stop.load(Ordering::Relaxed) {
            Some("it was stopped")
        } else if near.gone.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed)) {
            Some("the far end is gone")
        } else if all_ended() {
            // Each flow reports its reason.
            Some("all flows ended")
        } else {
            None
        }
    };
    let mut until = |at_ns: u64| loop {
        let now_ns = clock::monotonic_ns();
        if let Some(intervals) = &mut intervals {
            intervals.look(now_ns);
        }
        if now_ns >= at_ns {
            return None;
        }
        if let Some(why) = why(near) {
            return Some(why);
        }
        let wake_ns = intervals.as_ref().map_or(at_ns, |intervals| intervals.due_ns().min(at_ns));
        thread::sleep(POLL_INTERVAL.min(Duration::from_nanos(wake_ns.saturating_sub(now_ns))));
    };
    let mut stopped = until(window.opens_ns);
    let mut totals = (None, None);
    let (mut splits, mut ticks) = (Vec::new(), Vec::new());
    if stopped.is_none() {
        // If a meter fails, its values are omitted.
        let marked = meter.as_mut().is_some_and(|meter| meter.mark().is_ok());
        let from = SystemStamp::now().ok();
        totals.0 = far();
        stopped = until(window.closes_ns);
        if let (Some(from), Ok(to)) = (from, SystemStamp::now()) {
            ticks = from.until(&to);
        }
        if let Some(meter) = meter.filter(|_| marked) {
            splits = meter.read().unwrap_or_default();
        }
        totals.1 = far();
    }
    let closed_ns = clock::monotonic_ns().min(window.closes_ns);
    if let Some(intervals) = intervals.filter(|_| closed_ns > window.opens_ns) {
        intervals.rest(closed_ns);
    }
    if stopped.is_some() {
        quit.store(true, Ordering::Relaxed);
    }
    Measured { window, closed_ns, flows: Vec::new(), far: totals, splits, ticks, stopped }
}
