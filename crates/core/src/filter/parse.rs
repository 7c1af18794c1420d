//! Parses a filter's text to a [`Node`].

use super::ends::{Way, mask, net4, net6, partial, protocol};
use super::{FilterError, NO_PORT, Node, Word};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const KINDS: &str =
    "host, net, port, portrange, proto, less, greater, ip, ip6, tcp, udp, sctp, icmp, icmp6, arp, not or (";
/// Deepest nesting of parentheses and `not`.
const DEEPEST: usize = 40;

/// Protocols: name, IP version (None: any), number.
const PROTOCOLS: &[(&str, Option<u32>, u32)] = &[
    ("tcp", None, 6),
    ("udp", None, 17),
    ("sctp", None, 132),
    ("icmp", Some(4), 1),
    ("icmp6", Some(6), 58),
    ("igmp", Some(4), 2),
    ("esp", None, 50),
    ("ah", None, 51),
    ("gre", None, 47),
];

#[derive(Clone, Debug)]
struct Token<'a> {
    text: &'a str,
    column: usize,
}

/// Qualifiers of a value, such as `tcp src port`. They are stored for a following value without qualifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Qualifier<'a> {
    protocol: Option<&'a str>,
    way: Way,
    kind: Option<&'a str>,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    end: usize,
    last: Qualifier<'a>,
    depth: usize,
    /// True inside `port (...)`, where only values of that kind are allowed.
    values_only: bool,
}

