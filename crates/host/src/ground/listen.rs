//! Sockets in which the kernel's reports wait.

use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, setsockopt, socket, sockopt,
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// Groups of rtnetlink: links, and addresses of both versions (linux/rtnetlink.h).
const GROUPS: u32 = libc::RTMGRP_LINK as u32 | libc::RTMGRP_IPV4_IFADDR as u32 | libc::RTMGRP_IPV6_IFADDR as u32;
/// The kernel's own group of device events.
const KERNEL_EVENTS: u32 = 1;
/// Receive buffer for reports until they are read: a thousand changes.
const ROOM_BYTES: usize = 1 << 20;

/// Changes of links and addresses in the calling thread's network namespace.
pub(super) fn to_links() -> io::Result<OwnedFd> {
    listen(SockProtocol::NetlinkRoute, GROUPS)
}

/// Device events.
pub(super) fn to_events() -> io::Result<OwnedFd> {
    listen(SockProtocol::NetlinkKObjectUEvent, KERNEL_EVENTS)
}

pub(super) fn listen(protocol: SockProtocol, groups: u32) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let own = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    // Without the right to more, what the host allows.
    let _ = setsockopt(&own, sockopt::RcvBuf, &ROOM_BYTES);
    bind(own.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(own)
}
