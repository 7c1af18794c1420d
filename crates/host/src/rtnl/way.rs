//! The path to one address: the kernel's route, and the neighbour at its end.

use super::{Rtnl, explained};
use netlink_bindings::{
    rt_neigh::{self, Ndmsg},
    rt_route::{self, Rtmsg},
};
use std::{io, net::IpAddr};

/// A route to one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// Whether the address is this host's.
    pub local: bool,
    pub index: Option<u32>,
    pub gateway: Option<IpAddr>,
    /// This host's address for packets to it, of the same family.
    pub source: Option<IpAddr>,
}

impl Rtnl {
    /// The kernel's route for packets to an address, restricted to a link if one is given.
    pub(crate) fn way_to(&mut self, address: IpAddr, by: Option<u32>) -> io::Result<Way> {
        let bits = if address.is_ipv6() { 128 } else { 32 };
        let header = Rtmsg { rtm_family: super::family(address), rtm_dst_len: bits, ..Default::default() };
        let mut request = rt_route::Request::new().op_getroute_do(&header);
        let attrs = request.encode().push_dst(address);
        match by {
            Some(index) => drop(attrs.push_oif(index)),
            None => drop(attrs),
        }
        let mut replies = self.socket.request(&request)?;
        let (header, attrs) = replies.recv_one().map_err(explained)?;
        Ok(Way {
            local: header.rtm_type == super::RTN_LOCAL,
            index: attrs.get_oif().ok(),
            gateway: attrs.get_gateway().or_else(|_| attrs.get_via()).ok(),
            source: attrs.get_prefsrc().ok().filter(|source| source.is_ipv6() == address.is_ipv6()),
        })
    }

    /// Hardware address of a neighbour on a link; `None` if the kernel does not know it.
    pub(crate) fn neighbour(&mut self, index: u32, address: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let header = Ndmsg { ndm_family: super::family(address), ..Default::default() };
        let request = rt_neigh::Request::new().op_getneigh_dump(&header);
        let mut replies = self.socket.request(&request)?;
        let mut found = None;
        // All replies are read, because the socket is used again.
        while let Some(reply) = replies.recv() {
            let (header, attrs) = reply.map_err(explained)?;
            let is_it = header.ndm_ifindex == index as i32 && attrs.get_dst().ok() == Some(address);
            if is_it && let Ok(mac) = attrs.get_lladdr() {
                found = mac.try_into().ok();
            }
        }
        Ok(found)
    }
}
