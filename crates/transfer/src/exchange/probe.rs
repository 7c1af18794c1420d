//! Requests during other traffic: measures the round-trip time while something else loads the path.
//!
//! A [`Prober`] sends a small request at each interval `every`, independent of the answers (an open loop). It uses a
//! flow of its own to an answering end of [`super::server`] and stores each round trip with its times, so that round
//! trips can be sorted by the phase of the other traffic. An [`Observer`] looks at the queues that the traffic passes.

mod observe;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::flow::number;
use super::settings::{Receive, Settings, Transport};
use super::socket::{Got, Socket};
use super::{STAMPED_BYTES, connect};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::Placement;
use netcliff_remote::control::key::Token;

pub use observe::{Observed, Observer, Queue};

/// Bytes of a request and of a response. The response holds the times of the one-way delays.
pub const PROBE_BYTES: usize = 64;
/// Largest number of requests of a probe: each takes some 40 bytes of memory.
pub const MOST_PROBES: f64 = 1e6;
/// Time after which a request without an answer is lost (s).
pub const PROBE_TIMEOUT_S: f64 = 2.0;
/// Accepted interval between requests (s).
pub const PROBE_EVERY_S: std::ops::RangeInclusive<f64> = 1e-3..=1.0;

/// The times of a request (ns of `CLOCK_MONOTONIC` of the requesting end, except `arrived_ns`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time at which the request was due.
    pub due_ns: u64,
    /// Time at which the request was sent.
    pub sent_ns: u64,
    /// Time at which the answering end received the request, by its clock.
    pub arrived_ns: u64,
    /// Time at which the answer was read. `None` if it did not come in time.
    pub answered_ns: Option<u64>,
}

impl RoundTrip {
    /// Time from the request to the answer (ns). `None` without an answer.
    pub fn took_ns(&self) -> Option<u64> {
        self.answered_ns.map(|answered_ns| answered_ns.saturating_sub(self.sent_ns))
    }
}

/// Settings of the answering end of a probe.
pub fn settings(transport: Transport) -> Settings {
    Settings { transport, request_bytes: PROBE_BYTES, response_bytes: PROBE_BYTES, ..Settings::default() }
}

/// A running probe. Dropping it ends its thread.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Probed>>,
}

/// The results of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probed {
    /// The requests, in the order in which they were sent.
    pub trips: Vec<RoundTrip>,
    /// Why the probe ended early. `None` if it did not.
    pub failed: Option<String>,
}

impl Prober {
    /// Connects to an answering end and starts to send requests.
    ///
    /// # Errors
    /// The placement cannot be applied, or the answering end cannot be reached.
    pub fn start(
        transport: Transport,
        every: Duration,
        (address, token): (SocketAddr, Token),
        placement: Placement,
    ) -> Result<Self, WireError> {
        let stop = Arc::<AtomicBool>::default();
        let (ready, connected) = mpsc::channel();
        let ends = Arc::clone(&stop);
        let work = move || {
            let opened = placement.enter().and_then(|()| open(transport, address, &token, &ends));
            match opened {
                Ok(socket) => {
                    // The starting thread waits for this message.
                    let _ = ready.send(Ok(()));
                    let mut asking = Asking::new(&socket, transport, every);
                    let failed = asking.run(&ends).err();
                    Probed { trips: asking.trips, failed }
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Probed::default()
                }
            }
        };
        let thread = thread::Builder::new().name("probe".into()).spawn(work);
        let thread = thread.map_err(|e| WireError::system("start a thread for probes", e))?;
        connected.recv().unwrap_or_else(|_| Err(WireError::died("probe", &"before it began")))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the probe: sends no more requests, and waits at most [`PROBE_TIMEOUT_S`] for the answers under way.
    pub fn end(mut self) -> Probed {
        self.finish()
    }

    fn finish(&mut self) -> Probed {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Probed::default() };
        thread.join().unwrap_or_else(|panic| Probed {
            failed: Some(WireError::died("probe", &*panic).to_string()),
            ..Probed::default()
        })
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.finish();
    }
}

fn open(transport: Transport, address: SocketAddr, token: &Token, stop: &Arc<AtomicBool>) -> Result<Socket, WireError> {
    let fd = match transport {
        Transport::Udp => connect::udp(address, token, 0)?,
        _ => connect::tcp(address, &connect::greeting(token, 0, 0))?,
    };
    Socket::new(fd, Receive::Block, stop)
}

struct Asking<'a> {
    socket: &'a Socket,
    datagrams: bool,
    every_ns: u64,
    trips: Vec<RoundTrip>,
    /// Indices in `trips` of the requests without an answer.
    waiting: VecDeque<usize>,
    buffer: Vec<u8>,
    have: usize,
}

