//! Runs the ends, in one thread each or several in one thread. All start together and pass the windows together.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use serde::{Deserialize, Serialize};

use super::aligned::Aligned;
use super::conductor::{Conductor, Event, ExitNotifier, Shared, Stopped};
use super::end::{self, DataPath, Done, End, Reader, Truncating};
use super::follow::Following;
use super::gate::{Arrival, Gate};
use super::live::Cells;
use super::meter::Phase;
use super::open::Opener;
use super::options::{self, InForce};
use super::path;
use super::sampler::Sampler;
use super::start::RealtimeFirstStep;
use super::tcp_info::TcpSample;
use super::turns::{self, Ready};
use super::{Channel, ReceivePath, SendPath, Settings, Spans, Watch, burst, datagram, ktls, linux, mapped, pace};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::{Placement, RealtimeGuard};

/// How the two ends of a flow agree that all have connected, if no common [`Gate`] exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    /// Both ends use the gate.
    Gate,
    /// Wait for a byte from the other end.
    Await,
    /// Send a byte to the other end.
    Say,
}

/// One end to be run.
pub(super) struct Part<'a> {
    pub flow: usize,
    pub sender: bool,
    /// Whether the part belongs to the near end. Near and far ends do not share threads.
    pub near: bool,
    pub placement: Placement,
    pub opener: Opener<'a>,
    pub go: Go,
}

/// The result of one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EndResult {
    pub end: End,
    /// Options in force. `None` for a pipe.
    pub in_force: Option<InForce>,
    /// TCP_INFO samples of a sender.
    pub tcp: Vec<TcpSample>,
}

/// The results of all ends, in the order of the parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Played {
    pub sides: Vec<EndResult>,
    /// Why the transfer was stopped early. `None` if it was not.
    pub stopped: Option<Stopped>,
}

impl Played {
    /// The failure to report. A receiver's failure takes precedence, because it breaks the sender too.
    pub(super) fn cut_short(&self, sends: impl Fn(usize) -> bool) -> Option<String> {
        let failure = |sender: bool| {
            let ends = self.sides.iter().enumerate().filter(|(place, _)| sends(*place) == sender);
            ends.filter_map(|(_, side)| side.end.failure.clone()).next()
        };
        failure(false).or_else(|| failure(true)).or_else(|| self.stopped.map(|why| why.to_string()))
    }
}

/// Results of a thread's ends. `None` if another end gave up.
type ThreadResult = Result<Option<Vec<Done>>, WireError>;

/// The parts that a thread serves, each with its index among all parts.
type Group<'a> = Vec<(usize, Part<'a>)>;

/// Runs the ends until all have finished.
pub(super) fn run_flows(
    settings: &Settings,
    spans: Spans,
    parts: Vec<Part<'_>>,
    other_half: Option<&AtomicBool>,
    watch: &mut dyn Watch,
) -> Result<Played, WireError> {
    let flows = parts.iter().map(|part| part.flow + 1).max().unwrap_or(0);
    // A transfer lasts as long as its senders or, if only receivers are here, as long as they do.
    let leads = parts.iter().any(|part| part.sender);
    let leaders = parts.iter().filter(|part| part.sender == leads).count();
    let ends: Vec<(usize, bool)> = parts.iter().map(|part| (part.flow, part.sender)).collect();
    let groups = grouped(settings, parts);
    let shared = Shared {
        settings,
        spans,
        gate: Gate::new(groups.len() + 1),
        phase: Phase::default(),
        live: Cells::new(&ends, watch.interval().is_some()),
        over: (0..flows).map(|_| AtomicBool::new(false)).collect(),
        observed: watch.observes(),
        other_half,
    };
    if spans.warm_up_ns == 0 {
        shared.phase.set(1);
    }
    // Start the sampler first, so that its failure is reported before anything runs.
    let tcp = matches!(settings.channel, Channel::Tcp { .. });
    let sampler = (tcp && ends.iter().any(|(_, sender)| *sender)).then(Sampler::start).transpose()?;
    let (brought, mut samples, stopped) = thread::scope(|scope| {
        // If hundreds of flows are busy, this thread would otherwise pass the gate and end the windows seconds late.
        let punctual = RealtimeGuard::begin();
        let (events, heard) = mpsc::channel();
        let mut threads = Vec::new();
        let mut not_started = None;
        for group in groups {
            let places: Vec<usize> = group.iter().map(|(place, _)| *place).collect();
            match start(scope, &shared, group, leads, &events) {
                Ok(thread) => threads.push((places, thread)),
                Err(error) => {
                    shared.gate.give_up();
                    not_started = Some(error);
                    break;
                }
            }
        }
        drop(events);
        let mut conductor = Conductor::new(&shared, flows, leaders, heard);
        let stopped = if shared.gate.pass() {
            if settings.start.is_some() {
                watch.gathered();
                begin(settings);
            }
            conductor.run(sampler.as_ref(), watch)
        } else {
            None
        };
        drop(punctual);
        // Release the sockets, so that their connections can end.
        drop(conductor);
        let samples = sampler.map_or(Ok(Vec::new()), Sampler::end)?;
        let brought: Vec<_> = threads.into_iter().map(|(places, thread)| (places, joined(thread))).collect();
        match not_started {
            Some(error) => Err(error),
            None => Ok((brought, samples, stopped)),
        }
    })?;
    let mut sides = Vec::new();
    for ((flow, sender), done) in ends.into_iter().zip(gathered(brought)?) {
        let (end, in_force) = done;
        let tcp = samples.get_mut(flow).filter(|_| sender).map(std::mem::take);
        sides.push(EndResult { end, in_force, tcp: tcp.unwrap_or_default() });
    }
    Ok(Played { sides, stopped })
}

