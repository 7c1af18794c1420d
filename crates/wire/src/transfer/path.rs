//! How a sender's bytes reach the kernel.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{PosixFadviseAdvice, SpliceFFlags, posix_fadvise, splice, vmsplice};
use nix::sys::sendfile::sendfile;

use super::SendPath;
use super::end::Mover;
use super::uring;
use super::zero_copy::ZeroCopy;
use crate::error::WireError;

/// The sender of a stream by one of the paths. `stall_ns` bounds the wait for completions.
pub(super) fn mover<'a>(
    path: &SendPath,
    channel: BorrowedFd<'a>,
    block_bytes: usize,
    stall_ns: u64,
) -> Result<Box<dyn Mover + 'a>, WireError> {
    Ok(match path {
        SendPath::Write => Box::new(Write { channel, block: block(block_bytes) }),
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

/// What is sent: no zeros, which a disk or a link might compress.
fn block(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(151).wrapping_add(43)).collect()
}

struct Write<'a> {
    channel: BorrowedFd<'a>,
    block: Vec<u8>,
}

impl Mover for Write<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        Ok((nix::unistd::write(self.channel, &self.block)?, 1))
    }
}

struct WriteV<'a> {
    channel: BorrowedFd<'a>,
    block: Vec<u8>,
}

/// Pieces of a block.
const PIECES: usize = 16;

impl Mover for WriteV<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let piece = self.block.len().div_ceil(PIECES);
        let mut slices = [IoSlice::new(&[]); PIECES];
        for (slice, part) in slices.iter_mut().zip(self.block.chunks(piece)) {
            *slice = IoSlice::new(part);
        }
        Ok((nix::sys::uio::writev(self.channel, &slices)?, 1))
    }
}

struct SendFile<'a> {
    channel: BorrowedFd<'a>,
    file: File,
    name: PathBuf,
    file_bytes: u64,
    at: u64,
    cold: bool,
    block_bytes: usize,
}

impl<'a> SendFile<'a> {
    fn open(channel: BorrowedFd<'a>, path: &Path, cold: bool, block_bytes: usize) -> Result<Self, WireError> {
        let failed = |e| WireError::system(format!("read {}", path.display()), e);
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() || about.len() == 0 {
            return Err(WireError::setting("file", path.display(), "a regular file that is not empty"));
        }
        let source = Self { channel, file, name: path.to_owned(), file_bytes: about.len(), at: 0, cold, block_bytes };
        source.rewind_cache().map_err(failed)?;
        Ok(source)
    }

    /// From a file without a name in the directory for temporary files.
    fn own(channel: BorrowedFd<'a>, bytes: u64, cold: bool, block_bytes: usize) -> Result<Self, WireError> {
        if bytes == 0 {
            return Err(WireError::setting("file size", bytes, "at least 1 byte"));
        }
        let (file, name) = own_file(bytes)?;
        let failed = |e| WireError::system(format!("write a temporary file of {bytes} bytes, {}", name.display()), e);
        if cold {
            // Only what is on the disk can be dropped from the cache.
            file.sync_data().map_err(failed)?;
        }
        let source = Self { channel, file, name: name.clone(), file_bytes: bytes, at: 0, cold, block_bytes };
        source.rewind_cache().map_err(failed)?;
        Ok(source)
    }

    fn rewind_cache(&self) -> io::Result<()> {
        if self.cold {
            posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Ok(())
    }
}

/// A file of so many bytes that is gone when it is closed, and the name it had.
fn own_file(bytes: u64) -> Result<(File, PathBuf), WireError> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("netcliff-{}-{number}", std::process::id()));
    let failed = |e| WireError::system(format!("write a temporary file of {bytes} bytes, {}", path.display()), e);
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let piece = block(usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 20));
    let mut left = bytes;
    while left > 0 {
        let now = left.min(piece.len() as u64) as usize;
        file.write_all(&piece[..now]).map_err(failed)?;
        left -= now as u64;
    }
    Ok((file, path))
}

impl Mover for SendFile<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let wanted = (self.file_bytes - self.at).min(self.block_bytes as u64) as usize;
        let mut offset = self.at as libc::off_t;
        let sent = sendfile(self.channel, &self.file, Some(&mut offset), wanted)?;
        if sent == 0 {
            return Err(io::Error::other(format!(
                "{} ended at {} of {} bytes: it shrank while it was sent",
                self.name.display(),
                self.at,
                self.file_bytes
            )));
        }
        self.at += sent as u64;
        if self.at >= self.file_bytes {
            self.at = 0;
            self.rewind_cache()?;
        }
        Ok((sent, 1))
    }
}

struct Splice<'a> {
    channel: BorrowedFd<'a>,
    outlet: OwnedFd,
    inlet: OwnedFd,
    block: Vec<u8>,
    /// Bytes in the pipe.
    held: usize,
}

impl<'a> Splice<'a> {
    fn new(channel: BorrowedFd<'a>, block_bytes: usize) -> Result<Self, WireError> {
        let failed = |e: io::Error| WireError::system("make a pipe for splice", e);
        let (outlet, inlet) = io::pipe().map_err(failed)?;
        let inlet: OwnedFd = inlet.into();
        // As large as it may be; the default of 64 KiB works too, in smaller steps.
        for wanted in [1 << 20, 256 << 10] {
            // SAFETY: fcntl with F_SETPIPE_SZ takes no pointer.
            if unsafe { libc::fcntl(inlet.as_raw_fd(), libc::F_SETPIPE_SZ, wanted) } >= 0 {
                break;
            }
        }
        Ok(Self { channel, outlet: outlet.into(), inlet, block: block(block_bytes), held: 0 })
    }
}

impl Mover for Splice<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let mut calls = 1;
        if self.held == 0 {
            // Not blocking: what does not fit in the pipe goes next time.
            let slices = [IoSlice::new(&self.block)];
            self.held = vmsplice(self.inlet.as_fd(), &slices, SpliceFFlags::SPLICE_F_NONBLOCK)?;
            calls += 1;
        }
        let sent = splice(&self.outlet, None, self.channel, None, self.held, SpliceFFlags::SPLICE_F_MOVE)?;
        self.held -= sent;
        Ok((sent, calls))
    }
}
