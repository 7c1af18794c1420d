//! TCP_INFO, read by offset: the C library's structure ends where the kernel's of many years ago did.

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::sockopt;

/// What the kernel says of a sender's connection. Counts are since the connection was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    /// When this flow was asked, since the first window opened (s).
    pub at_s: f64,
    /// Smoothed round-trip time (s).
    pub rtt_s: f64,
    /// Least round-trip time (s).
    pub min_rtt_s: f64,
    /// Congestion window (segments).
    pub cwnd_segments: u32,
    /// Segment size (bytes).
    pub mss_bytes: u32,
    /// True where each segment carries a timestamp: 12 bytes more of header.
    pub timestamps: bool,
    /// Pacing rate (bit/s); None where nothing paces.
    pub pacing_bps: Option<f64>,
    /// The kernel's latest estimate of what is delivered (bit/s).
    pub delivery_bps: f64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Data segments sent, retransmissions included.
    pub data_segments: u64,
    /// Segments received: acknowledgements.
    pub segments_in: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Time limited by the receiver's window (s).
    pub receiver_limited_s: f64,
    /// Time limited by the send buffer (s).
    pub buffer_limited_s: f64,
}

/// Bit of tcpi_options.
const TCPI_OPT_TIMESTAMPS: u8 = 1;

/// Up to bytes_retrans, Linux 4.19.
const NEEDED: usize = 208;

/// A sample without its time; None where the socket has none or the kernel is older than 4.19.
pub(super) fn sample(socket: BorrowedFd<'_>) -> Option<TcpSample> {
    let mut bytes = [0; 512];
    let written = sockopt::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).ok()?;
    (written >= NEEDED).then(|| parse(&bytes))
}

/// Offsets of `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows at its end.
fn parse(bytes: &[u8]) -> TcpSample {
    let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let us = |value: f64| value * 1e-6;
    let pacing = u64_at(104);
    TcpSample {
        at_s: 0.0,
        timestamps: bytes[5] & TCPI_OPT_TIMESTAMPS != 0,
        mss_bytes: u32_at(16),
        rtt_s: us(f64::from(u32_at(68))),
        cwnd_segments: u32_at(80),
        retransmissions: u64::from(u32_at(100)),
        pacing_bps: (pacing != u64::MAX).then_some(pacing as f64 * 8.0),
        segments_in: u64::from(u32_at(140)),
        min_rtt_s: us(f64::from(u32_at(148))),
        data_segments: u64::from(u32_at(156)),
        delivery_bps: u64_at(160) as f64 * 8.0,
        receiver_limited_s: us(u64_at(176) as f64),
        buffer_limited_s: us(u64_at(184) as f64),
        bytes_sent: u64_at(200),
    }
}
