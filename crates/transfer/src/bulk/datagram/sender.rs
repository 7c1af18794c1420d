//! The end that sends datagrams.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, iovec, mmsghdr};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{BATCH, DatagramPath, Datagrams, END_MARK, END_MARKS, UNREACHABLE, buffers, is_unreachable};
use crate::bulk::end::{DataPath, End};
use crate::bulk::linux;
use crate::bulk::pace::Pacer;
use netcliff_host::system::{self, IP_RECVERR, IPV6_RECVERR, UDP_SEGMENT};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;

/// Time between two end marks (ns).
const END_MARK_GAP_NS: u64 = 5_000_000;
/// If sends are answered only by ICMP errors for this long, the transfer ends (ns).
const UNREACHABLE_NS: u64 = 5_000_000_000;

pub(in crate::bulk) struct Sender<'a> {
    channel: BorrowedFd<'a>,
    /// The buffer, one datagram per row.
    rows: Vec<u8>,
    block_bytes: usize,
    /// Number of datagrams in one message.
    segments: usize,
    slices: Vec<iovec>,
    messages: Vec<mmsghdr>,
    next: u64,
    counts: Datagrams,
    pacer: Option<Pacer>,
    /// Time since which sends were answered only by ICMP errors (ns). `None` while the kernel accepts datagrams.
    unreachable_since_ns: Option<u64>,
    /// Number of end marks still to send; 0 if the receiver is in this process.
    marks_left: u32,
    /// Whether the socket's calls block. `None` if this has not been checked yet.
    blocks: Option<bool>,
    over: &'a AtomicBool,
}

impl<'a> Sender<'a> {
    pub(in crate::bulk) fn new(
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
            sockopt::set(channel, UDP_SEGMENT, &size, "UDP_SEGMENT", size)?;
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

    /// Hands messages to the kernel. Returns the number that it accepted, at least one.
    fn offer(&mut self, messages: usize) -> io::Result<usize> {
        // With a rate, a datagram leaves when it is due or never, so the call must not block.
        let flags = if self.pacer.is_some() { libc::MSG_DONTWAIT } else { 0 };
        let sent = if self.messages.len() == 1 {
            // SAFETY: the rows are readable for their length.
            let sent =
                unsafe { libc::send(self.channel.as_raw_fd(), self.rows.as_ptr().cast(), self.rows.len(), flags) };
            if sent < 0 { -1 } else { 1 }
        } else {
            // SAFETY: the messages point at slices and rows that live in `self` and were not resized.
            unsafe {
                system::send_messages(self.channel.as_raw_fd(), self.messages.as_mut_ptr(), messages as u32, flags)
            }
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Counts the message at which sendmmsg stopped, whose error it does not return. Returns false if that message was
    /// not offered.
    #[cold]
    fn is_refused(&mut self, sent: usize) -> bool {
        let segments = self.segments as u64;
        let unreachable = self.count_unreachable();
        debug_assert!(sent < self.messages.len());
        if unreachable > 0 {
            self.counts.unreachable += unreachable;
            return false;
        }
        let waits = self.pacer.is_none();
        if !waits && !has_room(self.channel) {
            self.counts.buffer_full += segments;
        } else if waits && !*self.blocks.get_or_insert_with(|| blocks(self.channel)) {
            return false;
        } else {
            self.counts.refused += segments;
        }
        true
    }

    /// Whether the kernel has accepted no datagram for too long.
    fn unreachable_for_long(&mut self) -> bool {
        let now_ns = clock::monotonic_ns();
        now_ns - *self.unreachable_since_ns.get_or_insert(now_ns) > UNREACHABLE_NS
    }

    /// Number of ICMP messages in the error queue about earlier datagrams.
    #[cold]
    fn count_unreachable(&self) -> u64 {
        linux::icmp(self.channel, |number| UNREACHABLE.contains(&number))
    }
}

/// Whether the error belongs to this datagram. Other errors may belong to an earlier one; the socket returns them once.
fn meets_this_one(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN | libc::EPERM | libc::EINTR))
}

/// Whether the socket accepts another datagram now.
#[cold]
fn has_room(channel: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(channel, PollFlags::POLLOUT)];
    let ready = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
    ready && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLOUT))
}

/// Whether the socket blocks. A call on a blocking socket does not fail for lack of room.
#[cold]
fn blocks(channel: BorrowedFd<'_>) -> bool {
    // SAFETY: fcntl takes no pointer here.
    let flags = unsafe { libc::fcntl(channel.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

/// Makes the kernel report datagrams dropped by its own qdisc (ENOBUFS), which it otherwise reports as sent, and store
/// ICMP messages in the error queue.
fn tell_drops(channel: BorrowedFd<'_>) {
    let one: c_int = 1;
    for option in [IP_RECVERR, IPV6_RECVERR] {
        // A socket accepts only the option of its own address family.
        let _ = sockopt::set(channel, option, &one, "IP_RECVERR", 1);
    }
}

impl DataPath for Sender<'_> {
    /// Offers the datagrams that are due, each once. A datagram that this host refuses counts as sent and is lost, so
    /// that the load never exceeds the configured one.
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let most = self.messages.len();
        let message_bytes = self.segments * self.block_bytes;
        let messages = self.pacer.as_mut().map_or(Ok(most), |pacer| pacer.wait(message_bytes, most))?;
        for (place, row) in self.rows.chunks_mut(self.block_bytes).take(messages * self.segments).enumerate() {
            row[..8].copy_from_slice(&(self.next + place as u64).to_be_bytes());
        }
        let offered = match self.offer(messages) {
            // The error belongs to an earlier datagram (ICMP): nothing was sent, and the socket has cleared the error.
            Err(error) if !meets_this_one(&error) => {
                self.counts.unreachable += self.count_unreachable().max(u64::from(is_unreachable(&error)));
                self.offer(messages)
            }
            offered => offered,
        };
        let taken = match offered {
            Ok(sent) => {
                self.unreachable_since_ns = None;
                sent + usize::from(sent < messages && self.is_refused(sent))
            }
            // Without a rate, the thread's scheduler waits for room.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.pacer.is_none() => return Err(error),
            Err(error) => {
                let segments = self.segments as u64;
                let Some(count) = self.counts.refusals(&error) else { return Err(error) };
                *count += segments;
                if is_unreachable(&error) && self.unreachable_for_long() {
                    return Err(error);
                }
                1
            }
        };
        let datagrams = taken * self.segments;
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

    /// Sends several end marks, because some may be lost.
    fn say_end(&mut self) -> Option<u64> {
        self.marks_left = self.marks_left.checked_sub(1)?;
        self.rows[..8].copy_from_slice(&END_MARK.to_be_bytes());
        // SAFETY: the first row is readable for its length.
        unsafe { libc::send(self.channel.as_raw_fd(), self.rows.as_ptr().cast(), self.block_bytes, 0) };
        Some(END_MARK_GAP_NS)
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.counts.unreachable += self.count_unreachable();
        end.datagrams = Some(self.counts);
        end.pacing = self.pacer.as_ref().map(Pacer::report);
        self.over.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // A UDP receiver in this process has no other way to learn that the sender has finished.
        self.over.store(true, Ordering::Release);
        debug_assert!(self.slices.len() == self.messages.len());
    }
}
