//! Latency under load: requests during each transfer, and their results.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bulk::{Channel, Direction, Settings};
use crate::exchange::probe::{self, MOST_PROBES, Observed, Observer, PROBE_EVERY_S, Prober, Queue, RoundTrip};
use crate::exchange::{RrKind, Server, Transport};
use netcliff_core::stream::{ProbePhase, ProbePoint, ProbeQueue, ProbeRow, quantile};
use netcliff_core::units;
use netcliff_host::nic::queues::SharedQueue;
use netcliff_packets::WireError;
use netcliff_packets::clock;
use netcliff_packets::thread::Placement;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::Token;

use super::{Far, Repeat, StreamOptions};

/// Number of points of the latency over time.
const POINTS: usize = 60;
/// Longest time of requests before and after a transfer (s).
const LONGEST_AROUND_S: f64 = 3600.0;
/// Smallest growth of a queue's mean length for which the queue is named (bytes, or packets): a full frame, or half a
/// packet.
const GREW_BYTES: f64 = 1514.0;
const GREW_PACKETS: f64 = 0.5;
/// A rise of the median is reported if it exceeds both this ratio to idle and this time (s). The time is larger than
/// differences by the clock and a wake-up.
const ROSE: f64 = 1.1;
const ROSE_S: f64 = 10e-6;
/// Interval at which a wait checks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Settings of the requests during each transfer.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// UDP or TCP.
    pub transport: Transport,
    /// Interval between two requests (s).
    pub every_s: f64,
    /// Time of requests before and after a transfer (s).
    pub around_s: f64,
    /// A second session with the agent. `None` if the far end is in this process.
    pub far: Option<Arc<Mutex<Session>>>,
}

impl ProbeOptions {
    /// Refuses requests that are not possible during a transfer with a window of `time_s` (s).
    ///
    /// # Errors
    /// A setting is out of its range, with the accepted form.
    pub(super) fn check(&self, settings: &Settings, time_s: f64) -> Result<(), WireError> {
        if matches!(settings.channel, Channel::Unix | Channel::Pipe) {
            return Err(refused("probe", "set", "a channel with a network: tcp, mptcp or udp"));
        }
        if !PROBE_EVERY_S.contains(&self.every_s) {
            return Err(refused("probe-every", units::print_time_s(self.every_s), "1ms to 1s"));
        }
        if !(0.01..=LONGEST_AROUND_S).contains(&self.around_s) {
            return Err(refused("probe-around", units::print_time_s(self.around_s), "10ms to 3600s"));
        }
        let requests = (time_s + settings.warm_up_s + 2.0 * self.around_s) / self.every_s;
        if requests > MOST_PROBES {
            let every = units::print_time_s(self.every_s);
            let accepted = format!("at most {MOST_PROBES} requests a repeat, these are {requests:.0}: ask less often");
            return Err(refused("probe-every", every, accepted));
        }
        Ok(())
    }
}

/// The results of the requests around one transfer.
#[derive(Debug, Clone, Default)]
pub(super) struct Probed {
    trips: Vec<RoundTrip>,
    looks: Vec<Observed>,
    failed: Option<String>,
    /// Times (ns) at which the transfer started, and its windows opened and closed.
    begun_ns: u64,
    opened_ns: Option<u64>,
    closed_ns: Option<u64>,
    same_clock: bool,
}

/// A running probe.
pub(super) struct Probing {
    prober: Prober,
    observer: Observer,
    /// The answering end, if it is in this process.
    _server: Option<Server>,
    session: Option<Arc<Mutex<Session>>>,
    seen: Probed,
}

impl Probing {
    /// Starts the requests for a transfer that is about to start.
    pub(super) fn start(requested: &ProbeOptions, settings: &Settings, far: &Far<'_>) -> Result<Self, WireError> {
        let (near, there) = ends(settings);
        let (address, of_rr) = (address(settings, far), probe::settings(requested.transport));
        let every = Duration::from_secs_f64(requested.every_s);
        let (port, token, server, session) = match (far, &requested.far) {
            (Far::Here, _) => {
                let token = Token::new()?;
                let server = Server::listen(&of_rr, address, token, &there)?;
                (server.ports().first().copied(), token, Some(server), None)
            }
            (Far::Agent { .. }, Some(session)) => {
                let ready = held(session).start(RrKind::NAME, &of_rr)?;
                (ready.ports.first().copied(), ready.token, None, Some(Arc::clone(session)))
            }
            (Far::Agents(_), _) => return Err(WireError::Far("requests go to one far end: give one agent".into())),
            (Far::Agent { .. }, None) => return Err(WireError::Far("it has no second session for requests".into())),
        };
        let port = port.ok_or_else(|| WireError::Far("it listens on no port for requests".into()))?;
        let begun = Prober::start(requested.transport, every, (SocketAddr::new(address, port), token), near.clone());
        let same_clock = session.as_ref().is_none_or(|session| held(session).shares_clock());
        let begun = begun.and_then(|prober| Ok((prober, Observer::start(near)?)));
        if let (Err(_), Some(session)) = (&begun, &session) {
            // The error of the start is more important.
            let _ = held(session).stop();
        }
        let (prober, observer) = begun?;
        let seen = Probed { same_clock, ..Probed::default() };
        Ok(Self { prober, observer, _server: server, session, seen })
    }

