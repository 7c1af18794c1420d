//! Tests of captures that are written byte by byte, as the format specifications require.

use super::*;
use netcliff_core::note::Note;
use netcliff_core::queues::rss::Table;
use netcliff_core::warning::Warning;
use netcliff_core::{Flows, Host, Point, Traffic};

/// An Ethernet frame of `length` bytes without FCS: IPv4 and UDP from 10.0.0.1:`port` to 10.0.0.2:9.
fn frame(port: u16, length: usize) -> Vec<u8> {
    let payload = vec![0; length - 14 - 20 - 8];
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut bytes = Vec::new();
    builder.udp(port, 9).write(&mut bytes, &payload).unwrap();
    bytes
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn read_bytes(bytes: &[u8]) -> Result<Capture, FileError> {
    read(written(bytes).path().to_str().unwrap())
}

/// Writes numbers in the byte order of the file.
#[derive(Clone, Copy)]
struct ByteOrder(bool);

impl ByteOrder {
    fn u32(self, value: u32) -> [u8; 4] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u16(self, value: u16) -> [u8; 2] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

/// A pcap file with these packets. A packet is: seconds, fraction of a second, frame, captured length.
fn pcap(order: ByteOrder, magic: u32, link: u32, packets: &[(u32, u32, Vec<u8>, usize)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(order.u32(magic));
    bytes.extend(order.u16(2));
    bytes.extend(order.u16(4));
    for value in [0, 0, 65_535, link] {
        bytes.extend(order.u32(value));
    }
    for (seconds, fraction, frame, captured) in packets {
        for value in [*seconds, *fraction, *captured as u32, frame.len() as u32] {
            bytes.extend(order.u32(value));
        }
        bytes.extend(&frame[..*captured]);
    }
    bytes
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

#[test]
fn pcap_of_both_orders_and_resolutions() {
    let (small, large) = (frame(1000, 60), frame(1001, 1514));
    for (magic, unit_ns) in [(MICROSECONDS, 1000), (NANOSECONDS, 1)] {
        for big_endian in [false, true] {
            let packets = [
                (7, 999_990, small.clone(), 60),
                (7, 999_995, large.clone(), 96),
                (7, 1_000_000 - 1, small.clone(), 60),
            ];
            let capture = read_bytes(&pcap(ByteOrder(big_endian), magic, 1, &packets)).unwrap();
            let gaps: Vec<u64> = capture.packets.iter().map(|packet| packet.gap_ns).collect();
            assert_eq!(gaps, [9 * unit_ns / 2, 5 * unit_ns, 4 * unit_ns], "{magic:x} {big_endian}");
            // The sizes include the FCS. A truncated packet counts with its whole length.
            assert_eq!(capture.sizes(), [(64, 2.0), (1518, 1.0)]);
            assert_eq!(capture.flows.len(), 2);
            assert_eq!((capture.flows[0].source.to_string(), capture.flows[0].packets), ("10.0.0.1:1000".into(), 2));
            let rate = 3.0 / (13.5e-9 * unit_ns as f64);
            assert!((capture.rate_pps() / rate - 1.0).abs() < 0.05, "{} {rate}", capture.rate_pps());
        }
    }
}

fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().div_ceil(4) * 4;
    let length = order.u32(12 + padded as u32);
    let mut bytes = [order.u32(kind).as_slice(), &length, body].concat();
    bytes.resize(8 + padded, 0);
    bytes.extend(length);
    bytes
}

fn section(order: ByteOrder) -> Vec<u8> {
    let body = [order.u32(0x1a2b_3c4d).as_slice(), &order.u16(1), &order.u16(0), &[0xff; 8]].concat();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: ByteOrder, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [order.u16(link).as_slice(), &order.u16(0), &order.u32(0)].concat();
    if let Some(resolution) = resolution {
        body.extend([order.u16(9), order.u16(1)].concat());
        body.extend([resolution, 0, 0, 0]);
        body.extend([0; 4]);
    }
    block(order, 1, &body)
}

fn enhanced(order: ByteOrder, interface: u32, units: u64, frame: &[u8]) -> Vec<u8> {
    let length = order.u32(frame.len() as u32);
    let numbers = [order.u32(interface), order.u32((units >> 32) as u32), order.u32(units as u32), length, length];
    block(order, 6, &[numbers.concat().as_slice(), frame].concat())
}

/// Two interfaces of different resolution (microseconds by default, nanoseconds by option), not in order of time.
#[test]
fn pcapng_of_several_interfaces() {
    for big_endian in [false, true] {
        let order = ByteOrder(big_endian);
        let bytes = [
            section(order),
            interface(order, 1, None),
            interface(order, 1, Some(9)),
            enhanced(order, 0, 5_000_000_010, &frame(1, 60)),
            enhanced(order, 1, 5_000_000_004_000, &frame(2, 100)),
            enhanced(order, 0, 5_000_000_030, &frame(1, 60)),
        ]
        .concat();
        let capture = read_bytes(&bytes).unwrap();
        let found: Vec<(u64, u32)> = capture.packets.iter().map(|packet| (packet.gap_ns, packet.bytes)).collect();
        assert_eq!(found, [(13_000, 104), (6_000, 64), (20_000, 64)]);
    }
}

/// Times in parts of 2^-20 and 2^-63 s: half a second is half a second in each.
#[test]
fn pcapng_with_a_binary_resolution() {
    for big_endian in [false, true] {
        let order = ByteOrder(big_endian);
        for exponent in [20, 32, 63] {
            let bytes = [
                section(order),
                interface(order, 1, Some(0x80 | exponent)),
                enhanced(order, 0, 1 << exponent, &frame(1, 60)),
                enhanced(order, 0, (1 << exponent) + (1 << (exponent - 1)), &frame(2, 100)),
            ]
            .concat();
            let capture = read_bytes(&bytes).unwrap();
            assert_eq!(capture.packets[1].gap_ns, 500_000_000, "2^-{exponent}");
        }
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let order = ByteOrder(false);
    let good = [(1, 0, frame(1, 60), 60), (2, 0, frame(1, 60), 60)];
    let whole = pcap(order, MICROSECONDS, 1, &good);
    let simple = block(order, 3, &[order.u32(60).as_slice(), &frame(1, 60)].concat());
    let ng = |blocks: &[Vec<u8>]| [section(order), blocks.concat()].concat();
    for (bytes, part) in [
        (b"hello, this is text and no capture at all".to_vec(), "neither pcap nor pcapng"),
        (b"hello, this is text and no capture at all".to_vec(), "but text; write packets"),
        (Vec::new(), "is empty"),
        (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec(), "but Solaris snoop; convert it: editcap -F pcapng"),
        (b"\xfd7zXZ\0\0\x04".to_vec(), "packed by xz; unpack it first: xz -dk"),
        (b"BZh91AY&SY".to_vec(), "packed by bzip2"),
        (b"\x04\x22\x4d\x18\x64".to_vec(), "packed by lz4"),
        (b"PK\x03\x04\x14\0".to_vec(), "a zip archive"),
        (b"btsnoop\0\0\0\0\x01".to_vec(), "Bluetooth's btsnoop"),
        ([0, 0, 0, 0, 1, 0, 0, 0, 2, 4, 0, 80, 0, 0, 0, 62, 0, 0].to_vec(), "probably ERF (Endace); convert it"),
        (pcap(order, MICROSECONDS, 1, &[]), "holds no packet"),
        (pcap(order, MICROSECONDS, 1, &good[..1]), "1 packet over no time"),
        (whole[..60].to_vec(), "damaged after packet 0: the file ends"),
        (pcap(order, MICROSECONDS, 105, &good), "2 packets of link type 105 (IEEE 802.11); Ethernet,"),
        (ng(&[interface(order, 1, None), simple]), "holds simple packets only (1), which have no time"),
        (ng(&[enhanced(order, 3, 1, &frame(1, 60))]), "interface 3, which is not described"),
        (ng(&[interface(order, 1, Some(30))]), "interface 0 has an impossible resolution of time (if_tsresol 0x1e)"),
        (ng(&[interface(order, 1, Some(0xff))]), "impossible resolution of time (if_tsresol 0xff)"),
    ] {
        let error = read_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(read("/no/such/file.pcap").unwrap_err().to_string().contains("No such file"));
    assert!(read("/tmp").unwrap_err().to_string().contains("is a directory"));
}

/// If tcpdump is installed, the test reads a file that tcpdump wrote.
#[test]
fn a_file_of_another_program() {
    let bytes = pcap(ByteOrder(false), NANOSECONDS, 1, &[(1, 0, frame(1, 60), 60), (1, 500_000, frame(2, 90), 90)]);
    let (ours, theirs) = (written(&bytes), tempfile::NamedTempFile::new().unwrap());
    if !netcliff_testkit::has_program("tcpdump") {
        return;
    }
    let run = std::process::Command::new("tcpdump").arg("-r").arg(ours.path()).arg("-w").arg(theirs.path()).output();
    let output = run.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let capture = read(theirs.path().to_str().unwrap()).unwrap();
    assert_eq!(capture.sizes(), [(64, 1.0), (94, 1.0)]);
}

/// An obsolete Packet Block (type 2).
fn obsolete(order: ByteOrder, interface: u16, units: u64, frame: &[u8]) -> Vec<u8> {
    let length = order.u32(frame.len() as u32);
    let place = [order.u16(interface), order.u16(0)].concat();
    let times = [order.u32((units >> 32) as u32), order.u32(units as u32), length, length].concat();
    block(order, 2, &[place.as_slice(), &times, frame].concat())
}

#[test]
fn old_packet_blocks_count_as_new_ones_do_and_what_has_no_packet_is_passed_over() {
    for order in [ByteOrder(false), ByteOrder(true)] {
        let bytes = [
            section(order),
            interface(order, 1, None),
            interface(order, 1, Some(9)),
            obsolete(order, 0, 1_000_000, &frame(1, 60)),
            // Blocks of statistics, names and secrets, a custom block, and a block of an unknown type.
            block(order, 5, &[0; 12]),
            block(order, 4, &[0; 4]),
            block(order, 10, &[[0; 4], order.u32(0)].concat()),
            block(order, 0xbad, &[0; 8]),
            block(order, 0x7777, &[1, 2, 3, 4]),
            obsolete(order, 1, 2_000_000_000, &frame(2, 100)),
            enhanced(order, 0, 4_000_000, &frame(1, 60)),
            // Another section numbers its interfaces anew.
            section(order),
            interface(order, 1, Some(3)),
            enhanced(order, 0, 7_000, &frame(1, 60)),
        ]
        .concat();
        let capture = read_bytes(&bytes).unwrap();
        let seen: Vec<(u64, u32)> =
            capture.packets.iter().skip(1).map(|packet| (packet.gap_ns, packet.bytes)).collect();
        assert_eq!(seen, [(1_000_000_000, 104), (2_000_000_000, 64), (3_000_000_000, 64)]);
        assert!(capture.notes.is_empty(), "{:?}", capture.notes);
    }
}

/// The same IPv4 packet behind each link layer's header counts as an Ethernet frame of 104 bytes with FCS, in the same
/// flow.
#[test]
fn links_are_taken_for_ethernet() {
    let whole = frame(7, 100);
    let ip = &whole[14..];
    let sll = [[0; 14].as_slice(), &[0x08, 0x00], ip].concat();
    let sll2 = [[0x08, 0x00].as_slice(), &[0; 18], ip].concat();
    for (link, packet) in [
        (1, whole.clone()),
        (101, ip.to_vec()),
        (12, ip.to_vec()),
        (228, ip.to_vec()),
        (0, [&[2, 0, 0, 0], ip].concat()),
        (108, [&[0, 0, 0, 2], ip].concat()),
        (113, sll),
        (276, sll2),
        (9, [&[0x00, 0x21], ip].concat()),
        (9, [&[0xff, 0x03, 0x00, 0x21], ip].concat()),
        (50, [&[0xff, 0x03, 0x00, 0x21], ip].concat()),
        (9, [&[0x21], ip].concat()),
        (104, [&[0x0f, 0x00, 0x08, 0x00], ip].concat()),
    ] {
        let length = packet.len();
        let packets = [(1, 0, packet.clone(), length), (2, 0, packet, length)];
        let capture = read_bytes(&pcap(ByteOrder(false), MICROSECONDS, link, &packets)).unwrap();
        assert_eq!(capture.sizes(), [(104, 2.0)], "link type {link}");
        assert_eq!(capture.flows[0].source.to_string(), "10.0.0.1:7", "link type {link}");
        assert!(capture.notes.is_empty(), "link type {link}: {:?}", capture.notes);
    }
}

#[test]
fn an_fcs_that_the_file_names_is_not_added_again() {
    let with_fcs = [frame(1, 60), vec![9; 4]].concat();
    let packets = [(1, 0, with_fcs.clone(), 64), (2, 0, with_fcs.clone(), 64)];
    // The link type says that an FCS of two 16-bit words ends each frame.
    let capture = read_bytes(&pcap(ByteOrder(false), MICROSECONDS, 1 | 0x0400_0000 | 2 << 28, &packets)).unwrap();
    assert_eq!(capture.sizes(), [(64, 2.0)]);
    let order = ByteOrder(true);
    let long = [frame(1, 100), vec![9; 4]].concat();
    let mut body = [order.u16(1).as_slice(), &order.u16(0), &order.u32(0)].concat();
    body.extend([order.u16(13).as_slice(), &order.u16(1), &[4, 0, 0, 0], &[0; 4]].concat());
    let bytes = [section(order), block(order, 1, &body), enhanced(order, 0, 1, &long), enhanced(order, 0, 9, &long)];
    assert_eq!(read_bytes(&bytes.concat()).unwrap().sizes(), [(104, 2.0)]);
}

#[test]
fn what_is_left_out_is_counted_and_named() {
    let order = ByteOrder(false);
    let arp = [[2; 12].as_slice(), &[0x08, 0x06], &[0; 46]].concat();
    let bytes = [
        section(order),
        interface(order, 1, None),
        interface(order, 127, None),
        enhanced(order, 0, 1_000_000, &frame(1, 60)),
        enhanced(order, 1, 1_500_000, &[0; 80]),
        enhanced(order, 1, 1_600_000, &[0; 80]),
        block(order, 3, &[order.u32(60).as_slice(), &frame(1, 60)].concat()),
        enhanced(order, 0, 2_000_000, &arp),
        enhanced(order, 0, 3_000_000, &frame(1, 60)),
    ]
    .concat();
    let capture = read_bytes(&bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(capture.packets.len(), 2);
    let notes = capture.notes.join("; ");
    for part in
        ["2 packets of link type 127 (IEEE 802.11 with radiotap)", "1 packet of simple blocks", "the first 2 packets"]
    {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert!(!notes.contains("flow"), "one queue takes all: {notes}");
    // Packets without a flow belong to the first queue.
    let flows = super::super::flows(&Flows::Capture { file: written_at(&bytes), capture: None }).unwrap();
    let shares = flows.shares(&Table::new(&[], 4));
    let point = |queues: Option<&str>| {
        let host = Host { queues: queues.map(|text| text.parse().unwrap()), ..Host::pentium4_2530mhz() };
        let traffic = Traffic { flows: Some(flows.clone()), ..Traffic::default() };
        Point { traffic, ..Point::poisson(host, "napi".parse().unwrap(), 1e5) }
    };
    let no_header = |note: &Note| matches!(note, Note::Warning(Warning::NoHeader(_, 1, 3)));
    let warned = |queues| point(queues).warnings();
    assert!(warned(Some("4")).iter().any(no_header), "{:?}", warned(Some("4")));
    assert!(!warned(None).iter().any(no_header));
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares[0] >= 1.0 / 3.0 - 1e-9, "{shares:?}");
}

/// A TCP buffer before segmentation: 4 segments of 1448 and one of 8 bytes; a UDP datagram in fragments.
#[test]
fn a_buffer_longer_than_the_mtu_counts_as_its_frames() {
    let mut tcp = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let timestamps = [
        etherparse::TcpOptionElement::Noop,
        etherparse::TcpOptionElement::Noop,
        etherparse::TcpOptionElement::Timestamp(1, 1),
    ];
    let header = builder.tcp(1, 2, 3, 4).options(&timestamps).unwrap();
    header.write(&mut tcp, &vec![0; 4 * 1448 + 8]).unwrap();
    let udp = frame(1, 14 + 20 + 8 + 3000);
    let small = frame(1, 60);
    let packets: Vec<(u32, u32, Vec<u8>, usize)> = [&tcp, &udp, &small]
        .into_iter()
        .zip(1..)
        .map(|(packet, at)| (at, 0, packet.clone(), packet.len().min(96)))
        .collect();
    let file = pcap(ByteOrder(false), MICROSECONDS, 1, &packets);
    let capture = read_bytes(&file).unwrap();
    let sizes: Vec<u32> = capture.packets.iter().map(|packet| packet.bytes).collect();
    // 14 + 20 + 32 + 1448 + 4; fragments of 1480, 1480 and 48 bytes behind an IP header each.
    assert_eq!(sizes, [1518, 1518, 1518, 1518, 78, 1518, 1518, 86, 64]);
    assert!(
        capture.notes[0].contains("2 packets longer than an MTU of 1500 B")
            && capture.notes[0].contains("the 8 frames")
    );
    let packets: u64 = capture.flows.iter().map(|flow| flow.packets).sum();
    assert_eq!(packets, 9);
    let large = read(&format!("{},mtu=9000", written_at(&file))).unwrap();
    assert_eq!((large.packets.len(), large.notes.len()), (3, 0));
    let wrong = read(&format!("{},mtu=9", written_at(&file))).unwrap_err().to_string();
    assert!(wrong.contains("256 to 65535"), "{wrong}");
}

#[test]
fn packed_captures_are_read_as_they_are_and_cut_ones_as_far_as_they_go() {
    let packets: Vec<(u32, u32, Vec<u8>, usize)> = (1..400).map(|at| (at, 0, frame(at as u16, 300), 300)).collect();
    let plain = pcap(ByteOrder(true), NANOSECONDS, 1, &packets);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(plain.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
    let expected = read_bytes(&plain).unwrap();
    for packed in [&gzip, &zstd] {
        let capture = read_bytes(packed).unwrap();
        assert_eq!((capture.packets, capture.flows), (expected.packets.clone(), expected.flows.clone()));
    }
    let cut = read_bytes(&gzip[..gzip.len() / 2]).unwrap();
    assert!((2..399).contains(&cut.packets.len()) && cut.notes[0].contains("packets count"), "{:?}", cut.notes);
    assert!(read_bytes(&gzip[..20]).is_err() && read_bytes(&zstd[..8]).is_err());
}

/// A zstd file may have several frames (pzstd, `cat`), some of them skippable.
#[test]
fn all_frames_of_a_packed_capture_are_read() {
    let packets: Vec<(u32, u32, Vec<u8>, usize)> = (1..400).map(|at| (at, 0, frame(at as u16, 300), 300)).collect();
    let plain = pcap(ByteOrder(false), MICROSECONDS, 1, &packets);
    let pack = |bytes| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], b"abc".as_slice()].concat();
    let (head, tail) = plain.split_at(5000);
    for file in [
        [pack(head), pack(tail)].concat(),
        [skipped.clone(), pack(head), skipped.clone(), pack(tail), skipped].concat(),
    ] {
        let capture = read_bytes(&file).unwrap();
        assert_eq!((capture.packets.len(), capture.notes.as_slice()), (399, [].as_slice()));
    }
    let garbage = read_bytes(&[pack(&plain), b"garbage".to_vec()].concat()).unwrap();
    assert_eq!(garbage.packets.len(), 399);
    assert!(garbage.notes[0].contains("the rest of the file cannot be unpacked"), "{:?}", garbage.notes);
}

/// Kuznetzov's "modified" pcap: each record has 8 more bytes, in either byte order.
#[test]
fn modified_pcap_of_both_byte_orders() {
    for order in [ByteOrder(false), ByteOrder(true)] {
        let mut bytes = pcap(order, 0xa1b2_cd34, 1, &[]);
        for at in 1..=3 {
            for value in [at, 0, 60, 60, 2, 0] {
                bytes.extend(order.u32(value));
            }
            bytes.extend(frame(at as u16, 60));
        }
        let capture = read_bytes(&bytes).unwrap();
        assert_eq!((capture.sizes(), capture.flows.len(), capture.notes.len()), (vec![(64, 3.0)], 3, 0));
        let cut = read_bytes(&bytes[..bytes.len() - 70]).unwrap();
        assert_eq!((cut.packets.len(), cut.notes.len()), (2, 1));
    }
}

/// After `cat a.pcap b.pcap`, or with zeros left by a crash, the reader does not mistake a magic number or zeros for a
/// packet.
#[test]
fn what_follows_the_last_packet_is_no_packet() {
    let packets: Vec<(u32, u32, Vec<u8>, usize)> = (1..4).map(|at| (at, 0, frame(1, 60), 60)).collect();
    for order in [ByteOrder(false), ByteOrder(true)] {
        let file = pcap(order, MICROSECONDS, 1, &packets);
        let other = pcap(order, NANOSECONDS, 1, &packets);
        for (tail, part) in [(&file, "mergecap"), (&other, "mergecap"), (&vec![0; 512], "zeros follow")] {
            let capture = read_bytes(&[file.as_slice(), tail].concat()).unwrap();
            assert_eq!(capture.packets.len(), 3, "{:?}", capture.notes);
            assert!(capture.notes[0].contains("the first 3 packets count") && capture.notes[0].contains(part));
        }
    }
}

/// Packets that the capturing program lost: dumpcap counts them at the end of the file, other programs with each
/// packet.
#[test]
fn packets_that_the_capture_lacks_are_said() {
    for order in [ByteOrder(false), ByteOrder(true)] {
        let number = |value: u64| if order.0 { value.to_be_bytes() } else { value.to_le_bytes() };
        let option = |code: u16, value: u64| [order.u16(code), order.u16(8)].concat().into_iter().chain(number(value));
        let statistics: Vec<u8> = [0; 12].into_iter().chain(option(5, 30)).chain(option(7, 12)).collect();
        let two = [1, 2].map(|at| enhanced(order, 0, at * 1_000_000, &frame(1, 60))).concat();
        let bytes = [section(order), interface(order, 1, None), two, block(order, 5, &statistics)].concat();
        let notes = read_bytes(&bytes).unwrap().notes;
        assert!(notes[0].contains("lost 42 packets besides the 2 of this file"), "{notes:?}");
    }
}

#[test]
fn a_name_may_hold_what_options_look_like_and_options_come_in_any_order() {
    let read = |text: &str| text.parse::<netcliff_core::Arrivals>().unwrap().to_string();
    assert_eq!(read("trace:a.pcap,speed=2,mtu=9000,once"), "trace:a.pcap,mtu=9000,speed=2,once");
    assert_eq!(read("trace:a.pcap,once,mtu=9000"), "trace:a.pcap,mtu=9000,once");
    assert_eq!(read("trace:a,speed=2.pcap"), "trace:a,speed=2.pcap");
    assert!("trace:a.pcap,speed=fast".parse::<netcliff_core::Arrivals>().is_err());
    let stdin = super::read("-").unwrap_err().to_string();
    assert!(stdin.contains("captures are read from files: tcpdump -w FILE"), "{stdin}");
}

/// Frame sizes from a capture have the capture's notes.
#[test]
fn frame_sizes_of_a_capture_say_what_is_left_out() {
    let order = ByteOrder(false);
    let two = [1, 2].map(|at| enhanced(order, 0, at * 1_000_000, &frame(1, 60))).concat();
    let other = enhanced(order, 1, 3_000_000, &[0; 80]);
    let bytes = [section(order), interface(order, 1, None), interface(order, 127, None), two, other].concat();
    let file = written(&bytes);
    let path = file.path().to_str().unwrap().to_owned();
    let size = super::super::frame_sizes(&netcliff_core::FrameSizes::File(path)).unwrap();
    assert_eq!(size.to_string(), "mixture:64=2");
    let notes = Traffic { size, ..Traffic::default() }.capture_notes();
    assert!(notes[0].contains("1 packet of link type 127"), "{notes:?}");
}

/// Writes a file that is not removed at the end. Returns its path.
fn written_at(bytes: &[u8]) -> String {
    let (_, path) = written(bytes).keep().unwrap();
    path.display().to_string()
}
