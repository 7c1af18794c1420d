//! TLS by the kernel (kTLS): AES-128-GCM records that a sending socket makes and a receiving socket opens.
//!
//! The key is the same in every test and not secret: the test measures the cost of encryption, not its protection. A
//! socket switches to TLS at its first step, after the messages before the transfer have passed unencrypted.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::end::{DataPath, End};
use netcliff_host::system::SocketOption;
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;

/// Constants of include/uapi/linux/tcp.h and linux/tls.h.
const TCP_ULP: SocketOption = SocketOption::of_linux(libc::IPPROTO_TCP, 31);
const SOL_TLS: libc::c_int = 282;
const TLS_TX: libc::c_int = 1;
const TLS_RX: libc::c_int = 2;
const TLS_1_3: u16 = 0x0304;
const AES_GCM_128: u16 = 51;

/// `struct tls12_crypto_info_aes_gcm_128` of linux/tls.h, which TLS 1.3 uses too.
#[repr(C)]
struct CryptoInfo {
    version: u16,
    cipher: u16,
    iv: [u8; 8],
    key: [u8; 16],
    salt: [u8; 4],
    sequence: [u8; 8],
}

const CRYPTO: CryptoInfo = CryptoInfo {
    version: TLS_1_3,
    cipher: AES_GCM_128,
    iv: *b"netcliff",
    key: *b"netcliff measure",
    salt: *b"test",
    sequence: [0; 8],
};

/// Checks on a separate connection whether kTLS works.
///
/// # Errors
/// The kernel has no kTLS, or not this cipher; the error says what to do.
pub(super) fn check() -> Result<(), WireError> {
    let failed = |e: io::Error| WireError::system("make a connection to try kTLS with", e);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let near = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    protocol(near.as_fd()).map_err(no_protocol)?;
    cipher(near.as_fd(), TLS_TX).and_then(|()| cipher(near.as_fd(), TLS_RX)).map_err(no_cipher)
}

fn no_protocol(error: io::Error) -> WireError {
    let action = "use kTLS (TCP_ULP tls): `modprobe tls` loads it, where the kernel was built with CONFIG_TLS; else leave ktls out";
    WireError::system(action, error)
}

fn no_cipher(error: io::Error) -> WireError {
    let action = "use kTLS: the kernel has tls, but not its cipher: `modprobe -a gcm ghash-generic aesni-intel` loads what there is of it; else leave ktls out";
    WireError::system(action, error)
}

fn turn_on(socket: BorrowedFd<'_>, direction: libc::c_int) -> io::Result<()> {
    protocol(socket)?;
    cipher(socket, direction)
}

fn protocol(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(socket, TCP_ULP, b"tls", "TCP_ULP", "tls").map_err(|e| match e {
        WireError::System { source, .. } => source,
        other => io::Error::other(format!("TCP_ULP: {other}")),
    })
}

fn cipher(socket: BorrowedFd<'_>, direction: libc::c_int) -> io::Result<()> {
    let crypto = CRYPTO;
    let length = size_of::<CryptoInfo>() as libc::socklen_t;
    // SAFETY: the structure is readable for its size; the kernel copies it.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), SOL_TLS, direction, (&raw const crypto).cast(), length) };
    if done < 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("TLS_TX or TLS_RX (AES-128-GCM): {error}")));
    }
    Ok(())
}

/// A data path over a socket that uses TLS from its first step on.
pub(super) struct Ktls<'a> {
    mover: Box<dyn DataPath + 'a>,
    socket: BorrowedFd<'a>,
    /// Direction to be switched to TLS. `None` once that is done.
    direction: Option<libc::c_int>,
}

impl<'a> Ktls<'a> {
    /// # Errors
    /// See [`check`].
    pub(super) fn new(mover: Box<dyn DataPath + 'a>, socket: BorrowedFd<'a>, sends: bool) -> Result<Self, WireError> {
        check()?;
        Ok(Self { mover, socket, direction: Some(if sends { TLS_TX } else { TLS_RX }) })
    }
}

impl DataPath for Ktls<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        if let Some(direction) = self.direction.take() {
            turn_on(self.socket, direction)?;
        }
        self.mover.step()
    }

    fn due_ns(&self) -> Option<u64> {
        self.mover.due_ns()
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.mover.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = || io::Error::from_raw_os_error(libc::ENOENT);
        let protocol = no_protocol(missing()).to_string();
        assert!(protocol.contains("modprobe tls"), "{protocol}");
        let cipher = no_cipher(io::Error::other(format!("TLS_TX or TLS_RX (AES-128-GCM): {}", missing()))).to_string();
        assert!(cipher.contains("modprobe -a gcm") && cipher.contains("TLS_TX"), "{cipher}");
    }
}
