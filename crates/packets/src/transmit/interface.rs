//! Interfaces and AF_PACKET sockets.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::{setsockopt, sockopt};

use crate::error::WireError;

/// Send buffer for all frames that queues can hold on the path (each counts about 1 KiB).
const SEND_BUFFER_BYTES: usize = 256 << 20;
/// This option is missing in the libc crate (linux/if_packet.h).
pub(crate) const PACKET_VNET_HDR: libc::c_int = 15;

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

/// An AF_PACKET socket bound to an interface that is up, for sending only.
pub fn packet_socket(interface: &str) -> Result<OwnedFd, WireError> {
    let action = || format!("open a packet socket on interface {interface}");
    let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
    check_carrier(interface)?;
    // SAFETY: plain system call without pointers. Protocol 0: the socket receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(WireError::last_os(action()));
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_packet_option(&fd, libc::PACKET_QDISC_BYPASS, &1i32, "bypass the queueing discipline")?;
    grow_send_buffer(&fd);
    // SAFETY: sockaddr_ll is plain data, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    // SAFETY: the pointer and length describe `address`, which outlives the call.
    let bound =
        unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32) };
    if bound < 0 {
        return Err(WireError::last_os(action()));
    }
    Ok(fd)
}

/// Sets an option of level SOL_PACKET.
pub fn set_packet_option<T>(fd: &OwnedFd, option: libc::c_int, value: &T, what: &str) -> Result<(), WireError> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if done < 0 {
        return Err(WireError::last_os(what));
    }
    Ok(())
}

/// Enlarges the send buffer, so that a full buffer never closes the loop. Without CAP_NET_ADMIN the size is limited. A
/// buffer that is too small shows up as `sender_full`.
pub(crate) fn grow_send_buffer(fd: &OwnedFd) {
    if setsockopt(fd, sockopt::SndBufForce, &SEND_BUFFER_BYTES).is_err() {
        let _ = setsockopt(fd, sockopt::SndBuf, &SEND_BUFFER_BYTES);
    }
}

/// SIOCETHTOOL, linux/sockios.h, and ETHTOOL_GLINK, linux/ethtool.h.
const ETHTOOL: libc::Ioctl = 0x8946;
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
    // SAFETY: plain integers and bytes, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: a valid ifreq whose data points to the structure of this command; both outlive the call.
    let answered = unsafe { libc::ioctl(fd.as_raw_fd(), ETHTOOL, &mut request) };
    if answered < 0 && nix::Error::last() == nix::Error::ENODEV {
        return Err(WireError::Gone { interface: interface.to_owned() });
    }
    if answered >= 0 && answer.value == 0 {
        return Err(WireError::NoCarrier { interface: interface.to_owned() });
    }
    Ok(())
}

/// Replaces a socket's error by its cause if the interface is gone or has no carrier.
pub(crate) fn explained(fd: &OwnedFd, interface: &str, error: WireError) -> WireError {
    check_link(fd, interface).err().unwrap_or(error)
}

/// Opens a socket in the calling thread's network namespace for ioctls on interfaces. An AF_XDP socket does not support
/// them.
pub(crate) fn asking_socket() -> Result<OwnedFd, WireError> {
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(WireError::last_os("open a socket to ask for interfaces"));
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Refuses an interface that is down or has no carrier.
///
/// # Errors
/// [`WireError::NoCarrier`], or the kernel lists no interfaces.
pub fn check_carrier(interface: &str) -> Result<(), WireError> {
    // Do not use IFF_RUNNING: it follows the carrier up to a second late.
    let wanted = InterfaceFlags::IFF_UP | InterfaceFlags::from_bits_retain(libc::IFF_LOWER_UP);
    let up = getifaddrs()
        .map_err(|e| WireError::system("list the interfaces", e))?
        .any(|entry| entry.interface_name == interface && entry.flags.contains(wanted));
    if up { Ok(()) } else { Err(WireError::NoCarrier { interface: interface.to_owned() }) }
}
