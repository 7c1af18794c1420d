//! Which receive queue a packet goes to: header fields that RSS hashes ([`HashFields`]) and flow rules ([`FlowRule`]),
//! by the ethtool ioctls, which drivers support on every kernel (`struct ethtool_rxnfc`, linux/ethtool.h).
//!
//! Both have the text forms of ethtool: `sdfn` of `ethtool -N DEVICE rx-flow-hash udp4 sdfn`, `udp4 dst-port 53 action
//! 2` of `ethtool -N DEVICE flow-type udp4 dst-port 53 action 2`.

use super::{Nic, ioctl::call};
use serde::{Deserialize, Serialize};
use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_SRXFH: u32 = 0x2a;
const ETHTOOL_GRXCLSRLCNT: u32 = 0x2e;
const ETHTOOL_GRXCLSRULE: u32 = 0x2f;
const ETHTOOL_GRXCLSRLALL: u32 = 0x30;
const ETHTOOL_SRXCLSRLDEL: u32 = 0x31;
const ETHTOOL_SRXCLSRLINS: u32 = 0x32;
/// RX_CLS_FLOW_DISC: a rule's packets are dropped.
const DISCARD: u64 = u64::MAX;
/// Bits of a ring cookie that name the queue (ETHTOOL_RX_FLOW_SPEC_RING); the bits above them name a virtual function.
const RING: u64 = 0xffff_ffff;
/// Most rules that are read; tables have up to 8192.
const MOST_RULES: usize = 8192;

/// Kinds of packets whose hash fields are set separately: ethtool's name, and `*_FLOW` of linux/ethtool.h.
pub const FLOWS: [(&str, u32); 6] = [("tcp4", 1), ("udp4", 2), ("sctp4", 3), ("tcp6", 5), ("udp6", 6), ("sctp6", 7)];
/// Hash fields in the order in which they are printed: ethtool's letter, and `RXH_*` of linux/ethtool.h.
const FIELDS: [(char, u64); 9] = [
    ('m', 1 << 1),
    ('v', 1 << 2),
    ('t', 1 << 3),
    ('s', 1 << 4),
    ('d', 1 << 5),
    ('f', 1 << 6),
    ('n', 1 << 7),
    ('e', 1 << 8),
    ('r', 1 << 31),
];
const PORTS: u64 = 1 << 6 | 1 << 7;
const ADDRESSES: u64 = 1 << 4 | 1 << 5;

/// `struct ethtool_rxnfc` with space for the locations of rules.
#[repr(C, align(8))]
struct Classification {
    cmd: u32,
    flow_type: u32,
    data: u64,
    rule: Specification,
    rule_count: u32,
    places: [u32; MOST_RULES],
}

/// `struct ethtool_rx_flow_spec`.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Specification {
    flow_type: u32,
    value: [u8; 52],
    value_more: [u8; 20],
    mask: [u8; 52],
    mask_more: [u8; 20],
    /// The queue, or [`DISCARD`].
    ring_cookie: u64,
    location: u32,
}

const EMPTY: Specification = Specification {
    flow_type: 0,
    value: [0; 52],
    value_more: [0; 20],
    mask: [0; 52],
    mask_more: [0; 20],
    ring_cookie: 0,
    location: 0,
};

fn asked(cmd: u32) -> Box<Classification> {
    Box::new(Classification { cmd, flow_type: 0, data: 0, rule: EMPTY, rule_count: 0, places: [0; MOST_RULES] })
}

/// Header fields that RSS hashes for a kind of packets; printed as ethtool's letters, `-` for no field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HashFields(u64);

impl HashFields {
    /// Whether both ports are hashed, so that the flows between two hosts are spread over several queues.
    pub fn has_ports(self) -> bool {
        self.0 & PORTS == PORTS
    }

    /// Whether both addresses are hashed.
    pub fn has_addresses(self) -> bool {
        self.0 & ADDRESSES == ADDRESSES
    }

    /// Returns these fields with both addresses and both ports added.
    pub fn with_ports(self) -> Self {
        Self(self.0 | ADDRESSES | PORTS)
    }

    /// Describes the fields: `addresses only`.
    pub fn in_words(self) -> &'static str {
        match (self.has_addresses(), self.has_ports(), self.0) {
            (true, true, _) => "addresses and ports",
            (true, false, _) => "addresses only",
            (_, _, 0) => "nothing",
            _ => "some fields only",
        }
    }
}

