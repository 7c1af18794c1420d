//! The sending end by io_uring.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{cqueue, opcode};

use super::{MOST_UNDER_WAY, Ring, outcome};
use crate::bulk::end::{Completions, DataPath, End};
use netcliff_packets::error::WireError;

/// Bytes that one system call hands over at most, in whole blocks: the default buffer of a TCP sender holds this.
const HANDED_OVER_BYTES: usize = 256 << 10;
/// Largest number of sends per system call.
const MOST_SENDS: usize = 64;

/// Constants of linux/io_uring.h.
const IORING_SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const IORING_NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// User data of a send's completion.
const SEND: u64 = 1;

/// Sends blocks in batches, one system call per batch.
pub(in crate::bulk) struct Sender<'a> {
    channel: BorrowedFd<'a>,
    ring: Ring,
    block: Vec<u8>,
    batch: usize,
    zero_copy: bool,
    /// Number of sends that have not completed.
    sends: usize,
    counts: Completions,
}

impl<'a> Sender<'a> {
    pub(in crate::bulk) fn new(
        channel: BorrowedFd<'a>,
        block: Vec<u8>,
        zero_copy: bool,
        stall_ns: u64,
    ) -> Result<Self, WireError> {
        let batch = (HANDED_OVER_BYTES / block.len()).clamp(1, MOST_SENDS);
        let ring = Ring::new(batch, stall_ns)?;
        if zero_copy {
            ring.has(opcode::SendZc::CODE, "send without a copy")?;
        } else {
            ring.has(opcode::Send::CODE, "send")?;
        }
        Ok(Self { channel, ring, block, batch, zero_copy, sends: 0, counts: Completions::default() })
    }

    fn queue(&mut self) -> io::Result<()> {
        let (fd, bytes, length) = (Fd(self.channel.as_raw_fd()), self.block.as_ptr(), self.block.len() as u32);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = if self.zero_copy {
            opcode::SendZc::new(fd, bytes, length).flags(flags).zc_flags(IORING_SEND_ZC_REPORT_USAGE).build()
        } else {
            opcode::Send::new(fd, bytes, length).flags(flags).build()
        };
        // SAFETY: the block is neither changed nor freed before all completions and notifications have arrived. If they
        // do not arrive, it is leaked to the kernel (see Drop).
        unsafe { self.ring.push(&entry.user_data(SEND)) }?;
        self.sends += 1;
        self.counts.asked += u64::from(self.zero_copy);
        Ok(())
    }

    /// Takes the completions. Returns the bytes sent, and the first failure.
    fn take(&mut self) -> (usize, io::Result<()>) {
        let (mut bytes, mut failed) = (0, Ok(()));
        while let Some(entry) = self.ring.completed() {
            if cqueue::notif(entry.flags()) {
                self.counts.completed += 1;
                self.counts.copied += u64::from(entry.result() as u32 & IORING_NOTIF_USAGE_ZC_COPIED != 0);
                continue;
            }
            self.sends -= 1;
            if self.zero_copy && !cqueue::more(entry.flags()) {
                // The send failed before anything was sent, so no notification follows.
                self.counts.completed += 1;
            }
            match outcome(&entry) {
                Ok(sent) => bytes += sent,
                Err(error) if failed.is_ok() => failed = Err(error),
                Err(_) => {}
            }
        }
        (bytes, failed)
    }

    fn under_way(&self) -> u64 {
        self.counts.asked - self.counts.completed
    }
}

impl DataPath for Sender<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        for _ in 0..self.batch {
            self.queue()?;
        }
        let (mut bytes, mut calls) = (0, 0);
        while self.sends > 0 || self.under_way() > MOST_UNDER_WAY {
            self.ring.enter(self.sends.max(1))?;
            calls += 1;
            let (sent, failed) = self.take();
            bytes += sent;
            failed?;
        }
        Ok((bytes, calls))
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        while self.sends > 0 || self.under_way() > 0 {
            self.ring.enter(1)?;
            // A failed connection has been reported already.
            let (_, _) = self.take();
        }
        end.zero_copy = self.zero_copy.then_some(self.counts);
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if self.sends > 0 || self.under_way() > 0 {
            // The kernel may still read the block, so it is leaked.
            mem::forget(mem::take(&mut self.block));
        }
    }
}
