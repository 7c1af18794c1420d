//! The end that sends datagrams.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, iovec, mmsghdr};

use super::{BATCH, DatagramPath, Datagrams, END_MARK, END_MARKS, UNREACHABLE, buffers, is_unreachable};
use crate::clock;
use crate::error::WireError;
use crate::transfer::end::{DataPath, End};
use crate::transfer::pace::Pacer;
use crate::transfer::{error_queue, options};

/// Time between two marks of the end (ns).
const END_MARK_GAP_NS: u64 = 5_000_000;
/// Sends that are answered by ICMP only for so long end the transfer.
const UNREACHABLE_NS: u64 = 5_000_000_000;

pub(in crate::transfer) struct Sender<'a> {
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
    /// End marks still to send; 0 if the receiver is in this process.
    marks_left: u32,
    /// The channel's calls wait for room; None: nobody has asked yet.
    blocks: Option<bool>,
    over: &'a AtomicBool,
}

impl<'a> Sender<'a> {
    pub(in crate::transfer) fn new(
        channel: BorrowedFd<'a>,
        path: DatagramPath,
        block_bytes: usize,
        pacing_bps: Option<u64>,
        (marks_end, over): (bool, &'a AtomicBool),
    ) -> Result<Self, WireError> {
        let segments = path.segments(block_bytes);
        let messages = if path == DatagramPath::Single { 1 } else { BATCH.div_ceil(segments) };
        if path.takes_apart() {
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
            marks_left: if marks_end { END_MARKS } else { 0 },
            blocks: None,
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
}

/// A call of a socket that blocks does not stop for want of room.
#[cold]
fn blocks(channel: BorrowedFd<'_>) -> bool {
    // SAFETY: fcntl takes no pointer here.
    let flags = unsafe { libc::fcntl(channel.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

/// Makes the kernel report what its own qdisc dropped (ENOBUFS), which it otherwise reports as sent, and keep ICMP messages in
/// the error queue.
fn tell_drops(channel: BorrowedFd<'_>) {
    let one: c_int = 1;
    for (level, name) in [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)] {
        // A socket has the option of its own family only.
        let _ = options::set(channel, level, name, &one, "IP_RECVERR", 1);
    }
}

impl DataPath for Sender<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let most = self.messages.len();
        let message_bytes = self.segments * self.block_bytes;
        let messages = self.pacer.as_mut().map_or(Ok(most), |pacer| pacer.wait(message_bytes, most))?;
        for (place, row) in self.rows.chunks_mut(self.block_bytes).take(messages * self.segments).enumerate() {
            row[..8].copy_from_slice(&(self.next + place as u64).to_be_bytes());
        }
        let sent = if self.messages.len() == 1 {
            // SAFETY: the rows are readable for their length.
            let sent = unsafe { libc::send(self.channel.as_raw_fd(), self.rows.as_ptr().cast(), self.rows.len(), 0) };
            if sent < 0 { -1 } else { 1 }
        } else {
            // SAFETY: the messages point at slices and rows that live in `self` and were not resized.
            unsafe { crate::messages::send(self.channel.as_raw_fd(), self.messages.as_mut_ptr(), messages as u32, 0) }
        };
        if sent < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ENOBUFS) {
                self.counts.refused += 1;
                return Ok((0, 1));
            }
            // An earlier datagram's fate, not this one's: one that is lost is no reason to end.
            if is_unreachable(&error) && !self.unreachable_for_long() {
                // Full or not, the queue reported this one by the call alone.
                self.counts.unreachable += self.told_unreachable().max(1);
                return Ok((0, 1));
            }
            return Err(error);
        }
        if (sent as usize) < messages {
            // sendmmsg stopped at a datagram that would have returned an earlier one's error, or that was refused, and does not return it.
            let unreachable = self.told_unreachable();
            self.counts.unreachable += unreachable;
            let blocks = *self.blocks.get_or_insert_with(|| blocks(self.channel));
            self.counts.refused += u64::from(unreachable == 0 && blocks);
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

    fn due_ns(&self) -> Option<u64> {
        self.pacer.as_ref()?.due_ns()
    }

    /// A mark that is lost has others behind it.
    fn say_end(&mut self) -> Option<u64> {
        self.marks_left = self.marks_left.checked_sub(1)?;
        self.rows[..8].copy_from_slice(&END_MARK.to_be_bytes());
        // SAFETY: the first row is readable for its length.
        unsafe { libc::send(self.channel.as_raw_fd(), self.rows.as_ptr().cast(), self.block_bytes, 0) };
        Some(END_MARK_GAP_NS)
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.counts.unreachable += self.told_unreachable();
        end.datagrams = Some(self.counts);
        end.pacing = self.pacer.as_ref().map(Pacer::report);
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
