//! All ends begin together and pass the windows together.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::end::{self, End, Mover, Reader};
use super::meter::Phase;
use super::open::{self, Opener, Recipe};
use super::options::{self, InForce};
use super::tcp_info::{self, TcpSample};
use super::{Channel, Direction, Flow, Settings, Span, Spans, Transfer, Watch, datagram, path};
use crate::clock;
use crate::error::WireError;
use crate::thread::Placement;

/// How often the conductor looks whether it was asked to stop (ns).
const LOOK_NS: u64 = 50_000_000;

/// Opens a place where all ends wait for each other.
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    missing: usize,
    given_up: bool,
}

impl Gate {
    fn new(parties: usize) -> Self {
        Self { state: Mutex::new(GateState { missing: parties, given_up: false }), changed: Condvar::new() }
    }

    /// Waits for the others; false when one of them gave up.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing = state.missing.saturating_sub(1);
        self.changed.notify_all();
        while state.missing > 0 && !state.given_up {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.given_up
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.changed.notify_all();
    }
}

/// What an end tells the conductor.
enum Event {
    /// A sender's socket, to ask it for TCP_INFO.
    Socket(usize, OwnedFd),
    /// An end is through.
    Through { sender: bool, failed: bool },
}

/// What all ends share.
struct Shared<'a> {
    settings: &'a Settings,
    spans: Spans,
    gate: Gate,
    phase: Phase,
    /// For UDP, where nothing else says it: this flow's sender is through.
    over: Vec<AtomicBool>,
}

/// What a thread brings back; `None` when another one gave up.
type Brought = Result<Option<(End, Option<InForce>)>, WireError>;

pub(super) fn run(settings: &Settings, spans: Spans, watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    let directions: &[bool] = match settings.direction {
        Direction::Send => &[true],
        Direction::Receive => &[false],
        Direction::Both => &[true, false],
    };
    let flows: Vec<bool> =
        directions.iter().flat_map(|forward| std::iter::repeat_n(*forward, settings.flows as usize)).collect();
    let shared = Shared {
        settings,
        spans,
        gate: Gate::new(2 * flows.len() + 1),
        phase: Phase::default(),
        over: flows.iter().map(|_| AtomicBool::new(false)).collect(),
    };
    if spans.warm_up_ns == 0 {
        shared.phase.set(1);
    }
    thread::scope(|scope| {
        let (events, heard) = mpsc::channel();
        let mut ends = Vec::new();
        let mut not_started = None;
        for (number, forward) in flows.iter().enumerate() {
            match start(scope, &shared, number, *forward, &events) {
                Ok(pair) => ends.push(pair),
                Err(error) => {
                    shared.gate.give_up();
                    not_started = Some(error);
                    break;
                }
            }
        }
        drop(events);
        let mut conductor = Conductor::new(&shared, flows.len(), heard);
        let stopped = if shared.gate.pass() { conductor.conduct(watch) } else { None };
        let samples = conductor.release();
        let brought: Vec<_> = ends
            .into_iter()
            .map(|(sender, receiver)| (joined("sender", sender), joined("receiver", receiver)))
            .collect();
        match not_started {
            Some(error) => Err(error),
            None => gather(&flows, brought, samples, stopped),
        }
    })
}

fn joined(which: &'static str, thread: ScopedJoinHandle<'_, Brought>) -> Brought {
    thread.join().map_err(|panic| WireError::died(which, &*panic))?
}

/// Puts the flows together; a receiver's failure is told first, since it breaks the sender too.
fn gather(
    flows: &[bool],
    brought: Vec<(Brought, Brought)>,
    samples: Vec<Vec<TcpSample>>,
    stopped: Option<String>,
) -> Result<Transfer, WireError> {
    let mut made = Vec::new();
    let mut absent = false;
    let mut failed = None;
    for ((forward, (sender, receiver)), tcp) in flows.iter().zip(brought).zip(samples) {
        match (receiver, sender) {
            (Err(error), _) | (_, Err(error)) => failed = failed.or(Some(error)),
            (Ok(Some((receiver, theirs))), Ok(Some((sender, in_force)))) => {
                let receive_buffer_bytes = theirs.and_then(|theirs| theirs.receive_buffer_bytes);
                let in_force = in_force.map(|own| InForce { receive_buffer_bytes, ..own });
                made.push(Flow { forward: *forward, sender, receiver, tcp, in_force });
            }
            _ => absent = true,
        }
    }
    match failed {
        Some(error) => return Err(error),
        None if absent => {
            let lost = std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
            return Err(WireError::system("open the channel", lost));
        }
        None => {}
    }
    let failure = |of: fn(&Flow) -> &End| made.iter().find_map(|flow| of(flow).failure.clone());
    let cut_short = failure(|flow| &flow.receiver).or_else(|| failure(|flow| &flow.sender)).or(stopped);
    Ok(Transfer { flows: made, cut_short })
}

