//! Connections: requests wait in the order of their due times for a connection that can take them. Datagrams without a
//! number use the same engine, with one socket per outstanding request.
//!
//! A request that is not answered in time is given up and its connection reopened, as clients do.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use netcliff_packets::clock;
use nix::sys::epoll::EpollFlags;

use super::net::{Poll, close_at_once, error_of, open, receive, send, tokens};
use super::tls::Session;
use super::{Load, Report, Requester, RequesterError, Trial};
use crate::protocol::{Message, Parsed, Transport, number_in, write_number};

/// Largest number of bytes per read call.
const READ: usize = 256 << 10;
/// Longest time in which connections are opened before the trial begins (ns).
const OPENING_NS: u64 = 2_000_000_000;
/// Time after which a refused or broken connection is reopened (ns).
const AGAIN_NS: u64 = 1_000_000;
/// Longest answer (bytes).
const LONGEST: usize = 64 << 20;

#[derive(Debug, Clone, Copy)]
struct PendingRequest {
    due_ns: u64,
    message: usize,
    /// Number in the trial's log.
    serial: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Connecting,
    Open,
}

struct Connection {
    fd: Option<OwnedFd>,
    /// TLS state of the open connection; `None` without TLS.
    session: Option<Session>,
    state: State,
    /// Outstanding requests of the connection, the oldest first.
    asked: VecDeque<PendingRequest>,
    /// Bytes of requests that could not be sent yet.
    out: Vec<u8>,
    /// Beginning of an answer that is not complete yet.
    part: Vec<u8>,
    /// True: the connection is in the list of connections that can take a request.
    listed: bool,
    /// True: the service closes the connection after its present answer.
    closes: bool,
}

/// Makes a trial.
pub(super) fn run(requester: &Requester, load: &Load) -> Result<Report, RequesterError> {
    let poll = Poll::new().map_err(RequesterError::system("make an epoll descriptor"))?;
    let closed = || Connection {
        fd: None,
        session: None,
        state: State::Closed,
        asked: VecDeque::new(),
        out: Vec::new(),
        part: Vec::new(),
        listed: false,
        closes: false,
    };
    let count = requester.connections as usize;
    let mut engine = Engine {
        requester,
        poll,
        connections: (0..count).map(|_| closed()).collect(),
        room: VecDeque::new(),
        queue: VecDeque::new(),
        deadlines: VecDeque::new(),
        again: VecDeque::new(),
        under_way: 0,
        opened: 0,
        failure: None,
        buffer: vec![0; READ],
        plain: Vec::new(),
    };
    let mut ready = Vec::new();
    if requester.new_connections {
        (0..count).for_each(|place| engine.list(place));
    } else {
        engine.open_all(&mut ready)?;
    }
    let mut trial = Trial::new(requester, load, AGAIN_NS)?;
    loop {
        let now_ns = clock::monotonic_ns();
        trial.turn(now_ns);
        if trial.is_over(now_ns, engine.under_way > 0) {
            break;
        }
        let mut worked = false;
        while let Some((serial, due_ns, message)) = trial.take(now_ns) {
            engine.under_way += u64::from(trial.window.holds(due_ns));
            engine.queue.push_back(PendingRequest { due_ns, message, serial });
            worked = true;
        }
        tokens(&mut engine.poll, &mut ready);
        for (place, events) in &ready {
            engine.handle(&mut trial, *place, *events);
            worked = true;
        }
        worked |= engine.assign(&mut trial);
        engine.expire(&mut trial, now_ns);
        engine.reopen(now_ns);
        if worked {
            trial.worked(now_ns);
        } else {
            std::hint::spin_loop();
        }
    }
    engine.connections.iter().filter_map(|connection| connection.fd.as_ref()).for_each(close_at_once);
    trial.report.opened = engine.opened;
    trial.report.failure = engine.failure.take();
    Ok(trial.end())
}

struct Engine<'a> {
    requester: &'a Requester,
    poll: Poll,
    connections: Vec<Connection>,
    /// Indices of the connections that can take a request.
    room: VecDeque<usize>,
    /// Requests that wait for a connection.
    queue: VecDeque<PendingRequest>,
    /// (due time (ns), connection, serial number) of outstanding requests, in the order in which they were sent.
    deadlines: VecDeque<(u64, usize, usize)>,
    /// (time (ns), connection) of broken connections that will be reopened.
    again: VecDeque<(u64, usize)>,
    /// Requests of the window that are neither answered nor given up.
    under_way: u64,
    opened: u64,
    failure: Option<String>,
    buffer: Vec<u8>,
    /// Decrypted bytes, with TLS.
    plain: Vec<u8>,
}

