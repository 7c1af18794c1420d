//! Opens channels between two hosts: the near end connects to the waiting far end, and proves a token.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};

use super::admit::greeting;
use super::open::{Opened, Recipe};
use super::options;
use netcliff_packets::error::WireError;
use netcliff_remote::control::key::{Proven, Purpose, Token};

/// Time between two datagrams that prove the token (ns).
const TRY_NS: u64 = 50_000_000;

/// Number of answers to a datagram that proves the token: some may be lost.
const ANSWERS: usize = 3;

/// Buffer size for any datagram (bytes).
const ANY_DATAGRAM: usize = 1 << 16;

/// The near end of a TCP flow: connects and proves the token.
pub(super) fn dial(recipe: Recipe<'_>, port: u16, token: &Token, flow: usize) -> Opened {
    let address = SocketAddr::new(recipe.address, port);
    let failed = |e: nix::Error| WireError::system(format!("connect to the far end's port {address}"), e);
    let socket = recipe.stream()?;
    // SO_SNDTIMEO bounds this call.
    connect(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(failed)?;
    nix::unistd::write(&socket, &greeting(token, flow)).map_err(failed)?;
    recipe.finish(socket, true)
}

/// Opens a listener on a port chosen by the kernel, with the options that its connections inherit.
pub(super) fn listener(recipe: Recipe<'_>, flows: usize) -> Result<TcpListener, WireError> {
    let failed = |e: nix::Error| WireError::system(format!("listen on {}", recipe.address), e);
    let socket = recipe.stream()?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(recipe.address, 0))).map_err(failed)?;
    let waiting = i32::try_from(flows.min(4096)).unwrap_or(16).max(16);
    listen(&socket, Backlog::new(waiting).map_err(failed)?).map_err(failed)?;
    Ok(TcpListener::from(socket))
}

/// The far end of a TCP flow: waits for the connection that `admit` accepts.
pub(super) fn accepted(recipe: Recipe<'_>, flow: usize, admitted: &mpsc::Receiver<OwnedFd>) -> Opened {
    match admitted.recv() {
        Ok(stream) => recipe.finish(stream, true),
        Err(_) => Err(not_come(flow)),
    }
}

fn not_come(flow: usize) -> WireError {
    let late = io::Error::new(io::ErrorKind::TimedOut, "it did not come in time");
    WireError::system(format!("wait for the near end's connection of flow {}", flow + 1), late)
}

/// Opens a UDP socket bound to a port chosen by the kernel.
pub(super) fn bound(recipe: Recipe<'_>) -> Result<UdpSocket, WireError> {
    let failed = |e: nix::Error| WireError::system(format!("receive on {}", recipe.address), e);
    let socket = recipe.socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP, "UDP")?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(recipe.address, 0))).map_err(failed)?;
    Ok(UdpSocket::from(socket))
}

/// The near end of a UDP flow: sends the proof until the far end answers.
pub(super) fn join(recipe: Recipe<'_>, port: u16, token: &Token, flow: usize, deadline: Instant) -> Opened {
    let address = SocketAddr::new(recipe.address, port);
    let failed = |e: io::Error| WireError::system(format!("reach the far end's UDP port {address}"), e);
    let socket = recipe.socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP, "UDP")?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(|e| failed(e.into()))?;
    options::stall(socket.as_fd(), TRY_NS)?;
    let socket = UdpSocket::from(socket);
    let mut answer = [0; ANY_DATAGRAM];
    let mut refused = None;
    while Instant::now() < deadline {
        // A full queue or a firewall on this host may refuse one datagram and accept the next. The wait for an answer
        // below is the pause between two attempts.
        if let Err(error) = socket.send(&greeting(token, flow)) {
            refused = Some(error);
        }
        match socket.recv(&mut answer) {
            // Data may overtake the answer. They come from the far end's own port, which sends nothing to others.
            Ok(_) => return recipe.finish(socket.into(), false),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Err(failed(refused.map_or_else(
        || io::Error::new(io::ErrorKind::TimedOut, "no answer: is UDP let through to that host?"),
        |error| {
            io::Error::new(error.kind(), format!("{error}: does a firewall of this host, or its route, refuse it?"))
        },
    )))
}

/// The far end of a UDP flow: waits for a peer that proves the token, and accepts datagrams from no other.
pub(super) fn joined(
    recipe: Recipe<'_>,
    socket: UdpSocket,
    flow: usize,
    token: &Token,
    (deadline, stop): (Instant, &AtomicBool),
    refused: &AtomicU64,
) -> Opened {
    let failed = |e: io::Error| WireError::system(format!("receive on {}", recipe.address), e);
    options::stall(socket.as_fd(), TRY_NS)?;
    let mut shown = [0; ANY_DATAGRAM];
    while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        match socket.recv_from(&mut shown) {
            Ok((bytes, from)) if is_of(flow, token.proven(Purpose::Join, &shown[..bytes])) => {
                socket.connect(from).map_err(failed)?;
                for _ in 0..ANSWERS {
                    let answer = token.proof(Purpose::Answer, Proven { flow: flow as u32, number: 0 });
                    socket.send(&answer).map_err(failed)?;
                }
                return recipe.finish(socket.into(), false);
            }
            Ok(_) => _ = refused.fetch_add(1, Ordering::Relaxed),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Err(not_come(flow))
}

fn is_of(flow: usize, proven: Option<Proven>) -> bool {
    proven.is_some_and(|proven| proven.flow as usize == flow)
}

/// Time limit for all flows to connect.
pub(super) fn patience(stall_ns: u64) -> Duration {
    Duration::from_nanos(stall_ns)
}
