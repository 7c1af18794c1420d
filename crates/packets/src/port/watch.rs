//! AF_PACKET sockets bound to a port, and their error reports about it.

use std::os::fd::OwnedFd;

use netcliff_host::system;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::WireError;
use crate::transmit::interface::explained;

/// Opens a packet socket that is not bound yet and receives nothing.
pub fn open(interface: &str) -> Result<(OwnedFd, u32), WireError> {
    let action = || format!("open a packet socket to receive on interface {interface}");
    let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
    let fd = system::packet_socket().map_err(|e| WireError::system(action(), e))?;
    Ok((fd, index))
}

/// Binds the socket: from now on it receives the frames of a protocol that arrive at an interface.
pub fn bind(fd: &OwnedFd, interface: &str, index: u32, protocol: u16) -> Result<(), WireError> {
    system::bind_packet_socket(fd, index, protocol)
        .map_err(|e| WireError::system(format!("open a packet socket to receive on interface {interface}"), e))
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