/// Starts both ends of a flow.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    number: usize,
    forward: bool,
    events: &mpsc::Sender<Event>,
) -> Result<(ScopedJoinHandle<'scope, Brought>, ScopedJoinHandle<'scope, Brought>), WireError> {
    let settings = shared.settings;
    let recipe =
        |address, multipath| Recipe { address, multipath, options: &settings.options, stall_ns: shared.spans.stall_ns };
    // Of a pair the first is the far end of a connection, or the end that receives.
    let (first, second, receives_first) = match &settings.channel {
        Channel::Tcp { address, multipath } => with(open::tcp(recipe(*address, *multipath)), forward),
        Channel::Unix => with(open::unix(recipe([0; 4].into(), false))?, forward),
        Channel::Udp { address, .. } => with(open::udp(recipe(*address, false)), true),
        Channel::Pipe => with(open::pipe()?, true),
    };
    let (receiving, sending) = if receives_first { (first, second) } else { (second, first) };
    let (sends, receives) = if forward { (&settings.near, &settings.far) } else { (&settings.far, &settings.near) };
    let spawn = |what: &str, sender: bool, placement: &'scope Placement, opener: Opener<'scope>| {
        let events = events.clone();
        Builder::new()
            .name(format!("{what} {number}"))
            .spawn_scoped(scope, move || at_work(shared, number, sender, placement, opener, &events))
            .map_err(|e| WireError::system(format!("start a thread for flow {}", number + 1), e))
    };
    let receiver = spawn("receiver", false, receives, receiving)?;
    let sender = spawn("sender", true, sends, sending)?;
    Ok((sender, receiver))
}

fn with<'a>((first, second): (Opener<'a>, Opener<'a>), receives: bool) -> (Opener<'a>, Opener<'a>, bool) {
    (first, second, receives)
}

/// Gives up on drop unless the gate was reached: the others must not wait for an end that failed.
struct Arrival<'a>(Option<&'a Gate>);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.give_up();
        }
    }
}

/// Tells the conductor on drop that an end is through, also when it panicked.
struct Farewell<'a> {
    events: &'a mpsc::Sender<Event>,
    sender: bool,
    failed: bool,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        // Nobody hears it once the conductor is through.
        let _ = self.events.send(Event::Through { sender: self.sender, failed: self.failed });
    }
}

/// One end from beginning to end, in its thread.
fn at_work(
    shared: &Shared<'_>,
    number: usize,
    sender: bool,
    placement: &Placement,
    opener: Opener<'_>,
    events: &mpsc::Sender<Event>,
) -> Brought {
    let mut arrival = Arrival(Some(&shared.gate));
    placement.enter()?;
    let Some(channel) = opener()? else { return Ok(None) };
    let (settings, spans) = (shared.settings, &shared.spans);
    let tcp = matches!(settings.channel, Channel::Tcp { .. });
    if sender && tcp {
        let socket = channel.try_clone().map_err(|e| WireError::system("duplicate a socket", e))?;
        let _ = events.send(Event::Socket(number, socket));
    }
    let mover = mover(shared, number, sender, &channel)?;
    arrival.0 = None;
    if !shared.gate.pass() {
        return Ok(None);
    }
    let mut farewell = Farewell { events, sender, failed: true };
    let work = if sender { end::send } else { end::receive };
    let end = work(mover, channel.as_fd(), settings, spans, &shared.phase)?;
    farewell.failed = end.failure.is_some();
    let in_force = match settings.channel {
        Channel::Pipe => None,
        _ if sender => Some(options::in_force(channel.as_fd(), tcp)),
        _ => Some(InForce { receive_buffer_bytes: options::receive_buffer(channel.as_fd()), ..InForce::default() }),
    };
    Ok(Some((end, in_force)))
}

