//! What the threads of a server do.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{MOST_STRANGERS, Tally};
use crate::clock;
use crate::control::key::Token;
use crate::rr::STAMPED_BYTES;
use crate::rr::connect::greeting;
use crate::rr::settings::{Receive, Settings};
use crate::rr::socket::{GLANCE, Got, Socket};

/// How long a new connection may take to show its token.
const TOKEN_TIME: Duration = Duration::from_secs(2);
/// The same where the connection lives for one transaction only, and holds up an acceptor meanwhile.
const QUICK_TOKEN_TIME: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// What a flow of these settings reads into and answers from, all flows together (bytes).
pub(super) fn memory_bytes(settings: &Settings) -> u64 {
    let read = READ_BYTES.max(settings.request_bytes).saturating_add(settings.response_bytes);
    (read as u64).saturating_mul(u64::from(settings.flows))
}

/// Accepts connections until it is stopped.
pub(super) fn accept(tally: &Arc<Tally>, listener: &TcpListener) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !tally.stopped() {
        match listener.accept() {
            Ok((stream, _)) => admit(tally, stream),
            Err(_) => wait(tally, listener),
        }
    }
}

fn wait(tally: &Tally, listener: &TcpListener) {
    // Only where accepting is part of a transaction: else a listener that spins would take the CPU from the flows that were
    // accepted, all of it under SCHED_FIFO.
    if tally.settings.receive == Receive::Spin && tally.settings.connect_each {
        return std::hint::spin_loop();
    }
    let timeout = PollTimeout::try_from(GLANCE).unwrap_or(PollTimeout::ZERO);
    if poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], timeout) == Ok(1) {
        return;
    }
    // Nothing to accept, or a shortage of descriptors that passes.
    std::thread::sleep(Duration::from_micros(10));
}

