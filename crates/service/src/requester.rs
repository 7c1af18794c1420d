//! The open-loop requester sends requests when they are due, independently of answers, and measures the time of each
//! answer from when its request was due. A request that waits behind a slow one therefore counts as slow, too (no
//! coordinated omission).
//!
//! The requester is one thread that never sleeps during a trial. The module `datagrams` is for protocols whose
//! datagrams carry a number: many requests are outstanding per port, and are sent and received in batches. The module
//! `connections` is for streams, and for datagrams without a number (one outstanding request per port). The requester
//! measures its own delays: requests that a delay affects are not counted, and a trial is void if they are more than half
//! of its requests.

mod connections;
mod datagrams;
mod log;
pub(crate) mod net;
mod once;
mod silence;
#[cfg(test)]
mod tests;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::math::SplitMix64;
use netcliff_core::verdict::{KEPT_UP_SHARE, Void, VoidReason};
use netcliff_host::cpu::heartbeat::merged;
use netcliff_mlrsearch::trial::{Answer, Trial as SearchTrial};
use netcliff_packets::WireError;
use netcliff_packets::clock;
use netcliff_packets::latency::Latency;
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::thread::{Placement, Priority};

use crate::pauses::{LEAST_SILENCE_S, Silences, Spans};
use crate::protocol::Transport;
use crate::request::{Gaps, Workload};

pub use log::SpanNs;
pub use once::OnceError;

use log::Log;
use silence::Silence;

/// Why a trial could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RequesterError {
    /// The thread could not be moved to its CPU or namespace, or the load is not a rate.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The failed action, as a verb and its object.
        action: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No connection could be opened.
    #[error("{to}: no connection could be opened: {why}")]
    NoConnection {
        /// Address of the service.
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

/// Delay (ns) up to which a request counts as offered in time. Trials are much longer, so a requester that falls behind
/// soon exceeds this delay. Shorter pauses of the requester's CPU matter only if requests that were delayed by them may
/// have been lost because of that.
const IN_TIME_NS: u64 = 10_000_000;

/// Time after the end of the window (ns) at which the requester stops sending requests that are still due.
const GIVEN_UP_NS: u64 = 50_000_000;

/// Settings of the requester.
#[derive(Debug, Clone)]
pub struct Requester {
    /// Address of the service.
    pub to: SocketAddr,
    /// The requests.
    pub workload: Arc<Workload>,
    /// Number of connections or source ports.
    pub connections: u32,
    /// Largest number of outstanding requests per connection.
    pub depth: u32,
    /// True: a new connection for each request.
    pub new_connections: bool,
    /// Encryption of connections; `None`: not encrypted.
    pub tls: Option<tls::Client>,
    /// Time after which a request counts as lost (ns).
    pub timeout_ns: u64,
    /// Network namespace of the requester; `None`: the namespace of this process.
    pub netns: Option<PathBuf>,
    /// CPU of the requester.
    pub cpu: usize,
    /// Flag that ends the trial early.
    pub stop: Arc<AtomicBool>,
}

/// Settings of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests per second.
    pub rate_rps: f64,
    /// Distribution of the times between requests. `None`: the times of the workload's capture, or Poisson without a
    /// capture.
    pub arrivals: Option<Arrivals>,
    /// Duration of the load before the window (s).
    pub warm_up_s: f64,
    /// Length of the window in which requests count (s).
    pub window_s: f64,
    /// Seed of the times between requests. With a capture: seed of the request at which the trial begins.
    pub seed: u64,
}

/// Numbers of requests by their result.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Requests due.
    pub requests: u64,
    /// Answered correctly within the timeout.
    pub answers: u64,
    /// Answered after the timeout.
    pub late_answers: u64,
    /// Answered wrongly.
    pub wrong_answers: u64,
    /// Response times of correct answers, from when the request was due.
    pub times: Latency,
}

impl Counts {
    /// Number of correct answers that took longer than `within_s`.
    pub fn slower_than(&self, within_s: f64) -> u64 {
        let ns = (within_s * 1e9) as u64;
        self.times.histogram().count_between(ns.saturating_add(1), u64::MAX / 2).min(self.answers)
    }

    /// Requests that were not answered at all.
    pub fn unanswered(&self) -> u64 {
        self.requests.saturating_sub(self.answers + self.late_answers + self.wrong_answers)
    }
}

