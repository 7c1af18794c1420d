//! The socket of one flow (TCP, UDP or Unix), and how it waits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, SockType, getsockopt, recv, send, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::settings::Receive;
use netcliff_host::system::{self, SO_BUSY_POLL};
use netcliff_packets::error::WireError;

/// Interval at which a waiting end checks whether to stop.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of empty polls between two checks of a spinning end.
const SPINS_A_GLANCE: u32 = 256;

/// A flow's socket with the flags that end the flow.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    datagrams: bool,
    receive: Receive,
    stop: Arc<AtomicBool>,
}

/// The result of a receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    /// Number of bytes received.
    Bytes(usize),
    /// Nothing has arrived yet.
    Nothing,
    /// The other end has closed.
    End,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, receive: Receive, stop: &Arc<AtomicBool>) -> Result<Self, WireError> {
        let failed = |what: &str| {
            let action = format!("set {what}");
            move |e: Errno| WireError::system(action, e)
        };
        let glance = TimeVal::milliseconds(POLL_INTERVAL.as_millis() as i64);
        setsockopt(&fd, sockopt::ReceiveTimeout, &glance).map_err(failed("SO_RCVTIMEO"))?;
        setsockopt(&fd, sockopt::SendTimeout, &glance).map_err(failed("SO_SNDTIMEO"))?;
        if let Receive::KernelPoll(us) = receive {
            busy_poll(&fd, us)?;
        }
        let kind = getsockopt(&fd, sockopt::SockType).map_err(failed("SO_TYPE"))?;
        Ok(Self { fd, datagrams: kind == SockType::Datagram, receive, stop: Arc::clone(stop) })
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for bytes in the configured way, for at most [`POLL_INTERVAL`] or [`SPINS_A_GLANCE`] polls.
    #[inline]
    pub(super) fn recv(&self, buffer: &mut [u8]) -> io::Result<Got> {
        match self.receive {
            Receive::Block | Receive::KernelPoll(_) => self.take(buffer, MsgFlags::empty()),
            Receive::Spin => {
                for _ in 0..SPINS_A_GLANCE {
                    match self.try_recv(buffer)? {
                        Got::Nothing => std::hint::spin_loop(),
                        got => return Ok(got),
                    }
                }
                Ok(Got::Nothing)
            }
        }
    }

    /// Receives without waiting.
    #[inline]
    pub(super) fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Got> {
        self.take(buffer, MsgFlags::MSG_DONTWAIT)
    }

    #[inline]
    fn take(&self, buffer: &mut [u8], flags: MsgFlags) -> io::Result<Got> {
        match recv(self.fd.as_raw_fd(), buffer, flags) {
            Ok(0) => Ok(Got::End),
            Ok(bytes) => Ok(Got::Bytes(bytes)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Got::Nothing),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends all bytes. Returns false if the flow was stopped during the call. A datagram that this host refuses is
    /// lost, like one dropped on the path: it is not sent again.
    #[inline]
    pub(super) fn send(&self, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                // The send buffer is full: the other end does not read at the moment.
                Err(Errno::EAGAIN | Errno::EINTR) if self.stopped() => return Ok(false),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(e) if self.loses(e) => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    /// Sends the bytes that fit now. A datagram that this host refuses counts as sent.
    #[inline]
    pub(super) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Ok(sent) => Ok(sent),
            Err(Errno::EINTR) => Ok(0),
            // The bytes of a stream wait for room; a datagram leaves when it is due or never.
            Err(Errno::EAGAIN) if !self.datagrams => Ok(0),
            Err(e) if self.loses(e) => Ok(bytes.len()),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the error loses this datagram but leaves the socket usable.
    #[cold]
    fn loses(&self, error: Errno) -> bool {
        let refused = matches!(
            error,
            Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM | Errno::EMSGSIZE | Errno::EPERM | Errno::EACCES
        );
        self.datagrams && refused
    }

    /// Sleeps until bytes arrive (or, with `to_send`, until there is room), for at most `at_most`.
    pub(super) fn sleep(&self, at_most: Duration, to_send: bool) -> io::Result<()> {
        let flags = if to_send { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        match system::poll_for(&mut [PollFd::new(self.fd.as_fd(), flags)], at_most) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

fn busy_poll(fd: &OwnedFd, us: u32) -> Result<(), WireError> {
    let us = libc::c_int::try_from(us).map_err(|_| WireError::setting("busy poll", us, "at most 2147483647 us"))?;
    let value = format!("{us} us (more than the sysctl net.core.busy_read)");
    netcliff_packets::sockopt::set(fd.as_fd(), SO_BUSY_POLL, &us, "SO_BUSY_POLL", value)
}
