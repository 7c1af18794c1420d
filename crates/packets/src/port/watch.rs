//! AF_PACKET sockets bound to a port, and their error reports about it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::WireError;
use crate::transmit::interface::{check_link, explained};

/// IEEE 802 "local experimental" EtherType: only private experiments use it.
const NOBODYS: u16 = 0x88b5;

/// Opens a packet socket that is not bound yet and receives nothing.
pub fn open(interface: &str) -> Result<(OwnedFd, u32), WireError> {
    let action = || format!("open a packet socket to receive on interface {interface}");
    let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
    // SAFETY: plain system call without pointers. Protocol 0: the socket receives nothing before it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(WireError::last_os(action()));
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, index))
}

/// Binds the socket: from now on it receives the frames of a protocol that arrive at an interface.
pub fn bind(fd: &OwnedFd, interface: &str, index: u32, protocol: u16) -> Result<(), WireError> {
    // SAFETY: sockaddr_ll is plain data, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the pointer and length describe `address`, which outlives the call.
    let bound =
        unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) };
    if bound < 0 {
        return Err(WireError::last_os(format!("open a packet socket to receive on interface {interface}")));
    }
    Ok(())
}

/// Fails if a bound socket's port went down or was removed. The kernel reports this only once.
pub(super) fn fault(fd: &OwnedFd, interface: &str) -> Result<(), WireError> {
    match getsockopt(fd, sockopt::SocketError) {
        Ok(error @ 1..) => {
            let error = std::io::Error::from_raw_os_error(error);
            Err(explained(fd, interface, WireError::system(format!("receive on interface {interface}"), error)))
        }
        _ => Ok(()),
    }
}

/// Notices that a port went down or away, for a receiver whose own socket does not report it.
#[derive(Debug)]
pub(super) struct Watch {
    fd: OwnedFd,
    interface: String,
}

impl Watch {
    /// Starts watching a port.
    pub(super) fn new(interface: &str) -> Result<Self, WireError> {
        let (fd, index) = open(interface)?;
        bind(&fd, interface, index, NOBODYS)?;
        Ok(Self { fd, interface: interface.to_owned() })
    }

    /// Fails while the port has no carrier.
    pub(super) fn check_link(&self) -> Result<(), WireError> {
        check_link(&self.fd, &self.interface)
    }

    /// Fails if the port went down or was removed.
    pub(super) fn check(&self) -> Result<(), WireError> {
        fault(&self.fd, &self.interface)
    }
}