impl fmt::Display for HashFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("-"),
            bits => FIELDS.iter().filter(|(_, bit)| bits & bit != 0).try_for_each(|(letter, _)| write!(f, "{letter}")),
        }
    }
}

impl FromStr for HashFields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self(0));
        }
        let bit = |letter: char| FIELDS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| bit);
        let bits = text.chars().try_fold(0, |bits, letter| Some(bits | bit(letter)?)).filter(|bits| *bits != 0);
        bits.map(Self).ok_or_else(|| {
            format!(
                "{text:?} is no set of hashed fields: expected letters of ethtool's rx-flow-hash (s and d addresses, f and n ports, m \
                 destination MAC, v VLAN, t protocol, r discard), such as sdfn, or - for none"
            )
        })
    }
}

/// Lists the names of [`FLOWS`] for messages.
pub fn flows() -> String {
    FLOWS.map(|(name, _)| name).join(", ")
}

fn flow_type(flow: &str) -> io::Result<u32> {
    let known = FLOWS.iter().find(|(name, _)| *name == flow).map(|(_, number)| *number);
    known.ok_or_else(|| {
        let reason = format!("{flow:?} is no kind of packets: expected one of {}", flows());
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    })
}

/// Reads the fields that a device hashes for a kind of packets.
///
/// # Errors
/// The driver does not report them.
pub fn hash_fields(interface: &str, flow: &str) -> io::Result<HashFields> {
    let mut ask = asked(ETHTOOL_GRXFH);
    ask.flow_type = flow_type(flow)?;
    call(interface, ask.as_mut())?;
    Ok(HashFields(ask.data))
}

/// Sets the fields that a device hashes for a kind of packets.
///
/// # Errors
/// The driver refuses them.
pub(crate) fn set_hash_fields(interface: &str, flow: &str, fields: HashFields) -> io::Result<()> {
    let mut ask = asked(ETHTOOL_SRXFH);
    ask.flow_type = flow_type(flow)?;
    ask.data = fields.0;
    call(interface, ask.as_mut())
}

/// A rule by which a device steers packets into a queue, or drops them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowRule {
    /// Its location in the device's table; rules at lower locations are matched first.
    pub location: u32,
    /// The rule in ethtool's syntax: `udp4 dst-port 53 action 2`. It ends with `...` if part of it has no text form
    /// here.
    pub rule: String,
}

/// A flow rule that netcliff sets: it steers packets of a flow type to a destination port into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRule {
    /// One of [`FLOWS`].
    pub flow: String,
    /// Destination port.
    pub port: u16,
    /// The receive queue.
    pub queue: u32,
}

impl fmt::Display for PortRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dst-port {} action {}", self.flow, self.port, self.queue)
    }
}

impl FromStr for PortRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no rule: expected one such as \"udp4 dst-port 53 action 2\" ({})", flows());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [flow, "dst-port", port, "action", queue] = words[..] else { return Err(bad()) };
        flow_type(flow).map_err(|_| bad())?;
        let (port, queue) = port.parse().ok().zip(queue.parse().ok()).ok_or_else(bad)?;
        Ok(Self { flow: flow.to_owned(), port, queue })
    }
}

/// Offset of the source and destination ports in the values of a flow type: after two addresses.
fn ports_at(flow_type: u32) -> Option<usize> {
    match flow_type {
        1..=3 => Some(8),
        5..=7 => Some(32),
        _ => None,
    }
}

impl Specification {
    fn of(rule: &PortRule, location: u32) -> io::Result<Self> {
        let flow_type = flow_type(&rule.flow)?;
        let at = ports_at(flow_type).unwrap_or_default() + 2;
        let mut made = Self { flow_type, ring_cookie: u64::from(rule.queue), location, ..EMPTY };
        made.value[at..at + 2].copy_from_slice(&rule.port.to_be_bytes());
        made.mask[at..at + 2].copy_from_slice(&[0xff; 2]);
        Ok(made)
    }

