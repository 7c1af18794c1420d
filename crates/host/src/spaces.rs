//! Network namespaces: their names ([`Spaces`]), their devices (`Spaces::devices`), and a function that runs code in
//! one of them (`inside`).

use crate::{
    process, procfs,
    rtnl::{RawLink, Rtnl},
    system,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Directory of the names given by `ip netns`.
const NAMED: &str = "/run/netns";
const OWN: &str = "/proc/thread-self/ns/net";
/// Inode number of the initial network namespace since Linux 6.18. Source: include/uapi/linux/nsfs.h, NET_NS_INIT_INO.
const FIRST: u64 = 0xEFFF_FFF9;
/// Least time between two scans of all processes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Least time between two scans while a namespace is unknown.
const LOOK_FOR_ONE: Duration = Duration::from_millis(500);
/// The name of netcliff's own processes, whose threads may be in different namespaces.
const OWN_PROGRAM: &str = "netcliff";
/// Largest number of namespaces whose counters are read; the result's limits say how many more there are.
pub const MOST_SPACES: usize = 64;
/// Ethernet header and VLAN tag (bytes), by which a device's longest frame exceeds its MTU. Source:
/// include/linux/netdevice.h, __is_skb_forwardable.
const BEYOND_MTU: u64 = 14 + 4;

/// A network namespace.
#[derive(Debug, Clone)]
pub struct Space {
    /// Its name below /run/netns, `host`, the name and ID of a process in it, or `this` for the caller's namespace.
    pub name: String,
    /// A file that refers to it.
    pub path: PathBuf,
    /// A process in it.
    pub(crate) process: Option<u32>,
    /// Directory of the namespace's tables in procfs, below a task in the namespace; `None` if no such task is known.
    tables: Option<PathBuf>,
}

impl Space {
    /// Whether its file still refers to the namespace with this inode number.
    pub(crate) fn is(&self, number: u64) -> bool {
        inode(&self.path) == Some(number)
    }

    /// A table of /proc/net, read by a task in this namespace, else by a thread that enters it.
    pub(crate) fn table(&self, name: &str) -> io::Result<String> {
        let by_task = self.tables.as_ref().map(|tables| procfs::lossy(tables.join(name)));
        if let Some(Ok(table)) = by_task {
            return Ok(table);
        }
        let name = name.to_owned();
        inside(&self.path, move || procfs::lossy(format!("/proc/thread-self/net/{name}")))?
    }
}

/// Network namespaces by inode number, rescanned every few seconds.
#[derive(Debug, Clone)]
pub struct Spaces {
    /// The caller's namespace.
    pub own: u64,
    spaces: BTreeMap<u64, Space>,
    looked: Option<Instant>,
}

impl Default for Spaces {
    fn default() -> Self {
        let own = inode(Path::new(OWN)).unwrap_or_default();
        Spaces { own, spaces: BTreeMap::new(), looked: None }
    }
}

impl Spaces {
    /// A namespace by inode number; `None` if no scan has found it.
    pub(crate) fn known(&self, inode: u64) -> Option<&Space> {
        self.spaces.get(&inode)
    }

    /// Whether the caller is in the host's network namespace, in which the kernel threads are.
    pub fn in_host(&self) -> bool {
        host_space() == Some(self.own)
    }

    /// Inode number of a namespace, given its name below /run/netns, a process ID or a path.
    ///
    /// # Errors
    /// No namespace has that name.
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
        self.spaces.entry(inode).or_insert_with(|| Space { name: name.to_owned(), path, process: None, tables: None });
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
        for name in procfs::names(NAMED) {
            let path = Path::new(NAMED).join(&name);
            if let Some(inode) = inode(&path) {
                found.entry(inode).or_insert(Space { name, path, process: None, tables: None });
            }
        }
        let host = host_space();
        let mut add = |task: String, pid: u32, named: &dyn Fn() -> String| {
            let path = PathBuf::from(format!("{task}/ns/net"));
            let Some(inode) = inode(&path) else { return };
            let name = || if host == Some(inode) { "host".to_owned() } else { named() };
            let space = found.entry(inode).or_insert_with(|| Space { name: name(), path, process: None, tables: None });
            space.process.get_or_insert(pid);
            space.tables.get_or_insert_with(|| PathBuf::from(format!("{task}/net")));
        };
        let pids = process::numbers("/proc");
        for &pid in &pids {
            add(format!("/proc/{pid}"), pid, &|| format!("{} ({pid})", process::name(pid)));
        }
        for pid in pids.into_iter().filter(|pid| process::name(*pid) == OWN_PROGRAM) {
            for task in process::numbers(&format!("/proc/{pid}/task")) {
                add(format!("/proc/{pid}/task/{task}"), pid, &|| format!("{OWN_PROGRAM} ({pid})"));
            }
        }
        let this = || Space { name: "this".to_owned(), path: OWN.into(), process: None, tables: None };
        found.entry(self.own).or_insert_with(this);
        self.spaces = found;
    }

    /// A namespace's name; its inode number if it has neither a name nor a process.
    pub fn name(&mut self, inode: u64) -> String {
        let may_look = self.looked.is_none_or(|at| at.elapsed() >= LOOK_FOR_ONE);
        if !self.spaces.contains_key(&inode) && may_look {
            self.look();
        }
        self.spaces.get(&inode).map_or_else(|| format!("netns {inode}"), |space| space.name.clone())
    }

    /// The namespaces whose counters are read: `wanted`, or all if `wanted` is empty; at most [`MOST_SPACES`]. Also
    /// returns the number of namespaces that are left out.
    pub(crate) fn read_of(&mut self, wanted: &[u64]) -> (Vec<(u64, Space)>, usize) {
        let wanted = |inode: &u64| wanted.is_empty() || wanted.contains(inode);
        let mut all: Vec<(u64, Space)> = self
            .all()
            .iter()
            .filter(|(inode, _)| wanted(inode))
            .map(|(inode, space)| (*inode, space.clone()))
            .collect();
        let left_out = all.len().saturating_sub(MOST_SPACES);
        all.truncate(MOST_SPACES);
        (all, left_out)
    }

    /// Whether one of these namespaces (or of all) has a device of that name; true if one of them cannot be read.
    pub fn have_device(&mut self, wanted: &[u64], name: &str) -> bool {
        let (spaces, left_out) = self.read_of(wanted);
        let has = |table: String| table.lines().any(|line| line.split(':').next().is_some_and(|of| of.trim() == name));
        left_out > 0 || spaces.iter().any(|(_, space)| space.table("dev").map_or(true, has))
    }

    /// Devices of all other namespaces that this process may read, each with the name of its namespace.
    pub(crate) fn devices(&mut self) -> Vec<(String, Counted)> {
        let own = self.own;
        let others = self.all().iter().filter(|(inode, _)| **inode != own);
        let read = |space: &Space| parsed(&space.table("dev").unwrap_or_default());
        others.flat_map(|(_, space)| read(space).into_iter().map(|one| (space.name.clone(), one))).collect()
    }

    /// The other end of a veth pair, in any namespace. `None` if the device is no veth, or if the other end's namespace
    /// has neither name nor process.
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
        let number = |other: PathBuf| inside(&here, move || system::namespace_number(&other)).ok()?;
        // Device indices are unique per namespace only, so the peer's namespace number is compared, too.
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

/// Counters of a device in /proc/net/dev.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) rx_bytes: u64,
    pub(crate) rx_packets: u64,
    pub(crate) rx_dropped: u64,
    pub(crate) rx_fifo: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_dropped: u64,
}

