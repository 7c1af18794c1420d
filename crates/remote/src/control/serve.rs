//! One client of an agent, from its first byte to its last: the agent's services for it, and what the agent logs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::channel::{POLL_INTERVAL, Receiver, Sender};
use super::far::{Context, FarEnd, Kind, Opened, Service};
use super::key::{Key, Token};
use super::memory::{Memory, Share};
use super::message::{ClockId, Final, FromAgent, Hello, Ready, ToAgent};
use super::stream::Stream;
use super::{ControlError, Limits, handshake};
use netcliff_packets::error::{Refusal, SETTINGS};

/// The configuration of an agent.
#[derive(Clone)]
pub struct Settings {
    /// The key that clients must have. May be omitted on loopback addresses, where clients must belong to this
    /// process's user or root.
    pub key: Option<Key>,
    /// Limits that clients must respect.
    pub limits: Limits,
    /// The kinds of test that the agent runs.
    pub kinds: Vec<Arc<dyn Kind>>,
    /// Services that the agent offers in addition to tests.
    pub services: Vec<Arc<dyn Service>>,
    /// Version of the program.
    pub version: String,
    /// Flag that ends the agent.
    pub stop: Arc<AtomicBool>,
}

/// An event for the agent's log.
#[derive(Debug)]
pub enum Event<'a> {
    /// A connection was refused or ended by an error.
    Refused(&'a ControlError),
    /// A client has connected.
    Came {
        /// Name of the client.
        peer: &'a str,
        /// Number of clients, this one included.
        clients: usize,
    },
    /// A client has left.
    Left,
    /// A test began.
    Started {
        /// Name of the client.
        peer: &'a str,
        /// The kind of test.
        kind: &'a str,
    },
    /// A test ended.
    Ended {
        /// Name of the client.
        peer: &'a str,
        /// The kind of test.
        kind: &'a str,
        /// Why the test ended before the client stopped it. `None` if it did not.
        early: Option<&'a str>,
        /// Summary of what was counted. `None` if the kind of test has no summary.
        counted: Option<&'a str>,
    },
}

/// Receives the events; called from several threads.
pub type Log = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// The parts of an agent that serving one client needs.
#[derive(Clone, Copy)]
pub(super) struct AgentContext<'a> {
    pub settings: &'a Settings,
    pub log: &'a Log,
    pub memory: &'a Arc<Memory>,
}

/// Serves a client until it disconnects, falls silent, or the agent stops. This also ends its running test.
pub(super) fn serve(
    stream: Stream,
    local: Option<IpAddr>,
    agent: AgentContext<'_>,
    authenticated: impl FnOnce(),
) -> Result<(), ControlError> {
    let limits = agent.settings.limits;
    let (sender, mut receiver) = handshake::answer(stream, agent.settings.key.as_ref(), limits)?;
    let settings = greeted(&mut receiver, &limits)?.features.iter().any(|feature| feature == SETTINGS);
    authenticated();
    let peer = receiver.peer().to_owned();
    let mut client = Client {
        sender,
        peer,
        local,
        settings,
        agent,
        test: None,
        opened: BTreeMap::new(),
        heard: Instant::now(),
        used: Instant::now(),
    };
    let ended = client.attend(&mut receiver);
    let early = ended.as_ref().err().map(ToString::to_string);
    client.end_test(early.as_deref());
    match ended {
        // A client without a test may disconnect at any time.
        Err(ControlError::Closed { .. }) => Ok(()),
        other => other,
    }
}

/// Waits for the client's hello, within the time of a handshake. The hello proves the peer's key.
fn greeted(receiver: &mut Receiver<ToAgent>, limits: &Limits) -> Result<Hello, ControlError> {
    match receiver.receive(Duration::from_secs_f64(limits.handshake_s))? {
        Some(ToAgent::Hello(hello)) => Ok(hello),
        Some(other) => Err(out_of_turn(receiver.peer(), &other, "hello")),
        None => Err(ControlError::Slow {
            peer: receiver.peer().to_owned(),
            what: "the handshake",
            limit_s: limits.handshake_s,
        }),
    }
}

fn out_of_turn(peer: &str, said: &ToAgent, expected: &'static str) -> ControlError {
    ControlError::OutOfTurn { peer: peer.to_owned(), said: said.name().to_owned(), expected }
}

/// A running test of this client.
struct Running {
    kind: Arc<dyn Kind>,
    far: Box<dyn FarEnd>,
    since: Instant,
    /// Memory reserved for the test.
    share: Share,
}

struct Client<'a> {
    sender: Sender<FromAgent>,
    peer: String,
    local: Option<IpAddr>,
    /// Whether the client understands refusals that name the refused setting.
    settings: bool,
    agent: AgentContext<'a>,
    test: Option<Running>,
    /// Services that this client has opened. They undo their changes when the client leaves.
    opened: BTreeMap<&'static str, Box<dyn Opened>>,
    /// Time of the client's last message.
    heard: Instant,
    /// Time at which the client last had a test or used a service.
    used: Instant,
}

