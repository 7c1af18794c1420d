//! The near end: connects to an agent; starts, queries and stops a test there.

use netcliff_core::endpoint::Endpoint;
use netcliff_packets::error::SETTINGS;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::channel::{POLL_INTERVAL, Receiver, Sender};
use super::key::Key;
use super::message::{ClockId, Final, FromAgent, Hello, Ready, ToAgent};
use super::stream::Stream;
use super::{ControlError, Limits, PORT, handshake};

/// A connection to an agent. A separate thread sends heartbeats and notices when the agent is gone.
#[derive(Debug)]
pub struct Session {
    /// The agent's hello.
    pub hello: Hello,
    /// Address of the agent's host, for data connections; `None` over pipes.
    pub address: Option<IpAddr>,
    peer: String,
    limits: Limits,
    sender: Arc<Mutex<Sender<ToAgent>>>,
    inbox: mpsc::Receiver<Result<FromAgent, ControlError>>,
    gone: Arc<AtomicBool>,
    leave: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

/// State of a running test.
#[derive(Debug)]
pub enum Progress {
    /// The test goes on; its counts so far.
    Running(Value),
    /// The test has ended by itself; its last report.
    Ended(Final),
}

impl Session {
    /// Connects to `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
    ///
    /// # Errors
    /// The port is wrong, the name has no address, nobody answers, or the handshake fails.
    pub fn connect(target: &str, key: Option<&Key>, version: &str, limits: Limits) -> Result<Self, ControlError> {
        let mut last = None;
        for address in resolve(target)? {
            match TcpStream::connect_timeout(&address, Duration::from_secs_f64(limits.handshake_s)) {
                Ok(stream) => {
                    let stream = Stream::tcp(stream).map_err(ControlError::system(format!("talk to {address}")))?;
                    return Self::over(stream, Some(address.ip()), key, version, limits);
                }
                Err(source) => last = Some(ControlError::Unreachable { peer: address.to_string(), source }),
            }
        }
        let nothing = || std::io::Error::other("it has no address of a kind this host uses");
        Err(last.unwrap_or_else(|| ControlError::NotResolved { host: target.to_owned(), source: nothing() }))
    }

