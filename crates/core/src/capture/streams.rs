//! [`CapturedStream`]: the bytes that a client sent over a TCP connection, in the order of their sequence numbers
//! (RFC 9293, section 3.4), with the time of each segment. The capture may have segments twice, out of order, cut, or
//! not at all.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};

/// Most connections that are distinguished. Segments of further connections are left out.
const MOST_CONNECTIONS: usize = 1_000_000;

/// Bytes that a client sent over one TCP connection, each byte once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedStream {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// True if `bytes` begins with the first byte of the connection; false if the capture began later.
    pub is_from_start: bool,
    /// The bytes, up to the first that the capture lacks. Empty if it lacks the first.
    pub bytes: Vec<u8>,
    /// (Offset of its first byte in `bytes`, time since the capture's epoch (ns)) of each segment, by rising offset.
    pub segments: Vec<(usize, i128)>,
    /// True if the client sent further bytes, because the capture has later ones or the connection's end behind them.
    pub has_gap: bool,
}

impl CapturedStream {
    /// Time since the capture's epoch (ns) of the first captured segment with the byte at `offset`. `None` if `bytes`
    /// does not have this byte.
    pub fn at_ns(&self, offset: usize) -> Option<i128> {
        let later = self.segments.partition_point(|(begins, _)| *begins <= offset);
        let (_, at_ns) = self.segments.get(later.checked_sub(1)?)?;
        (offset < self.bytes.len()).then_some(*at_ns)
    }
}

/// What clients sent over TCP connections to one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedStreams {
    /// Connections over which the client sent bytes, in the order of the times of their first bytes; connections whose
    /// first byte the capture lacks come first.
    pub streams: Vec<CapturedStream>,
    /// Number of segments that were left out: beyond `at_most` bytes in total, or of more than 1,000,000 connections.
    pub left_out: u64,
    /// Number of segments that the capturing program truncated.
    pub truncated: u64,
    /// Packets and parts of the file that were left out or changed, one sentence each, as in
    /// [`Capture::notes`](super::Capture::notes).
    pub notes: Vec<String>,
}

/// Source and destination of a segment.
type Addresses = (SocketAddr, SocketAddr);

/// Puts segments to one port in order, as a capture is read.
#[derive(Default)]
pub(super) struct Streams {
    port: u16,
    /// Bytes of payload that may still be stored.
    at_most: usize,
    open: HashMap<Addresses, Connection>,
    done: CapturedStreams,
}

impl Streams {
    pub(super) fn new(port: u16, at_most: usize) -> Self {
        Self { port, at_most, ..Self::default() }
    }

    /// Takes a packet with these addresses; ignores it if it is not a TCP segment to the port. A SYN of another sequence
    /// number, or bytes after the end of a connection, begin the next connection between the same ports.
    pub(super) fn take(&mut self, at_ns: i128, packet: &LaxSlicedPacket<'_>, addresses: Addresses) {
        let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return };
        if tcp.destination_port() != self.port {
            return;
        }
        self.done.truncated += u64::from(is_truncated(packet));
        let (number, payload) = (tcp.sequence_number(), tcp.payload());
        if self.open.len() >= MOST_CONNECTIONS && !self.open.contains_key(&addresses) {
            self.done.left_out += u64::from(!payload.is_empty());
            return;
        }
        let segment = Segment { number, is_syn: tcp.syn(), bytes: payload.len() as i64 };
        let connection = self.open.entry(addresses).or_insert_with(|| Connection::new(number));
        if connection.is_before(&segment) {
            let over = std::mem::replace(connection, Connection::new(number));
            self.done.streams.extend(over.finish(addresses));
        }
        let from = connection.place(&segment);
        match self.at_most.checked_sub(payload.len()) {
            Some(left) => self.at_most = left + payload.len() - connection.store(at_ns, from, payload),
            // From here on nothing is stored, so that the streams end here without gaps inside.
            None => (self.at_most, self.done.left_out) = (0, self.done.left_out + 1),
        }
        if tcp.fin() {
            connection.end.get_or_insert(from + segment.bytes);
        } else if tcp.rst() {
            connection.end.get_or_insert(connection.highest);
        }
    }

    /// The streams, by their times.
    pub(super) fn finish(self, notes: Vec<String>) -> CapturedStreams {
        let mut all = CapturedStreams { notes, ..self.done };
        all.streams.extend(self.open.into_iter().filter_map(|(addresses, connection)| connection.finish(addresses)));
        all.streams.sort_by_key(|stream| (stream.at_ns(0), stream.client, stream.server));
        all
    }
}

