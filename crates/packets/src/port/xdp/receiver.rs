//! AF_XDP receiver: an XDP program passes the frames of each queue of a port to a socket for this queue, with the time
//! at which it saw them. The program runs in the driver if possible (native mode; the driver writes frames in place or
//! copies them), otherwise in the kernel's receive path (generic mode).
//!
//! The program takes only UDP. It is detached together with the receiver, however the receiver ends. It never replaces
//! another program.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use netcliff_core::quote::shell;
use netcliff_host::xdp::{Facts, Mode, ToSockets, program_name};

use super::socket::{self, Frames, Queue, SharedUmem};
use super::{PAGE, SMALL, await_carrier};
use crate::error::WireError;
use crate::interface::{self, check_link};
use crate::port::{ReceiveBy, Receiver, Receiving, Stamp};

/// IEEE 802 "local experimental" EtherType, which only private experiments use.
const NOBODYS: u16 = 0x88b5;
/// Number of frames of shared memory over all queues: the frames of 33 ms at 1 Mpps, longer than the thread sends
/// between two reads.
const SLOTS: u32 = 32_768;
/// Smallest number of frames per queue.
const LEAST_SLOTS: u32 = 2048;
/// Largest number of queues: each has a socket that is polled in turn.
const MOST_QUEUES: u32 = 64;
/// XDP_PACKET_HEADROOM, linux/bpf.h: bytes that the kernel leaves free before a frame.
const HEADROOM: usize = 256;
/// Length of the program's timestamp before a frame [bytes]; it has ns of `CLOCK_MONOTONIC`.
const STAMP: usize = 8;
/// Length of the hardware addresses, which precede a VLAN tag [bytes].
const ADDRESSES: usize = 12;
/// Length of a VLAN tag [bytes].
const TAG: usize = 4;

/// AF_XDP sockets that receive, one per queue.
#[derive(Debug)]
pub struct XdpReceiver {
    queues: Vec<QueueSocket>,
    /// Index of the queue to poll first.
    next: usize,
    missed: u64,
    watch: Watch,
    /// Keeps the program attached.
    program: ToSockets,
}

/// Whether frames of up to `longest` bytes without FCS need a whole page of shared memory each.
pub(super) fn is_large(longest: usize) -> bool {
    longest > SMALL - HEADROOM
}

/// Number of frames of shared memory for each of `queues` queues.
pub(super) fn slots(queues: u32, frame_bytes: usize) -> u32 {
    (SLOTS / queues.next_power_of_two() * SMALL as u32 / frame_bytes as u32).max(LEAST_SLOTS)
}

/// Modes in which the program may run, best first. The program runs in the driver of a virtual link only if that is
/// requested, because a veth's driver receives frames on the CPU of their sender, the device under test.
fn modes(by: ReceiveBy, is_virtual: bool) -> &'static [Mode] {
    match by {
        ReceiveBy::XdpNative => &[Mode::Native],
        ReceiveBy::XdpGeneric => &[Mode::Generic],
        _ if is_virtual => &[Mode::Generic],
        _ => &[Mode::Native, Mode::Generic],
    }
}

impl XdpReceiver {
    /// Length of the longest frame without FCS that fits (bytes), including a tag if it has one.
    pub const LONGEST: usize = PAGE - HEADROOM;

    /// Whether AF_XDP is better than an AF_PACKET ring at this interface of the thread's network namespace: true for a
    /// physical device, whose driver may run the program. In the kernel's receive path (a veth) no difference was
    /// measured (bench/rfc2544), and the ring leaves the port unchanged. In a driver it was not measured, for lack of a
    /// device.
    pub(crate) fn is_better(interface: &str) -> bool {
        Facts::of(interface).is_ok_and(|facts| facts.kind.is_none())
    }

