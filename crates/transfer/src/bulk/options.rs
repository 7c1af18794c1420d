//! Socket options: as requested, and as in force.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};
use serde::{Deserialize, Serialize};

use super::Channel;
use netcliff_host::system::{IP_MTU, IPV6_MTU, SO_MAX_PACING_RATE, SocketOption, TCP_CONGESTION};
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt::{self, set};

/// Socket options of both ends. `None` leaves the kernel's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketOptions {
    /// TCP_NODELAY: small blocks leave at once.
    pub no_delay: bool,
    /// TCP_CONGESTION, such as `cubic`.
    pub congestion: Option<String>,
    /// SO_SNDBUF (bytes); the kernel caps it at net.core.wmem_max, then doubles it.
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF (bytes); the kernel caps it at net.core.rmem_max, then doubles it.
    pub receive_buffer_bytes: Option<u32>,
    /// TCP_MAXSEG (bytes).
    pub mss_bytes: Option<u32>,
    /// IP_TOS or IPV6_TCLASS.
    pub tos: Option<u8>,
    /// Pacing of each flow (bit/s): SO_MAX_PACING_RATE for TCP, by the sender itself for UDP (of payload).
    pub pacing_bps: Option<u64>,
    /// Whether the sender itself paces a stream, block by block (of payload), instead of the kernel.
    #[serde(default)]
    pub paced_by_sender: bool,
    /// Whether the blocks that a stream writes and reads begin on a page. Only for write(2) and read(2).
    #[serde(default)]
    pub page_aligned: bool,
}

/// The options in force at a sender's socket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// Congestion control. `None` if the channel is not TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// TCP_NODELAY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_delay: Option<bool>,
    /// SO_SNDBUF as the kernel counts it (bytes), with overhead. The kernel enlarges it by itself unless it was set.
    pub send_buffer_bytes: u32,
    /// SO_RCVBUF of the receiver as the kernel counts it (bytes), with overhead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u32>,
    /// Segment size the sender uses (bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    /// MTU of the path of datagrams (bytes). `None` if the channel is not UDP, or from an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
}

impl SocketOptions {
    /// Sets the options that must be in force before the connection is made. `stream` is true for TCP.
    pub(super) fn before(&self, socket: BorrowedFd<'_>, stream: bool) -> Result<(), WireError> {
        let int = |option: (c_int, c_int), value: u32, what| set(socket, option, &(value as c_int), what, value);
        if let Some(bytes) = self.send_buffer_bytes {
            int((libc::SOL_SOCKET, libc::SO_SNDBUF), bytes, "SO_SNDBUF")?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            int((libc::SOL_SOCKET, libc::SO_RCVBUF), bytes, "SO_RCVBUF")?;
        }
        if let Some(bytes) = self.mss_bytes.filter(|_| stream) {
            int((libc::IPPROTO_TCP, libc::TCP_MAXSEG), bytes, "TCP_MAXSEG")?;
        }
        match &self.congestion {
            Some(name) if stream => congestion(socket, name),
            _ => Ok(()),
        }
    }

    /// Sets the options that a connection does not inherit from its listening socket.
    pub(super) fn after(&self, socket: BorrowedFd<'_>, ipv6: bool, stream: bool) -> Result<(), WireError> {
        if stream {
            let value = c_int::from(self.no_delay);
            set(socket, (libc::IPPROTO_TCP, libc::TCP_NODELAY), &value, "TCP_NODELAY", value)?;
        }
        if let Some(tos) = self.tos {
            let (option, what) = match ipv6 {
                true => ((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), "IPV6_TCLASS"),
                false => ((libc::IPPROTO_IP, libc::IP_TOS), "IP_TOS"),
            };
            set(socket, option, &c_int::from(tos), what, tos)?;
        }
        // Datagrams are paced by their sender: the kernel would pace them only with the fq qdisc.
        if let Some(bps) = self.pacing_bps.filter(|_| stream && !self.paced_by_sender) {
            let bytes_per_s = bps / 8;
            set(socket, SO_MAX_PACING_RATE, &bytes_per_s, "SO_MAX_PACING_RATE", bytes_per_s)?;
        }
        Ok(())
    }
}

