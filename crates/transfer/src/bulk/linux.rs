//! What only Linux has: io_uring, zero-copy sends, sendfile, splice, epoll, and a socket's error queue.

mod error_queue;
mod send_file;
pub(super) mod uring;
mod zero_copy;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{SpliceFFlags, splice, vmsplice};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::SendPath;
use super::aligned::block;
use super::end::DataPath;
use netcliff_packets::error::WireError;

use send_file::SendFile;

pub(super) use error_queue::icmp;
pub(crate) use send_file::storage_bps;
pub(super) use uring::{Multishot, receive_bytes};

/// The sender of a stream by a path that only Linux has.
pub(super) fn sender<'a>(
    path: &SendPath,
    channel: BorrowedFd<'a>,
    block_bytes: usize,
    stall_ns: u64,
) -> Result<Box<dyn DataPath + 'a>, WireError> {
    if let Some(file) = SendFile::of(channel, path, block_bytes) {
        return Ok(Box::new(file?));
    }
    Ok(match path {
        SendPath::Uring { zero_copy } => {
            Box::new(uring::Sender::new(channel, block(block_bytes), *zero_copy, stall_ns)?)
        }
        SendPath::ZeroCopy => Box::new(zero_copy::ZeroCopy::new(channel, block(block_bytes), stall_ns)?),
        _ => Box::new(Splice::new(channel, block_bytes)?),
    })
}

/// The receiver of a stream by io_uring.
pub(super) fn receiver<'a>(
    channel: BorrowedFd<'a>,
    read_bytes: usize,
    stall_ns: u64,
) -> Result<Box<dyn DataPath + 'a>, WireError> {
    Ok(Box::new(uring::Receiver::new(channel, read_bytes, stall_ns)?))
}

/// Largest number of channels that one call reports.
const MOST_EVENTS: usize = 256;

/// Which of a thread's channels can move again: an epoll instance, edge-triggered.
pub(super) struct Events {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Events {
    pub(super) fn new(channels: usize) -> Result<Self, WireError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| WireError::system("make an epoll instance for several flows of a thread", e))?;
        Ok(Self { epoll, events: vec![EpollEvent::empty(); channels.clamp(1, MOST_EVENTS)] })
    }

    /// Adds a channel that is sent to or received from.
    pub(super) fn add(&self, channel: BorrowedFd<'_>, sender: bool, place: usize) -> Result<(), WireError> {
        let events = if sender { EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
        let event = EpollEvent::new(events | EpollFlags::EPOLLET, place as u64);
        self.epoll.add(channel, event).map_err(|e| WireError::system("wait for a flow by epoll", e))
    }

    /// Waits for at most `ms` milliseconds. Calls `can_move` with the place of each channel that can move data.
    pub(super) fn wait(&mut self, ms: u16, mut can_move: impl FnMut(usize)) -> Result<(), WireError> {
        let reported = match self.epoll.wait(&mut self.events, ms) {
            Err(Errno::EINTR) => 0,
            reported => reported.map_err(|e| WireError::system("wait for several flows by epoll", e))?,
        };
        self.events[..reported].iter().for_each(|event| can_move(event.data() as usize));
        Ok(())
    }

    /// A descriptor that can be read when a channel can move.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

struct Splice<'a> {
    channel: BorrowedFd<'a>,
    outlet: OwnedFd,
    inlet: OwnedFd,
    block: Vec<u8>,
    /// Number of bytes in the pipe.
    held: usize,
}

impl<'a> Splice<'a> {
    fn new(channel: BorrowedFd<'a>, block_bytes: usize) -> Result<Self, WireError> {
        let failed = |e: io::Error| WireError::system("make a pipe for splice", e);
        let (outlet, inlet) = io::pipe().map_err(failed)?;
        let inlet: OwnedFd = inlet.into();
        // Enlarge the pipe as far as allowed. The default of 64 KiB works too, in smaller steps.
        for wanted in [1 << 20, 256 << 10] {
            // SAFETY: fcntl with F_SETPIPE_SZ takes no pointer.
            if unsafe { libc::fcntl(inlet.as_raw_fd(), libc::F_SETPIPE_SZ, wanted) } >= 0 {
                break;
            }
        }
        Ok(Self { channel, outlet: outlet.into(), inlet, block: block(block_bytes), held: 0 })
    }
}

impl DataPath for Splice<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let mut calls = 1;
        if self.held == 0 {
            // The call does not block: bytes that do not fit into the pipe go with the next call.
            let slices = [IoSlice::new(&self.block)];
            self.held = vmsplice(self.inlet.as_fd(), &slices, SpliceFFlags::SPLICE_F_NONBLOCK)?;
            calls += 1;
        }
        let sent = splice(&self.outlet, None, self.channel, None, self.held, SpliceFFlags::SPLICE_F_MOVE)?;
        self.held -= sent;
        Ok((sent, calls))
    }
}