    /// Opens a socket on every queue of an interface in the calling thread's network namespace, for frames of up to
    /// `longest` bytes without FCS.
    ///
    /// # Errors
    /// There is no such interface, a frame does not fit into a page, another XDP program is attached, another socket
    /// uses a queue, there are more than 64 queues, or the kernel refuses (it requires CAP_BPF, CAP_NET_ADMIN and
    /// CAP_NET_RAW).
    pub fn open(interface: &str, longest: usize) -> Result<Self, WireError> {
        Self::open_beside(ReceiveBy::Xdp, interface, longest, None)
    }

    /// Like [`Self::open`], with the program in the mode `by`. With `lent`, shares the memory of a sender on the first
    /// queue.
    pub(in crate::port) fn open_beside(
        by: ReceiveBy,
        interface: &str,
        longest: usize,
        mut lent: Option<SharedUmem>,
    ) -> Result<Self, WireError> {
        if longest > Self::LONGEST {
            let accepted = format!("at most {} bytes with FCS to be received by AF_XDP", Self::LONGEST + 4);
            return Err(WireError::setting("frame size", longest + 4, accepted));
        }
        let watch = Watch::new(interface)?;
        let facts =
            Facts::of(interface).map_err(|error| WireError::system(format!("look at interface {interface}"), error))?;
        let count = facts.receive_queues;
        if count > MOST_QUEUES {
            let accepted = format!(
                "at most {MOST_QUEUES}, each served by a socket (`ethtool -L {} combined N`)",
                shell(interface)
            );
            return Err(WireError::setting("receive queues", count, accepted));
        }
        let program = attach(interface, &facts, modes(by, facts.kind.is_some()))?;
        let frame_bytes = if is_large(longest) { PAGE } else { SMALL };
        let mut queues = Vec::new();
        for queue in 0..count {
            let socket = match lent.take() {
                Some(lent) => QueueSocket::beside(facts.index, queue, lent)?,
                None => QueueSocket::open(facts.index, queue, slots(count, frame_bytes), frame_bytes)?,
            };
            program.serve(queue, socket.fd.as_raw_fd()).map_err(|error| {
                WireError::system(format!("hand queue {queue} of interface {interface} to a socket"), error)
            })?;
            queues.push(socket);
        }
        // A driver may have taken the link down to install the program, or to enable frames in place.
        if program.mode() == Mode::Native || queues.iter().any(|queue| queue.zero_copy) {
            await_carrier(interface)?;
        }
        Ok(Self { queues, next: 0, missed: 0, watch, program })
    }
}

/// Attaches the program in the first of the modes that works.
fn attach(interface: &str, facts: &Facts, modes: &[Mode]) -> Result<ToSockets, WireError> {
    let mut refused = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    for mode in modes {
        match ToSockets::attach(facts.index, facts.receive_queues, *mode) {
            Ok(program) => return Ok(program),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                // The facts are read again, because the other program may have been attached after the first read.
                let id = Facts::of(interface).ok().and_then(|facts| facts.program);
                let name = id.and_then(program_name);
                return Err(WireError::OtherProgram { interface: interface.to_owned(), id, name });
            }
            Err(error) => refused = error,
        }
    }
    Err(WireError::Program { interface: interface.to_owned(), source: refused })
}

