//! Keys of the terminal, and whether it is still there.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event};

/// Reads keys in a separate thread. On a terminal that is gone, every read ends at once without data, and the reading
/// call may never return.
pub struct Keys {
    events: mpsc::Receiver<std::io::Result<Event>>,
    terminal: OwnedFd,
}

impl Keys {
    /// Starts the thread that reads keys.
    ///
    /// # Errors
    /// There is no terminal to read from.
    pub fn listen() -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        // crossterm reads keys from the same terminal.
        let terminal = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned()
        } else {
            File::open("/dev/tty").map(OwnedFd::from)
        };
        let terminal = terminal.context("cannot read keys from the terminal")?;
        let (sender, events) = mpsc::channel();
        let read = move || {
            loop {
                let event = event::read();
                let failed = event.is_err();
                if sender.send(event).is_err() || failed {
                    return;
                }
            }
        };
        // The thread is left behind when the watch ends.
        std::thread::Builder::new().name("keys".into()).spawn(read).context("cannot start a thread that reads keys")?;
        Ok(Self { events, terminal })
    }

    /// The next event within `wait`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn next(&self, wait: Duration) -> anyhow::Result<Option<Event>> {
        match self.events.recv_timeout(wait) {
            Ok(event) => Ok(Some(event.context("cannot read keys from the terminal")?)),
            Err(RecvTimeoutError::Timeout) if !is_gone(&self.terminal) => Ok(None),
            Err(_) => bail!("the terminal is gone"),
        }
    }
}

/// True if the other end of the terminal is closed.
fn is_gone(terminal: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    let ends = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    poll(&mut fds, PollTimeout::ZERO).is_ok() && fds[0].revents().is_some_and(|seen| seen.intersects(ends))
}
