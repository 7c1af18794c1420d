//! What the kernel knows about the MTU of paths: routes with an MTU setting, destinations whose MTU path MTU discovery
//! found, and the MTU that TCP connections use. No packet is sent, and root is not needed.

use super::Port;
use crate::rtnl::{Rtnl, explained};
use crate::system::NetlinkSocket;
use netlink_bindings::inet_diag::{self, ReqV2, TcpState};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// File of a capture that holds the paths (a JSON list).
pub const PATHS: &str = "paths.json";
/// Largest number of paths that are returned; they are those with the smallest MTU.
const MOST: usize = 64;
/// Flag that requests `struct tcp_info`: 1 << (INET_DIAG_INFO - 1), linux/inet_diag.h.
const TCP_INFO: u8 = 1 << 1;

/// How the kernel knows an MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// The route has this MTU as a setting.
    Route,
    /// Path MTU discovery found it: a router reported "too big".
    Discovery,
    /// TCP connections to this destination use it.
    Connections,
}

/// A path whose MTU is smaller than the MTU of the interface by which it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NarrowPath {
    /// Destination: an address, a network, or `default`.
    pub destination: String,
    /// Interface by which the path leaves; `None` if the kernel does not report it. The path's MTU is then compared
    /// with the smallest MTU of all interfaces that are up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// MTU of the interface (bytes).
    pub interface_mtu_bytes: u32,
    /// MTU of the path (bytes).
    pub mtu_bytes: u32,
    /// How the kernel knows the path's MTU.
    pub known: Known,
}

/// Finds the narrow paths of this host, the narrowest first.
///
/// # Errors
/// The kernel does not report routes or connections.
pub(super) fn ask(ports: &[Port]) -> io::Result<Vec<NarrowPath>> {
    let mut paths = of_routes(ports)?;
    let known = |destination: &str, paths: &[NarrowPath]| paths.iter().any(|path| path.destination == destination);
    for path in of_connections(ports)? {
        if !known(&path.destination, &paths) {
            paths.push(path);
        }
    }
    paths.sort_by(|a, b| (a.mtu_bytes, &a.destination).cmp(&(b.mtu_bytes, &b.destination)));
    paths.truncate(MOST);
    Ok(paths)
}

fn of_routes(ports: &[Port]) -> io::Result<Vec<NarrowPath>> {
    let routes = Rtnl::new().routes_with_mtu()?;
    let narrow = |route: crate::rtnl::RouteMtu| {
        let port = ports.iter().find(|port| Some(port.nic.index) == route.index)?;
        let interface_mtu_bytes = port.nic.mtu_bytes?;
        let whole = |address: &IpAddr| route.prefix == if address.is_ipv4() { 32 } else { 128 };
        let destination = match route.destination {
            None => "default".to_owned(),
            Some(address) if whole(&address) => address.to_string(),
            Some(address) => format!("{address}/{}", route.prefix),
        };
        (route.mtu_bytes < interface_mtu_bytes).then(|| NarrowPath {
            destination,
            interface: Some(port.nic.name.clone()),
            interface_mtu_bytes,
            mtu_bytes: route.mtu_bytes,
            known: if route.learned { Known::Discovery } else { Known::Route },
        })
    };
    Ok(routes.into_iter().filter_map(narrow).collect())
}

/// Destinations of TCP connections with a narrow path. The kernel does not report a connection's interface, so only a
/// path MTU that is smaller than the MTUs of all interfaces counts.
fn of_connections(ports: &[Port]) -> io::Result<Vec<NarrowPath>> {
    let carries = ports.iter().filter(|port| port.nic.up && port.nic.name != "lo");
    let Some(smallest) = carries.filter_map(|port| port.nic.mtu_bytes).min() else { return Ok(Vec::new()) };
    let mut narrowest: BTreeMap<IpAddr, u32> = BTreeMap::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (address, pmtu_bytes) in connections(family)? {
            let least = narrowest.entry(address).or_insert(pmtu_bytes);
            *least = pmtu_bytes.min(*least);
        }
    }
    let narrow =
        narrowest.into_iter().filter(|(address, pmtu)| *pmtu > 0 && *pmtu < smallest && !address.is_loopback());
    Ok(narrow
        .map(|(address, mtu_bytes)| NarrowPath {
            destination: address.to_string(),
            interface: None,
            interface_mtu_bytes: smallest,
            mtu_bytes,
            known: Known::Connections,
        })
        .collect())
}

/// Far end and path MTU (bytes) of each established TCP connection of this network namespace.
fn connections(family: libc::c_int) -> io::Result<Vec<(IpAddr, u32)>> {
    let header = ReqV2 {
        family: family as u8,
        protocol: libc::IPPROTO_TCP as u8,
        ext: TCP_INFO,
        states: 1 << TcpState::Established as u32,
        ..Default::default()
    };
    let request = inet_diag::Request::new().op_tcp_diag_dump(&header);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let (header, attrs) = reply.map_err(|error| match error.as_io_error().raw_os_error() {
            Some(libc::ENOENT) => io::Error::other("the kernel does not list TCP connections: modprobe tcp_diag"),
            _ => explained(error),
        })?;
        if let Ok(info) = attrs.get_tcp_info() {
            found.push((address(header.family, header.sockid.dst), info.pmtu));
        }
    }
    Ok(found)
}

fn address(family: u8, bytes: [u8; 16]) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    match i32::from(family) {
        libc::AF_INET => Ipv4Addr::new(a, b, c, d).into(),
        _ => Ipv6Addr::from(bytes).to_canonical(),
    }
}

/// Replaces the destinations by made-up ones, for a capture.
pub(super) fn anonymous(paths: &[NarrowPath]) -> Vec<NarrowPath> {
    let one = |(place, path): (usize, &NarrowPath)| {
        let destination = match path.destination.as_str() {
            "default" => "default".to_owned(),
            // 192.0.2.0/24 is reserved for documentation (RFC 5737).
            _ => format!("192.0.2.{}", place + 1),
        };
        NarrowPath { destination, ..path.clone() }
    };
    paths.iter().enumerate().map(one).collect()
}
