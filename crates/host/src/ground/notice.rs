//! Parses messages of rtnetlink and device events from bytes (pure functions).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rtnl::IFF_LOWER_UP;

/// Sizes of `struct nlmsghdr`, `struct ifinfomsg`, `struct ifaddrmsg` and `struct rtattr` (bytes; include/uapi/linux).
const HEADER: usize = 16;
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ATTRIBUTE: usize = 4;

/// RTM_NEWLINK, RTM_DELLINK and RTM_DELADDR, linux/rtnetlink.h.
const NEW_LINK: u16 = 16;
const LINK_GONE: u16 = 17;
const ADDRESS_GONE: u16 = 21;
/// IFLA_MTU, linux/if_link.h; IFA_ADDRESS and IFA_LOCAL, linux/if_addr.h.
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// IFF_UP, linux/if.h.
const IFF_UP: u32 = 1;

/// A change of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// The device's present state.
    Link { index: u32, up: bool, carrier: bool, mtu_bytes: Option<u32> },
    /// The device was removed.
    LinkGone { index: u32 },
    /// An address of the device was removed.
    AddressGone { index: u32, address: IpAddr },
}

/// The changes in a datagram of the kernel. Truncated messages and messages of other kinds are left out.
pub(super) fn notices(mut bytes: &[u8]) -> Vec<Notice> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind)) = (word(bytes, 0), half(bytes, 4)) {
        let length = length as usize;
        let Some(message) = bytes.get(HEADER..length) else { break };
        found.extend(notice(kind, message));
        // The next message begins at a multiple of 4 bytes.
        let Some(rest) = bytes.get(length.next_multiple_of(4)..) else { break };
        bytes = rest;
    }
    found
}

fn notice(kind: u16, message: &[u8]) -> Option<Notice> {
    let index = word(message, 4)?;
    match kind {
        NEW_LINK => {
            let flags = word(message, 8)?;
            let has = |flag: u32| flags & flag != 0;
            let mtu_bytes = attribute(message.get(LINK..)?, IFLA_MTU).and_then(|value| word(value, 0));
            Some(Notice::Link { index, up: has(IFF_UP), carrier: has(IFF_LOWER_UP), mtu_bytes })
        }
        // The kernel sends the same message type with another address family when a port leaves its bridge.
        LINK_GONE => (message.first() == Some(&0)).then_some(Notice::LinkGone { index }),
        ADDRESS_GONE => {
            let attributes = message.get(ADDRESS..)?;
            let value = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
            let v4 = || <[u8; 4]>::try_from(value).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
            let v6 = || <[u8; 16]>::try_from(value).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)));
            Some(Notice::AddressGone { index, address: v4().or_else(v6)? })
        }
        _ => None,
    }
}

/// The value of the first attribute of type `wanted`.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (half(bytes, 0)? as usize, half(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// The CPU that a device event reports as taken offline. `None` for other events, and for an event that a program
/// requested (`SYNTH_UUID`), which is no change.
pub(super) fn offline(event: &[u8]) -> Option<u32> {
    let mut parts = event.split(|byte| *byte == 0);
    let cpu = parts.next()?.strip_prefix(b"offline@/devices/system/cpu/cpu")?;
    if parts.any(|part| part.starts_with(b"SYNTH_UUID=")) {
        return None;
    }
    std::str::from_utf8(cpu).ok()?.parse().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn link(family: u8, index: u32, flags: libc::c_int, attributes: &[u8]) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        body.extend(index.to_ne_bytes());
        body.extend((flags as u32).to_ne_bytes());
        body.resize(LINK, 0);
        body.extend(attributes);
        body
    }

    fn attributed(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((ATTRIBUTE + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn links_and_addresses_are_read() {
        let named =
            [attributed(libc::IFLA_IFNAME, b"veth0\0"), attributed(libc::IFLA_MTU, &1500_u32.to_ne_bytes())].concat();
        let mut bytes = message(libc::RTM_NEWLINK, &link(0, 7, libc::IFF_UP | libc::IFF_LOWER_UP, &named));
        bytes.extend(message(libc::RTM_NEWLINK, &link(0, 7, 0, &[])));
        bytes.extend(message(libc::RTM_DELLINK, &link(libc::AF_BRIDGE as u8, 7, 0, &[])));
        bytes.extend(message(libc::RTM_DELLINK, &link(0, 7, 0, &[])));
        let mut address = vec![2, 24, 0, 0];
        address.extend(7_u32.to_ne_bytes());
        address.extend(attributed(libc::IFA_ADDRESS, &[192, 0, 2, 9]));
        address.extend(attributed(libc::IFA_LOCAL, &[192, 0, 2, 1]));
        bytes.extend(message(libc::RTM_DELADDR, &address));
        let found = notices(&bytes);
        assert_eq!(
            found,
            [
                Notice::Link { index: 7, up: true, carrier: true, mtu_bytes: Some(1500) },
                Notice::Link { index: 7, up: false, carrier: false, mtu_bytes: None },
                Notice::LinkGone { index: 7 },
                Notice::AddressGone { index: 7, address: [192, 0, 2, 1].into() },
            ]
        );
        // A truncated datagram is parsed as far as it goes.
        for length in 0..bytes.len() {
            assert!(notices(&bytes[..length]).len() <= found.len());
        }
    }

    #[test]
    fn a_cpu_that_goes_is_named_and_one_that_is_only_said_to_is_not() {
        let event = |text: &str| offline(text.replace('|', "\0").as_bytes());
        assert_eq!(event("offline@/devices/system/cpu/cpu1|ACTION=offline|SUBSYSTEM=cpu|SEQNUM=9|"), Some(1));
        assert_eq!(event("offline@/devices/system/cpu/cpu12"), Some(12));
        assert_eq!(event("offline@/devices/system/cpu/cpu1|ACTION=offline|SYNTH_UUID=0|"), None);
        assert_eq!(event("online@/devices/system/cpu/cpu1|ACTION=online|"), None);
        assert_eq!(event("offline@/devices/system/memory/memory3|"), None);
        assert_eq!(event(""), None);
    }
}
