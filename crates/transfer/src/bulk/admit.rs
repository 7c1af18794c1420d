//! Admits the near end's connections: each proves the token and names its flow.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use netcliff_remote::control::key::{Proven, Purpose, Token};
use netcliff_remote::pending::Pending;

/// Time allowed for a connection to prove the token.
const GREETING_TIME: Duration = Duration::from_secs(2);

/// Number of connections without proof that may wait, in addition to the expected ones. If there are more, a connection
/// of the source address that has the most of them is closed.
const MOST_PENDING: usize = 32;

/// Interval between checks whether to stop (ms).
const GLANCE_MS: u16 = 50;

/// The proof that a connection of flow `flow` sends first.
pub(super) fn greeting(token: &Token, flow: usize) -> [u8; Token::PROOF_BYTES] {
    token.proof(Purpose::Join, Proven { flow: flow as u32, number: 0 })
}

/// Accepts connections until every flow has one, the deadline passes, or `stop` is set. After that, no connection is
/// admitted.
pub(super) fn admit(
    listener: &TcpListener,
    token: &Token,
    mut flows: Vec<Option<mpsc::Sender<OwnedFd>>>,
    deadline: Instant,
    stop: &AtomicBool,
    refused: &AtomicU64,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut pending = Pending::new(MOST_PENDING + flows.len(), Token::PROOF_BYTES, GREETING_TIME);
    while flows.iter().any(Option::is_some) && Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        wait(listener, &pending)?;
        let looked = pending.look(listener, usize::MAX)?;
        refused.fetch_add(looked.refused, Ordering::Relaxed);
        for (stream, shown) in looked.shown {
            let proven = token.proven(Purpose::Join, &shown);
            let taker = proven.and_then(|proven| flows.get_mut(proven.flow as usize).and_then(Option::take));
            let blocking = stream.set_nonblocking(false).is_ok();
            // A flow that already has its connection, or has given up, accepts none.
            let taken = taker.is_some_and(|taker| blocking && taker.send(stream.into()).is_ok());
            refused.fetch_add(u64::from(!taken), Ordering::Relaxed);
        }
    }
    Ok(())
}

fn wait(listener: &TcpListener, pending: &Pending) -> io::Result<()> {
    let mut fds = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    fds.extend(pending.fds().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    match poll(&mut fds, PollTimeout::from(GLANCE_MS)) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