    pub(super) fn begins(&mut self) {
        self.seen.begun_ns = clock::monotonic_ns();
    }

    pub(super) fn sockets(&self, sockets: Vec<(bool, OwnedFd)>) {
        self.observer.watch(sockets);
    }

    pub(super) fn opened(&mut self) {
        self.seen.opened_ns = Some(clock::monotonic_ns());
        self.observer.look();
    }

    pub(super) fn closed(&mut self) {
        self.seen.closed_ns = Some(clock::monotonic_ns());
        self.observer.release();
        self.observer.look();
    }

    /// Ends the requests.
    pub(super) fn end(self) -> Probed {
        let found = self.prober.end();
        let looks = self.observer.end();
        if let Some(session) = &self.session {
            // Ignore an error: `failed` reports that an agent is gone.
            let _ = held(session).stop();
        }
        Probed { trips: found.trips, failed: found.failed, looks, ..self.seen }
    }
}

fn held(session: &Mutex<Session>) -> std::sync::MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Placements of the requesting and the answering end: the namespaces of the transfer's ends, on any CPU. The answering
/// end is the end with the channel's address; for datagrams, the end that receives.
fn ends(settings: &Settings) -> (Placement, Placement) {
    let of = |place: &Placement| Placement { netns: place.netns.clone(), ..Placement::default() };
    let (near, far) = (of(&settings.near), of(&settings.far));
    let datagrams = matches!(settings.channel, Channel::Udp { .. });
    if datagrams && settings.direction == Direction::Receive && settings.near_address.is_none() {
        return (far, near);
    }
    (near, far)
}

fn address(settings: &Settings, far: &Far<'_>) -> IpAddr {
    match (far, &settings.channel) {
        (Far::Agent { address, .. }, _) => *address,
        (Far::Here, Channel::Tcp { address, .. } | Channel::Udp { address, .. }) => *address,
        (Far::Here, Channel::Unix | Channel::Pipe) | (Far::Agents(_), _) => [127, 0, 0, 1].into(),
    }
}

fn refused(what: &'static str, value: impl std::fmt::Display, accepted: impl Into<String>) -> WireError {
    WireError::Setting { what, value: value.to_string(), accepted: accepted.into() }
}

/// Waits for `time_s` (s), or until `stop` is set.
pub(super) fn rest(time_s: f64, stop: &AtomicBool) {
    let until = Instant::now() + Duration::from_secs_f64(time_s);
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// A phase of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Loaded,
    Recovering,
}

impl Probed {
    /// The phase that a time (ns) belongs to. `None` while the transfer connects and during its warm-up.
    fn phase(&self, ns: u64) -> Option<Phase> {
        match (self.opened_ns, self.closed_ns) {
            _ if ns < self.begun_ns => Some(Phase::Idle),
            (_, Some(closed_ns)) if ns >= closed_ns => Some(Phase::Recovering),
            (Some(opened_ns), _) if ns >= opened_ns => Some(Phase::Loaded),
            _ => None,
        }
    }
}

/// The results of a configuration. `None` if no request was made.
pub(super) fn row(options: &StreamOptions, repeats: &[Repeat], goodput_bps: Option<f64>) -> Option<ProbeRow> {
    let requested = options.probe.as_ref()?;
    let all: Vec<&Probed> = repeats.iter().filter_map(|repeat| repeat.probe.as_ref()).collect();
    if all.is_empty() {
        return None;
    }
    let [idle, loaded, recovering] = [Phase::Idle, Phase::Loaded, Phase::Recovering].map(|phase| of_phase(&all, phase));
    let difference = |pick: fn(&ProbePhase) -> Option<f64>| Some(pick(&loaded)? - pick(&idle)?);
    let queues = queues(&all);
    let (added_p50_s, added_p99_s) = (difference(|phase| phase.p50_s), difference(|phase| phase.p99_s));
    Some(ProbeRow {
        transport: if requested.transport == Transport::Udp { "udp" } else { "tcp" }.to_owned(),
        every_s: requested.every_s,
        around_s: requested.around_s,
        added_p50_s,
        added_p99_s,
        added_forth_s: added_one_way(&all, |trip| trip.arrived_ns.checked_sub(trip.sent_ns)),
        added_back_s: added_one_way(&all, |trip| trip.answered_ns?.checked_sub(trip.arrived_ns)),
        grew: grew(&idle, &loaded, &queues, goodput_bps),
        queues,
        over_time: over_time(&all),
        failed: all.iter().find_map(|probed| probed.failed.clone()),
        idle,
        loaded,
        recovering,
    })
}

