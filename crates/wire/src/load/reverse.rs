//! The reverse: a test in an agent has its client send the load. The test puts orders on a [`Desk`], its client takes them with the
//! test's reports, has them done by a [`Hand`], and tells what came of them. A test may have its client compute, too.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::near::Asked;
use super::{Carrier, LoadKind, LoadReady, LoadReport, LoadRequest, Permission, far_failure};
use crate::control::far::{Context, FarEnd, Kind};
use crate::control::key::Token;
use crate::error::WireError;
use crate::generator::RateLimits;
use crate::thread::Priority;

/// What the client's generator shall do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Send this.
    Begin(Box<LoadRequest>),
    /// End it.
    Stop,
    /// Compute this, beside whatever is sent.
    Compute {
        /// Under which number the answer is expected.
        id: u64,
        /// What to compute, in the words of the test.
        job: Value,
    },
}

/// What the client says of its generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    /// It sends soon.
    Ready(LoadReady),
    /// It cannot.
    Refused(String),
    /// So many frames so far.
    Sent(u64),
    /// It has ended.
    Ended(Box<LoadReport>),
    /// What it computed.
    Computed(u64, Value),
}

/// A part of what is said, as JSON text in hexadecimal: a message to an agent is bounded in length and in values, which are counted by
/// the brackets and commas that they need, and a histogram has thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    text: String,
    last: bool,
}

