//! Reading packets with their kernel timestamps.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use netcliff_host::system::RECEIVE_TIMESTAMP;
use serde::{Deserialize, Serialize};

use crate::error::WireError;

/// Number of bytes read of each packet; longer packets would be truncated, but no frame is this long.
const PACKET_BYTES: usize = 9216;
/// Length of an IPv6 socket address, which has room for an IPv4 one.
const NAME_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
/// Length of an IPv4 socket address.
const NAME4_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;
/// Room for control messages: one timestamp takes 32 bytes.
pub const CONTROL_WORDS: usize = 8;

/// How packets are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reader {
    /// One blocking `recvmsg` a packet, as most programs do.
    #[default]
    Recvmsg,
    /// `recvmmsg`: blocks for the first packet, then takes up to `batch` packets that have arrived.
    Recvmmsg {
        /// Most packets per call, 1 to 1024.
        batch: usize,
    },
    /// Non-blocking `recvmsg` in a loop: never sleeps, never pays a wake-up.
    BusyPoll,
}

impl Reader {
    pub(super) fn check(self) -> Result<(), WireError> {
        match self {
            Reader::Recvmmsg { batch } if !(1..=1024).contains(&batch) => {
                Err(WireError::setting("batch", batch, "1 to 1024 packets"))
            }
            _ => Ok(()),
        }
    }

    fn batch(self) -> usize {
        match self {
            Reader::Recvmmsg { batch } => batch,
            Reader::Recvmsg | Reader::BusyPoll => 1,
        }
    }
}

/// Buffers for one read call. `messages` point into the other buffers, which are boxed and therefore never move.
pub(crate) struct Inbox {
    reader: Reader,
    packets: Box<[u8]>,
    control: Box<[[u64; CONTROL_WORDS]]>,
    /// Source addresses of the packets. Empty if they were not requested.
    names: Box<[libc::sockaddr_in6]>,
    _vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

impl Inbox {
    /// Makes the buffers. `names`: whether to record the source address of each packet.
    pub(crate) fn new(reader: Reader, names: bool) -> Self {
        let batch = reader.batch();
        // SAFETY: sockaddr_in6 is plain data, for which all zeroes is a valid value.
        let none = unsafe { std::mem::zeroed::<libc::sockaddr_in6>() };
        let mut names = vec![none; if names { batch } else { 0 }].into_boxed_slice();
        let mut packets = vec![0; batch * PACKET_BYTES].into_boxed_slice();
        let mut control = vec![[0; CONTROL_WORDS]; batch].into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = packets
            .as_chunks_mut::<PACKET_BYTES>()
            .0
            .iter_mut()
            .map(|packet| libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: PACKET_BYTES })
            .collect();
        let mut messages: Box<[libc::mmsghdr]> = vectors
            .iter_mut()
            .zip(control.iter_mut())
            .map(|(vector, control)| {
                // SAFETY: mmsghdr is plain data, for which all zeroes is a valid value.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = control.as_mut_ptr().cast();
                message
            })
            .collect();
        for (message, name) in messages.iter_mut().zip(&mut names) {
            message.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
        }
        Self { reader, packets, control, names, _vectors: vectors, messages }
    }

    /// Waits for packets and returns their number. Returns 0 if none arrived within the timeout (with
    /// [`Reader::BusyPoll`]: if none is waiting).
    #[inline]
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> Result<usize, WireError> {
        for message in &mut self.messages {
            message.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
            message.msg_hdr.msg_namelen = if self.names.is_empty() { 0 } else { NAME_BYTES };
        }
        let fd = socket.as_raw_fd();
        let flags = match self.reader {
            Reader::Recvmsg => 0,
            Reader::Recvmmsg { .. } => libc::MSG_WAITFORONE,
            Reader::BusyPoll => libc::MSG_DONTWAIT,
        };
        let received = match self.reader {
            Reader::Recvmsg | Reader::BusyPoll => {
                let message = &mut self.messages[0];
                // SAFETY: the message points at one packet buffer and one control buffer that this
                // value owns, with their true lengths.
                let bytes = unsafe { libc::recvmsg(fd, &raw mut message.msg_hdr, flags) };
                message.msg_len = bytes.max(0) as _;
                if bytes < 0 { -1 } else { 1 }
            }
            Reader::Recvmmsg { .. } => {
                let count = self.messages.len() as u32;
                // SAFETY: the pointers of each of the `count` messages are valid as above; the messages were zeroed
                // first.
                unsafe { netcliff_host::system::receive_messages(fd, self.messages.as_mut_ptr(), count, flags) }
            }
        };
        if let Ok(received) = usize::try_from(received) {
            return Ok(received);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(WireError::system("receive packets", error)),
        }
    }