fn of_phase(all: &[&Probed], phase: Phase) -> ProbePhase {
    let trips =
        all.iter().flat_map(|probed| probed.trips.iter().filter(move |trip| probed.phase(trip.sent_ns) == Some(phase)));
    let trips: Vec<&RoundTrip> = trips.collect();
    let took_s = trips.iter().filter_map(|trip| Some(trip.took_ns()? as f64 * 1e-9)).collect();
    let late_s: Vec<f64> = trips.iter().map(|trip| trip.sent_ns.saturating_sub(trip.due_ns) as f64 * 1e-9).collect();
    ProbePhase::of(trips.len() as u64, took_s, &late_s)
}

/// Median of a one-way delay under load minus its median when idle (s). `None` if the ends have different clocks.
fn added_one_way(all: &[&Probed], delay: fn(&RoundTrip) -> Option<u64>) -> Option<f64> {
    if !all.iter().all(|probed| probed.same_clock) {
        return None;
    }
    let median = |phase: Phase| {
        let of = |probed: &&Probed| -> Vec<f64> {
            let trips = probed.trips.iter().filter(|trip| trip.answered_ns.is_some());
            let trips = trips.filter(|trip| probed.phase(trip.sent_ns) == Some(phase));
            trips.filter_map(|trip| Some(delay(trip)? as f64 * 1e-9)).collect()
        };
        let mut delays_s: Vec<f64> = all.iter().flat_map(of).collect();
        delays_s.sort_by(f64::total_cmp);
        quantile(&delays_s, 0.5)
    };
    Some(median(Phase::Loaded)? - median(Phase::Idle)?)
}

/// Sum, number and maximum of a queue's lengths, by phase.
type Lengths = [(f64, f64, f64); 3];

fn queues(all: &[&Probed]) -> Vec<ProbeQueue> {
    let mut found: BTreeMap<&Queue, Lengths> = BTreeMap::new();
    for (probed, look) in all.iter().flat_map(|probed| probed.looks.iter().map(move |look| (probed, look))) {
        let Some(phase) = probed.phase(look.at_ns) else { continue };
        for (queue, waits) in &look.queues {
            let (sum, count, most) = &mut found.entry(queue).or_default()[phase as usize];
            (*sum, *count, *most) = (*sum + *waits as f64, *count + 1.0, most.max(*waits as f64));
        }
    }
    let of = |(queue, lengths): (&Queue, Lengths)| {
        let [idle, loaded, recovering] = lengths.map(|(sum, count, _)| if count > 0.0 { sum / count } else { 0.0 });
        let (name, unit, shared) = named(queue);
        ProbeQueue { name, unit: unit.to_owned(), shared, idle, loaded, recovering, max: lengths[1].2 }
    };
    // Omit a queue in which nothing ever waited.
    found.into_iter().map(of).filter(|queue| queue.idle + queue.loaded + queue.recovering > 0.0).collect()
}

fn named(queue: &Queue) -> (String, &'static str, bool) {
    match queue {
        Queue::SendBuffers => ("send buffers of the transfer".to_owned(), "bytes", false),
        Queue::ReceiveBuffers => ("receive buffers of the transfer".to_owned(), "bytes", false),
        Queue::Shared(SharedQueue::Qdisc { device, kind }) => (format!("qdisc {kind} of {device}"), "bytes", true),
        Queue::Shared(SharedQueue::Device(device)) => (format!("transmit rings of {device}"), "bytes", true),
        Queue::Shared(SharedQueue::Backlog(cpu)) => (format!("softnet backlog of CPU {cpu}"), "packets", true),
    }
}

