//! Reversed roles: a test runs in an agent, and the agent's client sends the load. The test puts commands into an
//! [`OrderQueue`]. The client fetches them with the test's reports, carries them out by an [`OrderHandler`], and sends
//! back the results. If other agents send, the client forwards each generator's commands by a [`Relay`]; each generator
//! has its own queue. A test can also have its client compute something.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::near::LoadProgress;
use super::{Carrier, LoadKind, LoadReady, LoadReport, LoadRequest, Permission, far_failure};
use crate::control::far::{Context, FarEnd, Kind};
use crate::control::key::Token;
use netcliff_packets::error::WireError;
use netcliff_packets::generator::RateLimits;
use netcliff_packets::thread::Priority;

/// A command to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeneratorCommand {
    /// Send this load.
    Begin(Box<LoadRequest>),
    /// End the load.
    Stop,
    /// Compute something while the load, if any, goes on.
    Compute {
        /// Number that identifies the answer.
        id: u64,
        /// What to compute, in the test's own form.
        job: Value,
    },
}

/// A report of the client on its generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClientReport {
    /// The generator accepted the load and is about to send.
    Ready(LoadReady),
    /// The generator cannot send, with the reason.
    Refused(String),
    /// Number of frames offered so far.
    Sent(u64),
    /// The generator has ended.
    Ended(Box<LoadReport>),
    /// Number of a computation, and its result.
    Computed(u64, Value),
    /// The agent of the generator is gone, with the reason.
    Gone(String),
}

/// One chunk of a client's report: JSON text in hexadecimal. An agent bounds the length of a message and the number of
/// its values, which it counts by brackets and commas. A report has a histogram with thousands of values; as
/// hexadecimal text it is one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    text: String,
    last: bool,
    /// Place of the generator that the report is about.
    #[serde(default, skip_serializing_if = "is_first")]
    generator: usize,
}

impl Chunk {
    /// Names the generator that the report is about by its place.
    pub fn of_generator(self, place: usize) -> Self {
        Self { generator: place, ..self }
    }

    /// Place of the generator that a client's message is about; the first one if the message names none.
    pub fn generator_of(message: &Value) -> usize {
        let place = message.get("generator").and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(place).unwrap_or(usize::MAX)
    }
}

/// Whether a place is that of the first generator, which messages omit.
pub fn is_first(place: &usize) -> bool {
    *place == 0
}

/// Longest text of a chunk (bytes). In hexadecimal it is half of the longest message that an agent accepts.
const CHUNK_BYTES: usize = 16 << 10;
/// Longest text of one report (bytes), which an [`OrderQueue`] stores: room for an hour of slots and all stalls.
pub const LONGEST_BYTES: usize = 32 << 20;
/// Time allowed for the client's answer to a command \[s\]. The client may need a few seconds to resolve a neighbour's
/// address.
const ANSWER_S: f64 = 15.0;
/// Time allowed for a computation \[s\]. One load of a chain with a moderated NIC and an application takes seconds; a
/// cliff needs about ten loads.
const COMPUTED_S: f64 = 900.0;
/// A client that reports nothing about a running generator for this long is gone.
const SILENCE: Duration = Duration::from_secs(4);
/// Interval between progress reports of the client.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// The queue of a test's commands to its client, and the client's answers.
#[derive(Debug, Default)]
pub struct OrderQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<GeneratorCommand>,
    text: Vec<u8>,
    ready: Option<Result<LoadReady, String>>,
    sent: u64,
    ended: Option<LoadReport>,
    heard: Option<Instant>,
    /// Number of computations requested so far, and the answers that nobody has taken yet.
    computing: u64,
    computed: HashMap<u64, Value>,
    /// Why no answers come any more.
    gone: Option<String>,
}

/// The reason if the client is gone.
const CLIENT_GONE: &str = "the host that sends is gone";

