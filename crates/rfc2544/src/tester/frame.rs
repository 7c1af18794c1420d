//! Frames for forwarding tests: Ethernet (+ 802.1Q) + IPv4 or IPv6 + UDP + an 18-byte header + a fixed pattern.
//!
//! | bytes of the header | field |
//! | --- | --- |
//! | 0..2 | tag of the trial (u16, big endian): frames of other trials or programs are not counted |
//! | 2..4 | stream (u16): the combination of addresses and ports |
//! | 4..10 | sequence number over all streams (u48), from 0 |
//! | 10..16 | send time, ns of `CLOCK_MONOTONIC` modulo 2^48 (78 hours) |
//! | 16..18 | check word over the 16 bytes before it; a pattern that is compared byte by byte follows |
//!
//! Sizes are frame bytes including the 4-byte FCS, as RFC 2544 counts them. A 64-byte IPv4 frame holds just the header;
//! IPv6 needs 84, a VLAN tag 4 more.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::{PacketBuilder, PacketBuilderStep, UdpHeader};

use netcliff_packets::error::WireError;
use netcliff_packets::frame::{fold, sum};
use netcliff_packets::replay::Replay;

/// Length of netcliff's header \[bytes\].
pub const HEADER_BYTES: usize = 18;
/// Largest frame, including FCS \[bytes\].
pub const MAX_FRAME_BYTES: usize = 9018;
/// RFC 6985 genome of the simple IMIX, twelve frames of 7:4:1.
pub const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 594, 64, 64, 594, 64];
/// Largest number of streams of a profile.
pub const MAX_STREAMS: usize = 1 << 16;

pub(super) const FCS_BYTES: usize = 4;
const VLAN_BYTES: usize = 4;
const ETHERNET_BYTES: usize = 14;

/// Number of values that each field of the flows takes, from its base upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Number of source addresses.
    pub sources: u32,
    /// Number of destination addresses.
    pub destinations: u32,
    /// Number of source ports.
    pub source_ports: u16,
    /// Number of destination ports.
    pub destination_ports: u16,
}

impl Default for Sweep {
    /// A single flow.
    fn default() -> Self {
        Self { sources: 1, destinations: 1, source_ports: 1, destination_ports: 1 }
    }
}

impl Sweep {
    /// Number of streams: all combinations of the fields.
    pub fn streams(&self) -> u64 {
        [self.sources, self.destinations, self.source_ports.into(), self.destination_ports.into()]
            .into_iter()
            .map(u64::from)
            .product()
    }
}

/// The frames of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Ethernet source address.
    pub source_mac: [u8; 6],
    /// Ethernet destination address: the device's port.
    pub destination_mac: [u8; 6],
    /// VLAN id of an 802.1Q tag. `None`: untagged.
    pub vlan: Option<u16>,
    /// First source address.
    pub source: IpAddr,
    /// First destination address, of the same address family.
    pub destination: IpAddr,
    /// First source and destination port.
    pub ports: (u16, u16),
    /// The flows.
    pub sweep: Sweep,
    /// Frame sizes, including FCS, sent in turn \[bytes\].
    pub sizes: Vec<usize>,
    /// A capture whose times, sizes and flows are sent instead of `sizes` at a constant rate. Its flows become source
    /// ports.
    pub replay: Option<Arc<Replay>>,
}

/// Smallest frame, including FCS, for this address family and tag \[bytes\].
pub fn least_bytes(ipv6: bool, vlan: bool) -> usize {
    let network = if ipv6 { 40 } else { 20 };
    link_bytes(vlan) + network + UdpHeader::LEN + HEADER_BYTES
}

/// Bytes of a frame that an interface's MTU does not count: Ethernet header, tag, FCS.
pub fn link_bytes(vlan: bool) -> usize {
    ETHERNET_BYTES + usize::from(vlan) * VLAN_BYTES + FCS_BYTES
}

/// The label of a frame: its stream, its position in the trial and its send time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Number of the stream.
    pub stream: u16,
    /// Position of the frame in the trial.
    pub sequence: u64,
    /// Send time [ns of `CLOCK_MONOTONIC`].
    pub sent_ns: u64,
}

/// Class of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A frame of this run, intact.
    Ours(Label),
    /// A frame of this run that was modified on the path.
    Corrupt,
    /// A frame of another trial or program.
    Foreign,
}

