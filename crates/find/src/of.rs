//! `find` for another host: an agent on the host under test runs `find`. This process's generator executes the agent's
//! commands, or generators in other agents do, to which this process forwards them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netcliff_core::Finding;
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::path::source_towards;
use netcliff_host::{fingerprint, nic};
use netcliff_packets::error::ControlError;
use netcliff_packets::thread::Priority;
use netcliff_remote::control::client::{Progress, Session};
use netcliff_remote::control::message::{ClockId, Final};
use netcliff_remote::load::{Carrier, Chunk, Executor, GeneratorCommand, OrderHandler, Relay};
use serde_json::Value;

use super::elsewhere::Computing;
use super::far::{
    FIND, FROM_AGENTS, FarGenerator, FarSenders, FindProgress, FindReport, FindRequest, SenderEnd, Senders,
};
use super::{FindOptions, Observer};
use netcliff_trial::rig::Sending;

/// Interval between two checks of the local generator, and between two requests to the agent.
const LOOK: Duration = Duration::from_millis(20);
/// Largest number of commands that are fetched before several generators execute them. The commands of a trial, one for
/// each generator, are executed at once, so that the starts of the generators differ little.
const MOST_COMMANDS: usize = 128;

/// This host's end of the link.
#[derive(Debug, Clone)]
pub struct NearEnd {
    /// Interface to send by.
    pub interface: String,
    /// Address of the interface.
    pub address: IpAddr,
    /// Network namespace of the interface; `None`: the namespace of this process.
    pub netns: Option<PathBuf>,
    /// True: the control connection may use this link, too.
    pub by_control_link: bool,
    /// How the load is sent.
    pub sending: Sending,
    /// Scheduling priority of the generator.
    pub priority: Priority,
}

impl NearEnd {
    fn sender(&self) -> SenderEnd {
        let nics = match &self.netns {
            None => nic::read(&self.interface, std::path::Path::new("/sys")).ok(),
            Some(_) => None,
        };
        SenderEnd {
            interface: self.interface.clone(),
            address: self.address,
            by_control_link: self.by_control_link,
            clock: ClockId::of_this_process(),
            fingerprint: fingerprint::of_host(&Inventory::of_this_host(), nics.as_slice()),
        }
    }
}

/// Generators in agents, to which this process forwards the commands of the host under test.
#[derive(Debug)]
pub struct Generators {
    /// Interface under test. `None`: the one by which the host under test reaches the first generator's agent.
    pub interface: Option<String>,
    /// Interface by which the generators send. `None`: by their routes.
    pub their_interface: Option<String>,
    /// True: the control connections may use the link of the load, too.
    pub by_control_link: bool,
    /// How the load is sent.
    pub sending: Sending,
    /// The generators.
    pub each: Vec<Generator>,
}

/// A generator in an agent.
#[derive(Debug)]
pub struct Generator {
    /// The connection to its agent.
    pub carrier: Box<dyn Carrier>,
    /// Clock of the frames' timestamps.
    pub clock: Option<ClockId>,
    /// Address of the agent's host. `None` over pipes.
    pub address: Option<IpAddr>,
}

impl Generators {
    fn senders(&mut self) -> FarSenders {
        // Only the generator's own host has a loopback address of it.
        let address = self.each.first().and_then(|first| first.address).filter(|address| !address.is_loopback());
        let described = |each: &mut Generator| FarGenerator {
            peer: each.carrier.peer(),
            clock: each.clock.clone(),
            fingerprint: each.carrier.fingerprint().unwrap_or_default(),
        };
        FarSenders {
            interface: self.interface.clone(),
            address,
            their_interface: self.their_interface.clone(),
            by_control_link: self.by_control_link,
            generators: self.each.iter_mut().map(described).collect(),
        }
    }
}

/// Why there is no result for another host.
#[derive(Debug, thiserror::Error)]
pub enum OfError {
    /// The control channel failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The agent's run failed; its message.
    #[error("{peer}: {why}")]
    Failed {
        /// The agent.
        peer: String,
        /// The agent's message.
        why: String,
    },
    /// The agent's version has no such run.
    #[error("{0}")]
    TooOld(String),
}

