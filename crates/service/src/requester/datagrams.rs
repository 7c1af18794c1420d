//! Datagrams with numbers: many requests are outstanding per port, and are sent and received in batches.

use std::os::fd::OwnedFd;

use netcliff_packets::clock;

use super::net::{BATCH, Batch, Poll, dropped, open, tokens};
use super::{Load, Report, Requester, RequesterError, Trial};
use crate::protocol::{Transport, number_in, write_number};

/// Smallest and largest number of slots for outstanding requests per port. A number of 2 bytes repeats after 65536
/// requests.
const SLOTS: (usize, usize) = (1 << 6, 1 << 16);
/// Delay from creating the sockets to the beginning of the trial (ns).
const DELAY_NS: u64 = 2_000_000;

/// Number of requests that one port sends before the next port sends. Their answers come close together and are
/// received in one call.
const TURN: u64 = 32;

/// An outstanding request; in a free slot `due_ns` is 0.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    number: u64,
    due_ns: u64,
    /// Number in the trial's log.
    serial: usize,
}

/// A source port.
struct Port {
    fd: OwnedFd,
    slots: Vec<Slot>,
    next: u64,
}

/// Makes a trial.
pub(super) fn run(requester: &Requester, load: &Load) -> Result<Report, RequesterError> {
    let failed = |what: &'static str| RequesterError::system(what);
    let mut poll = Poll::new().map_err(failed("make an epoll descriptor"))?;
    let under_way = load.rate_rps * requester.timeout_ns as f64 * 1e-9 / f64::from(requester.connections);
    let slots = ((2.0 * under_way) as usize).next_power_of_two().clamp(SLOTS.0, SLOTS.1);
    let mut ports = Vec::new();
    for place in 0..requester.connections as usize {
        let fd = open(requester.to, Transport::Udp).map_err(failed("open a socket to the service"))?;
        poll.add_readable(&fd, place).map_err(failed("watch a socket"))?;
        ports.push(Port { fd, slots: vec![Slot::default(); slots], next: 0 });
    }
    let mut trial = Trial::new(requester, load, DELAY_NS)?;
    let mut engine =
        Engine { ports, turn: 0, until: TURN, under_way: 0, out: Batch::new(), back: Batch::new(), due: Vec::new() };
    let mut ready = Vec::new();
    loop {
        let now_ns = clock::monotonic_ns();
        trial.turn(now_ns);
        if trial.is_over(now_ns, engine.under_way > 0) {
            break;
        }
        let sent = engine.send(&mut trial, now_ns);
        tokens(&mut poll, &mut ready);
        ready.iter().for_each(|(place, _)| engine.receive(&mut trial, *place));
        if sent || !ready.is_empty() {
            trial.worked(now_ns);
        } else {
            std::hint::spin_loop();
        }
    }
    trial.report.missed = engine.ports.iter().map(|port| dropped(&port.fd)).sum();
    trial.report.opened = engine.ports.len() as u64;
    Ok(trial.end())
}

struct Engine {
    ports: Vec<Port>,
    turn: usize,
    /// Request number of the present port at which the next port takes over.
    until: u64,
    /// Requests of the window that were sent but not answered.
    under_way: u64,
    out: Batch,
    back: Batch,
    /// (number in the trial's log, due time, index of the message) of the requests in the batch.
    due: Vec<(usize, u64, usize)>,
}

impl Engine {
    /// Takes the due requests and sends them from the present port. Returns true if any were due.
    fn send(&mut self, trial: &mut Trial<'_>, now_ns: u64) -> bool {
        // Requests that a full socket did not take before are sent first.
        while self.due.len() < BATCH {
            let Some(request) = trial.take(now_ns) else { break };
            self.due.push(request);
        }
        if self.due.is_empty() {
            return false;
        }
        let workload = &trial.requester.workload;
        if self.ports[self.turn].next >= self.until {
            self.turn = (self.turn + 1) % self.ports.len();
            self.until = self.ports[self.turn].next + TURN;
        }
        let port = &mut self.ports[self.turn];
        self.out.clear();
        let first = port.next;
        for (serial, due_ns, message) in &self.due {
            let message = &workload.messages[*message];
            let bytes = self.out.add(&message.bytes);
            let place = message.number.unwrap_or((0, 0));
            write_number(bytes, place, port.next);
            let mask = port.slots.len() as u64 - 1;
            // If the request's number field is short, the answer returns only the lowest bytes of the number.
            let short = number_in(port.next, place.1);
            let slot = &mut port.slots[(short & mask) as usize];
            *slot = Slot { number: short, due_ns: *due_ns, serial: *serial };
            port.next += 1;
        }
        debug_assert!(!self.out.is_empty() && (self.out.is_full() || self.due.len() < BATCH));
        let sent = match self.out.send(&port.fd) {
            Ok(sent) => sent,
            Err(error) => {
                // A connected socket reports here that an earlier datagram was refused (ICMP); this call has sent
                // nothing.
                trial.failed(|| format!("a request: {error}"));
                0
            }
        };
        port.next = first + sent as u64;
        self.under_way +=
            self.due.iter().take(sent).filter(|(_, due_ns, _)| trial.window.holds(*due_ns)).count() as u64;
        self.due.drain(..sent);
        true
    }

    fn receive(&mut self, trial: &mut Trial<'_>, place: usize) {
        let port = &mut self.ports[place];
        let got = self.back.receive(&port.fd);
        let now_ns = clock::monotonic_ns();
        if let Err(error) = got {
            return trial.failed(|| format!("an answer: {error}"));
        }
        let (protocol, mask) = (trial.requester.workload.protocol, port.slots.len() as u64 - 1);
        for (bytes, at_ns) in self.back.datagrams(now_ns) {
            let Some((answer, number)) = protocol.of_datagram(bytes).and_then(|answer| Some((answer, answer.number?)))
            else {
                continue;
            };
            let slot = &mut port.slots[(number & mask) as usize];
            if slot.due_ns == 0 || slot.number != number {
                continue;
            }
            let due_ns = std::mem::take(&mut slot.due_ns);
            self.under_way -= u64::from(trial.window.holds(due_ns)).min(self.under_way);
            let serial = slot.serial;
            trial.answered(serial, (at_ns, now_ns), answer.right);
        }
    }
}
