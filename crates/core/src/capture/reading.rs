//! [`read`]: packets of pcap and pcapng, whatever their byte order and resolution of time.
//!
//! Captures of Ethernet lack the 4 bytes of FCS, and frames that were captured as they were sent lack the padding to 64
//! bytes: both are added. Raw IP packets get the Ethernet header, too. A packet that was cut counts with its full length.

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError};

use super::{Capture, Captured, CapturedFlow};

/// Packets that are read: more is more than a simulation needs, and 16 bytes of memory each.
const MOST_PACKETS: usize = 20_000_000;
/// Most flows that are distinguished; packets of further ones count as packets only.
const MOST_FLOWS: usize = 1_000_000;
/// Size of the buffer for one block: larger than any packet.
const BUFFER: usize = 1 << 20;
const FCS: u32 = 4;
const SMALLEST_FRAME: u32 = 64;
const ETHERNET_HEADER: u32 = 14;

/// Where a packet came from: what its times and its first bytes mean.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Units of time a second.
    units_per_s: i128,
    /// Seconds to add.
    offset_s: i64,
}

/// Reads a capture named `file` from its bytes.
///
/// # Errors
/// It is no capture, is damaged (which packet), holds other than Ethernet or IP, too many packets, or fewer than two, or no time passes in it: a
/// sentence without the file's name.
pub fn read(file: &str, from: impl Read + Send) -> Result<Capture, String> {
    let mut reader = pcap_parser::create_reader(BUFFER, from).map_err(|error| match error {
        PcapError::ReadError => "cannot be read".to_owned(),
        _ => "is neither pcap nor pcapng".to_owned(),
    })?;
    let mut recording = Recording::default();
    loop {
        let broken = match reader.next() {
            Ok((length, block)) => {
                recording.block(&block)?;
                reader.consume(length);
                continue;
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => None,
            Err(PcapError::UnexpectedEof) => Some("the file ends in the middle of it"),
            Err(PcapError::BufferTooSmall) => Some("it is larger than 1 MiB"),
            Err(_) => Some("it is no valid block"),
        };
        match broken {
            None if reader.reader_exhausted() => return Err(recording.damaged("the file ends in the middle of it")),
            None => reader.refill().map_err(|_| recording.damaged("a block cannot be read"))?,
            Some(what) => return Err(recording.damaged(what)),
        }
    }
    recording.finish(file)
}

/// Units a second of a pcapng interface: a power of ten, or with the highest bit set of two (the parser's own reading knows
/// only the former). None beyond 10^18 and 2^63, finer than any clock.
fn units_per_s(if_tsresol: u8) -> Option<i128> {
    let (base, most): (i128, u8) = if if_tsresol & 0x80 == 0 { (10, 18) } else { (2, 63) };
    let exponent = if_tsresol & 0x7f;
    (exponent <= most).then(|| base.pow(u32::from(exponent)))
}

#[derive(Default)]
struct Recording {
    interfaces: Vec<Interface>,
    /// (time (ns), frame bytes, number of its flow).
    packets: Vec<(i128, u32, Option<u32>)>,
    /// Number, in the order of the first packets, and packets.
    flows: HashMap<(SocketAddr, SocketAddr), (u32, u64)>,
}

impl Recording {
    fn damaged(&self, what: &str) -> String {
        format!("damaged after packet {}: {what}", self.packets.len())
    }

    fn block(&mut self, block: &PcapBlockOwned<'_>) -> Result<(), String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface { link: header.network, units_per_s, offset_s: 0 }];
                Ok(())
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = *self.interfaces.first().ok_or("has packets before its header")?;
                let units = i128::from(packet.ts_sec) * interface.units_per_s + i128::from(packet.ts_usec);
                let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                self.packet(interface, units, packet.origlen, data)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                let units_per_s = units_per_s(description.if_tsresol).ok_or_else(|| {
                    let (place, told) = (self.interfaces.len(), description.if_tsresol);
                    format!("interface {place} has an impossible resolution of time (if_tsresol {told:#04x})")
                })?;
                let offset_s = description.ts_offset();
                self.interfaces.push(Interface { link: description.linktype, units_per_s, offset_s });
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = *self.interfaces.get(packet.if_id as usize).ok_or_else(|| {
                    self.damaged(&format!("it came from interface {}, which is not described", packet.if_id))
                })?;
                let units = i128::from(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                self.packet(interface, units, packet.origlen, packet.packet_data())
            }
            PcapBlockOwned::NG(Block::SimplePacket(_)) => Err(self.damaged("it is a simple packet, which has no time")),
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn packet(&mut self, interface: Interface, units: i128, length: u32, data: &[u8]) -> Result<(), String> {
        if self.packets.len() == MOST_PACKETS {
            return Err(format!("has more than {MOST_PACKETS} packets; cut it (editcap -c, tcpdump -c)"));
        }
        let ethernet = match interface.link {
            Linktype::ETHERNET => true,
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => false,
            other => {
                return Err(format!("was captured on link type {}; Ethernet (1) and raw IP (101) are read", other.0));
            }
        };
        let header = if ethernet { 0 } else { ETHERNET_HEADER };
        let bytes = length.saturating_add(header + FCS).max(SMALLEST_FRAME);
        if bytes > *crate::traffic::FRAME_RANGE_BYTES.end() {
            return Err(self.damaged(&format!("it claims {length} bytes")));
        }
        let at_ns = units * 1_000_000_000 / interface.units_per_s + i128::from(interface.offset_s) * 1_000_000_000;
        let sliced =
            if ethernet { LaxSlicedPacket::from_ethernet(data).ok() } else { LaxSlicedPacket::from_ip(data).ok() };
        let mut flow = None;
        if let Some(tuple) = sliced.as_ref().and_then(tuple)
            && (self.flows.len() < MOST_FLOWS || self.flows.contains_key(&tuple))
        {
            let next = self.flows.len() as u32;
            let (number, packets) = self.flows.entry(tuple).or_insert((next, 0));
            *packets += 1;
            flow = Some(*number);
        }
        self.packets.push((at_ns, bytes, flow));
        Ok(())
    }

    /// Several interfaces need not write in order: packets are sorted by time, which keeps equal times in their order.
    fn finish(mut self, file: &str) -> Result<Capture, String> {
        self.packets.sort_by_key(|(at_ns, ..)| *at_ns);
        let (Some(first), Some(last)) = (self.packets.first(), self.packets.last()) else {
            return Err("holds no packet".to_owned());
        };
        let span_ns = u64::try_from(last.0 - first.0).map_err(|_| "spans more than 584 years".to_owned())?;
        if span_ns == 0 {
            return Err(format!(
                "holds {} packet(s) over no time; expected two at least, at different times",
                self.packets.len()
            ));
        }
        let mean_ns = span_ns / (self.packets.len() as u64 - 1);
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
        let packets = captured.collect();
        let flows = flows.into_iter().map(|(_, flow)| flow).collect();
        Ok(Capture { file: file.to_owned(), packets, flows, sha256: None })
    }
}

/// Source and destination; ports are 0 where there are none, as in fragments.
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
