//! UDP: one datagram a call, many a call, or many in one that the stack (or the NIC) takes apart and puts together.

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, iovec, mmsghdr};
use serde::{Deserialize, Serialize};

use super::end::{End, Mover};
use super::pace::Pacer;
use super::{error_queue, options};
use crate::clock;
use crate::error::WireError;
use crate::tracker::{Seen, Tracker};

/// How datagrams are sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatagramPath {
    /// send(2) and recv(2), one datagram a call.
    #[default]
    Single,
    /// sendmmsg(2) and recvmmsg(2), up to 64 datagrams a call.
    Batch,
    /// UDP_SEGMENT and UDP_GRO on top of batches: several datagrams travel the stack as one.
    Segmented,
}

/// One end's count of datagrams, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Sent, or received and well-formed.
    pub moved: u64,
    /// Received twice or more.
    pub duplicates: u64,
    /// Received after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Received with another length or number than the flow's: not counted above.
    pub foreign: u64,
    /// Sends the kernel refused with ENOBUFS, made again.
    pub refused: u64,
    /// ICMP messages (port or host unreachable) that earlier datagrams had met.
    #[serde(default)]
    pub unreachable: u64,
}

/// Datagrams a call.
const BATCH: usize = 64;
/// Messages of a GRO receiver, each with room for the largest datagram.
const GRO_MESSAGES: usize = 16;
/// UDP_MAX_SEGMENTS of Linux before 6.7.
const MOST_SEGMENTS: usize = 64;
/// Sequence numbers that are told apart.
const TRACKED: usize = 1 << 20;
/// Sequence number of a datagram that says that nothing more comes.
const END_MARK: u64 = u64::MAX;
/// A higher one is none: no flow sends so many. It is a token that was shown twice.
const MOST_SEQUENCE: u64 = 1 << 48;
/// How often it is sent, and the time between: longer than a burst of losses in a full buffer.
const END_MARKS: u32 = 10;
const END_MARK_GAP: std::time::Duration = std::time::Duration::from_millis(5);
/// Sends that are answered by ICMP only for so long end the transfer.
const UNREACHABLE_NS: u64 = 5_000_000_000;
/// What ICMP says of a port or a host.
const UNREACHABLE: [c_int; 2] = [libc::ECONNREFUSED, libc::EHOSTUNREACH];
/// How long a receiver waits before it looks whether the sender is through.
const LOOK_NS: u64 = 50_000_000;

pub(super) struct Sender<'a> {
    channel: BorrowedFd<'a>,
    /// A datagram a row.
    rows: Vec<u8>,
    block_bytes: usize,
    /// Datagrams of one message.
    segments: usize,
    slices: Vec<iovec>,
    messages: Vec<mmsghdr>,
    next: u64,
    counts: Datagrams,
    pacer: Option<Pacer>,
    /// When sends began to be answered by ICMP only; None while they are taken.
    unreachable_since_ns: Option<u64>,
    /// The receiver is elsewhere and has to be told the end.
    marks_end: bool,
    over: &'a AtomicBool,
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        channel: BorrowedFd<'a>,
        path: DatagramPath,
        block_bytes: usize,
        pacing_bps: Option<u64>,
        (marks_end, over): (bool, &'a AtomicBool),
    ) -> Result<Self, WireError> {
        let fits = (*super::DATAGRAM_BYTES.end() / block_bytes).clamp(1, MOST_SEGMENTS);
        let (messages, segments) = match path {
            DatagramPath::Single => (1, 1),
            DatagramPath::Batch => (BATCH, 1),
            DatagramPath::Segmented => (BATCH.div_ceil(fits), fits),
        };
        if path == DatagramPath::Segmented {
            let size = block_bytes as c_int;
            options::set(channel, libc::SOL_UDP, libc::UDP_SEGMENT, &size, "UDP_SEGMENT", size)?;
        }
        tell_drops(channel);
        let mut rows = vec![0x5a; messages * segments * block_bytes];
        let (slices, messages) = buffers(&mut rows, messages, segments * block_bytes);
        let counts = Datagrams::default();
        let pacer = pacing_bps.map(Pacer::new);
        Ok(Self {
            channel,
            rows,
            block_bytes,
            segments,
            slices,
            messages,
            next: 0,
            counts,
            pacer,
            unreachable_since_ns: None,
            marks_end,
            over,
        })
    }

    /// True where no send has been taken for some time.
    fn unreachable_for_long(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        now_ns - *self.unreachable_since_ns.get_or_insert(now_ns) > UNREACHABLE_NS
    }

    /// What the error queue holds of datagrams that did not arrive.
    #[cold]
    fn told_unreachable(&self) -> u64 {
        error_queue::icmp(self.channel, |number| UNREACHABLE.contains(&number))
    }

    /// Tells the receiver that nothing more comes; a mark that is lost has others behind it.
    fn mark_end(&mut self) {
        let fd = self.channel.as_raw_fd();
        self.rows[..8].copy_from_slice(&END_MARK.to_be_bytes());
        for _ in 0..END_MARKS {
            // SAFETY: the first row is readable for its length.
            unsafe { libc::send(fd, self.rows.as_ptr().cast(), self.block_bytes, 0) };
            std::thread::sleep(END_MARK_GAP);
        }
    }
}