/// Result of a trial. Unless stated otherwise, numbers are of the requests that were due in its window.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The requests that neither a delay of the requester nor a pause of the service's CPU affected.
    pub counts: Counts,
    /// Number of the other requests.
    pub excluded: u64,
    /// The requests that no delay of the requester affected; `None`: as `counts`, because the service's CPUs did not
    /// pause, or nobody knows.
    pub with_pauses: Option<Counts>,
    /// Length of the pauses of the service's CPUs in the window (s), in which another program or the hypervisor had them.
    pub paused_s: f64,
    /// Delays between a request's due time and its handling by the requester.
    pub lateness: Latency,
    /// Requests that were handled more than [`LATE_NS`](netcliff_core::verdict::LATE_NS) after they were due.
    pub late: u64,
    /// Requests that were handled at most `IN_TIME_NS` after they were due.
    pub in_time: u64,
    /// Answers of any kind, also to requests outside the window.
    pub all_answers: u64,
    /// Requests that were handled before the end of the window, or at most 10 ms (`IN_TIME_NS`) after it.
    pub offered: u64,
    /// True: the service's CPUs were always busy, so the service would have lost the same number of requests if they
    /// had come evenly.
    pub saturated: bool,
    /// Share of the loaded time in which a thread of the service waited for a CPU that other programs used.
    pub others: f64,
    /// When the window opened (ns of `CLOCK_MONOTONIC`).
    pub opened_ns: u64,
    /// Length of the window (s).
    pub window_s: f64,
    /// Share of the time until the end of the window in which the requester was busy.
    pub busy: f64,
    /// Answers that were dropped because the requester's own sockets were full.
    pub missed: u64,
    /// Connections opened.
    pub opened: u64,
    /// Times in which the service gave no answer. The meter adds the pauses of the service's CPUs, which the requester
    /// does not see.
    pub silences: Silences,
    /// The first failure of a connection or a socket, in words.
    pub failure: Option<String>,
    /// The requests themselves.
    pub(crate) log: Log,
}

impl Report {
    /// Requests due.
    pub fn due(&self) -> u64 {
        self.counts.requests + self.excluded
    }

    /// Leaves out requests that were affected by pauses of the service's CPUs, unless they are more than half. `still`: times in which one of these
    /// CPUs made no transition; `others`: times in which another program had one of them [ns of `CLOCK_MONOTONIC`].
    pub fn leave_out(&mut self, still: Vec<SpanNs>, others: Vec<SpanNs>) {
        let pauses = self.log.pauses(&merged(still), (LEAST_SILENCE_S * 1e9) as u64);
        let all = merged([pauses.clone(), others.clone()].concat());
        if all.is_empty() {
            return;
        }
        let in_window =
            |spans: &[SpanNs]| -> Spans { spans.iter().filter_map(|span| self.log.in_window(*span)).collect() };
        self.paused_s = in_window(&all).iter().map(|(_, length_s)| length_s).sum();
        let (counts, excluded) = self.log.counts(&merged([self.log.delays(), all].concat()));
        // A CPU that is shared most of the time is a property of the host: all requests count, and all pauses are the
        // service's own for a prediction.
        if counts.requests < excluded {
            return;
        }
        (self.silences.cpu, self.silences.others) = (in_window(&pauses), in_window(&others));
        self.with_pauses = Some(std::mem::replace(&mut self.counts, counts));
        self.excluded = excluded;
    }

    /// Counts all requests, affected or not.
    #[must_use]
    pub fn whole(mut self) -> Self {
        (self.counts, self.excluded) = self.log.counts(&[]);
        self.with_pauses = None;
        self
    }

    /// Why the trial does not count: the requester's own sockets were full, or its delays affected more than half of the
    /// requests. `None`: it counts.
    pub fn void(&self) -> Option<Void> {
        let delayed = self.with_pauses.as_ref().unwrap_or(&self.counts);
        let is_delayed = 2 * delayed.requests < self.due();
        let is_behind = self.reached() < KEPT_UP_SHARE * self.due().max(1) as f64;
        let is_void = is_delayed || is_behind && (self.saturated || self.due() == 0);
        let why = match is_behind {
            _ if self.missed > 0 => VoidReason::SinkTooSlow,
            _ if !is_void => return None,
            true => VoidReason::SenderTooSlow,
            false => VoidReason::SenderUneven,
        };
        Some(Void { why, reached_pps: self.reached() / self.window_s.max(1e-9) })
    }

    /// Number of requests that came in time. If the service's CPUs were always busy, requests that came within the
    /// window or soon after count, even if late.
    fn reached(&self) -> f64 {
        if self.saturated { self.offered as f64 } else { self.in_time as f64 }
    }

    /// The result for a search: the trial, or why it does not count.
    pub fn answer(&self, trial: SearchTrial) -> Answer {
        Answer::of(trial, self.void())
    }
}

/// The window of a trial (ns of `CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy, Default)]
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

/// State of a trial: the requests that become due, and their counts. Both engines, `datagrams` and `connections`, use
/// it.
struct Trial<'a> {
    requester: &'a Requester,
    window: Window,
    schedule: Schedule,
    next_due_ns: u64,
    next_message: usize,
    report: Report,
    busy_ns: u64,
    silence: Silence,
    log: Log,
}

