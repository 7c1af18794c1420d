//! Losses of receiving sockets ([`receivers`]), names of the sockets of a process, and the processes that have a socket
//! open.

use crate::system::NetlinkSocket;
use crate::{process, rtnl::explained};
use netcliff_core::drops::Socket;
use netlink_bindings::inet_diag::{self, ReqV2, TcpState};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Most bytes read of a table. The listening sockets are at its start; the table of a host with a million connections
/// is not read completely.
const MOST_BYTES: u64 = 1 << 20;
/// Most files examined per process: programs open their listening sockets early.
const MOST_FILES: usize = 1024;
/// State of a listening TCP socket in procfs.
const LISTENS: &str = "0A";
/// Requests `struct sk_meminfo`: 1 << (INET_DIAG_SKMEMINFO - 1), linux/inet_diag.h. The indices in it are of drops,
/// unread bytes and buffer size, linux/sock_diag.h.
const MEMINFO: u8 = 1 << 6;
const MEMINFO_DROPS: usize = 8;
const MEMINFO_WAITING: usize = 0;
const MEMINFO_ROOM: usize = 1;

/// A socket that receives: a UDP, listening TCP or raw socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// The socket, with an unknown process.
    pub(crate) socket: Socket,
    /// Which kind.
    pub(crate) kind: Kind,
    /// Packets lost since it was created.
    pub(crate) drops: u32,
}

/// Kind of a receiving socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Udp,
    Listening,
    Raw,
}

/// UDP and listening TCP sockets of the calling thread's network namespace. If the kernel cannot list one kind, its
/// sockets are omitted. For raw sockets see [`raw`].
pub(crate) fn receivers() -> Vec<Receiver> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [Kind::Listening, Kind::Udp] {
            found.extend(list(family as u8, kind).unwrap_or_default());
        }
    }
    found
}

/// Raw sockets of the calling thread's network namespace. They are few, and no kernel counter shows that one of them
/// lost packets.
pub(crate) fn raw() -> Vec<Receiver> {
    let receiver = |line: &str| {
        let row = Row::of(line)?;
        let socket = Socket {
            protocol: row.local.port() as u8,
            address: row.local.ip(),
            port: 0,
            inode: row.inode,
            process: None,
        };
        Some(Receiver { socket, kind: Kind::Raw, drops: row.drops? as u32 })
    };
    table("thread-self", "raw").iter().filter_map(|line| receiver(line)).collect()
}

/// Packets that each socket lost between two snapshots.
pub(crate) fn lost<'a>(before: &[Receiver], after: &'a [Receiver]) -> impl Iterator<Item = (&'a Receiver, u64)> {
    let before: BTreeMap<u64, &Receiver> = before.iter().map(|one| (one.socket.inode, one)).collect();
    after.iter().filter_map(move |one| {
        // A socket absent from the first snapshot is new.
        let then = before.get(&one.socket.inode).filter(|then| then.socket == one.socket).map_or(0, |then| then.drops);
        let grown = u64::from(one.drops.wrapping_sub(then));
        (grown > 0).then_some((one, grown))
    })
}

/// Words of memory and drops of a socket, as the kernel reports them. Source: linux/sock_diag.h.
struct Memory<'a>(&'a [[u8; 4]]);

impl Memory<'_> {
    fn word(&self, at: usize) -> Option<u32> {
        self.0.get(at).map(|bytes| u32::from_ne_bytes(*bytes))
    }
}

fn list(family: u8, kind: Kind) -> io::Result<Vec<Receiver>> {
    each(family, kind, |socket, memory| Some(Receiver { socket, kind, drops: memory.word(MEMINFO_DROPS)? }))
}

/// Occupancy of the receive buffer of a UDP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    /// The socket, with an unknown process.
    pub(crate) socket: Socket,
    /// Unread data (bytes, including the kernel's overhead per packet).
    pub(crate) bytes: u32,
    /// Size of the buffer (bytes).
    pub(crate) room_bytes: u32,
    /// Datagrams lost since it was created.
    pub(crate) drops: u32,
}

/// Occupancy of the UDP sockets of the calling thread's network namespace.
pub(crate) fn filled() -> Vec<Filled> {
    let of = |family: i32| {
        let filled = |socket, memory: &Memory<'_>| {
            let (bytes, room_bytes) = (memory.word(MEMINFO_WAITING)?, memory.word(MEMINFO_ROOM)?);
            Some(Filled { socket, bytes, room_bytes, drops: memory.word(MEMINFO_DROPS)? })
        };
        each(family as u8, Kind::Udp, filled).unwrap_or_default()
    };
    [libc::AF_INET, libc::AF_INET6].into_iter().flat_map(of).collect()
}

/// Applies `of` to each socket and collects the results that are not `None`.
fn each<T>(family: u8, kind: Kind, of: impl Fn(Socket, &Memory<'_>) -> Option<T>) -> io::Result<Vec<T>> {
    let (protocol, states) = match kind {
        Kind::Listening => (libc::IPPROTO_TCP, 1 << TcpState::Listen as u32),
        _ => (libc::IPPROTO_UDP, u32::MAX),
    };
    let header = ReqV2 { family, protocol: protocol as u8, ext: MEMINFO, states, ..Default::default() };
    let request = inet_diag::Request::new().op_tcp_diag_dump(&header);
    let mut netlink = NetlinkSocket::new();
    let mut replies = netlink.request(&request)?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let (header, attrs) = reply.map_err(explained)?;
        let memory = attrs.get_skmeminfo().unwrap_or_default();
        let [a, b, c, d, ..] = header.sockid.src;
        let address = match i32::from(header.family) {
            libc::AF_INET => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::from(Ipv6Addr::from(header.sockid.src)).to_canonical(),
        };
        let (port, inode) = (header.sockid.sport(), header.inode.into());
        let socket = Socket { protocol: protocol as u8, address, port, inode, process: None };
        found.extend(of(socket, &Memory(memory.as_chunks::<4>().0)));
    }
    Ok(found)
}