impl Client<'_> {
    fn attend(&mut self, receiver: &mut Receiver<ToAgent>) -> Result<(), ControlError> {
        let limits = self.agent.settings.limits;
        self.sender.send(&FromAgent::Hello(self.hello()))?;
        let heartbeat_interval = Duration::from_secs_f64(limits.heartbeat_interval_s());
        let mut signed = Instant::now();
        while !self.agent.settings.stop.load(Ordering::Relaxed) {
            if let Some(said) = receiver.receive(POLL_INTERVAL.min(heartbeat_interval))? {
                self.heard = Instant::now();
                self.obey(said)?;
            }
            if self.heard.elapsed().as_secs_f64() > limits.silence_s {
                return Err(ControlError::Silent { peer: self.peer.clone(), silence_s: limits.silence_s });
            }
            if signed.elapsed() >= heartbeat_interval {
                self.sender.send(&FromAgent::Alive)?;
                signed = Instant::now();
            }
            if !self.go_on(&limits)? {
                return Ok(());
            }
        }
        self.sender.hurry();
        self.finish(Some("the agent was stopped".into()))
    }

    /// Ends a test that is finished or exceeds its time. Returns false if a client without a test exceeds the idle
    /// time.
    fn go_on(&mut self, limits: &Limits) -> Result<bool, ControlError> {
        let Some(test) = &mut self.test else {
            return Ok(self.used.elapsed().as_secs_f64() <= limits.idle_s);
        };
        self.used = Instant::now();
        if test.far.finished() {
            self.finish(None)?;
        } else if test.since.elapsed().as_secs_f64() > limits.test_s {
            self.finish(Some(format!("the agent ends tests after {} s", limits.test_s)))?;
        }
        Ok(true)
    }

    fn obey(&mut self, said: ToAgent) -> Result<(), ControlError> {
        match (said, &mut self.test) {
            (ToAgent::Alive, _) => Ok(()),
            (ToAgent::Start { kind, settings }, None) => self.start(&kind, &settings),
            (ToAgent::Report, Some(test)) => match test.far.report() {
                Ok(report) => self.sender.send(&FromAgent::Report(report)),
                Err(why) => self.finish(Some(why)),
            },
            (ToAgent::Tell(said), Some(test)) => match test.far.tell(said) {
                Ok(()) => Ok(()),
                Err(why) => self.finish(Some(why)),
            },
            (ToAgent::Stop, Some(_)) => self.finish(None),
            // The test ended by itself while the request was on its way: no answer is needed.
            (ToAgent::Report | ToAgent::Tell(_) | ToAgent::Stop, None) => Ok(()),
            (ToAgent::Ask { service, request }, None) => self.ask(&service, request),
            (ToAgent::Ask { service, .. }, Some(_)) => {
                let refused = format!("a test is running: {service} can be asked between tests");
                self.sender.send(&FromAgent::Error(refused.into()))
            }
            (said @ (ToAgent::Start { .. } | ToAgent::Hello(_)), _) => {
                let error = out_of_turn(&self.peer, &said, "report, stop or alive");
                self.sender.send(&FromAgent::Error(error.to_string().into()))?;
                Err(error)
            }
        }
    }

    fn start(&mut self, name: &str, settings: &Value) -> Result<(), ControlError> {
        let Some(kind) = self.agent.settings.kinds.iter().find(|kind| kind.name() == name) else {
            let can = self.hello().can.join(", ");
            return self.sender.send(&FromAgent::Error(format!("no test `{name}` here; there is {can}").into()));
        };
        let context = Context { local: self.local, token: Token::new()?, settings: self.settings };
        let started = Memory::take(self.agent.memory, kind.memory_bytes(settings))
            .map_err(Refusal::from)
            .and_then(|share| Ok((share, kind.start(settings, &context)?)));
        match started {
            Err(why) => self.sender.send(&FromAgent::Error(why.for_client(self.settings))),
            Ok((share, far)) => {
                let ready = Ready { ports: far.ports(), token: context.token, info: far.info() };
                self.test = Some(Running { kind: Arc::clone(kind), far, since: Instant::now(), share });
                (self.agent.log)(&Event::Started { peer: &self.peer, kind: name });
                self.sender.send(&FromAgent::Ready(ready))
            }
        }
    }

    fn ask(&mut self, name: &str, request: Value) -> Result<(), ControlError> {
        let answer = self.asked(name, request);
        // The request may have taken long, and the client's heartbeats were not read during that time.
        (self.heard, self.used) = (Instant::now(), Instant::now());
        self.sender.send(&answer.map_or_else(|why| FromAgent::Error(why.into()), FromAgent::Answer))
    }

    fn asked(&mut self, name: &str, request: Value) -> Result<Value, String> {
        let service = self.agent.settings.services.iter().find(|service| service.name() == name);
        let service = service.ok_or_else(|| format!("no service `{name}` here"))?;
        if !self.opened.contains_key(service.name()) {
            self.opened.insert(service.name(), service.open()?);
        }
        self.opened.get_mut(service.name()).map_or_else(|| Err(format!("`{name}` is gone")), |open| open.ask(request))
    }

    fn finish(&mut self, partial: Option<String>) -> Result<(), ControlError> {
        let Some((report, share)) = self.end_test(partial.as_deref()) else { return Ok(()) };
        let sent = self.sender.send(&FromAgent::Final(Final { report, partial }));
        drop(share);
        sent
    }

    /// Ends the test. Returns its last report and the memory reserved for it.
    fn end_test(&mut self, early: Option<&str>) -> Option<(Value, Share)> {
        let Running { kind, far, share, since: _ } = self.test.take()?;
        let report = far.stop();
        let counted = early.and_then(|_| kind.summary(&report));
        (self.agent.log)(&Event::Ended { peer: &self.peer, kind: kind.name(), early, counted: counted.as_deref() });
        Some((report, share))
    }

    fn hello(&self) -> Hello {
        let of_kinds = self.agent.settings.kinds.iter().flat_map(|kind| kind.features()).copied();
        let services = || self.agent.settings.services.iter();
        let of_services = services().flat_map(|service| service.features()).copied();
        let features: BTreeSet<&str> =
            of_kinds.chain(services().map(|service| service.name())).chain(of_services).collect();
        Hello {
            version: self.agent.settings.version.clone(),
            can: self.agent.settings.kinds.iter().map(|kind| kind.name().to_owned()).collect(),
            features: features.into_iter().map(str::to_owned).collect(),
            clock: ClockId::of_this_process(),
        }
    }
}
