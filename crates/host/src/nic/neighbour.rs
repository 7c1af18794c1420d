//! Whether another host is at the other end of a link of this host, and its hardware address.
//!
//! A test writes the addresses of its frames itself: a router between the hosts would not forward them, or would itself
//! be measured.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::rtnl::{Rtnl, missed};
use crate::system;

/// Destination of the probe; any port would do.
const DISCARD: u16 = 9;
/// Longest wait for a neighbour's answer: the kernel sends three requests, a second apart
/// (mcast_solicit of net.ipv4.neigh and net.ipv6.neigh).
const PATIENCE: Duration = Duration::from_millis(3500);

/// Route to a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Interface of this host.
    pub interface: String,
    /// This host's address on that interface, of the neighbour's family.
    pub source: IpAddr,
    /// The interface's hardware address.
    pub source_mac: [u8; 6],
    /// The neighbour's hardware address.
    pub mac: [u8; 6],
    /// MTU of this host's interface (bytes).
    pub mtu_bytes: u32,
}

/// Why a host cannot be used as a neighbour.
#[derive(Debug, thiserror::Error)]
pub enum NoNeighbour {
    /// The address is this host's.
    #[error("{0} is an address of this host: name an address of the other one")]
    Own(IpAddr),
    /// A router lies between the hosts.
    #[error(
        "{address} is behind the router {gateway}: frames go straight to the host under test, so both need addresses of one subnet \
         on one link"
    )]
    Routed {
        /// The address.
        address: IpAddr,
        /// The next hop.
        gateway: IpAddr,
    },
    /// No host answers for the address.
    #[error(
        "nobody on {interface} answers for {address} ({}): is the other host's interface up, and on the same link?",
        if address.is_ipv6() { "neighbour discovery" } else { "ARP" }
    )]
    Silent {
        /// The address.
        address: IpAddr,
        /// Name of the interface.
        interface: String,
    },
    /// The interface cannot be used.
    #[error("interface {interface} {why}")]
    Interface {
        /// Its name.
        interface: String,
        /// A phrase.
        why: &'static str,
    },
    /// The frame size exceeds the interface's MTU.
    #[error("frames of {frame_bytes} B do not fit the MTU {mtu_bytes} of {interface}: give --size {} or less, or raise the MTU", most(*mtu_bytes))]
    TooLong {
        /// Requested frame size, FCS included (bytes).
        frame_bytes: u32,
        /// The MTU (bytes).
        mtu_bytes: u32,
        /// The interface.
        interface: String,
    },
    /// The kernel refused a request.
    #[error("the way to {address} is not known: {source}")]
    Unknown {
        /// The address.
        address: IpAddr,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// Bytes of a frame in addition to its IP packet: Ethernet header and FCS.
const FRAMING_BYTES: u32 = 18;

fn most(mtu_bytes: u32) -> String {
    format!("{}B", mtu_bytes + FRAMING_BYTES)
}

/// Checks that frames of this size fit the interface's MTU.
///
/// # Errors
/// [`NoNeighbour::TooLong`].
pub fn fits(frame_bytes: u32, mtu_bytes: u32, interface: &str) -> Result<(), NoNeighbour> {
    if frame_bytes <= mtu_bytes + FRAMING_BYTES {
        return Ok(());
    }
    Err(NoNeighbour::TooLong { frame_bytes, mtu_bytes, interface: interface.to_owned() })
}

/// Finds a neighbour by the routes and the neighbour table of the calling thread's network namespace, on the given
/// interface or on the interface of the route. If the kernel does not know the neighbour, one datagram to its discard
/// port makes the kernel resolve it (ARP, or neighbour discovery of IPv6).
///
/// # Errors
/// See [`NoNeighbour`].
pub fn find(address: IpAddr, interface: Option<&str>) -> Result<Neighbour, NoNeighbour> {
    let unknown = |source| NoNeighbour::Unknown { address, source };
    let mut rtnl = Rtnl::new();
    let asked = interface.map(|name| {
        let refused = |why| NoNeighbour::Interface { interface: name.to_owned(), why };
        let link = rtnl.link(name).map_err(|_| refused("does not exist here: `ip link` lists what there is"))?;
        if !link.is_up() || !link.has_carrier() {
            return Err(refused("has no carrier: bring it and what is at its other end up"));
        }
        Ok(link.index)
    });
    let asked = asked.transpose()?;
    let way = rtnl.way_to(address, asked).map_err(unknown)?;
    if way.local {
        return Err(NoNeighbour::Own(address));
    }
    if let Some(gateway) = way.gateway {
        return Err(NoNeighbour::Routed { address, gateway });
    }
    let index = asked.or(way.index).ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))?;
    let link = rtnl.link_at(index).map_err(unknown)?;
    let refused = |why| NoNeighbour::Interface { interface: link.name.clone(), why };
    let source_mac = link.mac.as_deref().and_then(parse_mac).ok_or_else(|| refused("has no Ethernet address"))?;
    let source = way.source.ok_or_else(|| refused(no_address(address.is_ipv6())))?;
    let mac = resolve(&mut rtnl, index, &link.name, source, address).map_err(unknown)?;
    let mac = mac.ok_or_else(|| NoNeighbour::Silent { address, interface: link.name.clone() })?;
    Ok(Neighbour { interface: link.name, source, source_mac, mac, mtu_bytes: link.mtu_bytes.unwrap_or(1500) })
}