/// Groups the parts (one end of one flow each) by thread. Each part has its own thread, unless an end has fewer threads
/// than flows: then [`Settings::thread_of`] assigns them, and near and far parts stay apart.
fn grouped<'a>(settings: &Settings, parts: Vec<Part<'a>>) -> Vec<Group<'a>> {
    let mut threads: BTreeMap<(bool, usize, usize), Group<'a>> = BTreeMap::new();
    let shares = settings.shared_threads().is_some();
    for (place, part) in parts.into_iter().enumerate() {
        let own = if shares { 0 } else { place };
        threads.entry((part.near, settings.thread_of(part.flow), own)).or_default().push((place, part));
    }
    threads.into_values().collect()
}

fn joined(thread: ScopedJoinHandle<'_, ThreadResult>) -> ThreadResult {
    thread.join().map_err(|panic| WireError::died("transfer", &*panic))?
}

/// Results of all parts in the order of their indices, or the first failure.
fn gathered(brought: Vec<(Vec<usize>, ThreadResult)>) -> Result<Vec<Done>, WireError> {
    let mut absent = false;
    let mut done = BTreeMap::new();
    for (places, brought) in brought {
        match brought? {
            Some(ends) => done.extend(places.into_iter().zip(ends)),
            None => absent = true,
        }
    }
    if absent {
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        return Err(WireError::system("open the channel", lost));
    }
    Ok(done.into_values().collect())
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    mut group: Group<'scope>,
    leads: bool,
    events: &mpsc::Sender<Event>,
) -> Result<ScopedJoinHandle<'scope, ThreadResult>, WireError> {
    let events = events.clone();
    let (number, sender, near) =
        group.first().map_or((0, false, false), |(_, part)| (part.flow, part.sender, part.near));
    let several = group.len() > 1;
    let name = match (several, sender, near) {
        (true, _, near) => format!("{} {number}", if near { "near" } else { "far" }),
        (false, true, _) => format!("sender {number}"),
        (false, false, _) => format!("receiver {number}"),
    };
    let work = move || match group.pop() {
        Some((_, part)) if !several => at_work(shared, part, leads, &events),
        last => several_at_work(shared, group.into_iter().chain(last).map(|(_, part)| part).collect(), leads, &events),
    };
    let failed = |e| WireError::system(format!("start a thread for flow {}", number + 1), e);
    Builder::new().name(name).spawn_scoped(scope, work).map_err(failed)
}

