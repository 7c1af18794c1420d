//! The sink's socket and what the kernel reports about it.

use std::net::UdpSocket;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::SinkConfig;
use crate::error::WireError;

/// Time that a blocking read waits before it checks the stop flag \[ns\].
pub(super) const TIMEOUT_NS: u64 = 50_000_000;

/// Binds the socket and sets the options that the configuration requests.
pub(super) fn open(config: &SinkConfig) -> Result<UdpSocket, WireError> {
    let action = || format!("bind the sink to {}", config.bind);
    let socket = UdpSocket::bind(config.bind).map_err(|e| WireError::system(action(), e))?;
    if let Some(bytes) = config.receive_buffer_bytes {
        set_buffer(&socket, bytes)?;
    }
    if config.kernel_timestamps {
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .map_err(|e| WireError::system("ask for kernel receive timestamps", e))?;
    }
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::nanoseconds(TIMEOUT_NS as i64))
        .map_err(|e| WireError::system("set the receive timeout", e))?;
    Ok(socket)
}

fn set_buffer(socket: &UdpSocket, bytes: usize) -> Result<(), WireError> {
    if !(1..=1 << 30).contains(&bytes) {
        return Err(WireError::setting("receive_buffer_bytes", bytes, "1 to 2^30 bytes"));
    }
    setsockopt(socket, sockopt::RcvBufForce, &bytes)
        .or_else(|_| setsockopt(socket, sockopt::RcvBuf, &bytes))
        .map_err(|e| WireError::system(format!("set a receive buffer of {bytes} bytes"), e))
}

/// The receive buffer in effect, as the kernel counts it \[bytes\]. `None` if the kernel does not report it.
pub(super) fn buffer_bytes(socket: &UdpSocket) -> Option<u64> {
    let bytes = nix::sys::socket::getsockopt(socket, sockopt::RcvBuf).ok()?;
    u64::try_from(bytes).ok()
}

/// Whether the kernel takes its timestamps before the RPS backlog. `None` if the sysctl cannot be read: it is visible
/// only in the initial network namespace.
pub(super) fn stamped_before_backlog() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/sys/net/core/netdev_tstamp_prequeue").ok()?;
    Some(text.trim() != "0")
}
