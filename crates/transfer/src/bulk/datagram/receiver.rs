//! The end that receives datagrams.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::Calls;
use super::{DatagramPath, Datagrams, END_MARK, is_unreachable};
use crate::bulk::ReceivePath;
use crate::bulk::end::{DataPath, End};
use crate::bulk::linux::Multishot;
use crate::bulk::options;
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

/// A method of receiving datagrams.
pub(super) trait Source {
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
pub(super) struct Noted<'a> {
    block_bytes: usize,
    tracker: Tracker,
    counts: Datagrams,
    over: &'a AtomicBool,
}

impl Noted<'_> {
    /// Records a datagram. Returns its length, or 0 if it does not belong to the flow.
    pub(super) fn note(&mut self, datagram: &[u8]) -> usize {
        self.note_head(datagram, datagram.len())
    }

    /// Records a datagram of which only the beginning was read. Returns its length, or 0 if it does not belong to the
    /// flow.
    pub(super) fn note_head(&mut self, head: &[u8], length: usize) -> usize {
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