/// Runs one end from start to end, in its own thread.
fn at_work(shared: &Shared<'_>, part: Part<'_>, leads: bool, events: &mpsc::Sender<Event>) -> ThreadResult {
    let mut arrival = Arrival(Some(&shared.gate));
    let (flow, sender) = (part.flow, part.sender);
    part.placement.enter()?;
    let Some(channel) = (part.opener)()? else { return Ok(None) };
    show(shared, flow, sender, &channel, events)?;
    let mover = placed(shared, part.near, &channel, mover(shared, flow, sender, &channel, true)?);
    if part.go == Go::Await {
        await_go(&channel)?;
    }
    arrival.0 = None;
    if !shared.gate.pass() {
        return Ok(None);
    }
    let mut exit = ExitNotifier { events, leads: sender == leads, failed: true };
    if part.go == Go::Say {
        say_go(&channel)?;
    }
    let work = if sender { end::send } else { end::receive };
    let shown = shared.live.of(flow, sender);
    let punctual = shared.settings.start.as_ref().filter(|_| sender).map(|_| RealtimeGuard::begin());
    let began_ns = begin(shared.settings);
    let mover = match punctual {
        Some(guard) => Box::new(RealtimeFirstStep { mover, guard: Some(guard) }) as Box<dyn DataPath + '_>,
        None => mover,
    };
    let mut end = work(mover, channel.as_fd(), shared.settings, &shared.spans, (&shared.phase, shown))?;
    end.began_ns = began_ns;
    exit.failed = end.failure.is_some();
    Ok(Some(vec![(end, options::in_force(&shared.settings.channel, sender, channel.as_fd()))]))
}

/// Runs the ends of several flows in the calling thread. All of them belong to one end of the transfer.
fn several_at_work(
    shared: &Shared<'_>,
    parts: Vec<Part<'_>>,
    leads: bool,
    events: &mpsc::Sender<Event>,
) -> ThreadResult {
    let mut arrival = Arrival(Some(&shared.gate));
    if let Some(part) = parts.first() {
        // All flows of a thread have the same placement.
        part.placement.enter()?;
    }
    let (ends, openers): (Vec<_>, Vec<_>) =
        parts.into_iter().map(|part| ((part.flow, part.sender, part.go), part.opener)).unzip();
    let Some(channels) = opened(openers)? else { return Ok(None) };
    let mut movers = Vec::new();
    for ((flow, sender, _), channel) in ends.iter().zip(&channels) {
        show(shared, *flow, *sender, channel, events)?;
        movers.push(mover(shared, *flow, *sender, channel, false)?);
    }
    let of =
        |wanted: Go| ends.iter().zip(&channels).filter(move |((.., go), _)| *go == wanted).map(|(_, channel)| channel);
    of(Go::Await).try_for_each(await_go)?;
    arrival.0 = None;
    if !shared.gate.pass() {
        return Ok(None);
    }
    let ready = ends.iter().zip(&channels).zip(movers).map(|(((flow, sender, _), channel), mover)| {
        let exit = ExitNotifier { events, leads: *sender == leads, failed: true };
        Ready { sender: *sender, channel, mover, exit, shown: shared.live.of(*flow, *sender) }
    });
    let ready: Vec<Ready<'_>> = ready.collect();
    of(Go::Say).try_for_each(say_go)?;
    let began_ns = begin(shared.settings);
    let mut done = turns::serve(shared, ready)?;
    done.iter_mut().for_each(|(end, _)| end.began_ns = began_ns);
    Ok(Some(done))
}

/// Opens all channels at once, each in a thread with the placement of the calling one. One after the other, each would
/// take its own round trips. `None` if another end gave up.
fn opened(openers: Vec<Opener<'_>>) -> Result<Option<Vec<OwnedFd>>, WireError> {
    let opened: Result<Vec<_>, WireError> = thread::scope(|scope| {
        let mut opening = Vec::new();
        for opener in openers {
            let thread = Builder::new().name("opener".into()).spawn_scoped(scope, opener);
            opening.push(thread.map_err(|e| WireError::system("start a thread that opens a flow's channel", e))?);
        }
        let opened = opening.into_iter().map(|thread| thread.join());
        opened.map(|opened| opened.map_err(|panic| WireError::died("transfer", &*panic))?).collect()
    });
    Ok(opened?.into_iter().collect())
}

/// Waits for the common start, if there is one. Returns its time (ns).
fn begin(settings: &Settings) -> Option<u64> {
    if let Some(start) = &settings.start {
        let stopped = || settings.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        start.wait(stopped);
    }
    Some(clock::monotonic_ns())
}

