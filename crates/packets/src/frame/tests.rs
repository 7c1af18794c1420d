use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;

fn spec(frame_bytes: usize, checksum: Checksum) -> FrameSpec {
    FrameSpec {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source: "10.1.2.3:1024".parse().expect("an address"),
        destination: "10.1.2.4:9000".parse().expect("an address"),
        more_flows: Vec::new(),
        vlan: None,
        frame_bytes,
        checksum,
        run_id: 7,
        replay: None,
    }
}

#[test]
fn the_smallest_frame_is_exactly_filled() {
    let template = Template::new(&spec(64, Checksum::Zero)).expect("64 bytes is legal");
    assert_eq!(template.bytes().len(), 60);
    for ipv6 in [false, true] {
        assert_eq!(payload_at(ipv6) + HEADER_BYTES + 4, least_bytes(ipv6));
        assert_eq!(least_bytes(ipv6) as u32, netcliff_core::finding::Settings::least_frame_bytes(ipv6));
    }
}

fn spec6(frame_bytes: usize, checksum: Checksum) -> FrameSpec {
    FrameSpec {
        source: "[2001:2::1]:1024".parse().expect("an address"),
        destination: "[2001:2::2]:9000".parse().expect("an address"),
        ..spec(frame_bytes, checksum)
    }
}

#[test]
fn ipv6_frames_begin_with_their_header_and_always_have_a_checksum() {
    let template = Template::new(&spec6(84, Checksum::Zero)).expect("84 bytes is legal");
    let mut frame = template.bytes().to_vec();
    template.stamp(&mut frame, &Header { sequence: 1, intended_ns: 2 });
    assert_eq!((frame.len(), template.payload_at()), (80, 62));
    // EtherType, version 6 with traffic class and flow label 0, payload length, next header UDP, hop limit.
    assert_eq!(frame[12..22], [0x86, 0xdd, 0x60, 0, 0, 0, 0, 26, 17, 64]);
    assert_eq!(frame[22..38], std::net::Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).octets());
    assert_eq!(frame[54..60], [4, 0, 0x23, 0x28, 0, 26]);
    assert_ne!(frame[60..62], [0, 0], "RFC 8200 forbids a checksum of 0");
    let short = Template::new(&spec6(83, Checksum::Zero)).unwrap_err().to_string();
    assert!(short.contains("84 to 9018"), "{short}");
    let two = FrameSpec { source: "10.1.2.3:1024".parse().expect("an address"), ..spec6(84, Checksum::Zero) };
    assert!(Template::new(&two).unwrap_err().to_string().contains("one family"));
}

/// The Internet checksum over IPv6's pseudo header and the datagram (RFC 8200, section 8.1), written without the
/// library: 0 if the checksum within is right.
fn residue(frame: &[u8], tag_bytes: usize) -> u16 {
    let ip = &frame[14 + tag_bytes..];
    let datagram = &ip[40..];
    let pseudo = [&ip[8..40], &(datagram.len() as u32).to_be_bytes()[..], &[0, 0, 0, 17][..]].concat();
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    !fold(words(&pseudo) + words(datagram))
}

