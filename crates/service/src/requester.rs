//! The open-loop requester: sends requests when they are due, whatever the answers do, and times each answer from when
//! its request was due, so that a request that waits behind a slow one counts as slow too (no coordinated omission).
//!
//! One thread, which never sleeps during a trial. `datagrams` is for protocols whose datagrams carry a number: many
//! under way on a port, in batches. `connections` is for streams, and for datagrams without a number (one under way
//! on a port). How late the requester itself was is measured: a trial in which that may explain the result is void.

mod connections;
mod datagrams;
mod net;
mod once;
#[cfg(test)]
mod tests;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::verdict::{LATE_NS, TesterCounts, Void};
use netcliff_packets::WireError;
use netcliff_packets::clock;
use netcliff_packets::latency::Latency;
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::thread::{Placement, Priority};

use crate::protocol::Transport;
use crate::request::Workload;

pub use once::OnceError;

/// Why a trial could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RequesterError {
    /// The thread cannot be placed, or the load is no rate.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, as a verb and its object.
        action: String,
        /// The system's answer.
        source: io::Error,
    },
    /// No connection could be opened.
    #[error("{to}: no connection could be opened: {why}")]
    NoConnection {
        /// Where the service is.
        to: SocketAddr,
        /// The first failure.
        why: String,
    },
    /// The thread panicked.
    #[error("the requester's thread panicked")]
    Died,
}

impl RequesterError {
    fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }
}

/// A request that was taken up later than this was not offered in time (ns): the trials are much longer, so that a requester that falls
/// behind exceeds it soon, and a pause of its CPU that is shorter is judged by what it may have lost.
const IN_TIME_NS: u64 = 10_000_000;

/// Requests that the requester has not taken up so long after the window are not sent any more (ns).
const GIVEN_UP_NS: u64 = 50_000_000;

/// Where the requester runs, and what it asks.
#[derive(Debug, Clone)]
pub struct Requester {
    /// Where requests go.
    pub to: SocketAddr,
    /// What is asked.
    pub workload: Arc<Workload>,
    /// Number of connections or source ports.
    pub connections: u32,
    /// Requests under way on a connection at most.
    pub depth: u32,
    /// A connection for each request.
    pub new_connections: bool,
    /// How connections are encrypted; `None`: they are not.
    pub tls: Option<tls::Client>,
    /// After which a request is lost (ns).
    pub timeout_ns: u64,
    /// The requester's network namespace; `None`: that of the process.
    pub netns: Option<PathBuf>,
    /// The requester's CPU.
    pub cpu: usize,
    /// Ends the trial early.
    pub stop: Arc<AtomicBool>,
}

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests a second.
    pub rate_rps: f64,
    /// Gaps between them. `None`: those of the workload, Poisson where it has none.
    pub arrivals: Option<Arrivals>,
    /// Time before the window, with the same load (s).
    pub warm_up_s: f64,
    /// Time in which requests count (s).
    pub window_s: f64,
    /// Seed of the gaps; of a capture, where it begins.
    pub seed: u64,
}

/// What a trial counted, of the requests that were due in its window.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Requests due.
    pub requests: u64,
    /// Answered rightly within the timeout.
    pub answers: u64,
    /// Answered after the timeout.
    pub late_answers: u64,
    /// Answered wrongly.
    pub wrong_answers: u64,
    /// Times of the right answers, from when the request was due.
    pub times: Latency,
    /// How late requests were taken up.
    pub lateness: Latency,
    /// Number of requests taken up later than [`LATE_NS`].
    pub late: u64,
    /// Number of requests taken up within `IN_TIME_NS`.
    pub in_time: u64,
    /// Answers of any kind, those before the window included.
    pub all_answers: u64,
    /// Number of requests taken up before the window closed, or soon after.
    pub offered: u64,
    /// The service's CPUs worked all the time: what was lost it would have lost however evenly requests had come.
    pub saturated: bool,
    /// Share of the loaded time in which a thread of the service waited for a CPU that other programs had.
    pub others: f64,
    /// Length of the window (s).
    pub window_s: f64,
    /// Share of the time until the window closed in which the requester worked.
    pub busy: f64,
    /// Datagrams that the requester's own sockets had no room for.
    pub missed: u64,
    /// Connections opened.
    pub opened: u64,
    /// The first failure of a connection or a socket, in words.
    pub failure: Option<String>,
}

