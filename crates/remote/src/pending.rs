//! Connections that have not yet proved their token: how many may wait, and which one is closed when there are too
//! many.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The source that a connection counts for: the IPv4 address, or the first half of an IPv6 address, because one host
/// usually owns the whole other half.
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Index of the first entry of the most frequent source. Of several equally frequent sources, the one that occurs
/// first. `None` if `sources` is empty.
pub fn first_of_the_most(sources: impl Iterator<Item = IpAddr>) -> Option<usize> {
    let mut seen: BTreeMap<IpAddr, (usize, usize)> = BTreeMap::new();
    for (place, source) in sources.enumerate() {
        seen.entry(source).or_insert((0, place)).0 += 1;
    }
    let most = seen.into_values().max_by_key(|(count, first)| (*count, std::cmp::Reverse(*first)));
    most.map(|(_, first)| first)
}

/// Connections that have not yet sent the bytes that admit them.
#[derive(Debug)]
pub struct Pending {
    waiting: VecDeque<Connection>,
    /// Largest number of waiting connections.
    most: usize,
    /// Number of bytes that each connection has to send.
    wanted: usize,
    /// Time allowed for each connection to send them.
    time: Duration,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    source: IpAddr,
    shown: Vec<u8>,
    deadline: Instant,
}

/// The result of [`Pending::look`].
#[derive(Debug, Default)]
pub struct Looked {
    /// Connections that have sent all bytes, with these bytes, in order of arrival.
    pub shown: Vec<(TcpStream, Vec<u8>)>,
    /// Number of connections accepted.
    pub accepted: usize,
    /// Number of connections that the peer closed, that were too slow, or that were closed to make room for a newer
    /// one.
    pub refused: u64,
}

impl Pending {
    /// Allows up to `most` connections, each of which has to send `wanted` bytes within `time`.
    pub fn new(most: usize, wanted: usize, time: Duration) -> Self {
        Self { waiting: VecDeque::new(), most, wanted, time }
    }

    /// Accepts up to `at_once` connections of the non-blocking listener, and reads what the pending ones have sent.
    ///
    /// # Errors
    /// Descriptors or memory are short; pending connections are read first.
    pub fn look(&mut self, listener: &TcpListener, at_once: usize) -> io::Result<Looked> {
        let mut looked = Looked::default();
        let mut short = None;
        // The number of accepted connections is bounded, so that the pending ones are read even if new ones arrive
        // fast.
        while looked.accepted < at_once.min(self.most) {
            match next(listener) {
                Ok(Some((stream, source))) => {
                    looked.accepted += 1;
                    looked.refused += self.take(stream, source);
                }
                Ok(None) => break,
                Err(error) => {
                    short = Some(error);
                    break;
                }
            }
        }
        for mut connection in std::mem::take(&mut self.waiting) {
            match connection.read(self.wanted) {
                Ok(true) => looked.shown.push((connection.stream, connection.shown)),
                Ok(false) if Instant::now() < connection.deadline => self.waiting.push_back(connection),
                _ => looked.refused += 1,
            }
        }
        match short {
            Some(error) if looked.shown.is_empty() => Err(error),
            _ => Ok(looked),
        }
    }

    /// Adds a connection. Returns the number of connections closed to make room.
    fn take(&mut self, stream: TcpStream, source: IpAddr) -> u64 {
        if stream.set_nonblocking(true).is_err() {
            return 1;
        }
        let deadline = Instant::now() + self.time;
        self.waiting.push_back(Connection { stream, source, shown: Vec::with_capacity(self.wanted), deadline });
        if self.waiting.len() <= self.most {
            return 0;
        }
        let place = first_of_the_most(self.waiting.iter().map(|connection| connection.source));
        u64::from(place.and_then(|place| self.waiting.remove(place)).is_some())
    }

    /// Descriptors of the pending connections, to wait for in addition to the listener's.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.iter().map(|connection| connection.stream.as_fd())
    }
}

impl Connection {
    /// Reads without blocking. Returns true once all bytes have come, and an error if the peer closed.
    fn read(&mut self, wanted: usize) -> io::Result<bool> {
        let mut buffer = [0; 64];
        while self.shown.len() < wanted {
            let left = (wanted - self.shown.len()).min(buffer.len());
            match self.stream.read(&mut buffer[..left]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.shown.extend_from_slice(&buffer[..bytes]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

/// Accepts the next connection, if one waits, with its source. Fails if descriptors or memory are short.
fn next(listener: &TcpListener) -> io::Result<Option<(TcpStream, IpAddr)>> {
    match listener.accept() {
        Ok((stream, from)) => Ok(Some((stream, source_of(from.ip())))),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
            Err(e)
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::SocketAddrV4;
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};

    use super::*;

    fn ip(text: &str) -> IpAddr {
        source_of(text.parse().expect("an address"))
    }

    #[test]
    fn the_source_with_most_loses_its_first() {
        let place = |sources: &[&str]| first_of_the_most(sources.iter().map(|source| ip(source)));
        assert_eq!(place(&[]), None);
        assert_eq!(place(&["192.0.2.1"]), Some(0));
        assert_eq!(place(&["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"]), Some(1));
        assert_eq!(place(&["192.0.2.1", "192.0.2.2", "::ffff:192.0.2.2", "192.0.2.1"]), Some(0), "the older of equals");
        // The addresses of one /64 count as one host.
        assert_eq!(place(&["192.0.2.1", "2001:db8::1", "2001:db8::2:1"]), Some(1));
        assert_eq!(place(&["192.0.2.1", "2001:db8::1", "2001:db8:0:1::1"]), Some(0));
    }

    /// A host that fills all slots keeps no other host out.
    #[test]
    fn one_host_that_keeps_silent_keeps_no_other_out() {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("bound").port();
        let connect = |from: &str| -> TcpStream {
            let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).expect("a socket");
            let address =
                |host: &str, port: u16| SockaddrIn::from(SocketAddrV4::new(host.parse().expect("IPv4"), port));
            bind(own.as_raw_fd(), &address(from, 0)).expect("all of 127.0.0.0/8 is this host's");
            nix::sys::socket::connect(own.as_raw_fd(), &address("127.0.0.1", port)).expect("it listens");
            own.into()
        };
        let mut pending = Pending::new(4, 3, Duration::from_secs(60));
        let mut silent: Vec<TcpStream> = (0..4).map(|_| connect("127.0.0.1")).collect();
        assert_eq!(pending.look(&listener, usize::MAX).expect("descriptors").refused, 0);
        let mut other = connect("127.0.0.2");
        for _ in 0..20 {
            silent.push(connect("127.0.0.1"));
            let looked = pending.look(&listener, usize::MAX).expect("descriptors");
            assert!(looked.shown.is_empty());
            assert_eq!(pending.waiting.len(), 4);
        }
        let sources: Vec<IpAddr> = pending.waiting.iter().map(|connection| connection.source).collect();
        assert!(sources.contains(&ip("127.0.0.2")), "{sources:?}");
        other.write_all(b"abc").expect("it is there");
        let begin = Instant::now();
        let shown = loop {
            let looked = pending.look(&listener, usize::MAX).expect("descriptors");
            if let Some((_, shown)) = looked.shown.into_iter().next() {
                break shown;
            }
            assert!(begin.elapsed() < Duration::from_secs(5));
        };
        assert_eq!(shown, b"abc");
    }
}
