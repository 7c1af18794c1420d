//! The programs that read the packets of a port: their names, CPU time of their threads, and occupancy of their
//! sockets.

use crate::{
    cpu::util::clock_ns,
    process, procfs,
    sockets::{self, Filled, Named},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::FileExt as _,
    path::Path,
};

/// Time of a tick of /proc/PID/stat (ns): USER_HZ is 100 on all architectures that netcliff runs on.
const TICK_NS: u64 = 10_000_000;

/// Space that a small datagram occupies in a socket's buffer (bytes): an sk_buff and its data.
pub const SMALL_DATAGRAM_BYTES: u64 = 768;
/// Default of net.core.rmem_default in the kernel's source (bytes).
pub const DEFAULT_RECEIVE_BUFFER_BYTES: u64 = 212_992;

/// A program: a process and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Number of the process.
    pub pid: u32,
    /// Its name in the kernel.
    pub name: String,
}

impl Program {
    /// A running process; `None` if no process has that number.
    pub fn of(pid: u32) -> Option<Self> {
        is_there(pid).then(|| Self { pid, name: process::name(pid) })
    }

    /// Whether it still runs.
    pub fn is_there(&self) -> bool {
        is_there(self.pid)
    }

    /// Formats as `nsd (pid 12)`.
    pub fn title(&self) -> String {
        format!("{} (pid {})", self.name, self.pid)
    }
}

fn is_there(pid: u32) -> bool {
    pid != 0 && Path::new(&format!("/proc/{pid}/task/{pid}")).exists()
}

/// Why the program of a socket is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// No open socket receives packets there.
    #[error("nothing is open at {at} of this network namespace (UDP, or TCP that listens){}; `ss -lnptu` lists what is", also(.elsewhere))]
    NothingOpen {
        /// The port, or the address that was looked for.
        at: String,
        /// Sockets that have that port at another address.
        elsewhere: Vec<String>,
    },
    /// This user may not inspect the process that has the socket open.
    #[error("{} is open, but the process that has it is not visible to this user: run as root, or give --pid", .0.join(", "))]
    NotVisible(Vec<String>),
}

fn also(elsewhere: &[String]) -> String {
    if elsewhere.is_empty() { String::new() } else { format!(", but {} is", elsewhere.join(", ")) }
}

/// Open sockets of UDP and TCP of the calling thread's network namespace with this port.
fn open_at(port: u16) -> BTreeMap<u64, Named> {
    let all = sockets::of_namespace("thread-self").into_iter();
    all.filter(|(_, socket)| socket.open && socket.local.port() == port).collect()
}

/// The programs with an open socket at a port of the calling thread's network namespace.
///
/// # Errors
/// No socket is open there, or its process is not visible.
pub fn of_port(port: u16) -> Result<Vec<Program>, NoProgram> {
    let open = open_at(port);
    if open.is_empty() {
        return Err(NoProgram::NothingOpen { at: format!("port {port}"), elsewhere: Vec::new() });
    }
    holding(&open)
}

/// The programs that receive requests to an address of the calling thread's network namespace, over UDP or TCP. A
/// socket bound to all addresses receives only requests to addresses to which no other socket is bound.
///
/// # Errors
/// No socket receives such requests, or its process is not visible.
pub fn of_address(to: SocketAddr, is_udp: bool) -> Result<Vec<Program>, NoProgram> {
    let (all, ip) = (open_at(to.port()), to.ip().to_canonical());
    let taking = |takes: &dyn Fn(IpAddr) -> bool| -> BTreeMap<u64, Named> {
        let here = all.iter().filter(|(_, socket)| socket.is_udp == is_udp && takes(socket.local.ip()));
        here.map(|(inode, socket)| (*inode, socket.clone())).collect()
    };
    let mut open = taking(&|local| local == ip);
    if open.is_empty() {
        open = taking(&|local| local.is_unspecified() && (local.is_ipv6() || ip.is_ipv4()));
    }
    if open.is_empty() {
        let protocol = if is_udp { "udp" } else { "tcp" };
        let elsewhere = all.into_values().map(|socket| socket.name).collect();
        return Err(NoProgram::NothingOpen { at: format!("{protocol} {to}"), elsewhere });
    }
    let mut programs = holding(&open)?;
    // systemd also has the sockets open of the services that it starts on demand.
    if programs.len() > 1 {
        programs.retain(|program| program.pid != 1);
    }
    Ok(programs)
}

/// The programs that have one of these sockets.
fn holding(open: &BTreeMap<u64, Named>) -> Result<Vec<Program>, NoProgram> {
    let wanted: BTreeSet<u64> = open.keys().copied().collect();
    let mut pids: Vec<u32> = process::numbers("/proc");
    pids.retain(|pid| sockets::inodes(*pid).is_some_and(|own| !own.is_disjoint(&wanted)));
    pids.sort_unstable();
    let programs: Vec<Program> = pids.into_iter().filter_map(Program::of).collect();
    if programs.is_empty() {
        return Err(NoProgram::NotVisible(open.values().map(|socket| socket.name.clone()).collect()));
    }
    Ok(programs)
}

