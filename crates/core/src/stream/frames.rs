//! Sizes of payload on Ethernet without VLAN tags: headers, fragments, the shortest frame, preamble and gap.

/// Ethernet's overhead of an IP packet (bytes): header 14, check sequence 4, preamble 8 and gap 12.
pub const ETHERNET_BYTES: f64 = 38.0;

/// The shortest frame (64) with preamble and gap (bytes).
const LEAST_BYTES: u64 = 84;
const AROUND_BYTES: u64 = 38;
const UDP_BYTES: u64 = 8;
/// IP headers without options (bytes); IPv6's fragments have an additional header.
const IPV4_BYTES: u64 = 20;
const IPV6_BYTES: u64 = 40;
const IPV6_FRAGMENT_BYTES: u64 = 8;

/// Bytes on the wire for a payload (bytes) in segments of equal size, with IP and transport headers of `header_bytes`
/// (bytes); includes framing, preamble and gap.
pub fn wire_bytes(payload_bytes: f64, segments: f64, header_bytes: f64) -> f64 {
    (payload_bytes + segments * (header_bytes + ETHERNET_BYTES)).max(segments * LEAST_BYTES as f64)
}

/// Largest share of a line's rate that payload can have, with full segments of `payload_bytes`.
pub fn payload_share(payload_bytes: f64, header_bytes: f64) -> f64 {
    payload_bytes / wire_bytes(payload_bytes, 1.0, header_bytes)
}

/// A UDP datagram on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramFrames {
    /// Number of frames: above 1 if the datagram exceeds the MTU.
    pub frames: u64,
    /// Bytes of all frames, preamble and gap included.
    pub wire_bytes: u64,
}

/// The frames of a datagram as Linux fragments it. Fragments are multiples of 8 bytes; with IPv4 the last one may be as
/// long as the MTU (`__ip_append_data`), with IPv6 it is no longer than the others (`__ip6_append_data`). None if the
/// MTU is too small for a fragment.
pub fn datagram_frames(payload_bytes: u64, ipv6: bool, mtu_bytes: u64) -> Option<DatagramFrames> {
    let frame = |ip_bytes: u64| (ip_bytes + AROUND_BYTES).max(LEAST_BYTES);
    let header = if ipv6 { IPV6_BYTES } else { IPV4_BYTES };
    let data = payload_bytes + UDP_BYTES;
    if header + data <= mtu_bytes {
        return Some(DatagramFrames { frames: 1, wire_bytes: frame(header + data) });
    }
    let header = if ipv6 { header + IPV6_FRAGMENT_BYTES } else { header };
    let room = mtu_bytes.checked_sub(header)?;
    let full = room & !7;
    let longest_last = if ipv6 { full } else { room };
    if full == 0 {
        return None;
    }
    let before = data.saturating_sub(longest_last).div_ceil(full);
    let last = data - before * full;
    Some(DatagramFrames { frames: before + 1, wire_bytes: before * frame(header + full) + frame(header + last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_frames_carry_what_ethernet_lets_them() {
        // 1448 bytes of payload after 52 bytes of headers, in a frame of 1538 bytes on the wire: 94.1 %.
        assert!((payload_share(1448.0, 52.0) - 0.941_482).abs() < 1e-6);
        assert_eq!(wire_bytes(1448.0, 1.0, 52.0), 1538.0);
        // One byte of payload after 40 bytes of headers gives the shortest frame.
        assert_eq!(wire_bytes(10.0, 10.0, 40.0), 840.0);
    }

    #[test]
    fn a_datagram_is_a_frame_or_fragments() {
        let frames = |payload, ipv6, mtu| {
            let found = datagram_frames(payload, ipv6, mtu).expect("it fits");
            (found.frames, found.wire_bytes)
        };
        assert_eq!(frames(1472, false, 1500), (1, 1538));
        assert_eq!(frames(1452, true, 1500), (1, 1538));
        // With IPv4, 18 bytes of payload fill the shortest frame; IPv6 and UDP headers alone are longer than that.
        assert_eq!(
            (frames(8, false, 1500), frames(18, false, 1500), frames(19, false, 1500)),
            ((1, 84), (1, 84), (1, 85))
        );
        assert_eq!(frames(8, true, 1500), (1, 94));
        // With one byte more than fits, a second fragment has its own frame.
        assert_eq!(frames(1473, false, 1500), (2, 1538 + 84));
        assert_eq!(frames(1453, true, 1500), (2, 48 + 1448 + 38 + (48 + 13 + 38)));
        assert_eq!(frames(65_507, false, 1500).0, 45);
        assert_eq!(frames(65_507, false, 65_536), (1, 65_535 + 38));
        assert_eq!((datagram_frames(100, false, 27), datagram_frames(100, true, 40)), (None, None));
    }

    /// Compares the result with a fragmentation step by step.
    #[test]
    fn fragments_are_those_that_are_cut_one_by_one() {
        for ipv6 in [false, true] {
            for mtu in [576_u64, 1280, 1279, 1281, 1499, 1500, 1501, 1506, 9000] {
                for payload in (8..20_000).step_by(7).chain([65_507]) {
                    let header = if ipv6 { 40 } else { 20 };
                    let mut left = payload + 8;
                    let (mut count, mut bytes) = (0, 0);
                    if header + left <= mtu {
                        (count, bytes) = (1, (header + left + 38).max(84));
                        left = 0;
                    }
                    let header = if ipv6 { 48 } else { 20 };
                    while left > 0 {
                        let room = mtu - header;
                        let fits_last = left <= if ipv6 { room / 8 * 8 } else { room };
                        let data = if fits_last { left } else { room / 8 * 8 };
                        (count, bytes) = (count + 1, bytes + (header + data + 38).max(84));
                        left -= data;
                    }
                    let found = datagram_frames(payload, ipv6, mtu).expect("it fits");
                    assert_eq!((found.frames, found.wire_bytes), (count, bytes), "{payload} over {mtu}, ipv6 {ipv6}");
                }
            }
        }
    }
}
