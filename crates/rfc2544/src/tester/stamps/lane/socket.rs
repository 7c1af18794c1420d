//! Packet sockets that report when one frame left and when it arrived.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::Stamps;
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::interface::{self, packet_socket, set_packet_option};
use netcliff_packets::port::SendOutcome;

/// SCM_TSTAMP_SND, linux/errqueue.h: the time at which the driver or the device sent the frame.
const SENT: u32 = 0;
/// PACKET_TX_TIMESTAMP, linux/if_packet.h.
const PACKET_TX_TIMESTAMP: libc::c_int = 16;

/// Timestamps of one frame at one port. `None`: not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Timestamp of the kernel [ns of `CLOCK_REALTIME`].
    pub(super) software_ns: Option<i64>,
    /// Timestamp of the device [ns of its clock].
    pub(super) hardware_ns: Option<i64>,
}

impl Times {
    /// The timestamp by the requested clock.
    pub(super) fn by(&self, stamps: Stamps) -> Option<i64> {
        if stamps == Stamps::Hardware { self.hardware_ns } else { self.software_ns }
    }

    /// Adds the timestamps of another message: the kernel reports the two timestamps separately. Of each kind the first
    /// counts.
    fn add(&mut self, other: Self) {
        self.software_ns = self.software_ns.or(other.software_ns);
        self.hardware_ns = self.hardware_ns.or(other.hardware_ns);
    }
}

/// Sends one frame at a time and reads the timestamps of its departure.
#[derive(Debug)]
pub(in crate::tester) struct Tagger {
    fd: OwnedFd,
    on: String,
    stamps: Stamps,
    frame: Vec<u8>,
    /// Number of the next frame, as the kernel counts the frames that the socket sends.
    next: u32,
    sent: Option<Sent>,
}

/// A frame that was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u32,
    written_ns: i64,
    left: Times,
}

impl Tagger {
    /// Opens a socket for frames like `filler`, in the calling thread's network namespace.
    pub(in crate::tester) fn open(interface: &str, filler: &[u8], stamps: Stamps) -> Result<Self, WireError> {
        let fd = packet_socket(interface)?;
        let on = format!(" on interface {interface}");
        let tagger = Self { fd, on, stamps, frame: filler.to_vec(), next: 0, sent: None };
        tagger.count_anew()?;
        Ok(tagger)
    }

    fn count_anew(&self) -> Result<(), WireError> {
        let mut flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        if self.stamps == Stamps::Hardware {
            // Request both: without the last flag the kernel withholds its own timestamp if the device stamps.
            flags |= libc::SOF_TIMESTAMPING_TX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE
                | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;
        }
        set_flags(&self.fd, 0)?;
        set_flags(&self.fd, flags)
    }

    /// Discards the timestamps of the previous frame.
    pub(super) fn clear(&mut self) -> Result<(), WireError> {
        while next_event(&self.fd, MsgFlags::MSG_ERRQUEUE)?.is_some() {}
        self.sent = None;
        Ok(())
    }

    /// Sends a frame of `length` bytes that `write` builds.
    pub(super) fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Result<SendOutcome, WireError> {
        let written_ns = clock::realtime_ns() as i64;
        let frame = &mut self.frame[..length];
        write(frame);
        // SAFETY: the pointer and length describe `frame`, which outlives the call.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), length, libc::MSG_DONTWAIT) };
        let mut kicked = SendOutcome::default();
        if sent >= 0 {
            kicked.accepted = 1;
            self.sent = Some(Sent { number: self.next, written_ns, left: Times::default() });
            self.next = self.next.wrapping_add(1);
            return Ok(kicked);
        }
        let error = std::io::Error::last_os_error();
        kicked.book(error, &self.on)?;
        // It is unknown whether the kernel counts a frame that it could not send, so the numbering restarts.
        self.count_anew()?;
        self.next = 0;
        Ok(kicked)
    }

    /// Time just before the frame was written, and the departure timestamps known so far. `None` if no frame was sent.
    pub(super) fn times(&mut self) -> Result<Option<(i64, Times)>, WireError> {
        let Some(sent) = &mut self.sent else { return Ok(None) };
        while let Some(event) = next_event(&self.fd, MsgFlags::MSG_ERRQUEUE)? {
            // Another number belongs to an earlier frame, whose timestamp came late.
            if event.number == Some(sent.number) {
                sent.left.add(event.times);
            }
        }
        Ok(Some((sent.written_ns, sent.left)))
    }
}

/// Receives one frame and the timestamps of its arrival.
#[derive(Debug)]
pub(in crate::tester) struct Tap {
    fd: OwnedFd,
}

impl Tap {
    /// Opens a socket at an interface in the calling thread's network namespace. Its filter passes nothing yet.
    pub(in crate::tester) fn open(interface: &str, stamps: Stamps) -> Result<Self, WireError> {
        let (fd, index) = interface::unbound_socket(interface)?;
        set_packet_option(&fd, libc::PACKET_IGNORE_OUTGOING, &1i32, "ignore what is sent")?;
        let mut flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        if stamps == Stamps::Hardware {
            flags |= libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        }
        set_flags(&fd, flags)?;
        filter(&fd, &[NOTHING])?;
        interface::bind(&fd, interface, index, libc::ETH_P_ALL as u16)?;
        Ok(Self { fd })
    }