    /// The payload of the packet at `index` of the last call.
    #[inline]
    pub(crate) fn payload(&self, index: usize) -> &[u8] {
        let length = (self.messages[index].msg_len as usize).min(PACKET_BYTES);
        &self.packets[index * PACKET_BYTES..][..length]
    }

    /// Source address of the packet at `index`. `None` if it was not requested.
    pub(super) fn source(&self, index: usize) -> Option<SocketAddr> {
        let name = self.names.get(index)?;
        match (i32::from(name.sin6_family), self.messages[index].msg_hdr.msg_namelen) {
            (libc::AF_INET6, NAME_BYTES) => {
                let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(address, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
            }
            (libc::AF_INET, NAME4_BYTES) => {
                // SAFETY: both types are plain data, the longer one has room for the shorter one, and the kernel wrote
                // an address of this family.
                let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
                let address = Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr));
                Some(SocketAddr::new(address.into(), u16::from_be(name.sin_port)))
            }
            _ => None,
        }
    }

    /// Kernel timestamp of the packet at `index` [ns of `CLOCK_REALTIME`]. `None` if the packet has no timestamp.
    #[inline]
    pub(crate) fn stamp_realtime_ns(&self, index: usize) -> Option<u64> {
        let given = self.messages[index].msg_hdr.msg_controllen;
        stamp_realtime_ns(&self.control[index], given as _)
    }
}

/// Reads the kernel timestamp of a packet [ns of `CLOCK_REALTIME`] from its control messages of `given_bytes`. It must be
/// the first one: no other kind was requested. `None` if there is no timestamp.
#[inline]
pub fn stamp_realtime_ns(control: &[u64; CONTROL_WORDS], given_bytes: usize) -> Option<u64> {
    // Layout: struct cmsghdr { size_t len; int level; int type; }, then struct timespec: 32 bytes.
    const NEEDED_BYTES: usize = 32;
    if given_bytes < NEEDED_BYTES || control[0] < NEEDED_BYTES as u64 {
        return None;
    }
    let [a, b, c, d, e, f, g, h] = control[1].to_ne_bytes();
    let level = i32::from_ne_bytes([a, b, c, d]);
    let kind = i32::from_ne_bytes([e, f, g, h]);
    (level == libc::SOL_SOCKET && Some(kind) == RECEIVE_TIMESTAMP).then(|| control[2] * 1_000_000_000 + control[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_packet_has_a_recent_timestamp() {
        stamped_at("127.0.0.1:0");
        if netcliff_testkit::has(netcliff_testkit::Need::Ipv6) {
            stamped_at("[::1]:0");
        }
    }

    fn stamped_at(address: &str) {
        let socket = UdpSocket::bind(address).expect("loopback");
        netcliff_host::system::receive_timestamps(&socket).expect("every kernel has it");
        let address = socket.local_addr().expect("bound");
        for reader in [Reader::Recvmsg, Reader::Recvmmsg { batch: 4 }, Reader::BusyPoll] {
            let before = crate::clock::realtime_ns();
            for byte in [1, 2] {
                socket.send_to(&[byte; 20], address).expect("loopback");
            }
            let mut inbox = Inbox::new(reader, true);
            let mut got = Vec::new();
            while got.len() < 2 {
                let received = inbox.receive(&socket).expect("it works");
                for index in 0..received {
                    got.push((inbox.payload(index).to_vec(), inbox.stamp_realtime_ns(index)));
                    assert_eq!(inbox.source(index), Some(address), "{reader:?}");
                }
            }
            let after = crate::clock::realtime_ns();
            for (byte, (payload, stamp)) in (1u8..).zip(got) {
                assert_eq!(payload, [byte; 20]);
                let stamp = stamp.expect("it was asked for");
                assert!((before..=after).contains(&stamp), "{reader:?}");
            }
        }
    }

    #[test]
    fn no_control_message_is_no_timestamp() {
        assert_eq!(stamp_realtime_ns(&[0; CONTROL_WORDS], 0), None);
        assert_eq!(stamp_realtime_ns(&[0; CONTROL_WORDS], 64), None);
    }
}
