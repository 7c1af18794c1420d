//! [`Log`]: all requests of a trial, and their counts without those that were affected by a time in which the requester
//! or the service's CPU did not run.
//!
//! After such a time, requests or answers that have waited come all at once, and this burst may overflow the service's
//! queues and delay later requests. A request is affected if such a time lies, at least partly, between its due time and
//! its answer (of an unanswered request: between its due time and its sending), or if an earlier request was affected
//! and since then none that was sent in time has been answered as fast as usual, which is the median of all answers.

use std::iter::Peekable;

use netcliff_core::verdict::LATE_NS;
use netcliff_host::cpu::heartbeat::merged;
use netcliff_packets::latency::Latency;

use super::{Counts, IN_TIME_NS, Window};

/// A time (start, end) [ns of `CLOCK_MONOTONIC`].
pub type SpanNs = (u64, u64);

/// A request [times in ns of `CLOCK_MONOTONIC`].
#[derive(Debug, Clone, Copy)]
struct Request {
    due_ns: u64,
    sent_ns: u64,
    /// `None`: not answered.
    answered_ns: Option<u64>,
    /// True: answered correctly.
    right: bool,
}

impl Request {
    fn is_late(&self) -> bool {
        self.sent_ns - self.due_ns > LATE_NS
    }

    fn took_ns(&self) -> Option<u64> {
        Some(self.answered_ns?.saturating_sub(self.due_ns))
    }
}

/// The requests of a trial.
#[derive(Debug, Clone, Default)]
pub struct Log {
    window: Window,
    /// Time after which an answer is late (ns).
    timeout_ns: u64,
    /// In the order of their due times.
    requests: Vec<Request>,
}

impl Log {
    pub(super) fn new(window: Window, timeout_ns: u64) -> Self {
        Self { window, timeout_ns, requests: Vec::new() }
    }

    /// Adds a request, and returns its serial number.
    pub(super) fn sent(&mut self, due_ns: u64, sent_ns: u64) -> usize {
        self.requests.push(Request { due_ns, sent_ns, answered_ns: None, right: false });
        self.requests.len() - 1
    }

    /// Records the answer to a request.
    pub(super) fn answered(&mut self, serial: usize, now_ns: u64, right: bool) {
        if let Some(request) = self.requests.get_mut(serial) {
            (request.answered_ns, request.right) = (Some(now_ns), right);
        }
    }

    /// Delays between due time and sending of the window's requests; how many were sent more than [`LATE_NS`] late; how
    /// many at most [`IN_TIME_NS`] late; and how many before the end of the window or at most `IN_TIME_NS` after it.
    pub(super) fn lateness(&self) -> (Latency, u64, u64, u64) {
        let (mut delays, mut late, mut in_time, mut offered) = (Latency::default(), 0, 0, 0);
        for request in self.requests.iter().filter(|request| self.window.holds(request.due_ns)) {
            let late_ns = request.sent_ns - request.due_ns;
            delays.record_ns(late_ns);
            late += u64::from(late_ns > LATE_NS);
            in_time += u64::from(late_ns <= IN_TIME_NS);
            offered += u64::from(request.sent_ns <= self.window.closes_ns + IN_TIME_NS);
        }
        (delays, late, in_time, offered)
    }

    /// The part of a time that lies in the window: (start after the window's opening, length) (s).
    pub(super) fn in_window(&self, (from_ns, to_ns): SpanNs) -> Option<(f64, f64)> {
        let (from_ns, to_ns) = (from_ns.max(self.window.opens_ns), to_ns.min(self.window.closes_ns));
        (from_ns < to_ns).then(|| ((from_ns - self.window.opens_ns) as f64 * 1e-9, (to_ns - from_ns) as f64 * 1e-9))
    }

    /// Times in which the requester was delayed: from the due time to the sending of each late request.
    pub(super) fn delays(&self) -> Vec<SpanNs> {
        let late = self.requests.iter().filter(|request| request.is_late());
        merged(late.map(|request| (request.due_ns, request.sent_ns)).collect())
    }

    /// The parts of `still`, times without a transition of the service's CPU, that are pauses of this CPU: from the
    /// first request that was sent in such a time, which should have interrupted the CPU, to its end, if longer than
    /// `least_ns`. `still` is in ascending order.
    pub(super) fn pauses(&self, still: &[SpanNs], least_ns: u64) -> Vec<SpanNs> {
        let pause = |(from_ns, to_ns): &SpanNs| {
            // Requests are sent in the order of their due times.
            let first = self.requests.partition_point(|request| request.sent_ns < *from_ns);
            let first_ns = self.requests.get(first)?.sent_ns;
            (first_ns + least_ns < *to_ns).then_some((first_ns, *to_ns))
        };
        still.iter().filter_map(pause).collect()
    }

    /// Counts of the requests that are due in the window and were not affected by any of the times in `away`, and the
    /// number of affected ones. `away` is in ascending order and does not overlap.
    pub(super) fn counts(&self, away: &[SpanNs]) -> (Counts, u64) {
        let usual_ns = self.usual_ns();
        let (mut counts, mut affected, mut is_affected) = (Counts::default(), 0, false);
        let mut away = away.iter().peekable();
        for request in &self.requests {
            let was_away = overlaps(&mut away, request);
            let is_quick = !request.is_late() && request.took_ns().is_some_and(|took_ns| took_ns <= usual_ns);
            is_affected = was_away || is_affected && !is_quick;
            if !self.window.holds(request.due_ns) {
                continue;
            }
            if is_affected {
                affected += 1;
            } else {
                counts.add(request, self.timeout_ns);
            }
        }
        (counts, affected)
    }