impl Report {
    /// Number of right answers that took longer than `within_s`.
    pub fn slower_than(&self, within_s: f64) -> u64 {
        let ns = (within_s * 1e9) as u64;
        self.times.histogram().count_between(ns.saturating_add(1), u64::MAX / 2).min(self.answers)
    }

    /// Requests that were not answered at all.
    pub fn unanswered(&self) -> u64 {
        self.requests.saturating_sub(self.answers + self.late_answers + self.wrong_answers)
    }

    /// Why the trial does not count; `lost` is what it counts against the load. `None`: it counts.
    pub fn void(&self, lost: u64, kept: bool) -> Option<Void> {
        let requests = self.requests.max(1) as f64;
        // A service that works all the time is offered the load if its requests come within the window.
        let offered = if self.saturated { self.offered } else { self.in_time };
        let counts = TesterCounts {
            offered_share: if self.requests == 0 { 0.0 } else { offered as f64 / requests },
            reached_pps: offered as f64 / self.window_s.max(1e-9),
            lost: if kept { 0 } else { lost },
            late: self.late,
            missed: self.missed,
        };
        counts.void(self.saturated)
    }
}

/// The window of a trial (ns of `CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy)]
struct Window {
    begins_ns: u64,
    opens_ns: u64,
    closes_ns: u64,
}

impl Window {
    fn holds(&self, due_ns: u64) -> bool {
        (self.opens_ns..self.closes_ns).contains(&due_ns)
    }
}

/// The requests that become due, and what is counted of them: what both engines share.
struct Trial<'a> {
    requester: &'a Requester,
    window: Window,
    schedule: Schedule,
    next_due_ns: u64,
    next_message: usize,
    report: Report,
    busy_ns: u64,
}

impl<'a> Trial<'a> {
    /// A trial that begins `delay_ns` from now.
    fn new(requester: &'a Requester, load: &Load, delay_ns: u64) -> Result<Self, RequesterError> {
        let begins_ns = clock::monotonic_ns() + delay_ns;
        let opens_ns = begins_ns + (load.warm_up_s * 1e9) as u64;
        let window = Window { begins_ns, opens_ns, closes_ns: opens_ns + (load.window_s * 1e9) as u64 };
        let (mut schedule, next_message) = requester.workload.schedule(load)?;
        let next_due_ns = begins_ns + schedule.next().unwrap_or_default();
        let report = Report { window_s: load.window_s, ..Report::default() };
        Ok(Self { requester, window, schedule, next_due_ns, next_message, report, busy_ns: 0 })
    }