impl<'a> Trial<'a> {
    /// A trial that begins `delay_ns` from now.
    fn new(requester: &'a Requester, load: &Load, delay_ns: u64) -> Result<Self, RequesterError> {
        let begins_ns = clock::monotonic_ns() + delay_ns;
        let opens_ns = begins_ns + (load.warm_up_s * 1e9) as u64;
        let window = Window { begins_ns, opens_ns, closes_ns: opens_ns + (load.window_s * 1e9) as u64 };
        let (mut schedule, next_message) = load.schedule(&requester.workload)?;
        let next_due_ns = begins_ns + schedule.next().unwrap_or_default();
        let report = Report { opened_ns: opens_ns, window_s: load.window_s, ..Report::default() };
        Ok(Self {
            requester,
            window,
            schedule,
            next_due_ns,
            next_message,
            report,
            busy_ns: 0,
            silence: Silence::default(),
            log: Log::new(window, requester.timeout_ns),
        })
    }

    /// Takes the next request that is due: (its serial number in the log, its due time (ns), index of its message).
    /// `None` if no request is due.
    fn take(&mut self, now_ns: u64) -> Option<(usize, u64, usize)> {
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
        self.silence.asked(now_ns);
        Some((self.log.sent(due_ns, now_ns), due_ns, message))
    }

    /// Counts the remaining requests of the window without sending them: a requester that is far behind would continue
    /// for minutes.
    fn give_up_rest(&mut self, now_ns: u64) {
        while self.next_due_ns < self.window.closes_ns {
            self.log.sent(self.next_due_ns, now_ns);
            self.next_due_ns = self.window.begins_ns + self.schedule.next().unwrap_or(u64::MAX / 2);
        }
    }

    /// Records the answer to a request: when the kernel received it, and when the requester read it (ns).
    fn answered(&mut self, serial: usize, (at_ns, now_ns): (u64, u64), right: bool) {
        self.report.all_answers += 1;
        self.silence.answered(now_ns);
        self.log.answered(serial, at_ns, right);
    }

    fn failed(&mut self, why: impl FnOnce() -> String) {
        self.report.failure.get_or_insert_with(why);
    }

    /// Records that a turn of the requester's loop begins.
    fn turn(&mut self, now_ns: u64) {
        self.silence.turn(now_ns);
    }

    /// Adds the time since `from_ns` to the requester's busy time, as far as it lies between the begin of the trial and
    /// the end of the window.
    fn worked(&mut self, from_ns: u64) {
        let to_ns = clock::monotonic_ns().min(self.window.closes_ns);
        self.busy_ns += to_ns.saturating_sub(from_ns.max(self.window.begins_ns));
    }

    /// True if the trial has ended: no requests remain to be sent, and no answers are awaited, or the stop flag is set.
    /// `under_way`: whether requests of the window are still outstanding.
    fn is_over(&self, now_ns: u64, under_way: bool) -> bool {
        let closed = now_ns >= self.window.closes_ns && self.next_due_ns >= self.window.closes_ns;
        let drained = !under_way || now_ns >= self.window.closes_ns + self.requester.timeout_ns;
        (closed && drained) || self.requester.stop.load(Ordering::Relaxed)
    }

    fn end(mut self) -> Report {
        let length_ns = self.window.closes_ns - self.window.begins_ns;
        let delays = self.log.delays();
        let report = &mut self.report;
        report.busy = self.busy_ns as f64 / length_ns.max(1) as f64;
        report.silences.service = self.silence.within(&self.window, &delays);
        (report.lateness, report.late, report.in_time, report.offered) = self.log.lateness();
        (report.counts, report.excluded) = self.log.counts(&delays);
        report.log = self.log;
        self.report
    }
}

impl Load {
    /// Returns the times of the requests, and the index of the first message. With a capture, the seed decides with
    /// which request the trial begins.
    fn schedule(&self, workload: &Workload) -> Result<(Schedule, usize), WireError> {
        match workload.gaps(self.arrivals) {
            Gaps::Drawn(arrivals) => Ok((Schedule::new(arrivals, self.rate_rps, self.seed, 0)?, 0)),
            Gaps::Captured(gaps) => {
                let first = (SplitMix64(self.seed).draw() % gaps.len() as u64) as usize;
                Ok((Schedule::recorded(gaps, first, self.rate_rps)?, first))
            }
        }
    }
}

impl Requester {
    fn placement(&self) -> Placement {
        Placement { netns: self.netns.clone(), cpu: Some(self.cpu), priority: Priority::Ordinary }
    }

    /// Makes one trial on a separate thread.
    ///
    /// # Errors
    /// The thread could not be moved to its CPU or namespace, sockets cannot be created, no connection could be opened,
    /// or the load is not a rate.
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

    /// Sends each message of the workload's set-up once (if `setup`), then one request, and waits for each answer.
    ///
    /// # Errors
    /// The service does not answer, or answers wrongly.
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
