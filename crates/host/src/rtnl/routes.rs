//! Routes that know of an MTU: one they were given, or one that the kernel has learned of a destination.

use super::{Rtnl, explained};
use netlink_bindings::rt_route::{self, Rtmsg};
use std::{io, net::IpAddr};

/// RTM_F_CLONED, linux/rtnetlink.h: an exception from a route that was learned for one destination.
const CLONED: u32 = 0x200;

/// A route with an MTU of its own.
pub(crate) struct RouteMtu {
    /// Destination; None: the default route.
    pub destination: Option<IpAddr>,
    pub prefix: u8,
    pub index: Option<u32>,
    pub mtu_bytes: u32,
    pub learned: bool,
}

impl Rtnl {
    /// Unicast routes and exceptions with an MTU. A kernel that heeds flags returns exceptions only on request, others always,
    /// so both are requested.
    pub(crate) fn routes_with_mtu(&mut self) -> io::Result<Vec<RouteMtu>> {
        let mut found: Vec<RouteMtu> = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            for flags in [0, CLONED] {
                let header = Rtmsg { rtm_family: family as u8, rtm_flags: flags, ..Default::default() };
                let request = rt_route::Request::new().op_getroute_dump(&header);
                let mut replies = self.socket.request(&request)?;
                while let Some(reply) = replies.recv() {
                    let (header, attrs) = reply.map_err(explained)?;
                    let mtu_bytes = attrs.get_metrics().ok().and_then(|metrics| metrics.get_mtu().ok());
                    let Some(mtu_bytes) = mtu_bytes.filter(|_| header.rtm_type == libc::RTN_UNICAST) else { continue };
                    let route = RouteMtu {
                        destination: attrs.get_dst().ok(),
                        prefix: header.rtm_dst_len,
                        index: attrs.get_oif().ok(),
                        mtu_bytes,
                        learned: header.rtm_flags & CLONED != 0,
                    };
                    let same = |other: &RouteMtu| (other.destination, other.index) == (route.destination, route.index);
                    if !found.iter().any(same) {
                        found.push(route);
                    }
                }
            }
        }
        Ok(found)
    }
}
