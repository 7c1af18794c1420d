//! The open loop: requests leave on a schedule, independent of the answers. Latency counts from the time a request was
//! due, so that a request that waits behind a slow answer counts as slow too (no coordinated omission).

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::Duration;

use super::closed::broken;
use super::flow::{Flow, number};
use super::settings::{Receive, Transport};
use super::socket::{Got, Socket};
use netcliff_packets::clock;

/// Largest number of requests under way. Further requests wait at the near end, and the wait counts as latency.
const MOST_UNDER_WAY: usize = 65_536;
/// A sleep ends this long before a request is due \[ns\]: by default the kernel wakes a sleeper some 50 us late.
const WAKE_EARLY_NS: u64 = 60_000;

/// Times at which requests are due (ns of `CLOCK_MONOTONIC`). The iterator's head is the first request that has not
/// left.
type Dues<'a> = Peekable<&'a mut dyn Iterator<Item = u64>>;

/// A request under way.
struct PendingRequest {
    sequence: u64,
    due_ns: u64,
    sent_ns: u64,
}

struct Loop<'f, 's, 'a> {
    flow: &'f mut Flow<'a>,
    socket: &'s Socket,
    datagrams: bool,
    request: Vec<u8>,
    /// Number of bytes of the first unsent request that have left.
    left: usize,
    sequence: u64,
    waiting: VecDeque<PendingRequest>,
    buffer: Vec<u8>,
    have: usize,
}

/// Runs one flow. The schedule gives offsets from the start (ns). Returns why the flow ended early, as a message.
pub(super) fn run(flow: &mut Flow<'_>, socket: &Socket, schedule: &mut dyn Iterator<Item = u64>) -> Option<String> {
    let settings = flow.settings;
    let mut at_work = Loop {
        socket,
        datagrams: settings.transport == Transport::Udp,
        request: vec![0x5a; settings.request_bytes],
        left: 0,
        sequence: 0,
        waiting: VecDeque::new(),
        buffer: vec![0; settings.response_bytes.max(64 << 10)],
        have: 0,
        flow,
    };
    let begins_ns = at_work.flow.window.begins_ns;
    let mut dues = schedule.map(|offset| begins_ns + offset);
    let mut dues: Dues<'_> = (&mut dues as &mut dyn Iterator<Item = u64>).peekable();
    let ended = at_work.run(&mut dues).err();
    at_work.give_up(u64::MAX);
    at_work.never_left(dues);
    ended
}