/// True if the IP header says that the packet has more bytes than were captured.
fn is_truncated(packet: &LaxSlicedPacket<'_>) -> bool {
    match &packet.net {
        Some(LaxNetSlice::Ipv4(ip)) => ip.payload().incomplete,
        Some(LaxNetSlice::Ipv6(ip)) => ip.payload().incomplete,
        _ => false,
    }
}

/// Sequence number of a segment, and what takes up numbers.
struct Segment {
    number: u32,
    is_syn: bool,
    /// Bytes of payload.
    bytes: i64,
}

/// One connection. A *position* is a sequence number that does not wrap, relative to the first captured segment.
struct Connection {
    /// Position of the first byte. `None` until the SYN is captured.
    start: Option<i64>,
    /// Sequence number of a segment near the last one, and its position.
    near: (u32, i64),
    /// Highest position after a captured byte, or after the SYN.
    highest: i64,
    /// Position after the last byte, by FIN or RST.
    end: Option<i64>,
    /// (Time (ns), bytes) by the position of the first byte. Pieces do not overlap.
    pieces: BTreeMap<i64, (i128, Vec<u8>)>,
}

impl Connection {
    /// A connection whose first captured segment has this sequence number.
    fn new(number: u32) -> Self {
        Self { start: None, near: (number, 0), highest: 0, end: None, pieces: BTreeMap::new() }
    }

    /// Position of the segment's first byte of payload. Windows are smaller than 2^31 bytes (RFC 7323, section 2.3), so
    /// that the difference of two numbers has a sign. A SYN takes up one number.
    fn position(&self, segment: &Segment) -> i64 {
        let difference = segment.number.wrapping_sub(self.near.0).cast_signed();
        self.near.1 + i64::from(difference) + i64::from(segment.is_syn)
    }

    /// True if the segment belongs to a later connection between the same ports.
    fn is_before(&self, segment: &Segment) -> bool {
        let from = self.position(segment);
        match (segment.is_syn, self.end) {
            // The SYN of this connection may be captured after its first bytes.
            (true, _) => self.start.or(self.pieces.first_key_value().map(|(at, _)| *at)) != Some(from),
            (false, Some(end)) => segment.bytes > 0 && from + segment.bytes > end,
            (false, None) => false,
        }
    }

    /// Notes which numbers the segment takes up; returns its position. Segments without bytes do not count: the number
    /// of a RST may be any.
    fn place(&mut self, segment: &Segment) -> i64 {
        let from = self.position(segment);
        if segment.is_syn {
            self.start = Some(from);
        }
        if segment.is_syn || segment.bytes > 0 {
            self.near = (segment.number, from - i64::from(segment.is_syn));
            self.highest = self.highest.max(from + segment.bytes);
        }
        from
    }

    /// Stores the bytes that no earlier segment had; returns their number.
    fn store(&mut self, at_ns: i128, from: i64, payload: &[u8]) -> usize {
        let to = from + payload.len() as i64;
        let before = self.pieces.range(..=from).next_back();
        let mut next = before.map_or(from, |(at, (_, bytes))| from.max(at + bytes.len() as i64));
        let mut stored = 0;
        while next < to {
            let known = self.pieces.range(next..to).next();
            let (until, then) = known.map_or((to, to), |(at, (_, bytes))| (*at, at + bytes.len() as i64));
            if until > next {
                let part = &payload[(next - from) as usize..(until - from) as usize];
                self.pieces.insert(next, (at_ns, part.to_vec()));
                stored += part.len();
            }
            next = then;
        }
        stored
    }