/// Why named namespaces cannot be entered. `None` if they can, or if no namespace has a name. A name that has lost its
/// namespace, as after a program was killed while it made one, does not count.
pub fn refusal() -> Option<String> {
    let is_name_only =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound);
    let (first, error) = procfs::names(NAMED).into_iter().find_map(|name| {
        let entered = inside(&Path::new(NAMED).join(&name), || ());
        if entered.as_ref().is_err_and(is_name_only) { None } else { Some((name, entered.err())) }
    })?;
    Some(format!("network namespace {first}: {}; to look into others' namespaces needs root", error?))
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
    /// Whether it is administratively up.
    pub is_up: bool,
}

impl FarEnd {
    /// Longest frame that it accepts (bytes).
    pub(crate) fn longest_bytes(&self) -> u64 {
        u64::from(self.mtu_bytes) + BEYOND_MTU
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}

/// Inode number of the host's network namespace, in which the kernel threads are. `None` if this process does not see
/// the kernel threads (in a container) and is not in the initial namespace either.
pub(crate) fn host_space() -> Option<u64> {
    let threads = procfs::text("/proc/2/comm").is_some_and(|name| name == "kthreadd");
    let of_threads = threads.then(|| inode(Path::new("/proc/2/ns/net"))).flatten();
    of_threads.or_else(|| inode(Path::new(OWN)).filter(|own| *own == FIRST))
}

/// Runs `work` in a network namespace, in a new thread, because a thread cannot return from a namespace.
///
/// # Errors
/// The namespace cannot be entered, or the thread cannot be started.
pub(crate) fn inside<T: Send + 'static>(path: &Path, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let file = File::open(path)?;
    let enter = move || {
        system::enter_network_namespace(file)?;
        Ok(work())
    };
    let thread = thread::Builder::new().name("namespace".into()).spawn(enter)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that entered it ended early")))
}

