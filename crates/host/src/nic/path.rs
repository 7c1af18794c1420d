//! Finds the devices through which packets from and to an address of this host pass, in the network namespace of the
//! calling thread.

use super::Nic;
use crate::rtnl::{RawLink, Rtnl};
use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
};

/// Port for connecting a UDP socket; any would do.
const DISCARD: u16 = 9;
/// Kinds of bridge ports that lead to programs and containers of this host: data does not leave the host through them.
const SOFTWARE: [&str; 2] = ["veth", "tun"];

/// The source address of this host for packets to `peer`, according to the routes. Nothing is sent.
///
/// # Errors
/// There is no route.
pub fn source_towards(peer: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if peer.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Connecting a UDP socket sends nothing.
    socket.connect(SocketAddr::new(peer, DISCARD))?;
    Ok(socket.local_addr()?.ip())
}

/// Whether the address is this host's: the kernel then delivers to it locally.
pub fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || source_towards(address).is_ok_and(|source| source == address)
}

/// The device that has this address, followed by the devices that it consists of: the device below a VLAN, the ports of
/// a bond or bridge. Empty if no device here has the address, and for loopback.
///
/// # Errors
/// The kernel does not report addresses or links.
pub fn with_address(address: IpAddr, sys: &Path) -> io::Result<Vec<Nic>> {
    let ip = |address: &SockaddrStorage| -> Option<IpAddr> {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    let has_it = getifaddrs()?.find(|entry| entry.address.as_ref().and_then(ip) == Some(address));
    let Some(entry) = has_it.filter(|_| !address.is_loopback()) else { return Ok(Vec::new()) };
    // An address of an alias such as `eth0:1` is one of eth0.
    let name = entry.interface_name.split(':').next().unwrap_or_default();
    let links = Rtnl::new().links()?;
    let read = |link: &RawLink| {
        let mut nic = super::ask(link);
        super::sysfs::fill(&mut nic, sys);
        nic
    };
    Ok(made_of(name, &links).into_iter().map(read).collect())
}

/// The link with this name, then the links that it consists of, each once.
fn made_of<'a>(name: &str, links: &'a [RawLink]) -> Vec<&'a RawLink> {
    let mut found: Vec<&RawLink> = links.iter().filter(|link| link.name == name).collect();
    let mut at = 0;
    while let Some(link) = found.get(at).copied() {
        let kind = |link: &RawLink| link.kind.clone().unwrap_or_default();
        let is_port = |other: &RawLink| other.master == Some(link.index) && !SOFTWARE.contains(&kind(other).as_str());
        // The link below a veth is the other end of the pair, which is not part of this device.
        let is_below = |other: &RawLink| link.lower == Some(other.index) && kind(link) != "veth";
        for other in links {
            let known = found.iter().any(|known| known.index == other.index);
            if !known && (is_port(other) || is_below(other)) {
                found.push(other);
            }
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, kind: Option<&str>, lower: Option<u32>, master: Option<u32>) -> RawLink {
        RawLink { index, name: name.into(), kind: kind.map(Into::into), lower, master, ..RawLink::default() }
    }

    #[test]
    fn a_device_is_taken_apart_into_what_carries_its_data() {
        let links = [
            link(1, "lo", None, None, None),
            link(2, "eth0", None, None, Some(5)),
            link(3, "eth1", None, None, Some(5)),
            link(4, "eth2", None, None, None),
            link(5, "bond0", Some("bond"), None, None),
            link(6, "bond0.7", Some("vlan"), Some(5), Some(8)),
            link(7, "veth9", Some("veth"), Some(4), Some(8)),
            link(8, "br0", Some("bridge"), None, None),
        ];
        let names = |name: &str| -> Vec<&str> { made_of(name, &links).iter().map(|link| link.name.as_str()).collect() };
        assert_eq!(names("br0"), ["br0", "bond0.7", "bond0", "eth0", "eth1"]);
        assert_eq!(names("eth2"), ["eth2"]);
        assert_eq!(names("veth9"), ["veth9"], "its other end is another namespace's");
        assert!(names("none").is_empty());
    }

    #[test]
    fn this_host_knows_its_own_addresses() {
        assert!(is_own([127, 0, 0, 1].into()));
        // TEST-NET-1: no host has it.
        assert!(!is_own([192, 0, 2, 1].into()));
        let sys = Path::new("/sys");
        assert!(with_address([127, 0, 0, 1].into(), sys).expect("netlink").is_empty());
        assert!(with_address([192, 0, 2, 1].into(), sys).expect("netlink").is_empty());
    }
}
