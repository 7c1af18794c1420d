//! TCP_ZEROCOPY_RECEIVE: received pages are mapped instead of copied, if the data fill whole pages.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_void, socklen_t};

pub use super::end::Mapped;
use super::end::{DataPath, End};
use netcliff_packets::error::WireError;

/// Socket option of linux/tcp.h.
const TCP_ZEROCOPY_RECEIVE: libc::c_int = 35;

/// `struct tcp_zerocopy_receive` of linux/tcp.h, with the fields of Linux 4.18. Later kernels append optional fields.
#[repr(C)]
#[derive(Default)]
struct ZeroCopyReceive {
    address: u64,
    length: u32,
    recv_skip_hint: u32,
}

pub(super) struct Receiver<'a> {
    channel: BorrowedFd<'a>,
    region: *mut c_void,
    region_bytes: usize,
    /// Buffer for bytes that cannot be mapped.
    buffer: Vec<u8>,
    counts: Mapped,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, read_bytes: usize) -> Result<Self, WireError> {
        let failed = || WireError::last_os("map a socket to receive without a copy (TCP_ZEROCOPY_RECEIVE)");
        // SAFETY: sysconf takes no pointer.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let region_bytes = read_bytes.next_multiple_of(page);
        // SAFETY: a new mapping of the socket at an address of the kernel's choice.
        let region = unsafe {
            libc::mmap(ptr::null_mut(), region_bytes, libc::PROT_READ, libc::MAP_SHARED, channel.as_raw_fd(), 0)
        };
        if region == libc::MAP_FAILED {
            return Err(failed());
        }
        let mut receiver =
            Self { channel, region, region_bytes, buffer: vec![0; read_bytes], counts: Mapped::default() };
        // Nothing may have arrived yet, but the call shows whether the kernel knows the option.
        receiver.map().map_err(|e| WireError::system("receive without a copy (TCP_ZEROCOPY_RECEIVE)", e))?;
        Ok(receiver)
    }

    /// Maps the data that have arrived. Returns the bytes mapped, and the bytes after them that have to be read.
    fn map(&mut self) -> io::Result<(usize, usize)> {
        let mut ask =
            ZeroCopyReceive { address: self.region as u64, length: self.region_bytes as u32, recv_skip_hint: 0 };
        let mut length = mem::size_of::<ZeroCopyReceive>() as socklen_t;
        // SAFETY: `ask` is writable for `length` bytes; the kernel maps pages only within the region it names, which
        // is this receiver's mapping of the same socket.
        let done = unsafe {
            libc::getsockopt(
                self.channel.as_raw_fd(),
                libc::IPPROTO_TCP,
                TCP_ZEROCOPY_RECEIVE,
                (&raw mut ask).cast::<c_void>(),
                &raw mut length,
            )
        };
        if done < 0 {
            let error = io::Error::last_os_error();
            // The stream has ended; a read reports that better.
            return if error.raw_os_error() == Some(libc::EIO) { Ok((0, 0)) } else { Err(error) };
        }
        let mapped = ask.length as usize;
        self.counts.mapped_bytes += mapped as u64;
        if mapped > 0 {
            // SAFETY: the range is within this receiver's mapping, and nothing refers to the pages in it.
            unsafe { libc::madvise(self.region, mapped, libc::MADV_DONTNEED) };
        }
        Ok((mapped, ask.recv_skip_hint as usize))
    }
}

impl DataPath for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let (mapped, rest) = self.map()?;
        if mapped > 0 && rest == 0 {
            return Ok((mapped, 1));
        }
        // Read what cannot be mapped, or wait for more.
        let wanted = if rest > 0 { rest.min(self.buffer.len()) } else { self.buffer.len() };
        let copied = match nix::unistd::read(self.channel, &mut self.buffer[..wanted]) {
            // Mapped data count even if no more data follow now.
            Err(nix::Error::EAGAIN) if mapped > 0 => 0,
            read => read?,
        };
        self.counts.copied_bytes += copied as u64;
        Ok((mapped + copied, 2))
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        end.mapped = Some(self.counts);
        Ok(())
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        // SAFETY: this is the receiver's own mapping, and no reference into it exists any more.
        unsafe { libc::munmap(self.region, self.region_bytes) };
    }
}