/// ICMP says that a datagram did not arrive; the socket tells it at the next call.
fn is_unreachable(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| UNREACHABLE.contains(&number))
}

/// Has the kernel tell the sender what its own qdisc dropped (ENOBUFS), where it else says that all was sent, and keep what ICMP
/// said in the error queue.
fn tell_drops(channel: BorrowedFd<'_>) {
    let one: c_int = 1;
    for (level, name) in [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)] {
        // A socket has the option of its own family only.
        let _ = options::set(channel, level, name, &one, "IP_RECVERR", 1);
    }
}

/// Messages over the rows of a buffer. The messages point into `slices` and `rows`: neither may be resized.
fn buffers(rows: &mut [u8], messages: usize, bytes: usize) -> (Vec<iovec>, Vec<mmsghdr>) {
    let mut slices: Vec<iovec> = rows
        .chunks_mut(bytes)
        .take(messages)
        .map(|row| iovec { iov_base: row.as_mut_ptr().cast::<c_void>(), iov_len: row.len() })
        .collect();
    let messages = slices
        .iter_mut()
        .map(|slice| {
            // SAFETY: all zeros is a valid mmsghdr: null pointers with lengths of zero.
            let mut message: mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = slice;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    (slices, messages)
}

impl Mover for Sender<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let most = self.messages.len();
        let message_bytes = self.segments * self.block_bytes;
        let messages = self.pacer.as_mut().map_or(most, |pacer| pacer.wait(message_bytes, most));
        for (place, row) in self.rows.chunks_mut(self.block_bytes).take(messages * self.segments).enumerate() {
            row[..8].copy_from_slice(&(self.next + place as u64).to_be_bytes());
        }
        let sent = if self.messages.len() == 1 {
            // SAFETY: the rows are readable for their length.
            let sent = unsafe { libc::send(self.channel.as_raw_fd(), self.rows.as_ptr().cast(), self.rows.len(), 0) };
            if sent < 0 { -1 } else { 1 }
        } else {
            // SAFETY: the messages point at slices and rows that live in `self` and were not resized.
            unsafe { libc::sendmmsg(self.channel.as_raw_fd(), self.messages.as_mut_ptr(), messages as u32, 0) }
        };
        if sent < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ENOBUFS) {
                self.counts.refused += 1;
                return Ok((0, 1));
            }
            // An earlier datagram's fate, not this one's: one that is lost is no reason to end.
            if is_unreachable(&error) && !self.unreachable_for_long() {
                // A queue that is full or not had told of this one by the call alone.
                self.counts.unreachable += self.told_unreachable().max(1);
                return Ok((0, 1));
            }
            return Err(error);
        }
        if (sent as usize) < messages {
            // sendmmsg stopped at a datagram that was to tell an earlier one's fate, and keeps that to itself.
            self.counts.unreachable += self.told_unreachable();
        }
        self.unreachable_since_ns = None;
        let datagrams = sent as usize * self.segments;
        self.next += datagrams as u64;
        self.counts.moved += datagrams as u64;
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(datagrams * self.block_bytes);
        }
        Ok((datagrams * self.block_bytes, 1))
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.counts.unreachable += self.told_unreachable();
        end.datagrams = Some(self.counts);
        end.pacing = self.pacer.as_ref().map(Pacer::report);
        if self.marks_end {
            self.mark_end();
        }
        self.over.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // The receiver has no other way to know.
        self.over.store(true, Ordering::Release);
        debug_assert!(self.slices.len() == self.messages.len());
    }
}

pub(super) struct Receiver<'a> {
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
    stall_ns: u64,
    /// When silence began; None while datagrams come.
    silent_since_ns: Option<u64>,
}

impl<'a> Receiver<'a> {
    pub(super) fn new(
        channel: BorrowedFd<'a>,
        path: DatagramPath,
        block_bytes: usize,
        stall_ns: u64,
        over: &'a AtomicBool,
    ) -> Result<Self, WireError> {
        options::stall(channel, LOOK_NS.min(stall_ns))?;
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
                    let now_ns = clock::monotonic_ns();
                    if now_ns - *self.silent_since_ns.get_or_insert(now_ns) > self.stall_ns {
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
