//! Reads TCP_INFO by offset, because the C library's structure lacks the fields of newer kernels.

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use netcliff_host::system::TCP_INFO;
use netcliff_packets::sockopt;

/// A sender's TCP_INFO. Counts are since the connection was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Time of the sample, since the first window opened (s).
    pub at_s: f64,
    /// Smoothed round-trip time (s).
    pub rtt_s: f64,
    /// Smallest round-trip time (s).
    pub min_rtt_s: f64,
    /// Congestion window (segments).
    pub cwnd_segments: u32,
    /// Segment size (bytes).
    pub mss_bytes: u32,
    /// Whether each segment carries a timestamp, which adds 12 bytes to the header.
    pub timestamps: bool,
    /// Pacing rate (bit/s). `None` if the kernel does not pace.
    pub pacing_bps: Option<f64>,
    /// The kernel's latest estimate of the delivery rate (bit/s).
    pub delivery_bps: f64,
    /// Number of retransmitted segments.
    pub retransmissions: u64,
    /// Number of data segments sent, with retransmissions.
    pub data_segments: u64,
    /// Number of segments received (acknowledgements).
    pub segments_in: u64,
    /// Payload bytes sent, with retransmissions.
    pub bytes_sent: u64,
    /// Time for which the receiver's window limited the sender (s).
    pub receiver_limited_s: f64,
    /// Time for which the send buffer limited the sender (s).
    pub buffer_limited_s: f64,
}

/// Bit of tcpi_options.
const TCPI_OPT_TIMESTAMPS: u8 = 1;

/// Number of bytes needed: up to the field bytes_retrans (Linux 4.19).
const NEEDED: usize = 208;

/// Reads a sample, without its time. `None` if the socket is not TCP or the kernel is older than 4.19.
pub(super) fn sample(socket: BorrowedFd<'_>) -> Option<TcpSample> {
    let mut bytes = [0; 512];
    let written = sockopt::get(socket, TCP_INFO, &mut bytes).ok()?;
    (written >= NEEDED).then(|| parse(&bytes))
}

/// Parses `struct tcp_info` (include/uapi/linux/tcp.h) by offset. New fields are only added at its end.
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