/// Finds the cliff of the agent's host, to which this host sends. A stop by `stop` returns the results so far.
///
/// # Errors
/// See [`OfError`].
pub fn find_of(
    session: &mut Session,
    options: &FindOptions,
    near: &NearEnd,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Finding, OfError> {
    // Between processes of one host no link carries the control connection, so there is no address to protect.
    let control: Option<IpAddr> = session.address.and_then(|address| source_towards(address).ok());
    let own = OrderHandler::new(near.netns.clone(), control, near.sending.most_pps, near.priority);
    let request = FindRequest::of(options, near.sending, Senders::Client(near.sender()));
    directed(session, &request, vec![Box::new(own)], stop, observer)
}

/// Finds the cliff of the agent's host, to which `generators` in other agents send. A stop by `stop` returns the results
/// so far.
///
/// # Errors
/// See [`OfError`].
pub fn find_from(
    session: &mut Session,
    options: &FindOptions,
    mut generators: Generators,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Finding, OfError> {
    if !session.offers(FROM_AGENTS) {
        return Err(OfError::TooOld(session.lacks(FROM_AGENTS)));
    }
    let request = FindRequest::of(options, generators.sending, Senders::Agents(generators.senders()));
    let relay = |each: Generator| -> Box<dyn Executor> { Box::new(Relay::new(each.carrier)) };
    directed(session, &request, generators.each.into_iter().map(relay).collect(), stop, observer)
}

/// Runs the request. The generators execute the agent's commands; they are checked on only after an answer of the
/// agent, so that they stop if the agent does not answer.
fn directed(
    session: &mut Session,
    request: &FindRequest,
    mut generators: Vec<Box<dyn Executor>>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Finding, OfError> {
    let mut computing = Computing::default();
    session.start(FIND, request)?;
    let most = if generators.len() > 1 { MOST_COMMANDS } else { 1 };
    let last = 'run: loop {
        let began = Instant::now();
        if stop.load(Ordering::Relaxed) {
            drop(generators);
            break session.stop()?;
        }
        let mut orders = vec![Vec::new(); generators.len()];
        for _ in 0..most {
            let (place, order) = match session.progress()? {
                Progress::Ended(last) => break 'run last,
                Progress::Running(value) => said(session, value, observer)?,
            };
            let Some(order) = order else { break };
            if !computing.obey(&order)
                && let Some(own) = orders.get_mut(place)
            {
                own.push(order);
            }
        }
        for (place, results) in executed(&mut generators, &orders).into_iter().enumerate() {
            tell(session, place, results)?;
        }
        tell(session, 0, computing.look())?;
        thread::sleep(LOOK.saturating_sub(began.elapsed()));
    };
    ended(session, last, observer)
}

/// Has each generator execute its commands, all generators at once. Returns the results of each.
fn executed(generators: &mut [Box<dyn Executor>], orders: &[Vec<GeneratorCommand>]) -> Vec<Vec<Chunk>> {
    fn one((generator, orders): (&mut Box<dyn Executor>, &Vec<GeneratorCommand>)) -> Vec<Chunk> {
        let mut results: Vec<Chunk> = orders.iter().flat_map(|order| generator.obey(order)).collect();
        results.extend(generator.look());
        results
    }
    let each = generators.iter_mut().zip(orders);
    if orders.iter().filter(|own| !own.is_empty()).count() < 2 {
        return each.map(one).collect();
    }
    thread::scope(|scope| {
        let begun: Vec<_> = each.map(|own| scope.spawn(move || one(own))).collect();
        begun.into_iter().map(|own| own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn read<T: serde::de::DeserializeOwned>(session: &Session, value: Value) -> Result<T, ControlError> {
    let malformed =
        |e: serde_json::Error| ControlError::Malformed { peer: session.peer().to_owned(), why: e.to_string() };
    serde_json::from_value(value).map_err(malformed)
}

fn said(
    session: &Session,
    value: Value,
    observer: &mut dyn Observer,
) -> Result<(usize, Option<GeneratorCommand>), ControlError> {
    let progress: FindProgress = read(session, value)?;
    progress.stages.iter().for_each(|stage| observer.stage(stage));
    if let Some((load_pps, elapsed_s, planned_s)) = progress.trial {
        observer.trial(load_pps, elapsed_s, planned_s);
    }
    progress.records.iter().for_each(|record| observer.record(record));
    Ok((progress.generator, progress.order))
}

/// Sends what the generator at this place reports.
fn tell(session: &mut Session, place: usize, pieces: Vec<Chunk>) -> Result<(), ControlError> {
    pieces.into_iter().try_for_each(|piece| session.tell(&piece.of_generator(place)))
}

fn ended(session: &Session, last: Final, observer: &mut dyn Observer) -> Result<Finding, OfError> {
    let report: FindReport = read(session, last.report)?;
    report.progress.records.iter().for_each(|record| observer.record(record));
    let peer = session.peer().to_owned();
    let Some(mut finding) = report.finding.map(|finding| *finding) else {
        let why = report.failed.or(last.partial).unwrap_or_else(|| "it ended without a word".to_owned());
        return Err(OfError::Failed { peer, why });
    };
    finding.host.at = Some(peer);
    Ok(finding)
}
