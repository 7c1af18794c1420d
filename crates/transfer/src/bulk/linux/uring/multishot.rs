//! The receiving end by io_uring: one receive request continues by itself, into buffers that the kernel chooses.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};

use super::{Ring, outcome};
use crate::bulk::end::DataPath;
use netcliff_packets::error::WireError;

/// Total size of the receive buffers (bytes), and the limits of their number.
const RECEIVE_BYTES: usize = 1 << 20;
const RECEIVE_BUFFERS: std::ops::RangeInclusive<usize> = 4..=64;
/// Group id of the receive buffers.
const GROUP: u16 = 0;

/// User data of the completions: of a receive, and of a provided buffer.
const RECEIVE: u64 = 2;
const PROVIDE: u64 = 3;
const CANCEL: u64 = 4;

/// Total bytes of receive buffers that have `buffer_bytes` each.
pub(in crate::bulk) fn receive_bytes(buffer_bytes: usize) -> usize {
    receive_buffers(buffer_bytes) * buffer_bytes
}

fn receive_buffers(buffer_bytes: usize) -> usize {
    (RECEIVE_BYTES / buffer_bytes).clamp(*RECEIVE_BUFFERS.start(), *RECEIVE_BUFFERS.end())
}

/// A receive request that stays active.
pub(in crate::bulk) struct Multishot<'a> {
    channel: BorrowedFd<'a>,
    ring: Ring,
    buffers: Vec<u8>,
    buffer_bytes: usize,
    /// Whether the request is active.
    armed: bool,
}

impl<'a> Multishot<'a> {
    /// Makes a receiver with buffers of `buffer_bytes`. A wait gives up after `patience_ns`.
    pub(in crate::bulk) fn new(
        channel: BorrowedFd<'a>,
        buffer_bytes: usize,
        patience_ns: u64,
    ) -> Result<Self, WireError> {
        let count = receive_buffers(buffer_bytes);
        let mut ring = Ring::new(2 * count, patience_ns)?;
        ring.has(opcode::ProvideBuffers::CODE, "receive into provided buffers")?;
        let mut buffers = vec![0; receive_bytes(buffer_bytes)];
        let provide = opcode::ProvideBuffers::new(buffers.as_mut_ptr(), buffer_bytes as i32, count as u16, GROUP, 0);
        let failed = |e| WireError::system("give io_uring buffers to receive into", e);
        // SAFETY: the buffers live as long as the kernel may write to them (see Drop).
        unsafe { ring.push(&provide.build().user_data(PROVIDE)) }.map_err(failed)?;
        ring.enter(1).map_err(failed)?;
        if let Some(entry) = ring.completed() {
            outcome(&entry).map_err(failed)?;
        }
        Ok(Self { channel, ring, buffers, buffer_bytes, armed: false })
    }

    /// Waits until data arrive and passes them to `each`: each read of a stream (zero bytes at its end), or each
    /// datagram. Data that arrive together with a failure are passed first. `WouldBlock`: nothing arrived in time. A
    /// call that also hands over a request cannot detect that, and passes nothing.
    pub(in crate::bulk) fn wait(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        if !self.armed {
            self.arm()?;
        }
        self.ring.enter(1)?;
        while let Some(entry) = self.ring.completed() {
            if entry.user_data() == PROVIDE {
                outcome(&entry)?;
                continue;
            }
            self.armed = cqueue::more(entry.flags());
            let buffer = cqueue::buffer_select(entry.flags());
            match (outcome(&entry), buffer) {
                (Ok(got), Some(buffer)) => each(&self.buffers[usize::from(buffer) * self.buffer_bytes..][..got]),
                (Ok(_), None) => each(&[]),
                // All buffers are in use: give them back, then activate the request again.
                (Err(e), _) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                (Err(e), _) => return Err(e),
            }
            if let Some(buffer) = buffer {
                self.give_back(buffer)?;
            }
        }
        Ok(())
    }

    fn arm(&mut self) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(self.channel.as_raw_fd()), GROUP).build().user_data(RECEIVE);
        // SAFETY: the request writes only to the provided buffers, which live as long as it may (see Drop).
        unsafe { self.ring.push(&entry) }?;
        self.armed = true;
        Ok(())
    }

    /// Returns a buffer to the kernel after it was read.
    fn give_back(&mut self, buffer: u16) -> io::Result<()> {
        let at = usize::from(buffer) * self.buffer_bytes;
        let row = &mut self.buffers[at..at + self.buffer_bytes];
        let entry = opcode::ProvideBuffers::new(row.as_mut_ptr(), row.len() as i32, 1, GROUP, buffer).build();
        let entry = entry.user_data(PROVIDE).flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the buffers live as long as the kernel may write to them (see Drop).
        unsafe { self.ring.push(&entry) }
    }

    /// Cancels the receive request. If that fails, the kernel may still write to the buffers.
    fn disarm(&mut self) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(RECEIVE).build().user_data(CANCEL);
        // SAFETY: the entry contains no pointers.
        unsafe { self.ring.push(&entry) }?;
        while self.armed {
            self.ring.enter(1)?;
            while let Some(entry) = self.ring.completed() {
                self.armed &= entry.user_data() != RECEIVE || cqueue::more(entry.flags());
            }
        }
        Ok(())
    }
}

impl Drop for Multishot<'_> {
    fn drop(&mut self) {
        if self.armed && self.disarm().is_err() {
            mem::forget(mem::take(&mut self.buffers));
        }
    }
}

/// Receives a stream.
pub(in crate::bulk) struct Receiver<'a> {
    multishot: Multishot<'a>,
    ended: bool,
}

impl<'a> Receiver<'a> {
    pub(in crate::bulk) fn new(channel: BorrowedFd<'a>, read_bytes: usize, stall_ns: u64) -> Result<Self, WireError> {
        Ok(Self { multishot: Multishot::new(channel, read_bytes, stall_ns)?, ended: false })
    }
}

impl DataPath for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let (mut bytes, mut calls) = (0, 0);
        while bytes == 0 && !self.ended {
            self.multishot.wait(|read| {
                bytes += read.len();
                self.ended |= read.is_empty();
            })?;
            calls += 1;
        }
        Ok((bytes, calls))
    }
}
