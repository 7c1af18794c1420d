//! The ways in which a sender hands its bytes to the kernel.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{SpliceFFlags, splice, vmsplice};

use super::SendPath;
use super::aligned::Aligned;
use super::end::DataPath;
use super::ktls::Ktls;
use super::send_file::SendFile;
use super::uring;
use super::zero_copy::ZeroCopy;
use netcliff_packets::error::WireError;

/// The sender of a stream by `path`. `stall_ns` bounds the wait for completions.
pub(super) fn mover<'a>(
    path: &SendPath,
    channel: BorrowedFd<'a>,
    block_bytes: usize,
    stall_ns: u64,
) -> Result<Box<dyn DataPath + 'a>, WireError> {
    Ok(match path {
        SendPath::Write => Box::new(Write { channel, block: block(block_bytes) }),
        SendPath::Ktls => Box::new(Ktls::new(Box::new(Write { channel, block: block(block_bytes) }), channel, true)?),
        SendPath::WriteV => Box::new(WriteV { channel, block: block(block_bytes) }),
        SendPath::SendFile { file, cold } => Box::new(SendFile::open(channel, file, *cold, block_bytes)?),
        SendPath::SendOwnFile { bytes, cold } => Box::new(SendFile::own(channel, *bytes, *cold, block_bytes)?),
        SendPath::Splice => Box::new(Splice::new(channel, block_bytes)?),
        SendPath::Uring { zero_copy } => {
            Box::new(uring::Sender::new(channel, block(block_bytes), *zero_copy, stall_ns)?)
        }
        SendPath::ZeroCopy => Box::new(ZeroCopy::new(channel, block(block_bytes), stall_ns)?),
    })
}

/// A block of data to send. It is not zeros, because a disk or a link might compress these.
pub(super) fn block(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(151).wrapping_add(43)).collect()
}

/// A sender by write(2) whose blocks begin on a page.
pub(super) fn aligned<'a>(channel: BorrowedFd<'a>, block_bytes: usize) -> Box<dyn DataPath + 'a> {
    let mut bytes = Aligned::zeroed(block_bytes, true);
    bytes.copy_from_slice(&block(block_bytes));
    Box::new(Write { channel, block: bytes })
}

struct Write<'a, B: std::ops::Deref<Target = [u8]>> {
    channel: BorrowedFd<'a>,
    block: B,
}

/// Bytes of the first write: less than a segment, so that TCP sends it at once.
const FIRST_BYTES: usize = 1024;

impl<B: std::ops::Deref<Target = [u8]>> DataPath for Write<'_, B> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        Ok((nix::unistd::write(self.channel, &self.block)?, 1))
    }

    fn first(&mut self) -> io::Result<(usize, u64)> {
        Ok((nix::unistd::write(self.channel, &self.block[..self.block.len().min(FIRST_BYTES)])?, 1))
    }
}

struct WriteV<'a> {
    channel: BorrowedFd<'a>,
    block: Vec<u8>,
}

/// Number of pieces of a block for writev.
const PIECES: usize = 16;

impl DataPath for WriteV<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let piece = self.block.len().div_ceil(PIECES);
        let mut slices = [IoSlice::new(&[]); PIECES];
        for (slice, part) in slices.iter_mut().zip(self.block.chunks(piece)) {
            *slice = IoSlice::new(part);
        }
        Ok((nix::sys::uio::writev(self.channel, &slices)?, 1))
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
