//! [`read`]: packets of pcap and pcapng files, plain or compressed (gzip, zstd), of any byte order and time resolution.
//!
//! Packet lengths are lengths of frames on an Ethernet wire. Captures lack the 4 bytes of FCS (unless the file says
//! otherwise), and frames captured when they were sent lack the padding to 64 bytes: both are added. Packets of other
//! link types get an Ethernet header in place of their own. A packet that the capture truncated counts with its full
//! length. A buffer longer than the link's MTU, captured before segmentation or after GRO, is split into the frames
//! that were on the wire. Packets that are not read are counted by kind in [`Capture::notes`].

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice, ether_type};
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, OptionCode, PcapNGOption, UnknownBlock};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{PcapBlockOwned, PcapError};

use super::opening::{Opened, opened, what_else};
use super::streams::Streams;
use super::{Capture, Captured, CapturedFlow, CapturedStreams};

/// Most packets that are read, 24 bytes of memory each: more than a simulation needs.
const MOST_PACKETS: usize = 20_000_000;
/// Most flows that are distinguished. Packets of further flows are read without a flow.
const MOST_FLOWS: usize = 1_000_000;
/// Size of the parser's buffer for one block (bytes) at the start; it doubles as needed, up to `MOST_BUFFER`.
const BUFFER: usize = 1 << 20;
const MOST_BUFFER: usize = 64 << 20;
const FCS: u32 = 4;
const SMALLEST_FRAME: u32 = 64;
const ETHERNET_HEADER: u32 = 14;
const UDP_HEADER: usize = 8;
/// Type of pcapng's obsolete Packet Block, which the parser does not know.
const PACKET_BLOCK: u32 = 2;

/// Why reading stopped before the end of the file.
const CUT: &str = "the file ends in the middle of the next one";
const DAMAGED: &str =
    "the rest of the file cannot be unpacked further: it is cut, damaged or no part of the packed file";
const APPENDED: &str = "another capture's header follows, as `cat` joins files; join captures by mergecap -w";
const ZEROS: &str = "zeros follow, as a crash leaves them";
/// First 32-bit word of a pcap file, in both byte orders: with microseconds, with nanoseconds, and of Kuznetzov's
/// patch.
const MAGIC: [u32; 6] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34, 0x34cd_b2a1];
/// Second 32-bit word of a pcap file: version 2.4, in either byte order.
const VERSION: [u32; 4] = [0x0002_0004, 0x0004_0002, 0x0200_0400, 0x0400_0200];
/// pcapng's interface option that gives the length of the FCS.
const IF_FCSLEN: OptionCode = OptionCode(13);
/// pcapng's packet option: packets lost since the packet before.
const EPB_DROPCOUNT: OptionCode = OptionCode(4);
/// pcapng's interface statistics: packets that the interface, and the operating system, dropped.
const ISB_IFDROP: OptionCode = OptionCode(5);
const ISB_OSDROP: OptionCode = OptionCode(7);

/// How to read the packets of one interface: time units, FCS and link type.
#[derive(Clone, Copy)]
struct Interface {
    link: Link,
    /// Units of time per second.
    units_per_s: i128,
    /// Offset added to each time (s).
    offset_s: i64,
    /// FCS bytes at the end of each packet; 0 if the capture lacks it.
    fcs: u32,
}

/// A link-layer type (`LINKTYPE_`, tcpdump.org/linktypes.html).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Link(i32);

/// How a packet's link header is read.
struct Headed {
    /// Bytes of the link header that an Ethernet frame does not have.
    strip: usize,
    /// True if an Ethernet header follows the bytes in `strip`.
    ethernet: bool,
    behind: Option<EtherType>,
}