impl<'a> Asking<'a> {
    fn new(socket: &'a Socket, transport: Transport, every: Duration) -> Self {
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self {
            socket,
            datagrams: transport == Transport::Udp,
            every_ns,
            trips: Vec::new(),
            waiting: VecDeque::new(),
            buffer: vec![0; 64 * PROBE_BYTES],
            have: 0,
        }
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |e: std::io::Error| format!("{what} failed: {e}")
        };
        let mut due_ns = clock::monotonic_ns();
        loop {
            let now_ns = clock::monotonic_ns();
            let stopped = stop.load(Ordering::Relaxed) || self.trips.len() as f64 >= MOST_PROBES;
            // Answers on a stream arrive in order, however late, so only datagrams are given up.
            while self.datagrams && self.waiting.front().is_some_and(|at| self.is_late(*at, now_ns)) {
                self.waiting.pop_front();
            }
            if stopped && self.waiting.back().is_none_or(|at| self.is_late(*at, now_ns)) {
                return Ok(());
            }
            if !stopped && due_ns <= now_ns {
                self.ask(due_ns).map_err(failed("a request"))?;
                // Requests that were due while the thread had no CPU are skipped, so that they do not leave in a burst.
                let passed = now_ns.saturating_sub(due_ns) / self.every_ns;
                due_ns += (passed + 1) * self.every_ns;
            }
            if self.take().map_err(failed("a response"))? {
                continue;
            }
            let until_ns = if stopped { now_ns + 10_000_000 } else { due_ns };
            let rest = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
            self.socket.sleep(rest, false).map_err(failed("waiting"))?;
        }
    }

    /// Whether a request has been under way for longer than the timeout.
    fn is_late(&self, at: usize, now_ns: u64) -> bool {
        let timeout_ns = clock::ns_from_s(PROBE_TIMEOUT_S).unwrap_or(u64::MAX);
        self.trips[at].sent_ns.saturating_add(timeout_ns) < now_ns
    }

    fn ask(&mut self, due_ns: u64) -> std::io::Result<()> {
        let mut request = [0x5a; PROBE_BYTES];
        request[..8].copy_from_slice(&(self.trips.len() as u64).to_le_bytes());
        let sent_ns = clock::monotonic_ns();
        // If the socket has no room, the request counts as unanswered. A partly sent request would shift all that
        // follow.
        let sent = self.socket.try_send(&request)?;
        if sent > 0 && sent < PROBE_BYTES {
            self.socket.send(&request[sent..])?;
        }
        if sent > 0 {
            self.waiting.push_back(self.trips.len());
        }
        self.trips.push(RoundTrip { due_ns, sent_ns, arrived_ns: 0, answered_ns: None });
        Ok(())
    }

    /// Reads answers that have arrived. Returns true if there was one.
    fn take(&mut self) -> std::io::Result<bool> {
        let got = self.socket.try_recv(&mut self.buffer[self.have..])?;
        let now_ns = clock::monotonic_ns();
        match got {
            Got::Nothing => Ok(false),
            Got::End if self.datagrams => Ok(false),
            Got::End => Err(std::io::Error::other("the far end closed the connection")),
            Got::Bytes(bytes) if self.datagrams => {
                if bytes == PROBE_BYTES {
                    let sequence = number(&self.buffer) as usize;
                    let place = self.waiting.iter().position(|at| *at == sequence);
                    if let Some(at) = place.and_then(|place| self.waiting.remove(place)) {
                        self.note(at, 0, now_ns);
                    }
                }
                Ok(true)
            }
            Got::Bytes(bytes) => {
                self.have += bytes;
                let mut taken = 0;
                while self.have - taken >= PROBE_BYTES {
                    // Answers come in the order of the requests; the number in an answer counts the requests of the
                    // connection.
                    let sequence = number(&self.buffer[taken..]);
                    let at = self.waiting.pop_front();
                    let Some(at) = at else {
                        return Err(std::io::Error::other(format!("answer {sequence} was not asked for")));
                    };
                    self.note(at, taken, now_ns);
                    taken += PROBE_BYTES;
                }
                self.buffer.copy_within(taken..self.have, 0);
                self.have -= taken;
                Ok(true)
            }
        }
    }

    fn note(&mut self, at: usize, offset: usize, now_ns: u64) {
        let answer = &self.buffer[offset..offset + STAMPED_BYTES];
        let arrived_ns = number(&answer[8..16]);
        let trip = &mut self.trips[at];
        (trip.arrived_ns, trip.answered_ns) = (arrived_ns, Some(now_ns));
    }
}
