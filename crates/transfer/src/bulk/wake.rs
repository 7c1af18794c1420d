//! Waits until one of many channels can move data again, or something is due.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};

use super::linux::Events;
use super::pace::SPIN_NS;
use netcliff_host::system;
use netcliff_packets::clock;
use netcliff_packets::error::WireError;

/// How long to sleep if no channel can move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// Do not sleep.
    Now,
    /// Until this time, or up to a millisecond later (ns).
    By(u64),
    /// Until this time, as precisely as possible (ns).
    At(u64),
}

impl Wake {
    /// Returns the wait that also ends at `due_ns` (ns).
    pub(super) fn or_at(self, due_ns: u64) -> Self {
        match self {
            Self::Now => Self::Now,
            Self::By(by_ns) if by_ns <= due_ns => Self::By(by_ns),
            Self::By(_) => Self::At(due_ns),
            Self::At(other_ns) => Self::At(other_ns.min(due_ns)),
        }
    }
}

/// Which of a thread's channels can move again.
pub(super) struct Readiness(Events);

impl Readiness {
    pub(super) fn new(channels: usize) -> Result<Self, WireError> {
        Events::new(channels).map(Self)
    }

    /// Adds a channel that is sent to or received from. Reports from now on when it can move again.
    pub(super) fn add(&self, channel: BorrowedFd<'_>, sender: bool, place: usize) -> Result<(), WireError> {
        self.0.add(channel, sender, place)
    }

    /// Waits until a channel can move or `wake` is reached. Calls `can_move` with the index of each channel that can
    /// move data.
    pub(super) fn wait(&mut self, wake: Wake, can_move: impl FnMut(usize)) -> Result<(), WireError> {
        let ms = match wake {
            Wake::Now => 0,
            Wake::By(ns) => {
                let ms = ns.saturating_sub(clock::monotonic_ns()).div_ceil(1_000_000);
                u16::try_from(ms).unwrap_or(u16::MAX)
            }
            Wake::At(ns) => {
                self.sleep(ns)?;
                0
            }
        };
        self.0.wait(ms, can_move)
    }

    /// Sleeps until a channel can move, or until just before `until_ns`: the caller spins for the rest, because a sleep
    /// ends late. epoll counts in milliseconds.
    fn sleep(&self, until_ns: u64) -> Result<(), WireError> {
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns()).saturating_sub(SPIN_NS);
        if left_ns == 0 {
            return Ok(());
        }
        let mut any = [PollFd::new(self.0.fd(), PollFlags::POLLIN)];
        match system::poll_for(&mut any, Duration::from_nanos(left_ns)) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(WireError::system("wait until a block is due", e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_earliest_of_what_is_due_wakes() {
        assert_eq!(Wake::Now.or_at(5), Wake::Now);
        assert_eq!(Wake::By(10).or_at(5), Wake::At(5));
        assert_eq!(Wake::By(10).or_at(15), Wake::By(10));
        assert_eq!(Wake::At(10).or_at(5).or_at(7), Wake::At(5));
    }

    #[test]
    fn a_channel_that_can_move_ends_the_sleep_and_nothing_ends_it_in_time() {
        let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut readiness = Readiness::new(1).expect("an epoll instance");
        readiness.add(far.as_fd(), false, 3).expect("it is a socket");
        let mut reported = Vec::new();
        let begin_ns = clock::monotonic_ns();
        readiness.wait(Wake::By(begin_ns + 2_000_000), |place| reported.push(place)).expect("it waits");
        assert!(reported.is_empty() && clock::monotonic_ns() >= begin_ns + 2_000_000);
        readiness.wait(Wake::At(clock::monotonic_ns() + 2_000_000), |place| reported.push(place)).expect("it waits");
        assert!(reported.is_empty());
        nix::unistd::write(&near, &[1]).expect("room");
        readiness.wait(Wake::At(u64::MAX), |place| reported.push(place)).expect("it waits");
        assert_eq!(reported, [3]);
        // Edge-triggered: an event that was not handled is not reported again.
        readiness.wait(Wake::Now, |place| reported.push(place)).expect("it waits");
        assert_eq!(reported, [3]);
    }
}