    fn in_words(&self) -> String {
        let kind = self.flow_type & 0xff;
        let name = FLOWS.iter().find(|(_, number)| *number == kind).map(|(name, _)| *name);
        let mut words = vec![name.map_or_else(|| other_flow(kind), str::to_owned)];
        // Bits of the mask that are not in the text yet. If any remain at the end, the text gets an ellipsis.
        let mut left = self.mask;
        let mut take = |at: usize, length: usize| -> Option<Vec<u8>> {
            let whole = left[at..at + length].iter().all(|byte| *byte == 0xff);
            whole.then(|| {
                left[at..at + length].fill(0);
                self.value[at..at + length].to_vec()
            })
        };
        if let Some(at) = ports_at(kind) {
            let address_bytes = at / 2;
            for (word, at, length) in [
                ("src-ip", 0, address_bytes),
                ("dst-ip", address_bytes, address_bytes),
                ("src-port", at, 2),
                ("dst-port", at + 2, 2),
            ] {
                let value = take(at, length);
                words.extend(value.map(|value| format!("{word} {}", number_or_address(&value))));
            }
        }
        let more = self.mask_more != [0; 20] || left != [0; 52] || self.flow_type > 0xff;
        words.extend(more.then(|| "...".to_owned()));
        words.push(match self.ring_cookie {
            DISCARD => "action -1".to_owned(),
            cookie => format!("action {}", cookie & RING),
        });
        words.join(" ")
    }
}

/// Name of a flow type without ports, by its number in linux/ethtool.h.
fn other_flow(kind: u32) -> String {
    match kind {
        4 => "ah4/esp4".to_owned(),
        8 => "ah6/esp6".to_owned(),
        0x0d | 0x10 => "ip4".to_owned(),
        0x0e | 0x11 => "ip6".to_owned(),
        0x12 => "ether".to_owned(),
        other => format!("flow-type {other:#x}"),
    }
}

/// Formats two bytes as a port, four and sixteen as an address.
fn number_or_address(bytes: &[u8]) -> String {
    if let Ok(port) = <[u8; 2]>::try_from(bytes) {
        return u16::from_be_bytes(port).to_string();
    }
    match <[u8; 4]>::try_from(bytes) {
        Ok(address) => Ipv4Addr::from(address).to_string(),
        Err(_) => <[u8; 16]>::try_from(bytes).map(Ipv6Addr::from).map(|ip| ip.to_string()).unwrap_or_default(),
    }
}

/// Number of rules that a device has, read by one call.
fn count(interface: &str) -> io::Result<u32> {
    let mut ask = asked(ETHTOOL_GRXCLSRLCNT);
    call(interface, ask.as_mut())?;
    Ok(ask.rule_count)
}

/// Returns the locations of all rules and the size of the table.
fn places(interface: &str) -> io::Result<(Vec<u32>, u32)> {
    let mut ask = asked(ETHTOOL_GRXCLSRLALL);
    ask.rule_count = MOST_RULES as u32;
    call(interface, ask.as_mut())?;
    let count = (ask.rule_count as usize).min(MOST_RULES);
    Ok((ask.places[..count].to_vec(), u32::try_from(ask.data & RING).unwrap_or(0)))
}

