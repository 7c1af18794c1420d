//! Devices of other network namespaces: the named ones below /run/netns, and those that running netcliffs made for themselves.

use crate::procfs;
use nix::sched::{CloneFlags, setns};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
};

/// Where `ip netns` keeps names.
const NAMED: &str = "/run/netns";
/// The name of this program's processes, as the kernel shows it.
const OWN_PROGRAM: &str = "netcliff";

/// What a device has counted, by /proc/net/dev.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub(super) name: String,
    pub(super) rx_bytes: u64,
    pub(super) rx_packets: u64,
    pub(super) rx_dropped: u64,
    pub(super) rx_fifo: u64,
    pub(super) tx_bytes: u64,
    pub(super) tx_packets: u64,
    pub(super) tx_dropped: u64,
}

/// A network namespace that is not the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Space {
    name: String,
    /// The mount of a named one, or a task of a process that has one without a name.
    path: PathBuf,
    named: bool,
}

/// The devices of all other namespaces that this process may look into, each with the namespace's name.
pub(super) fn devices() -> Vec<(String, Counted)> {
    let read = |space: &Space| match space.named {
        true => read_inside(&space.path).unwrap_or_default(),
        false => procfs::whole(space.path.join("net/dev")),
    };
    let spaces = spaces().into_iter().map(|space| (read(&space), space.name));
    spaces.flat_map(|(table, name)| parsed(&table).into_iter().map(move |one| (name.clone(), one))).collect()
}

/// Why namespaces that have names cannot be looked into; None: they can, or there are none.
pub fn refusal() -> Option<String> {
    let first = procfs::names(NAMED).into_iter().next()?;
    let error = read_inside(&Path::new(NAMED).join(&first)).err()?;
    Some(format!("network namespace {first}: {error}; to look into others' namespaces needs root"))
}

/// Each once: a namespace may have several names, and tasks have those of others.
fn spaces() -> Vec<Space> {
    let mut seen: BTreeSet<u64> = inode(Path::new("/proc/thread-self/ns/net")).into_iter().collect();
    let named =
        procfs::names(NAMED).into_iter().map(|name| Space { path: Path::new(NAMED).join(&name), name, named: true });
    let mut found: Vec<Space> =
        named.filter(|space| inode(&space.path).is_some_and(|inode| seen.insert(inode))).collect();
    let pids = procfs::names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    for pid in pids.filter(|pid| procfs::text(format!("/proc/{pid}/comm")).as_deref() == Some(OWN_PROGRAM)) {
        for task in procfs::names(format!("/proc/{pid}/task")) {
            let path = PathBuf::from(format!("/proc/{pid}/task/{task}"));
            if inode(&path.join("ns/net")).is_some_and(|inode| seen.insert(inode)) {
                found.push(Space { name: format!("pid {pid}"), path, named: false });
            }
        }
    }
    found
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.ino())
}

/// /proc/net/dev of a namespace. A namespace is entered for good: a thread is spent on it.
fn read_inside(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let read = move || {
        setns(file, CloneFlags::CLONE_NEWNET)?;
        procfs::lossy("/proc/thread-self/net/dev")
    };
    let thread = thread::Builder::new().name("namespace".into()).spawn(read)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that read it ended early")))
}

/// The devices of a table of /proc/net/dev; a loopback device that nothing went over is none.
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
        let found = devices();
        assert!(ip(&["netns", "delete", &space]));
        let names: Vec<&str> =
            found.iter().filter(|(of, _)| *of == space).map(|(_, device)| device.name.as_str()).collect();
        assert!(names.contains(&"w0") && names.contains(&"w1") && refusal().is_none(), "{found:?}");
    }
}