impl OrderQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves no half-written state: each change is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the next command for the client. `None` if no command waits.
    pub fn next(&self) -> Option<GeneratorCommand> {
        self.state().orders.pop_front()
    }

    /// Accepts one chunk of a client's report.
    ///
    /// # Errors
    /// The chunk is malformed, or the report is longer than 32 MiB (`LONGEST_BYTES`).
    pub fn take(&self, chunk: Value) -> Result<(), String> {
        let chunk: Chunk = serde_json::from_value(chunk).map_err(|e| e.to_string())?;
        let mut state = self.state();
        if state.text.len() + chunk.text.len() > LONGEST_BYTES {
            return Err(format!("more than {LONGEST_BYTES} bytes about a generator"));
        }
        state.text.extend(bytes_of(&chunk.text)?);
        state.heard = Some(Instant::now());
        if !chunk.last {
            return Ok(());
        }
        let text = std::mem::take(&mut state.text);
        match serde_json::from_slice(&text).map_err(|e| e.to_string())? {
            ClientReport::Ready(ready) => state.ready = Some(Ok(ready)),
            ClientReport::Refused(why) => state.ready = Some(Err(why)),
            ClientReport::Sent(sent) => state.sent = sent,
            ClientReport::Ended(report) => state.ended = Some(*report),
            ClientReport::Computed(id, _) if id >= state.computing => {
                return Err(format!("computation {id} was not ordered"));
            }
            ClientReport::Computed(id, answer) => {
                state.computed.insert(id, answer);
            }
            ClientReport::Gone(why) => state.gone = Some(why),
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Records that the client is gone, so that waiting threads return.
    pub fn leave(&self) {
        self.state().gone.get_or_insert_with(|| CLIENT_GONE.to_owned());
        self.changed.notify_all();
    }

    /// Requests a computation from the client and waits for the answer.
    ///
    /// # Errors
    /// The client is gone, or the answer takes longer than 15 minutes (`COMPUTED_S`).
    pub fn compute(&self, job: Value) -> Result<Value, WireError> {
        let id = {
            let mut state = self.state();
            let id = state.computing;
            state.computing += 1;
            state.orders.push_back(GeneratorCommand::Compute { id, job });
            id
        };
        self.wait(COMPUTED_S, |state| state.computed.remove(&id))
    }

    /// Waits up to `most_s` until `of` finds an answer in the state.
    fn wait<T>(&self, most_s: f64, mut of: impl FnMut(&mut State) -> Option<T>) -> Result<T, WireError> {
        let until = Instant::now() + Duration::from_secs_f64(most_s);
        let mut state = self.state();
        loop {
            if let Some(answer) = of(&mut state) {
                return Ok(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.gone.is_some() || left.is_zero() {
                return Err(far_failure(state.gone.as_deref().unwrap_or(CLIENT_GONE)));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The generator on the client's host, seen from the test in the agent.
#[derive(Debug)]
pub struct Reverse {
    /// The commands for the client and its answers.
    pub desk: Arc<OrderQueue>,
    /// Whether both ends read the same monotonic clock.
    pub shares_clock: bool,
    /// Facts of the client's host.
    pub fingerprint: Fingerprint,
    /// Name of the client, for messages.
    pub peer: String,
}

impl Carrier for Reverse {
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError> {
        {
            let mut state = self.desk.state();
            (state.ready, state.ended, state.sent) = (None, None, 0);
            state.orders.push_back(GeneratorCommand::Begin(Box::new(request.clone())));
        }
        self.desk.wait(ANSWER_S, |state| state.ready.take())?.map_err(far_failure)
    }

    fn ask(&mut self) -> Result<LoadProgress, WireError> {
        match self.ended()? {
            Some(report) => Ok(LoadProgress::Ended(Box::new(report))),
            None => Ok(LoadProgress::Sent(self.desk.state().sent)),
        }
    }

    fn ended(&mut self) -> Result<Option<LoadReport>, WireError> {
        let mut state = self.desk.state();
        if let Some(report) = state.ended.take() {
            return Ok(Some(report));
        }
        if state.gone.is_some() || state.heard.is_some_and(|heard| heard.elapsed() > SILENCE) {
            return Err(far_failure(state.gone.as_deref().unwrap_or(CLIENT_GONE)));
        }
        Ok(None)
    }

    fn stop(&mut self) -> Result<LoadReport, WireError> {
        self.desk.state().orders.push_back(GeneratorCommand::Stop);
        self.desk.wait(ANSWER_S, |state| state.ended.take())
    }

    fn shares_clock(&self) -> bool {
        self.shares_clock
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        Some(self.fingerprint.clone())
    }

    fn peer(&self) -> String {
        self.peer.clone()
    }
}

/// Carries out the commands of a test in an agent for one generator.
pub trait Executor: Send {
    /// Carries out a command. Returns the chunks to send to the agent.
    fn obey(&mut self, order: &GeneratorCommand) -> Vec<Chunk>;

    /// Checks on the running generator. Returns the chunks to send to the agent. Call it many times a second, and only
    /// while the agent of the test answers: a generator that is not checked on stops.
    fn look(&mut self) -> Vec<Chunk>;
}

/// Runs the client's generator by the commands of a test in an agent.
pub struct OrderHandler {
    kind: LoadKind,
    /// Local address of the control connection.
    control: Option<IpAddr>,
    load: Option<Box<dyn FarEnd>>,
    reported: Instant,
}

impl std::fmt::Debug for OrderHandler {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OrderHandler")
            .field("kind", &self.kind)
            .field("sends", &self.load.is_some())
            .finish_non_exhaustive()
    }
}

impl OrderHandler {
    /// Prepares a generator in a network namespace (`None`: this process's namespace) that offers at most `most_pps`
    /// \[packets/s\].
    pub fn new(netns: Option<PathBuf>, control: Option<IpAddr>, most_pps: Option<f64>, priority: Priority) -> Self {
        let kind = LoadKind { permission: Permission::Any, netns, limits: RateLimits::of(most_pps), priority };
        Self { kind, control, load: None, reported: Instant::now() }
    }

    fn context(&self) -> Result<Context, String> {
        Ok(Context { local: self.control, token: Token::new().map_err(|e| e.to_string())?, settings: false })
    }

    fn end(&mut self) -> Vec<Chunk> {
        // A generator that ended by itself has been reported already.
        let Some(load) = self.load.take() else { return Vec::new() };
        let report = serde_json::from_value(load.stop()).unwrap_or_else(|error: serde_json::Error| LoadReport {
            failed: Some(error.to_string()),
            ..LoadReport::default()
        });
        chunks_of(&ClientReport::Ended(Box::new(report)))
    }
}

impl Executor for OrderHandler {
    fn obey(&mut self, order: &GeneratorCommand) -> Vec<Chunk> {
        match order {
            GeneratorCommand::Begin(request) => {
                let started = serde_json::to_value(request)
                    .map_err(|e| e.to_string())
                    .and_then(|settings| self.kind.start(&settings, &self.context()?).map_err(|why| why.to_string()));
                match started
                    .and_then(|load| Ok((serde_json::from_value(load.info()).map_err(|e| e.to_string())?, load)))
                {
                    Ok((ready, load)) => {
                        self.load = Some(load);
                        chunks_of(&ClientReport::Ready(ready))
                    }
                    Err(why) => chunks_of(&ClientReport::Refused(why)),
                }
            }
            GeneratorCommand::Stop => self.end(),
            // The caller carries out computations.
            GeneratorCommand::Compute { .. } => Vec::new(),
        }
    }

    fn look(&mut self) -> Vec<Chunk> {
        let Some(load) = &mut self.load else { return Vec::new() };
        if load.finished() {
            return self.end();
        }
        if self.reported.elapsed() < REPORT_INTERVAL {
            return Vec::new();
        }
        self.reported = Instant::now();
        let sent = load.report().ok().and_then(|report| report.get("sent")?.as_u64());
        chunks_of(&ClientReport::Sent(sent.unwrap_or(0)))
    }
}

/// Forwards the commands of a test in an agent to a generator in another agent. Dropping it ends the load, because the
/// connection to the generator ends with it.
#[derive(Debug)]
pub struct Relay {
    carrier: Box<dyn Carrier>,
    sends: bool,
    asked: Instant,
}

impl Relay {
    /// Prepares to forward commands to the generator at the other end of `carrier`.
    pub fn new(carrier: Box<dyn Carrier>) -> Self {
        Self { carrier, sends: false, asked: Instant::now() }
    }

    /// The chunks that report progress or the end of the load.
    fn reported(&mut self, outcome: Result<LoadProgress, WireError>) -> Vec<Chunk> {
        self.sends = matches!(outcome, Ok(LoadProgress::Sent(_)));
        chunks_of(&match outcome {
            Ok(LoadProgress::Sent(sent)) => ClientReport::Sent(sent),
            Ok(LoadProgress::Ended(report)) => ClientReport::Ended(report),
            Err(error) => ClientReport::Gone(error.to_string()),
        })
    }
}

impl Executor for Relay {
    fn obey(&mut self, order: &GeneratorCommand) -> Vec<Chunk> {
        match order {
            GeneratorCommand::Begin(request) => {
                let begun = self.carrier.begin(request);
                (self.sends, self.asked) = (begun.is_ok(), Instant::now());
                chunks_of(&begun.map_or_else(|why| ClientReport::Refused(why.to_string()), ClientReport::Ready))
            }
            GeneratorCommand::Stop if self.sends => {
                let stopped = self.carrier.stop();
                self.reported(stopped.map(|report| LoadProgress::Ended(Box::new(report))))
            }
            // A generator that ended by itself has been reported already. The caller carries out computations.
            GeneratorCommand::Stop | GeneratorCommand::Compute { .. } => Vec::new(),
        }
    }

    fn look(&mut self) -> Vec<Chunk> {
        if !self.sends {
            return Vec::new();
        }
        match self.carrier.ended() {
            Ok(None) if self.asked.elapsed() < REPORT_INTERVAL => Vec::new(),
            Ok(None) => {
                self.asked = Instant::now();
                let progress = self.carrier.ask();
                self.reported(progress)
            }
            Ok(Some(report)) => self.reported(Ok(LoadProgress::Ended(Box::new(report)))),
            Err(error) => self.reported(Err(error)),
        }
    }
}

/// The chunks that report the answer to the [`GeneratorCommand::Compute`] with this number.
pub fn computed(id: u64, answer: Value) -> Vec<Chunk> {
    chunks_of(&ClientReport::Computed(id, answer))
}

fn chunks_of(report: &ClientReport) -> Vec<Chunk> {
    // Serialisation cannot fail: the data are numbers and names.
    let text = serde_json::to_vec(report).unwrap_or_default();
    let parts: Vec<&[u8]> = text.chunks(CHUNK_BYTES).collect();
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect();
    let chunk =
        |(place, part): (usize, &&[u8])| Chunk { text: hex(part), last: place + 1 == parts.len(), generator: 0 };
    parts.iter().enumerate().map(chunk).collect()
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    bytes.ok_or_else(|| "about a generator: expected hexadecimal text".to_owned())
}

#[cfg(test)]
mod tests;
