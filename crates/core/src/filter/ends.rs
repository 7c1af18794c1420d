//! Tests of addresses and protocols.

use super::{Node, Word};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Which address or port of a packet a test is about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Way {
    /// Source or destination.
    #[default]
    Either,
    /// Source and destination.
    Both,
    /// The source only.
    Source,
    /// The destination only.
    Destination,
}

impl Way {
    /// Joins a test of the source and one of the destination.
    pub(super) fn of(self, source: Node, destination: Node) -> Node {
        match self {
            Way::Either => source.or(destination),
            Way::Both => source.and(destination),
            Way::Source => source,
            Way::Destination => destination,
        }
    }
}

/// Reads the first bytes of an IPv4 address, such as `192.168` or `10`; returns the address and the number of bits
/// given. `None` if `text` is not one to four bytes.
pub(super) fn partial(text: &str) -> Option<(Ipv4Addr, u32)> {
    let bytes: Vec<u8> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let mut whole = [0; 4];
    whole.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some((whole.into(), 8 * bytes.len() as u32))
}

/// Mask of the first `prefix` bits of a word.
pub(super) fn mask(prefix: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix).unwrap_or(0)
}

/// Test for an IP protocol, in one IP version or, if `version` is `None`, in both; in IPv6 also after a fragment
/// header, as in libpcap's `gen_proto`.
pub(super) fn protocol(version: Option<u32>, number: u32) -> Node {
    let four = || Node::is(Word::Version, 4).and(Node::is(Word::Protocol, number));
    let six = || Node::is(Word::Version, 6).and(Node::is(Word::Protocol, number).or(Node::is(Word::Inner, number)));
    match version {
        Some(4) => four(),
        Some(_) => six(),
        // For every number except 0 and 44, `Word::Inner` alone decides, in both IP versions. 0 needs a test of the
        // version, because the word is 0 in packets that are not IP. 44 needs a test of `Word::Protocol`, because the
        // word of an IPv6 packet with a fragment header is the protocol after that header.
        None if number == 0 || number == FRAGMENT => four().or(six()),
        None => Node::is(Word::Inner, number),
    }
}

/// Protocol number of IPv6's fragment header.
const FRAGMENT: u32 = 44;

/// Test whether an address lies in an IPv4 network, in packets of `version`.
pub(super) fn net4(address: Ipv4Addr, mask: u32, way: Way, version: Node) -> Node {
    let value = address.to_bits() & mask;
    let end = |word: Word| Node::Is { word: word as u8, mask, low: value, high: value };
    version.and(way.of(end(Word::Source), end(Word::Destination)))
}

/// Test whether an address lies in an IPv6 network.
pub(super) fn net6(address: Ipv6Addr, prefix: u32, way: Way) -> Node {
    let bits = address.to_bits();
    let end = |first: Word| {
        let word = |n: u32| {
            let mask = mask(prefix.saturating_sub(32 * n).min(32));
            let value = (bits >> (96 - 32 * n)) as u32 & mask;
            Node::Is { word: first as u8 + n as u8, mask, low: value, high: value }
        };
        let words = (0..4).filter(|n| prefix > 32 * n).map(word);
        words.reduce(Node::and).unwrap_or(Node::within(first, 0, u32::MAX))
    };
    Node::is(Word::Version, 6).and(way.of(end(Word::Source), end(Word::Destination)))
}
