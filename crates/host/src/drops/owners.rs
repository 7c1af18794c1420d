//! Whose drops they are: network namespaces by name, sockets by process, processes by container ([`Owners`]).

use crate::{
    procfs,
    rtnl::{RawLink, Rtnl},
};
use netcliff_core::drops::{DropAdvice, DropRow, Process, Socket, add_rows};
use netcliff_core::quote::shell;
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Where `ip netns` keeps names.
const NAMED: &str = "/run/netns";
const OWN: &str = "/proc/thread-self/ns/net";
/// Inode number of the first network namespace since Linux 6.18. Source: include/uapi/linux/nsfs.h, NET_NS_INIT_INO.
const FIRST: u64 = 0xEFFF_FFF9;
/// Least time between two looks at all processes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The same where one is unknown.
const LOOK_FOR_ONE: Duration = Duration::from_millis(500);
/// The name of this program's processes: their threads are in namespaces of their own.
const OWN_PROGRAM: &str = "netcliff";
/// Namespaces whose counters are read; more are named in the limits.
pub const MOST_SPACES: usize = 64;
/// Sockets of one reason and place that have a row each; further ones share a row.
const MOST_SOCKETS: usize = 5;
/// Ethernet's header and a VLAN tag (bytes): what a device takes beyond its MTU. Source: include/linux/netdevice.h, __is_skb_forwardable.
const BEYOND_MTU: u64 = 14 + 4;

/// A network namespace.
#[derive(Debug, Clone)]
pub struct Space {
    /// Its name below /run/netns, `host`, or a process in it.
    pub name: String,
    /// A file that stands for it.
    pub path: PathBuf,
    /// A process in it.
    process: Option<u32>,
}

/// What rows are told apart by; all by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Network namespace.
    pub netns: bool,
    /// Interface.
    pub device: bool,
    /// Socket with its process.
    pub socket: bool,
    /// Control group.
    pub container: bool,
}

/// Which rows count.
#[derive(Debug, Clone, Default)]
pub struct Only {
    /// Of this interface.
    pub device: Option<String>,
    /// For a socket of this process.
    pub process: Option<u32>,
}

/// Names of owners, looked up once each.
#[derive(Debug)]
pub struct Owners {
    /// The caller's namespace.
    pub own: u64,
    spaces: BTreeMap<u64, Space>,
    looked: Option<Instant>,
    /// Inode numbers of sockets that a look has found, or has not.
    sockets: BTreeMap<u64, Option<u32>>,
}

impl Owners {
    /// Of this host, as the caller sees it.
    pub fn new() -> Owners {
        let own = inode(Path::new(OWN)).unwrap_or_default();
        Owners { own, spaces: BTreeMap::new(), looked: None, sockets: BTreeMap::new() }
    }

    /// True where the caller is in the host's own network namespace: the one of its kernel threads.
    pub fn in_host(&self) -> bool {
        host_space() == Some(self.own)
    }