/// Sets the time after which a blocked send or receive gives up.
pub(super) fn stall(socket: BorrowedFd<'_>, ns: u64) -> Result<(), WireError> {
    let time = libc::timeval { tv_sec: (ns / 1_000_000_000) as i64, tv_usec: (ns % 1_000_000_000 / 1000) as i64 };
    set(socket, (libc::SOL_SOCKET, libc::SO_SNDTIMEO), &time, "SO_SNDTIMEO", ns)?;
    set(socket, (libc::SOL_SOCKET, libc::SO_RCVTIMEO), &time, "SO_RCVTIMEO", ns)
}

/// Sets the number of bytes that wakes a receiver.
pub(super) fn low_water(socket: BorrowedFd<'_>, bytes: u32) -> std::io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, (libc::SOL_SOCKET, libc::SO_RCVLOWAT), &bytes, "SO_RCVLOWAT", bytes).map_err(std::io::Error::other)
}

/// Refuses a congestion control that this kernel does not have. Whether it is allowed is known only in the network
/// namespace.
pub(super) fn check_congestion(name: &str) -> Result<(), WireError> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    // Without a socket, the check is not possible.
    let Ok(probe) = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None) else { return Ok(()) };
    match congestion(probe.as_fd(), name) {
        Err(error @ WireError::Setting { .. }) if !is_available(name) => Err(error),
        _ => Ok(()),
    }
}

/// Reads the names in /proc/sys/net/ipv4/tcp_{which}_congestion_control.
fn congestions(which: &str) -> Vec<String> {
    let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    std::fs::read_to_string(path).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn is_available(name: &str) -> bool {
    congestions("available").iter().any(|known| known == name)
}

fn congestion(socket: BorrowedFd<'_>, name: &str) -> Result<(), WireError> {
    let failed = |error| WireError::system(format!("set TCP_CONGESTION to {name}"), error);
    let (level, option) = TCP_CONGESTION.level_and_name().map_err(failed)?;
    let (bytes, length) = (name.as_ptr().cast::<c_void>(), name.len() as socklen_t);
    // SAFETY: the name's bytes are readable for their length.
    let refused = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, bytes, length) } < 0;
    if !refused {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    let list = |which: &str| congestions(which).join(", ");
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            Err(WireError::setting("congestion", name, format!("one that this kernel has: {}", list("available"))))
        }
        Some(libc::EPERM) => {
            let allowed = list("allowed");
            Err(WireError::setting("congestion", name, format!("without root one of: {allowed}")))
        }
        _ => Err(failed(error)),
    }
}

/// Reads the options in force at an end's socket. `None` for a pipe.
pub(super) fn in_force(channel: &Channel, sender: bool, socket: BorrowedFd<'_>) -> Option<InForce> {
    match channel {
        Channel::Pipe => None,
        _ if sender => Some(in_force_to_send(socket, channel)),
        _ => Some(InForce { receive_buffer_bytes: receive_buffer(socket), ..InForce::default() }),
    }
}

fn in_force_to_send(socket: BorrowedFd<'_>, channel: &Channel) -> InForce {
    let tcp = matches!(channel, Channel::Tcp { .. });
    let unsigned = |option: SocketOption| sockopt::int(socket, option).and_then(|value| u32::try_from(value).ok());
    let mtu = match channel {
        Channel::Udp { address, .. } if address.is_ipv6() => Some(IPV6_MTU),
        Channel::Udp { .. } => Some(IP_MTU),
        _ => None,
    };
    let of_tcp = |name| unsigned((libc::IPPROTO_TCP, name).into()).filter(|_| tcp);
    InForce {
        congestion: tcp.then(|| congestion_name(socket)).flatten(),
        no_delay: of_tcp(libc::TCP_NODELAY).map(|value| value != 0),
        send_buffer_bytes: unsigned((libc::SOL_SOCKET, libc::SO_SNDBUF).into()).unwrap_or(0),
        receive_buffer_bytes: None,
        mss_bytes: of_tcp(libc::TCP_MAXSEG),
        mtu_bytes: mtu.and_then(unsigned),
    }
}

/// SO_RCVBUF of a receiver's socket (bytes).
fn receive_buffer(socket: BorrowedFd<'_>) -> Option<u32> {
    sockopt::int(socket, (libc::SOL_SOCKET, libc::SO_RCVBUF)).and_then(|value| u32::try_from(value).ok())
}

fn congestion_name(socket: BorrowedFd<'_>) -> Option<String> {
    // Length of the name: TCP_CA_NAME_MAX.
    let mut name = [0; 16];
    sockopt::get(socket, TCP_CONGESTION, &mut name).ok()?;
    let text: String = name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    (!text.is_empty()).then_some(text)
}
