use etherparse::{PacketHeaders, PayloadSlice, TransportHeader};

use super::*;

const TAG: u16 = 0x4e43;

fn profile(source: &str, destination: &str) -> Profile {
    Profile {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        ports: (1000, 2000),
        sweep: Sweep { sources: 2, destinations: 3, source_ports: 4, destination_ports: 5 },
        sizes: vec![84, 594, 1518],
        replay: None,
    }
}

fn sent(templates: &Templates, sequence: u64) -> Vec<u8> {
    let mut frame = templates.filler().to_vec();
    frame.truncate(templates.length(sequence));
    templates.write(&mut frame, TAG, sequence, 1_234_567_890_123);
    frame
}

#[test]
fn frames_are_what_an_independent_parser_reads() {
    for profile in [profile("198.18.0.2", "198.19.0.2"), profile("2001:2::2", "2001:2:0:1::2")] {
        let templates = Templates::new(&profile).expect("legal");
        assert_eq!(templates.streams(), 120);
        let mut flows = std::collections::HashSet::new();
        for sequence in 0..3 * 120 {
            let frame = sent(&templates, sequence);
            assert_eq!(frame.len() + 4, profile.sizes[(sequence % 3) as usize]);
            let read = PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
            let net = read.net.expect("IP");
            let Some(TransportHeader::Udp(udp)) = read.transport else { panic!("no UDP") };
            let PayloadSlice::Udp(payload) = read.payload else { panic!("no payload") };
            if let Some((ip, _)) = net.ipv6_ref() {
                assert_eq!(udp.calc_checksum_ipv6(ip, payload).expect("it fits"), udp.checksum);
                flows.insert((ip.source.to_vec(), ip.destination.to_vec(), udp.source_port, udp.destination_port));
            } else {
                let (ip, _) = net.ipv4_ref().expect("IPv4");
                assert_eq!((ip.calc_header_checksum(), udp.checksum), (ip.header_checksum, 0));
                flows.insert((ip.source.to_vec(), ip.destination.to_vec(), udp.source_port, udp.destination_port));
            }
        }
        assert_eq!(flows.len(), 120);
    }
}

/// The frames have the sizes and flows of a capture, in its order and repeated; a flow becomes a source port.
#[test]
fn frames_of_a_capture_have_its_sizes_and_flows() {
    let address: std::net::SocketAddr = "192.0.2.1:1".parse().expect("an address");
    let flow = netcliff_core::capture::CapturedFlow { source: address, destination: address, packets: 1 };
    let packet = |(bytes, flow)| netcliff_core::capture::Captured { gap_ns: 100, bytes, flow: Some(flow) };
    let packets = [(84, 0), (1518, 1), (300, 0)].map(packet).to_vec();
    let capture = netcliff_core::Capture { packets, flows: vec![flow; 2], ..netcliff_core::Capture::default() };
    for (source, destination) in [("198.18.0.2", "198.19.0.2"), ("2001:2::2", "2001:2:0:1::2")] {
        let replay = Some(Arc::new(Replay::of(&capture)));
        let sweep = Sweep { source_ports: 2, ..Sweep::default() };
        let templates =
            Templates::new(&Profile { replay, sweep, sizes: vec![], ..profile(source, destination) }).expect("legal");
        assert_eq!((templates.streams(), templates.longest()), (2, 1514));
        for (sequence, bytes, port) in
            [(0, 84, 1000), (1, 1518, 1001), (2, 300, 1000), (3, 84, 1000), (301, 1518, 1001)]
        {
            let frame = sent(&templates, sequence);
            let read = PacketHeaders::from_ethernet_slice(&frame).expect("a frame");
            let Some(TransportHeader::Udp(udp)) = read.transport else { panic!("no UDP") };
            assert_eq!((frame.len() + 4, udp.source_port, udp.destination_port), (bytes, port, 2000));
            assert!(
                matches!(templates.parse(&frame, TAG, 1_234_567_890_123), Parsed::Ours(label) if label.sequence == sequence)
            );
        }
    }
    let small =
        capture.packets.iter().map(|packet| netcliff_core::capture::Captured { bytes: 64, ..*packet }).collect();
    let small = Some(Arc::new(Replay::of(&netcliff_core::Capture { packets: small, ..capture })));
    let refused = Templates::new(&Profile { replay: small, ..profile("2001:2::2", "2001:2:0:1::2") });
    assert!(refused.is_err_and(|error| error.to_string().contains("frame size is 64: expected 84")));
}