impl Link {
    /// Name of a common link type that is not read; empty for others.
    fn name(self) -> &'static str {
        match self.0 {
            7 => " (ARCNET)",
            8 | 15 => " (SLIP)",
            105 => " (IEEE 802.11)",
            109 => " (OpenBSD enc)",
            122 => " (Fibre Channel)",
            138 => " (IEEE 1394)",
            143 => " (DOCSIS)",
            197 => " (ERF)",
            119 => " (IEEE 802.11 with a Prism header)",
            127 => " (IEEE 802.11 with radiotap)",
            163 => " (IEEE 802.11 with an AVS header)",
            192 => " (PPI)",
            187 | 201 | 254 => " (Bluetooth HCI)",
            251 | 256 => " (Bluetooth LE)",
            189 | 220 | 249 => " (USB)",
            195 | 215 | 230 | 283 => " (IEEE 802.15.4)",
            227 => " (SocketCAN)",
            6 => " (IEEE 802.5, Token Ring)",
            10 => " (FDDI)",
            100 | 123 => " (ATM)",
            107 => " (Frame Relay)",
            117 => " (OpenBSD pflog)",
            147..=162 => " (of a user)",
            239 => " (NFLOG)",
            252 => " (Wireshark's upper PDUs)",
            247 => " (InfiniBand)",
            253 => " (netlink)",
            271 => " (vsock)",
            _ => "",
        }
    }

    /// Reads the packet's link header. `None` for a link type that is not read.
    fn headed(self, data: &[u8]) -> Option<Headed> {
        let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
        let of_ip = |at: usize| match data.get(at).map(|byte| byte >> 4) {
            Some(4) => Some(ether_type::IPV4),
            Some(6) => Some(ether_type::IPV6),
            _ => None,
        };
        let of_ppp = |protocol: Option<u16>| match protocol {
            Some(0x0021) => Some(ether_type::IPV4),
            Some(0x0057) => Some(ether_type::IPV6),
            _ => None,
        };
        let at = |strip, behind| Some(Headed { strip, ethernet: false, behind });
        match self.0 {
            1 => Some(Headed { strip: 0, ethernet: true, behind: None }),
            // Raw IP, under the numbers of several systems; IPv4; IPv6.
            12 | 14 | 101 | 228 | 229 => at(0, of_ip(0)),
            // BSD loopback: 4 bytes with the address family, in either byte order.
            0 | 108 => at(4, of_ip(4)),
            // PPP: address and control bytes may be missing, and the protocol may be compressed to one byte.
            9 | 50 => match (data.first(), data.get(1)) {
                (Some(0xff), Some(0x03)) => at(4, of_ppp(word(2))),
                (Some(0x0f | 0x8f), Some(0x00)) => at(4, word(2).map(EtherType)),
                (Some(byte), _) if byte & 1 == 1 => at(1, of_ppp(Some(u16::from(*byte)))),
                _ => at(2, of_ppp(word(0))),
            },
            // The PPPoE session header counts: it is part of the Ethernet frame.
            51 => at(0, None),
            104 => at(4, word(2).map(EtherType)),
            113 => at(16, word(14).map(EtherType)),
            276 => at(20, word(0).map(EtherType)),
            _ => None,
        }
    }
}

/// Packets that were left out or changed when a file was read.
#[derive(Default)]
struct Aside {
    /// Packets of each link type that is not read.
    links: BTreeMap<Link, u64>,
    /// Packets of Simple Packet Blocks, which have no time.
    simple: u64,
    /// (Number of buffers longer than the MTU, number of frames on the wire that these buffers became).
    long: (u64, u64),
    /// Packets that were dropped during the capture, by section and interface.
    lost: BTreeMap<(u32, u32), u64>,
    /// Packets dropped during the capture, by the counts in the packets themselves.
    lost_between: u64,
    /// Why reading stopped before the end of the file. `None`: it was read to the end.
    cut: Option<&'static str>,
}

/// Reads a capture named `file` from its bytes; `mtu` is the largest IP packet of its link (bytes).
///
/// # Errors
/// One sentence without the file's name: it is not a capture; it is damaged (and at which packet); none of its link
/// types is read; it has too many packets, or fewer than two; or all its packets have one time.
pub fn read(file: &str, from: impl Read + Send, mtu: u32) -> Result<Capture, String> {
    record(from, Recording { mtu, ..Recording::default() })?.finish(file)
}

/// One UDP datagram of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedDatagram {
    /// Time since the capture's epoch (ns).
    pub at_ns: i128,
    /// The bytes after the UDP header.
    pub payload: Vec<u8>,
}

/// Whole UDP datagrams to one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedDatagrams {
    /// In the order of their times.
    pub datagrams: Vec<CapturedDatagram>,
    /// Number of datagrams left out: truncated by the capturing program, fragmented, or beyond `at_most` bytes in
    /// total.
    pub left_out: u64,
    /// Packets and parts of the file that were left out or changed, one sentence each, as in [`Capture::notes`].
    pub notes: Vec<String>,
}

