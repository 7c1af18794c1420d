//! io_uring: many sends a system call, sends without a copy, and one receive that goes on by itself.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::end::{End, Mover};
use super::zero_copy::Completions;
use crate::error::WireError;

/// Bytes of sends that are handed over by one call, in whole blocks; the default buffer of a TCP sender takes so much.
const HANDED_OVER_BYTES: usize = 256 << 10;
/// The most sends by one call.
const MOST_SENDS: usize = 64;
/// Zero-copy sends whose notification may be missing.
const MOST_UNDER_WAY: u64 = 256;
/// Bytes of receive buffers, and how many there are at least and at most.
const RECEIVE_BYTES: usize = 1 << 20;
const RECEIVE_BUFFERS: std::ops::RangeInclusive<usize> = 4..=64;
/// The group the receive buffers belong to.
const GROUP: u16 = 0;

/// linux/io_uring.h.
const IORING_SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const IORING_NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// What a completion belongs to.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;
const PROVIDE: u64 = 3;

/// Bytes of receive buffers of `read_bytes` each.
pub(super) fn receive_bytes(read_bytes: usize) -> usize {
    receive_buffers(read_bytes) * read_bytes
}

fn receive_buffers(read_bytes: usize) -> usize {
    (RECEIVE_BYTES / read_bytes).clamp(*RECEIVE_BUFFERS.start(), *RECEIVE_BUFFERS.end())
}

/// A ring whose waits are bounded.
struct Ring {
    ring: IoUring,
    patience: Timespec,
}

impl Ring {
    fn new(entries: usize, stall_ns: u64) -> Result<Self, WireError> {
        let entries = u32::try_from(entries.next_power_of_two()).unwrap_or(u32::MAX);
        let completions = 4 * entries + 2 * MOST_UNDER_WAY as u32;
        let ring = IoUring::builder().setup_cqsize(completions).build(entries);
        let ring = ring.map_err(|e| WireError::system("set up io_uring (sysctl kernel.io_uring_disabled)", e))?;
        if !ring.params().is_feature_ext_arg() {
            let old = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            return Err(WireError::system("wait on io_uring for a bounded time (Linux 5.11)", old));
        }
        let patience = Timespec::new().sec(stall_ns / 1_000_000_000).nsec((stall_ns % 1_000_000_000) as u32);
        Ok(Self { ring, patience })
    }

    /// True where the kernel has the operation.
    fn has(&self, code: u8, what: &str) -> Result<(), WireError> {
        let mut probe = io_uring::Probe::new();
        self.ring.submitter().register_probe(&mut probe).map_err(|e| WireError::system("ask io_uring", e))?;
        if probe.is_supported(code) {
            return Ok(());
        }
        Err(WireError::system(format!("{what} by io_uring"), io::Error::from_raw_os_error(libc::EOPNOTSUPP)))
    }

    /// Queues an operation.
    ///
    /// # Safety
    /// What it points at must stay valid until its completion has come.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: as this function demands.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
    }

    /// Hands over what is queued and waits for `want` completions; a stall is `WouldBlock`.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        let args = SubmitArgs::new().timespec(&self.patience);
        match self.ring.submitter().submit_with_args(want, &args) {
            Ok(_) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Err(io::ErrorKind::WouldBlock.into()),
            Err(e) => Err(e),
        }
    }

    fn completed(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }
}

fn outcome(entry: &cqueue::Entry) -> io::Result<usize> {
    usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()))
}

/// Sends blocks in batches, one system call each.
pub(super) struct Sender<'a> {
    channel: BorrowedFd<'a>,
    ring: Ring,
    block: Vec<u8>,
    batch: usize,
    zero_copy: bool,
    /// Sends that are not completed.
    sends: usize,
    counts: Completions,
}

impl<'a> Sender<'a> {
    pub(super) fn new(
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
        // SAFETY: the block is neither changed nor freed before all completions and notifications have come; where
        // they do not come, it is left to the kernel (see Drop).
        unsafe { self.ring.push(&entry.user_data(SEND)) }?;
        self.sends += 1;
        self.counts.asked += u64::from(self.zero_copy);
        Ok(())
    }