    /// From now on passes only the frame with this tag and number. `label_at` is the offset of the label.
    pub(super) fn wait_for(&self, tag: u16, sequence: u64, label_at: usize) -> Result<(), WireError> {
        filter(&self.fd, &only(tag, sequence, label_at))?;
        while next_event(&self.fd, MsgFlags::empty())?.is_some() {}
        Ok(())
    }

    /// Timestamps of the frame's arrival. `None` if it did not arrive. A second copy of the frame is not read.
    pub(super) fn times(&self) -> Result<Option<Times>, WireError> {
        Ok(next_event(&self.fd, MsgFlags::empty())?.map(|event| event.times))
    }
}

const NOTHING: libc::sock_filter = statement(libc::BPF_RET | libc::BPF_K, 0);

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Builds a filter that compares tag and sequence number of a label, see [`crate::tester::frame`].
fn only(tag: u16, sequence: u64, label_at: usize) -> [libc::sock_filter; 8] {
    let load = |size, at: usize| statement(libc::BPF_LD | size | libc::BPF_ABS, (label_at + at) as u32);
    // A frame that differs skips the remaining lines except the last.
    let equal = |k, left| libc::sock_filter { jf: left, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k) };
    [
        load(libc::BPF_H, 0),
        equal(tag.into(), 5),
        load(libc::BPF_H, 4),
        equal((sequence >> 32) as u32 & 0xffff, 3),
        load(libc::BPF_W, 6),
        equal(sequence as u32, 1),
        // Pass one byte: only the timestamp is needed.
        statement(libc::BPF_RET | libc::BPF_K, 1),
        NOTHING,
    ]
}

fn filter(fd: &OwnedFd, program: &[libc::sock_filter]) -> Result<(), WireError> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the pointer and length describe `program`, whose instructions the kernel only reads; both outlive the
    // call.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    };
    if done < 0 { Err(WireError::last_os("filter the tagged frame")) } else { Ok(()) }
}

fn set_flags(fd: &OwnedFd, flags: u32) -> Result<(), WireError> {
    setsockopt(fd, sockopt::Timestamping, &TimestampingFlag::from_bits_retain(flags))
        .map_err(|error| WireError::system("ask for time stamps", error))
}

/// A report of the kernel about one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StampEvent {
    times: Times,
    /// Number of the frame sent. `None` for a received frame.
    number: Option<u32>,
}

/// Reads the kernel's next report. `None` if there is none.
fn next_event(fd: &OwnedFd, queue: MsgFlags) -> Result<Option<StampEvent>, WireError> {
    let failed = |error: Errno| WireError::system("read a time stamp", error);
    let mut space = nix::cmsg_space!([libc::timespec; 3], [u8; 128]);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let flags = queue | MsgFlags::MSG_DONTWAIT;
    let message = loop {
        match recvmsg::<()>(fd.as_raw_fd(), &mut bytes, Some(&mut space), flags) {
            Ok(message) => break message,
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
    };
    let mut event = StampEvent::default();
    for part in message.cmsgs().map_err(failed)? {
        match part {
            ControlMessageOwned::ScmTimestampsns(stamps) => {
                event.times = Times { software_ns: ns(stamps.system), hardware_ns: ns(stamps.hw_raw) };
            }
            ControlMessageOwned::Unknown(part)
                if (part.cmsg_header.cmsg_level, part.cmsg_header.cmsg_type)
                    == (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) =>
            {
                event.number = number(&part.data_bytes);
            }
            _ => {}
        }
    }
    Ok(Some(event))
}

/// Converts a timestamp to ns. `None` for zero, which the kernel uses for a missing timestamp.
fn ns(time: TimeSpec) -> Option<i64> {
    let ns = time.tv_sec() * 1_000_000_000 + time.tv_nsec();
    (ns != 0).then_some(ns)
}

/// Number of the frame whose departure a `struct sock_extended_err` reports (ee_errno, ee_origin at 4, ee_info at 8,
/// ee_data at 12).
fn number(bytes: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let of_time = *bytes.get(4)? == libc::SO_EE_ORIGIN_TIMESTAMPING;
    if of_time && word(8)? == SENT { word(12) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_frame_left() {
        let number_of = |origin: u8, info: u32, data: u32| {
            let mut bytes = vec![42, 0, 0, 0, origin, 0, 0, 0];
            bytes.extend(info.to_ne_bytes());
            bytes.extend(data.to_ne_bytes());
            number(&bytes)
        };
        assert_eq!(number_of(libc::SO_EE_ORIGIN_TIMESTAMPING, SENT, 7), Some(7));
        // The first report is from a queueing discipline, the second one is a network error.
        assert_eq!(number_of(libc::SO_EE_ORIGIN_TIMESTAMPING, 1, 7), None);
        assert_eq!(number_of(1, SENT, 7), None);
        assert_eq!(number(&[0; 11]), None);
    }

    #[test]
    fn of_each_kind_the_first_counts() {
        let mut times = Times::default();
        times.add(Times { software_ns: Some(1), hardware_ns: None });
        times.add(Times { software_ns: None, hardware_ns: Some(5) });
        times.add(Times { software_ns: Some(2), hardware_ns: Some(6) });
        assert_eq!((times.by(Stamps::Kernel), times.by(Stamps::Hardware)), (Some(1), Some(5)));
        assert_eq!(ns(TimeSpec::new(0, 0)), None);
        assert_eq!(ns(TimeSpec::new(2, 3)), Some(2_000_000_003));
    }
}