/// A socket's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Protocol and address: `udp 0.0.0.0:53`, `tcp 10.0.0.1:80 > 10.0.0.2:4711`.
    pub(crate) name: String,
    /// Its own address.
    pub(crate) local: SocketAddr,
    /// Whether it is a socket of UDP; otherwise it is one of TCP.
    pub(crate) is_udp: bool,
    /// Whether it receives packets from any sender: it listens, or is an unconnected UDP socket.
    pub(crate) open: bool,
}

/// Names by inode.
pub(crate) type Names = BTreeMap<u64, Named>;

/// UDP and TCP sockets of the network namespace of a process; `thread-self` is the caller.
pub(crate) fn of_namespace(process: &str) -> Names {
    let of = |protocol: &'static str| {
        table(process, protocol).into_iter().filter_map(move |line| Row::of(&line)?.named(protocol))
    };
    of("udp").chain(of("tcp")).collect()
}

/// Lines of the tables of both address families.
fn table(process: &str, protocol: &str) -> Vec<String> {
    let read = |name: String| {
        let mut bytes = Vec::new();
        // A table of IPv6 is absent if IPv6 is switched off.
        if let Ok(file) = File::open(format!("/proc/{process}/net/{name}")) {
            let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let both = [protocol.to_owned(), format!("{protocol}6")].map(read);
    both.iter().flat_map(|text| text.lines().skip(1)).map(str::to_owned).collect()
}

/// A row of a table of sockets: `sl local remote state tx:rx tr:when retransmits uid timeout inode ..`; UDP and raw
/// sockets have drops at the end.
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    listens: bool,
    inode: u64,
    drops: Option<u64>,
}

impl Row {
    fn of(line: &str) -> Option<Row> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(Row {
            local: address(words.get(1)?)?,
            remote: address(words.get(2)?)?,
            listens: *words.get(3)? == LISTENS,
            inode: words.get(9)?.parse().ok().filter(|inode| *inode != 0)?,
            drops: words.get(12).and_then(|drops| drops.parse().ok()),
        })
    }

    fn named(self, protocol: &str) -> Option<(u64, Named)> {
        let Row { local, remote, .. } = self;
        let is_udp = protocol == "udp";
        let open = if is_udp { remote.port() == 0 } else { self.listens };
        let name = if open { format!("{protocol} {local}") } else { format!("{protocol} {local} > {remote}") };
        Some((self.inode, Named { name, local, is_udp, open }))
    }
}

/// Parses `0100007F:0035`: words of 32 bits in this machine's byte order, and the port; `None` if it is malformed.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Inodes of the sockets among a process's first open files; `None` if it has ended or may not be inspected.
pub(crate) fn inodes(pid: u32) -> Option<BTreeSet<u64>> {
    Some(files(pid)?.take(MOST_FILES).flatten().collect())
}

/// For each open file of a process the inode of its socket, or `None` if the file is no socket. Returns `None` if the
/// process has ended or may not be inspected.
fn files(pid: u32) -> Option<impl Iterator<Item = Option<u64>>> {
    let inode = |entry: io::Result<fs::DirEntry>| {
        let link = fs::read_link(entry.ok()?.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.map(inode))
}

/// The process that has each of these sockets open; the one with the lowest pid if several have it.
pub(crate) fn holders(wanted: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let mut pids = process::numbers("/proc");
    pids.sort_unstable();
    for pid in pids {
        for inode in files(pid).into_iter().flatten().flatten() {
            if wanted.contains(&inode) {
                found.entry(inode).or_insert(pid);
            }
            if found.len() == wanted.len() {
                return found;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn rows_of_both_families() {
        let line =
            "  12: 3500000A:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 77";
        let line = if cfg!(target_endian = "big") { line.replace("3500000A", "0A000035") } else { line.to_owned() };
        let row = Row::of(&line).expect("a socket");
        assert_eq!(row.drops, Some(77));
        let (inode, udp) = row.named("udp").expect("a name");
        assert_eq!((inode, udp.name.as_str(), udp.open), (4711, "udp 10.0.0.53:53", true));
        let six =
            "1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1 0";
        assert_eq!(Row::of(six).and_then(|row| row.named("tcp")).expect("a name").1.name, "tcp [::]:80");
        assert!(Row::of("damaged").is_none());
    }

    /// This process's sockets, looked up by inode, and their process.
    #[test]
    fn own_sockets_are_found() {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let names = [format!("udp {}", udp.local_addr().unwrap()), format!("tcp {}", tcp.local_addr().unwrap())];
        let mine = inodes(std::process::id()).expect("this process");
        let all = of_namespace("thread-self");
        let found: BTreeSet<u64> =
            all.iter().filter(|(_, socket)| names.contains(&socket.name)).map(|(inode, _)| *inode).collect();
        assert_eq!(found.len(), 2, "{names:?} in {all:?}");
        assert!(found.is_subset(&mine));
        assert!(holders(&found).values().all(|pid| *pid == std::process::id()));
        let receive = receivers();
        let has = |name: &String| receive.iter().any(|one| one.socket.to_string() == *name);
        assert!(receive.is_empty() || names.iter().all(has), "{names:?} in {receive:?}");
    }
}
