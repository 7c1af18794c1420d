//! A byte stream (TCP or pipes) that is read and written against a deadline.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use netcliff_host::system::SocketOption;
use netcliff_packets::sockopt;

/// TCP_RTO_MAX_MS of linux/tcp.h (since 6.15), the longest interval between retransmissions, and the smallest value it
/// accepts. By default each retransmission doubles the interval, so that a link that was down for seconds would stay
/// silent for as long again once it is up.
pub(super) const RTO_MAX_MS: SocketOption = SocketOption::of_linux(libc::IPPROTO_TCP, 44);
const RETRY_MS: libc::c_int = 1000;

/// Both directions of a stream. The descriptors are non-blocking; poll(2) enforces the deadlines.
#[derive(Debug)]
pub struct Stream {
    /// Direction from the other end.
    pub(super) read: End,
    /// Direction to the other end.
    pub(super) write: End,
    /// Name of the other end in messages.
    pub(super) peer: String,
}

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct End(File);

impl Stream {
    /// Wraps a TCP connection.
    ///
    /// # Errors
    /// The kernel refuses a second descriptor or a socket option.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // Older kernels do not have this option. The silence limit is longer than the outage of most links.
        let _ = sockopt::set(stream.as_fd(), RTO_MAX_MS, &RETRY_MS, "TCP_RTO_MAX_MS", RETRY_MS);
        let peer = stream.peer_addr()?.to_string();
        let write = OwnedFd::from(stream.try_clone()?);
        Self::of(stream.into(), write, peer)
    }

    /// Wraps two descriptors, such as stdin and stdout, or the pipes of an ssh process.
    ///
    /// # Errors
    /// A descriptor cannot be made non-blocking.
    pub fn of(read: OwnedFd, write: OwnedFd, peer: impl Into<String>) -> io::Result<Self> {
        for fd in [&read, &write] {
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
            fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Self { read: End(read.into()), write: End(write.into()), peer: peer.into() })
    }

    /// Starts a command whose stdin and stdout are the stream, such as `netcliff agent --stdio`, or an ssh that runs it
    /// on another host. The command exits when the stream is dropped.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn of_command(command: &mut Command, peer: impl Into<String>) -> io::Result<(Self, Child)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let (read, write) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        Ok((Self::of(read.into(), write.into(), peer)?, child))
    }
}

impl End {
    /// Reads what has arrived. Waits until `deadline`. `None` if nothing arrived, `Some(0)` at the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        loop {
            match self.0.read(buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::POLLIN, deadline)? {
                        return Ok(None);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes all bytes. Returns false if the deadline passes first.
    pub(super) fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<bool> {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(PollFlags::POLLOUT, deadline)? {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn wait(&self, what: PollFlags, deadline: Instant) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // Round up, so that the thread does not spin for the last part of a millisecond.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.0.as_fd(), what)], timeout) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}
