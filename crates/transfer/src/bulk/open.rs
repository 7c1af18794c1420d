//! Opens the channels of a transfer.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};

use super::SocketOptions;
use super::options;
use netcliff_packets::error::WireError;

/// IPPROTO_MPTCP, linux/in.h.
const MPTCP: libc::c_int = 262;

/// An opened channel. `None` if the other end gave up; that end reports the reason.
pub(super) type Opened = Result<Option<OwnedFd>, WireError>;

/// One end's part in opening a channel. Call it in the end's own thread, because a socket belongs to the network
/// namespace of the thread that opens it.
pub(super) type Opener<'a> = Box<dyn FnOnce() -> Opened + Send + 'a>;

/// Options with which a socket is opened.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a> {
    pub address: IpAddr,
    pub multipath: bool,
    pub options: &'a SocketOptions,
    pub stall_ns: u64,
}

impl Recipe<'_> {
    pub(super) fn socket(&self, kind: libc::c_int, protocol: libc::c_int, what: &str) -> Result<OwnedFd, WireError> {
        let family = if self.address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        // SAFETY: socket takes no pointer.
        let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
        if fd < 0 {
            return Err(WireError::last_os(format!("make a {what} socket")));
        }
        // SAFETY: the kernel has just returned this descriptor, and nobody else uses it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        options::stall(socket.as_fd(), self.stall_ns)?;
        self.options.before(socket.as_fd(), kind == libc::SOCK_STREAM)?;
        Ok(socket)
    }

    pub(super) fn stream(&self) -> Result<OwnedFd, WireError> {
        let (protocol, what) = if self.multipath { (MPTCP, "Multipath TCP") } else { (libc::IPPROTO_TCP, "TCP") };
        self.socket(libc::SOCK_STREAM, protocol, what)
    }

    pub(super) fn finish(&self, socket: OwnedFd, stream: bool) -> Opened {
        self.options.after(socket.as_fd(), self.address.is_ipv6(), stream)?;
        options::stall(socket.as_fd(), self.stall_ns)?;
        Ok(Some(socket))
    }
}

/// The far (accepting) and the near (connecting) half of a TCP connection.
pub(super) fn tcp(recipe: Recipe<'_>) -> (Opener<'_>, Opener<'_>) {
    let (listening, target) = mpsc::channel();
    let (connected, peer) = mpsc::channel();
    (Box::new(move || accept(recipe, &listening, &peer)), Box::new(move || dial(recipe, &target, &connected)))
}

fn accept(recipe: Recipe<'_>, listening: &mpsc::Sender<SocketAddr>, peer: &mpsc::Receiver<SocketAddr>) -> Opened {
    let failed = |e: io::Error| WireError::system(format!("listen on {}", recipe.address), e);
    let socket = recipe.stream()?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(recipe.address, 0)))
        .map_err(|e| failed(e.into()))?;
    listen(&socket, Backlog::new(16).map_err(|e| failed(e.into()))?).map_err(|e| failed(e.into()))?;
    let socket = TcpListener::from(socket);
    let local = socket.local_addr().map_err(failed)?;
    // If nobody receives the address, the other end has failed, and `recv` below reports that.
    let _ = listening.send(local);
    let Ok(expected) = peer.recv() else { return Ok(None) };
    // The connection is already in the backlog, perhaps behind one of another program.
    loop {
        let (stream, from) = socket.accept().map_err(failed)?;
        if from == expected {
            return recipe.finish(stream.into(), true);
        }
    }
}

fn dial(recipe: Recipe<'_>, target: &mpsc::Receiver<SocketAddr>, connected: &mpsc::Sender<SocketAddr>) -> Opened {
    let Ok(address) = target.recv() else { return Ok(None) };
    let failed = |e: io::Error| WireError::system(format!("connect to {address}"), e);
    let socket = recipe.stream()?;
    // SO_SNDTIMEO bounds this call.
    connect(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(|e| failed(e.into()))?;
    let stream = TcpStream::from(socket);
    let local = stream.local_addr().map_err(failed)?;
    if connected.send(local).is_err() {
        return Ok(None);
    }
    recipe.finish(stream.into(), true)
}

/// The receiving and the sending half of a UDP flow.
pub(super) fn udp(recipe: Recipe<'_>) -> (Opener<'_>, Opener<'_>) {
    let (bound, target) = mpsc::channel();
    let receiver = move || {
        let failed = |e: io::Error| WireError::system(format!("receive on {}", recipe.address), e);
        let socket = recipe.socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP, "UDP")?;
        let any = SockaddrStorage::from(SocketAddr::new(recipe.address, 0));
        bind(socket.as_raw_fd(), &any).map_err(|e| failed(e.into()))?;
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr().map_err(failed)?;
        if bound.send(local).is_err() {
            return Ok(None);
        }
        recipe.finish(socket.into(), false)
    };
    let sender = move || {
        let Ok(address) = target.recv() else { return Ok(None) };
        let socket = recipe.socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP, "UDP")?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(address))
            .map_err(|e| WireError::system(format!("connect to {address}"), e))?;
        recipe.finish(socket, false)
    };
    (Box::new(receiver), Box::new(sender))
}

/// The two ends of a Unix socket pair: the far end first, like the functions above.
pub(super) fn unix(recipe: Recipe<'_>) -> Result<(Opener<'_>, Opener<'_>), WireError> {
    let (far, near) = UnixStream::pair().map_err(|e| WireError::system("make a pair of Unix sockets", e))?;
    let open = move |end: UnixStream| -> Opener<'_> {
        Box::new(move || {
            options::stall(end.as_fd(), recipe.stall_ns)?;
            recipe.options.before(end.as_fd(), false)?;
            Ok(Some(end.into()))
        })
    };
    Ok((open(far), open(near)))
}

/// The reading and the writing end of a pipe.
pub(super) fn pipe<'a>() -> Result<(Opener<'a>, Opener<'a>), WireError> {
    let (reader, writer) = io::pipe().map_err(|e| WireError::system("make a pipe", e))?;
    Ok((Box::new(move || Ok(Some(reader.into()))), Box::new(move || Ok(Some(writer.into())))))
}