    /// A namespace by its name below /run/netns, a process or a file; its inode number.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find(&mut self, name: &str) -> Result<u64, String> {
        let path = match name {
            name if name.contains('/') => PathBuf::from(name),
            name if name.bytes().all(|byte| byte.is_ascii_digit()) => PathBuf::from(format!("/proc/{name}/ns/net")),
            name => Path::new(NAMED).join(name),
        };
        let error = |error: io::Error| {
            let named = procfs::names(NAMED).join(", ");
            let named = if named.is_empty() { "none".to_owned() } else { named };
            format!(
                "{name:?} is no network namespace ({}: {error}): write a name of `ip netns` (here {named}), a process's id, or a path such as /proc/PID/ns/net",
                path.display()
            )
        };
        let inode = fs::metadata(&path).map_err(error)?.ino();
        self.spaces.entry(inode).or_insert_with(|| Space { name: name.to_owned(), path, process: None });
        Ok(inode)
    }

    /// All namespaces that have a name or a process.
    pub fn all(&mut self) -> &BTreeMap<u64, Space> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            self.look();
        }
        &self.spaces
    }

    fn look(&mut self) {
        self.looked = Some(Instant::now());
        let mut found = BTreeMap::new();
        let host = host_space();
        for name in procfs::names(NAMED) {
            let path = Path::new(NAMED).join(&name);
            if let Some(inode) = inode(&path) {
                found.entry(inode).or_insert(Space { name, path, process: None });
            }
        }
        for pid in procfs::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
            let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
            let Some(inode) = inode(&path) else { continue };
            let named = || if host == Some(inode) { "host".to_owned() } else { format!("{} ({pid})", comm(pid)) };
            let space = found.entry(inode).or_insert_with(|| Space { name: named(), path, process: None });
            space.process.get_or_insert(pid);
        }
        for pid in procfs::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
            if procfs::text(format!("/proc/{pid}/comm")).as_deref() != Some(OWN_PROGRAM) {
                continue;
            }
            for task in procfs::names(format!("/proc/{pid}/task")) {
                let path = PathBuf::from(format!("/proc/{pid}/task/{task}/ns/net"));
                if let Some(inode) = inode(&path) {
                    let name = format!("{OWN_PROGRAM} ({pid})");
                    found.entry(inode).or_insert(Space { name, path, process: Some(pid) });
                }
            }
        }
        found.entry(self.own).or_insert(Space { name: "this".to_owned(), path: OWN.into(), process: None });
        self.spaces = found;
    }

    /// A namespace's name; its number where nobody is in it any more.
    pub fn name(&mut self, inode: u64) -> String {
        let may_look = self.looked.is_none_or(|at| at.elapsed() >= LOOK_FOR_ONE);
        if !self.spaces.contains_key(&inode) && may_look {
            self.look();
        }
        self.spaces.get(&inode).map_or_else(|| format!("netns {inode}"), |space| space.name.clone())
    }

    /// The process that has a socket.
    fn process_of(&mut self, sockets: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
        let unknown: BTreeSet<u64> =
            sockets.iter().copied().filter(|inode| !self.sockets.contains_key(inode)).collect();
        if !unknown.is_empty() {
            let found = holders(&unknown);
            self.sockets.extend(unknown.into_iter().map(|inode| (inode, found.get(&inode).copied())));
        }
        sockets.iter().filter_map(|inode| Some((*inode, (*self.sockets.get(inode)?)?))).collect()
    }

    /// Names the owners of rows and joins rows that nothing distinguishes.
    pub fn tell(&mut self, rows: Vec<DropRow>, columns: Columns, only: &Only) -> Vec<DropRow> {
        let sockets =
            rows.iter().filter_map(|row| Some(row.socket.as_ref()?.inode)).filter(|inode| *inode > 0).collect();
        let holders = self.process_of(&sockets);
        let mut named = Vec::with_capacity(rows.len());
        for mut row in rows {
            if only.device.is_some() && row.device != only.device {
                continue;
            }
            let holder = row.socket.as_ref().and_then(|socket| holders.get(&socket.inode)).copied();
            if only.process.is_some() && holder != only.process {
                continue;
            }
            if let Some(socket) = row.socket.as_mut() {
                socket.process = holder.map(|id| Process { id, name: comm(id) });
            }
            let inode = row.netns_inode;
            row.netns = inode.map(|inode| self.name(inode));
            let of_space = || {
                let apart = inode.filter(|inode| Some(*inode) != host_space())?;
                self.spaces.get(&apart)?.process
            };
            row.container = holder.or_else(of_space).and_then(container);
            named.push(row);
        }
        /// Reason, place, namespace and device.
        type Of = (String, String, Option<u64>, Option<String>);
        let mut seen: BTreeMap<Of, BTreeSet<u64>> = BTreeMap::new();
        named.sort_by_key(|row| std::cmp::Reverse(row.drops));
        for row in &mut named {
            if let Some(Socket { inode, port, .. }) = &row.socket {
                let of = (row.reason.clone(), row.place.clone(), row.netns_inode, row.device.clone());
                let known = seen.entry(of).or_default();
                let number = if *inode > 0 { *inode } else { u64::from(*port) };
                if !columns.socket || known.len() >= MOST_SOCKETS && !known.contains(&number) {
                    row.socket = None;
                } else {
                    known.insert(number);
                }
            }
            if !columns.netns {
                (row.netns, row.netns_inode) = (None, None);
            }
            if !columns.device {
                row.device = None;
            }
            if !columns.container {
                row.container = None;
            }
        }
        let mut joined = Vec::new();
        add_rows(&mut joined, named);
        joined
    }

    /// Names the cause where the kernel gives no reason and the frame is longer than the far end of the pair takes.
    pub fn explain(&mut self, rows: &mut [DropRow]) -> Vec<DropAdvice> {
        let mut advice = Vec::new();
        for row in rows {
            let forwards = ["__dev_forward_skb2", "__dev_forward_skb", "dev_forward_skb", "____dev_forward_skb"];
            if !matches!(row.reason.as_str(), "NOT_SPECIFIED" | "-")
                || !forwards.contains(&super::function_of(&row.place))
            {
                continue;
            }
            let (Some(inode), Some(device)) = (row.netns_inode, row.device.clone()) else { continue };
            let bytes = row.bytes.unwrap_or(0) / row.drops.max(1);
            let Some(far) = self.far_end(inode, &device) else { continue };
            let FarEnd { netns, name, mtu_bytes, is_up } = &far;
            let (cause, meaning, remedy) = if bytes > far.longest_bytes() {
                (
                    format!("longer than the MTU {mtu_bytes} of {name} in {netns}"),
                    format!(
                        "frames of {bytes} bytes (mean) are longer than the far end of {device} takes: {name} in {netns} has an MTU of \
                         {mtu_bytes}, which takes frames of {}",
                        far.longest_bytes()
                    ),
                    format!("the same MTU at both ends: `ip link set dev {} mtu ...` in {netns}", shell(name)),
                )
            } else if !is_up {
                (
                    format!("{name} in {netns} is down"),
                    format!("the far end of {device}, {name} in {netns}, is not up"),
                    format!("`ip link set dev {} up` in {netns}", shell(name)),
                )
            } else {
                continue;
            };
            row.cause = Some(cause);
            let told = DropAdvice {
                reason: format!("{} at {}", row.reason, super::function_of(&row.place)),
                meaning,
                remedies: vec![remedy],
                source: "net/core/dev.c, __dev_forward_skb2; include/linux/netdevice.h, __is_skb_forwardable"
                    .to_owned(),
            };
            if !advice.contains(&told) {
                advice.push(told);
            }
        }
        advice
    }

    /// The other end of a veth pair, in whichever namespace it is. `None` where the namespace has neither name nor process.
    pub fn far_end(&mut self, space: u64, device: &str) -> Option<FarEnd> {
        let spaces: Vec<(u64, Space)> = self.all().iter().map(|(inode, space)| (*inode, space.clone())).collect();
        let links = |space: &Space| inside(&space.path, || Rtnl::new().links()).ok()?.ok();
        let near = spaces.iter().find(|(inode, _)| *inode == space)?;
        let here = near.1.path.clone();
        let near = links(&near.1)?.into_iter().find(|link| link.name == device)?;
        if near.kind.as_deref() != Some("veth") {
            return None;
        }
        let pair = |link: &RawLink| {
            let linked = Some(link.index) == near.linked && link.linked == Some(near.index);
            linked && link.kind.as_deref() == Some("veth")
        };
        let number = |other: PathBuf| inside(&here, move || space_number(&other)).ok()?;
        // Devices are numbered in each namespace anew: the pair's namespace has a number, too.
        let is_there = |(inode, other): &&(u64, Space)| match near.linked_space {
            None => *inode == space,
            Some(there) => *inode != space && number(other.path.clone()) == Some(there),
        };
        let (_, there) = spaces.iter().find(is_there)?;
        let link = links(there)?.into_iter().find(pair)?;
        let (netns, is_up) = (there.name.clone(), link.is_up());
        Some(FarEnd { netns, mtu_bytes: link.mtu_bytes?, name: link.name, is_up })
    }
}