#[test]
fn header_bytes_are_where_the_page_says() {
    let header = Header { sequence: 0x0102_0304_0506, intended_ns: 0x1112_1314_1516_1718 };
    let bytes = header.to_bytes(0);
    assert_eq!(bytes, [0x6e, 0x63, 0x66, 0x31, 1, 2, 3, 4, 5, 6, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
}

#[test]
fn foreign_payloads_are_not_ours() {
    let header = Header { sequence: 1, intended_ns: 2 };
    let bytes = header.to_bytes(7);
    assert_eq!(Header::parse(&bytes, 7), Some(header));
    assert_eq!(Header::parse(&bytes, 8), None, "another run");
    assert_eq!(Header::parse(&bytes[..17], 7), None, "too short");
    assert_eq!(Header::parse(b"", 7), None);
}

#[test]
fn sizes_out_of_range_say_what_is_accepted() {
    for size in [0, 63, 9019] {
        let error = Template::new(&spec(size, Checksum::Zero)).unwrap_err().to_string();
        assert!(error.contains(&size.to_string()) && error.contains("64 to 9018"), "{error}");
    }
}

#[test]
fn frames_of_several_flows_are_drawn_and_carry_the_tag() {
    let more_flows = vec![Ports { source: 7, destination: 9001 }, Ports { source: 8, destination: 9002 }];
    for checksum in [Checksum::Computed, Checksum::Zero] {
        let spec = FrameSpec { more_flows: more_flows.clone(), vlan: Some(5), ..spec(64, checksum) };
        let template = Template::new(&spec).expect("legal");
        let mut frame = template.bytes().to_vec();
        assert_eq!((frame.len(), template.flows(), template.payload_at()), (64, 3, 46));
        let mut of_flow = [0; 3];
        for sequence in 0..3000 {
            let flow = flow_of(sequence, 3);
            of_flow[flow] += 1;
            let ports = [(1024, 9000), (7, 9001), (8, 9002)][flow];
            template.stamp(&mut frame, &Header { sequence, intended_ns: 77 });
            let packet = SlicedPacket::from_ethernet(&frame).expect("a frame");
            assert_eq!(packet.vlan_ids().first().map(|id| id.value()), Some(5));
            let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (packet.net, packet.transport) else {
                panic!("not UDP over IPv4")
            };
            assert_eq!((udp.source_port(), udp.destination_port()), ports);
            if checksum == Checksum::Computed {
                let computed = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload());
                assert_eq!(Ok(udp.checksum()), computed);
            }
            assert_eq!(Header::parse(udp.payload(), 7).map(|header| header.sequence), Some(sequence));
        }
        // Each flow's count is binomial with mean 1000 and standard deviation 26; the seed is fixed.
        assert!(of_flow.iter().all(|frames| (900..1100).contains(frames)), "{of_flow:?}");
    }
    for (spec, word) in [
        (FrameSpec { vlan: Some(4095), ..spec(64, Checksum::Zero) }, "1 to 4094"),
        (FrameSpec { more_flows: vec![more_flows[0]; MOST_FLOWS], ..spec(64, Checksum::Zero) }, "1 to 1024 flows"),
    ] {
        let error = Template::new(&spec).expect_err("too much").to_string();
        assert!(error.contains(word), "{error}");
    }
}

proptest! {
    #[test]
    fn every_stamped_frame_parses_with_right_checksums(
        frame_bytes in 64usize..1519,
        sequence in 0..SEQUENCE_LIMIT,
        intended_ns: u64,
        run_id: u32,
    ) {
        for checksum in [Checksum::Computed, Checksum::Zero] {
            let template = Template::new(&FrameSpec { run_id, ..spec(frame_bytes, checksum) }).expect("legal");
            let mut frame = template.bytes().to_vec();
            let header = Header { sequence, intended_ns };
            // Stamp twice, because a transmit buffer is reused.
            template.stamp(&mut frame, &Header { sequence: 9, intended_ns: 9 });
            template.stamp(&mut frame, &header);
            prop_assert_eq!(frame.len() + 4, frame_bytes);
            let packet = SlicedPacket::from_ethernet(&frame).expect("a frame");
            let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("not IPv4") };
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
            prop_assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
            let computed = udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload());
            match checksum {
                Checksum::Computed => prop_assert_eq!(Ok(udp.checksum()), computed),
                Checksum::Zero => prop_assert_eq!(udp.checksum(), 0),
            }
            prop_assert_eq!(Header::parse(udp.payload(), run_id), Some(header));
        }
    }

    #[test]
    fn every_ipv6_frame_of_every_flow_has_the_right_checksum(
        frame_bytes in 84usize..1519,
        sequence in 0..SEQUENCE_LIMIT,
        intended_ns: u64,
        tagged: bool,
    ) {
        let more_flows = vec![Ports { source: 7, destination: 9001 }];
        let vlan = tagged.then_some(5);
        let template = Template::new(&FrameSpec { more_flows, vlan, ..spec6(frame_bytes, Checksum::Zero) });
        let template = template.expect("legal");
        let mut frame = template.bytes().to_vec();
        let header = Header { sequence, intended_ns };
        template.stamp(&mut frame, &Header { sequence: 9, intended_ns: 9 });
        template.stamp(&mut frame, &header);
        let tag_bytes = if tagged { 4 } else { 0 };
        prop_assert_eq!(frame.len() + 4, frame_bytes + tag_bytes);
        prop_assert_eq!(residue(&frame, tag_bytes), 0);
        prop_assert_ne!(&frame[template.payload_at() - 2..template.payload_at()], &[0u8, 0][..]);
        prop_assert_eq!(Header::parse(&frame[template.payload_at()..], 7), Some(header));
    }
}