    /// Connects to an agent over an existing stream, such as the pipes of an ssh that runs `agent --stdio`.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn over(
        stream: Stream,
        address: Option<IpAddr>,
        key: Option<&Key>,
        version: &str,
        limits: Limits,
    ) -> Result<Self, ControlError> {
        let (mut sender, mut receiver) = handshake::dial(stream, key, limits)?;
        let ours = Hello {
            version: version.to_owned(),
            can: Vec::new(),
            features: vec![SETTINGS.to_owned()],
            clock: ClockId::of_this_process(),
        };
        sender.send(&ToAgent::Hello(ours))?;
        let peer = receiver.peer().to_owned();
        let hello = match receiver.receive(Duration::from_secs_f64(limits.handshake_s))? {
            Some(FromAgent::Hello(hello)) => hello,
            Some(other) => {
                return Err(ControlError::OutOfTurn { peer, said: other.name().to_owned(), expected: "hello" });
            }
            None => return Err(ControlError::Slow { peer, what: "the handshake", limit_s: limits.handshake_s }),
        };
        let sender = Arc::new(Mutex::new(sender));
        let (post, inbox) = mpsc::channel();
        let (gone, leave) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let keeper = Keeper { receiver, sender: Arc::clone(&sender), post, leave: Arc::clone(&leave), limits };
        let lost = Arc::clone(&gone);
        let keeper = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || keeper.keep(&lost))
            .map_err(ControlError::system("start a thread for the control channel"))?;
        Ok(Self { hello, address, peer, limits, sender, inbox, gone, leave, keeper: Some(keeper) })
    }

    /// Starts a test and waits until the agent accepts its data connections.
    ///
    /// # Errors
    /// The agent does not have the test, refuses the settings, or is gone.
    pub fn start(&mut self, kind: &str, settings: &impl Serialize) -> Result<Ready, ControlError> {
        if !self.hello.can.iter().any(|can| can == kind) {
            let (peer, can) = (self.peer.clone(), self.hello.can.join(", "));
            return Err(ControlError::NoSuchTest { peer, kind: kind.to_owned(), can });
        }
        let settings = serde_json::to_value(settings)
            .map_err(|e| ControlError::Malformed { peer: "this end".into(), why: e.to_string() })?;
        self.send(&ToAgent::Start { kind: kind.to_owned(), settings })?;
        match self.answer()? {
            FromAgent::Ready(ready) => Ok(ready),
            other => Err(self.unexpected(other, "ready")),
        }
    }

    /// Requests what the test has counted so far.
    ///
    /// # Errors
    /// The test has ended early, or the agent is gone.
    pub fn report(&mut self) -> Result<Value, ControlError> {
        self.send(&ToAgent::Report)?;
        match self.answer()? {
            FromAgent::Report(report) => Ok(report),
            other => Err(self.unexpected(other, "report")),
        }
    }

    /// Requests what a test that may end by itself has counted so far, or its last report.
    ///
    /// # Errors
    /// The test has failed, or the agent is gone.
    pub fn progress(&mut self) -> Result<Progress, ControlError> {
        self.send(&ToAgent::Report)?;
        match self.answer()? {
            FromAgent::Report(report) => Ok(Progress::Running(report)),
            FromAgent::Final(last) => Ok(Progress::Ended(last)),
            other => Err(self.unexpected(other, "report")),
        }
    }

    /// Sends the running test information that it waits for.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn tell(&mut self, said: &impl Serialize) -> Result<(), ControlError> {
        let said = serde_json::to_value(said)
            .map_err(|e| ControlError::Malformed { peer: "this end".into(), why: e.to_string() })?;
        self.send(&ToAgent::Tell(said))
    }

    /// Ends the test and returns its last report.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn stop(&mut self) -> Result<Final, ControlError> {
        self.send(&ToAgent::Stop)?;
        loop {
            match self.answer()? {
                FromAgent::Final(last) => return Ok(last),
                // This report answers a request that was given up.
                FromAgent::Report(_) => {}
                other => return Err(self.unexpected(other, "final")),
            }
        }
    }

    /// Sends a request to a service of the agent's host. The service undoes its changes when this session ends.
    ///
    /// # Errors
    /// The agent has no such service or refuses the request, or it is gone.
    pub fn ask(&mut self, service: &str, request: &impl Serialize) -> Result<Value, ControlError> {
        let request = serde_json::to_value(request)
            .map_err(|e| ControlError::Malformed { peer: "this end".into(), why: e.to_string() })?;
        self.send(&ToAgent::Ask { service: service.to_owned(), request })?;
        match self.answer()? {
            FromAgent::Answer(answer) => Ok(answer),
            other => Err(self.unexpected(other, "answer")),
        }
    }

    /// Whether the agent has a feature or service of this name.
    pub fn offers(&self, feature: &str) -> bool {
        self.hello.features.iter().any(|offered| offered == feature)
    }

    /// The error message for an agent that does not offer `feature`.
    pub fn lacks(&self, feature: &str) -> String {
        let version = &self.hello.version;
        format!("the agent (netcliff {version}) does not offer {feature}: install the same version on both hosts")
    }

    /// Waits for the end of a test that ends by itself. `None` if it has not ended after `patience`.
    ///
    /// # Errors
    /// The agent is gone, or sends another message.
    pub fn last(&mut self, patience: Duration) -> Result<Option<Final>, ControlError> {
        match self.inbox.recv_timeout(patience) {
            Ok(Ok(FromAgent::Final(last))) => Ok(Some(last)),
            Ok(Ok(FromAgent::Error(message))) => Err(ControlError::Refused { peer: self.peer.clone(), message }),
            Ok(Ok(other)) => Err(self.unexpected(other, "final")),
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ControlError::Closed { peer: self.peer.clone() }),
        }
    }

    /// A flag that is set when the agent is gone. A test's own threads check it and end.
    pub fn gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    /// Name of the agent, for messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether both ends read the same `CLOCK_MONOTONIC`.
    pub fn shares_clock(&self) -> bool {
        self.hello.clock.is_some() && self.hello.clock == ClockId::of_this_process()
    }

    fn send(&mut self, message: &ToAgent) -> Result<(), ControlError> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message)
    }

    fn answer(&mut self) -> Result<FromAgent, ControlError> {
        // The keeper thread notices silence after one silence limit. Silence for twice as long means that the keeper
        // itself does not run.
        match self.inbox.recv_timeout(Duration::from_secs_f64(2.0 * self.limits.silence_s)) {
            Ok(Ok(FromAgent::Error(message))) => Err(ControlError::Refused { peer: self.peer.clone(), message }),
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(ControlError::Silent { peer: self.peer.clone(), silence_s: self.limits.silence_s })
            }
            Err(RecvTimeoutError::Disconnected) => Err(ControlError::Closed { peer: self.peer.clone() }),
        }
    }

    fn unexpected(&self, said: FromAgent, expected: &'static str) -> ControlError {
        let peer = self.peer.clone();
        match said {
            FromAgent::Final(Final { partial: Some(why), .. }) => ControlError::Refused { peer, message: why.into() },
            other => ControlError::OutOfTurn { peer, said: other.name().to_owned(), expected },
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked needs no further handling.
            let _ = keeper.join();
        }
    }
}

