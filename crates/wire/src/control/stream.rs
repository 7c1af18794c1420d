//! A byte stream read and written against a deadline, whatever it is made of.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::transfer::options;

/// Longest time between two tries to send the same again, TCP_RTO_MAX_MS of linux/tcp.h (since 6.15), and the least that can be set:
/// each try doubles it, so that a link that was down for seconds would stay silent for as long again once it is up.
pub(super) const RTO_MAX_MS: libc::c_int = 44;
const RETRY_MS: libc::c_int = 1000;

/// Both directions of a stream. The descriptors are non-blocking; time is kept by poll(2).
#[derive(Debug)]
pub struct Stream {
    /// The direction from the other end.
    pub(super) read: End,
    /// The direction to the other end.
    pub(super) write: End,
    /// Name of the other end in messages.
    pub(super) peer: String,
}

/// One direction.
#[derive(Debug)]
pub(super) struct End(File);

impl Stream {
    /// A TCP connection.
    ///
    /// # Errors
    /// The kernel refuses a second descriptor or an option.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // An older kernel does not have it: the silence limit is longer than most links are down.
        let _ = options::set(stream.as_fd(), libc::IPPROTO_TCP, RTO_MAX_MS, &RETRY_MS, "TCP_RTO_MAX_MS", RETRY_MS);
        let peer = stream.peer_addr()?.to_string();
        let write = OwnedFd::from(stream.try_clone()?);
        Self::of(stream.into(), write, peer)
    }

    /// Two descriptors, such as stdin and stdout, or the pipes of an ssh that was started.
    ///
    /// # Errors
    /// They cannot be made non-blocking.
    pub fn of(read: OwnedFd, write: OwnedFd, peer: impl Into<String>) -> io::Result<Self> {
        for fd in [&read, &write] {
            let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
            fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        }
        Ok(Self { read: End(read.into()), write: End(write.into()), peer: peer.into() })
    }

    /// Starts a command whose stdin and stdout are the stream, such as `netcliff agent --stdio`, or an ssh that runs it elsewhere. The
    /// command exits when the stream is dropped.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn of_command(command: &mut Command, peer: impl Into<String>) -> io::Result<(Self, Child)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let (read, write) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        Ok((Self::of(read.into(), write.into(), peer)?, child))
    }
}

impl End {
    /// Reads what has arrived, waiting until `deadline`; `None` if nothing has, `Some(0)` at the end of the stream.
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

    /// Writes all of it; false if that takes beyond `deadline`.
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
        // Rounded up, so that the last part of a millisecond is not spun away.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.0.as_fd(), what)], timeout) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}
