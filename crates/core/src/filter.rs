//! Which packets are meant, in the language of tcpdump's filters: [`Filter`].
//!
//! The language is the part of pcap-filter(7) that speaks of addresses, ports, protocols and lengths, with the precedence of that
//! page: `not` binds closest, `and` and `or` bind alike, from left to right. A filter is compiled to steps with two ways out
//! ([`Step`]), which the eBPF programs of `netcliff-host` walk over the words of a packet's header (bpf/skb.h), as classic BPF does
//! over its bytes. Not understood, and refused with the place: names of hosts, networks and services (this crate asks nobody), the link layer's
//! addresses, VLANs, and expressions on bytes such as `tcp[13]`.
//!
//! A test in `netcliff-host` (drops/tests/filters.rs) compares generated filters with tcpdump over the same packets.

mod ends;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// Most steps of a filter; the same stands in bpf/skb.h.
pub const MOST_STEPS: usize = 64;
/// Where a step leads to that accepts.
const ACCEPT: usize = MOST_STEPS;
/// Where a step leads to that refuses.
const REFUSE: usize = MOST_STEPS + 1;

/// Words of a packet's header, in the order of bpf/skb.h (`enum word`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// Of IP: 4 or 6; 5 for ARP and RARP, which have addresses of IPv4; 0 for none of these.
    Version = 0,
    /// Ethernet's type.
    EtherType = 1,
    /// IP's protocol.
    Protocol = 2,
    /// The source's address: four words, of which IPv4 has the first.
    Source = 3,
    /// The destination's address.
    Destination = 7,
    /// The source's port, [`NO_PORT`] where there is none.
    SourcePort = 11,
    /// The destination's port.
    DestinationPort = 12,
    /// Length with the link layer's header (bytes).
    Length = 13,
    /// The protocol behind IPv6's fragment header; else the same as [`Word::Protocol`].
    Inner = 14,
}

/// How many words there are.
pub const WORDS: usize = 16;
/// A port that a packet without ports has.
pub const NO_PORT: u32 = 0x1_0000;

/// One step: whether `header[word] & mask` lies within `low..=high`, and where to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of the word.
    pub word: u8,
    /// Step after yes; 64: accepted, 65: refused.
    pub yes: u8,
    /// Step after no.
    pub no: u8,
    /// What of the word counts.
    pub mask: u32,
    /// Least value.
    pub low: u32,
    /// Greatest value.
    pub high: u32,
}

/// A compiled filter. Written as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    text: String,
    steps: Vec<Step>,
}

/// Why a filter does not compile, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct FilterError {
    /// Column of the word that is wrong, from 1.
    pub column: usize,
    /// What is wrong and what is accepted, as a sentence.
    pub reason: String,
}

/// What a filter says.
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

    /// Appends the steps, last one first: where they begin, as an index of the reversed list.
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
        // Far apart from any index.
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
    /// Its steps; the first is where it begins.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether a packet with this header is meant.
    pub fn accepts(&self, header: &[u32; WORDS]) -> bool {
        let mut at = 0;
        // Steps lead on only, so that each is taken once at most.
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
