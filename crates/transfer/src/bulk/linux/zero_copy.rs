//! MSG_ZEROCOPY: the kernel sends pages in place and reports when it no longer needs them.
//!
//! Each successful call has a number. The error queue reports ranges of completed numbers, and whether the kernel
//! copied the bytes after all, as it does on loopback and veth.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::error_queue;
use crate::bulk::end::{Completions, DataPath, End};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;

impl Completions {
    fn note(&mut self, error: &libc::sock_extended_err) {
        if error.ee_origin != SO_EE_ORIGIN_ZEROCOPY {
            return;
        }
        let calls = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
        self.completed += calls;
        if error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 {
            self.copied += calls;
        }
    }
}

pub(super) struct ZeroCopy<'a> {
    channel: BorrowedFd<'a>,
    block: Vec<u8>,
    stall_ns: u64,
    counts: Completions,
}

/// Completions are fetched when this number of calls is under way.
const UNDER_WAY: u64 = 64;

impl<'a> ZeroCopy<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, block: Vec<u8>, stall_ns: u64) -> Result<Self, WireError> {
        let one: c_int = 1;
        sockopt::set(channel, (libc::SOL_SOCKET, libc::SO_ZEROCOPY), &one, "SO_ZEROCOPY", 1)?;
        Ok(Self { channel, block, stall_ns, counts: Completions::default() })
    }

    fn under_way(&self) -> u64 {
        self.counts.asked - self.counts.completed
    }

    /// Takes one message off the error queue. Returns false if it is empty.
    fn fetch(&mut self) -> io::Result<bool> {
        error_queue::fetch(self.channel, |error| self.counts.note(error))
    }

    /// Waits until at most `most` calls are under way.
    fn await_completions(&mut self, most: u64) -> io::Result<()> {
        let begin_ns = clock::monotonic_ns();
        while self.under_way() > most {
            if self.fetch()? {
                continue;
            }
            if clock::monotonic_ns() - begin_ns > self.stall_ns {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            // A message in the error queue shows as POLLERR, which poll always reports.
            let mut wait = [PollFd::new(self.channel.as_fd(), PollFlags::empty())];
            poll(&mut wait, PollTimeout::from(10_u8))?;
        }
        Ok(())
    }
}

/// Constants of linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

impl DataPath for ZeroCopy<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        if self.under_way() >= UNDER_WAY {
            self.await_completions(UNDER_WAY / 2)?;
        }
        // SAFETY: the block is readable for its length and is not changed or freed before all completions came.
        let sent = unsafe {
            libc::send(
                self.channel.as_raw_fd(),
                self.block.as_ptr().cast::<c_void>(),
                self.block.len(),
                libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL,
            )
        };
        if sent >= 0 {
            self.counts.asked += 1;
            return Ok((sent as usize, 1));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOBUFS) && self.under_way() > 0 {
            self.counts.refused += 1;
            let most = self.under_way() - 1;
            self.await_completions(most)?;
            return Err(io::ErrorKind::Interrupted.into());
        }
        Err(error)
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        let waited = self.await_completions(0);
        end.zero_copy = Some(self.counts);
        waited
    }
}

impl Drop for ZeroCopy<'_> {
    fn drop(&mut self) {
        if self.under_way() > 0 {
            // The kernel may still read the pages, so they are leaked.
            mem::forget(mem::take(&mut self.block));
        }
    }
}
