//! Frames on the wire: Ethernet II + IPv4 or IPv6 + UDP + netcliff's 18-byte header.
//!
//! Sizes are *frame bytes including the 4-byte FCS*, as RFC 2544 counts them (64 to 1518, jumbo up to 9018). The kernel
//! passes frames without FCS, so a 64-byte frame is 60 bytes in memory: 14 Ethernet + 20 IPv4 + 8 UDP + 18 payload,
//! which netcliff's header fills exactly. An IPv6 header has 40 bytes, so that the smallest frame has 84:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | [`MAGIC`] xor run id (u32, big endian): a frame of another run or program never matches |
//! | 4..10 | sequence number (u48, big endian), from 0 |
//! | 10..18 | intended send time, ns of `CLOCK_MONOTONIC` (u64, big endian) |
//!
//! The header has no space for flags; the intended send time shows whether a frame belongs to warm-up, window or
//! cool-down.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use etherparse::{PacketBuilder, PacketBuilderStep, UdpHeader};
use serde::{Deserialize, Serialize};

use crate::error::WireError;
use crate::replay::Replay;

/// Largest (jumbo) frame, including FCS \[bytes\].
pub const MAX_FRAME_BYTES: usize = 9018;
/// Length of netcliff's header at the start of the UDP payload \[bytes\].
pub const HEADER_BYTES: usize = 18;
/// Marks netcliff's frames, xored with the run id ("ncf1").
pub const MAGIC: u32 = 0x6e63_6631;
/// Sequence numbers are below this (2^48: nine years at 1 Mpps).
pub const SEQUENCE_LIMIT: u64 = 1 << 48;

const FCS_BYTES: usize = 4;
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// Routers that a frame may pass; it passes none (the usual value of Linux, net.ipv4.ip_default_ttl).
const HOP_LIMIT: u8 = 64;
const UDP_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 2;
/// Offset of a VLAN tag, after both hardware addresses \[bytes\].
const TAG_AT: usize = 12;
/// Length of a VLAN tag \[bytes\].
const TAG_BYTES: usize = 4;

/// The UDP checksum of the frames sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Computed in the generator. The receiver verifies it in software, which costs time for each byte; a NIC would
    /// have done that.
    Computed,
    /// 0: no checksum (RFC 768). The receiver skips verification, as if a NIC had verified it. IPv6 does not allow it
    /// (RFC 8200, section 8.1): frames of IPv6 have a computed checksum.
    #[default]
    Zero,
}

/// Netcliff's header: sequence number and intended send time of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Position of the frame in the run, from 0, below [`SEQUENCE_LIMIT`].
    pub sequence: u64,
    /// When the frame should have left [ns of `CLOCK_MONOTONIC`].
    pub intended_ns: u64,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn to_bytes(&self, run_id: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&(MAGIC ^ run_id).to_be_bytes());
        bytes[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes[10..18].copy_from_slice(&self.intended_ns.to_be_bytes());
        bytes
    }

    /// Parses a UDP payload. `None` if it is not a frame of this run.
    #[inline]
    pub fn parse(payload: &[u8], run_id: u32) -> Option<Self> {
        Self::parse_any(payload).filter(|(own, _)| *own == run_id).map(|(_, header)| header)
    }

    /// Parses a UDP payload as a frame of any run. Returns the run's id and the header, or `None` if the payload is too
    /// short.
    #[inline]
    pub fn parse_any(payload: &[u8]) -> Option<(u32, Self)> {
        let bytes: &[u8; HEADER_BYTES] = payload.first_chunk()?;
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (sequence, intended) = rest.split_first_chunk::<6>()?;
        let [a, b, c, d, e, f] = *sequence;
        let header = Self {
            sequence: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            intended_ns: u64::from_be_bytes(*intended.first_chunk()?),
        };
        Some((u32::from_be_bytes(*magic) ^ MAGIC, header))
    }
}

/// UDP ports of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// Largest number of flows of one generator.
pub const MOST_FLOWS: usize = 1024;