    /// The stream. `None` if the client sent no byte. Without the SYN it begins with the first captured segment: bytes
    /// before that were sent again.
    fn finish(self, (client, server): Addresses) -> Option<CapturedStream> {
        let first = self.pieces.range(0..).next().map(|(at, _)| *at);
        let start = self.start.or(first)?;
        let mut next = start;
        let is_from_start = self.start.is_some();
        let mut stream =
            CapturedStream { client, server, is_from_start, bytes: Vec::new(), segments: Vec::new(), has_gap: false };
        for (at, (at_ns, bytes)) in self.pieces.into_iter().skip_while(|(at, _)| *at < start) {
            stream.has_gap = at > next;
            if stream.has_gap {
                break;
            }
            stream.segments.push((stream.bytes.len(), at_ns));
            stream.bytes.extend_from_slice(&bytes);
            next = at + bytes.len() as i64;
        }
        stream.has_gap |= self.end.is_some_and(|end| end > next);
        (stream.has_gap || !stream.bytes.is_empty()).then_some(stream)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use etherparse::{PacketBuilder, VlanId};
    use proptest::prelude::*;

    use super::*;
    use crate::capture::reading;

    const TEXT: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
    /// Sequence number of the SYN: the numbers wrap within the text.
    const SYN: u32 = u32::MAX - 10;

    /// Kind of a segment from 192.0.2.1:5000 to 192.0.2.2:80.
    #[derive(Clone)]
    enum Sends {
        Syn,
        /// Bytes of the text.
        Bytes(Range<usize>),
        Fin,
        Rst,
    }
    use Sends::{Bytes, Fin, Rst, Syn};

    /// The packet of a segment, as raw IP.
    fn packet(kind: &Sends) -> Vec<u8> {
        let ip = || PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
        let number = |offset: usize| SYN.wrapping_add(1 + offset as u32);
        let tcp = |offset| ip().tcp(5000, 80, number(offset), 1000);
        let (tcp, bytes) = match kind {
            Syn => (ip().tcp(5000, 80, SYN, 1000).syn(), 0..0),
            Bytes(range) => (tcp(range.start).ack(1), range.clone()),
            Fin => (tcp(TEXT.len()).fin(), 0..0),
            Rst => (ip().tcp(5000, 80, 7, 0).rst(), 0..0),
        };
        let mut bytes_of_packet = Vec::new();
        tcp.write(&mut bytes_of_packet, &TEXT[bytes]).unwrap();
        bytes_of_packet
    }

    /// A capture of packets, 1 us apart. Each is: the packet, number of its bytes that were captured.
    fn pcap(link: u32, packets: &[(Vec<u8>, usize)]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]);
        file.extend(link.to_le_bytes());
        for (at_us, (packet, captured)) in packets.iter().enumerate() {
            file.extend([0, at_us as u32, *captured as u32, packet.len() as u32].iter().flat_map(|n| n.to_le_bytes()));
            file.extend(&packet[..*captured]);
        }
        file
    }

    fn read_packets(packets: &[Vec<u8>], at_most: usize) -> CapturedStreams {
        let whole: Vec<_> = packets.iter().map(|packet| (packet.clone(), packet.len())).collect();
        reading::streams(&pcap(101, &whole)[..], 80, at_most).unwrap()
    }

    fn read(segments: &[Sends]) -> Vec<CapturedStream> {
        read_packets(&segments.iter().map(packet).collect::<Vec<_>>(), 1 << 20).streams
    }

    /// The only stream of these segments: its text, whether it has a gap, and (offset, time in us) of each segment.
    fn one(segments: &[Sends]) -> (String, bool, Vec<(usize, i128)>) {
        let streams = read(segments);
        let [stream] = &streams[..] else { panic!("{streams:?}") };
        let times = stream.segments.iter().map(|(offset, at_ns)| (*offset, at_ns / 1000)).collect();
        (String::from_utf8(stream.bytes.clone()).unwrap(), stream.has_gap, times)
    }

    fn text(to: usize) -> String {
        String::from_utf8(TEXT[..to].to_vec()).unwrap()
    }

    #[test]
    fn segments_are_put_in_order() {
        let in_order = one(&[Syn, Bytes(0..5), Bytes(5..20), Bytes(20..26), Fin]);
        assert_eq!(in_order, (text(26), false, vec![(0, 1), (5, 2), (20, 3)]));
        let reordered = one(&[Syn, Bytes(20..26), Fin, Bytes(0..5), Bytes(5..20)]);
        assert_eq!(reordered, (text(26), false, vec![(0, 3), (5, 4), (20, 1)]));
        let late_syn = one(&[Bytes(0..5), Syn, Bytes(5..9)]);
        assert_eq!(late_syn, (text(9), false, vec![(0, 0), (5, 2)]));
    }

    /// A byte has the time of the first segment with it, also if a later segment with it is longer.
    #[test]
    fn bytes_that_are_sent_again_count_once() {
        let again = one(&[Syn, Syn, Bytes(0..5), Bytes(10..15), Bytes(0..5), Bytes(3..20), Bytes(0..26)]);
        assert_eq!(again, (text(26), false, vec![(0, 2), (5, 5), (10, 3), (15, 5), (20, 6)]));
        let [stream] = &read(&[Syn, Bytes(0..5), Bytes(5..20)])[..] else { panic!() };
        assert_eq!(
            [0, 4, 5, 19, 20].map(|offset| stream.at_ns(offset)),
            [Some(1000), Some(1000), Some(2000), Some(2000), None]
        );
    }

    #[test]
    fn a_lost_segment_ends_a_stream() {
        assert_eq!(one(&[Syn, Bytes(0..5), Bytes(6..20), Bytes(20..26)]), (text(5), true, vec![(0, 1)]));
        assert_eq!(one(&[Syn, Bytes(1..5)]), (String::new(), true, Vec::new()));
        assert_eq!(one(&[Syn, Bytes(0..5), Fin]), (text(5), true, vec![(0, 1)]), "FIN has the number after the last");
        assert_eq!(one(&[Syn, Bytes(0..5), Rst]), (text(5), false, vec![(0, 1)]), "the number of RST may be any");
        assert!(read(&[Syn, Rst]).is_empty() && read(&[Fin]).is_empty());
    }

    #[test]
    fn a_capture_may_begin_within_a_connection() {
        let streams = read(&[Bytes(5..9), Bytes(0..5), Bytes(9..12)]);
        assert_eq!((streams.len(), streams[0].is_from_start), (1, false));
        assert_eq!((&streams[0].bytes[..], streams[0].has_gap), (&TEXT[5..12], false));
        assert!(read(&[Syn, Bytes(0..1)])[0].is_from_start);
    }

    #[test]
    fn ports_may_be_used_again() {
        let ip = || PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
        let (mut syn, mut bytes) = (Vec::new(), Vec::new());
        ip().tcp(5000, 80, 5999, 0).syn().write(&mut syn, &[]).unwrap();
        ip().tcp(5000, 80, 6000, 0).write(&mut bytes, b"next").unwrap();
        let first = [Syn, Bytes(0..26)].map(|kind| packet(&kind));
        for between in [vec![syn], vec![packet(&Fin)], vec![packet(&Rst)]] {
            let streams = read_packets(&[first.to_vec(), between, vec![bytes.clone()]].concat(), 1 << 20).streams;
            let all: Vec<&[u8]> = streams.iter().map(|stream| &stream.bytes[..]).collect();
            assert_eq!(all, [TEXT, b"next"]);
        }
    }

    #[test]
    fn connections_differ_by_addresses_and_ports() {
        let with = |packets: &[(Vec<u8>, usize)]| reading::streams(&pcap(1, packets)[..], 80, 1 << 20).unwrap();
        let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ipv6 = |last: u8| ethernet().ipv6([last; 16], [2; 16], 64).tcp(5000, 80, 9, 0);
        let vlan = ethernet().single_vlan(VlanId::try_new(7).unwrap()).ipv4([1; 4], [2; 4], 64).tcp(5000, 80, 9, 0);
        let other = ethernet().ipv4([1; 4], [2; 4], 64).tcp(5000, 81, 9, 0);
        let answer = ethernet().ipv4([2; 4], [1; 4], 64).tcp(80, 5000, 9, 0);
        let mut packets = vec![Vec::new(); 5];
        ipv6(1).write(&mut packets[0], b"of IPv6").unwrap();
        ipv6(3).write(&mut packets[1], b"of another host").unwrap();
        vlan.write(&mut packets[2], b"of a VLAN").unwrap();
        other.write(&mut packets[3], b"to another port").unwrap();
        answer.write(&mut packets[4], b"from the port").unwrap();
        let whole: Vec<_> = packets.into_iter().map(|packet| (packet.clone(), packet.len())).collect();
        let streams = with(&whole).streams;
        let all: Vec<&[u8]> = streams.iter().map(|stream| &stream.bytes[..]).collect();
        assert_eq!(all, [&b"of IPv6"[..], b"of another host", b"of a VLAN"]);
        assert_eq!(streams[0].client.to_string(), "[101:101:101:101:101:101:101:101]:5000");
    }

    #[test]
    fn cut_segments_and_large_captures_are_counted() {
        let [syn, first, second] = [Syn, Bytes(0..10), Bytes(10..20)].map(|kind| packet(&kind));
        let cut = first.len() - 4;
        let packets = [(syn.clone(), syn.len()), (first.clone(), cut), (second.clone(), second.len())];
        let read = reading::streams(&pcap(101, &packets)[..], 80, 1 << 20).unwrap();
        assert_eq!((&read.streams[0].bytes[..], read.streams[0].has_gap, read.truncated), (&TEXT[..6], true, 1));
        let large = read_packets(&[syn, first.clone(), first, second, packet(&Bytes(20..26))], 20);
        assert_eq!((&large.streams[0].bytes[..], large.left_out), (&TEXT[..20], 1));
    }

    proptest! {
        /// Each part of the text is captured at least once, among further segments, in any order.
        #[test]
        fn any_segments_give_the_same_bytes(
            cuts in prop::collection::btree_set(1..TEXT.len(), 0..8),
            others in prop::collection::vec((0..TEXT.len(), 1..TEXT.len()), 0..8),
            order in any::<prop::sample::Index>(),
            seed in any::<u64>(),
        ) {
            let cuts: Vec<usize> = [vec![0], cuts.into_iter().collect(), vec![TEXT.len()]].concat();
            let mut segments: Vec<Sends> = cuts.windows(2).map(|pair| Bytes(pair[0]..pair[1])).collect();
            segments.extend(others.iter().map(|(from, length)| Bytes(*from..(from + length).min(TEXT.len()))));
            let mut random = crate::math::SplitMix64(seed);
            for place in (1..segments.len()).rev() {
                segments.swap(place, (random.draw() % (place as u64 + 1)) as usize);
            }
            segments.insert(0, Syn);
            segments.insert(order.index(segments.len()) + 1, Fin);
            let (bytes, has_gap, times) = one(&segments);
            prop_assert_eq!((bytes, has_gap), (text(TEXT.len()), false));
            let first_with = |offset: usize| segments.iter().position(|kind| matches!(kind, Bytes(range) if range.contains(&offset)));
            for (offset, at_us) in times {
                prop_assert_eq!(first_with(offset).map(|place| place as i128), Some(at_us));
            }
        }
    }
}
