//! One request after the other, each waited for: whether the service answers, and what a cache is filled with.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::net::{error_of, open, receive, send};
use super::{Requester, RequesterError};
use crate::protocol::{Message, Parsed, Transport, number_in, write_number};

/// Time allowed for one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// The thread cannot be placed.
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// Nothing listens, or the connection broke.
    #[error("{to}: {source}")]
    System {
        /// Where the request went.
        to: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// No answer came.
    #[error("{to} did not answer a request within 2 s")]
    Silent {
        /// Where the request went.
        to: SocketAddr,
    },
    /// An answer came that is not right.
    #[error("{to} answers, but not as {protocol} does: {what}")]
    Wrong {
        /// Where the request went.
        to: SocketAddr,
        /// The protocol.
        protocol: &'static str,
        /// What came.
        what: String,
    },
}

/// A connection for one request after the other.
pub struct Once<'a> {
    requester: &'a Requester,
    fd: OwnedFd,
    number: u64,
}

impl<'a> Once<'a> {
    /// Connects to the service, on the calling thread.
    pub(super) fn open(requester: &'a Requester) -> Result<Self, OnceError> {
        let failed = |source| OnceError::System { to: requester.to, source };
        let fd = open(requester.to, requester.workload.transport).map_err(failed)?;
        let once = Self { requester, fd, number: 1 };
        if requester.workload.transport == Transport::Tcp {
            once.wait(PollFlags::POLLOUT, Instant::now() + PATIENCE)?;
            if let Some(source) = error_of(&once.fd) {
                return Err(failed(source));
            }
        }
        Ok(once)
    }

    fn wait(&self, what: PollFlags, until: Instant) -> Result<(), OnceError> {
        let to = self.requester.to;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OnceError::Silent { to });
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.fd.as_fd(), what)], timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(OnceError::System { to, source: error.into() }),
        }
    }

    /// Asks, and waits for the whole answer.
    pub(super) fn ask(&mut self, message: &Message) -> Result<(), OnceError> {
        let (to, protocol) = (self.requester.to, self.requester.workload.protocol);
        let failed = |source| OnceError::System { to, source };
        let wrong = |what: String| OnceError::Wrong { to, protocol: protocol.name(), what };
        let until = Instant::now() + PATIENCE;
        self.number += 1;
        let mut bytes = message.bytes.clone();
        if let Some(place) = message.number {
            write_number(&mut bytes, place, self.number);
        }
        let mut left = &bytes[..];
        while !left.is_empty() {
            let sent = send(&self.fd, left).map_err(failed)?;
            left = &left[sent..];
            if sent == 0 {
                self.wait(PollFlags::POLLOUT, until)?;
            }
        }
        let mut buffer = vec![0; 1 << 16];
        let mut part: Vec<u8> = Vec::new();
        loop {
            let Some(got) = receive(&self.fd, &mut buffer).map_err(failed)? else {
                self.wait(PollFlags::POLLIN, until)?;
                continue;
            };
            let datagrams = self.requester.workload.transport == Transport::Udp;
            if got == 0 && !datagrams {
                return Err(wrong(format!("it closed the connection after {}", shown(&part))));
            }
            part.extend_from_slice(&buffer[..got]);
            let answer = if datagrams {
                match protocol.of_datagram(&part) {
                    // Of an earlier request, or the first of several datagrams.
                    None => continue,
                    Some(answer) => Parsed::Answer(answer),
                }
            } else {
                protocol.of_stream(message, &part)
            };
            match answer {
                Parsed::More => {}
                Parsed::Broken(why) => return Err(wrong(format!("{why}; it sent {}", shown(&part)))),
                Parsed::Answer(answer) if !answer.right => return Err(wrong(format!("it sent {}", shown(&part)))),
                Parsed::Answer(answer) => {
                    let length = message.number.map_or(8, |(_, length)| length);
                    if answer.number.is_none_or(|number| number == number_in(self.number, length)) {
                        return Ok(());
                    }
                    part.clear();
                }
            }
        }
    }
}

/// The beginning of what was sent, for people.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    let text: String =
        String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]).chars().flat_map(char::escape_default).collect();
    match bytes.len() {
        0 => "nothing".to_owned(),
        length if length > MOST => format!("`{text}...` ({length} bytes)"),
        _ => format!("`{text}`"),
    }
}