/// The rule at a location; `None` if the location is free.
///
/// # Errors
/// The driver does not support rules.
pub(crate) fn rule_at(interface: &str, location: u32) -> io::Result<Option<FlowRule>> {
    let mut ask = asked(ETHTOOL_GRXCLSRULE);
    ask.rule.location = location;
    match call(interface, ask.as_mut()) {
        Ok(()) => Ok(Some(FlowRule { location, rule: ask.rule.in_words() })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the rule at a location; `None` removes it.
///
/// # Errors
/// The driver refuses it.
pub(crate) fn set_rule(interface: &str, location: u32, rule: Option<&PortRule>) -> io::Result<()> {
    let mut ask = asked(if rule.is_some() { ETHTOOL_SRXCLSRLINS } else { ETHTOOL_SRXCLSRLDEL });
    ask.rule = match rule {
        Some(rule) => Specification::of(rule, location)?,
        None => Specification { location, ..EMPTY },
    };
    call(interface, ask.as_mut())
}

/// Returns a free location, the highest first, because rules there are matched after all others; `None` if the table is
/// full.
pub(crate) fn free_place(taken: &[FlowRule], places: u32) -> Option<u32> {
    (0..places).rev().find(|place| taken.iter().all(|rule| rule.location != *place))
}

/// Fills in the hash fields and flow rules that the driver reports.
pub(super) fn fill(nic: &mut Nic) {
    for (flow, _) in FLOWS {
        match hash_fields(&nic.name, flow) {
            Ok(fields) => drop(nic.hash_fields.insert(flow.to_owned(), fields.to_string())),
            Err(error) => drop(nic.missing.insert("hash-fields".into(), super::ioctl::reason(&error))),
        }
    }
    // An unknown kind of packets is not reported as missing if the device knows other kinds.
    if !nic.hash_fields.is_empty() {
        nic.missing.remove("hash-fields");
    }
    match count(&nic.name) {
        Ok(count) => nic.ntuple_rules = Some(count),
        Err(error) => drop(nic.missing.insert("ntuple".into(), super::ioctl::reason(&error))),
    }
    if nic.ntuple_rules.is_some()
        && let Ok((taken, places)) = places(&nic.name)
    {
        nic.flow_rule_places = Some(places).filter(|places| *places > 0);
        nic.flow_rules = taken.into_iter().filter_map(|place| rule_at(&nic.name, place).ok().flatten()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets as in linux/ethtool.h on 64-bit machines: pahole prints 168 and 192 bytes.
    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<Specification>(), 168);
        assert_eq!(std::mem::offset_of!(Specification, ring_cookie), 152);
        assert_eq!(std::mem::offset_of!(Classification, rule_count), 184);
        assert_eq!(std::mem::offset_of!(Classification, places), 188);
    }

    #[test]
    fn fields_are_ethtools_letters() {
        for (text, bits) in [("sdfn", 0xf0), ("sd", 0x30), ("-", 0), ("vsdfn", 0xf4)] {
            let fields: HashFields = text.parse().unwrap();
            assert_eq!((fields.0, fields.to_string().as_str()), (bits, text));
        }
        assert_eq!("nfds".parse::<HashFields>().unwrap().to_string(), "sdfn", "one order");
        assert_eq!("sd".parse::<HashFields>().unwrap().with_ports().to_string(), "sdfn");
        for text in ["", "sx", "4-tuple", "SD"] {
            let error = text.parse::<HashFields>().unwrap_err();
            assert!(error.contains(&format!("{text:?}")) && error.contains("such as sdfn"), "{error}");
        }
    }

    #[test]
    fn rules_in_words_and_back() {
        for text in ["udp4 dst-port 53 action 2", "tcp6 dst-port 443 action 0", "sctp4 dst-port 5000 action 11"] {
            let rule: PortRule = text.parse().unwrap();
            let made = Specification::of(&rule, 7).unwrap();
            assert_eq!((made.in_words().as_str(), made.location), (text, 7));
        }
        for text in
            ["udp4 dst-port 70000 action 1", "udp5 dst-port 53 action 1", "dst-port 53", "udp4 src-port 5 action 1"]
        {
            let error = text.parse::<PortRule>().unwrap_err();
            assert!(error.contains(text) && error.contains("dst-port 53 action 2"), "{error}");
        }
    }

    /// Rules created by other programs.
    #[test]
    fn other_rules_in_words() {
        let mut rule = Specification::of(&"udp4 dst-port 53 action 2".parse().unwrap(), 0).unwrap();
        rule.value[..4].copy_from_slice(&[192, 0, 2, 7]);
        rule.mask[..4].fill(0xff);
        assert_eq!(rule.in_words(), "udp4 src-ip 192.0.2.7 dst-port 53 action 2");
        rule.mask[3] = 0;
        rule.ring_cookie = DISCARD;
        assert_eq!(rule.in_words(), "udp4 dst-port 53 ... action -1", "a prefix has no word here");
        let ether = Specification { flow_type: 0x12, ..EMPTY };
        assert_eq!(ether.in_words(), "ether action 0");
    }

    #[test]
    fn free_places_are_taken_from_the_end() {
        let taken = |places: &[u32]| -> Vec<FlowRule> {
            places.iter().map(|place| FlowRule { location: *place, rule: String::new() }).collect()
        };
        assert_eq!(free_place(&taken(&[]), 16), Some(15));
        assert_eq!(free_place(&taken(&[15, 3]), 16), Some(14));
        assert_eq!(free_place(&taken(&[0, 1]), 2), None);
        assert_eq!(free_place(&[], 0), None);
    }

    #[test]
    fn a_device_without_is_said() {
        let error = hash_fields("lo", "udp4").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        let error = hash_fields("lo", "udp5").unwrap_err().to_string();
        assert!(error.contains("udp5") && error.contains("tcp4, udp4"), "{error}");
        assert!(rule_at("lo", 0).is_err() && set_rule("lo", 0, None).is_err());
    }
}
