//! Tests of addresses and protocols.

use super::{Node, Word};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Which end of a packet is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Way {
    /// One of them.
    #[default]
    Either,
    /// Each of them.
    Both,
    /// Where it is from.
    Source,
    /// Where it goes.
    Destination,
}

impl Way {
    /// The test of that end.
    pub(super) fn of(self, source: Node, destination: Node) -> Node {
        match self {
            Way::Either => source.or(destination),
            Way::Both => source.and(destination),
            Way::Source => source,
            Way::Destination => destination,
        }
    }
}

/// `192.168`, `10`: the first bytes of an address, and how many bits those are.
pub(super) fn partial(text: &str) -> Option<(Ipv4Addr, u32)> {
    let bytes: Vec<u8> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let mut whole = [0; 4];
    whole.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some((whole.into(), 8 * bytes.len() as u32))
}

/// The first bits of a word.
pub(super) fn mask(prefix: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix).unwrap_or(0)
}

/// A protocol of IP, or of one version of it; in IPv6 also behind a fragment header, as in libpcap's `gen_proto`.
pub(super) fn protocol(version: Option<u32>, number: u32) -> Node {
    let four = || Node::is(Word::Version, 4).and(Node::is(Word::Protocol, number));
    let six = || Node::is(Word::Version, 6).and(Node::is(Word::Protocol, number).or(Node::is(Word::Inner, number)));
    match version {
        Some(4) => four(),
        Some(_) => six(),
        // Each other protocol is in one of the two words, whichever version it is; these two are also what the words of other packets hold.
        None if number == 0 || number == FRAGMENT => four().or(six()),
        None => Node::is(Word::Inner, number),
    }
}

/// IPv6's fragment header.
const FRAGMENT: u32 = 44;

/// An end of IPv4 in a network, in packets of `version`.
pub(super) fn net4(address: Ipv4Addr, mask: u32, way: Way, version: Node) -> Node {
    let value = address.to_bits() & mask;
    let end = |word: Word| Node::Is { word: word as u8, mask, low: value, high: value };
    version.and(way.of(end(Word::Source), end(Word::Destination)))
}

/// An end of IPv6 in a network.
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