fn mover<'a>(
    shared: &'a Shared<'_>,
    number: usize,
    sender: bool,
    channel: &'a OwnedFd,
) -> Result<Box<dyn Mover + 'a>, WireError> {
    let (settings, stall_ns) = (shared.settings, shared.spans.stall_ns);
    let (block_bytes, over) = (settings.block_bytes, &shared.over[number]);
    Ok(match (&settings.channel, sender) {
        (Channel::Udp { path, .. }, true) => {
            Box::new(datagram::Sender::new(channel.as_fd(), *path, block_bytes, over)?)
        }
        (Channel::Udp { path, .. }, false) => {
            Box::new(datagram::Receiver::new(channel.as_fd(), *path, block_bytes, stall_ns, over)?)
        }
        (_, true) => path::mover(&settings.path, channel.as_fd(), block_bytes, stall_ns)?,
        (_, false) => Box::new(Reader::new(channel.as_fd(), settings.read_bytes)),
    })
}

/// Turns the phases and samples the sockets.
struct Conductor<'a> {
    shared: &'a Shared<'a>,
    heard: mpsc::Receiver<Event>,
    sockets: Vec<Option<OwnedFd>>,
    samples: Vec<Vec<TcpSample>>,
    senders_left: usize,
    failed: bool,
    opened_ns: u64,
}

impl<'a> Conductor<'a> {
    fn new(shared: &'a Shared<'a>, flows: usize, heard: mpsc::Receiver<Event>) -> Self {
        let sockets = std::iter::repeat_with(|| None).take(flows).collect();
        let samples = vec![Vec::new(); flows];
        Self { shared, heard, sockets, samples, senders_left: flows, failed: false, opened_ns: 0 }
    }

    /// Conducts from the first byte to the last window; a reason where it was stopped before.
    fn conduct(&mut self, watch: &mut dyn Watch) -> Option<String> {
        let spans = self.shared.spans;
        let mut stopped = self.wait(Some(clock::monotonic_ns() + spans.warm_up_ns), None);
        watch.opened();
        self.opened_ns = clock::monotonic_ns();
        self.sample();
        for window in 1..=spans.windows {
            if stopped.is_some() || self.failed {
                break;
            }
            self.shared.phase.set(window);
            let until = match spans.window {
                Span::Time(ns) => Some(self.opened_ns + u64::from(window) * ns),
                Span::Bytes(_) => None,
            };
            stopped = self.wait(until, spans.interval_ns);
            if until.is_none() {
                // All windows of a sender have passed when it is through.
                break;
            }
        }
        self.sample();
        watch.closed();
        // A number of bytes ends by itself; receivers are not to be stopped while they empty buffers.
        if matches!(spans.window, Span::Time(_)) || stopped.is_some() || self.failed {
            self.shared.phase.set(Phase::OVER);
        }
        stopped
    }

    /// Waits until a time, or until all senders are through; a reason when it was asked to stop.
    fn wait(&mut self, until_ns: Option<u64>, every_ns: Option<u64>) -> Option<String> {
        let mut next_ns = every_ns.map(|every| clock::monotonic_ns() + every);
        loop {
            let now_ns = clock::monotonic_ns();
            if self.failed || self.senders_left == 0 || until_ns.is_some_and(|until| now_ns >= until) {
                return None;
            }
            if self.shared.settings.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Some("stopped on request".to_owned());
            }
            if let (Some(due), Some(every)) = (next_ns, every_ns)
                && now_ns >= due
            {
                self.sample();
                next_ns = Some(due + every);
            }
            let wake_ns = [until_ns, next_ns].into_iter().flatten().fold(now_ns + LOOK_NS, u64::min);
            match self.heard.recv_timeout(Duration::from_nanos(wake_ns.saturating_sub(now_ns))) {
                Ok(event) => self.note(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.senders_left = 0,
            }
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Socket(flow, socket) => self.sockets[flow] = Some(socket),
            Event::Through { sender, failed } => {
                self.failed |= failed;
                self.senders_left -= usize::from(sender);
            }
        }
    }

    fn sample(&mut self) {
        while let Ok(event) = self.heard.try_recv() {
            self.note(event);
        }
        let at_s = (clock::monotonic_ns() - self.opened_ns) as f64 * 1e-9;
        for (socket, samples) in self.sockets.iter().zip(&mut self.samples) {
            samples.extend(socket.as_ref().and_then(|socket| tcp_info::sample(socket.as_fd(), at_s)));
        }
    }

    /// Lets go of the sockets, so that their connections can end.
    fn release(self) -> Vec<Vec<TcpSample>> {
        self.samples
    }
}