/// Whether an interface has this address, of whatever family, in the calling thread's network namespace: a load by the
/// interface shares it with the connections of that address.
pub fn carries(interface: &str, address: IpAddr) -> bool {
    let mut rtnl = Rtnl::new();
    let Ok(link) = rtnl.link(interface) else { return false };
    // A connection of IPv4 to a socket of IPv6 has a mapped address.
    let address = address.to_canonical();
    rtnl.addresses().is_ok_and(|all| all.contains(&(link.index, address)))
}

/// This host's end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnEnd {
    /// Its first address of the requested family; of IPv6 the first that is valid beyond the link.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// MTU (bytes).
    pub mtu_bytes: u32,
}

/// Returns this host's end of the link at an interface of the calling thread's network namespace.
///
/// # Errors
/// The interface does not exist, is down, or has no Ethernet address or no address of the family.
pub fn own_end(interface: &str, ipv6: bool) -> Result<OwnEnd, NoNeighbour> {
    let refused = |why| NoNeighbour::Interface { interface: interface.to_owned(), why };
    let mut rtnl = Rtnl::new();
    let link = rtnl.link(interface).map_err(|_| refused("does not exist here: `ip link` lists what there is"))?;
    if !link.is_up() || !link.has_carrier() {
        return Err(refused("has no carrier: bring it and what is at its other end up"));
    }
    let mac = link.mac.as_deref().and_then(parse_mac).ok_or_else(|| refused("has no Ethernet address"))?;
    let addresses = rtnl.addresses().map_err(|_| refused("has addresses that the kernel does not report"))?;
    // An address of the link alone names an interface only together with an index, which differs between hosts.
    let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let own = addresses.into_iter().filter(|(index, _)| *index == link.index).map(|(_, address)| address);
    let address = own.into_iter().find(|address| address.is_ipv6() == ipv6 && !is_of_link(address));
    let address = address.ok_or_else(|| refused(no_address(ipv6)))?;
    Ok(OwnEnd { address, mac, mtu_bytes: link.mtu_bytes.unwrap_or(1500) })
}

/// Why an interface without an address of the family is refused.
fn no_address(ipv6: bool) -> &'static str {
    if ipv6 {
        "has no IPv6 address other than one of the link alone (fe80::): `ip address add` gives it one, such as 2001:db8::1/64"
    } else {
        "has no IPv4 address: `ip address add` gives it one, or with IPv6 addresses give find --ipv6"
    }
}

/// Packets that an interface received, and packets that it dropped for lack of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Packets received.
    pub packets: u64,
    /// Packets that the device dropped for lack of descriptors or space in its FIFO (`RING_COUNTERS`).
    pub missed: u64,
}

/// Receive counters of an interface since its creation; `None` if the kernel does not report it.
pub fn received(interface: &str) -> Option<Received> {
    let stats = Rtnl::new().link(interface).ok()?.stats?;
    Some(Received { packets: stats.rx_packets, missed: missed(&stats) })
}

fn resolve(
    rtnl: &mut Rtnl,
    index: u32,
    interface: &str,
    source: IpAddr,
    address: IpAddr,
) -> std::io::Result<Option<[u8; 6]>> {
    let until = Instant::now() + PATIENCE;
    let mut asked = false;
    loop {
        let known = rtnl.neighbour(index, address)?;
        if known.is_some() || Instant::now() > until {
            return Ok(known);
        }
        if !asked {
            let socket = UdpSocket::bind(SocketAddr::new(source, 0))?;
            // Without the right to bind, the routes choose the interface; they were checked before.
            let _ = system::bind_to_device(&socket, interface);
            socket.send_to(&[], SocketAddr::new(address, DISCARD))?;
            asked = true;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Parses a hardware address such as `02:00:00:00:00:01`; `None` if it is not six bytes.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// Formats a hardware address as `02:00:00:00:00:01`.
pub fn print_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_read_and_printed() {
        assert_eq!(parse_mac("02:00:ff:00:00:01"), Some([2, 0, 255, 0, 0, 1]));
        assert_eq!(print_mac([2, 0, 255, 0, 0, 1]), "02:00:ff:00:00:01");
        assert_eq!([parse_mac("02:00"), parse_mac(""), parse_mac("gg:00:00:00:00:00")], [None; 3]);
    }

    #[test]
    fn frames_fit_their_mtu() {
        fits(1518, 1500, "eth0").expect("it is the longest");
        let long = fits(1519, 1500, "eth0").expect_err("it is longer").to_string();
        assert!(long.contains("MTU 1500 of eth0") && long.contains("--size 1518B"), "{long}");
    }

    #[test]
    fn what_is_no_neighbour_is_told_apart() {
        let own = find([127, 0, 0, 1].into(), None).expect_err("it is this host");
        assert!(matches!(own, NoNeighbour::Own(_)), "{own}");
        let none = find([192, 0, 2, 1].into(), Some("none0")).expect_err("no such interface");
        assert!(none.to_string().starts_with("interface none0 does not exist here"), "{none}");
    }
}
