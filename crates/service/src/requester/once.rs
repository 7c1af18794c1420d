//! Sends single requests and waits for each answer. Used to check that the service answers, and to fill a cache.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::net::{error_of, open, receive, send};
use super::tls::Session;
use super::{Requester, RequesterError};
use crate::protocol::{Message, Parsed, Transport, number_in, write_number};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// The thread could not be moved to its CPU or namespace.
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// Nothing listens at the address, or the connection broke.
    #[error("{to}: {source}")]
    System {
        /// Address of the service.
        to: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The TLS handshake failed.
    #[error("{to}: {why}")]
    Tls {
        /// Address of the service.
        to: SocketAddr,
        /// What failed, and what to do.
        why: String,
    },
    /// No answer came in time.
    #[error("{to} did not answer a request within 2 s")]
    Silent {
        /// Address of the service.
        to: SocketAddr,
    },
    /// The service's answer reports an error, or is not an answer of the protocol.
    #[error("{to} answers, but not as {protocol} does: {what}")]
    Wrong {
        /// Address of the service.
        to: SocketAddr,
        /// The protocol.
        protocol: &'static str,
        /// The beginning of the answer.
        what: String,
    },
}

/// A connection for one request at a time.
pub struct Once<'a> {
    requester: &'a Requester,
    fd: OwnedFd,
    session: Option<Session>,
    number: u64,
}

impl<'a> Once<'a> {
    /// Connects to the service, on the calling thread.
    pub(super) fn open(requester: &'a Requester) -> Result<Self, OnceError> {
        let failed = |source| OnceError::System { to: requester.to, source };
        let fd = open(requester.to, requester.workload.transport).map_err(failed)?;
        let session = requester.tls.as_ref().map(|tls| tls.session()).transpose();
        let session = session.map_err(|why| OnceError::Tls { to: requester.to, why })?;
        let mut once = Self { requester, fd, session, number: 1 };
        if requester.workload.transport == Transport::Tcp {
            once.wait(PollFlags::POLLOUT, Instant::now() + PATIENCE)?;
            if let Some(source) = error_of(&once.fd) {
                return Err(failed(source));
            }
        }
        once.shake_hands()?;
        Ok(once)
    }

    fn shake_hands(&mut self) -> Result<(), OnceError> {
        let until = Instant::now() + PATIENCE;
        let (mut buffer, mut plain) = (vec![0; 1 << 16], Vec::new());
        while self.session.as_ref().is_some_and(|session| !session.is_open()) {
            self.send_all(&[], until)?;
            match self.receive_some(&mut buffer, &mut plain)? {
                Some(0) => {
                    let why = "it closed the connection during TLS's handshake".to_owned();
                    return Err(OnceError::Tls { to: self.requester.to, why });
                }
                // TLS may have to send an answer before more data comes.
                Some(_) => {}
                None => self.wait(PollFlags::POLLIN, until)?,
            }
        }
        Ok(())
    }

    /// Sends bytes, and pending messages of the TLS session if there is one.
    fn send_all(&mut self, bytes: &[u8], until: Instant) -> Result<(), OnceError> {
        let to = self.requester.to;
        let failed = |source| OnceError::System { to, source };
        if let Some(session) = &mut self.session {
            session.put(bytes);
            while !session.push(&self.fd).map_err(failed)? {
                std::thread::sleep(Duration::from_millis(1));
                if Instant::now() > until {
                    return Err(OnceError::Silent { to });
                }
            }
            return Ok(());
        }
        let mut left = bytes;
        while !left.is_empty() {
            let sent = send(&self.fd, left).map_err(failed)?;
            left = &left[sent..];
            if sent == 0 {
                self.wait(PollFlags::POLLOUT, until)?;
            }
        }
        Ok(())
    }

    /// Receives bytes and appends them to `part`, decrypted. Returns the number of received bytes. `None`: nothing was
    /// received; 0: the connection has ended.
    fn receive_some(&mut self, buffer: &mut [u8], part: &mut Vec<u8>) -> Result<Option<usize>, OnceError> {
        let to = self.requester.to;
        let got = receive(&self.fd, buffer).map_err(|source| OnceError::System { to, source })?;
        let (Some(got @ 1..), Some(session)) = (got, &mut self.session) else {
            part.extend_from_slice(&buffer[..got.unwrap_or(0)]);
            return Ok(got);
        };
        session.take(&buffer[..got], part).map_err(|why| OnceError::Tls { to, why })?;
        Ok(Some(got))
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

    /// Sends a request and waits for the complete answer.
    pub(super) fn ask(&mut self, message: &Message) -> Result<(), OnceError> {
        let (to, protocol) = (self.requester.to, self.requester.workload.protocol);
        let wrong = |what: String| OnceError::Wrong { to, protocol: protocol.name(), what };
        let until = Instant::now() + PATIENCE;
        self.number += 1;
        let mut bytes = message.bytes.clone();
        if let Some(place) = message.number {
            write_number(&mut bytes, place, self.number);
        }
        self.send_all(&bytes, until)?;
        let mut buffer = vec![0; 1 << 16];
        let mut part: Vec<u8> = Vec::new();
        loop {
            let Some(got) = self.receive_some(&mut buffer, &mut part)? else {
                self.wait(PollFlags::POLLIN, until)?;
                continue;
            };
            let datagrams = self.requester.workload.transport == Transport::Udp;
            if got == 0 && !datagrams {
                return Err(wrong(format!("it closed the connection after {}", shown(&part))));
            }
            let answer = if datagrams {
                match protocol.of_datagram(&part) {
                    // The datagram answers an earlier request, or is the first part of an answer: the next datagram is
                    // parsed separately.
                    None => {
                        part.clear();
                        continue;
                    }
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

/// The beginning of some bytes, in printable form.
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