/// The sequence of frames in a trial: size and stream of the frame at each position. Each combination of size and
/// stream that occurs has a template.
#[derive(Debug)]
enum FrameOrder {
    /// The sizes in turn. The stream advances after each round of the sizes, so that all streams have frames of all
    /// sizes.
    Turns {
        /// Frame lengths in bytes, without FCS.
        lengths: Vec<usize>,
        /// Number of streams.
        streams: usize,
    },
    /// The sizes and flows of a capture. A stream is a source port; each kind of frame of the capture has a template.
    Replay(Arc<Replay>),
}

impl FrameOrder {
    fn of(profile: &Profile) -> Self {
        match &profile.replay {
            Some(replay) => Self::Replay(Arc::clone(replay)),
            None => Self::Turns {
                lengths: profile.sizes.iter().map(|bytes| bytes - FCS_BYTES).collect(),
                streams: profile.sweep.streams() as usize,
            },
        }
    }

    /// Length (bytes, without FCS) and stream of each template.
    fn templates(&self) -> Vec<(usize, u32)> {
        match self {
            Self::Turns { lengths, streams } => {
                let of = |length: &usize| {
                    let length = *length;
                    (0..*streams).map(move |stream| (length, stream as u32))
                };
                lengths.iter().flat_map(of).collect()
            }
            Self::Replay(replay) => {
                replay.kinds().iter().map(|kind| (kind.frame_bytes - FCS_BYTES, u32::from(kind.flow))).collect()
            }
        }
    }

    fn streams(&self) -> usize {
        match self {
            Self::Turns { streams, .. } => *streams,
            Self::Replay(replay) => replay.flows() as usize,
        }
    }

    fn replay(&self) -> Option<&Arc<Replay>> {
        match self {
            Self::Turns { .. } => None,
            Self::Replay(replay) => Some(replay),
        }
    }

    /// Length of the frame with this sequence number (bytes, without FCS).
    #[inline]
    fn length(&self, sequence: u64) -> usize {
        match self {
            Self::Turns { lengths, .. } => lengths[(sequence % lengths.len() as u64) as usize],
            Self::Replay(replay) => replay.kinds()[replay.kind_at(sequence)].frame_bytes - FCS_BYTES,
        }
    }

    /// Stream of the frame with this sequence number.
    #[inline]
    fn stream(&self, sequence: u64) -> u16 {
        match self {
            Self::Turns { lengths, streams } => ((sequence / lengths.len() as u64) % *streams as u64) as u16,
            Self::Replay(replay) => replay.kinds()[replay.kind_at(sequence)].flow,
        }
    }

    /// Index of the template of the frame with this sequence number, which belongs to `stream`.
    #[inline]
    fn template(&self, sequence: u64, stream: u16) -> usize {
        match self {
            Self::Turns { lengths, streams } => {
                (sequence % lengths.len() as u64) as usize * streams + usize::from(stream)
            }
            Self::Replay(replay) => replay.kind_at(sequence),
        }
    }
}

/// All frames of a profile, complete except for their labels.
#[derive(Debug)]
pub struct Templates {
    /// Protocol headers, `prefix` bytes each, ordered by size and then stream.
    prefixes: Vec<u8>,
    /// Ones' complement sums of everything that the UDP checksum covers except the label. Empty without checksum.
    sums: Vec<u32>,
    prefix: usize,
    /// The sequence of frames in a trial.
    order: FrameOrder,
    /// A frame of the largest size, with zero headers.
    filler: Vec<u8>,
    /// Bytes of a VLAN tag in sent frames. The kernel removes it before the sink sees the frame.
    vlan_bytes: usize,
    /// Offsets of addresses and ports in a received frame.
    flow_at: std::ops::Range<usize>,
}

impl Templates {
    /// Builds every frame.
    ///
    /// # Errors
    /// A size is out of range, the addresses belong to different families, or there are too many streams.
    pub fn new(profile: &Profile) -> Result<Self, WireError> {
        check(profile)?;
        let ipv6 = profile.source.is_ipv6();
        let vlan_bytes = if profile.vlan.is_some() { VLAN_BYTES } else { 0 };
        let prefix = least_bytes(ipv6, profile.vlan.is_some()) - HEADER_BYTES - FCS_BYTES;
        let order = FrameOrder::of(profile);
        let templates = order.templates();
        let longest = templates.iter().map(|(length, _)| *length).max().unwrap_or(0);
        let mut filler: Vec<u8> = (0..longest).map(pattern).collect();
        filler[..prefix + HEADER_BYTES].fill(0);
        let (mut prefixes, mut sums) = (Vec::new(), Vec::new());
        for (length, stream) in templates {
            let bytes = headers(profile, stream, &filler[prefix..length])?;
            let (kept, checksum) = bytes.split_at(prefix - 2);
            prefixes.extend_from_slice(kept);
            // The library computes the checksum for a label of zeros. IPv4 frames are sent without a checksum, and the
            // receiver skips the check, as if a NIC had verified it. IPv6 requires a checksum.
            sums.extend(ipv6.then(|| u32::from(!u16::from_be_bytes([checksum[0], checksum[1]]))));
            prefixes.extend_from_slice(&[0, 0]);
        }
        let addresses = if ipv6 { 32 } else { 8 };
        let flow_end = prefix - vlan_bytes - 4;
        Ok(Self { prefixes, sums, prefix, order, filler, vlan_bytes, flow_at: flow_end - addresses - 4..flow_end })
    }

