//! Sockets of the requester, and batches of datagrams (sendmmsg(2), recvmmsg(2)).

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};

use netcliff_host::system::receive_timestamps;
use netcliff_packets::clock;
use netcliff_packets::sink::{CONTROL_WORDS, stamp_realtime_ns};

use crate::protocol::Transport;

/// Buffer size of the requester's own sockets (bytes), which is large enough that they drop no answers.
const BUFFER_BYTES: usize = 4 << 20;
/// Largest number of datagrams per call.
pub(super) const BATCH: usize = 64;
/// Longest datagram (bytes).
const DATAGRAM: usize = 1 << 16;
/// Time after which the difference of the clocks is read again (ns): within it, a clock that is slewed by 500 ppm (the
/// most, adjtimex(2)) changes by 5 us.
const CLOCKS_NS: u64 = 10_000_000;

/// Opens a non-blocking socket to an address; a stream connects in the background.
pub(super) fn open(to: SocketAddr, transport: Transport) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let kind = if transport == Transport::Udp { SockType::Datagram } else { SockType::Stream };
    let fd = socket(family, kind, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    match transport {
        Transport::Udp => {
            // Exceeds the system's limit if that is permitted, otherwise up to the limit.
            if setsockopt(&fd, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
                setsockopt(&fd, sockopt::RcvBuf, &BUFFER_BYTES)?;
            }
            if setsockopt(&fd, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
                setsockopt(&fd, sockopt::SndBuf, &BUFFER_BYTES)?;
            }
            receive_timestamps(&fd)?;
        }
        Transport::Tcp => setsockopt(&fd, sockopt::TcpNoDelay, &true)?,
    }
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Makes the kernel drop a connection as soon as it is closed, so that no port stays in TIME_WAIT for a minute.
pub(super) fn close_at_once(fd: &OwnedFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // An error is ignored: ports in TIME_WAIT matter only when ports run out, which is reported.
    let _ = setsockopt(fd, sockopt::Linger, &linger);
}

/// The pending error of a socket; `None`: there is no error, so the connection is open.
pub(super) fn error_of(fd: &OwnedFd) -> Option<io::Error> {
    match nix::sys::socket::getsockopt(fd, sockopt::SocketError) {
        Ok(0) => None,
        Ok(number) => Some(io::Error::from_raw_os_error(number)),
        Err(error) => Some(error.into()),
    }
}

/// Datagrams dropped because the socket's receive buffer was full; 0 if the kernel does not report it.
pub(super) fn dropped(fd: &OwnedFd) -> u64 {
    netcliff_packets::sockopt::drops(fd.as_fd()).map_or(0, u64::from)
}

/// Space that a datagram with `bytes` of payload occupies in a socket's buffer (bytes; the kernel's `truesize`), measured
/// on a socket of loopback. `None` if loopback is down, or the kernel does not report it.
pub(crate) fn room_bytes(bytes: usize) -> Option<f64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.send_to(&vec![0; bytes], socket.local_addr().ok()?).ok()?;
    let (room, _) = netcliff_packets::sockopt::queued(socket.as_fd())?;
    (room > 0).then_some(room as f64)
}

/// Sends as many bytes as possible without waiting. `Ok(0)`: the socket is full.
pub(super) fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    match nix::sys::socket::send(fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
        Ok(sent) => Ok(sent),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Receives available bytes. `Ok(None)`: no bytes are available.
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match nix::sys::socket::recv(fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
        Ok(got) => Ok(Some(got)),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Buffers for a batch of datagrams.
pub(super) struct Batch {
    buffers: Vec<Vec<u8>>,
    lengths: [usize; BATCH],
    /// Control messages of each received datagram.
    control: Box<[[u64; CONTROL_WORDS]; BATCH]>,
    /// When the kernel received each datagram [ns of `CLOCK_REALTIME`]; `None`: unknown.
    stamps: [Option<u64>; BATCH],
    filled: usize,
    /// `CLOCK_REALTIME` - `CLOCK_MONOTONIC` (ns), and when it was read.
    clocks: (i64, u64),
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            buffers: (0..BATCH).map(|_| vec![0; DATAGRAM]).collect(),
            lengths: [0; BATCH],
            control: Box::new([[0; CONTROL_WORDS]; BATCH]),
            stamps: [None; BATCH],
            filled: 0,
            clocks: (0, 0),
        }
    }

    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == BATCH
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Adds a datagram to the batch and returns its bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) -> &mut [u8] {
        let length = bytes.len().min(DATAGRAM);
        let buffer = &mut self.buffers[self.filled][..length];
        buffer.copy_from_slice(&bytes[..length]);
        self.lengths[self.filled] = length;
        self.filled += 1;
        buffer
    }

    /// The received datagrams, and when the kernel received them [ns of `CLOCK_MONOTONIC`]: `now_ns` if it does not say,
    /// and at most `now_ns`.
    pub(super) fn datagrams(&mut self, now_ns: u64) -> impl Iterator<Item = (&[u8], u64)> {
        if now_ns > self.clocks.1 + CLOCKS_NS {
            self.clocks = (clock::realtime_minus_monotonic_ns(), now_ns);
        }
        let offset_ns = self.clocks.0;
        let at_ns =
            move |stamp: Option<u64>| stamp.map_or(now_ns, |ns| ns.saturating_add_signed(-offset_ns).min(now_ns));
        let all = self.buffers.iter().zip(self.lengths).zip(self.stamps).take(self.filled);
        all.map(move |((buffer, length), stamp)| (&buffer[..length], at_ns(stamp)))
    }

    /// Sends the datagrams; returns the number sent.
    pub(super) fn send(&mut self, fd: &OwnedFd) -> io::Result<usize> {
        let lengths = self.lengths;
        let (mut vectors, mut headers) = self.headers(|place| lengths[place]);
        point(&mut vectors, &mut headers);
        let (count, flags) = (self.filled as u32, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: each of the `count` headers points to one vector, and the vector to a buffer of its length; all live
        // during the call.
        let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), count, flags) };
        if sent >= 0 { Ok(sent as usize) } else { nothing_or_error() }
    }

    /// Receives up to [`BATCH`] datagrams, replacing the present ones; returns their number.
    pub(super) fn receive(&mut self, fd: &OwnedFd) -> io::Result<usize> {
        self.filled = BATCH;
        let (mut vectors, mut headers) = self.headers(|_| DATAGRAM);
        point(&mut vectors, &mut headers);
        for (header, control) in headers.iter_mut().zip(self.control.iter_mut()) {
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        self.filled = 0;
        let none = std::ptr::null_mut();
        // SAFETY: as in `send`; the kernel writes at most the vector's length into a buffer, and at most the control
        // buffer's length of control messages.
        let got =
            unsafe { libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT, none) };
        if got < 0 {
            return nothing_or_error();
        }
        self.filled = got as usize;
        for (place, header) in headers.iter().enumerate().take(self.filled) {
            self.lengths[place] = header.msg_len as usize;
            self.stamps[place] = stamp_realtime_ns(&self.control[place], header.msg_hdr.msg_controllen as _);
        }
        Ok(self.filled)
    }

    fn headers(&mut self, length: impl Fn(usize) -> usize) -> ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) {
        let mut place = 0;
        let vectors = [(); BATCH].map(|()| {
            let vector = libc::iovec { iov_base: self.buffers[place].as_mut_ptr().cast(), iov_len: length(place) };
            place += 1;
            vector
        });
        // SAFETY: a zeroed header has no address, vectors or control data.
        (vectors, unsafe { std::mem::zeroed() })
    }
}

