//! Occupancy of queues that all flows of a host share: qdiscs, bytes queued in devices, softnet backlogs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::rtnl::Rtnl;

/// Column of /proc/net/softnet_stat with the length of a CPU's backlog (net/core/net-procfs.c, since Linux 5.10).
const SOFTNET_BACKLOG: usize = 11;

/// A shared queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedQueue {
    /// The root qdisc of a device (bytes).
    Qdisc {
        /// The device.
        device: String,
        /// Kind of the qdisc, such as `fq_codel`.
        kind: String,
    },
    /// Bytes queued in a device and not yet sent (byte queue limits).
    Device(String),
    /// A CPU's softnet backlog (packets), where the packets of loopback, veth and RPS wait.
    Backlog(u32),
}

/// Reads the shared queues of the network namespace of the thread that creates it.
pub struct SharedQueues {
    rtnl: Rtnl,
    names: BTreeMap<u32, String>,
    /// Files with the queued bytes, by device; empty if /sys shows the devices of another namespace.
    limits: Vec<(String, PathBuf)>,
}

impl SharedQueues {
    /// Prepares to read the queues of the calling thread's network namespace. `sys`, if given, is a sysfs that shows
    /// the devices of that namespace.
    ///
    /// # Errors
    /// The kernel does not list its links.
    pub fn here(sys: Option<&Path>) -> io::Result<Self> {
        let mut rtnl = Rtnl::new();
        let names: BTreeMap<u32, String> = rtnl.links()?.into_iter().map(|link| (link.index, link.name)).collect();
        let limits = sys.map_or_else(Vec::new, |sys| {
            let of = |device: &String| {
                let queues = std::fs::read_dir(sys.join("class/net").join(device).join("queues")).into_iter().flatten();
                let files = queues.flatten().map(|queue| queue.path().join("byte_queue_limits/inflight"));
                files.filter(|file| file.exists()).map(|file| (device.clone(), file)).collect::<Vec<_>>()
            };
            names.values().flat_map(of).collect()
        });
        Ok(Self { rtnl, names, limits })
    }

    /// Present occupancy of each queue, in the queue's own unit. A queue that cannot be read is omitted.
    pub fn read(&mut self) -> Vec<(SharedQueue, u64)> {
        let mut found = Vec::new();
        for backlog in self.rtnl.backlogs().unwrap_or_default() {
            let Some(device) = self.names.get(&backlog.index) else { continue };
            let queue = SharedQueue::Qdisc { device: device.clone(), kind: backlog.kind };
            found.push((queue, u64::from(backlog.bytes)));
        }
        let mut devices: BTreeMap<&String, u64> = BTreeMap::new();
        for (device, file) in &self.limits {
            if let Some(bytes) = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok()) {
                *devices.entry(device).or_default() += bytes;
            }
        }
        found.extend(devices.into_iter().map(|(device, bytes)| (SharedQueue::Device(device.clone()), bytes)));
        let softnet = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
        found.extend(backlogs(&softnet).into_iter().map(|(cpu, packets)| (SharedQueue::Backlog(cpu), packets)));
        found
    }
}

/// Backlog of each CPU (packets); empty if the kernel does not report it.
fn backlogs(softnet: &str) -> Vec<(u32, u64)> {
    let line = |text: &str| {
        let columns: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| u64::from_str_radix(columns.get(at)?, 16).ok();
        Some((u32::try_from(number(SOFTNET_BACKLOG + 1)?).ok()?, number(SOFTNET_BACKLOG)?))
    };
    softnet.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlogs_are_read_by_cpu_where_the_kernel_tells_them() {
        let six = "00a0 0 1 0 0 0 0 0 0 0 0 0000001f 00000002 0 0\n00b0 0 1 0 0 0 0 0 0 0 0 00000000 00000003 0 0\n";
        assert_eq!(backlogs(six), [(2, 31), (3, 0)]);
        assert_eq!(backlogs("00a0 0 1 0 0 0 0 0 0 0 0\n"), []);
    }

    #[test]
    fn this_host_has_queues() {
        let mut queues = SharedQueues::here(Some(Path::new("/sys"))).expect("links are listed to anyone");
        let found = queues.read();
        assert!(
            found.iter().all(|(queue, _)| !matches!(queue, SharedQueue::Qdisc { device, .. } if device.is_empty()))
        );
    }
}
