//! The end that receives datagrams, by recv(2), recvmmsg(2) or io_uring.

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, iovec, mmsghdr};

use super::{BATCH, DatagramPath, Datagrams, END_MARK, buffers, is_unreachable};
use crate::bulk::ReceivePath;
use crate::bulk::end::{DataPath, End};
use crate::bulk::linux::Multishot;
use crate::bulk::options;
use netcliff_host::system::{self, UDP_GRO};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;
use netcliff_packets::tracker::{SequenceClass, Tracker};

/// Number of sequence numbers remembered.
const TRACKED: usize = 1 << 20;
/// A number at or above this does not count datagrams: no flow sends that many. It belongs to a repeated proof of the
/// token.
const MOST_SEQUENCE: u64 = 1 << 48;
/// Time that a receiver waits before it checks whether the sender has finished (ns).
const LOOK_NS: u64 = 50_000_000;
/// Length of the sequence number at the start of a datagram (bytes).
const NUMBER_BYTES: usize = 8;
/// Number of messages of a GRO receiver, each with room for the largest datagram.
const GRO_MESSAGES: usize = 16;

/// A method of receiving datagrams.
trait Source {
    /// Waits for datagrams and records them. Returns the number of bytes that belong to the flow. `WouldBlock`: none
    /// arrived for a while.
    fn receive(&mut self, noted: &mut Noted<'_>) -> io::Result<usize>;
}

impl Source for Multishot<'_> {
    fn receive(&mut self, noted: &mut Noted<'_>) -> io::Result<usize> {
        let mut ours = 0;
        self.wait(|datagram| ours += noted.note(datagram))?;
        Ok(ours)
    }
}

/// The record of received datagrams.
struct Noted<'a> {
    block_bytes: usize,
    tracker: Tracker,
    counts: Datagrams,
    over: &'a AtomicBool,
}

impl Noted<'_> {
    /// Records a datagram. Returns its length, or 0 if it does not belong to the flow.
    fn note(&mut self, datagram: &[u8]) -> usize {
        self.note_head(datagram, datagram.len())
    }

    /// Records a datagram of which only the beginning was read. Returns its length, or 0 if it does not belong to the
    /// flow.
    fn note_head(&mut self, head: &[u8], length: usize) -> usize {
        if length != self.block_bytes || head.len() < 8 {
            self.counts.foreign += 1;
            return 0;
        }
        let sequence = u64::from_be_bytes(std::array::from_fn(|i| head[i]));
        if sequence == END_MARK {
            self.over.store(true, Ordering::Release);
            return 0;
        }
        if sequence > MOST_SEQUENCE {
            self.counts.foreign += 1;
            return 0;
        }
        match self.tracker.observe(sequence) {
            SequenceClass::InOrder => {}
            SequenceClass::Late | SequenceClass::TooOld => self.counts.reordered += 1,
            SequenceClass::Duplicate => self.counts.duplicates += 1,
        }
        self.counts.moved += 1;
        length
    }
}

/// Receives datagrams by recv(2) and recvmmsg(2).
struct Calls<'a> {
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
    fn new(
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

pub(in crate::bulk) struct Receiver<'a> {
    channel: BorrowedFd<'a>,
    source: Box<dyn Source + 'a>,
    noted: Noted<'a>,
    /// Longest silence (ns). `None` if the socket does not block: then the caller waits.
    stall_ns: Option<u64>,
    /// Time since which no datagram has arrived (ns). `None` while datagrams arrive.
    silent_since_ns: Option<u64>,
}

impl<'a> Receiver<'a> {
    pub(in crate::bulk) fn new(
        channel: BorrowedFd<'a>,
        (path, receive): (DatagramPath, ReceivePath),
        block_bytes: usize,
        stall_ns: Option<u64>,
        over: &'a AtomicBool,
    ) -> Result<Self, WireError> {
        let look_ns = stall_ns.map_or(LOOK_NS, |stall_ns| LOOK_NS.min(stall_ns));
        if stall_ns.is_some() {
            options::stall(channel, look_ns)?;
        }
        // One byte more than expected, so that a longer datagram is noticed.
        let row_bytes = block_bytes + 1;
        let source: Box<dyn Source + 'a> = match receive {
            ReceivePath::Uring => Box::new(Multishot::new(channel, row_bytes, look_ns)?),
            _ => Box::new(Calls::new(channel, (path, receive == ReceivePath::Truncate), row_bytes)?),
        };
        let noted = Noted { block_bytes, tracker: Tracker::new(TRACKED), counts: Datagrams::default(), over };
        Ok(Self { channel, source, noted, stall_ns, silent_since_ns: None })
    }
}

impl DataPath for Receiver<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        loop {
            match self.source.receive(&mut self.noted) {
                Ok(ours) => {
                    self.silent_since_ns = None;
                    // Foreign datagrams may arrive for ever, so the caller checks whether to continue.
                    return if ours > 0 { Ok((ours, 1)) } else { Err(ErrorKind::Interrupted.into()) };
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if self.noted.over.load(Ordering::Acquire) {
                        return Ok((0, 1));
                    }
                    let Some(stall_ns) = self.stall_ns else { return Err(e) };
                    let now_ns = clock::monotonic_ns();
                    if now_ns - *self.silent_since_ns.get_or_insert(now_ns) > stall_ns {
                        return Err(e);
                    }
                }
                // An ICMP error about the proof that was sent. It does not concern received data.
                Err(e) if is_unreachable(&e) => self.noted.counts.unreachable += 1,
                Err(e) => return Err(e),
            }
        }
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        end.datagrams = Some(Datagrams { dropped: sockopt::drops(self.channel).map(u64::from), ..self.noted.counts });
        Ok(())
    }
}
