//! Checks whether a port of this machine may be flooded.

use std::fs;

use netcliff_core::quote::shell;
use nix::net::if_::if_nametoindex;

use crate::{rtnl::Rtnl, xdp};

/// IFF_UP, linux/if.h.
const UP: u32 = 1 << 0;

/// Why a port is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// No interface has that name.
    #[error("there is no interface {name}; there are {known}")]
    Missing {
        /// The name given.
        name: String,
        /// Names of the existing interfaces.
        known: String,
    },
    /// The interface is down, or nothing is connected.
    #[error("interface {name} is down or has no carrier: bring it and its peer up (`ip link set dev {} up`)", shell(.name))]
    Down {
        /// The name given.
        name: String,
    },
    /// The interface carries the default route.
    #[error(
        "interface {name} carries the default route: to flood it would cut this machine off; name another, or say \
         --i-know"
    )]
    DefaultRoute {
        /// The name given.
        name: String,
    },
    /// An XDP program of another tool is attached.
    #[error(
        "interface {name} has an XDP program ({}) of another tool, which may take the frames: end that tool or detach it \
         (`ip link set dev {} xdp off`), or say --i-know", described(*program, program_name.as_deref()), shell(.name)
    )]
    Xdp {
        /// The name given.
        name: String,
        /// The program's identifier.
        program: u32,
        /// Name of the program; `None` if it has no name, or this process may not read it.
        program_name: Option<String>,
    },
    /// The MTU is too small for the frames of the test.
    #[error(
        "interface {name} has an MTU of {mtu_bytes}, which frames of up to {frame_bytes} bytes do not fit: give smaller \
         --frames, or set it (`ip link set dev {} mtu {packet_bytes}`, and that of the device)", shell(.name)
    )]
    Mtu {
        /// The name given.
        name: String,
        /// Its MTU (bytes).
        mtu_bytes: u32,
        /// The largest frame (bytes, FCS included).
        frame_bytes: u32,
        /// The part of the frame that counts towards the MTU (bytes).
        packet_bytes: u32,
    },
    /// The kernel does not report the interface.
    #[error("cannot look at interface {name}: {reason}")]
    Unknown {
        /// The name given.
        name: String,
        /// The kernel's reason.
        reason: String,
    },
}

impl PortError {
    /// Whether the user may override the refusal.
    pub fn can_be_overruled(&self) -> bool {
        matches!(self, Self::DefaultRoute { .. } | Self::Xdp { .. })
    }
}

fn described(program: u32, name: Option<&str>) -> String {
    name.map_or_else(|| format!("id {program}"), |name| format!("id {program}, \"{name}\""))
}

/// Checks an interface in the calling thread's network namespace.
///
/// # Errors
/// The reason not to use it.
pub fn check(name: &str) -> Result<(), PortError> {
    let own = || name.to_owned();
    let unknown = |reason: std::io::Error| PortError::Unknown { name: own(), reason: reason.to_string() };
    if if_nametoindex(name).is_err() {
        let known: Vec<String> = Rtnl::new().links().map_err(unknown)?.into_iter().map(|link| link.name).collect();
        return Err(PortError::Missing { name: own(), known: known.join(", ") });
    }
    let link = Rtnl::new().link(name).map_err(unknown)?;
    if link.flags & UP == 0 || !link.has_carrier() {
        return Err(PortError::Down { name: own() });
    }
    let routes = |file: &str| fs::read_to_string(file).unwrap_or_default();
    if default_ipv4(&routes("/proc/thread-self/net/route"), name)
        || default_ipv6(&routes("/proc/thread-self/net/ipv6_route"), name)
    {
        return Err(PortError::DefaultRoute { name: own() });
    }
    match link.xdp_program {
        Some(program) => Err(PortError::Xdp { name: own(), program, program_name: xdp::program_name(program) }),
        None => Ok(()),
    }
}

/// Checks that frames of this length (bytes, headers and FCS included) pass an interface. `header_bytes`: part of them
/// that does not count towards the MTU.
///
/// # Errors
/// The MTU is too small, or the kernel does not report it.
pub fn fits(name: &str, frame_bytes: u32, header_bytes: u32) -> Result<(), PortError> {
    let unknown = |reason: std::io::Error| PortError::Unknown { name: name.to_owned(), reason: reason.to_string() };
    let packet_bytes = frame_bytes.saturating_sub(header_bytes);
    match Rtnl::new().link(name).map_err(unknown)?.mtu_bytes {
        Some(mtu_bytes) if packet_bytes > mtu_bytes => {
            Err(PortError::Mtu { name: name.to_owned(), mtu_bytes, frame_bytes, packet_bytes })
        }
        _ => Ok(()),
    }
}

/// Whether an interface has the default route in /proc/net/route. Columns: Iface, Destination, Gateway, Flags, ...,
/// Mask (the eighth), all hexadecimal.
fn default_ipv4(table: &str, name: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.first() == Some(&name) && fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

/// RTF_REJECT, linux/ipv6_route.h: a route on which nothing is sent. The kernel's unreachable default is such a route
/// at the loopback device.
const REJECT: u32 = 0x200;

/// Whether an interface has the default route in /proc/net/ipv6_route. Columns: Destination, prefix length, ..., flags
/// (the ninth), device.
fn default_ipv6(table: &str, name: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_default = fields.get(1) == Some(&"00") && fields[0].bytes().all(|byte| byte == b'0');
        let flags = fields.get(8).and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0);
        fields.get(9) == Some(&name) && is_default && flags & REJECT == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_seen() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth1\t000012C6\t00000000\t0001\t0\t0\t0\t0000FEFF\t0\t0\t0\n";
        assert!(default_ipv4(table, "eth0") && !default_ipv4(table, "eth1") && !default_ipv4("", "eth0"));
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             20010002000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth1\n"
        );
        assert!(default_ipv6(&table, "eth0") && !default_ipv6(&table, "eth1"));
        // /proc/net/ipv6_route of a kernel with IPv6 on and without routes.
        let table = format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n");
        assert!(!default_ipv6(&table, "lo"));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_named_with_those_that_do() {
        let error = check("no-such-if").unwrap_err();
        assert!(!error.can_be_overruled());
        let text = error.to_string();
        assert!(text.contains("no-such-if") && text.contains("lo"), "{text}");
    }
}