    /// Takes what has completed: bytes sent, and the first failure.
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
                // It failed before anything was sent: no notification comes.
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

impl Mover for Sender<'_> {
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
            // A connection that has failed is told already.
            let (_, _) = self.take();
        }
        end.zero_copy = self.zero_copy.then_some(self.counts);
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if self.sends > 0 || self.under_way() > 0 {
            // The kernel may still read it.
            mem::forget(mem::take(&mut self.block));
        }
    }
}

/// One receive that goes on until the stream ends, into buffers the kernel chooses among.
pub(super) struct Receiver<'a> {
    channel: BorrowedFd<'a>,
    ring: Ring,
    buffers: Vec<u8>,
    buffer_bytes: usize,
    /// The kernel goes on receiving.
    armed: bool,
    ended: bool,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, read_bytes: usize, stall_ns: u64) -> Result<Self, WireError> {
        let count = receive_buffers(read_bytes);
        let mut ring = Ring::new(2 * count, stall_ns)?;
        ring.has(opcode::ProvideBuffers::CODE, "receive into provided buffers")?;
        let mut buffers = vec![0; receive_bytes(read_bytes)];
        let provide = opcode::ProvideBuffers::new(buffers.as_mut_ptr(), read_bytes as i32, count as u16, GROUP, 0);
        let failed = |e| WireError::system("give io_uring buffers to receive into", e);
        // SAFETY: the buffers live as long as the ring may write to them (see Drop).
        unsafe { ring.push(&provide.build().user_data(PROVIDE)) }.map_err(failed)?;
        ring.enter(1).map_err(failed)?;
        if let Some(entry) = ring.completed() {
            outcome(&entry).map_err(failed)?;
        }
        Ok(Self { channel, ring, buffers, buffer_bytes: read_bytes, armed: false, ended: false })
    }

    fn arm(&mut self) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(self.channel.as_raw_fd()), GROUP).build().user_data(RECEIVE);
        // SAFETY: it writes to the provided buffers only, which live as long as it may (see Drop).
        unsafe { self.ring.push(&entry) }?;
        self.armed = true;
        Ok(())
    }

    /// Gives a buffer that was read back to the kernel.
    fn give_back(&mut self, buffer: u16) -> io::Result<()> {
        let at = usize::from(buffer) * self.buffer_bytes;
        let row = &mut self.buffers[at..at + self.buffer_bytes];
        let entry = opcode::ProvideBuffers::new(row.as_mut_ptr(), row.len() as i32, 1, GROUP, buffer).build();
        let entry = entry.user_data(PROVIDE).flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the buffers live as long as the ring may write to them (see Drop).
        unsafe { self.ring.push(&entry) }
    }

    fn take(&mut self) -> io::Result<usize> {
        let mut bytes = 0;
        while let Some(entry) = self.ring.completed() {
            if entry.user_data() == PROVIDE {
                outcome(&entry)?;
                continue;
            }
            self.armed = cqueue::more(entry.flags());
            match outcome(&entry) {
                Ok(0) => self.ended = true,
                Ok(got) => bytes += got,
                // All buffers are taken: they are given back, and it is armed again.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => return Err(e),
            }
            if let Some(buffer) = cqueue::buffer_select(entry.flags()) {
                self.give_back(buffer)?;
            }
        }
        Ok(bytes)
    }
}

impl Mover for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let mut calls = 0;
        loop {
            if self.ended {
                return Ok((0, calls));
            }
            if !self.armed {
                self.arm()?;
            }
            self.ring.enter(1)?;
            calls += 1;
            let bytes = self.take()?;
            if bytes > 0 {
                return Ok((bytes, calls));
            }
        }
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        if self.armed {
            // The kernel may still write to them.
            mem::forget(mem::take(&mut self.buffers));
        }
    }
}
