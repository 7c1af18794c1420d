//! One transfer with several agents: all flows start together, pass the same windows at this end, and are counted by
//! agent.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::conduct::{self, Played};
use super::conductor::Stopped;
use super::far::TransferKind;
use super::far_end_request::FarEndRequest;
use super::near::{last_report, parts, together};
use super::start::{StartNotice, StartTime};
use super::{Interval, Settings, Transfer, Watch};
use netcliff_packets::clock;
use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_remote::common_clock::{self, ClockOffset};
use netcliff_remote::control::COMMON_START;
use netcliff_remote::control::CPU_LISTS;
use netcliff_remote::control::RX_CPU;
use netcliff_remote::control::SHARED_THREADS;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::message::Ready;

/// Time between the gathering of all ends and their start (ns). During this time, the start time is sent over the
/// control channels, one after the other.
const LEAD_NS: u64 = 30_000_000;
/// Interval between checks whether an agent is gone.
const LOOK: Duration = Duration::from_millis(20);

/// Priority of causes: an agent that is gone, then an agent that reports a failure, then flows that broke.
const GONE: u8 = 2;
const FAILED: u8 = 1;
const BROKEN: u8 = 0;

/// An agent of the transfer.
#[derive(Debug)]
pub struct Agent {
    /// Name of the agent, as the user gave it.
    pub name: String,
    /// The session with the agent.
    pub session: Session,
    /// Address that the data go to.
    pub address: IpAddr,
}

/// How the agents of a transfer started, and which flows belong to which agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Many {
    /// The common start (ns of this host's monotonic clock).
    pub start_ns: u64,
    /// The agents, in the order of the request.
    pub agents: Vec<AgentPart>,
}

/// One agent's part of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// Name of the agent, as the user gave it.
    pub name: String,
    /// Numbers of the agent's flows among all flows of the transfer.
    pub flows: Range<usize>,
    /// Time at which the first of the agent's senders started (ns of this host's monotonic clock). `None` if the agent
    /// does not report this time.
    pub began_ns: Option<u64>,
    /// Error bound of the offset between this host's and the agent's clock (ns); 0 if both ends share a clock.
    pub clock_error_ns: u64,
}

/// An agent's answer to the request, with its clock offset.
struct StartedAgent {
    ready: Ready,
    offset: ClockOffset,
}

/// Runs one transfer with several agents, with `settings` for each. The flows are in the order of the agents.
///
/// # Errors
/// An error of [`super::run_with`], with the agent's name. The parts that had started are stopped.
pub fn run_many(settings: &Settings, agents: &mut [Agent], watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    let spans = settings.spans()?.between_hosts();
    let start = Arc::new(StartTime::default());
    let flows = settings.flow_directions().len();
    let all = agents.len() * flows;
    let near = Settings {
        flows: u32::try_from(agents.len()).unwrap_or(u32::MAX).saturating_mul(settings.flows),
        start: Some(Arc::clone(&start)),
        ..settings.clone()
    };
    near.check()?;
    let answers = ask_all(settings, agents)?;
    let gone: Vec<Arc<AtomicBool>> = agents.iter().map(|agent| agent.session.gone()).collect();
    let mut all_parts = Vec::new();
    for (number, (agent, answer)) in agents.iter().zip(&answers).enumerate() {
        let named = |error: WireError| WireError::Far(format!("{}: {error}", agent.name).into());
        all_parts.extend(parts(&near, settings, spans, agent.address, (&answer.ready, number * flows)).map_err(named)?);
    }
    let (lost, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let offsets: Vec<ClockOffset> = answers.iter().map(|answer| answer.offset).collect();
    let mut gathering = Gathering { inner: watch, agents, offsets: &offsets, start: &start, began_ns: 0 };
    let played = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if gone.iter().any(|gone| gone.load(Ordering::Relaxed)) {
                    lost.store(true, Ordering::Relaxed);
                }
                thread::sleep(LOOK);
            }
        });
        let played = conduct::run_flows(&near, spans, all_parts, Some(&lost), &mut gathering);
        over.store(true, Ordering::Relaxed);
        played
    });
    let start_ns = gathering.began_ns;
    let played = match played {
        Ok(played) => played,
        Err(error) => {
            let reported = stop_all(agents);
            return Err(reported.map_or(error, |why| WireError::Far(why.into())));
        }
    };
    Ok(gathered(settings, agents, played, (start_ns, &offsets, all)))
}

/// Starts the far ends, each after measuring its clock offset. If one refuses, the others are stopped.
fn ask_all(settings: &Settings, agents: &mut [Agent]) -> Result<Vec<StartedAgent>, WireError> {
    let versions: BTreeSet<&str> = agents.iter().map(|agent| agent.session.hello.version.as_str()).collect();
    let differ = (versions.len() > 1).then(|| versions.into_iter().collect::<Vec<_>>().join(" and "));
    let mut answers = Vec::new();
    for number in 0..agents.len() {
        match ask(settings, &mut agents[number]) {
            Ok(answer) => answers.push(answer),
            Err(why) => {
                let name = agents[number].name.clone();
                for agent in &mut agents[..number] {
                    // The refusal is more important than an error of the stop.
                    let _ = agent.session.stop();
                }
                let differ =
                    differ.map_or(String::new(), |versions| format!("; the agents are of versions {versions}"));
                return Err(WireError::Far(format!("{name}: {why}{differ}").into()));
            }
        }
    }
    Ok(answers)
}