/// Reads the UDP datagrams to `port` from a capture. `at_most`: most bytes of payload that are stored.
///
/// # Errors
/// The errors of [`read`], except that a capture may have fewer than two packets, or packets that all have one time.
pub fn datagrams(from: impl Read + Send, port: u16, at_most: usize) -> Result<CapturedDatagrams, String> {
    let wanted = Datagrams { port, at_most, stored: CapturedDatagrams::default() };
    let recording = record(from, Recording { mtu: u32::MAX, datagrams: Some(wanted), ..Recording::default() })?;
    let notes = recording.aside.notes(recording.packets.len(), recording.mtu);
    let mut stored = recording.datagrams.map(|wanted| wanted.stored).unwrap_or_default();
    stored.notes = notes;
    stored.datagrams.sort_by_key(|datagram| datagram.at_ns);
    Ok(stored)
}

/// Reads what clients sent over TCP connections to `port` from a capture: the bytes of each connection, in order, each
/// once. `at_most`: most bytes of payload that are stored.
///
/// # Errors
/// The errors of [`datagrams`].
pub fn streams(from: impl Read + Send, port: u16, at_most: usize) -> Result<CapturedStreams, String> {
    let wanted = Streams::new(port, at_most);
    let recording = record(from, Recording { mtu: u32::MAX, streams: Some(wanted), ..Recording::default() })?;
    let notes = recording.aside.notes(recording.packets.len(), recording.mtu);
    Ok(recording.streams.map(|wanted| wanted.finish(notes)).unwrap_or_default())
}