/// The far end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FarEnd {
    /// Its network namespace, by name.
    pub netns: String,
    /// Its name there.
    pub name: String,
    /// Its MTU (bytes).
    pub mtu_bytes: u32,
    /// True where it was set up.
    pub is_up: bool,
}

impl FarEnd {
    /// The longest frame that it takes (bytes).
    fn longest_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + BEYOND_MTU
    }
}

impl Default for Owners {
    fn default() -> Self {
        Self::new()
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}

/// The namespace of the host's devices: the one of its kernel threads. `None` in a container, which does not see them.
fn host_space() -> Option<u64> {
    let threads = procfs::text("/proc/2/comm").is_some_and(|name| name == "kthreadd");
    let of_threads = threads.then(|| inode(Path::new("/proc/2/ns/net"))).flatten();
    of_threads.or_else(|| inode(Path::new(OWN)).filter(|own| *own == FIRST))
}

/// Runs in a network namespace. A namespace is entered for good: a thread is spent on it.
///
/// # Errors
/// The namespace cannot be entered, or the thread cannot be started.
pub(crate) fn inside<T: Send + 'static>(path: &Path, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let file = File::open(path)?;
    let enter = move || {
        setns(file, CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    };
    let thread = thread::Builder::new().name("namespace".into()).spawn(enter)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that looked into it ended early")))
}

/// The number that the calling thread's namespace has for another one. Source: net/core/net_namespace.c, rtnl_net_getid.
#[cfg(target_os = "linux")]
fn space_number(other: &Path) -> Option<i32> {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
    use std::os::fd::AsRawFd as _;
    /// linux/rtnetlink.h, linux/net_namespace.h.
    const RTM_GETNSID: u16 = 90;
    const NETNSA_NSID: u16 = 1;
    const NETNSA_FD: u16 = 3;
    /// Of the message and `struct rtgenmsg`, padded.
    const HEAD: usize = 16 + 4;

    let file = File::open(other).ok()?;
    let netlink = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, netlink).ok()?;
    let mut request = Vec::new();
    request.extend((HEAD as u32 + 8).to_ne_bytes());
    request.extend(RTM_GETNSID.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number, port and family.
    request.extend([0; 12]);
    request.extend(8u16.to_ne_bytes());
    request.extend(NETNSA_FD.to_ne_bytes());
    request.extend(file.as_raw_fd().to_ne_bytes());
    send(socket.as_raw_fd(), &request, MsgFlags::empty()).ok()?;
    let mut reply = [0; 512];
    let length = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()).ok()?;
    let mut attributes = reply.get(..length)?.get(HEAD..)?;
    let is_answer = reply.get(4..6)? != (libc::NLMSG_ERROR as u16).to_ne_bytes();
    while let (true, [a, b, c, d, rest @ ..]) = (is_answer, attributes) {
        let (length, kind) = (usize::from(u16::from_ne_bytes([*a, *b])), u16::from_ne_bytes([*c, *d]));
        if kind == NETNSA_NSID {
            return Some(i32::from_ne_bytes(*rest.first_chunk()?)).filter(|number| *number >= 0);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn space_number(_: &Path) -> Option<i32> {
    None
}

/// A process's name, without what would steer a terminal.
fn comm(pid: u32) -> String {
    let name = procfs::text(format!("/proc/{pid}/comm")).unwrap_or_else(|| "?".to_owned());
    name.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// A process of each of these sockets, the oldest one.
fn holders(sockets: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let mut pids: Vec<u32> = procfs::names("/proc").into_iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let number =
                target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(number) = number.filter(|number| sockets.contains(number)) {
                found.entry(number).or_insert(pid);
            }
        }
        if found.len() == sockets.len() {
            break;
        }
    }
    found
}

/// The control group of a process, the last two parts of its path; a container's id is cut to twelve digits. `None` at the root.
fn container(pid: u32) -> Option<String> {
    container_of(&procfs::text(format!("/proc/{pid}/cgroup"))?)
}

fn container_of(cgroups: &str) -> Option<String> {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let path = paths.max_by_key(|path| path.split('/').filter(|part| !part.is_empty()).count())?;
    let cut = |part: &str| {
        let id = part.split(|c: char| !c.is_ascii_hexdigit()).find(|word| word.len() >= 32);
        id.map_or_else(|| part.to_owned(), |id| part.replace(id, id.get(..12).unwrap_or(id)))
    };
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(cut).collect();
    let last = parts.get(parts.len().saturating_sub(2)..)?;
    (!last.is_empty()).then(|| last.join("/").chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_by_its_control_group() {
        let id = "94ed09644e85f1d2aa2875c5c8546fe894ed09644e85f1d2aa2875c5c8546fe8";
        let docker = format!("0::/system.slice/docker-{id}.scope\n");
        assert_eq!(container_of(&docker).as_deref(), Some("system.slice/docker-94ed09644e85.scope"));
        let old = format!("9:name=systemd:/\n4:memory:/docker/{id}\n0::/\n");
        assert_eq!(container_of(&old).as_deref(), Some("docker/94ed09644e85"));
        assert_eq!(container_of("0::/\n"), None);
    }

    #[test]
    fn rows_of_many_sockets_share_one() {
        let row = |port: u16| DropRow {
            reason: "SOCKET_RCVBUFF".into(),
            socket: Some(Socket { protocol: 17, address: [0, 0, 0, 0].into(), port, inode: 0, process: None }),
            device: Some("v0".into()),
            drops: u64::from(port),
            ..DropRow::default()
        };
        let columns = Columns { netns: true, device: true, socket: true, container: true };
        let told = Owners::new().tell((1..=20).map(row).collect(), columns, &Only::default());
        assert_eq!(told.len(), MOST_SOCKETS + 1);
        assert_eq!(told.iter().map(|row| row.drops).sum::<u64>(), 210);
        let only = Only { device: Some("v1".into()), ..Only::default() };
        assert!(Owners::new().tell(vec![row(1)], columns, &only).is_empty());
        let place = Columns { netns: false, device: false, socket: false, container: false };
        assert_eq!(Owners::new().tell((1..=20).map(row).collect(), place, &Only::default()).len(), 1);
    }
}
