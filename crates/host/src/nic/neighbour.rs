//! Whether another host is at the other end of a link of this host, and its hardware address.
//!
//! A test writes the addresses of its frames itself: a router between the hosts would not forward them, or would itself
//! be measured.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::rtnl::{Rtnl, missed};
use crate::system;

/// Destination of the probe; any port would do.
const DISCARD: u16 = 9;
/// Longest wait for a neighbour's answer: the kernel sends three requests, a second apart
/// (net.ipv4.neigh.*.mcast_solicit).
const PATIENCE: Duration = Duration::from_millis(3500);

/// Route to a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Interface of this host.
    pub interface: String,
    /// This host's address on that interface.
    pub source: Ipv4Addr,
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
    Own(Ipv4Addr),
    /// A router lies between the hosts.
    #[error(
        "{address} is behind the router {gateway}: frames go straight to the host under test, so both need addresses of one subnet \
         on one link"
    )]
    Routed {
        /// The address.
        address: Ipv4Addr,
        /// The next hop.
        gateway: IpAddr,
    },
    /// No host answers for the address.
    #[error(
        "nobody on {interface} answers for {address} (ARP): is the other host's interface up, and on the same link?"
    )]
    Silent {
        /// The address.
        address: Ipv4Addr,
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
        address: Ipv4Addr,
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
/// port makes the kernel resolve it.
///
/// # Errors
/// See [`NoNeighbour`].
pub fn find(address: Ipv4Addr, interface: Option<&str>) -> Result<Neighbour, NoNeighbour> {
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
    let source = way.source.ok_or_else(|| refused("has no IPv4 address: `ip address add` gives it one"))?;
    let mac = resolve(&mut rtnl, index, &link.name, source, address).map_err(unknown)?;
    let mac = mac.ok_or_else(|| NoNeighbour::Silent { address, interface: link.name.clone() })?;
    Ok(Neighbour { interface: link.name, source, source_mac, mac, mtu_bytes: link.mtu_bytes.unwrap_or(1500) })
}

/// This host's end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnEnd {
    /// Its first IPv4 address.
    pub address: Ipv4Addr,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// MTU (bytes).
    pub mtu_bytes: u32,
}

/// Returns this host's end of the link at an interface of the calling thread's network namespace.
///
/// # Errors
/// The interface does not exist, is down, or has no IPv4 or Ethernet address.
pub fn own_end(interface: &str) -> Result<OwnEnd, NoNeighbour> {
    let refused = |why| NoNeighbour::Interface { interface: interface.to_owned(), why };
    let mut rtnl = Rtnl::new();
    let link = rtnl.link(interface).map_err(|_| refused("does not exist here: `ip link` lists what there is"))?;
    if !link.is_up() || !link.has_carrier() {
        return Err(refused("has no carrier: bring it and what is at its other end up"));
    }
    let mac = link.mac.as_deref().and_then(parse_mac).ok_or_else(|| refused("has no Ethernet address"))?;
    let addresses = rtnl.addresses().map_err(|_| refused("has addresses that the kernel does not report"))?;
    let address = addresses.into_iter().find_map(|(index, address)| match address {
        IpAddr::V4(address) if index == link.index => Some(address),
        _ => None,
    });
    let address = address.ok_or_else(|| refused("has no IPv4 address: `ip address add` gives it one"))?;
    Ok(OwnEnd { address, mac, mtu_bytes: link.mtu_bytes.unwrap_or(1500) })
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
    source: Ipv4Addr,
    address: Ipv4Addr,
) -> std::io::Result<Option<[u8; 6]>> {
    let until = Instant::now() + PATIENCE;
    let mut asked = false;
    loop {
        let known = rtnl.neighbour(index, address)?;
        if known.is_some() || Instant::now() > until {
            return Ok(known);
        }
        if !asked {
            let socket = UdpSocket::bind(SocketAddrV4::new(source, 0))?;
            // Without the right to bind, the routes choose the interface; they were checked before.
            let _ = system::bind_to_device(&socket, interface);
            socket.send_to(&[], SocketAddrV4::new(address, DISCARD))?;
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
        let own = find(Ipv4Addr::LOCALHOST, None).expect_err("it is this host");
        assert!(matches!(own, NoNeighbour::Own(_)), "{own}");
        let none = find(Ipv4Addr::new(192, 0, 2, 1), Some("none0")).expect_err("no such interface");
        assert!(none.to_string().starts_with("interface none0 does not exist here"), "{none}");
    }
}