/// Names of the open sockets of a process, such as `udp 0.0.0.0:53`; `None` if the process has ended, or if this user
/// may not inspect it.
pub fn open_of(pid: u32) -> Option<Vec<String>> {
    let own = sockets::inodes(pid)?;
    let all = sockets::of_namespace(&pid.to_string()).into_iter();
    Some(all.filter(|(inode, socket)| socket.open && own.contains(inode)).map(|(_, socket)| socket.name).collect())
}

/// True if a process is in the network namespace of the calling thread; false if it is in another one, or may not be
/// inspected.
pub fn shares_network(pid: u32) -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    namespace("thread-self").is_some_and(|own| namespace(&pid.to_string()) == Some(own))
}

/// A thread and its CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// Number of the thread.
    pub tid: u32,
    /// The CPU that it ran on last.
    pub cpu: u32,
    /// CPU time since it started (ns), by the scheduler's clock if the kernel shows it, else by ticks.
    pub ran_ns: u64,
    /// Whether it has a real-time policy, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE, and so runs before other programs.
    pub is_realtime: bool,
}

/// The threads of a process; empty if it has ended.
pub fn threads(pid: u32) -> Vec<ThreadTime> {
    process::numbers(&format!("/proc/{pid}/task")).into_iter().filter_map(|tid| thread(pid, tid)).collect()
}

fn thread(pid: u32, tid: u32) -> Option<ThreadTime> {
    let stat = procfs::small(format!("/proc/{pid}/task/{tid}/stat"))?;
    let columns: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // Column by its number in proc(5), from 1; the name is the second.
    let column = |number: usize| columns.get(number - 3)?.parse::<u64>().ok();
    let by_scheduler = process::scheduled(pid, tid).map(|scheduled| scheduled.ran_ns);
    let ran_ns = by_scheduler.or_else(|| Some((column(14)? + column(15)?) * TICK_NS))?;
    // Source: include/uapi/linux/sched.h.
    let is_realtime = matches!(column(41), Some(1 | 2 | 6));
    Some(ThreadTime { tid, cpu: u32::try_from(column(39)?).ok()?, ran_ns, is_realtime })
}

/// Occupancy of a UDP socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Fill {
    /// `udp 0.0.0.0:53`.
    pub socket: String,
    /// Unread data divided by the buffer's size.
    pub share: f64,
    /// Size of the buffer (bytes, including the kernel's overhead per packet).
    pub room_bytes: u32,
    /// Datagrams lost since the socket was created.
    pub drops: u32,
}

/// UDP sockets whose occupancy is sampled.
#[derive(Debug, Clone, Default)]
pub struct Sockets(BTreeSet<u64>);

impl Sockets {
    /// The UDP sockets of these programs; only those at `port` if given.
    pub fn of(programs: &[Program], port: Option<u16>) -> Self {
        let mut inodes: BTreeSet<u64> =
            programs.iter().filter_map(|program| sockets::inodes(program.pid)).flatten().collect();
        if let Some(port) = port {
            let open = open_at(port);
            inodes.retain(|inode| open.contains_key(inode));
        }
        Self(inodes)
    }

    /// Present occupancy of each socket.
    pub fn look(&self) -> Vec<Fill> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let fill = |filled: Filled| Fill {
            socket: filled.socket.to_string(),
            share: f64::from(filled.bytes) / f64::from(filled.room_bytes.max(1)),
            room_bytes: filled.room_bytes,
            drops: filled.drops,
        };
        sockets::filled().into_iter().filter(|one| self.0.contains(&one.socket.inode)).map(fill).collect()
    }
}

/// CPU time of this process since it started (s).
pub fn own_cpu_s() -> f64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |ns| ns as f64 * 1e-9)
}

/// CPU time of the calling thread since it started (s).
pub fn own_thread_cpu_s() -> f64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |ns| ns as f64 * 1e-9)
}

/// Counters of some devices, for frequent reading: one file that stays open, in the network namespace of the thread
/// that opened it.
#[derive(Debug)]
pub struct Devices {
    table: File,
    names: Vec<String>,
}

/// Sums of the devices' counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of the packets received.
    pub rx_bytes: u64,
    /// Packets received and dropped, for lack of space or of a receiver.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
}

impl Counted {
    /// Increase since an earlier snapshot; 0 for a counter that decreased.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            rx_packets: self.rx_packets.saturating_sub(earlier.rx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(earlier.rx_bytes),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
        }
    }

    /// Packets received since an earlier snapshot.
    pub fn packets_since(&self, earlier: &Self) -> f64 {
        self.since(earlier).rx_packets as f64
    }
}