impl Receiver for XdpReceiver {
    fn poll(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError> {
        let mut read = 0;
        for _ in 0..self.queues.len() {
            read += self.queues[self.next].read(most - read, take)?;
            if read == most {
                break;
            }
            self.next = (self.next + 1) % self.queues.len();
        }
        Ok(read)
    }

    fn missed(&mut self) -> Result<u64, WireError> {
        self.watch.check()?;
        let mut all = 0;
        for queue in &self.queues {
            all += queue.missed()?;
        }
        let since = all.saturating_sub(self.missed);
        self.missed = all;
        Ok(since)
    }

    fn check(&self) -> Result<(), WireError> {
        self.watch.check_link()
    }

    fn receiving(&self) -> Receiving {
        match self.program.mode() {
            Mode::Generic => Receiving::XdpGeneric,
            Mode::Native if self.queues.iter().all(|queue| queue.zero_copy) => Receiving::XdpZeroCopy,
            Mode::Native => Receiving::XdpCopy,
        }
    }
}

/// A socket that receives the frames of one queue.
#[derive(Debug)]
struct QueueSocket {
    fd: OwnedFd,
    frames: Frames,
    fill: Queue<u64>,
    receive: Queue<libc::xdp_desc>,
    /// Value of the fill ring's producer index up to which this process has filled the ring.
    filled: u32,
    /// Addresses of frames that were read and not yet returned.
    done: Vec<u64>,
    zero_copy: bool,
}

impl QueueSocket {
    fn open(index: u32, queue: u32, slots: u32, frame_bytes: usize) -> Result<Self, WireError> {
        let fd = socket::open()?;
        let frames = Frames::new(slots, frame_bytes, &[])?;
        frames.share(&fd)?;
        socket::set(&fd, libc::XDP_UMEM_FILL_RING, &slots, "make an AF_XDP fill ring")?;
        // The kernel requires a completion ring even for a socket that only receives.
        socket::set(&fd, libc::XDP_UMEM_COMPLETION_RING, &64u32, "make an AF_XDP completion ring")?;
        socket::set(&fd, libc::XDP_RX_RING, &slots, "make an AF_XDP receive ring")?;
        let offsets: libc::xdp_mmap_offsets =
            socket::get(&fd, libc::XDP_MMAP_OFFSETS, "read the layout of AF_XDP rings")?;
        let fill = Queue::map(&fd, offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, slots)?;
        let receive = Queue::map(&fd, offsets.rx, libc::XDP_PGOFF_RX_RING, slots)?;
        Self { fd, frames, fill, receive, filled: 0, done: Vec::new(), zero_copy: false }
            .bound(queue, |fd| socket::bind(fd, index, queue))
    }

    /// Opens a socket on a queue that it shares with a sender.
    fn beside(index: u32, queue: u32, lent: SharedUmem) -> Result<Self, WireError> {
        let fd = socket::open()?;
        let slots = lent.fill.slots();
        socket::set(&fd, libc::XDP_RX_RING, &slots, "make an AF_XDP receive ring")?;
        let offsets: libc::xdp_mmap_offsets =
            socket::get(&fd, libc::XDP_MMAP_OFFSETS, "read the layout of AF_XDP rings")?;
        let receive = Queue::map(&fd, offsets.rx, libc::XDP_PGOFF_RX_RING, slots)?;
        let SharedUmem { fd: lender, frames, fill } = lent;
        Self { fd, frames, fill, receive, filled: 0, done: Vec::new(), zero_copy: false }
            .bound(queue, |fd| socket::bind_beside(fd, index, queue, &lender))
    }

    /// Gives all frames to the kernel, and then binds the socket to its queue.
    fn bound(mut self, queue: u32, bind: impl FnOnce(&OwnedFd) -> Result<(), io::Error>) -> Result<Self, WireError> {
        self.done = self.frames.addresses().collect();
        self.give_back();
        bind(&self.fd).map_err(|e| WireError::system(format!("bind an AF_XDP socket to queue {queue}"), e))?;
        self.zero_copy = socket::is_zero_copy(&self.fd)?;
        Ok(self)
    }

    /// Returns the frames that were read to the kernel. The ring has a slot for every frame.
    #[inline]
    fn give_back(&mut self) {
        for frame in self.done.drain(..) {
            self.fill.put(self.filled, frame);
            self.filled = self.filled.wrapping_add(1);
        }
        self.fill.producer().store(self.filled, Ordering::Release);
    }

