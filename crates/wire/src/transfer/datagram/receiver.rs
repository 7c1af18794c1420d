//! The end that receives datagrams.

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, iovec, mmsghdr};

use super::{BATCH, DatagramPath, Datagrams, END_MARK, buffers, is_unreachable};
use crate::clock;
use crate::error::WireError;
use crate::tracker::{Seen, Tracker};
use crate::transfer::end::{End, Mover};
use crate::transfer::options;

/// Messages of a GRO receiver, each with room for the largest datagram.
const GRO_MESSAGES: usize = 16;
/// Sequence numbers that are told apart.
const TRACKED: usize = 1 << 20;
/// A higher one is none: no flow sends so many. It is a token that was shown twice.
const MOST_SEQUENCE: u64 = 1 << 48;
/// How long a receiver waits before it looks whether the sender is through.
const LOOK_NS: u64 = 50_000_000;

pub(in crate::transfer) struct Receiver<'a> {
    channel: BorrowedFd<'a>,
    rows: Vec<u8>,
    row_bytes: usize,
    block_bytes: usize,
    slices: Vec<iovec>,
    messages: Vec<mmsghdr>,
    /// Room for the size of the segments, a row a message; empty without GRO.
    control: Vec<[u64; 4]>,
    tracker: Tracker,
    counts: Datagrams,
    over: &'a AtomicBool,
    /// None where it does not wait: whoever asks it does.
    stall_ns: Option<u64>,
    /// When silence began; None while datagrams come.
    silent_since_ns: Option<u64>,
}

impl<'a> Receiver<'a> {
    pub(in crate::transfer) fn new(
        channel: BorrowedFd<'a>,
        path: DatagramPath,
        block_bytes: usize,
        stall_ns: Option<u64>,
        over: &'a AtomicBool,
    ) -> Result<Self, WireError> {
        if let Some(stall_ns) = stall_ns {
            options::stall(channel, LOOK_NS.min(stall_ns))?;
        }
        // One byte more than expected, so that a longer datagram shows.
        let (messages, row_bytes) = match path {
            DatagramPath::Single => (1, block_bytes + 1),
            DatagramPath::Batch => (BATCH, block_bytes + 1),
            DatagramPath::Segmented => (GRO_MESSAGES, 1 << 16),
        };
        let mut control = Vec::new();
        if path == DatagramPath::Segmented {
            let one: c_int = 1;
            options::set(channel, libc::SOL_UDP, libc::UDP_GRO, &one, "UDP_GRO", 1)?;
            control = vec![[0; 4]; messages];
        }
        let mut rows = vec![0; messages * row_bytes];
        let (slices, messages) = buffers(&mut rows, messages, row_bytes);
        Ok(Self {
            channel,
            rows,
            row_bytes,
            block_bytes,
            slices,
            messages,
            control,
            tracker: Tracker::new(TRACKED),
            counts: Datagrams::default(),
            over,
            stall_ns,
            silent_since_ns: None,
        })
    }

    /// Waits for messages: how many came.
    fn receive(&mut self) -> io::Result<usize> {
        let fd = self.channel.as_raw_fd();
        if self.messages.len() == 1 {
            // SAFETY: the rows are writable for their length.
            let got = unsafe { libc::recv(fd, self.rows.as_mut_ptr().cast(), self.rows.len(), 0) };
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            self.messages[0].msg_len = got as u32;
            return Ok(1);
        }
        for (message, control) in self.messages.iter_mut().zip(&mut self.control) {
            message.msg_hdr.msg_control = control.as_mut_ptr().cast::<c_void>();
            message.msg_hdr.msg_controllen = mem::size_of_val(control);
        }
        let (messages, most) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        // SAFETY: the messages point at slices, rows and control rows that live in `self` and were not resized.
        let got = unsafe { libc::recvmmsg(fd, messages, most, libc::MSG_WAITFORONE, std::ptr::null_mut()) };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }

    /// Notes the datagrams of one message; how many bytes were ours.
    fn note(&mut self, place: usize) -> usize {
        let length = self.messages[place].msg_len as usize;
        let segment = segment_bytes(&self.messages[place].msg_hdr).unwrap_or(length);
        let row = &self.rows[place * self.row_bytes..][..length.min(self.row_bytes)];
        let mut ours = 0;
        for datagram in row.chunks(segment.max(1)) {
            if datagram.len() != self.block_bytes {
                self.counts.foreign += 1;
                continue;
            }
            let sequence = u64::from_be_bytes(std::array::from_fn(|i| datagram[i]));
            if sequence == END_MARK {
                self.over.store(true, Ordering::Release);
                continue;
            }
            if sequence > MOST_SEQUENCE {
                self.counts.foreign += 1;
                continue;
            }
            match self.tracker.observe(sequence) {
                Seen::InOrder => {}
                Seen::Late | Seen::TooOld => self.counts.reordered += 1,
                Seen::Duplicate => self.counts.duplicates += 1,
            }
            self.counts.moved += 1;
            ours += datagram.len();
        }
        ours
    }
}

/// The size of the datagrams that UDP_GRO has put together; None where there is only one.
fn segment_bytes(message: &libc::msghdr) -> Option<usize> {
    if message.msg_control.is_null() || message.msg_controllen == 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control buffer and set its length; a message of this kind holds an int.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null() || ((*header).cmsg_level, (*header).cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) {
            return None;
        }
        usize::try_from(libc::CMSG_DATA(header).cast::<c_int>().read_unaligned()).ok()
    }
}

impl Mover for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        loop {
            match self.receive() {
                Ok(messages) => {
                    self.silent_since_ns = None;
                    let ours = (0..messages).map(|place| self.note(place)).sum();
                    if ours > 0 {
                        return Ok((ours, 1));
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if self.over.load(Ordering::Acquire) {
                        return Ok((0, 1));
                    }
                    let Some(stall_ns) = self.stall_ns else { return Err(e) };
                    let now_ns = clock::monotonic_ns();
                    if now_ns - *self.silent_since_ns.get_or_insert(now_ns) > stall_ns {
                        return Err(e);
                    }
                }
                // The answer to the token that was shown: what is sent here is another matter.
                Err(e) if is_unreachable(&e) => self.counts.unreachable += 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        debug_assert!(self.slices.len() == self.messages.len());
        end.datagrams = Some(self.counts);
        Ok(())
    }
}
