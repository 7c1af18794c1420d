//! What a measurement stands on, from its begin to its end: the devices and addresses of a network namespace, and the CPUs.
//!
//! The kernel tells changes by netlink as they happen, so that one that was taken back before the end is known too. Nothing runs meanwhile: what
//! it told waits in a socket until it is asked for.

mod notice;

use crate::rtnl::Rtnl;
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt,
    },
};
use notice::{Notice, notices, offline};
use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    os::fd::{AsRawFd, OwnedFd},
};

/// Groups of rtnetlink: links, and addresses of both versions (linux/rtnetlink.h).
const GROUPS: u32 = libc::RTMGRP_LINK as u32 | libc::RTMGRP_IPV4_IFADDR as u32 | libc::RTMGRP_IPV6_IFADDR as u32;
/// The kernel's own group of device events.
const KERNEL_EVENTS: u32 = 1;
/// Room for what is told until it is asked for: a thousand changes.
const ROOM_BYTES: usize = 1 << 20;
/// Largest message of the kernel.
const MESSAGE_BYTES: usize = 64 << 10;

/// Which of a namespace's devices are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Devices by name; None: all that are up.
    pub interfaces: Option<Vec<String>>,
    /// Addresses of these devices; None: all of them.
    pub addresses: Option<Vec<IpAddr>>,
}

/// How a device was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    name: String,
    up: bool,
    carrier: bool,
    mtu_bytes: Option<u32>,
}

/// The devices of a network namespace, as they were and as they changed.
#[derive(Debug)]
pub struct Ground {
    socket: OwnedFd,
    scope: Scope,
    devices: BTreeMap<u32, Device>,
}

impl Ground {
    /// From now on, in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel does not tell its links.
    pub fn watch(scope: Scope) -> io::Result<Self> {
        // First the socket: what changes while the devices are listed is told as well.
        let socket = listen(SockProtocol::NetlinkRoute, GROUPS)?;
        let is_meant = |name: &String| scope.interfaces.as_ref().is_none_or(|names| names.contains(name));
        let links = Rtnl::new().links()?.into_iter().filter(|link| link.is_up() && is_meant(&link.name));
        let device = |link: crate::rtnl::RawLink| {
            let carrier = link.has_carrier();
            (link.index, Device { name: link.name, up: true, carrier, mtu_bytes: link.mtu_bytes })
        };
        Ok(Self { socket, devices: links.map(device).collect(), scope })
    }

    /// What changed since it was last asked, a phrase each, in the order it happened.
    pub fn changes(&mut self) -> Vec<String> {
        let mut said: Vec<(u32, String)> = Vec::new();
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => break,
                Ok(bytes) => notices(&buffer[..bytes]).into_iter().for_each(|notice| self.note(notice, &mut said)),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => {
                    said.push((0, "the kernel had more changes of devices to tell than fit".to_owned()));
                }
                Err(_) => break,
            }
        }
        said.into_iter().map(|(_, phrase)| phrase).collect()
    }

    fn note(&mut self, notice: Notice, said: &mut Vec<(u32, String)>) {
        match notice {
            Notice::Link { index, up, carrier, mtu_bytes } => {
                let Some(device) = self.devices.get_mut(&index) else { return };
                let name = &device.name;
                if device.up && !up {
                    said.push((index, format!("{name} was set down")));
                } else if up && device.carrier && !carrier {
                    said.push((index, format!("{name} lost its carrier")));
                }
                if let (Some(was), Some(is)) = (device.mtu_bytes, mtu_bytes)
                    && was != is
                {
                    said.push((index, format!("the MTU of {name} went from {was} to {is} bytes")));
                }
                (device.up, device.carrier) = (up, carrier);
                device.mtu_bytes = mtu_bytes.or(device.mtu_bytes);
            }
            Notice::LinkGone { index } => {
                if let Some(device) = self.devices.remove(&index) {
                    // The kernel sets a device down, and takes its addresses, before it removes it.
                    said.retain(|(of, _)| *of != index);
                    let phrase = format!("{} was removed, or moved to another network namespace", device.name);
                    said.push((index, phrase));
                }
            }
            Notice::AddressGone { index, address } => {
                let meant = self.scope.addresses.as_ref().is_none_or(|meant| meant.contains(&address));
                if let Some(device) = self.devices.get(&index).filter(|_| meant) {
                    said.push((index, format!("{} lost its address {address}", device.name)));
                }
            }
        }
    }
}

/// CPUs that were taken offline, as the kernel tells it; a process in a network namespace of another user namespace is told nothing.
#[derive(Debug)]
pub struct Cpus {
    socket: OwnedFd,
}

impl Cpus {
    /// From now on.
    ///
    /// # Errors
    /// The kernel does not tell its events.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { socket: listen(SockProtocol::NetlinkKObjectUEvent, KERNEL_EVENTS)? })
    }

    /// CPUs that went since it was last asked, in the order they did.
    pub fn gone(&mut self) -> Vec<u32> {
        let mut gone = Vec::new();
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return gone,
                Ok(bytes) => gone.extend(offline(&buffer[..bytes])),
                Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(_) => return gone,
            }
        }
    }
}

fn listen(protocol: SockProtocol, groups: u32) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let own = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    // Without the right to more, what the host allows.
    let _ = setsockopt(&own, sockopt::RcvBuf, &ROOM_BYTES);
    bind(own.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(own)
}