impl Engine<'_> {
    fn is_stream(&self) -> bool {
        self.requester.workload.transport == Transport::Tcp
    }

    fn open_all(&mut self, ready: &mut Vec<(usize, EpollFlags)>) -> Result<(), RequesterError> {
        for place in 0..self.connections.len() {
            self.open(place).map_err(RequesterError::system(format!("connect to {}", self.requester.to)))?;
        }
        let until_ns = clock::monotonic_ns() + OPENING_NS;
        while self.connections.iter().any(|one| one.state == State::Connecting) && clock::monotonic_ns() < until_ns {
            tokens(&mut self.poll, ready);
            for (place, events) in &*ready {
                self.connected(*place, *events);
            }
        }
        match (self.connections.iter().any(|one| one.state == State::Open), self.failure.take()) {
            (true, _) => Ok(()),
            (false, why) => Err(RequesterError::NoConnection {
                to: self.requester.to,
                why: why.unwrap_or_else(|| "none was accepted within 2 s".to_owned()),
            }),
        }
    }

    fn open(&mut self, place: usize) -> io::Result<()> {
        let fd = open(self.requester.to, self.requester.workload.transport)?;
        self.poll.add(&fd, place)?;
        let session = self.requester.tls.as_ref().map(|tls| tls.session().map_err(io::Error::other)).transpose()?;
        let stream = self.is_stream();
        let connection = &mut self.connections[place];
        (connection.fd, connection.session) = (Some(fd), session);
        connection.state = if stream { State::Connecting } else { State::Open };
        connection.closes = false;
        self.opened += 1;
        if !stream {
            self.list(place);
        }
        Ok(())
    }

    /// Adds a connection to the list of connections that can take a request, if it can.
    fn list(&mut self, place: usize) {
        let depth = self.requester.depth as usize;
        let fresh = self.requester.new_connections;
        let connection = &mut self.connections[place];
        let usable = if fresh { connection.state == State::Closed } else { connection.state == State::Open };
        if usable && !connection.listed && !connection.closes && connection.asked.len() < depth {
            connection.listed = true;
            self.room.push_back(place);
        }
    }

    /// Assigns waiting requests to connections that can take them. Returns true if it assigned any.
    fn assign(&mut self, trial: &mut Trial<'_>) -> bool {
        let mut worked = false;
        while let (Some(_), Some(place)) = (self.queue.front(), self.room.front().copied()) {
            self.room.pop_front();
            self.connections[place].listed = false;
            let Some(asked) = self.queue.pop_front() else { break };
            worked = true;
            self.deadlines.push_back((asked.due_ns, place, asked.serial));
            self.connections[place].asked.push_back(asked);
            if self.requester.new_connections
                && let Err(error) = self.open(place)
            {
                self.fail(trial, place, &format!("connect: {error}"));
                continue;
            }
            self.write(trial, place, &asked);
            self.list(place);
        }
        worked
    }

    /// Sends a request, or stores it until the connection is open.
    fn write(&mut self, trial: &mut Trial<'_>, place: usize, asked: &PendingRequest) {
        let message: &Message = &self.requester.workload.messages[asked.message];
        let connection = &mut self.connections[place];
        let start = connection.out.len();
        if start == 0 && connection.state == State::Open && message.number.is_none() && connection.session.is_none() {
            let Some(fd) = &connection.fd else { return };
            match send(fd, &message.bytes) {
                Ok(sent) => connection.out.extend_from_slice(&message.bytes[sent..]),
                Err(error) => self.fail(trial, place, &format!("a request: {error}")),
            }
            return;
        }
        connection.out.extend_from_slice(&message.bytes);
        if let Some(number) = message.number {
            write_number(&mut connection.out[start..], number, asked.serial as u64);
        }
        if connection.state == State::Open {
            self.flush(trial, place);
        }
    }

    fn flush(&mut self, trial: &mut Trial<'_>, place: usize) {
        let connection = &mut self.connections[place];
        let Some(fd) = &connection.fd else { return };
        if let Some(session) = &mut connection.session {
            if connection.state == State::Open {
                session.put(&connection.out);
                connection.out.clear();
            }
            if let Err(error) = session.push(fd) {
                self.fail(trial, place, &format!("a request: {error}"));
            }
            return;
        }
        if connection.out.is_empty() {
            return;
        }
        match send(fd, &connection.out) {
            Ok(sent) => drop(connection.out.drain(..sent)),
            Err(error) => self.fail(trial, place, &format!("a request: {error}")),
        }
    }

    /// Handles the result of opening a connection. Returns true if the connection is open.
    fn connected(&mut self, place: usize, events: EpollFlags) -> bool {
        let connection = &mut self.connections[place];
        if connection.state != State::Connecting {
            return connection.state == State::Open;
        }
        let Some(fd) = &connection.fd else { return false };
        if let Some(error) = error_of(fd) {
            self.failure.get_or_insert_with(|| format!("connect: {error}"));
            connection.state = State::Closed;
            connection.fd = None;
            return false;
        }
        let progress = if connection.session.is_some() { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
        if !events.intersects(progress | EpollFlags::EPOLLOUT) {
            return false;
        }
        if connection.session.is_some() {
            return self.shake_hands(place);
        }
        connection.state = State::Open;
        self.list(place);
        true
    }

    /// Continues the TLS handshake; returns true once it is complete. Application data that arrives with the last bytes
    /// of the handshake is left for [`Self::read`].
    fn shake_hands(&mut self, place: usize) -> bool {
        let connection = &mut self.connections[place];
        let (Some(fd), Some(session)) = (&connection.fd, &mut connection.session) else { return false };
        let mut step = || -> Result<(), String> {
            let broken = |error: io::Error| format!("TLS's handshake: {error}");
            session.push(fd).map_err(broken)?;
            while !session.is_open() {
                match receive(fd, &mut self.buffer).map_err(broken)? {
                    None => break,
                    Some(0) => return Err("the service closed the connection during TLS's handshake".to_owned()),
                    Some(got) => session.take(&self.buffer[..got], &mut connection.part)?,
                }
                session.push(fd).map_err(broken)?;
            }
            Ok(())
        };
        if let Err(why) = step() {
            self.failure.get_or_insert(why);
            (connection.fd, connection.session, connection.state) = (None, None, State::Closed);
            return false;
        }
        if !session.is_open() {
            return false;
        }
        connection.state = State::Open;
        self.list(place);
        true
    }

    fn handle(&mut self, trial: &mut Trial<'_>, place: usize, events: EpollFlags) {
        if self.connections[place].state == State::Connecting && !self.connected(place, events) {
            if self.connections[place].state == State::Closed {
                self.fail(trial, place, "connect: refused");
            }
            return;
        }
        if events.contains(EpollFlags::EPOLLOUT) || self.connections[place].session.is_some() {
            self.flush(trial, place);
        }
        let readable = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if events.intersects(readable) {
            self.read(trial, place);
        }
    }

    fn read(&mut self, trial: &mut Trial<'_>, place: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(fd) = &self.connections[place].fd {
            match receive(fd, &mut buffer) {
                Ok(None) => break,
                Ok(Some(0)) if self.is_stream() => {
                    self.end_of_stream(trial, place);
                    break;
                }
                Ok(Some(got)) => {
                    let now_ns = clock::monotonic_ns();
                    if self.connections[place].session.is_some() {
                        self.decrypt(trial, place, &buffer[..got], now_ns);
                    } else if self.is_stream() {
                        self.parse(trial, place, &buffer[..got], now_ns)
                    } else {
                        self.datagram(trial, place, &buffer[..got], now_ns)
                    }
                    // A short read has emptied a stream; further data is reported as a new event.
                    if self.is_stream() && got < buffer.len() {
                        break;
                    }
                }
                Err(error) => {
                    self.fail(trial, place, &format!("an answer: {error}"));
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    fn decrypt(&mut self, trial: &mut Trial<'_>, place: usize, bytes: &[u8], now_ns: u64) {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let taken = self.connections[place].session.as_mut().map_or(Ok(()), |session| session.take(bytes, &mut plain));
        match taken {
            Ok(()) => self.parse(trial, place, &plain, now_ns),
            Err(why) => self.fail(trial, place, &why),
        }
        self.plain = plain;
        // TLS itself may have to send messages, such as a key update.
        if self.connections[place].session.is_some() {
            self.flush(trial, place);
        }
    }

    fn datagram(&mut self, trial: &mut Trial<'_>, place: usize, bytes: &[u8], now_ns: u64) {
        let Some(asked) = self.connections[place].asked.pop_front() else { return };
        let right = self.requester.workload.protocol.of_datagram(bytes).is_some_and(|answer| answer.right);
        self.done(trial, &asked, now_ns, right);
        self.list(place);
    }

    fn parse(&mut self, trial: &mut Trial<'_>, place: usize, bytes: &[u8], now_ns: u64) {
        let whole;
        let mut rest = if self.connections[place].part.is_empty() {
            bytes
        } else {
            let mut part = std::mem::take(&mut self.connections[place].part);
            part.extend_from_slice(bytes);
            whole = part;
            &whole[..]
        };
        while !rest.is_empty() {
            let Some(front) = self.connections[place].asked.front().copied() else {
                return self.fail(trial, place, "the service sent an answer to no request");
            };
            let workload = &self.requester.workload;
            match workload.protocol.of_stream(&workload.messages[front.message], rest) {
                Parsed::More if rest.len() < LONGEST => {
                    self.connections[place].part = rest.to_vec();
                    return;
                }
                Parsed::More => return self.fail(trial, place, "an answer of more than 64 MiB"),
                Parsed::Broken(why) => {
                    self.wrong(trial, place, now_ns);
                    return self.fail(trial, place, why);
                }
                Parsed::Answer(answer) => {
                    rest = &rest[answer.used..];
                    let asked = &mut self.connections[place].asked;
                    let is_it = |one: &PendingRequest| {
                        answer.number.is_none_or(|number| number_in(one.serial as u64, 2) == number)
                    };
                    let Some(found) = asked.iter().position(is_it) else {
                        self.wrong(trial, place, now_ns);
                        return self.fail(trial, place, "an answer with a number that was not asked");
                    };
                    let Some(asked) = asked.remove(found) else { return };
                    self.done(trial, &asked, now_ns, answer.right);
                    if self.requester.new_connections {
                        return self.close(place);
                    }
                    if answer.closes {
                        self.connections[place].closes = true;
                        if self.connections[place].asked.is_empty() {
                            return self.renew(trial, place);
                        }
                    }
                    self.list(place);
                }
            }
        }
    }

    /// Counts the oldest request of a connection as answered wrongly.
    fn wrong(&mut self, trial: &mut Trial<'_>, place: usize, now_ns: u64) {
        if let Some(asked) = self.connections[place].asked.pop_front() {
            self.done(trial, &asked, now_ns, false);
        }
    }

    fn done(&mut self, trial: &mut Trial<'_>, asked: &PendingRequest, now_ns: u64, right: bool) {
        self.under_way -= u64::from(trial.window.holds(asked.due_ns)).min(self.under_way);
        trial.answered(asked.serial, (now_ns, now_ns), right);
    }

    /// Handles a connection that the service closed. If no request is outstanding, this is not a failure: a service may
    /// close a connection, for example after a maximum number of requests.
    fn end_of_stream(&mut self, trial: &mut Trial<'_>, place: usize) {
        if self.connections[place].asked.is_empty() {
            return self.renew(trial, place);
        }
        self.fail(trial, place, "the service closed the connection before it had answered");
    }

    /// Reopens a connection that ended normally.
    fn renew(&mut self, trial: &mut Trial<'_>, place: usize) {
        self.close(place);
        if !self.requester.new_connections
            && let Err(error) = self.open(place)
        {
            self.fail(trial, place, &format!("connect: {error}"));
        }
    }

    fn close(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if let Some(fd) = connection.fd.take() {
            close_at_once(&fd);
        }
        connection.session = None;
        connection.state = State::Closed;
        connection.out.clear();
        connection.part.clear();
        connection.closes = false;
        if self.requester.new_connections {
            self.list(place);
        }
    }

    /// Closes a connection, gives up its outstanding requests, and schedules its reopening.
    fn fail(&mut self, trial: &mut Trial<'_>, place: usize, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
        for asked in std::mem::take(&mut self.connections[place].asked) {
            self.under_way -= u64::from(trial.window.holds(asked.due_ns)).min(self.under_way);
        }
        self.close(place);
        if !self.requester.new_connections {
            self.again.push_back((clock::monotonic_ns() + AGAIN_NS, place));
        }
    }

    /// Gives up requests whose timeout has passed.
    fn expire(&mut self, trial: &mut Trial<'_>, now_ns: u64) {
        let timeout_ns = self.requester.timeout_ns;
        while self.queue.front().is_some_and(|asked| asked.due_ns + timeout_ns < now_ns) {
            let Some(asked) = self.queue.pop_front() else { break };
            self.under_way -= u64::from(trial.window.holds(asked.due_ns)).min(self.under_way);
        }
        while let Some((due_ns, place, serial)) = self.deadlines.front().copied() {
            let waits = self.connections[place].asked.iter().any(|asked| asked.serial == serial);
            if waits && due_ns + timeout_ns >= now_ns {
                break;
            }
            self.deadlines.pop_front();
            if waits {
                self.fail(trial, place, "an answer did not come within --timeout");
            }
        }
    }

    fn reopen(&mut self, now_ns: u64) {
        while let Some((at_ns, place)) = self.again.front().copied().filter(|(at_ns, _)| *at_ns <= now_ns) {
            self.again.pop_front();
            if self.connections[place].state == State::Closed && self.open(place).is_err() {
                self.again.push_back((at_ns + AGAIN_NS, place));
            }
        }
    }
}