/// Longest text of a piece (bytes): in hexadecimal half of the longest message that an agent takes.
const PIECE_BYTES: usize = 16 << 10;
/// Longest text of one saying (bytes): an hour of slots and all stalls.
const LONGEST_BYTES: usize = 32 << 20;
/// How long the client may take to answer an order \[s\]: it may look for a neighbour for a few seconds.
const ANSWER_S: f64 = 15.0;
/// How long a computation may take \[s\]: a chain of a moderated NIC with an application takes seconds a load, and a cliff some ten loads.
const COMPUTED_S: f64 = 900.0;
/// A client that says nothing of a running generator for this long is gone.
const SILENCE: Duration = Duration::from_secs(4);
/// How often the client says how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Where orders and answers meet.
#[derive(Debug, Default)]
pub struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    text: Vec<u8>,
    ready: Option<Result<LoadReady, String>>,
    sent: u64,
    ended: Option<LoadReport>,
    heard: Option<Instant>,
    /// Computations ordered so far, and the answers that nobody took yet.
    computing: u64,
    computed: HashMap<u64, Value>,
    gone: bool,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next order for the client.
    pub fn next(&self) -> Option<Order> {
        self.state().orders.pop_front()
    }

    /// Takes a part of what the client says.
    ///
    /// # Errors
    /// It is longer than any saying, or none.
    pub fn take(&self, piece: Value) -> Result<(), String> {
        let piece: Piece = serde_json::from_value(piece).map_err(|e| e.to_string())?;
        let mut state = self.state();
        if state.text.len() + piece.text.len() > LONGEST_BYTES {
            return Err(format!("more than {LONGEST_BYTES} bytes about a generator"));
        }
        state.text.extend(bytes_of(&piece.text)?);
        state.heard = Some(Instant::now());
        if !piece.last {
            return Ok(());
        }
        let text = std::mem::take(&mut state.text);
        match serde_json::from_slice(&text).map_err(|e| e.to_string())? {
            Said::Ready(ready) => state.ready = Some(Ok(ready)),
            Said::Refused(why) => state.ready = Some(Err(why)),
            Said::Sent(sent) => state.sent = sent,
            Said::Ended(report) => state.ended = Some(*report),
            Said::Computed(id, _) if id >= state.computing => return Err(format!("computation {id} was not ordered")),
            Said::Computed(id, answer) => {
                state.computed.insert(id, answer);
            }
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The client is gone: whoever waits for it ends.
    pub fn leave(&self) {
        self.state().gone = true;
        self.changed.notify_all();
    }

    /// Has the client compute, and waits for its answer.
    ///
    /// # Errors
    /// The client is gone, or takes longer than 15 minutes (`COMPUTED_S`).
    pub fn compute(&self, job: Value) -> Result<Value, WireError> {
        let id = {
            let mut state = self.state();
            let id = state.computing;
            state.computing += 1;
            state.orders.push_back(Order::Compute { id, job });
            id
        };
        self.wait(COMPUTED_S, |state| state.computed.remove(&id))
    }

    /// Waits until there is an answer.
    fn wait<T>(&self, most_s: f64, mut of: impl FnMut(&mut State) -> Option<T>) -> Result<T, WireError> {
        let until = Instant::now() + Duration::from_secs_f64(most_s);
        let mut state = self.state();
        loop {
            if let Some(answer) = of(&mut state) {
                return Ok(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.gone || left.is_zero() {
                return Err(far_failure("the host that sends is gone"));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The generator of the client of a test, as the test sees it.
#[derive(Debug)]
pub struct Reverse {
    /// Where orders and answers meet.
    pub desk: Arc<Desk>,
    /// Both ends read the same clock.
    pub shares_clock: bool,
    /// Facts of the client's host.
    pub fingerprint: Fingerprint,
    /// The client, for messages.
    pub peer: String,
}

impl Carrier for Reverse {
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError> {
        {
            let mut state = self.desk.state();
            (state.ready, state.ended, state.sent) = (None, None, 0);
            state.orders.push_back(Order::Begin(Box::new(request.clone())));
        }
        self.desk.wait(ANSWER_S, |state| state.ready.take())?.map_err(far_failure)
    }

    fn ask(&mut self) -> Result<Asked, WireError> {
        match self.ended()? {
            Some(report) => Ok(Asked::Ended(Box::new(report))),
            None => Ok(Asked::Sent(self.desk.state().sent)),
        }
    }

    fn ended(&mut self) -> Result<Option<LoadReport>, WireError> {
        let mut state = self.desk.state();
        if let Some(report) = state.ended.take() {
            return Ok(Some(report));
        }
        if state.gone || state.heard.is_some_and(|heard| heard.elapsed() > SILENCE) {
            return Err(far_failure("the host that sends is gone"));
        }
        Ok(None)
    }

    fn stop(&mut self) -> Result<LoadReport, WireError> {
        self.desk.state().orders.push_back(Order::Stop);
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

/// The client's generator, which does what a test in an agent orders.
pub struct Hand {
    kind: LoadKind,
    /// The address of this host that the control connection has.
    control: Option<IpAddr>,
    load: Option<Box<dyn FarEnd>>,
    told: Instant,
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Hand").field("kind", &self.kind).field("sends", &self.load.is_some()).finish_non_exhaustive()
    }
}

impl Hand {
    /// A generator in a network namespace, or in this process's, that offers at most so much \[packets/s\].
    pub fn new(netns: Option<PathBuf>, control: Option<IpAddr>, most_pps: Option<f64>, priority: Priority) -> Self {
        let kind = LoadKind { permission: Permission::Any, netns, limits: RateLimits::of(most_pps), priority };
        Self { kind, control, load: None, told: Instant::now() }
    }

    /// Does what is ordered; returns what to tell.
    pub fn obey(&mut self, order: &Order) -> Vec<Piece> {
        match order {
            Order::Begin(request) => {
                let started = serde_json::to_value(request)
                    .map_err(|e| e.to_string())
                    .and_then(|settings| self.kind.start(&settings, &self.context()?));
                match started
                    .and_then(|load| Ok((serde_json::from_value(load.info()).map_err(|e| e.to_string())?, load)))
                {
                    Ok((ready, load)) => {
                        self.load = Some(load);
                        pieces(&Said::Ready(ready))
                    }
                    Err(why) => pieces(&Said::Refused(why)),
                }
            }
            Order::Stop => self.end(),
            // Whoever offers to compute does it.
            Order::Compute { .. } => Vec::new(),
        }
    }

    fn context(&self) -> Result<Context, String> {
        Ok(Context { local: self.control, token: Token::new().map_err(|e| e.to_string())? })
    }

    /// Looks after what is being sent; returns what to tell. Call it many times a second.
    pub fn look(&mut self) -> Vec<Piece> {
        let Some(load) = &mut self.load else { return Vec::new() };
        if load.finished() {
            return self.end();
        }
        if self.told.elapsed() < TOLD_EVERY {
            return Vec::new();
        }
        self.told = Instant::now();
        let sent = load.report().ok().and_then(|report| report.get("sent")?.as_u64());
        pieces(&Said::Sent(sent.unwrap_or(0)))
    }

    fn end(&mut self) -> Vec<Piece> {
        // What has ended by itself was told.
        let Some(load) = self.load.take() else { return Vec::new() };
        let report = serde_json::from_value(load.stop()).unwrap_or_else(|error: serde_json::Error| LoadReport {
            failed: Some(error.to_string()),
            ..LoadReport::default()
        });
        pieces(&Said::Ended(Box::new(report)))
    }
}

/// The answer to [`Order::Compute`] of this number, as it is told.
pub fn computed(id: u64, answer: Value) -> Vec<Piece> {
    pieces(&Said::Computed(id, answer))
}

fn pieces(said: &Said) -> Vec<Piece> {
    // Plain data of numbers and names.
    let text = serde_json::to_vec(said).unwrap_or_default();
    let parts: Vec<&[u8]> = text.chunks(PIECE_BYTES).collect();
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.iter().enumerate().map(|(place, part)| Piece { text: hex(part), last: place + 1 == parts.len() }).collect()
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    bytes.ok_or_else(|| "about a generator: expected hexadecimal text".to_owned())
}

#[cfg(test)]
mod tests;
