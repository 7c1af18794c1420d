//! Interfaces: address, carrier, and packet sockets.

use std::os::fd::OwnedFd;

use netcliff_host::system;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::{getsockopt, sockopt};

use crate::error::WireError;

/// Send buffer that holds all frames of the queues on the path (each counts about 1 KiB).
const SEND_BUFFER_BYTES: usize = 256 << 20;
/// Options of AF_PACKET (linux/if_packet.h).
pub(crate) const PACKET_RX_RING: libc::c_int = 5;
pub(crate) const PACKET_STATISTICS: libc::c_int = 6;
pub(crate) const PACKET_VERSION: libc::c_int = 10;
pub(crate) const PACKET_TX_RING: libc::c_int = 13;
pub(crate) const PACKET_VNET_HDR: libc::c_int = 15;
pub(crate) const PACKET_QDISC_BYPASS: libc::c_int = 20;
/// Option of AF_PACKET: the socket does not receive frames that this host sends.
pub const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// Frames of all protocols (linux/if_ether.h).
pub const ETH_P_ALL: u16 = 3;
/// IFF_LOWER_UP (linux/if.h).
const LOWER_UP: i32 = 1 << 16;

/// The Ethernet address of an interface in the calling thread's network namespace.
///
/// # Errors
/// The interface does not exist, or has no Ethernet address.
pub fn mac_address(interface: &str) -> Result<[u8; 6], WireError> {
    let action = || format!("read the addresses of interface {interface}");
    getifaddrs()
        .map_err(|e| WireError::system(action(), e))?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr()?.addr())
        .ok_or_else(|| WireError::system(action(), nix::Error::ENODEV))
}

/// Opens an AF_PACKET socket for sending only, bound to an interface that is up.
pub fn packet_socket(interface: &str) -> Result<OwnedFd, WireError> {
    let action = || format!("open a packet socket on interface {interface}");
    let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
    check_carrier(interface)?;
    let fd = system::packet_socket().map_err(|e| WireError::system(action(), e))?;
    set_packet_option(&fd, PACKET_QDISC_BYPASS, &1i32, "bypass the queueing discipline")?;
    grow_send_buffer(&fd);
    system::bind_packet_socket(&fd, index, 0).map_err(|e| WireError::system(action(), e))?;
    Ok(fd)
}

/// Opens a packet socket that is not bound yet and receives nothing.
pub fn unbound_socket(interface: &str) -> Result<(OwnedFd, u32), WireError> {
    let action = || format!("open a packet socket to receive on interface {interface}");
    let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
    let fd = system::packet_socket().map_err(|e| WireError::system(action(), e))?;
    Ok((fd, index))
}

/// Binds the socket, so that it receives the frames of a protocol that arrive at an interface.
pub fn bind(fd: &OwnedFd, interface: &str, index: u32, protocol: u16) -> Result<(), WireError> {
    system::bind_packet_socket(fd, index, protocol)
        .map_err(|e| WireError::system(format!("open a packet socket to receive on interface {interface}"), e))
}

/// Sets an option of level SOL_PACKET.
pub fn set_packet_option<T>(fd: &OwnedFd, option: libc::c_int, value: &T, what: &str) -> Result<(), WireError> {
    system::set_packet_option(fd, option, value).map_err(|e| WireError::system(what, e))
}

/// Enlarges the send buffer, so that a full buffer never makes the sender wait for the receiver. Without CAP_NET_ADMIN
/// the size is limited. A buffer that is too small shows up as `sender_full`.
pub(crate) fn grow_send_buffer(fd: &OwnedFd) {
    let _ = system::set_send_buffer(fd, SEND_BUFFER_BYTES);
}

/// SIOCETHTOOL (linux/sockios.h).
const ETHTOOL: u16 = 0x8946;
/// ETHTOOL_GLINK (linux/ethtool.h).
const GET_LINK: u32 = 0x0a;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Refuses an interface that is gone or has no carrier, in the network namespace of the socket. An interface that does
/// not report its carrier passes.
pub(crate) fn check_link(fd: &OwnedFd, interface: &str) -> Result<(), WireError> {
    let mut answer = EthtoolValue { command: GET_LINK, value: 1 };
    // SAFETY: the structure is that of the command.
    let answered = unsafe { system::interface_ioctl(fd, interface, ETHTOOL, &mut answer) };
    if answered.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV)) {
        return Err(WireError::Gone { interface: interface.to_owned() });
    }
    if answered.is_ok() && answer.value == 0 {
        return Err(WireError::NoCarrier { interface: interface.to_owned() });
    }
    Ok(())
}

/// Replaces a socket's error by the cause, if the interface is gone or has no carrier.
pub(crate) fn explained(fd: &OwnedFd, interface: &str, error: WireError) -> WireError {
    check_link(fd, interface).err().unwrap_or(error)
}

/// Fails if a bound socket's port went down or was removed. The kernel reports this only once.
pub(crate) fn fault(fd: &OwnedFd, interface: &str) -> Result<(), WireError> {
    match getsockopt(fd, sockopt::SocketError) {
        Ok(error @ 1..) => {
            let error = std::io::Error::from_raw_os_error(error);
            Err(explained(fd, interface, WireError::system(format!("receive on interface {interface}"), error)))
        }
        _ => Ok(()),
    }
}

/// Refuses an interface that is down or has no carrier.
///
/// # Errors
/// [`WireError::NoCarrier`], or the kernel lists no interfaces.
pub fn check_carrier(interface: &str) -> Result<(), WireError> {
    // IFF_RUNNING is not used, because it follows the carrier up to a second late.
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::from_bits_retain(LOWER_UP);
    let up = getifaddrs()
        .map_err(|e| WireError::system("list the interfaces", e))?
        .any(|entry| entry.interface_name == interface && entry.flags.contains(wanted));
    if up { Ok(()) } else { Err(WireError::NoCarrier { interface: interface.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_library() {
        let own = [
            PACKET_RX_RING,
            PACKET_STATISTICS,
            PACKET_VERSION,
            PACKET_TX_RING,
            PACKET_QDISC_BYPASS,
            PACKET_IGNORE_OUTGOING,
            ETH_P_ALL.into(),
            LOWER_UP,
        ];
        let library = [
            libc::PACKET_RX_RING,
            libc::PACKET_STATISTICS,
            libc::PACKET_VERSION,
            libc::PACKET_TX_RING,
            libc::PACKET_QDISC_BYPASS,
            libc::PACKET_IGNORE_OUTGOING,
            libc::ETH_P_ALL,
            libc::IFF_LOWER_UP,
        ];
        assert_eq!(own, library);
    }
}
