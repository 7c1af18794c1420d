//! A stream on the wire: TCP's own account of its flows, and what datagrams are as frames.

use serde::{Deserialize, Serialize};

use super::Spread;

/// TCP_INFO over the windows, all flows together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpRow {
    /// Segments retransmitted, in all flows and repeats.
    pub retransmissions: u64,
    /// Smoothed round-trip time at the end (s), over flows and repeats.
    pub rtt_s: Option<Spread>,
    /// Congestion window at the end (segments), likewise.
    pub cwnd_segments: Option<Spread>,
    /// Pacing rate at the end (bit/s), likewise; absent where nothing paces.
    pub pacing_bps: Option<Spread>,
    /// Payload that each flow sent (bit/s), likewise: how even they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_bps: Option<Spread>,
    /// Payload of a segment (bytes), likewise.
    pub bytes_per_segment: Option<Spread>,
    /// Wire rate (bit/s): headers, framing, preamble and gap included, as if each segment were a frame of its own.
    pub wire_bps: Option<Spread>,
    /// Greatest share of a line's rate that payload can have at this segment size.
    pub payload_share: Option<f64>,
    /// Wire rate over the link's, of the direction that has more; absent unless the link's rate is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_share: Option<f64>,
    /// Share of the time that the receiver's window held the sender back (`tcpi_rwnd_limited`), over flows and repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_limited: Option<Spread>,
    /// Share of the time that the send buffer was too small (`tcpi_sndbuf_limited`), likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_limited: Option<Spread>,
    /// The first flow of the last repeat, in intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<TcpInterval>,
    /// All flows of the last repeat by interval; absent of one flow, which is `intervals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_intervals: Vec<TcpFlows>,
    /// Each flow of the last repeat; likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<TcpFlow>,
}

/// TCP_INFO at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpInterval {
    /// Since the window opened (s).
    pub at_s: f64,
    /// Payload sent since the last interval (bit/s).
    pub sent_bps: f64,
    /// Segments retransmitted since the last interval.
    pub retransmissions: u64,
    /// Smoothed round-trip time (s).
    pub rtt_s: f64,
    /// Congestion window (segments).
    pub cwnd_segments: u32,
    /// Pacing rate (bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<f64>,
}

/// One flow in intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFlow {
    /// True where the near end sends.
    pub forward: bool,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Payload sent (bit/s).
    pub sent_bps: f64,
    /// Its intervals.
    pub intervals: Vec<TcpInterval>,
}

/// The flows that were asked in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFlows {
    /// Since the window opened (s), when the first of them was asked.
    pub at_s: f64,
    /// How many answered.
    pub flows: u32,
    /// Payload they sent since the last interval (bit/s), added up.
    pub sent_bps: f64,
    /// Segments they retransmitted since the last interval, added up.
    pub retransmissions: u64,
    /// Payload of each (bit/s).
    pub flow_bps: Option<Spread>,
    /// Smoothed round-trip time of each (s).
    pub rtt_s: Option<Spread>,
    /// Congestion window of each (segments).
    pub cwnd_segments: Option<Spread>,
    /// Pacing rate of each (bit/s); absent where nothing paces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<Spread>,
}

/// Datagrams as frames over the windows, all flows together: Ethernet without VLAN tags, each fragment and each segment of
/// UDP_SEGMENT a frame of its own, none shorter than the least frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpRow {
    /// MTU of the path as the sender's kernel has it (bytes), the least of the flows.
    pub mtu_bytes: u64,
    /// Frames of a datagram: more than one where it is longer than the MTU allows.
    pub frames_per_datagram: u64,
    /// Wire rate of what was sent (bit/s): headers, framing, preamble and gap included.
    pub wire_bps: Option<Spread>,
    /// Wire rate of what the receiver's application was given (bit/s), likewise.
    pub delivered_wire_bps: Option<Spread>,
    /// Share of the wire rate that is payload: the greatest that it can have of a line's rate with such datagrams.
    pub payload_share: f64,
    /// Wire rate of what was sent over the link's, of the direction that has more; absent unless the link's rate is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_share: Option<f64>,
    /// The same of what was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_line_share: Option<f64>,
}