pub(super) fn expression(text: &str) -> Result<Node, FilterError> {
    let tokens = tokens(text);
    let end = text.chars().count() + 1;
    let mut parser = Parser { tokens, at: 0, end, last: Qualifier::default(), depth: 0, values_only: false };
    let node = parser.alternatives()?;
    match parser.tokens.get(parser.at) {
        None => Ok(node),
        Some(token) if token.text == ")" => Err(parser.error("a `)` that no `(` opened")),
        Some(token) => {
            Err(parser.error(format!("`{}` does not go on the filter: write and, or, or nothing", token.text)))
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((column, (start, c))) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut end = start + c.len_utf8();
        let special = |c: char| "()!&|[]".contains(c);
        if special(c) {
            if "&|".contains(c) && chars.peek().is_some_and(|(_, (_, next))| *next == c) {
                chars.next();
                end += 1;
            }
        } else {
            while let Some((_, (at, next))) = chars.peek().copied() {
                if next.is_whitespace() || special(next) {
                    break;
                }
                end = at + next.len_utf8();
                chars.next();
            }
        }
        tokens.push(Token { text: &text[start..end], column: column + 1 });
    }
    tokens
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|token| token.text)
    }

    fn take(&mut self) -> Option<&'a str> {
        let text = self.peek()?;
        self.at += 1;
        Some(text)
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(found);
        found
    }

    /// An error at the next token.
    fn error(&self, reason: impl Into<String>) -> FilterError {
        FilterError { column: self.tokens.get(self.at).map_or(self.end, |token| token.column), reason: reason.into() }
    }

    /// An error at the last token taken.
    fn error_before(&mut self, reason: impl Into<String>) -> FilterError {
        self.at -= 1;
        self.error(reason)
    }

    fn alternatives(&mut self) -> Result<Node, FilterError> {
        let mut node = self.unary()?;
        loop {
            if self.accept(&["and", "&&"]) {
                node = node.and(self.unary()?);
            } else if self.accept(&["or", "||"]) {
                node = node.or(self.unary()?);
            } else {
                return Ok(node);
            }
        }
    }

    fn unary(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(format!("nested deeper than {DEEPEST} times: write it flatter")));
        }
        let node = if self.accept(&["not", "!"]) {
            Node::Not(Box::new(self.unary()?))
        } else if self.accept(&["("]) {
            let node = self.alternatives()?;
            if !self.accept(&[")"]) {
                return Err(self.error("a `)` is missing"));
            }
            node
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primitive(&mut self) -> Result<Node, FilterError> {
        let mut qualifier = Qualifier::default();
        let begins = self.at;
        match self.peek() {
            None => return Err(self.error(format!("the filter ends where one of {KINDS} is expected"))),
            Some("less" | "greater") => return self.length(),
            Some("ip" | "ip6" | "arp" | "rarp" | "icmp" | "icmp6" | "tcp" | "udp" | "sctp" | "igmp" | "esp" | "ah") => {
                qualifier.protocol = self.take();
            }
            Some(
                word @ ("ether" | "vlan" | "mpls" | "pppoed" | "pppoes" | "gateway" | "wlan" | "broadcast"
                | "multicast" | "inbound" | "outbound" | "ifname" | "len"),
            ) => {
                return Err(self.error(format!("`{word}` is not understood here; accepted are {KINDS}")));
            }
            _ => {}
        }
        if self.peek() == Some("[") {
            return Err(self.error(
                "expressions on bytes, such as tcp[13], are not understood here; name ports, hosts and protocols",
            ));
        }
        qualifier.way = self.way()?;
        if let Some(word @ ("host" | "net" | "port" | "portrange" | "proto" | "protochain")) = self.peek() {
            if word == "protochain" {
                return Err(self.error("`protochain` is not understood here; write proto and a number"));
            }
            qualifier.kind = self.take();
        }
        let bare = self.at == begins;
        if self.values_only && !bare {
            self.at = begins;
            let kind = self.last.kind.unwrap_or("host");
            return Err(self.error(format!("inside of `{kind} (...)` stand values only, such as `{kind} (A or B)`")));
        }
        if bare {
            // A value without qualifiers takes the qualifiers of the value before it.
            if self.last.kind.is_none()
                || !self.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':'))
            {
                return self.bare();
            }
            qualifier = self.last;
        } else if qualifier.kind.is_none() && qualifier.way == Way::Either {
            return self.protocol_alone(qualifier.protocol.unwrap_or_default());
        }
        let kind = *qualifier.kind.get_or_insert("host");
        self.last = qualifier;
        if !bare && self.peek() == Some("(") {
            self.values_only = true;
            let values = self.unary();
            self.values_only = false;
            return values;
        }
        let Some(value) = self.take() else {
            return Err(self.error(format!("the filter ends where the value of `{kind}` is expected")));
        };
        let node = match kind {
            "host" => self.host(value, qualifier)?,
            "net" => self.net(value, qualifier)?,
            "proto" => {
                let version = match qualifier.protocol {
                    Some("ip") => Some(4),
                    Some("ip6") => Some(6),
                    _ => None,
                };
                protocol(version, self.number_of_protocol(value)?)
            }
            _ => self.ports(kind, value, qualifier.way)?,
        };
        self.of_protocol(qualifier.protocol, kind, node)
    }

    /// Test for an IPv4 address: in IP, ARP and RARP packets, or only in packets of the protocol that the text names.
    fn of_4(&mut self, address: Ipv4Addr, mask: u32, qualifier: Qualifier<'_>) -> Result<Node, FilterError> {
        let version = match qualifier.protocol {
            Some("ip") => Node::is(Word::Version, 4),
            Some(name @ ("arp" | "rarp")) => self.protocol_alone(name)?,
            Some("ip6") => return Err(self.error_before("an IPv4 address behind `ip6`: write ip, or an IPv6 address")),
            _ => Node::within(Word::Version, 4, 5),
        };
        Ok(net4(address, mask, qualifier.way, version))
    }

    fn of_6(&mut self, address: Ipv6Addr, prefix: u32, qualifier: Qualifier<'_>) -> Result<Node, FilterError> {
        match qualifier.protocol {
            Some(name @ ("ip" | "arp" | "rarp")) => {
                Err(self.error_before(format!("an IPv6 address behind `{name}`: write ip6, or an IPv4 address")))
            }
            _ => Ok(net6(address, prefix, qualifier.way)),
        }
    }

    /// A value without qualifiers that is an address means `host`.
    fn bare(&mut self) -> Result<Node, FilterError> {
        let word = self.peek().unwrap_or_default();
        if word.parse::<IpAddr>().is_ok() {
            self.at += 1;
            self.last = Qualifier { kind: Some("host"), ..Qualifier::default() };
            return self.host(word, self.last);
        }
        Err(self.error(format!("`{word}` is not understood here; accepted are {KINDS}")))
    }

    fn way(&mut self) -> Result<Way, FilterError> {
        let first = match self.peek() {
            Some("src") => Way::Source,
            Some("dst") => Way::Destination,
            _ => return Ok(Way::Either),
        };
        self.at += 1;
        let other = if first == Way::Source { "dst" } else { "src" };
        let next = |parser: &Self, n: usize| parser.tokens.get(parser.at + n).map(|token| token.text);
        if next(self, 1) == Some(other) && matches!(next(self, 0), Some("or" | "and" | "||" | "&&")) {
            let both = matches!(next(self, 0), Some("and" | "&&"));
            self.at += 2;
            return Ok(if both { Way::Both } else { Way::Either });
        }
        Ok(first)
    }

    fn length(&mut self) -> Result<Node, FilterError> {
        let greater = self.take() == Some("greater");
        let value = self.take().ok_or_else(|| self.error("the filter ends where a length in bytes is expected"))?;
        let bytes = number(value).ok_or_else(|| {
            self.error_before(format!("`{value}` is no length: write a number of bytes, such as 128"))
        })?;
        Ok(if greater { Node::within(Word::Length, bytes, u32::MAX) } else { Node::within(Word::Length, 0, bytes) })
    }

    fn protocol_alone(&mut self, name: &str) -> Result<Node, FilterError> {
        Ok(match name {
            "ip" => Node::is(Word::Version, 4),
            "ip6" => Node::is(Word::Version, 6),
            "arp" => Node::is(Word::EtherType, 0x0806),
            "rarp" => Node::is(Word::EtherType, 0x8035),
            _ => match PROTOCOLS.iter().find(|(known, ..)| *known == name) {
                Some((_, version, number)) => protocol(*version, *number),
                None => return Err(self.error_before(format!("`{name}` is not understood here; accepted are {KINDS}"))),
            },
        })
    }

    /// Adds to `node` the test of the protocol named before the kind, as `tcp` in `tcp port 80`.
    fn of_protocol(&mut self, name: Option<&str>, kind: &str, node: Node) -> Result<Node, FilterError> {
        let Some(name) = name else { return Ok(node) };
        let ports = matches!(kind, "port" | "portrange");
        let fits = match name {
            "ip" | "ip6" => !ports,
            "tcp" | "udp" | "sctp" => ports,
            "arp" | "rarp" => matches!(kind, "host" | "net"),
            _ => false,
        };
        if !fits {
            return Err(self.error_before(format!(
                "`{name} {kind}` means nothing: write `{name}` and `{kind} ...` joined by and"
            )));
        }
        // Tests of addresses already include the IP version.
        if !ports {
            return Ok(node);
        }
        let number = PROTOCOLS.iter().find(|(known, ..)| *known == name).map_or(0, |(.., number)| *number);
        Ok(Node::is(Word::Protocol, number).and(node))
    }

    fn number_of_protocol(&mut self, value: &str) -> Result<u32, FilterError> {
        let value = value.trim_start_matches('\\');
        let named = PROTOCOLS.iter().find(|(name, ..)| *name == value).map(|(.., number)| *number);
        named.or(number(value).filter(|number| *number < 256)).ok_or_else(|| {
            self.error_before(format!(
                "`{value}` is no protocol of IP: write 0 to 255, or tcp, udp, sctp, icmp, icmp6, gre, esp, ah"
            ))
        })
    }

    fn ports(&mut self, kind: &str, value: &str, way: Way) -> Result<Node, FilterError> {
        let port = |text: Option<u32>| text.filter(|port| *port < NO_PORT);
        // Ends of a range are decimal, whatever digit they begin with.
        let end = |text: &str| port(digits(text).then(|| text.parse().ok()).flatten());
        let bounds = match (kind, value.split_once('-')) {
            ("portrange", Some((low, high))) => end(low).zip(end(high)),
            _ => port(number(value)).map(|port| (port, port)),
        };
        let Some((low, high)) = bounds.map(|(one, other)| (one.min(other), one.max(other))) else {
            let form =
                if kind == "port" { "a number from 0 to 65535, such as 53" } else { "two numbers, such as 8000-8080" };
            return Err(self.error_before(format!("`{value}` is no {kind}: write {form}")));
        };
        Ok(way.of(Node::within(Word::SourcePort, low, high), Node::within(Word::DestinationPort, low, high)))
    }

    fn host(&mut self, value: &str, qualifier: Qualifier<'_>) -> Result<Node, FilterError> {
        match value.parse() {
            Ok(IpAddr::V4(address)) => self.of_4(address, u32::MAX, qualifier),
            Ok(IpAddr::V6(address)) => self.of_6(address, 128, qualifier),
            Err(_) => Err(self.error_before(format!(
                "`{value}` is no address: write 192.0.2.1 or 2001:db8::1 (names are not looked up; `getent hosts NAME` does)"
            ))),
        }
    }

    fn net(&mut self, value: &str, qualifier: Qualifier<'_>) -> Result<Node, FilterError> {
        let (address, prefix) =
            value.split_once('/').map_or((value, None), |(address, prefix)| (address, Some(prefix)));
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            let prefix = prefix.map_or(Some(128), |prefix| number(prefix).filter(|prefix| *prefix <= 128));
            return match prefix {
                Some(prefix) => self.of_6(address, prefix, qualifier),
                None => Err(self.error_before(format!("`{value}`: the length of an IPv6 prefix is 0 to 128"))),
            };
        }
        let Some((address, whole)) = partial(address) else {
            return Err(
                self.error_before(format!("`{value}` is no network: write 10.0.0.0/8, 192.168 or 2001:db8::/32"))
            );
        };
        if prefix.is_none() && self.accept(&["mask"]) {
            let word = self.take().ok_or_else(|| self.error("the filter ends where a mask is expected"))?;
            let bits = word
                .parse::<Ipv4Addr>()
                .map_err(|_| self.error_before(format!("`{word}` is no mask: write 255.255.0.0")))?
                .to_bits();
            if address.to_bits() & !bits != 0 {
                return Err(self.error_before(format!("`{value}` has bits beyond the mask {word}")));
            }
            return self.of_4(address, bits, qualifier);
        }
        let prefix = prefix.map_or(Some(whole), |prefix| number(prefix).filter(|prefix| *prefix <= 32));
        let Some(prefix) = prefix else {
            return Err(self.error_before(format!("`{value}`: the length of an IPv4 prefix is 0 to 32")));
        };
        let rest = address.to_bits() & !mask(prefix);
        if rest != 0 {
            return Err(self.error_before(format!(
                "`{value}` has bits beyond its prefix: write {}/{prefix}",
                Ipv4Addr::from_bits(address.to_bits() & mask(prefix))
            )));
        }
        self.of_4(address, mask(prefix), qualifier)
    }
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads a number as tcpdump does: octal after 0, hexadecimal after 0x, no sign.
fn number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hex), _) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if digits(octal) => u32::from_str_radix(octal, 8).ok(),
        (None, _) if digits(text) => text.parse().ok(),
        _ => None,
    }
}