/// Reads the packets of a file and adds them to `recording`.
fn record(from: impl Read + Send, mut recording: Recording) -> Result<Recording, String> {
    let Opened { from, head } = opened(from).map_err(|error| format!("cannot be read: {error}"))?;
    let damaged = Arc::new(AtomicBool::new(false));
    let whole = Whole { from, began: false, damaged: Arc::clone(&damaged) };
    let mut reader = pcap_parser::create_reader(BUFFER, whole).map_err(|error| match error {
        PcapError::ReadError => "cannot be read".to_owned(),
        _ => what_else(&head),
    })?;
    let mut room = BUFFER;
    loop {
        let stopped = match reader.next() {
            Ok((length, block)) => {
                recording.block(&block)?;
                reader.consume(length);
                if recording.aside.cut.is_some() {
                    break;
                }
                continue;
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => Stopped::Incomplete,
            Err(PcapError::UnexpectedEof) => Stopped::Ended,
            Err(PcapError::BufferTooSmall) => Stopped::Narrow,
            Err(_) => Stopped::Invalid,
        };
        let goes_on = match stopped {
            Stopped::Invalid => return Err(recording.damaged("it is no valid block")),
            Stopped::Narrow if room == MOST_BUFFER => {
                return Err(recording.damaged("the next block claims more than 64 MiB"));
            }
            Stopped::Narrow => {
                room *= 2;
                let _ = reader.grow(room);
                reader.refill().is_ok()
            }
            Stopped::Incomplete => !reader.reader_exhausted() && reader.refill().is_ok(),
            Stopped::Ended => false,
        };
        if goes_on {
            continue;
        }
        // tcpdump leaves an incomplete file when it is killed or the disk is full: only the last packet is cut off.
        if recording.packets.is_empty() {
            return Err(recording.damaged(if damaged.load(Ordering::Relaxed) { DAMAGED } else { CUT }));
        }
        recording.aside.cut = Some(CUT);
        break;
    }
    if damaged.load(Ordering::Relaxed) {
        recording.aside.cut = Some(DAMAGED);
    }
    Ok(recording)
}

/// Why the parser returned no block.
enum Stopped {
    /// The buffer has to be filled.
    Incomplete,
    /// The file is over.
    Ended,
    /// The buffer is shorter than the block.
    Narrow,
    /// The block is malformed.
    Invalid,
}

/// Reads until the given buffer is full or the input ends: the parser reads a header at once, but decoders return fewer
/// bytes per call. An input error after the first bytes counts as the end.
struct Whole<R> {
    from: R,
    began: bool,
    /// True if an error ended the input.
    damaged: Arc<AtomicBool>,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < buffer.len() && !self.damaged.load(Ordering::Relaxed) {
            match self.from.read(&mut buffer[got..]) {
                Ok(0) => break,
                Ok(bytes) => (got, self.began) = (got + bytes, true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !self.began => return Err(error),
                Err(_) => self.damaged.store(true, Ordering::Relaxed),
            }
        }
        Ok(got)
    }
}

/// Time units per second of a pcapng interface: 10^n, or 2^n if the highest bit of `if_tsresol` is set (the parser
/// itself knows only 10^n). `None` above 10^18 or 2^63, because no clock is that fine.
fn units_per_s(if_tsresol: u8) -> Option<i128> {
    let (base, most): (i128, u8) = if if_tsresol & 0x80 == 0 { (10, 18) } else { (2, 63) };
    let exponent = if_tsresol & 0x7f;
    (exponent <= most).then(|| base.pow(u32::from(exponent)))
}

/// FCS length of an interface's packets (bytes), from `if_fcslen`. 16 and 32 count as bits, which some programs write.
fn fcs_of(description: &InterfaceDescriptionBlock<'_>) -> u32 {
    let value = description.options.iter().find(|option| option.code == IF_FCSLEN);
    match value.and_then(|option| option.value().first().copied()) {
        Some(bits @ (16 | 32)) => u32::from(bits) / 8,
        Some(bytes @ 1..=8) => u32::from(bytes),
        _ => 0,
    }
}

/// Value of a 64-bit option; `None` if it is absent or shorter than 8 bytes.
fn option_number(options: &[PcapNGOption<'_>], code: OptionCode, big_endian: bool) -> Option<u64> {
    let option = options.iter().find(|option| option.code == code)?;
    let bytes: [u8; 8] = option.value().get(..8)?.try_into().ok()?;
    Some(if big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
}

/// Reads an obsolete Packet Block: (interface, time, original length, data). `None` if the block is too short.
fn packet_block<'a>(block: &'a UnknownBlock<'_>, big_endian: bool) -> Option<(u32, i128, u32, &'a [u8])> {
    let word = |at: usize| {
        let bytes: [u8; 4] = block.data.get(at..at + 4)?.try_into().ok()?;
        Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    // Interface and drop count are 16 bits each, the interface first in the file.
    let interface = if big_endian { word(0)? >> 16 } else { word(0)? & 0xffff };
    let units = i128::from(u64::from(word(4)?) << 32 | u64::from(word(8)?));
    let data = block.data.get(20..)?;
    Some((interface, units, word(16)?, data.get(..word(12)? as usize).unwrap_or(data)))
}

#[derive(Default)]
struct Recording {
    mtu: u32,
    interfaces: Vec<Interface>,
    big_endian: bool,
    /// Number of pcapng sections so far.
    sections: u32,
    /// (time (ns), frame bytes, index of its flow) of each packet.
    packets: Vec<(i128, u32, Option<u32>)>,
    /// For each flow: its index, in the order of the flows' first packets, and its number of packets.
    flows: HashMap<(SocketAddr, SocketAddr), (u32, u64)>,
    aside: Aside,
    /// The datagrams to store, if the caller wants any.
    datagrams: Option<Datagrams>,
    /// The TCP connections to store, if the caller wants any.
    streams: Option<Streams>,
}

/// Datagrams to `port` are stored in `stored`; `at_most`: bytes of payload that may still be stored.
struct Datagrams {
    port: u16,
    at_most: usize,
    stored: CapturedDatagrams,
}

impl Datagrams {
    /// Stores the payload if the packet is a datagram to the port; counts it as left out if it is incomplete, or too
    /// long for the rest of `at_most`.
    fn take(&mut self, at_ns: i128, packet: &LaxSlicedPacket<'_>) {
        let Some(TransportSlice::Udp(udp)) = &packet.transport else { return };
        if udp.destination_port() != self.port {
            return;
        }
        let (payload, length) = (udp.payload(), usize::from(udp.length()));
        match self.at_most.checked_sub(payload.len()) {
            Some(left) if payload.len() + UDP_HEADER == length => {
                self.at_most = left;
                self.stored.datagrams.push(CapturedDatagram { at_ns, payload: payload.to_vec() });
            }
            _ => self.stored.left_out += 1,
        }
    }
}

impl Recording {
    fn damaged(&self, what: &str) -> String {
        format!("damaged after packet {}: {what}", self.packets.len())
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                // Upper bits of the link type: whether packets end with an FCS, and its length in 16-bit words
                // (libpcap, pcap-common.h).
                let network = header.network.0 as u32;
                let fcs = if network & 0x0400_0000 != 0 { 2 * (network >> 28) } else { 0 };
                let link = Link((network & 0x03ff_ffff) as i32);
                self.interfaces = vec![Interface { link, units_per_s, offset_s: 0, fcs }];
                Ok(())
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = *self.interfaces.first().ok_or("has packets before its header")?;
                match (packet.ts_sec, packet.ts_usec, packet.caplen, packet.origlen) {
                    (0, 0, 0, 0) => self.aside.cut = Some(ZEROS),
                    (magic, version, 0, _) if MAGIC.contains(&magic) && VERSION.contains(&version) => {
                        self.aside.cut = Some(APPENDED);
                    }
                    _ => {
                        let units = i128::from(packet.ts_sec) * interface.units_per_s + i128::from(packet.ts_usec);
                        let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                        // Some old files have the two lengths in exchanged order.
                        self.packet(interface, units, packet.origlen.max(packet.caplen), data)?;
                    }
                }
                Ok(())
            }
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.interfaces.clear();
                self.sections += 1;
                self.big_endian = header.big_endian();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                let units_per_s = units_per_s(description.if_tsresol).ok_or_else(|| {
                    let (place, resolution) = (self.interfaces.len(), description.if_tsresol);
                    format!("interface {place} has an impossible resolution of time (if_tsresol {resolution:#04x})")
                })?;
                let (offset_s, link) = (description.ts_offset(), Link(description.linktype.0));
                self.interfaces.push(Interface { link, units_per_s, offset_s, fcs: fcs_of(description) });
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceStatistics(statistics)) => {
                let of = |code| option_number(&statistics.options, code, self.big_endian).unwrap_or(0);
                let lost = of(ISB_IFDROP).saturating_add(of(ISB_OSDROP));
                // These counters start with the capture: the last block of an interface has the total.
                self.aside.lost.insert((self.sections, statistics.if_id), lost);
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let lost = option_number(&packet.options, EPB_DROPCOUNT, self.big_endian).unwrap_or(0);
                self.aside.lost_between = self.aside.lost_between.saturating_add(lost);
                let units = i128::from(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                self.packet(self.interface(packet.if_id)?, units, packet.origlen, packet.packet_data())
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => {
                self.aside.simple += 1;
                Ok(())
            }
            PcapBlockOwned::NG(Block::Unknown(block)) if self.is_packet_block(block.block_type) => {
                let Some((interface, units, length, data)) = packet_block(block, self.big_endian) else {
                    return Err(self.damaged("it is a Packet Block that is too short"));
                };
                self.packet(self.interface(interface)?, units, length, data)
            }
            // Blocks of statistics, names, secrets and journals have no packets.
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    /// True for an obsolete Packet Block. The parser reads block types as little-endian, whatever the section's byte
    /// order.
    fn is_packet_block(&self, block_type: u32) -> bool {
        block_type == if self.big_endian { PACKET_BLOCK.swap_bytes() } else { PACKET_BLOCK }
            || block_type == PACKET_BLOCK
    }

    fn interface(&self, number: u32) -> Result<Interface, String> {
        self.interfaces
            .get(number as usize)
            .copied()
            .ok_or_else(|| self.damaged(&format!("it came from interface {number}, which is not described")))
    }

    fn packet(&mut self, interface: Interface, units: i128, length: u32, data: &[u8]) -> Result<(), String> {
        let Some(headed) = interface.link.headed(data) else {
            *self.aside.links.entry(interface.link).or_default() += 1;
            return Ok(());
        };
        let behind = data.get(headed.strip..).unwrap_or_default();
        let sliced = match (headed.ethernet, headed.behind) {
            (true, _) => LaxSlicedPacket::from_ethernet(behind).ok(),
            (false, Some(ether_type)) => Some(LaxSlicedPacket::from_ether_type(ether_type, behind)),
            (false, None) => None,
        };
        let at_ns = units * 1_000_000_000 / interface.units_per_s + i128::from(interface.offset_s) * 1_000_000_000;
        let addresses = sliced.as_ref().and_then(tuple);
        if let (Some(wanted), Some(sliced)) = (&mut self.datagrams, &sliced) {
            wanted.take(at_ns, sliced);
        }
        if let (Some(wanted), Some(sliced), Some(addresses)) = (&mut self.streams, &sliced, addresses) {
            wanted.take(at_ns, sliced, addresses);
        }
        let flow = addresses.and_then(|addresses| self.flow(addresses));
        let header = if headed.ethernet { 0 } else { ETHERNET_HEADER };
        let frame = (length.saturating_sub(interface.fcs + headed.strip as u32)).saturating_add(header);
        let long = sliced.as_ref().and_then(|sliced| Long::of(sliced, behind, header, frame, self.mtu));
        let frames = long.as_ref().map_or(1, |long| long.frames);
        if frames > 1 {
            self.aside.long.0 += 1;
            self.aside.long.1 += u64::from(frames);
        }
        // A buffer that is split into several frames counts in its flow as that many packets.
        if let Some((_, packets)) = flow.and_then(|number| Some((number, u64::from(frames.checked_sub(1)?))))
            && let Some(addresses) = addresses
            && let Some(entry) = self.flows.get_mut(&addresses)
        {
            entry.1 += packets;
        }
        for place in 0..frames {
            if self.packets.len() == MOST_PACKETS {
                return Err(format!("has more than {MOST_PACKETS} packets; cut it (editcap -c, tcpdump -c)"));
            }
            let bytes = long.as_ref().map_or(frame, |long| long.bytes(place)).saturating_add(FCS);
            let bytes = bytes.clamp(SMALLEST_FRAME, *crate::traffic::FRAME_RANGE_BYTES.end());
            self.packets.push((at_ns, bytes, flow));
        }
        Ok(())
    }

    /// Counts one packet to a flow and returns the flow's index; `None` for flows beyond the limit.
    fn flow(&mut self, tuple: (SocketAddr, SocketAddr)) -> Option<u32> {
        let next = self.flows.len() as u32;
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&tuple) {
            return None;
        }
        let (number, packets) = self.flows.entry(tuple).or_insert((next, 0));
        *packets += 1;
        Some(*number)
    }

    /// Sorts the packets by time, because several interfaces need not be written in order, and sorts the flows. Packets
    /// with equal times stay in the file's order.
    fn finish(mut self, file: &str) -> Result<Capture, String> {
        self.packets.sort_by_key(|(at_ns, ..)| *at_ns);
        let (Some(first), Some(last)) = (self.packets.first(), self.packets.last()) else {
            return Err(self.aside.nothing());
        };
        let span_ns = u64::try_from(last.0 - first.0).map_err(|_| "spans more than 584 years".to_owned())?;
        if span_ns == 0 {
            let cut = self.aside.cut.map_or(String::new(), |cut| format!(" ({cut})"));
            return Err(format!(
                "holds {} over no time{cut}; expected two at least, at different times",
                counted(self.packets.len() as u64)
            ));
        }
        let mean_ns = span_ns / (self.packets.len() as u64 - 1);
        // The sum of all gaps must fit in 64 bits of nanoseconds.
        if span_ns.checked_add(mean_ns.max(1)).is_none() {
            return Err("spans more than 584 years".to_owned());
        }
        let mut before = first.0 - i128::from(mean_ns.max(1));
        let mut flows: Vec<(u32, CapturedFlow)> = self
            .flows
            .into_iter()
            .map(|((source, destination), (number, packets))| (number, CapturedFlow { source, destination, packets }))
            .collect();
        flows.sort_by_key(|(_, flow)| (std::cmp::Reverse(flow.packets), flow.source, flow.destination));
        let mut places = vec![0; flows.len()];
        for (place, (number, _)) in flows.iter().enumerate() {
            places[*number as usize] = place as u32;
        }
        let captured = self.packets.iter().map(|(at_ns, bytes, flow)| {
            let gap_ns = u64::try_from(at_ns - before).unwrap_or(0);
            before = *at_ns;
            Captured { gap_ns, bytes: *bytes, flow: flow.map(|number| places[number as usize]) }
        });
        let packets: Vec<Captured> = captured.collect();
        let flows = flows.into_iter().map(|(_, flow)| flow).collect();
        let notes = self.aside.notes(packets.len(), self.mtu);
        Ok(Capture { file: file.to_owned(), packets, flows, sha256: None, notes })
    }
}

impl Aside {
    /// Packets that were not read, for instance `3 packets of link type 105 (IEEE 802.11)`.
    fn unread(&self) -> Vec<String> {
        let of =
            |(link, packets): (&Link, &u64)| format!("{} of link type {}{}", counted(*packets), link.0, link.name());
        self.links.iter().map(of).collect()
    }

    /// Why no packet of the file could be read.
    fn nothing(&self) -> String {
        if !self.links.is_empty() {
            let read = "Ethernet, Linux cooked (SLL, SLL2), BSD loopback, raw IP, PPP and PPPoE are read";
            return format!("holds {}; {read}", self.unread().join(", "));
        }
        if self.simple > 0 {
            let what = "which have no time; expected enhanced packet blocks (capture with -w and no other option)";
            return format!("holds simple packets only ({}), {what}", self.simple);
        }
        "holds no packet".to_owned()
    }

    /// Packets that were left out or changed, one sentence per kind.
    fn notes(&self, packets: usize, mtu: u32) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.links.is_empty() {
            notes.push(format!("{} left out", self.unread().join(", ")));
        }
        if self.simple > 0 {
            notes.push(format!("{} of simple blocks left out: they have no time", counted(self.simple)));
        }
        if let Some(cut) = self.cut {
            notes.push(format!("the first {packets} packets count: {cut}"));
        }
        let lost = self.lost.values().fold(0, |sum: u64, lost| sum.saturating_add(*lost)).max(self.lost_between);
        if lost > 0 {
            notes.push(format!(
                "the capturing program lost {} besides the {packets} of this file: the load was higher than its",
                counted(lost)
            ));
        }
        let (buffers, frames) = self.long;
        if buffers > 0 {
            notes.push(format!(
                "{} longer than an MTU of {mtu} B (captured before segmentation or after GRO), counted as the {frames} frames on the \
                 wire; add ,mtu=9000 to the file's name for another MTU",
                counted(buffers)
            ));
        }
        notes
    }
}

fn counted(packets: u64) -> String {
    if packets == 1 { "1 packet".to_owned() } else { format!("{packets} packets") }
}

/// How a captured buffer was split into frames on the wire.
struct Long {
    frames: u32,
    /// Headers of each frame, link header included (bytes).
    headers: u32,
    /// Payload of each frame but the last (bytes).
    part: u32,
    /// Payload of the last frame (bytes).
    rest: u32,
}

impl Long {
    /// Splits a packet that exceeds the MTU: TCP is segmented, other packets are fragmented at multiples of 8 bytes
    /// (RFC 791). `frame`: its length without FCS; `link`: length of the Ethernet header that the capture lacks. `None`
    /// if the packet fits the MTU or is not IP.
    fn of(sliced: &LaxSlicedPacket<'_>, data: &[u8], link: u32, frame: u32, mtu: u32) -> Option<Self> {
        let (ip, ip_header) = match sliced.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => (ip.header().slice().as_ptr(), ip.header().slice().len() as u32),
            LaxNetSlice::Ipv6(ip) => (ip.header().slice().as_ptr(), ip.header().slice().len() as u32),
            LaxNetSlice::Arp(_) => return None,
        };
        let before = link + u32::try_from((ip as usize).checked_sub(data.as_ptr() as usize)?).ok()?;
        let packet = frame.checked_sub(before).filter(|packet| *packet > mtu)?;
        let (headers, part) = match sliced.transport.as_ref() {
            Some(TransportSlice::Tcp(tcp)) => {
                let headers = ip_header + tcp.slice().len() as u32 - tcp.payload().len() as u32;
                (headers, mtu.checked_sub(headers)?)
            }
            _ => (ip_header, mtu.checked_sub(ip_header)? & !7),
        };
        let payload = packet.checked_sub(headers)?;
        let frames = payload.div_ceil(part.max(1)).max(1);
        Some(Self { frames, headers: before + headers, part, rest: payload - (frames - 1) * part })
    }

    /// Length of the frame with this index, without FCS.
    fn bytes(&self, place: u32) -> u32 {
        self.headers + if place + 1 < self.frames { self.part } else { self.rest }
    }
}

/// Source and destination of an IP packet; port 0 if it has no ports, as a fragment. `None` if it is not an IP packet.
fn tuple(packet: &LaxSlicedPacket<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let (source, destination): (std::net::IpAddr, std::net::IpAddr) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Arp(_) => return None,
    };
    let (from, to) = match packet.transport.as_ref() {
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        _ => (0, 0),
    };
    Some((SocketAddr::new(source, from), SocketAddr::new(destination, to)))
}
