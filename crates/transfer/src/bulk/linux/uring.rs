//! io_uring: many sends per system call, zero-copy sends, and one receive request that continues by itself.

mod multishot;
mod sender;

use std::io;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};

use netcliff_packets::error::WireError;

pub(in crate::bulk) use multishot::{Multishot, Receiver, receive_bytes};
pub(super) use sender::Sender;

/// Largest number of zero-copy sends without a notification.
const MOST_UNDER_WAY: u64 = 256;

/// A ring whose waits have a time limit.
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

    /// Fails if the kernel does not support the operation.
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
    /// The memory that the entry points at stays valid until its completion has arrived.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller promises that the memory stays valid.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)
    }

    /// Hands over the queued operations and waits for `want` completions. Fails with `WouldBlock` at the time limit.
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