    /// The initial content of every slot of a transmit ring: the longest frame, with zero headers.
    pub fn filler(&self) -> &[u8] {
        &self.filler
    }

    /// Length of the longest frame as it is handed to the port (bytes): without FCS, with its VLAN tag.
    pub fn longest(&self) -> usize {
        self.filler.len()
    }

    /// Offset of the label in a received frame, whose VLAN tag the kernel has removed \[bytes\].
    pub(crate) fn label_at(&self) -> usize {
        self.prefix - self.vlan_bytes
    }

    /// The frames in the form in which a program in the kernel makes them: of one size, IPv4.
    pub(super) fn for_programs(&self) -> netcliff_host::live::Frames {
        netcliff_host::live::Frames {
            template: self.filler.clone(),
            prefix_bytes: self.prefix,
            tag_bytes: self.vlan_bytes,
            prefixes: self.prefixes.chunks(self.prefix).map(<[u8]>::to_vec).collect(),
        }
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.order.streams()
    }

    /// The capture that is replayed. `None` without one.
    pub fn replay(&self) -> Option<&Arc<Replay>> {
        self.order.replay()
    }

    /// Length of the frame with this sequence number (bytes, without FCS).
    #[inline]
    pub fn length(&self, sequence: u64) -> usize {
        self.order.length(sequence)
    }

    /// Stream of the frame with this sequence number.
    #[inline]
    pub fn stream(&self, sequence: u64) -> u16 {
        self.order.stream(sequence)
    }

    /// Writes headers and label to the start of a frame whose other bytes are the filler's.
    #[inline]
    pub fn write(&self, frame: &mut [u8], tag: u16, sequence: u64, sent_ns: u64) {
        let label = Label { stream: self.stream(sequence), sequence, sent_ns };
        let at = self.order.template(sequence, label.stream);
        let bytes = label_bytes(tag, &label);
        frame[..self.prefix].copy_from_slice(&self.prefixes[at * self.prefix..(at + 1) * self.prefix]);
        frame[self.prefix..self.prefix + HEADER_BYTES].copy_from_slice(&bytes);
        if let Some(base) = self.sums.get(at) {
            let checksum = match !fold(base + sum(&bytes)) {
                0 => 0xffff,
                checksum => checksum,
            };
            frame[self.prefix - 2..self.prefix].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Parses a received frame, whose VLAN tag the kernel has removed. `now_ns` supplies the upper bits of the frame's
    /// send time.
    #[inline]
    pub fn parse(&self, frame: &[u8], tag: u16, now_ns: u64) -> Parsed {
        let label_at = self.label_at();
        let Some(bytes) = frame.get(label_at..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>()) else {
            return Parsed::Foreign;
        };
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if word(0) != tag {
            return Parsed::Foreign;
        }
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 2)) << 16 | u64::from(word(at + 4));
        let (stream, sequence) = (word(2), long(4));
        if word(16) != check_word(bytes) || usize::from(stream) >= self.streams() {
            return Parsed::Corrupt;
        }
        let at = self.order.template(sequence, stream) * self.prefix + self.vlan_bytes;
        let flow = &self.prefixes[at + self.flow_at.start..at + self.flow_at.end];
        let rest = &frame[label_at + HEADER_BYTES..];
        let expected = &self.filler[self.prefix + HEADER_BYTES..self.length(sequence)];
        if frame[self.flow_at.clone()] != *flow || rest != expected {
            return Parsed::Corrupt;
        }
        // The age is signed, because the two clocks may differ slightly: then a frame seems to arrive before it was
        // sent.
        let age = (now_ns.wrapping_sub(long(10)) << 16) as i64 >> 16;
        let sent_ns = now_ns.wrapping_sub(age as u64);
        Parsed::Ours(Label { stream, sequence, sent_ns })
    }
}

