//! UDP: one datagram per call, many per call, or many in one message that the stack (or the NIC) splits and merges.

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
    /// send(2) and recv(2), one datagram per call.
    #[default]
    Single,
    /// sendmmsg(2) and recvmmsg(2), up to 64 datagrams per call.
    Batch,
    /// UDP_SEGMENT and UDP_GRO in addition to batches: several datagrams pass the stack as one.
    Segmented,
    /// UDP_SEGMENT alone: datagrams leave as one and are received one by one (recvmmsg).
    SegmentedOut,
    /// UDP_GRO alone: datagrams leave one by one (sendmmsg) and are received as the stack merged them.
    SegmentedIn,
}

impl DatagramPath {
    /// Whether the sender lets the stack split datagrams (UDP_SEGMENT).
    pub fn takes_apart(self) -> bool {
        matches!(self, Self::Segmented | Self::SegmentedOut)
    }

    /// Number of datagrams in one message of a sender.
    pub fn segments(self, block_bytes: usize) -> usize {
        let fits = (*DATAGRAM_BYTES.end() / block_bytes.max(1)).clamp(1, MOST_SEGMENTS);
        if self.takes_apart() { fits } else { 1 }
    }

    /// Whether the receiver lets the stack merge datagrams (UDP_GRO).
    pub fn puts_together(self) -> bool {
        matches!(self, Self::Segmented | Self::SegmentedIn)
    }
}

/// One end's counts of datagrams, with warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Sent: datagrams offered at their due time. Received: well-formed datagrams.
    pub moved: u64,
    /// Datagrams received again.
    pub duplicates: u64,
    /// Datagrams received after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Datagrams received with a length or number that is not the flow's; they are in no other count.
    pub foreign: u64,
    /// Offered datagrams that the sending host's queue or device refused (ENOBUFS). A refused datagram is not offered
    /// again.
    pub refused: u64,
    /// Offered datagrams that were refused because the sender's socket was full at their due time (EAGAIN).
    #[serde(default)]
    pub buffer_full: u64,
    /// Offered datagrams that were refused because they are longer than the path allows (EMSGSIZE).
    #[serde(default)]
    pub too_long: u64,
    /// Offered datagrams that were refused for lack of a route or a neighbour (ENETUNREACH, EHOSTUNREACH, ...).
    #[serde(default)]
    pub no_route: u64,
    /// Offered datagrams that a firewall or a policy of the sending host refused (EPERM, EACCES).
    #[serde(default)]
    pub denied: u64,
    /// ICMP messages (port or host unreachable) that earlier datagrams caused.
    #[serde(default)]
    pub unreachable: u64,
    /// Datagrams that arrived and were dropped because the receiver's socket was full. `None` if the receiver's kernel
    /// does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// UDP_MAX_SEGMENTS of Linux before 6.7.
const MOST_SEGMENTS: usize = 64;
/// Number of datagrams per call.
const BATCH: usize = 64;
/// Sequence number of a datagram that marks the end of the data.
const END_MARK: u64 = u64::MAX;
/// Number of end marks. Sent over a time that is longer than a burst of losses in a full buffer.
pub const END_MARKS: u32 = 10;
/// Errors that report an ICMP message about a port or a host.
const UNREACHABLE: [c_int; 2] = [libc::ECONNREFUSED, libc::EHOSTUNREACH];

impl Datagrams {
    /// The counter for a refusal by the sending host. `None` if the error does not refuse a single datagram.
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

    /// Number of datagrams that the sending host refused.
    pub fn never_left(&self) -> u64 {
        self.refused + self.buffer_full + self.too_long + self.no_route + self.denied
    }
}

/// Whether the error reports an ICMP message: an earlier datagram did not arrive. The socket returns it at the next
/// call.
fn is_unreachable(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| UNREACHABLE.contains(&number))
}

/// Builds messages over the rows of a buffer. The messages point into `slices` and `rows`, so neither may be resized.
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