    #[inline]
    fn read(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError> {
        let Self { frames, receive, done, .. } = self;
        let frame_bytes = frames.frame_bytes();
        let read = receive.take(most.try_into().unwrap_or(u32::MAX), |entry| {
            let begin = entry.addr & !(frame_bytes as u64 - 1);
            let (at, length) = ((entry.addr - begin) as usize, entry.len as usize);
            let (stamp, frame) = open_frame(frames.at(begin, frame_bytes), at, length);
            take(frame, stamp);
            done.push(begin);
        });
        if read > 0 {
            self.give_back();
        }
        if self.fill.needs_call() {
            self.wake()?;
        }
        Ok(read as usize)
    }

    /// Wakes a driver that waits for free frames.
    fn wake(&self) -> Result<(), WireError> {
        // SAFETY: an empty message: nothing is written through the pointer.
        let woken = unsafe { libc::recv(self.fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        if woken >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS) => Ok(()),
            _ => Err(WireError::system("receive frames by AF_XDP", error)),
        }
    }

    /// Number of frames dropped because there was no room. In zero-copy mode also the number of times that the driver
    /// found no free frame; a trial with such an event is void too.
    fn missed(&self) -> Result<u64, WireError> {
        let counts: libc::xdp_statistics =
            socket::get(&self.fd, libc::XDP_STATISTICS, "read the counters of an AF_XDP socket")?;
        let empty = if self.zero_copy { counts.rx_fill_ring_empty_descs } else { 0 };
        Ok(counts.rx_dropped + counts.rx_ring_full + empty)
    }
}

/// Returns the frame at offset `at` of its memory, and the program's timestamp before it, which is cleared. `None`: the
/// driver has no room for a timestamp. Removes a VLAN tag, as the kernel does for packet sockets.
#[inline]
fn open_frame(memory: &mut [u8], at: usize, length: usize) -> (Option<Stamp>, &[u8]) {
    let end = (at + length).min(memory.len());
    let mut stamp = None;
    if let Some(from) = at.checked_sub(STAMP)
        && let Some(bytes) = memory.get_mut(from..).and_then(|rest| rest.first_chunk_mut::<STAMP>())
    {
        let ns = u64::from_ne_bytes(std::mem::take(bytes));
        stamp = (ns > 0).then_some(Stamp::Monotonic(ns));
    }
    let tagged = memory[at..end].get(ADDRESSES..ADDRESSES + 2) == Some(&[0x81, 0x00]) && end - at >= ADDRESSES + TAG;
    if !tagged {
        return (stamp, &memory[at..end]);
    }
    memory.copy_within(at..at + ADDRESSES, at + TAG);
    (stamp, &memory[at + TAG..end])
}

/// Detects that a port went down or away, for a receiver whose own socket does not report this.
#[derive(Debug)]
struct Watch {
    fd: OwnedFd,
    interface: String,
}

impl Watch {
    /// Starts watching a port.
    fn new(interface: &str) -> Result<Self, WireError> {
        let (fd, index) = interface::unbound_socket(interface)?;
        interface::bind(&fd, interface, index, NOBODYS)?;
        Ok(Self { fd, interface: interface.to_owned() })
    }

    /// Fails while the port has no carrier.
    fn check_link(&self) -> Result<(), WireError> {
        check_link(&self.fd, &self.interface)
    }

    /// Fails if the port went down or was removed.
    fn check(&self) -> Result<(), WireError> {
        interface::fault(&self.fd, &self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_its_time_and_without_its_tag() {
        let mut memory = vec![0; 300];
        memory[248..256].copy_from_slice(&77u64.to_ne_bytes());
        memory[256..268].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        memory[268..276].copy_from_slice(&[0x81, 0, 0, 7, 0x08, 0, 0x45, 0]);
        let (stamp, frame) = open_frame(&mut memory, 256, 20);
        assert_eq!(stamp, Some(Stamp::Monotonic(77)));
        assert_eq!(frame, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0, 0x45, 0]);
        // The same memory again: the timestamp was cleared, and a frame without a tag is returned unchanged.
        memory[268] = 0x08;
        let (stamp, frame) = open_frame(&mut memory, 256, 14);
        assert_eq!((stamp, frame.len(), frame[12]), (None, 14, 0x08));
    }
}
