//! Captures written byte by byte, as the formats say.

use super::*;

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

/// Numbers in the byte order of the file.
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

/// Packets: (seconds, fraction, frame, captured length).
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
            // FCS added; a cut packet counts whole.
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
        (Vec::new(), "neither pcap nor pcapng"),
        (pcap(order, MICROSECONDS, 1, &[]), "holds no packet"),
        (pcap(order, MICROSECONDS, 1, &good[..1]), "1 packet(s) over no time"),
        (whole[..whole.len() - 10].to_vec(), "damaged after packet 1: the file ends in the middle"),
        (pcap(order, MICROSECONDS, 105, &good), "link type 105"),
        (ng(&[interface(order, 1, None), simple]), "simple packet, which has no time"),
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

/// tcpdump's own file of real packets, where the program is there.
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
