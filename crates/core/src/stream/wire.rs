//! A stream on the wire: TCP's own statistics of its flows, and datagrams as frames.

use serde::{Deserialize, Serialize};

use super::Spread;

/// TCP_INFO over the measured windows, all flows together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpRow {
    /// Segments retransmitted, sum over flows and repeats.
    pub retransmissions: u64,
    /// Smoothed round-trip time at the end (s); spread over flows and repeats.
    pub rtt_s: Option<Spread>,
    /// Congestion window at the end (segments); spread over flows and repeats.
    pub cwnd_segments: Option<Spread>,
    /// Pacing rate at the end (bit/s); spread over flows and repeats. Absent if nothing paces.
    pub pacing_bps: Option<Spread>,
    /// Payload rate of each flow (bit/s); the spread over flows and repeats shows how equal they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_bps: Option<Spread>,
    /// Mean payload of a segment (bytes); spread over flows and repeats.
    pub bytes_per_segment: Option<Spread>,
    /// Rate on the wire (bit/s), as if each segment were one frame: headers, framing, preamble and gap included.
    pub wire_bps: Option<Spread>,
    /// Largest share of a line's rate that payload can have with this segment size.
    pub payload_share: Option<f64>,
    /// Rate on the wire divided by the link's rate, in the busier direction; absent if the link's rate is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_share: Option<f64>,
    /// Share of the time in which the receiver's window limited the sender (`tcpi_rwnd_limited`); spread over flows and
    /// repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_limited: Option<Spread>,
    /// Share of the time in which the send buffer was too small (`tcpi_sndbuf_limited`); spread over flows and repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_limited: Option<Spread>,
    /// The first flow of the last repeat, by intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<TcpInterval>,
    /// Sums over all flows of the last repeat, by intervals; absent if there is only one flow, see `intervals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_intervals: Vec<TcpFlows>,
    /// Each flow of the last repeat; absent if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<TcpFlow>,
}

/// TCP_INFO of a flow at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpInterval {
    /// Time since the start of the measured window (s).
    pub at_s: f64,
    /// Payload rate since the last interval (bit/s).
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

/// One flow, by intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFlow {
    /// True if the near end sends.
    pub forward: bool,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Payload rate sent (bit/s).
    pub sent_bps: f64,
    /// The flow's intervals.
    pub intervals: Vec<TcpInterval>,
}

/// Flows whose TCP_INFO was read in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpFlows {
    /// Time since the start of the measured window (s), when the first flow was read.
    pub at_s: f64,
    /// Number of flows that could be read.
    pub flows: u32,
    /// Sum of these flows' payload rates since the last interval (bit/s).
    pub sent_bps: f64,
    /// Number of segments that these flows retransmitted since the last interval.
    pub retransmissions: u64,
    /// Payload rate of each flow (bit/s).
    pub flow_bps: Option<Spread>,
    /// Smoothed round-trip time of each flow (s).
    pub rtt_s: Option<Spread>,
    /// Congestion window of each flow (segments).
    pub cwnd_segments: Option<Spread>,
    /// Pacing rate of each flow (bit/s); absent if nothing paces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing_bps: Option<Spread>,
}

/// Datagrams as frames over the measured windows, all flows together. Ethernet without VLAN tags; each fragment, and
/// each segment of UDP_SEGMENT, is a frame, and none is shorter than the shortest frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UdpRow {
    /// MTU of the path as known to the sender's kernel (bytes); the smallest of the flows.
    pub mtu_bytes: u64,
    /// Frames per datagram: above 1 if the datagram exceeds the MTU.
    pub frames_per_datagram: u64,
    /// Rate of the sent frames on the wire (bit/s): headers, framing, preamble and gap included.
    pub wire_bps: Option<Spread>,
    /// Rate on the wire of the datagrams that the receiving application read (bit/s): headers, framing, preamble and
    /// gap included.
    pub delivered_wire_bps: Option<Spread>,
    /// Share of payload in the rate on the wire: the largest share of a line's rate that such datagrams can have.
    pub payload_share: f64,
    /// Rate of the sent frames divided by the link's rate, in the busier direction; absent if the link's rate is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_share: Option<f64>,
    /// Rate on the wire of the delivered datagrams divided by the link's rate; absent if the link's rate is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_line_share: Option<f64>,
}
