//! Lets the near end's connections in: each shows the token and says which flow it is.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control::key::Token;

/// What a connection shows first: the token and the number of its flow (big-endian).
pub(super) const GREETING_BYTES: usize = Token::BYTES + 4;

/// How long a connection may take to show it.
const GREETING_TIME: Duration = Duration::from_secs(2);

/// Connections that have not yet shown it, beside those that are expected; more are closed at once.
const MOST_STRANGERS: usize = 32;

/// How often it is looked whether to stop (ms).
const GLANCE_MS: u16 = 50;

/// What a connection of flow `flow` shows.
pub(super) fn greeting(token: &Token, flow: usize) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..Token::BYTES].copy_from_slice(token.bytes());
    bytes[Token::BYTES..].copy_from_slice(&(flow as u32).to_be_bytes());
    bytes
}

/// A connection that has not yet shown all.
struct Stranger {
    stream: TcpStream,
    shown: [u8; GREETING_BYTES],
    filled: usize,
    deadline: Instant,
}

/// What a stranger turned out to be.
enum Seen {
    Waits,
    Flow(usize),
    Refused,
}

/// Accepts until every flow has its connection, the deadline passes, or it is stopped; then nobody is let in any more.
pub(super) fn admit(
    listener: &TcpListener,
    token: &Token,
    mut flows: Vec<Option<mpsc::Sender<OwnedFd>>>,
    deadline: Instant,
    stop: &AtomicBool,
    refused: &AtomicU64,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut strangers: Vec<Stranger> = Vec::new();
    let most = MOST_STRANGERS + flows.len();
    while flows.iter().any(Option::is_some) && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        wait(listener, &strangers)?;
        while let Some(stream) = next(listener)? {
            if strangers.len() >= most || stream.set_nonblocking(true).is_err() {
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let deadline = Instant::now() + GREETING_TIME;
            strangers.push(Stranger { stream, shown: [0; GREETING_BYTES], filled: 0, deadline });
        }
        let mut waiting = Vec::with_capacity(strangers.len());
        for mut stranger in strangers {
            match stranger.look(token) {
                Seen::Waits => waiting.push(stranger),
                Seen::Flow(flow) => {
                    let taker = flows.get_mut(flow).and_then(Option::take);
                    let blocking = stranger.stream.set_nonblocking(false).is_ok();
                    // A flow that has its connection, or has given up, takes none.
                    let taken = taker.is_some_and(|taker| blocking && taker.send(stranger.stream.into()).is_ok());
                    refused.fetch_add(u64::from(!taken), Ordering::Relaxed);
                }
                Seen::Refused => _ = refused.fetch_add(1, Ordering::Relaxed),
            }
        }
        strangers = waiting;
    }
    Ok(())
}

/// A connection that waits to be accepted; a shortage of descriptors or memory is a failure, for it would not pass while
/// this waits.
fn next(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
            Err(e)
        }
        Err(_) => Ok(None),
    }
}

fn wait(listener: &TcpListener, strangers: &[Stranger]) -> io::Result<()> {
    let mut fds = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    fds.extend(strangers.iter().map(|stranger| PollFd::new(stranger.stream.as_fd(), PollFlags::POLLIN)));
    match poll(&mut fds, PollTimeout::from(GLANCE_MS)) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Stranger {
    fn look(&mut self, token: &Token) -> Seen {
        match self.stream.read(&mut self.shown[self.filled..]) {
            Ok(0) => return Seen::Refused,
            Ok(bytes) => self.filled += bytes,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return Seen::Refused,
        }
        let (shown, number) = self.shown.split_at(Token::BYTES);
        match self.filled < GREETING_BYTES {
            true if Instant::now() < self.deadline => Seen::Waits,
            false if token.admits(shown) => {
                Seen::Flow(number.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
            }
            _ => Seen::Refused,
        }
    }
}