fn ask(settings: &Settings, agent: &mut Agent) -> Result<StartedAgent, String> {
    let session = &mut agent.session;
    let features = [
        (true, COMMON_START),
        (!settings.far_cpus.is_empty(), CPU_LISTS),
        (settings.shared_threads().is_some(), SHARED_THREADS),
        (settings.far_rx.is_some(), RX_CPU),
    ];
    if let Some((_, feature)) = features.into_iter().find(|(needed, feature)| *needed && !session.offers(feature)) {
        return Err(session.lacks(feature));
    }
    let offset = common_clock::offset(session)?;
    let order = FarEndRequest { together: true, ..FarEndRequest::of(settings).map_err(|e| e.to_string())? };
    let ready = session.start(TransferKind::NAME, &order).map_err(|e| e.to_string())?;
    Ok(StartedAgent { ready, offset })
}

/// Ends all tests. Returns the first failure that an agent reports.
fn stop_all(agents: &mut [Agent]) -> Option<String> {
    let mut why = None;
    for agent in agents {
        match agent.session.stop() {
            Ok(last) => {
                let failed =
                    last.report.get("failed").and_then(|failed| Option::<Refusal>::deserialize(failed).ok()?);
                why = why.or(failed.map(|failed| format!("{}: {failed}", agent.name)));
            }
            Err(error) => why = Some(format!("{}: {error}", agent.name)),
        }
    }
    why
}

/// Collects the results of both ends, agent by agent.
fn gathered(
    settings: &Settings,
    agents: &mut [Agent],
    played: Played,
    (start_ns, offsets, all): (u64, &[ClockOffset], usize),
) -> Transfer {
    let flows = all / agents.len().max(1);
    let whole = played.stopped.is_none();
    let mut sides = played.sides.into_iter();
    let (mut made, mut parts) = (Vec::new(), Vec::new());
    // The reason and its priority: the failure of one agent also breaks the flows of the others.
    let mut cut_short: Option<(u8, String)> = None;
    for (number, agent) in agents.iter_mut().enumerate() {
        let reported = last_report(&mut agent.session, settings, whole);
        let sure = match &reported {
            Err(_) => GONE,
            Ok(report) if report.failed.is_some() => FAILED,
            Ok(_) => BROKEN,
        };
        let own = Played { sides: sides.by_ref().take(flows).collect(), stopped: None };
        let transfer = together(settings, own, reported);
        let flows = number * flows..(number + 1) * flows;
        let began = transfer.flows.iter().filter_map(|flow| {
            let began_ns = flow.sender.began_ns?;
            Some(if flow.forward { began_ns } else { offsets[number].ours(began_ns) })
        });
        parts.push(AgentPart {
            name: agent.name.clone(),
            flows,
            began_ns: began.min(),
            clock_error_ns: offsets[number].error_ns,
        });
        if let Some(why) = transfer.cut_short.filter(|_| cut_short.as_ref().is_none_or(|(known, _)| sure > *known)) {
            cut_short = Some((sure, format!("{}: {why}", agent.name)));
        }
        made.extend(transfer.flows);
    }
    let cut_short = cut_short.map(|(_, why)| why);
    let stopped = played.stopped.filter(|why| cut_short.is_none() || *why == Stopped::OnRequest);
    let cut_short = stopped.map(|why| why.to_string()).or(cut_short);
    Transfer { flows: made, cut_short, far: None, many: Some(Many { start_ns, agents: parts }) }
}

/// Sends the start time when all ends are ready. Passes all other calls on to the caller's watch.
struct Gathering<'a> {
    inner: &'a mut dyn Watch,
    agents: &'a mut [Agent],
    offsets: &'a [ClockOffset],
    start: &'a StartTime,
    began_ns: u64,
}

impl Watch for Gathering<'_> {
    fn gathered(&mut self) {
        self.began_ns = clock::monotonic_ns() + LEAD_NS;
        for (agent, offset) in self.agents.iter_mut().zip(self.offsets) {
            // The loss of an agent is noticed elsewhere.
            let _ = agent.session.tell(&StartNotice { begin_at_ns: offset.theirs(self.began_ns) });
        }
        self.start.tell(self.began_ns);
    }

    fn opened(&mut self) {
        self.inner.opened();
    }

    fn closed(&mut self) {
        self.inner.closed();
    }

    fn interval(&self) -> Option<Duration> {
        self.inner.interval()
    }

    fn observes(&self) -> bool {
        self.inner.observes()
    }

    fn sockets(&mut self, sockets: Vec<(bool, OwnedFd)>) {
        self.inner.sockets(sockets);
    }

    fn passed(&mut self, interval: &Interval) {
        self.inner.passed(interval);
    }
}