/// Passes a TCP socket to the conductor, which samples TCP_INFO of a sender and may have to end any connection.
fn show(
    shared: &Shared<'_>,
    flow: usize,
    sender: bool,
    channel: &OwnedFd,
    events: &mpsc::Sender<Event>,
) -> Result<(), WireError> {
    let duplicate = || channel.try_clone().map_err(|e| WireError::system("duplicate a socket", e));
    if shared.observed && shared.settings.channel != Channel::Pipe {
        let _ = events.send(Event::Observed { sender, socket: duplicate()? });
    }
    if matches!(shared.settings.channel, Channel::Tcp { .. }) {
        let socket = duplicate()?;
        // Nobody receives this once the conductor has ended.
        let _ = events.send(Event::Socket { flow, sender, socket });
    }
    Ok(())
}

/// Signals to the other end that all flows are ready.
fn say_go(channel: &OwnedFd) -> Result<(), WireError> {
    nix::unistd::write(channel, &[1]).map_err(|e| WireError::system("tell the near end to begin", e)).map(drop)
}

/// Waits until the other end has all its flows.
fn await_go(channel: &OwnedFd) -> Result<(), WireError> {
    let failed = |e| WireError::system("hear that the far end begins", e);
    match nix::unistd::read(channel, &mut [0_u8; 1]) {
        Ok(1) => Ok(()),
        Ok(_) => Err(failed(std::io::Error::from(std::io::ErrorKind::ConnectionAborted))),
        Err(e) => Err(failed(e.into())),
    }
}

/// The data path of an end that may follow the CPU of its flow's packets.
fn placed<'a>(
    shared: &'a Shared<'_>,
    near: bool,
    channel: &'a OwnedFd,
    mover: Box<dyn DataPath + 'a>,
) -> Box<dyn DataPath + 'a> {
    let distance = if near { shared.settings.near_rx } else { shared.settings.far_rx };
    match distance.filter(|_| matches!(shared.settings.channel, Channel::Tcp { .. } | Channel::Udp { .. })) {
        Some(distance) => Box::new(Following::new(mover, channel.as_fd(), distance)),
        None => mover,
    }
}

/// The data path of an end. Without `waits` it does not block, and the caller waits.
fn mover<'a>(
    shared: &'a Shared<'_>,
    flow: usize,
    sender: bool,
    channel: &'a OwnedFd,
    waits: bool,
) -> Result<Box<dyn DataPath + 'a>, WireError> {
    let (settings, stall_ns) = (shared.settings, shared.spans.stall_ns);
    let (block_bytes, over) = (settings.block_bytes, &shared.over[flow]);
    Ok(match (&settings.channel, sender) {
        (Channel::Udp { path, .. }, true) => {
            let marks_end = shared.other_half.is_some();
            let pacing_bps = settings.options.pacing_bps;
            Box::new(datagram::Sender::new(channel.as_fd(), *path, block_bytes, pacing_bps, (marks_end, over))?)
        }
        (Channel::Udp { path, .. }, false) => {
            let stall_ns = waits.then_some(stall_ns);
            let paths = (*path, settings.receive);
            Box::new(datagram::Receiver::new(channel.as_fd(), paths, block_bytes, stall_ns, over)?)
        }
        (_, true) => {
            let mover = match (&settings.path, settings.options.page_aligned) {
                (SendPath::Write, true) => path::aligned(channel.as_fd(), block_bytes),
                (path, _) => path::mover(path, channel.as_fd(), block_bytes, stall_ns)?,
            };
            let mover = match settings.options.pacing_bps.filter(|_| settings.options.paced_by_sender) {
                Some(bps) => Box::new(pace::Paced::new(mover, bps, block_bytes)),
                None => mover,
            };
            burst::of(settings, true, mover)
        }
        (_, false) => match settings.receive {
            ReceivePath::Read => {
                let buffer = Aligned::zeroed(settings.read_bytes, settings.options.page_aligned);
                let reader = Reader::new(channel.as_fd(), buffer, settings.low_water_bytes);
                burst::of(settings, false, Box::new(reader))
            }
            ReceivePath::Truncate => Box::new(Truncating::new(channel.as_fd(), settings.read_bytes)),
            ReceivePath::Ktls => {
                let buffer = Aligned::zeroed(settings.read_bytes, false);
                let reader = Reader::new(channel.as_fd(), buffer, None);
                Box::new(ktls::Ktls::new(Box::new(reader), channel.as_fd(), false)?)
            }
            ReceivePath::Mapped => Box::new(mapped::Receiver::new(channel.as_fd(), settings.read_bytes)?),
            ReceivePath::Uring => linux::receiver(channel.as_fd(), settings.read_bytes, stall_ns)?,
        },
    })
}
