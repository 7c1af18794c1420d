//! UDP: one datagram a call, many a call, or many in one that the stack (or the NIC) takes apart and puts together.

mod calls;
mod receiver;
mod sender;

use std::{io, mem};

use libc::{c_int, c_void, iovec, mmsghdr};
use serde::{Deserialize, Serialize};

use super::DATAGRAM_BYTES;

pub(super) use receiver::Receiver;
pub(super) use sender::Sender;

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
    /// UDP_SEGMENT alone: datagrams leave as one and are received one by one (recvmmsg).
    SegmentedOut,
    /// UDP_GRO alone: datagrams leave one by one (sendmmsg) and are received as the stack put them together.
    SegmentedIn,
}

impl DatagramPath {
    /// True where a sender has the stack take datagrams apart (UDP_SEGMENT).
    pub fn takes_apart(self) -> bool {
        matches!(self, Self::Segmented | Self::SegmentedOut)
    }

    /// Datagrams of one message of a sender.
    pub fn segments(self, block_bytes: usize) -> usize {
        let fits = (*DATAGRAM_BYTES.end() / block_bytes.max(1)).clamp(1, MOST_SEGMENTS);
        if self.takes_apart() { fits } else { 1 }
    }

    /// True where a receiver has the stack put datagrams together (UDP_GRO).
    pub fn puts_together(self) -> bool {
        matches!(self, Self::Segmented | Self::SegmentedIn)
    }
}

/// One end's count of datagrams, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Offered at their due time, or received and well-formed.
    pub moved: u64,
    /// Received twice or more.
    pub duplicates: u64,
    /// Received after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Received with another length or number than the flow's: not counted above.
    pub foreign: u64,
    /// Of those offered, refused by the sending host's queue or device (ENOBUFS). None of the refused is offered again.
    pub refused: u64,
    /// Of those offered, refused since the sender's socket was full at their due time (EAGAIN).
    #[serde(default)]
    pub buffer_full: u64,
    /// Of those offered, refused as longer than the path takes (EMSGSIZE).
    #[serde(default)]
    pub too_long: u64,
    /// Of those offered, refused for want of a route or a neighbour (ENETUNREACH, EHOSTUNREACH, ...).
    #[serde(default)]
    pub no_route: u64,
    /// Of those offered, refused by a firewall or a policy of the sending host (EPERM, EACCES).
    #[serde(default)]
    pub denied: u64,
    /// ICMP messages (port or host unreachable) that earlier datagrams had met.
    #[serde(default)]
    pub unreachable: u64,
    /// Arrived and dropped, since the receiver's socket had no room; None where its kernel does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// UDP_MAX_SEGMENTS of Linux before 6.7.
const MOST_SEGMENTS: usize = 64;
/// Datagrams a call.
const BATCH: usize = 64;
/// Sequence number of a datagram that says that nothing more comes.
const END_MARK: u64 = u64::MAX;
/// How often the end is marked: with the time between longer than a burst of losses in a full buffer.
pub const END_MARKS: u32 = 10;
/// What ICMP says of a port or a host.
const UNREACHABLE: [c_int; 2] = [libc::ECONNREFUSED, libc::EHOSTUNREACH];

impl Datagrams {
    /// The count that a refusal of the sending host belongs to; `None` for an error that is no refusal of one datagram.
    fn refusals(&mut self, error: &io::Error) -> Option<&mut u64> {
        Some(match error.raw_os_error()? {
            libc::ENOBUFS | libc::ENOMEM => &mut self.refused,
            libc::EAGAIN => &mut self.buffer_full,
            libc::EMSGSIZE => &mut self.too_long,
            libc::EPERM | libc::EACCES => &mut self.denied,
            libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN => {
                &mut self.no_route
            }
            _ => return None,
        })
    }

    /// Datagrams that the sending host refused.
    pub fn never_left(&self) -> u64 {
        self.refused + self.buffer_full + self.too_long + self.no_route + self.denied
    }
}

/// ICMP says that a datagram did not arrive; the socket reports it at the next call.
fn is_unreachable(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| UNREACHABLE.contains(&number))
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