/// Reads messages for the session and sends heartbeats, in a separate thread.
struct Keeper {
    receiver: Receiver<FromAgent>,
    sender: Arc<Mutex<Sender<ToAgent>>>,
    post: mpsc::Sender<Result<FromAgent, ControlError>>,
    leave: Arc<AtomicBool>,
    limits: Limits,
}

impl Keeper {
    fn keep(mut self, gone: &AtomicBool) {
        let kept = self.run();
        gone.store(true, Ordering::Relaxed);
        if let Err(error) = kept {
            // Nobody reads this error while the session is being dropped.
            let _ = self.post.send(Err(error));
        }
    }

    fn run(&mut self) -> Result<(), ControlError> {
        let heartbeat_interval = Duration::from_secs_f64(self.limits.heartbeat_interval_s());
        let (mut heard, mut signed) = (Instant::now(), Instant::now());
        while !self.leave.load(Ordering::Relaxed) {
            match self.receiver.receive(POLL_INTERVAL.min(heartbeat_interval))? {
                Some(FromAgent::Alive) => heard = Instant::now(),
                Some(said) => {
                    heard = Instant::now();
                    if self.post.send(Ok(said)).is_err() {
                        return Ok(());
                    }
                }
                None if heard.elapsed().as_secs_f64() > self.limits.silence_s => {
                    let peer = self.receiver.peer().to_owned();
                    return Err(ControlError::Silent { peer, silence_s: self.limits.silence_s });
                }
                None => {}
            }
            if signed.elapsed() >= heartbeat_interval {
                self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(&ToAgent::Alive)?;
                signed = Instant::now();
            }
        }
        Ok(())
    }
}

/// Resolves `HOST[:PORT]` to its addresses.
fn resolve(target: &str) -> Result<Vec<SocketAddr>, ControlError> {
    let endpoint = target.parse::<Endpoint>();
    let endpoint = endpoint.map_err(|why| ControlError::NotAnEndpoint { target: target.to_owned(), why })?;
    let named = (endpoint.host.as_str(), endpoint.port.unwrap_or(PORT)).to_socket_addrs();
    Ok(named.map_err(|source| ControlError::NotResolved { host: target.to_owned(), source })?.collect())
}
