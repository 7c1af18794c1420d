//! Opening the channels.

use std::io::{PipeReader, PipeWriter};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use crate::error::WireError;

/// How long the sender tries to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// An opened channel; `None` when the other end gave up and holds the reason.
pub(super) type Opened<T> = Result<Option<T>, WireError>;

/// The receiver's and the sender's half of opening a connection, each to be called in its thread
/// (a socket belongs to the network namespace of the thread that makes it).
pub(super) fn tcp(
    address: IpAddr,
    no_delay: bool,
) -> (impl FnOnce() -> Opened<TcpStream> + Send, impl FnOnce() -> Opened<TcpStream> + Send) {
    let (listening, target) = mpsc::channel();
    let (connected, peer) = mpsc::channel();
    let listener = move || listen(address, &listening, &peer);
    let dialler = move || dial(no_delay, &target, &connected);
    (listener, dialler)
}

fn listen(
    address: IpAddr,
    listening: &mpsc::Sender<SocketAddr>,
    peer: &mpsc::Receiver<SocketAddr>,
) -> Opened<TcpStream> {
    let failed = |e| WireError::system(format!("listen on {address}"), e);
    let socket = TcpListener::bind((address, 0)).map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?;
    // Nobody hears it if the sender has failed; then `recv` below says so.
    let _ = listening.send(local);
    let Ok(expected) = peer.recv() else { return Ok(None) };
    // The sender's connection is already in the backlog; a stranger's may be before it.
    loop {
        let (stream, from) = socket.accept().map_err(failed)?;
        if from == expected {
            return Ok(Some(stream));
        }
    }
}

fn dial(
    no_delay: bool,
    target: &mpsc::Receiver<SocketAddr>,
    connected: &mpsc::Sender<SocketAddr>,
) -> Opened<TcpStream> {
    let Ok(address) = target.recv() else { return Ok(None) };
    let failed = |e| WireError::system(format!("connect to {address}"), e);
    let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(failed)?;
    stream.set_nodelay(no_delay).map_err(|e| WireError::system("set TCP_NODELAY", e))?;
    let local = stream.local_addr().map_err(failed)?;
    Ok(connected.send(local).is_ok().then_some(stream))
}

pub(super) fn unix() -> Result<(UnixStream, UnixStream), WireError> {
    UnixStream::pair().map_err(|e| WireError::system("make a pair of Unix sockets", e))
}

pub(super) fn pipe() -> Result<(PipeWriter, PipeReader), WireError> {
    let (reader, writer) = std::io::pipe().map_err(|e| WireError::system("make a pipe", e))?;
    Ok((writer, reader))
}