/// Names the queue that explains slower requests. Of the shared queues that grew, it is the longest one; queues counted
/// in bytes come before those counted in packets. If none grew and requests left late, it is the run queue of the CPUs.
/// The transfer's own buffers delay only its own data, so they are mentioned in addition.
fn grew(idle: &ProbePhase, loaded: &ProbePhase, queues: &[ProbeQueue], goodput_bps: Option<f64>) -> String {
    let (Some(before_s), Some(during_s)) = (idle.p50_s, loaded.p50_s) else {
        return "not known: no request was answered in one of the phases".to_owned();
    };
    let own = queues.iter().filter(|queue| !queue.shared && queue.loaded - queue.idle > GREW_BYTES);
    let own = own.max_by(|a, b| a.loaded.total_cmp(&b.loaded)).map_or(String::new(), |queue| {
        let delay = goodput_bps.map_or(String::new(), |bps| {
            format!(", which holds its own data up by {}", units::print_time_s(rounded(queue.loaded * 8.0 / bps)))
        });
        format!("; {} grew to {}{delay}", queue.name, bytes(queue.loaded))
    });
    let late_s = loaded.late_mean_s.unwrap_or(0.0) - idle.late_mean_s.unwrap_or(0.0);
    if during_s < before_s * ROSE || during_s < before_s + ROSE_S {
        return format!("none that requests wait in: their median did not rise{own}");
    }
    let least = |queue: &ProbeQueue| if queue.unit == "bytes" { GREW_BYTES } else { GREW_PACKETS };
    let shared = queues.iter().filter(|queue| queue.shared && queue.loaded - queue.idle > least(queue));
    let most = shared.max_by(|a, b| {
        (a.unit == "bytes", a.loaded).partial_cmp(&(b.unit == "bytes", b.loaded)).unwrap_or(std::cmp::Ordering::Equal)
    });
    match most {
        Some(queue) if queue.unit == "bytes" => {
            let delay = goodput_bps.map_or(String::new(), |bps| {
                format!(", {} at this goodput", units::print_time_s(rounded(queue.loaded * 8.0 / bps)))
            });
            format!("{} ({} on average{delay}){own}", queue.name, bytes(queue.loaded))
        }
        Some(queue) => format!("{} ({:.1} packets on average){own}", queue.name, queue.loaded),
        None if late_s > ROSE_S => {
            let late = units::print_time_s(rounded(late_s));
            format!("the run queue of the CPUs: requests left {late} later than without the transfer{own}")
        }
        None => {
            format!("none that is seen from here: the far host, the way between, or threads that waited for a CPU{own}")
        }
    }
}

/// Formats bytes in kB or MB, with three digits.
fn bytes(bytes: f64) -> String {
    let (scale, unit) = if bytes >= 1e6 { (1e6, "MB") } else { (1e3, "kB") };
    let scaled = bytes / scale;
    let digits = usize::from(scaled < 100.0) + usize::from(scaled < 10.0);
    format!("{scaled:.digits$} {unit}")
}

/// Rounds a time to two digits (s).
fn rounded(time_s: f64) -> f64 {
    if time_s <= 0.0 {
        return 0.0;
    }
    let scale = 10f64.powf(time_s.log10().floor() - 1.0);
    (time_s / scale).round() * scale
}

/// Latency over the time since the windows opened, of all repeats together.
fn over_time(all: &[&Probed]) -> Vec<ProbePoint> {
    let at = |probed: &Probed, trip: &RoundTrip| {
        probed.opened_ns.map(|opened_ns| (trip.sent_ns as f64 - opened_ns as f64) * 1e-9)
    };
    let trips =
        all.iter().flat_map(|probed| probed.trips.iter().filter_map(move |trip| Some((at(probed, trip)?, trip))));
    let trips: Vec<(f64, &RoundTrip)> = trips.collect();
    let (from_s, to_s) =
        trips.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
    let step_s = ((to_s - from_s) / POINTS as f64).max(1e-9);
    let mut found: BTreeMap<usize, (u64, Vec<f64>)> = BTreeMap::new();
    for (at_s, trip) in trips {
        let (sent, took_s) = found.entry((((at_s - from_s) / step_s) as usize).min(POINTS - 1)).or_default();
        *sent += 1;
        took_s.extend(trip.took_ns().map(|ns| ns as f64 * 1e-9));
    }
    let point = |(place, (sent, mut took_s)): (usize, (u64, Vec<f64>))| {
        took_s.sort_by(f64::total_cmp);
        ProbePoint {
            at_s: from_s + (place as f64 + 0.5) * step_s,
            p50_s: quantile(&took_s, 0.5),
            max_s: took_s.last().copied(),
            sent,
            lost: sent - took_s.len() as u64,
        }
    };
    found.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests;