/// Devices of a table of /proc/net/dev, without an unused loopback device.
fn parsed(table: &str) -> Vec<Counted> {
    let device = |line: &str| {
        let (name, columns) = line.split_once(':')?;
        let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
        let [rx_bytes, rx_packets, _, rx_dropped, rx_fifo, _, _, _, tx_bytes, tx_packets, _, tx_dropped, ..] =
            columns[..]
        else {
            return None;
        };
        let name = name.trim().to_owned();
        (name != "lo" || rx_packets > 0).then_some(Counted {
            name,
            rx_bytes,
            rx_packets,
            rx_dropped,
            rx_fifo,
            tx_bytes,
            tx_packets,
            tx_dropped,
        })
    };
    table.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_testkit::{Need, has};
    use std::process::Command;

    #[test]
    fn devices_of_a_table() {
        let table = "Inter-|   Receive\n face |bytes    packets\n    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n  v0: 7 6 0 1 2 0 0 0 500 5 0 3 0 0 0 0\n";
        let v0 = Counted {
            name: "v0".into(),
            rx_bytes: 7,
            rx_packets: 6,
            rx_dropped: 1,
            rx_fifo: 2,
            tx_bytes: 500,
            tx_packets: 5,
            tx_dropped: 3,
        };
        assert_eq!(parsed(table), [v0]);
        assert_eq!(parsed(&table.replace("lo: 0 0", "lo: 9 1")).len(), 2);
    }

    #[test]
    fn devices_of_a_named_namespace_are_found_from_outside() {
        if !has(Need::Netns) {
            return;
        }
        let space = format!("ncspace-{}", std::process::id());
        let ip = |args: &[&str]| Command::new("ip").args(args).status().is_ok_and(|status| status.success());
        assert!(
            ip(&["netns", "add", &space])
                && ip(&["-n", &space, "link", "add", "w0", "type", "veth", "peer", "name", "w1"])
        );
        // Its name has no namespace.
        let lost = format!("{NAMED}/0-{space}");
        std::fs::write(&lost, "").expect("root may");
        let (found, refused) = (Spaces::default().devices(), refusal());
        std::fs::remove_file(&lost).expect("it is there");
        assert!(ip(&["netns", "delete", &space]));
        let names: Vec<&str> =
            found.iter().filter(|(of, _)| *of == space).map(|(_, device)| device.name.as_str()).collect();
        assert!(names.contains(&"w0") && names.contains(&"w1") && refused.is_none(), "{refused:?} {found:?}");
    }
}
