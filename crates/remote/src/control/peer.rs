//! Finds the local user at the other end of a TCP connection over loopback.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// State of a connection in the kernel's tables (TCP_ESTABLISHED). A closed connection has no owner any more: the
/// kernel reports user 0 for it.
const ESTABLISHED: &str = "01";

/// The user id that the kernel reports for every user without a number in this process's user namespace.
const OVERFLOW_UID: u32 = 65_534;

/// Whether a peer without a key is served. Only this process's user and root are.
pub fn is_served(user: Option<u32>) -> bool {
    user.is_some_and(|user| user == 0 || user == nix::unistd::geteuid().as_raw())
}

/// The user who owns the other end (`peer`) of a connection to `local`. `None` if this host has no such connection, the
/// kernel does not report it, or the reported number stands for several users. Takes milliseconds if [`quick_user_of`]
/// fails.
pub fn user_of(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    quick_user_of(local, peer).unwrap_or_else(|_| distinct(listed_owner(local, peer)))
}

/// Like [`user_of`], within microseconds.
///
/// # Errors
/// The kernel does not answer this query, or not for this process.
pub fn quick_user_of(local: SocketAddr, peer: SocketAddr) -> std::io::Result<Option<u32>> {
    static ANSWERS: AtomicBool = AtomicBool::new(false);
    match diag::owner_of(peer, local) {
        Ok(owner) => {
            ANSWERS.store(true, Ordering::Relaxed);
            Ok(distinct(owner))
        }
        // The process at the other end has exited.
        Err(error) if error.kind() == ErrorKind::NotFound && ANSWERS.load(Ordering::Relaxed) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the user, unless the number stands for all users that have no number in this process's user namespace.
fn distinct(user: Option<u32>) -> Option<u32> {
    let has_all_users = || {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        map.split_whitespace().eq(["0", "0", "4294967295"])
    };
    user.filter(|user| *user != OVERFLOW_UID || has_all_users())
}

/// Finds the owner in the kernel's tables in text form. Reading them takes milliseconds.
fn listed_owner(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    // An IPv6 socket may have an IPv4 connection.
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| owner(line, peer, local))
    })
}

/// Looks up one socket by its two addresses, within microseconds: sock_diag(7). Kernels without sock_diag, and
/// processes that may not use netlink, get an error.
mod diag {
    use std::io::{Error, ErrorKind, Result};
    use std::net::{IpAddr, SocketAddr};

    use netcliff_host::system;

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const HEADER_BYTES: usize = 16;
    const REQUEST_BYTES: usize = HEADER_BYTES + 56;
    /// Offsets in `struct inet_diag_msg`: the state and the owner.
    const STATE_AT: usize = HEADER_BYTES + 1;
    const UID_AT: usize = HEADER_BYTES + 64;
    const ESTABLISHED: u8 = 1;

    /// The owner of the established socket with these addresses. `None` if there is no such socket.
    pub(super) fn owner_of(own: SocketAddr, other: SocketAddr) -> Result<Option<u32>> {
        let mut answer = [0; 1024];
        let length = system::diagnose_socket(&request(own, other)?, &mut answer)?;
        read(&answer[..length])
    }

    fn read(answer: &[u8]) -> Result<Option<u32>> {
        let word = |at: usize| {
            let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or(Error::from(ErrorKind::UnexpectedEof))
        };
        let kind = word(4)?.to_ne_bytes();
        match u16::from_ne_bytes([kind[0], kind[1]]) {
            SOCK_DIAG_BY_FAMILY => {
                let uid = word(UID_AT)?;
                Ok((answer[STATE_AT] == ESTABLISHED).then_some(uid))
            }
            // The answer is a negative error number. A missing socket and a missing kernel module for TCP give the same
            // number.
            _ => Err(Error::from_raw_os_error((word(HEADER_BYTES)? as i32).wrapping_neg())),
        }
    }

    /// Builds the request: `struct nlmsghdr` and `struct inet_diag_req_v2`.
    fn request(own: SocketAddr, other: SocketAddr) -> Result<Vec<u8>> {
        let (own_ip, other_ip) = (own.ip().to_canonical(), other.ip().to_canonical());
        let (family, words) = match (own_ip, other_ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mut words = [0; 32];
                words[..4].copy_from_slice(&own.octets());
                words[16..20].copy_from_slice(&other.octets());
                (libc::AF_INET, words)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mut words = [0; 32];
                words[..16].copy_from_slice(&own.octets());
                words[16..].copy_from_slice(&other.octets());
                (libc::AF_INET6, words)
            }
            _ => return Err(ErrorKind::InvalidInput.into()),
        };
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        // Header: length, type, NLM_F_REQUEST, sequence number 0, port 0.
        bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
        bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend([0; 8]);
        // Address family, TCP, no extensions, padding, any state.
        bytes.extend([family as u8, 6, 0, 0]);
        bytes.extend(u32::MAX.to_ne_bytes());
        bytes.extend(own.port().to_be_bytes());
        bytes.extend(other.port().to_be_bytes());
        bytes.extend(words);
        // Any interface, any cookie.
        bytes.extend([0; 4]);
        bytes.extend([0xff; 8]);
        Ok(bytes)
    }
}

/// The owner of the socket in a row of the table. `None` if the row has other addresses.
fn owner(row: &str, own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let mut fields = row.split_whitespace().skip(1);
    let (here, there, state) = (fields.next()?, fields.next()?, fields.next()?);
    let is = |text: &str, wanted: SocketAddr| {
        address(text).is_some_and(|found| {
            (found.ip().to_canonical(), found.port()) == (wanted.ip().to_canonical(), wanted.port())
        })
    };
    if state != ESTABLISHED || !is(here, own) || !is(there, other) {
        return None;
    }
    // Skip tx_queue:rx_queue, timer and retransmissions; the next field is the user.
    fields.nth(3)?.parse().ok()
}

/// Parses `0100007F:1F90`: words of an address in the machine's byte order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(words.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match words.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn own_connections_are_this_users() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            let (server, from) = listener.accept().expect("it came");
            let local = server.local_addr().expect("connected");
            assert_eq!(user_of(local, from), Some(nix::unistd::geteuid().as_raw()), "{host}");
            assert_eq!(user_of(from, from), None, "there is no such connection");
            drop(client);
            assert_eq!(user_of(local, from), None, "who has left is nobody, not root");
        }
    }

    /// Both methods give the same result, if the kernel supports the quick one.
    #[test]
    fn the_quick_way_agrees_with_the_tables() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (own, other) = (client.local_addr().expect("connected"), client.peer_addr().expect("connected"));
        let listed = listed_owner(other, own);
        assert_eq!(listed, Some(nix::unistd::geteuid().as_raw()));
        if let Ok(quick) = diag::owner_of(own, other) {
            assert_eq!(quick, listed);
            let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
            assert!(matches!(diag::owner_of(other, nobody), Ok(None) | Err(_)), "a listener is no connection");
        }
    }

    #[test]
    fn rows_are_read() {
        let row = "   1: 0100007F:C350 0100007F:26D4 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(owner(row, at(50_000), at(9940)), Some(1000));
            assert_eq!(owner(row, at(9940), at(50_000)), None);
            assert_eq!(owner(&row.replacen(" 01 ", " 06 ", 1), at(50_000), at(9940)), None);
        }
        assert_eq!(address("0100007F"), None);
        assert_eq!(address("01:1"), None);
    }
}