impl Loop<'_, '_, '_> {
    fn run(&mut self, dues: &mut Dues<'_>) -> Result<(), String> {
        let window = self.flow.window;
        let timeout_ns = self.flow.timeout().as_nanos() as u64;
        let due = |dues: &mut Dues<'_>| dues.peek().copied().filter(|due_ns| *due_ns < window.closes_ns);
        loop {
            let now_ns = clock::monotonic_ns();
            self.flow.pass(now_ns);
            let over =
                now_ns >= window.closes_ns && (self.waiting.is_empty() || now_ns - window.closes_ns > timeout_ns);
            if self.socket.stopped() || over {
                return Ok(());
            }
            let mut blocked = false;
            while let Some(due_ns) = due(dues).filter(|due_ns| *due_ns <= now_ns) {
                if self.waiting.len() >= MOST_UNDER_WAY || !self.ask(due_ns)? {
                    blocked = true;
                    break;
                }
                dues.next();
            }
            let answered = self.take()?;
            if self.datagrams {
                self.give_up(now_ns.saturating_sub(timeout_ns));
            }
            if !answered {
                self.rest(due(dues), blocked)?;
            }
        }
    }

    /// Sends the next request. Returns false if there is no room for all of it now.
    fn ask(&mut self, due_ns: u64) -> Result<bool, String> {
        if self.datagrams {
            self.request[..8].copy_from_slice(&self.sequence.to_le_bytes());
        }
        let sent_ns = clock::monotonic_ns();
        self.left += self.socket.try_send(&self.request[self.left..]).map_err(|e| broken("a request", &e))?;
        if self.left < self.request.len() {
            return Ok(false);
        }
        self.left = 0;
        if self.flow.window.holds(due_ns) {
            self.flow.counts.lateness.record_ns(sent_ns.saturating_sub(due_ns));
        }
        self.waiting.push_back(PendingRequest { sequence: self.sequence, due_ns, sent_ns });
        self.sequence += 1;
        Ok(true)
    }

    /// Reads the answers that have arrived. Returns true if there was one.
    fn take(&mut self) -> Result<bool, String> {
        let response = self.flow.settings.response_bytes;
        let got = self.socket.try_recv(&mut self.buffer[self.have..]);
        let now_ns = clock::monotonic_ns();
        let bytes = match got {
            Ok(Got::Nothing) => return Ok(false),
            Ok(Got::End) if self.datagrams => return Ok(false),
            Ok(Got::End) => return Err("the far end closed the connection".into()),
            Ok(Got::Bytes(bytes)) => bytes,
            Err(e) => return Err(broken("a response", &e)),
        };
        if self.datagrams {
            if bytes == response {
                let sequence = number(&self.buffer);
                let place = self.waiting.binary_search_by_key(&sequence, |request| request.sequence).ok();
                match place.and_then(|place| self.waiting.remove(place)) {
                    Some(request) => self.count(&request, 0, now_ns),
                    None => self.flow.counts.late_answers += u64::from(self.flow.window.holds(now_ns)),
                }
            }
            return Ok(true);
        }
        self.have += bytes;
        let mut taken = 0;
        while self.have - taken >= response {
            let request = self.waiting.pop_front().ok_or("the far end sent an answer to no request")?;
            self.count(&request, taken, now_ns);
            taken += response;
        }
        self.buffer.copy_within(taken..self.have, 0);
        self.have -= taken;
        Ok(true)
    }

    /// Counts the requests that were due in the window by now and were not sent: at the configured rate they are lost
    /// too.
    fn never_left(&mut self, dues: Dues<'_>) {
        let (window, now_ns) = (self.flow.window, clock::monotonic_ns());
        let due = dues.take_while(|due_ns| *due_ns < now_ns && *due_ns < window.closes_ns);
        self.flow.counts.unsent = due.filter(|due_ns| window.holds(*due_ns)).count() as u64;
    }

    fn count(&mut self, request: &PendingRequest, at: usize, now_ns: u64) {
        if !self.flow.window.holds(request.due_ns) {
            return;
        }
        // All answers of a stream arrive, however late, so late ones are counted here. Late datagrams were given up
        // before.
        if now_ns.saturating_sub(request.sent_ns) > self.flow.timeout().as_nanos() as u64 {
            self.flow.counts.timeouts += 1;
            self.flow.counts.late_answers += 1;
        } else {
            self.flow.count(request.due_ns, now_ns);
            let answer = &self.buffer[at..at + self.flow.settings.response_bytes];
            self.flow.one_way(answer, request.sent_ns, now_ns);
        }
    }

    /// Gives up the requests sent before `before_ns`. Those due in the window count as timeouts.
    fn give_up(&mut self, before_ns: u64) {
        while self.waiting.front().is_some_and(|request| request.sent_ns < before_ns) {
            if let Some(request) = self.waiting.pop_front() {
                self.flow.counts.timeouts += u64::from(self.flow.window.holds(request.due_ns));
            }
        }
    }

    /// Sleeps until there is something to do, but spins for the last part of the wait for a request.
    fn rest(&self, due_ns: Option<u64>, blocked: bool) -> Result<(), String> {
        if self.flow.settings.receive == Receive::Spin {
            std::hint::spin_loop();
            return Ok(());
        }
        let now_ns = clock::monotonic_ns();
        let until_ns = due_ns.unwrap_or(now_ns + 10_000_000).min(now_ns + 10_000_000);
        let sleep_ns = until_ns.saturating_sub(now_ns + WAKE_EARLY_NS);
        if sleep_ns == 0 && !blocked {
            return Ok(());
        }
        let at_most = if blocked { Duration::from_millis(1) } else { Duration::from_nanos(sleep_ns) };
        self.socket.sleep(at_most, blocked).map_err(|e| broken("waiting", &e))
    }
}