impl Devices {
    /// The devices with these names, in the calling thread's network namespace.
    ///
    /// # Errors
    /// /proc/net/dev cannot be opened.
    pub fn open(names: &[String]) -> io::Result<Self> {
        Ok(Self { table: File::open("/proc/thread-self/net/dev")?, names: names.to_vec() })
    }

    /// Present values of the counters.
    ///
    /// # Errors
    /// The table cannot be read, or one of the devices is gone.
    pub fn read(&self) -> io::Result<Counted> {
        let (mut bytes, mut length) = (vec![0; 16 * 1024], 0);
        loop {
            let read = self.table.read_at(&mut bytes[length..], length as u64)?;
            length += read;
            if read == 0 {
                break;
            }
            if length == bytes.len() {
                bytes.resize(2 * length, 0);
            }
        }
        sum(&String::from_utf8_lossy(&bytes[..length]), &self.names)
    }
}

fn sum(table: &str, names: &[String]) -> io::Result<Counted> {
    let (mut all, mut found) = (Counted::default(), 0);
    for line in table.lines() {
        let Some((name, columns)) = line.split_once(':') else { continue };
        if !names.iter().any(|wanted| wanted == name.trim()) {
            continue;
        }
        let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
        let [rx_bytes, rx_packets, _, rx_dropped, _, _, _, _, _, tx_packets, ..] = columns[..] else { continue };
        found += 1;
        all.rx_bytes += rx_bytes;
        all.rx_packets += rx_packets;
        all.rx_dropped += rx_dropped;
        all.tx_packets += tx_packets;
    }
    if found < names.len() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("one of {} is gone", names.join(", "))));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn the_program_of_a_port_is_found_with_its_threads_and_its_socket() {
        let (socket, sender) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = socket.local_addr().unwrap().port();
        let programs = of_port(port).expect("this process has it");
        assert!(programs.iter().any(|program| program.pid == std::process::id() && program.is_there()), "{programs:?}");
        assert!(threads(std::process::id()).iter().any(|thread| thread.ran_ns > 0));
        let sockets = Sockets::of(&programs, Some(port));
        let before = sockets.look();
        for _ in 0..5 {
            sender.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
        }
        let after = sockets.look();
        // A kernel without sock_diag reports none.
        if let ([before], [after]) = (&before[..], &after[..]) {
            assert!(before.share == 0.0 && after.share > 0.0 && after.room_bytes > 0, "{before:?} {after:?}");
            assert!(after.socket.contains(&port.to_string()));
        }
    }

    /// Two services may have the same port number, at different addresses or over different transports.
    #[test]
    fn the_program_of_an_address_is_that_of_its_own_socket() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let here = of_address(at, true).expect("this process has it");
        assert!(here.iter().any(|program| program.pid == std::process::id()), "{here:?}");
        assert_eq!(open_of(std::process::id()).map(|names| names.contains(&format!("udp {at}"))), Some(true));
        assert_eq!(open_of(u32::MAX), None);
        for (to, is_udp) in [(SocketAddr::from(([127, 0, 0, 2], at.port())), true), (at, false)] {
            let why = of_address(to, is_udp).unwrap_err().to_string();
            assert!(why.contains(&to.to_string()) && why.contains(&format!("but udp {at} is")), "{why}");
        }
        let all = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = all.local_addr().unwrap().port();
        assert!(of_address(([127, 0, 0, 7], port).into(), true).is_ok(), "a socket of all addresses");
    }

    #[test]
    fn devices_are_summed_and_one_that_is_gone_is_an_error() {
        let table = "Inter-|   Receive\n face |bytes    packets\n    lo: 7 6 0 1 2 0 0 0 500 5 0 3 0 0 0 0\n  v0: 70 60 0 10 2 0 0 0 500 50 0 3 0 0 0 0\n";
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let both = sum(table, &names(&["lo", "v0"])).unwrap();
        assert_eq!(both, Counted { rx_packets: 66, rx_bytes: 77, rx_dropped: 11, tx_packets: 55 });
        assert!(sum(table, &names(&["v1"])).unwrap_err().to_string().contains("v1 is gone"));
        let devices = Devices::open(&names(&["lo"])).unwrap();
        let before = devices.read().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..9 {
            socket.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
        }
        assert!(devices.read().unwrap().packets_since(&before) >= 9.0);
        assert!(own_cpu_s() > 0.0);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_to_do() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let refused = of_port(free).unwrap_err().to_string();
        assert!(refused.contains(&free.to_string()) && refused.contains("ss -lnptu"), "{refused}");
        assert_eq!((Program::of(0), Program::of(u32::MAX)), (None, None));
        assert!(threads(u32::MAX).is_empty() && Sockets::default().look().is_empty());
    }
}