#[test]
fn a_frame_reads_back_and_survives_a_router() {
    let templates = Templates::new(&profile("198.18.0.2", "198.19.0.2")).expect("legal");
    for sequence in [0, 1, 2, 359, 1 << 40] {
        let mut frame = sent(&templates, sequence);
        // A router changes both hardware addresses, the time to live and the header checksum.
        frame[..12].fill(9);
        frame[22] -= 1;
        frame[24..26].fill(7);
        let label = Label { stream: templates.stream(sequence), sequence, sent_ns: 1_234_567_890_123 };
        assert_eq!(templates.parse(&frame, TAG, 1_234_567_999_999), Parsed::Ours(label));
        assert_eq!(templates.parse(&frame, TAG + 1, 0), Parsed::Foreign);
    }
}

#[test]
fn a_changed_byte_anywhere_that_counts_is_seen() {
    let templates = Templates::new(&profile("198.18.0.2", "198.19.0.2")).expect("legal");
    let good = sent(&templates, 1);
    // Each byte from the addresses on is changed, except the UDP length and checksum and the trial's tag.
    for at in (26..38).chain(44..good.len()) {
        let mut frame = good.clone();
        frame[at] ^= 0x10;
        assert_eq!(templates.parse(&frame, TAG, 1_234_567_999_999), Parsed::Corrupt, "byte {at}");
    }
    assert_eq!(templates.parse(&good[..good.len() - 1], TAG, 1_234_567_999_999), Parsed::Corrupt);
    assert_eq!(templates.parse(&good[..50], TAG, 0), Parsed::Foreign);
}

#[test]
fn times_survive_the_48_bits() {
    let templates = Templates::new(&profile("198.18.0.2", "198.19.0.2")).expect("legal");
    let mut frame = sent(&templates, 0);
    let late = (5 << 48) - 10;
    templates.write(&mut frame, TAG, 0, late);
    let Parsed::Ours(label) = templates.parse(&frame, TAG, late + 500) else { panic!("it is ours") };
    assert_eq!(label.sent_ns, late);
    let Parsed::Ours(label) = templates.parse(&frame, TAG, late - 30) else { panic!("it is ours") };
    assert_eq!(label.sent_ns, late);
}

#[test]
fn a_tag_is_sent_and_not_expected_back() {
    let tagged = Profile { vlan: Some(100), sizes: vec![68], ..profile("198.18.0.2", "198.19.0.2") };
    let templates = Templates::new(&tagged).expect("legal");
    let frame = sent(&templates, 7);
    assert_eq!(frame[12..16], [0x81, 0, 0, 100]);
    let seen: Vec<u8> = frame[..12].iter().chain(&frame[16..]).copied().collect();
    assert!(matches!(templates.parse(&seen, TAG, 1_234_567_999_999), Parsed::Ours(label) if label.sequence == 7));
}

#[test]
fn what_cannot_be_is_refused_with_its_value() {
    let good = profile("198.18.0.2", "198.19.0.2");
    for (bad, what) in [
        (Profile { sizes: vec![63], ..good.clone() }, "frame size is 63: expected 64 to 9018"),
        (Profile { sizes: vec![64], vlan: Some(1), ..good.clone() }, "frame size is 64: expected 68"),
        (Profile { sizes: vec![], ..good.clone() }, "sizes is empty"),
        (Profile { vlan: Some(4095), ..good.clone() }, "vlan is 4095"),
        (Profile { destination: "::1".parse().expect("an address"), ..good.clone() }, "two of one family"),
        (Profile { sweep: Sweep { sources: 70_000, ..Sweep::default() }, ..good.clone() }, "streams is 70000"),
    ] {
        let error = Templates::new(&bad).expect_err("it is illegal").to_string();
        assert!(error.contains(what), "{error}");
    }
}