fn admit(tally: &Arc<Tally>, mut stream: TcpStream) {
    if tally.settings.connect_each {
        if shows_token(tally, &mut stream, QUICK_TOKEN_TIME).is_some() && stream.set_nodelay(true).is_ok() {
            once(tally, stream);
        }
        return;
    }
    if tally.strangers.load(Ordering::Acquire) >= MOST_STRANGERS as u64 + u64::from(tally.settings.flows) {
        tally.refused.fetch_add(1, Ordering::Relaxed);
        return;
    }
    tally.strangers.fetch_add(1, Ordering::AcqRel);
    let theirs = Arc::clone(tally);
    let work = move || {
        let admitted = shows_token(&theirs, &mut stream, TOKEN_TIME);
        theirs.strangers.fetch_sub(1, Ordering::AcqRel);
        let Some(flow) = admitted else { return };
        let known = theirs.joined.fetch_add(1, Ordering::AcqRel);
        let room = known < u64::from(theirs.settings.flows);
        if room && stream.set_nodelay(true).is_ok() && theirs.place(flow).enter().is_ok() {
            theirs.counted(|| self::stream(&theirs, stream.into()));
        }
    };
    if std::thread::Builder::new().name("rr-flow".into()).spawn(work).is_err() {
        tally.strangers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads the token against a deadline, and the number of the flow where it is wanted, else 0; None for whoever does not show
/// them: it is refused.
fn shows_token(tally: &Tally, stream: &mut TcpStream, time: Duration) -> Option<usize> {
    let deadline = Instant::now() + time;
    let wanted = greeting(&tally.token, tally.settings.numbers_flows().then_some(0)).len();
    let (mut shown, mut filled) = (vec![0; wanted], 0);
    while filled < shown.len() && !tally.stopped() {
        let left = deadline.saturating_duration_since(Instant::now()).min(GLANCE);
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            break;
        }
        match stream.read(&mut shown[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    let (token, number) = shown.split_at(Token::BYTES);
    if filled < wanted || !tally.token.admits(token) {
        tally.refused.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    Some(number.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// Answers requests on a stream until the other end closes.
pub(super) fn stream(tally: &Tally, fd: OwnedFd) {
    let (request, response) = (tally.settings.request_bytes, tally.settings.response_bytes);
    let Ok(socket) = Socket::new(fd, tally.settings.receive, &tally.stop) else { return };
    let (mut buffer, mut answer) = (vec![0; READ_BYTES], vec![0x5a; response]);
    // Only whether a request is whole matters, not what is in it.
    let mut have = 0;
    let mut sequence = 0;
    while !tally.stopped() {
        match socket.recv(&mut buffer) {
            Ok(Got::Bytes(bytes)) => have += bytes,
            Ok(Got::Nothing) => continue,
            Ok(Got::End) | Err(_) => return,
        }
        let arrived_ns = clock::monotonic_ns();
        while have >= request {
            have -= request;
            stamp(&mut answer, sequence, arrived_ns);
            sequence += 1;
            if !matches!(socket.send(&answer), Ok(true)) {
                return;
            }
            tally.responses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request; the other end closes.
fn once(tally: &Tally, stream: TcpStream) {
    let request = tally.settings.request_bytes;
    let Ok(socket) = Socket::new(stream.into(), tally.settings.receive, &tally.stop) else { return };
    let (mut buffer, mut have) = (vec![0; request], 0);
    let deadline = Instant::now() + TOKEN_TIME;
    while have < request {
        match socket.recv(&mut buffer[have..]) {
            Ok(Got::Bytes(bytes)) => have += bytes,
            Ok(Got::Nothing) if !tally.stopped() && Instant::now() < deadline => {}
            _ => return,
        }
    }
    let mut answer = vec![0x5a; tally.settings.response_bytes];
    stamp(&mut answer, 0, clock::monotonic_ns());
    if matches!(socket.send(&answer), Ok(true)) {
        tally.responses.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for the datagram with the token, binds to its sender, then answers requests.
pub(super) fn datagrams(tally: &Tally, socket: &UdpSocket) {
    let mut buffer = vec![0; READ_BYTES];
    let Some(peer) = joining(tally, socket, &mut buffer) else { return };
    // From here on the kernel lets nobody else's datagrams in.
    if socket.connect(peer).is_err() || socket.send(tally.token.bytes()).is_err() {
        return;
    }
    let Ok(fd) = socket.as_fd().try_clone_to_owned() else { return };
    let Ok(flow) = Socket::new(fd, tally.settings.receive, &tally.stop) else { return };
    let mut answer = vec![0x5a; tally.settings.response_bytes];
    while !tally.stopped() {
        let bytes = match flow.recv(&mut buffer) {
            Ok(Got::Bytes(bytes)) => bytes,
            // An error here is the answer to an earlier datagram (port unreachable): the client may come back.
            Ok(_) | Err(_) => continue,
        };
        let arrived_ns = clock::monotonic_ns();
        if bytes == Token::BYTES && tally.token.admits(&buffer[..bytes]) {
            // The client has not seen the first reply.
            let _ = socket.send(tally.token.bytes());
        } else if bytes == tally.settings.request_bytes {
            stamp(&mut answer, 0, arrived_ns);
            answer[..8].copy_from_slice(&buffer[..8]);
            match flow.send(&answer) {
                Ok(true) => tally.responses.fetch_add(1, Ordering::Relaxed),
                _ => continue,
            };
        } else {
            tally.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn joining(tally: &Tally, socket: &UdpSocket, buffer: &mut [u8]) -> Option<SocketAddr> {
    socket.set_read_timeout(Some(GLANCE)).ok()?;
    while !tally.stopped() {
        match socket.recv_from(buffer) {
            Ok((bytes, from)) if tally.token.admits(&buffer[..bytes]) => return Some(from),
            Ok(_) => _ = tally.refused.fetch_add(1, Ordering::Relaxed),
            Err(_) => {}
        }
    }
    None
}

/// Writes sequence number, arrival and departure into an answer that has room for them.
#[inline]
fn stamp(answer: &mut [u8], sequence: u64, arrived_ns: u64) {
    if answer.len() >= STAMPED_BYTES {
        answer[..8].copy_from_slice(&sequence.to_le_bytes());
        answer[8..16].copy_from_slice(&arrived_ns.to_le_bytes());
        answer[16..24].copy_from_slice(&clock::monotonic_ns().to_le_bytes());
    }
}
