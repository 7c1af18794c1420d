//! Sockets of TCP and UDP by the tables of procfs, what they lost, and whose they are.

use crate::procfs;
use netlink_bindings::inet_diag::{self, ReqV2, TcpState};
use netlink_socket2::NetlinkSocket;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Most that is read of a table (bytes): its listening sockets are in front. A host with a million connections is not read through.
const MOST_BYTES: u64 = 1 << 20;
/// Most files of a process that are looked at: programs open their listening sockets early.
const MOST_FILES: usize = 1024;
/// State of a socket of TCP that listens, in procfs.
const LISTENS: &str = "0A";
/// Ask for `struct sk_meminfo`: 1 << (INET_DIAG_SKMEMINFO - 1), linux/inet_diag.h; the place of drops in it, linux/sock_diag.h.
const MEMINFO: u8 = 1 << 6;
const MEMINFO_DROPS: usize = 8;

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Socket {
    /// Protocol and address: `udp 0.0.0.0:53`, `tcp 10.0.0.1:80 > 10.0.0.2:4711`.
    pub(super) name: String,
    /// Takes packets of anyone: it listens, or is of UDP and not connected.
    pub(super) open: bool,
    /// Lost since it was made; of TCP not in procfs.
    pub(super) drops: u64,
}

/// Sockets by inode.
pub(super) type Sockets = BTreeMap<u64, Socket>;

/// The sockets of UDP and TCP of the network namespace that a process is in; `thread-self` is the caller's.
pub(super) fn of_namespace(process: &str) -> Sockets {
    let mut all = of_udp(process);
    all.extend(table(process, "tcp"));
    all
}

/// Those of UDP, with what they lost.
pub(super) fn of_udp(process: &str) -> Sockets {
    table(process, "udp")
}

fn table(process: &str, protocol: &str) -> Sockets {
    let read = |name: String| {
        let mut bytes = Vec::new();
        // An IPv6 table is absent where that is switched off.
        if let Ok(file) = File::open(format!("/proc/{process}/net/{name}")) {
            let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let both = [protocol.to_owned(), format!("{protocol}6")].map(read);
    both.iter().flat_map(|text| text.lines().skip(1)).filter_map(|line| socket(protocol, line)).collect()
}

/// `sl local remote state tx:rx tr:when retransmits uid timeout inode ..`, of UDP with drops in the end.
fn socket(protocol: &str, line: &str) -> Option<(u64, Socket)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, remote) = (address(words.get(1)?)?, address(words.get(2)?)?);
    let inode: u64 = words.get(9)?.parse().ok().filter(|inode| *inode != 0)?;
    let drops = if protocol == "udp" { words.get(12)?.parse().ok()? } else { 0 };
    let open = if protocol == "udp" { remote.port() == 0 } else { *words.get(3)? == LISTENS };
    let name = if open { format!("{protocol} {local}") } else { format!("{protocol} {local} > {remote}") };
    Some((inode, Socket { name, open, drops }))
}

/// `0100007F:0035`: words of 32 bits as this machine holds them, and the port.
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

/// The listening sockets of TCP of the calling thread's network namespace, with the connections that they refused; empty where the kernel
/// does not report them.
pub(super) fn listening() -> Sockets {
    [libc::AF_INET, libc::AF_INET6].into_iter().filter_map(listening_of).flatten().collect()
}

fn listening_of(family: libc::c_int) -> Option<Sockets> {
    let header = ReqV2 {
        family: family as u8,
        protocol: libc::IPPROTO_TCP as u8,
        ext: MEMINFO,
        states: 1 << TcpState::Listen as u32,
        ..Default::default()
    };
    let request = inet_diag::Request::new().op_tcp_diag_dump(&header);
    let mut netlink = NetlinkSocket::new();
    let mut replies = netlink.request(&request).ok()?;
    let mut found = Sockets::new();
    while let Some(reply) = replies.recv() {
        let (header, attrs) = reply.ok()?;
        let counts = attrs.get_skmeminfo().unwrap_or_default();
        let drops = counts.as_chunks::<4>().0.get(MEMINFO_DROPS).map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let [a, b, c, d, ..] = header.sockid.src;
        let ip = match i32::from(header.family) {
            libc::AF_INET => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::from(Ipv6Addr::from(header.sockid.src)).to_canonical(),
        };
        let name = format!("tcp {}", SocketAddr::new(ip, header.sockid.sport()));
        found.insert(u64::from(header.inode), Socket { name, open: true, drops: u64::from(drops) });
    }
    Some(found)
}

/// Inodes of the sockets that a process has open; `None` if it is gone or may not be looked into.
pub(super) fn inodes(pid: u32) -> Option<BTreeSet<u64>> {
    let inode = |entry: std::io::Result<fs::DirEntry>| {
        let link = fs::read_link(entry.ok()?.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.take(MOST_FILES).filter_map(inode).collect())
}

/// The process that has each of these sockets open, the first of several.
pub(super) fn owners(wanted: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    for pid in procfs::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
        if found.len() == wanted.len() {
            break;
        }
        for inode in inodes(pid).unwrap_or_default().intersection(wanted) {
            found.entry(*inode).or_insert(pid);
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
        let (inode, udp) = socket("udp", &line).expect("a socket");
        assert_eq!((inode, udp.name.as_str(), udp.open, udp.drops), (4711, "udp 10.0.0.53:53", true, 77));
        let six =
            "1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1 0";
        assert_eq!(socket("tcp", six).expect("a socket").1.name, "tcp [::]:80");
        assert_eq!(socket("tcp", "damaged"), None);
    }

    /// Our own, found again by inode, and by the process that has it.
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
        assert!(owners(&found).values().all(|pid| *pid == std::process::id()));
        let listens = listening();
        assert!(listens.is_empty() || listens.values().any(|socket| socket.name == names[1]), "{listens:?}");
    }
}
