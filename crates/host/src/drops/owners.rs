//! Owners of drops: names of network namespaces, processes of sockets, containers of processes ([`Owners`]).

use crate::{
    process, procfs, sockets,
    spaces::{FarEnd, Spaces, host_space},
};
use netcliff_core::drops::{DropAdvice, DropRow, Process, Socket, add_rows};
use netcliff_core::quote::shell;
use std::collections::{BTreeMap, BTreeSet};

/// Number of sockets per reason, place, namespace and interface that get their own row; further sockets share one row.
const MOST_SOCKETS: usize = 5;

/// What rows are distinguished by; everything by default.
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

/// Filter of rows.
#[derive(Debug, Clone, Default)]
pub struct Only {
    /// Only rows of this interface.
    pub device: Option<String>,
    /// Only rows for a socket of this process; a socket of several processes counts for the one with the lowest pid.
    pub process: Option<u32>,
}

/// Names of owners, each looked up once.
#[derive(Debug, Default)]
pub struct Owners {
    /// Network namespaces.
    pub spaces: Spaces,
    /// Process ids by the inode numbers of their sockets; `None` if no process was found for a socket.
    sockets: BTreeMap<u64, Option<u32>>,
}

impl Owners {
    /// Processes that own these sockets.
    fn process_of(&mut self, sockets: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
        let unknown: BTreeSet<u64> =
            sockets.iter().copied().filter(|inode| !self.sockets.contains_key(inode)).collect();
        if !unknown.is_empty() {
            let found = sockets::holders(&unknown);
            self.sockets.extend(unknown.into_iter().map(|inode| (inode, found.get(&inode).copied())));
        }
        sockets.iter().filter_map(|inode| Some((*inode, (*self.sockets.get(inode)?)?))).collect()
    }

    /// Adds the owners' names to the rows. Leaves out rows that do not match `only`, removes properties that `columns`
    /// does not select, and merges rows that then are equal.
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
                socket.process = holder.map(|id| Process { id, name: process::name(id) });
            }
            let inode = row.netns_inode;
            row.netns = inode.map(|inode| self.spaces.name(inode));
            let of_space = || {
                let apart = inode.filter(|inode| Some(*inode) != host_space())?;
                self.spaces.known(apart)?.process
            };
            row.container = holder.or_else(of_space).and_then(container);
            named.push(row);
        }
        /// (reason, place, namespace, device).
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

    /// Adds the cause if the kernel gives no reason and the frame is longer than the MTU of the veth pair's other
    /// end, or that end is down.
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
            let Some(far) = self.spaces.far_end(inode, &device) else { continue };
            let FarEnd { netns, name, mtu_bytes, is_up } = &far;
            let (cause, meaning, remedy) = if bytes > far.longest_bytes() {
                (
                    format!("longer than the MTU {mtu_bytes} of {name} in {netns}"),
                    format!(
                        "frames of {bytes} bytes (mean) are longer than the far end of {device} takes: {name} in {netns} has an MTU of \
                         {mtu_bytes}, which takes frames of {}",
                        far.longest_bytes()
                    ),
                    format!(
                        "the same MTU at both ends: {}",
                        in_space(&format!("ip link set dev {} mtu ...", shell(name)), netns)
                    ),
                )
            } else if !is_up {
                (
                    format!("{name} in {netns} is down"),
                    format!("the far end of {device}, {name} in {netns}, is not up"),
                    in_space(&format!("ip link set dev {} up", shell(name)), netns),
                )
            } else {
                continue;
            };
            row.cause = Some(cause);
            let one = DropAdvice {
                reason: format!("{} at {}", row.reason, super::function_of(&row.place)),
                meaning,
                remedies: vec![remedy],
                source: "net/core/dev.c, __dev_forward_skb2; include/linux/netdevice.h, __is_skb_forwardable"
                    .to_owned(),
            };
            if !advice.contains(&one) {
                advice.push(one);
            }
        }
        advice
    }
}

/// A command in backquotes, in the network namespace of this name.
fn in_space(command: &str, netns: &str) -> String {
    let entered = super::rules::entering(netns);
    entered.map_or_else(|| format!("`{command}` in {netns}"), |entered| format!("`{entered}{command}`"))
}

/// The control group of a process: the last two parts of its path, with a container's ID cut to twelve digits. `None`
/// for the root group.
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
        let told = Owners::default().tell((1..=20).map(row).collect(), columns, &Only::default());
        assert_eq!(told.len(), MOST_SOCKETS + 1);
        assert_eq!(told.iter().map(|row| row.drops).sum::<u64>(), 210);
        let only = Only { device: Some("v1".into()), ..Only::default() };
        assert!(Owners::default().tell(vec![row(1)], columns, &only).is_empty());
        let place = Columns { netns: false, device: false, socket: false, container: false };
        assert_eq!(Owners::default().tell((1..=20).map(row).collect(), place, &Only::default()).len(), 1);
    }
}
