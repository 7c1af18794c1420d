//! [`Filter`]: selects packets by an expression in the language of tcpdump's filters.
//!
//! The language is the part of pcap-filter(7) about addresses, ports, protocols and lengths, with the same precedence:
//! `not` binds closest; `and` and `or` have equal precedence and group from left to right. A filter is compiled to
//! steps with two exits each ([`Step`]), which the eBPF programs of `netcliff-host` run on the words of a packet's
//! header (bpf/skb.h), as classic BPF does on its bytes. Not supported, and refused with the position: names of hosts,
//! networks and services (this crate resolves no names), link-layer addresses, VLANs, and expressions on bytes such as
//! `tcp[13]`.
//!
//! A test in `netcliff-host` (drops/tests/filters.rs) compares generated filters with tcpdump over the same packets.

mod ends;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// Most steps of a filter; equals the constant in bpf/skb.h.
pub const MOST_STEPS: usize = 64;
/// Value of [`Step::yes`] and [`Step::no`] that accepts the packet.
const ACCEPT: usize = MOST_STEPS;
/// Value of [`Step::yes`] and [`Step::no`] that rejects the packet.
const REFUSE: usize = MOST_STEPS + 1;

/// Words of a packet's header, in the order of bpf/skb.h (`enum word`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// IP version: 4 or 6; 5 for ARP and RARP, which carry IPv4 addresses; 0 for other packets.
    Version = 0,
    /// EtherType.
    EtherType = 1,
    /// IP protocol number; 0 for packets that are not IP.
    Protocol = 2,
    /// Source address: four words, of which IPv4 uses the first.
    Source = 3,
    /// Destination address: four words, of which IPv4 uses the first.
    Destination = 7,
    /// Source port, or [`NO_PORT`].
    SourcePort = 11,
    /// Destination port, or [`NO_PORT`].
    DestinationPort = 12,
    /// Length with the link-layer header (bytes).
    Length = 13,
    /// Protocol after IPv6's fragment header; without one, equal to [`Word::Protocol`].
    Inner = 14,
}

/// Number of words of a header.
pub const WORDS: usize = 16;
/// Port number of packets whose protocol has no ports.
pub const NO_PORT: u32 = 0x1_0000;

/// One step: tests whether `header[word] & mask` lies in `low..=high`, and names the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Index of the word in the header.
    pub word: u8,
    /// Next step if the test is true; 64: accept, 65: reject.
    pub yes: u8,
    /// Next step if the test is false.
    pub no: u8,
    /// Bits of the word that are compared.
    pub mask: u32,
    /// Lowest value for which the test is true.
    pub low: u32,
    /// Highest value for which the test is true.
    pub high: u32,
}

/// A compiled filter. `Display` writes its original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    text: String,
    steps: Vec<Step>,
}

/// Why a filter does not compile, and the position of the error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct FilterError {
    /// Column where the wrong word begins, from 1.
    pub column: usize,
    /// The error and the accepted form, one sentence.
    pub reason: String,
}

/// The expression of a filter as a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Is { word: u8, mask: u32, low: u32, high: u32 },
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

impl Node {
    fn is(word: Word, value: u32) -> Node {
        Node::within(word, value, value)
    }

    fn within(word: Word, low: u32, high: u32) -> Node {
        Node::Is { word: word as u8, mask: u32::MAX, low, high }
    }

    fn and(self, other: Node) -> Node {
        Node::And(Box::new(self), Box::new(other))
    }

    fn or(self, other: Node) -> Node {
        Node::Or(Box::new(self), Box::new(other))
    }

    /// Appends the steps of this node to `reversed`, the last step first. Returns the index in `reversed` of the step
    /// that runs first. `yes` and `no`: indices of the steps that follow if the node is true or false.
    fn emit(&self, yes: usize, no: usize, reversed: &mut Vec<(Node, usize, usize)>) -> usize {
        match self {
            Node::Is { .. } => {
                reversed.push((self.clone(), yes, no));
                reversed.len() - 1
            }
            Node::Not(inner) => inner.emit(no, yes, reversed),
            Node::And(first, second) => {
                let second = second.emit(yes, no, reversed);
                first.emit(second, no, reversed)
            }
            Node::Or(first, second) => {
                let second = second.emit(yes, no, reversed);
                first.emit(yes, second, reversed)
            }
        }
    }

    fn steps(&self) -> Option<Vec<Step>> {
        // Exits of the filter, as values that no index of a step has.
        const YES: usize = usize::MAX;
        const NO: usize = usize::MAX - 1;
        let mut reversed = Vec::new();
        self.emit(YES, NO, &mut reversed);
        let count = reversed.len();
        let place = |target: usize| match target {
            YES => ACCEPT as u8,
            NO => REFUSE as u8,
            index => (count - 1 - index) as u8,
        };
        let step = |(node, yes, no): &(Node, usize, usize)| match node {
            Node::Is { word, mask, low, high } => {
                Some(Step { word: *word, yes: place(*yes), no: place(*no), mask: *mask, low: *low, high: *high })
            }
            _ => None,
        };
        (count <= MOST_STEPS).then(|| reversed.iter().rev().filter_map(step).collect())
    }
}

impl Filter {
    /// The steps; the first one is the start.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// True if the filter accepts a packet with this header.
    pub fn accepts(&self, header: &[u32; WORDS]) -> bool {
        let mut at = 0;
        // A step leads only to later steps, so that each runs at most once.
        while let Some(step) = self.steps.get(at) {
            let value = header[usize::from(step.word) % WORDS] & step.mask;
            at = usize::from(if (step.low..=step.high).contains(&value) { step.yes } else { step.no });
        }
        at == ACCEPT
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        let node = parse::expression(text)?;
        let too_long = || FilterError {
            column: 1,
            reason: format!(
                "the filter takes more than {MOST_STEPS} comparisons: write a shorter one, such as a net for its hosts"
            ),
        };
        Ok(Filter { text: text.trim().to_owned(), steps: node.steps().ok_or_else(too_long)? })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}