    /// The next request if it is due now: when it was due, and its message.
    fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        if now_ns > self.window.closes_ns + GIVEN_UP_NS {
            self.give_up_rest(now_ns);
        }
        let due_ns = self.next_due_ns;
        if due_ns > now_ns || due_ns >= self.window.closes_ns {
            return None;
        }
        self.next_due_ns = self.window.begins_ns + self.schedule.next().unwrap_or(u64::MAX / 2);
        let message = self.next_message;
        self.next_message = (message + 1) % self.requester.workload.messages.len();
        if self.window.holds(due_ns) {
            let late_ns = now_ns - due_ns;
            self.report.requests += 1;
            self.report.lateness.record_ns(late_ns);
            self.report.late += u64::from(late_ns > LATE_NS);
            self.report.in_time += u64::from(late_ns <= IN_TIME_NS);
            self.report.offered += u64::from(now_ns <= self.window.closes_ns + IN_TIME_NS);
        }
        Some((due_ns, message))
    }

    /// Counts the requests that were due and are not sent any more: a requester so far behind would go on for minutes.
    fn give_up_rest(&mut self, now_ns: u64) {
        while self.next_due_ns < self.window.closes_ns {
            if self.window.holds(self.next_due_ns) {
                self.report.requests += 1;
                self.report.late += 1;
                self.report.lateness.record_ns(now_ns - self.next_due_ns);
            }
            self.next_due_ns = self.window.begins_ns + self.schedule.next().unwrap_or(u64::MAX / 2);
        }
    }

    /// Counts the answer to a request that was due then.
    fn answered(&mut self, due_ns: u64, now_ns: u64, right: bool) {
        self.report.all_answers += 1;
        if !self.window.holds(due_ns) {
            return;
        }
        let took_ns = now_ns.saturating_sub(due_ns);
        match (took_ns <= self.requester.timeout_ns, right) {
            (false, _) => self.report.late_answers += 1,
            (true, false) => self.report.wrong_answers += 1,
            (true, true) => {
                self.report.answers += 1;
                self.report.times.record_ns(took_ns);
            }
        }
    }

    fn failed(&mut self, why: impl FnOnce() -> String) {
        self.report.failure.get_or_insert_with(why);
    }

    /// Adds the time since `from_ns` to what the requester worked, as long as the window is open.
    fn worked(&mut self, from_ns: u64) {
        let to_ns = clock::monotonic_ns().min(self.window.closes_ns);
        self.busy_ns += to_ns.saturating_sub(from_ns.max(self.window.begins_ns));
    }

    /// True once nothing more is to be waited for: `under_way` says whether requests of the trial still are.
    fn is_over(&self, now_ns: u64, under_way: bool) -> bool {
        let closed = now_ns >= self.window.closes_ns && self.next_due_ns >= self.window.closes_ns;
        let drained = !under_way || now_ns >= self.window.closes_ns + self.requester.timeout_ns;
        (closed && drained) || self.requester.stop.load(Ordering::Relaxed)
    }

    fn end(mut self) -> Report {
        let length_ns = self.window.closes_ns - self.window.begins_ns;
        self.report.busy = self.busy_ns as f64 / length_ns.max(1) as f64;
        self.report
    }
}

impl Workload {
    /// What [`Load::arrivals`] means for it: `poisson`, `constant` or `capture`.
    pub fn arrivals(&self, wanted: Option<Arrivals>) -> &'static str {
        match (&self.gaps, wanted) {
            (Some(_), None) => "capture",
            (_, Some(Arrivals::Constant)) => "constant",
            (_, Some(Arrivals::Poisson) | None) => "poisson",
        }
    }

    /// The times of a load, and the place of the first request. Trials of other seeds see other parts of a capture.
    fn schedule(&self, load: &Load) -> Result<(Schedule, usize), WireError> {
        match (&self.gaps, load.arrivals) {
            (Some(gaps), None) => {
                let first = (load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % gaps.len() as u64) as usize;
                Ok((Schedule::recorded(Arc::clone(gaps), first, load.rate_rps)?, first))
            }
            (_, arrivals) => {
                Ok((Schedule::new(arrivals.unwrap_or(Arrivals::Poisson), load.rate_rps, load.seed, 0)?, 0))
            }
        }
    }
}

impl Requester {
    fn placement(&self) -> Placement {
        Placement { netns: self.netns.clone(), cpu: Some(self.cpu), priority: Priority::Ordinary }
    }

    /// Makes one trial on a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be placed, sockets cannot be made, or the load is no rate.
    pub fn trial(&self, load: &Load) -> Result<Report, RequesterError> {
        let work = || {
            self.placement().enter()?;
            let numbered = self.workload.protocol.numbers_datagrams();
            match self.workload.transport {
                Transport::Udp if numbered => datagrams::run(self, load),
                _ => connections::run(self, load),
            }
        };
        let joined = std::thread::scope(|scope| scope.spawn(work).join());
        joined.map_err(|_| RequesterError::Died)?
    }

    /// Asks each message of the workload's set-up once, then one request, and waits for each answer.
    ///
    /// # Errors
    /// The service does not answer, or wrongly.
    pub fn ask_once(&self, setup: bool) -> Result<(), OnceError> {
        let work = || {
            self.placement().enter().map_err(RequesterError::from)?;
            let mut once = once::Once::open(self)?;
            if setup {
                self.workload.setup.iter().try_for_each(|message| once.ask(message))?;
            }
            once.ask(&self.workload.messages[0])
        };
        let joined = std::thread::scope(|scope| scope.spawn(work).join());
        joined.map_err(|_| RequesterError::Died)?
    }
}
