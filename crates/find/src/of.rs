//! `find` for another host, from the host that sends: an agent on the host under test runs `find`, and this process's
//! generator executes the agent's commands.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netcliff_core::Finding;
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::path::source_towards;
use netcliff_host::{fingerprint, nic};
use netcliff_packets::error::ControlError;
use netcliff_packets::thread::Priority;
use netcliff_remote::control::client::{Progress, Session};
use netcliff_remote::control::message::{ClockId, Final};
use netcliff_remote::load::{Chunk, OrderHandler};
use serde_json::Value;

use super::elsewhere::Computing;
use super::far::{FIND, FindProgress, FindReport, FindRequest, SenderEnd};
use super::{FindOptions, Observer};
use netcliff_trial::rig::Sending;

/// Interval between two checks of the local generator, and between two requests to the agent.
const LOOK: Duration = Duration::from_millis(20);

/// This host's end of the link.
#[derive(Debug, Clone)]
pub struct NearEnd {
    /// Interface to send by.
    pub interface: String,
    /// Address of the interface.
    pub address: Ipv4Addr,
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
}

/// Finds the cliff of the agent's host. A stop by `stop` returns the results so far.
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
    let mut hand = OrderHandler::new(near.netns.clone(), control, near.sending.most_pps, near.priority);
    let mut computing = Computing::default();
    session.start(FIND, &FindRequest::of(options, near.sending, near.sender()))?;
    let last = loop {
        let began = Instant::now();
        if stop.load(Ordering::Relaxed) {
            drop(hand);
            break session.stop()?;
        }
        let order = match session.progress()? {
            Progress::Ended(last) => break last,
            Progress::Running(value) => said(session, value, observer)?,
        };
        let for_the_hand = order.filter(|order| !computing.obey(order));
        let mut results = for_the_hand.map(|order| hand.obey(&order)).unwrap_or_default();
        results.extend(hand.look());
        results.extend(computing.look());
        tell(session, results)?;
        std::thread::sleep(LOOK.saturating_sub(began.elapsed()));
    };
    ended(session, last, observer)
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
) -> Result<Option<netcliff_remote::load::GeneratorCommand>, ControlError> {
    let progress: FindProgress = read(session, value)?;
    progress.stages.iter().for_each(|stage| observer.stage(stage));
    if let Some((load_pps, elapsed_s, planned_s)) = progress.trial {
        observer.trial(load_pps, elapsed_s, planned_s);
    }
    progress.records.iter().for_each(|record| observer.record(record));
    Ok(progress.order)
}

fn tell(session: &mut Session, pieces: Vec<Chunk>) -> Result<(), ControlError> {
    pieces.iter().try_for_each(|piece| session.tell(piece))
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
