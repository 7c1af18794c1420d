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

/// A protocol of IP, or of one version of it.
pub(super) fn protocol(version: Option<u32>, number: u32) -> Node {
    let node = Node::is(Word::Protocol, number);
    // 0 is also the protocol of what is not IP.
    match version {
        Some(version) => Node::is(Word::Version, version).and(node),
        None => node,
    }
}

/// An end of IPv4 in a network.
pub(super) fn net4(address: Ipv4Addr, prefix: u32, way: Way) -> Node {
    let mask = mask(prefix);
    let value = address.to_bits() & mask;
    let end = |word: Word| Node::Is { word: word as u8, mask, low: value, high: value };
    Node::is(Word::Version, 4).and(way.of(end(Word::Source), end(Word::Destination)))
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