/// Points each header to its vector.
fn point(vectors: &mut [libc::iovec; BATCH], headers: &mut [libc::mmsghdr; BATCH]) {
    for (vector, header) in vectors.iter_mut().zip(headers.iter_mut()) {
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
    }
}

fn nothing_or_error() -> io::Result<usize> {
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)) => Ok(0),
        error => Err(error),
    }
}

/// An epoll instance.
pub(super) struct Poll {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, events: vec![EpollEvent::empty(); BATCH] })
    }

    /// Watches a socket, edge-triggered: it is reported once when it becomes ready.
    pub(super) fn add(&self, socket: &OwnedFd, token: usize) -> io::Result<()> {
        let all = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        Ok(self.epoll.add(socket, EpollEvent::new(all, token as u64))?)
    }

    /// Watches a socket for incoming data, level-triggered.
    pub(super) fn add_readable(&self, socket: &OwnedFd, token: usize) -> io::Result<()> {
        Ok(self.epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, token as u64))?)
    }

    /// (token, events) of the sockets that are ready now.
    pub(super) fn ready(&mut self) -> impl Iterator<Item = (usize, EpollFlags)> {
        let count = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or(0);
        self.events.iter().take(count).map(|event| (event.data() as usize, event.events()))
    }
}

/// Copies the tokens of ready sockets out of a poll.
pub(super) fn tokens(poll: &mut Poll, into: &mut Vec<(usize, EpollFlags)>) {
    into.clear();
    into.extend(poll.ready());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An sk_buff of 256 bytes and its data, whose memory is a power of two or that of a small head.
    #[test]
    fn a_longer_datagram_takes_more_room() {
        let [small, middle, large] = [50, 500, 1400].map(|bytes| room_bytes(bytes).unwrap());
        assert!((700.0..1000.0).contains(&small), "{small}");
        assert_eq!((middle, large), (1280.0, 2304.0));
    }

    #[test]
    fn batches_come_as_they_left() {
        let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = open(echo.local_addr().unwrap(), Transport::Udp).unwrap();
        // The kernel switches timestamps on in the background.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut batch = Batch::new();
        for n in 0..3u8 {
            batch.add(&[n; 5]);
        }
        assert_eq!(batch.send(&fd).unwrap(), 3);
        let mut buffer = [0; 16];
        for _ in 0..3 {
            let (length, from) = echo.recv_from(&mut buffer).unwrap();
            echo.send_to(&buffer[..length - 1], from).unwrap();
        }
        let sent_ns = clock::monotonic_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        while batch.receive(&fd).unwrap() == 0 {}
        let all: Vec<(Vec<u8>, u64)> =
            batch.datagrams(clock::monotonic_ns()).map(|(bytes, at_ns)| (bytes.to_vec(), at_ns)).collect();
        assert_eq!(
            all.iter().map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(),
            [vec![0; 4], vec![1; 4], vec![2; 4]]
        );
        assert!(all.iter().all(|(_, at_ns)| *at_ns < sent_ns + 10_000_000), "received before the pause: {all:?}");
        assert_eq!((batch.receive(&fd).unwrap(), dropped(&fd)), (0, 0));
    }
}