/// The frames to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameSpec {
    /// Ethernet source address.
    pub source_mac: [u8; 6],
    /// Ethernet destination address: the receiving interface, or the next hop.
    pub destination_mac: [u8; 6],
    /// Source address and UDP port.
    pub source: SocketAddr,
    /// Destination address, of the same family, and UDP port: where the sink is bound.
    pub destination: SocketAddr,
    /// Ports of further flows between the same addresses; see [`flow_of`].
    pub more_flows: Vec<Ports>,
    /// VLAN id of an 802.1Q tag; its 4 bytes are added to `frame_bytes`.
    pub vlan: Option<u16>,
    /// Frame bytes including FCS but without a tag, [`least_bytes`] to [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// The UDP checksum.
    pub checksum: Checksum,
    /// Identifies the frames of this run.
    pub run_id: u32,
    /// Sizes and flows of a capture, used instead of `frame_bytes` and one source port.
    pub replay: Option<Arc<Replay>>,
}

/// Bytes of an untagged frame before its UDP payload.
const fn payload_at(ipv6: bool) -> usize {
    ETHERNET_BYTES + if ipv6 { IPV6_BYTES } else { IPV4_BYTES } + UDP_BYTES
}

/// Smallest frame of an address family, including FCS but without a tag \[bytes\].
pub const fn least_bytes(ipv6: bool) -> usize {
    payload_at(ipv6) + HEADER_BYTES + FCS_BYTES
}

/// Number of UDP payload bytes in a frame of `frame_bytes` including FCS.
///
/// # Errors
/// The size is outside [`least_bytes`]..=[`MAX_FRAME_BYTES`].
fn payload_bytes(frame_bytes: usize, ipv6: bool) -> Result<usize, WireError> {
    let least = least_bytes(ipv6);
    if !(least..=MAX_FRAME_BYTES).contains(&frame_bytes) {
        return Err(WireError::setting(
            "frame_bytes",
            frame_bytes,
            format!("{least} to {MAX_FRAME_BYTES} bytes, FCS included"),
        ));
    }
    Ok(frame_bytes - FCS_BYTES - payload_at(ipv6))
}

/// A frame that is complete except for netcliff's header.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    run_id: u32,
    /// Offset of netcliff's header.
    payload_at: usize,
    flows: Vec<Flow>,
}

/// The difference between the frames of two flows.
#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Source and destination port as on the wire.
    ports: [u8; 4],
    /// Ones' complement sum of everything that the checksum covers, except netcliff's header. `None`: no checksum.
    base_sum: Option<u32>,
}

impl Template {
    /// Builds the frame.
    ///
    /// # Errors
    /// The frame size or the VLAN id is out of range, or there are too many flows.
    pub fn new(spec: &FrameSpec) -> Result<Self, WireError> {
        if spec.more_flows.len() >= MOST_FLOWS {
            let flows = spec.more_flows.len() + 1;
            return Err(WireError::setting("flows", flows, format!("1 to {MOST_FLOWS} flows")));
        }
        let first = Ports { source: spec.source.port(), destination: spec.destination.port() };
        let (mut bytes, flow) = one(spec, first)?;
        let more = spec.more_flows.iter().map(|ports| one(spec, *ports).map(|(_, flow)| flow));
        let flows = std::iter::once(Ok(flow)).chain(more).collect::<Result<Vec<_>, _>>()?;
        let mut payload_at = payload_at(spec.destination.is_ipv6());
        if let Some(id) = spec.vlan {
            if !(1..=4094).contains(&id) {
                return Err(WireError::setting("vlan", id, "1 to 4094"));
            }
            let [high, low] = id.to_be_bytes();
            bytes.splice(TAG_AT..TAG_AT, [0x81, 0x00, high, low]);
            payload_at += TAG_BYTES;
        }
        Ok(Self { bytes, run_id: spec.run_id, payload_at, flows })
    }

    /// The frame without FCS; netcliff's header in it is zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes before the UDP payload.
    pub fn payload_at(&self) -> usize {
        self.payload_at
    }

