//! Socket options that the libraries do not support, read and set as bytes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, socklen_t};
use netcliff_host::system::{SO_MEMINFO, SocketOption};

use crate::error::WireError;

/// Number of values in `struct sk_meminfo` (SK_MEMINFO_VARS, include/uapi/linux/sock_diag.h).
const SK_MEMINFO_VARS: usize = 9;
/// Index of the number of drops in `sk_meminfo`.
const SK_MEMINFO_DROPS: usize = 8;
/// Indices in `sk_meminfo`, all of bytes with overhead: received and not yet read, being sent, and queued to send.
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_WMEM_ALLOC: usize = 2;
const SK_MEMINFO_WMEM_QUEUED: usize = 5;

/// Reads an option into `bytes`. Returns the number of bytes that the kernel wrote.
///
/// # Errors
/// The kernel's error: no such option, or not for this socket.
pub fn get(socket: BorrowedFd<'_>, option: impl Into<SocketOption>, bytes: &mut [u8]) -> io::Result<usize> {
    let (level, name) = option.into().level_and_name()?;
    let mut length = socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
    // SAFETY: `bytes` is writable for `length` bytes, of which the kernel writes no more.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, bytes.as_mut_ptr().cast::<c_void>(), &raw mut length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(length as usize) }
}

/// Reads an option whose value is a number. `None` if the kernel does not report it.
pub fn int(socket: BorrowedFd<'_>, option: impl Into<SocketOption>) -> Option<c_int> {
    let mut bytes = [0; size_of::<c_int>()];
    let written = get(socket, option, &mut bytes).ok()?;
    (written == bytes.len()).then(|| c_int::from_ne_bytes(bytes))
}

/// Packets that a socket has dropped since it was opened (buffer full, or bad checksum), modulo 2^32. `None` if the
/// kernel does not report them (before Linux 4.12).
pub fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    Some(meminfo(socket)?[SK_MEMINFO_DROPS])
}

/// Memory of a socket's queues (bytes, with overhead): data received and not yet read, and data to send. `None` if the
/// kernel does not report it. The kernel answers without taking the socket's lock.
pub fn queued(socket: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let all = meminfo(socket)?;
    // The data of a stream count as queued until they are acknowledged; a datagram counts as allocated until the device
    // has sent it. So the larger of the two values applies.
    let to_send = all[SK_MEMINFO_WMEM_QUEUED].max(all[SK_MEMINFO_WMEM_ALLOC]);
    Some((all[SK_MEMINFO_RMEM_ALLOC].into(), to_send.into()))
}

fn meminfo(socket: BorrowedFd<'_>) -> Option<[u32; SK_MEMINFO_VARS]> {
    let mut bytes = [0; SK_MEMINFO_VARS * size_of::<u32>()];
    let written = get(socket, SO_MEMINFO, &mut bytes).ok()?;
    let (numbers, _) = bytes.as_chunks();
    (written == bytes.len()).then(|| std::array::from_fn(|at| u32::from_ne_bytes(numbers[at])))
}

/// Sets an option of any type. `what` and `value_text` name the option and its value in the error.
pub fn set<T>(
    socket: BorrowedFd<'_>,
    option: impl Into<SocketOption>,
    value: &T,
    what: &str,
    value_text: impl std::fmt::Display,
) -> Result<(), WireError> {
    let failed = |error| WireError::system(format!("set {what} to {value_text}"), error);
    let (level, name) = option.into().level_and_name().map_err(failed)?;
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `value` is readable for its size; the kernel copies it.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast::<c_void>(), length)
    };
    if done < 0 { Err(failed(io::Error::last_os_error())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn numbers_and_drops_are_read() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_eq!(int(socket.as_fd(), (libc::SOL_SOCKET, libc::SO_TYPE)), Some(libc::SOCK_DGRAM));
        assert_eq!(int(socket.as_fd(), (libc::IPPROTO_TCP, libc::TCP_NODELAY)), None, "it is not TCP");
        assert_eq!(drops(socket.as_fd()), Some(0));
        // A receive buffer for a few packets: each occupies more than its one byte.
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBuf, &2048).expect("it may shrink");
        let here = socket.local_addr().expect("it is bound");
        for _ in 0..50 {
            socket.send_to(&[0], here).expect("loopback");
        }
        assert!(drops(socket.as_fd()).is_some_and(|count| (1..50).contains(&count)));
    }
}
