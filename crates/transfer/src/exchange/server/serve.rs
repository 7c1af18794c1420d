//! The work of a server's threads.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use super::{MOST_PENDING, Tally};
use crate::exchange::STAMPED_BYTES;
use crate::exchange::settings::{Receive, Settings};
use crate::exchange::socket::{Got, POLL_INTERVAL, Socket};
use netcliff_host::system;
use netcliff_packets::clock;
use netcliff_remote::control::key::{Proven, Purpose, Token};
use netcliff_remote::far_meter::FAR_METER_BYTES;
use netcliff_remote::pending::Pending;

/// Time allowed for a new connection to prove its token.
const TOKEN_TIME: Duration = Duration::from_secs(2);
/// If each transaction has its own connection: time that an acceptor waits for the first bytes of the connection it has
/// just accepted, and for nothing else. A connecting client has sent these bytes already.
const FIRST_BYTES_TIME: Duration = Duration::from_micros(200);
/// Smallest number of connections that may wait at an acceptor when there are many acceptors.
const LEAST_PENDING: usize = 4;
/// Bytes per read call.
const READ_BYTES: usize = 64 << 10;

/// Memory of a flow besides its buffers (bytes): the touched part of its thread's stack, and connections that are not
/// yet admitted.
const FLOW_BYTES: u64 = 64 << 10;

/// Buffers for requests and answers of all flows together (bytes).
pub(super) fn memory_bytes(settings: &Settings) -> u64 {
    let read = READ_BYTES.max(settings.request_bytes).saturating_add(settings.response_bytes) as u64;
    let meter = if settings.far_meter { FAR_METER_BYTES } else { 0 };
    read.saturating_add(FLOW_BYTES).saturating_mul(u64::from(settings.flows)).saturating_add(meter)
}

/// Accepts connections until the server stops. Connections that have not yet proved their token wait while others are
/// served.
pub(super) fn accept(tally: &Arc<Tally>, listener: &TcpListener) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let (most, at_once) = if tally.settings.connect_each {
        (MOST_PENDING.div_ceil(tally.settings.flows as usize).max(LEAST_PENDING), 1)
    } else {
        (MOST_PENDING + tally.settings.flows as usize, usize::MAX)
    };
    let mut pending = Pending::new(most, Token::PROOF_BYTES, TOKEN_TIME);
    while !tally.stopped() {
        let Ok(looked) = pending.look(listener, at_once) else {
            // A temporary shortage of descriptors.
            std::thread::sleep(Duration::from_micros(10));
            continue;
        };
        tally.refused.fetch_add(looked.refused, Ordering::Relaxed);
        let idle = looked.shown.is_empty();
        for (stream, shown) in looked.shown {
            if let Some(flow) = tally.lets_in(&shown)
                && stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(false)).is_ok()
            {
                admit(tally, stream, flow);
            }
        }
        if idle {
            wait(tally, listener, &pending, looked.accepted > 0);
        }
    }
}

/// Waits for connections and their proofs. If each transaction has its own connection, an acceptor that has just
/// accepted one waits briefly for its proof alone, and leaves the next connection to other acceptors.
fn wait(tally: &Tally, listener: &TcpListener, pending: &Pending, has_come: bool) {
    // Spin only if accepting is part of a transaction. Otherwise a spinning listener would take CPU time from the
    // admitted flows, under SCHED_FIFO all of it.
    if tally.settings.receive == Receive::Spin && tally.settings.connect_each {
        return std::hint::spin_loop();
    }
    let alone = has_come && tally.settings.connect_each;
    let listens = (!alone).then(|| listener.as_fd());
    let mut fds: Vec<PollFd<'_>> =
        listens.into_iter().chain(pending.fds()).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let at_most = if alone { FIRST_BYTES_TIME } else { POLL_INTERVAL };
    // Ignore an error: the caller tries again.
    let _ = system::poll_for(&mut fds, at_most);
}

/// Serves a connection: in this thread if it carries one transaction, otherwise in a new thread.
fn admit(tally: &Arc<Tally>, stream: TcpStream, flow: usize) {
    if tally.settings.connect_each {
        return once(tally, stream);
    }
    let theirs = Arc::clone(tally);
    let work = move || {
        if theirs.place(flow).enter().is_ok() {
            theirs.counted(|| self::stream(&theirs, stream.into()));
        }
    };
    // If the thread cannot start, the client sees that its connection is closed.
    let _ = std::thread::Builder::new().name("rr-flow".into()).spawn(work);
}

/// Answers requests on a stream until the other end closes.
pub(super) fn stream(tally: &Tally, fd: OwnedFd) {
    let (request, response) = (tally.settings.request_bytes, tally.settings.response_bytes);
    let Ok(socket) = Socket::new(fd, tally.settings.receive, &tally.stop) else { return };
    let (mut buffer, mut answer) = (vec![0; READ_BYTES], vec![0x5a; response]);
    // Only the length of a request matters, not its content.
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

/// Answers one request on a connection; the other end closes it.
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

/// Waits for the datagram that proves the token, connects to its sender, then answers requests.
pub(super) fn datagrams(tally: &Tally, socket: &UdpSocket, number: usize) {
    let mut buffer = vec![0; READ_BYTES];
    let Some(peer) = joining(tally, socket, number, &mut buffer) else { return };
    let reply = tally.token.proof(Purpose::Answer, Proven { flow: number as u32, number: 0 });
    // After the connect, the kernel drops datagrams of all other senders.
    if socket.connect(peer).is_err() || socket.send(&reply).is_err() {
        return;
    }
    let Ok(fd) = socket.as_fd().try_clone_to_owned() else { return };
    let Ok(flow) = Socket::new(fd, tally.settings.receive, &tally.stop) else { return };
    let mut answer = vec![0x5a; tally.settings.response_bytes];
    while !tally.stopped() {
        let bytes = match flow.recv(&mut buffer) {
            Ok(Got::Bytes(bytes)) => bytes,
            // An error here belongs to an earlier datagram (port unreachable): the client may come back.
            Ok(_) | Err(_) => continue,
        };
        let arrived_ns = clock::monotonic_ns();
        if bytes == Token::PROOF_BYTES && tally.token.proven(Purpose::Join, &buffer[..bytes]).is_some() {
            // The client did not receive the first reply.
            let _ = socket.send(&reply);
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

fn joining(tally: &Tally, socket: &UdpSocket, number: usize, buffer: &mut [u8]) -> Option<SocketAddr> {
    let joins =
        |shown: &[u8]| tally.token.proven(Purpose::Join, shown).is_some_and(|proven| proven.flow as usize == number);
    socket.set_read_timeout(Some(POLL_INTERVAL)).ok()?;
    while !tally.stopped() {
        match socket.recv_from(buffer) {
            Ok((bytes, from)) if joins(&buffer[..bytes]) => return Some(from),
            Ok(_) => _ = tally.refused.fetch_add(1, Ordering::Relaxed),
            Err(_) => {}
        }
    }
    None
}

/// Writes sequence number, arrival and departure times into an answer that has room for them.
#[inline]
fn stamp(answer: &mut [u8], sequence: u64, arrived_ns: u64) {
    if answer.len() >= STAMPED_BYTES {
        answer[..8].copy_from_slice(&sequence.to_le_bytes());
        answer[8..16].copy_from_slice(&arrived_ns.to_le_bytes());
        answer[16..24].copy_from_slice(&clock::monotonic_ns().to_le_bytes());
    }
}