    /// Number of flows that the frames belong to.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Writes the header into a copy of this frame; also the ports if there are several flows, and the checksum if it
    /// is computed.
    ///
    /// # Panics
    /// `frame` is shorter than the headers of this frame.
    #[inline]
    pub fn stamp(&self, frame: &mut [u8], header: &Header) {
        let bytes = header.to_bytes(self.run_id);
        let at = self.payload_at;
        frame[at..at + HEADER_BYTES].copy_from_slice(&bytes);
        let flow = match &self.flows[..] {
            [only] => only,
            flows => {
                let flow = &flows[flow_of(header.sequence, flows.len())];
                frame[at - UDP_BYTES..at - UDP_BYTES + 4].copy_from_slice(&flow.ports);
                flow
            }
        };
        if let Some(base) = flow.base_sum {
            let checksum = !fold(base + sum(&bytes));
            // A checksum of 0 would mean "none" (RFC 768), so the equivalent 0xffff is sent.
            let checksum = if checksum == 0 { 0xffff } else { checksum };
            frame[at - CHECKSUM_BYTES..at].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Number of the flow that a frame belongs to: a hash of the sequence number, so that random arrivals are random in
/// each flow too (the mixing function of SplitMix64, Steele, Lea and Flood, OOPSLA 2014).
#[inline]
pub fn flow_of(sequence: u64, flows: usize) -> usize {
    let mixed = (sequence ^ (sequence >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % flows as u64) as usize
}

/// Builds the frame of one flow without tag and checksum; also returns the values in which the flow differs from
/// others.
fn one(spec: &FrameSpec, ports: Ports) -> Result<(Vec<u8>, Flow), WireError> {
    let ipv6 = spec.destination.is_ipv6();
    let payload = vec![0; payload_bytes(spec.frame_bytes, ipv6)?];
    let ethernet = PacketBuilder::ethernet2(spec.source_mac, spec.destination_mac);
    let builder: PacketBuilderStep<UdpHeader> = match (spec.source.ip(), spec.destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ethernet.ipv4(from.octets(), to.octets(), HOP_LIMIT).udp(ports.source, ports.destination)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ethernet.ipv6(from.octets(), to.octets(), HOP_LIMIT).udp(ports.source, ports.destination)
        }
        (from, to) => return Err(WireError::setting("addresses", format!("{from} and {to}"), "two of one family")),
    };
    let mut bytes = Vec::with_capacity(builder.size(payload.len()) + TAG_BYTES);
    builder
        .write(&mut bytes, &payload)
        .map_err(|e| WireError::setting("frame", e, "a payload that fits an IP datagram"))?;
    // The library's checksum of a payload of zeros gives the sum over the rest of the frame.
    let at = payload_at(ipv6) - CHECKSUM_BYTES;
    let checksum = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + CHECKSUM_BYTES].fill(0);
    let is_computed = ipv6 || spec.checksum == Checksum::Computed;
    let base_sum = is_computed.then(|| u32::from(!checksum));
    let ([a, b], [c, d]) = (ports.source.to_be_bytes(), ports.destination.to_be_bytes());
    Ok((bytes, Flow { ports: [a, b, c, d], base_sum }))
}

/// The frames of a run by sequence number: all equal, or with the sizes and flows of a capture.
#[derive(Debug, Clone)]
pub struct Templates {
    kinds: Vec<Template>,
    replay: Option<Arc<Replay>>,
}

impl Templates {
    /// Builds the frames.
    ///
    /// # Errors
    /// A frame size is out of range, or the source ports of the flows exceed 65535.
    pub fn new(spec: &FrameSpec) -> Result<Self, WireError> {
        let Some(replay) = &spec.replay else {
            return Ok(Self { kinds: vec![Template::new(spec)?], replay: None });
        };
        let kind = |kind: &crate::replay::Kind| {
            let port = spec.source.port().checked_add(kind.flow);
            let port = port
                .ok_or_else(|| WireError::setting("source port", spec.source.port(), "room for 256 flows behind it"))?;
            let source = SocketAddr::new(spec.source.ip(), port);
            Template::new(&FrameSpec { source, frame_bytes: kind.frame_bytes, replay: None, ..spec.clone() })
        };
        let kinds = replay.kinds().iter().map(kind).collect::<Result<_, _>>()?;
        Ok(Self { kinds, replay: Some(Arc::clone(replay)) })
    }

    /// The frame with this sequence number. The flag is true if it may differ from the previous frame.
    #[inline]
    pub fn at(&self, sequence: u64) -> (&Template, bool) {
        match &self.replay {
            None => (&self.kinds[0], false),
            Some(replay) => (&self.kinds[replay.kind_at(sequence)], true),
        }
    }

    /// The longest frame.
    pub fn longest(&self) -> &Template {
        // There is at least one template.
        self.kinds.iter().max_by_key(|template| template.bytes().len()).unwrap_or(&self.kinds[0])
    }
}

/// Sum of the 16-bit words, for a checksum (RFC 1071).
pub fn sum(bytes: &[u8; HEADER_BYTES]) -> u32 {
    bytes.as_chunks::<2>().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum()
}

/// Adds the carries of a sum to its lower 16 bits (RFC 1071).
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
