//! Receives datagrams by recv(2) and recvmmsg(2).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, iovec, mmsghdr};

use super::receiver::{Noted, Source};
use super::{BATCH, DatagramPath, buffers};
use netcliff_host::system::{self, UDP_GRO};
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;

/// Length of the sequence number at the start of a datagram (bytes).
const NUMBER_BYTES: usize = 8;
/// Number of messages of a GRO receiver, each with room for the largest datagram.
const GRO_MESSAGES: usize = 16;

pub(super) struct Calls<'a> {
    channel: BorrowedFd<'a>,
    rows: Vec<u8>,
    row_bytes: usize,
    /// Buffers that the messages point into.
    _slices: Vec<iovec>,
    messages: Vec<mmsghdr>,
    /// Room for the control message with the segment size, one row per message. Empty without GRO.
    control: Vec<[u64; 4]>,
    /// MSG_TRUNC: a row holds only a datagram's number, and the kernel reports its length.
    flags: c_int,
}

impl<'a> Calls<'a> {
    /// Makes a receiver with room for datagrams of `row_bytes`.
    pub(super) fn new(
        channel: BorrowedFd<'a>,
        (path, truncates): (DatagramPath, bool),
        row_bytes: usize,
    ) -> Result<Self, WireError> {
        let row_bytes = if truncates { NUMBER_BYTES } else { row_bytes };
        let (messages, row_bytes) = match path {
            DatagramPath::Single => (1, row_bytes),
            DatagramPath::Batch | DatagramPath::SegmentedOut => (BATCH, row_bytes),
            DatagramPath::Segmented | DatagramPath::SegmentedIn => (GRO_MESSAGES, 1 << 16),
        };
        let mut control = Vec::new();
        if path.puts_together() {
            let one: c_int = 1;
            sockopt::set(channel, UDP_GRO, &one, "UDP_GRO", 1)?;
            control = vec![[0; 4]; messages];
        }
        let mut rows = vec![0; messages * row_bytes];
        let (slices, messages) = buffers(&mut rows, messages, row_bytes);
        let flags = if truncates { libc::MSG_TRUNC } else { 0 };
        Ok(Self { channel, rows, row_bytes, _slices: slices, messages, control, flags })
    }

    /// Waits for messages. Returns their number.
    fn wait(&mut self) -> io::Result<usize> {
        let fd = self.channel.as_raw_fd();
        if self.messages.len() == 1 {
            // SAFETY: the rows are writable for their length.
            let got = unsafe { libc::recv(fd, self.rows.as_mut_ptr().cast(), self.rows.len(), self.flags) };
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            self.messages[0].msg_len = got as _;
            return Ok(1);
        }
        for (message, control) in self.messages.iter_mut().zip(&mut self.control) {
            message.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
            message.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
        }
        let (messages, most) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        // SAFETY: the messages point at slices, rows and control rows that live in `self` and were not resized.
        let got = unsafe { system::receive_messages(fd, messages, most, libc::MSG_WAITFORONE | self.flags) };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }
}

impl Source for Calls<'_> {
    fn receive(&mut self, noted: &mut Noted<'_>) -> io::Result<usize> {
        let messages = self.wait()?;
        let mut ours = 0;
        for (message, row) in self.messages[..messages].iter().zip(self.rows.chunks(self.row_bytes)) {
            let length = message.msg_len as usize;
            if self.flags != 0 {
                ours += noted.note_head(&row[..length.min(self.row_bytes)], length);
                continue;
            }
            let segment = segment_bytes(&message.msg_hdr).unwrap_or(length);
            let datagrams = row[..length.min(self.row_bytes)].chunks(segment.max(1));
            ours += datagrams.map(|datagram| noted.note(datagram)).sum::<usize>();
        }
        Ok(ours)
    }
}

/// Size of the datagrams that UDP_GRO has merged. `None` if there is only one.
fn segment_bytes(message: &libc::msghdr) -> Option<usize> {
    if message.msg_control.is_null() || message.msg_controllen == 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control buffer and set its length; a message of this kind holds an int.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() || !UDP_GRO.is((*header).cmsg_level, (*header).cmsg_type) {
            return None;
        }
        usize::try_from(libc::CMSG_DATA(header).cast::<c_int>().read_unaligned()).ok()
    }
}
