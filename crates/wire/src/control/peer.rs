//! Which user of this host is at the other end of a TCP connection over loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State of a connection in the kernel's tables (TCP_ESTABLISHED). One that was closed has no owner any more: it shows user 0.
const ESTABLISHED: &str = "01";

/// What the kernel reports instead of every user that has no number in this process's user namespace.
const OVERFLOW_UID: u32 = 65_534;

/// Whether a peer without a key is served: this process's user, and root.
pub fn is_served(user: Option<u32>) -> bool {
    user.is_some_and(|user| user == 0 || user == nix::unistd::geteuid().as_raw())
}

/// The user who owns the other end (`peer`) of a connection to `local`. `None` where this host has no such connection, the kernel does not
/// report, or it reports the number that stands for several users.
pub fn user_of(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    owner_of(local, peer).filter(|user| *user != OVERFLOW_UID || has_all_users())
}

/// Whether every user of the host has a number of its own here: not in a user namespace with fewer.
fn has_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn owner_of(local: SocketAddr, peer: SocketAddr) -> Option<u32> {
    // A socket of IPv6 may have a connection of IPv4.
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| owner(line, peer, local))
    })
}

/// The owner of the socket of a row, where it is the one of these ends.
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
    // tx_queue:rx_queue, timer, retransmissions, then the user.
    fields.nth(3)?.parse().ok()
}

/// `0100007F:1F90`: words of an address in the machine's byte order, and a port.
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