    /// Median time of the answers (ns).
    fn usual_ns(&self) -> u64 {
        let mut all: Vec<u64> = self.requests.iter().filter_map(Request::took_ns).collect();
        let middle = all.len().saturating_sub(1) / 2;
        if all.is_empty() { u64::MAX } else { *all.select_nth_unstable(middle).1 }
    }
}

impl Counts {
    fn add(&mut self, request: &Request, timeout_ns: u64) {
        self.requests += 1;
        match request.took_ns() {
            None => {}
            Some(took_ns) if took_ns > timeout_ns => self.late_answers += 1,
            Some(_) if !request.right => self.wrong_answers += 1,
            Some(took_ns) => {
                self.answers += 1;
                self.times.record_ns(took_ns);
            }
        }
    }
}

/// True if one of the times in `away` lies between the due time of the request and its answer. Times that end before the
/// request is due are removed; later requests are due later.
fn overlaps<'a>(away: &mut Peekable<impl Iterator<Item = &'a SpanNs>>, request: &Request) -> bool {
    while away.next_if(|(_, to_ns)| *to_ns < request.due_ns).is_some() {}
    let until_ns = request.answered_ns.unwrap_or(request.sent_ns);
    away.peek().is_some_and(|(from_ns, _)| *from_ns <= until_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requester::Report;

    const US: u64 = 1000;
    const WINDOW: Window = Window { begins_ns: 0, opens_ns: 0, closes_ns: 10_000 * US };
    const TIMEOUT_NS: u64 = 5000 * US;

    /// Requests (due time, sending, answer) (us); answer 0: none.
    fn log(requests: &[(u64, u64, u64)]) -> Log {
        let mut log = Log::new(WINDOW, TIMEOUT_NS);
        for (due, sent, answer) in requests {
            let serial = log.sent(due * US, sent * US);
            if *answer > 0 {
                log.answered(serial, answer * US, true);
            }
        }
        log
    }

    /// (Requests, answers, affected).
    fn counted(log: &Log, away: &[SpanNs]) -> (u64, u64, u64) {
        let (counts, affected) = log.counts(away);
        (counts.requests, counts.answers, affected)
    }

    /// Requests every 100 us, answered after 10 us; the requester is away from 400 to 700 us, and the service needs 100
    /// us for the burst.
    fn delayed() -> Log {
        log(&[
            (100, 100, 110),
            (200, 200, 210),
            (395, 395, 700),
            (500, 700, 750),
            (590, 700, 800),
            (750, 750, 0),
            (800, 800, 830),
            (900, 900, 910),
            (1000, 1000, 0),
            (1100, 1100, 1110),
        ])
    }

    #[test]
    fn requests_that_a_delay_affected_do_not_count() {
        let log = delayed();
        assert_eq!(log.delays(), [(500 * US, 700 * US)]);
        // The request before the delay, whose answer waited; the burst; a request that it made lost, and one that it
        // made slow.
        assert_eq!(counted(&log, &log.delays()), (5, 4, 5));
        assert_eq!(counted(&log, &[]), (10, 8, 0), "the whole trial");
        let (_, late, in_time, offered) = log.lateness();
        assert_eq!((late, in_time, offered), (2, 10, 10));
    }

    /// Another program had the CPU during one of four requests, and then during three of them.
    #[test]
    fn requests_on_a_shared_cpu_all_count() {
        let left = |others: SpanNs| {
            let log = log(&[(100, 100, 110), (200, 200, 210), (300, 300, 310), (400, 400, 410)]);
            let (counts, excluded) = log.counts(&log.delays());
            let mut report = Report { counts, excluded, log, ..Report::default() };
            report.leave_out(Vec::new(), vec![others]);
            report
        };
        let paused = left((303 * US, 307 * US));
        assert_eq!((paused.counts.requests, paused.with_pauses.map(|counts| counts.requests)), (3, Some(4)));
        assert_eq!(paused.silences.others.len(), 1);
        let shared = left((150 * US, 9000 * US));
        assert_eq!((shared.counts.requests, shared.excluded, shared.with_pauses.is_none()), (4, 0, true));
        assert!(shared.silences.others.is_empty() && shared.paused_s > 8e-3, "{:?}", shared.silences);
    }

    #[test]
    fn a_pause_begins_with_the_first_request_that_should_have_interrupted_it() {
        let log = delayed();
        let still = [(120 * US, 190 * US), (210 * US, 390 * US), (410 * US, 740 * US), (1150 * US, 9000 * US)];
        assert_eq!(log.pauses(&still, 20 * US), [(700 * US, 740 * US)]);
        assert_eq!(log.pauses(&still, 50 * US), []);
    }

    #[test]
    fn an_answer_after_the_timeout_is_late() {
        let (counts, _) = log(&[(100, 100, 5200), (200, 200, 300)]).counts(&[]);
        assert_eq!((counts.requests, counts.answers, counts.late_answers, counts.unanswered()), (2, 1, 1, 0));
    }

    /// The CPU made a transition between two times that touch. A request just before it is no pause that lasts to the end
    /// of the second time.
    #[test]
    fn times_that_touch_are_not_one_pause() {
        let requests = log(&[(100, 100, 105), (300, 300, 302), (2000, 2000, 2010)]);
        let (counts, excluded) = requests.counts(&requests.delays());
        let mut report = Report { counts, excluded, log: requests, ..Report::default() };
        report.leave_out(vec![(301 * US, 1900 * US), (110 * US, 301 * US)], Vec::new());
        assert_eq!((report.paused_s, report.excluded, report.counts.requests), (0.0, 0, 3));
        // Without the transition, the second request should have interrupted the CPU.
        report.leave_out(vec![(110 * US, 1900 * US)], Vec::new());
        assert!((report.paused_s - 1.6e-3).abs() < 1e-9, "{}", report.paused_s);
    }
}
