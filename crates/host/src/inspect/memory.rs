//! The NUMA nodes that hold the memory of programs which receive from the network, from `/proc/PID/numa_maps`.
//!
//! The kernel does not report where a device's rings are. It allocates descriptors on the device's node, and packet
//! buffers on the node of the CPU that polls; for both the rule on interrupts (`irq-remote-node`) applies.

use crate::{files, process, sockets};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Most programs that are examined: for each the kernel walks all pages.
const MOST_PROGRAMS: usize = 32;

/// The memory of one program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramMemory {
    /// Its process.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// Memory on each node (bytes), without mapped files.
    pub bytes: BTreeMap<u32, u64>,
}

impl ProgramMemory {
    /// Memory on all nodes (bytes).
    pub fn all_bytes(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// Memory on nodes other than `node` (bytes).
    pub fn away_from(&self, node: u32) -> u64 {
        self.bytes.iter().filter(|(other, _)| **other != node).map(|(_, bytes)| bytes).sum()
    }
}

/// The memory of the programs that have a receiving socket in the calling thread's network namespace, as far as this
/// user may read it.
pub(super) fn of_receivers() -> Vec<ProgramMemory> {
    let inodes: BTreeSet<u64> = sockets::receivers().into_iter().map(|receiver| receiver.socket.inode).collect();
    let pids: BTreeSet<u32> = sockets::holders(&inodes).into_values().collect();
    let of = |pid: u32| {
        let maps = files::text(&Path::new("/proc").join(pid.to_string()).join("numa_maps"), files::MOST_BYTES).ok()?;
        let bytes = by_node(&maps);
        (!bytes.is_empty()).then(|| ProgramMemory { pid, name: process::name(pid), bytes })
    };
    pids.into_iter().take(MOST_PROGRAMS).filter_map(of).collect()
}

/// Memory on each node (bytes), without mapped files. A line of the file is `7f00 default anon=12 dirty=12 N0=8 N1=4
/// kernelpagesize_kB=4`.
fn by_node(maps: &str) -> BTreeMap<u32, u64> {
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    for line in maps.lines().filter(|line| line.contains(" anon=")) {
        let figure = |word: &str, name: &str| word.strip_prefix(name)?.parse::<u64>().ok();
        let page_kb = line.split_whitespace().find_map(|word| figure(word, "kernelpagesize_kB=")).unwrap_or(4);
        for word in line.split_whitespace() {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else { continue };
            if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                *found.entry(node).or_default() += pages.saturating_mul(page_kb << 10);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of Documentation/filesystems/proc.rst and of a host with two nodes: a heap, huge pages, and a
    /// library.
    #[test]
    fn pages_are_counted_by_their_size_and_files_not_at_all() {
        let maps = "55d0 default heap anon=120 dirty=120 active=0 N0=20 N1=100 kernelpagesize_kB=4\n\
                    7f00 bind:1 anon=3 dirty=3 N1=3 kernelpagesize_kB=2048\n\
                    7f80 default file=/usr/lib/libc.so.6 mapped=300 mapmax=40 N0=300 kernelpagesize_kB=4\n";
        assert_eq!(by_node(maps), BTreeMap::from([(0, 20 << 12), (1, (100 << 12) + (3 << 21))]));
        assert_eq!(by_node("7f00 default anon=x Nx=1 N0= N=5\n"), BTreeMap::new());
        assert_eq!(by_node(""), BTreeMap::new());
    }

    #[test]
    fn a_program_of_this_host_is_read() {
        // Without this socket the test process would not be listed.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = of_receivers().into_iter().find(|program| program.pid == std::process::id());
        drop(socket);
        // A kernel without CONFIG_NUMA has no numa_maps.
        assert!(own.is_none_or(|own| own.all_bytes() > 0 && own.away_from(u32::MAX) == own.all_bytes()));
    }
}
