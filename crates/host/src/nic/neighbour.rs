//! Whether another host is on the other end of a link of this one, and by which hardware address.
//!
//! Frames of a test are addressed by hand: a router between the hosts would not forward them, or, worse, would be what is measured.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::rtnl::{Rtnl, missed};
use crate::system;

/// Any port would do.
const DISCARD: u16 = 9;
/// How long a neighbour may take to answer: the kernel asks three times, a second apart (net.ipv4.neigh.*.mcast_solicit).
const PATIENCE: Duration = Duration::from_millis(3500);

/// The way to a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Interface of this host.
    pub interface: String,
    /// Its address towards the neighbour.
    pub source: Ipv4Addr,
    /// Its hardware address.
    pub source_mac: [u8; 6],
    /// The neighbour's hardware address.
    pub mac: [u8; 6],
    /// MTU of this host's interface (bytes).
    pub mtu_bytes: u32,
}

/// Why a host is not a neighbour.
#[derive(Debug, thiserror::Error)]
pub enum NoNeighbour {
    /// It is this host.
    #[error("{0} is an address of this host: name an address of the other one")]
    Own(Ipv4Addr),
    /// A router is between.
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
    /// Nobody answers.
    #[error(
        "nobody on {interface} answers for {address} (ARP): is the other host's interface up, and on the same link?"
    )]
    Silent {
        /// The address.
        address: Ipv4Addr,
        /// The interface asked.
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
    /// Its frames must be shorter.
    #[error("frames of {frame_bytes} B do not fit the MTU {mtu_bytes} of {interface}: give --size {} or less, or raise the MTU", most(*mtu_bytes))]
    TooLong {
        /// Frame size asked for, FCS included (bytes).
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

/// Bytes of a frame beyond its IP packet: Ethernet header and FCS.
const FRAMING_BYTES: u32 = 18;

fn most(mtu_bytes: u32) -> String {
    format!("{}B", mtu_bytes + FRAMING_BYTES)
}

/// Refuses frames that an interface does not send or take.
///
/// # Errors
/// [`NoNeighbour::TooLong`].
pub fn fits(frame_bytes: u32, mtu_bytes: u32, interface: &str) -> Result<(), NoNeighbour> {
    if frame_bytes <= mtu_bytes + FRAMING_BYTES {
        return Ok(());
    }
    Err(NoNeighbour::TooLong { frame_bytes, mtu_bytes, interface: interface.to_owned() })
}

/// Finds a neighbour by the routes and the neighbour table of the calling thread's network namespace, on an interface or on the one that
/// the routes name. Asks for it by one datagram to its discard port where the kernel does not know it.
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

/// The end of a link that an interface of the calling thread's network namespace is.
///
/// # Errors
/// It does not exist, is down, or has no IPv4 or Ethernet address.
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

/// Packets that an interface has received, and those that it had no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Packets received.
    pub packets: u64,
    /// Dropped by the device for want of room: descriptors, its FIFO (`RING_COUNTERS`).
    pub missed: u64,
}

/// What an interface has received so far; None where the kernel does not report.
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
            // Without the right to it the routes decide, which were looked at.
            let _ = system::bind_to_device(&socket, interface);
            socket.send_to(&[], SocketAddrV4::new(address, DISCARD))?;
            asked = true;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Six bytes of a hardware address such as `02:00:00:00:00:01`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// As `02:00:00:00:00:01`.
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
