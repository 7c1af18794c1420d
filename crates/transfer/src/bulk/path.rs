//! The ways in which a sender hands its bytes to the kernel.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use super::SendPath;
use super::aligned::{Aligned, block};
use super::end::DataPath;
use super::ktls::Ktls;
use super::linux;
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
        SendPath::SendFile { .. }
        | SendPath::SendOwnFile { .. }
        | SendPath::Splice
        | SendPath::Uring { .. }
        | SendPath::ZeroCopy => linux::sender(path, channel, block_bytes, stall_ns)?,
    })
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