fn check(profile: &Profile) -> Result<(), WireError> {
    if profile.source.is_ipv6() != profile.destination.is_ipv6() {
        let both = format!("{} and {}", profile.source, profile.destination);
        return Err(WireError::setting("addresses", both, "two of one family"));
    }
    let least = least_bytes(profile.source.is_ipv6(), profile.vlan.is_some());
    let accepted = || format!("{least} to {MAX_FRAME_BYTES} bytes with FCS for these headers");
    let of_replay = |replay: &Arc<Replay>| replay.kinds().iter().map(|kind| kind.frame_bytes).collect();
    let sizes: Vec<usize> = profile.replay.as_ref().map_or_else(|| profile.sizes.clone(), of_replay);
    if sizes.is_empty() {
        return Err(WireError::setting("sizes", "empty", "at least one"));
    }
    if let Some(size) = sizes.iter().find(|size| !(least..=MAX_FRAME_BYTES).contains(*size)) {
        return Err(WireError::setting("frame size", size, accepted()));
    }
    let streams = profile.sweep.streams();
    if !(1..=MAX_STREAMS as u64).contains(&streams) {
        return Err(WireError::setting("streams", streams, format!("1 to {MAX_STREAMS} combinations")));
    }
    if profile.vlan.is_some_and(|id| !(1..=4094).contains(&id)) {
        return Err(WireError::setting("vlan", profile.vlan.unwrap_or(0), "1 to 4094"));
    }
    Ok(())
}

/// The protocol headers of a stream's frames.
fn headers(profile: &Profile, stream: u32, payload: &[u8]) -> Result<Vec<u8>, WireError> {
    let sweep = &profile.sweep;
    let (source, rest) = (stream % sweep.sources, stream / sweep.sources);
    let (destination, rest) = (rest % sweep.destinations, rest / sweep.destinations);
    let (source_port, rest) = (rest % u32::from(sweep.source_ports), rest / u32::from(sweep.source_ports));
    let ports = (
        profile.ports.0.wrapping_add(source_port as u16),
        profile.ports.1.wrapping_add((rest % u32::from(sweep.destination_ports)) as u16),
    );
    let mut bytes = Vec::with_capacity(14 + 4 + 40 + 8 + payload.len());
    let addresses = (advance(profile.source, source), advance(profile.destination, destination));
    let ethernet = PacketBuilder::ethernet2(profile.source_mac, profile.destination_mac);
    let tag = profile.vlan.map(|id| etherparse::VlanId::try_new(id).unwrap_or_default());
    let udp: PacketBuilderStep<UdpHeader> = match (addresses, tag) {
        ((IpAddr::V4(from), IpAddr::V4(to)), None) => {
            ethernet.ipv4(from.octets(), to.octets(), 64).udp(ports.0, ports.1)
        }
        ((IpAddr::V6(from), IpAddr::V6(to)), None) => {
            ethernet.ipv6(from.octets(), to.octets(), 64).udp(ports.0, ports.1)
        }
        ((IpAddr::V4(from), IpAddr::V4(to)), Some(tag)) => {
            ethernet.single_vlan(tag).ipv4(from.octets(), to.octets(), 64).udp(ports.0, ports.1)
        }
        ((IpAddr::V6(from), IpAddr::V6(to)), Some(tag)) => {
            ethernet.single_vlan(tag).ipv6(from.octets(), to.octets(), 64).udp(ports.0, ports.1)
        }
        _ => return Err(WireError::setting("addresses", "of two families", "two of one family")),
    };
    udp.write(&mut bytes, payload).map_err(|e| WireError::setting("frame", e, "a payload that fits a datagram"))?;
    bytes.truncate(bytes.len() - payload.len());
    Ok(bytes)
}

fn advance(address: IpAddr, by: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address).wrapping_add(by)).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address).wrapping_add(u128::from(by))).into()),
    }
}

/// Pattern byte at an offset. Neighbouring bytes differ, and so do bytes at offsets 256 apart.
fn pattern(at: usize) -> u8 {
    (at * 167 + at / 256 * 13 + 41) as u8
}

#[inline]
fn label_bytes(tag: u16, label: &Label) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[0..2].copy_from_slice(&tag.to_be_bytes());
    bytes[2..4].copy_from_slice(&label.stream.to_be_bytes());
    bytes[4..10].copy_from_slice(&label.sequence.to_be_bytes()[2..]);
    bytes[10..16].copy_from_slice(&label.sent_ns.to_be_bytes()[2..]);
    let check = check_word(&bytes);
    bytes[16..18].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// A 16-bit check word over the first 16 bytes.
#[inline]
fn check_word(bytes: &[u8; HEADER_BYTES]) -> u16 {
    let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let mixed = (half(0) ^ half(8).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48) as u16
}

#[cfg(test)]
mod tests;
