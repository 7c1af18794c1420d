//! Drops that eBPF does not see, from counters: [`Look`] reads the counters in each network namespace, and [`unseen`]
//! returns the drops that are in no row of eBPF.
//!
//! In these cases no packet is freed at skb:kfree_skb: a full accept queue, a full NIC ring, an XDP program in the
//! driver, an answer without a route. Sources: net/ipv4/tcp_input.c (tcp_conn_request), net/ipv4/icmp.c (icmp_reply),
//! net/ipv4/udp.c (udp_sendmsg).

use super::counters::{Counters, NO_ANSWER, NO_ANSWER6, once};
use crate::{
    sockets::{self, Kind, Receiver},
    spaces::{MOST_SPACES, Spaces, inside},
};
use netcliff_core::drops::{DropRow, Method};
use netcliff_core::ledger::{LedgerRow, Place};
use std::{collections::BTreeMap, sync::Arc};

/// Counters that may be in no row of eBPF, with the reasons by which eBPF would see their drops.
const UNSEEN: &[(&str, &[&str])] = &[
    ("TcpExt ListenOverflows", &["TCP_LISTEN_OVERFLOW"]),
    ("TcpExt TCPReqQFullDrop", &[]),
    ("TcpExt ListenDrops", &[]),
    ("Ip OutNoRoutes", &["IP_OUTNOROUTES"]),
    ("Ip6OutNoRoutes", &["IP_OUTNOROUTES"]),
    (NO_ANSWER, &[]),
    (NO_ANSWER6, &[]),
    ("softnet dropped", &["CPU_BACKLOG"]),
    ("Udp RcvbufErrors", &["SOCKET_RCVBUFF"]),
    ("Udp6RcvbufErrors", &["SOCKET_RCVBUFF"]),
    ("Udp MemErrors", &["PROTO_MEM"]),
    ("Udp6MemErrors", &["PROTO_MEM"]),
    ("XDP drops", &["XDP"]),
    (RAW, &[]),
];
/// Name of the row for packet copies that were lost because a raw socket's receive buffer was full.
const RAW: &str = "raw sockets' receive buffers";
/// Counters of packets dropped by connection tracking, which eBPF sees as NETFILTER_DROP.
const TRACKING: [&str; 2] = ["conntrack drop", "conntrack insert_failed"];
/// Largest relative difference between the kernel's counters and the traced drops that is attributed to reading them
/// one after the other.
const SKEW: f64 = 0.01;

/// All counters at one time, by namespace.
#[derive(Debug, Default)]
pub struct Look {
    spaces: BTreeMap<u64, Counted>,
    /// Number of namespaces that were not read.
    left_out: usize,
    /// Names of namespaces that have ended.
    ended: Vec<String>,
    /// True: only some namespaces are read.
    some: bool,
}

/// Counters of one namespace.
#[derive(Debug)]
struct Counted {
    counters: Counters,
    /// Sockets, as read at the last look at which the counters of losses at sockets had increased.
    receivers: Arc<Vec<Receiver>>,
    raw: Vec<Receiver>,
}

impl Look {
    /// Reads the counters in these namespaces (empty: all). The table of sockets is read only if the counters of losses
    /// at sockets increased since `before`.
    pub fn now(spaces: &mut Spaces, wanted: &[u64], before: Option<&Look>) -> Look {
        let own = spaces.own;
        let (all, left_out) = spaces.read_of(wanted);
        let mut look = Look { left_out, some: !wanted.is_empty(), ..Look::default() };
        for (inode, space) in all {
            let before = before.and_then(|look| look.spaces.get(&inode));
            let before = before.map(|known| (known.counters.at_sockets(), Arc::clone(&known.receivers)));
            let read = move || {
                let counters = Counters::now();
                let receivers = match before {
                    Some((lost, receivers)) if lost == counters.at_sockets() => receivers,
                    _ => Arc::new(sockets::receivers()),
                };
                Counted { counters, receivers, raw: sockets::raw() }
            };
            match if inode == own { Ok(read()) } else { inside(&space.path, read) } {
                Ok(read) => drop(look.spaces.insert(inode, read)),
                Err(_) if !space.is(inode) => look.ended.push(space.name),
                Err(_) => look.left_out += 1,
            }
        }
        look
    }

    /// What limits the counters, one sentence each.
    pub fn limits(&self) -> Vec<String> {
        let left_out = (self.left_out > 0).then(|| {
            format!("counters of {} network namespaces were not read: no right, or more than {MOST_SPACES}; `--netns NAME` reads one", self.left_out)
        });
        let ended =
            (!self.ended.is_empty()).then(|| format!("no longer there: network namespace {}", self.ended.join(", ")));
        left_out.into_iter().chain(ended).collect()
    }

    /// Counters that increased until a later look, each loss once. `traced`: leaves out counters of virtual devices,
    /// whose drops eBPF sees.
    pub fn rows_until(&self, later: &Look, traced: bool) -> Vec<DropRow> {
        let mut rows: Vec<DropRow> = Vec::new();
        for (inode, after) in &later.spaces {
            let Some(before) = self.spaces.get(inode) else { continue };
            for row in once(before.counters.until(&after.counters)) {
                // The backlog has one counter for the whole host, which every namespace shows.
                let of_host = row.place == Place::Backlog;
                // eBPF separates the backlog drops of some namespaces from those of all others.
                let of_others = traced && self.some;
                if of_host && (of_others || rows.iter().any(|known| known.reason == row.reason)) {
                    continue;
                }
                let mut all = row_of(row, (!of_host).then_some(*inode));
                if traced
                    && all.reason != "XDP drops"
                    && all.device.as_ref().is_some_and(|name| after.counters.is_made(name))
                {
                    continue;
                }
                rows.extend(by_socket(&mut all, &before.receivers, &after.receivers));
                rows.extend((all.drops > 0).then_some(all));
            }
            let mut raw = DropRow {
                reason: RAW.to_owned(),
                place: "/proc/net/raw".to_owned(),
                drops: u64::MAX,
                netns_inode: Some(*inode),
                method: Method::Counters,
                ..DropRow::default()
            };
            rows.extend(by_socket(&mut raw, &before.raw, &after.raw));
        }
        rows
    }
}

fn row_of(row: LedgerRow, netns_inode: Option<u64>) -> DropRow {
    let on_device = matches!(row.place, Place::Nic | Place::Xdp | Place::Qdisc);
    DropRow {
        reason: row.reason,
        device: on_device.then(|| row.source.split(' ').next().unwrap_or_default().to_owned()),
        place: row.source,
        drops: row.packets,
        netns_inode,
        method: Method::Counters,
        ..DropRow::default()
    }
}

/// One row for each socket with its part of a counter's increase, which is subtracted from `row`.
fn by_socket(row: &mut DropRow, before: &[Receiver], after: &[Receiver]) -> Vec<DropRow> {
    let kind = match row.reason.as_str() {
        "TcpExt ListenOverflows" | "TcpExt ListenDrops" | "TcpExt TCPReqQFullDrop" => Kind::Listening,
        "Udp RcvbufErrors" | "Udp6RcvbufErrors" => Kind::Udp,
        RAW => Kind::Raw,
        _ => return Vec::new(),
    };
    let mut rows = Vec::new();
    for (receiver, grown) in sockets::lost(before, after).filter(|(receiver, _)| receiver.kind == kind) {
        let grown = grown.min(row.drops);
        if grown > 0 {
            row.drops -= grown;
            rows.push(DropRow { drops: grown, socket: Some(receiver.socket.clone()), ..row.clone() });
        }
    }
    rows
}

/// Returns the rows of counters minus the drops that eBPF traced. `filtered`: eBPF counted only some packets, so that
/// nothing can be subtracted.
pub fn unseen(rows: Vec<DropRow>, traced: &[DropRow], filtered: bool) -> Vec<DropRow> {
    let seen = |row: &DropRow, reasons: &[&str]| -> u64 {
        let here = |other: &&DropRow| {
            let same_space =
                row.netns_inode.is_none() || other.netns_inode.is_none() || row.netns_inode == other.netns_inode;
            same_space && reasons.contains(&other.reason.as_str())
        };
        traced.iter().filter(here).map(|row| row.drops).sum()
    };
    let at_device = |row: &DropRow| -> u64 {
        let here = |other: &&DropRow| other.device == row.device && other.netns_inode == row.netns_inode;
        traced.iter().filter(here).map(|row| row.drops).sum()
    };
    let left = |row: DropRow| {
        let known = UNSEEN.iter().find(|(reason, _)| *reason == row.reason);
        let is_ring = known.is_none() && row.device.is_some() && row.reason != "qdisc drops";
        let twice = match known {
            Some((_, [])) => 0,
            _ if filtered && !is_ring => {
                return (known.is_some_and(|(reason, _)| reason.starts_with("TcpExt") || reason.contains("NoRoutes")))
                    .then_some(row);
            }
            Some((_, reasons)) => seen(&row, reasons),
            None if is_ring
                && ["rx_dropped", "tx_dropped", "tx_errors", "rx_nohandler"].contains(&row.reason.as_str()) =>
            {
                if filtered {
                    return None;
                }
                at_device(&row)
            }
            None if is_ring => 0,
            None => return None,
        };
        let drops = row.drops.saturating_sub(twice);
        (drops as f64 > SKEW * row.drops as f64 || twice == 0)
            .then_some(DropRow { drops, ..row })
            .filter(|row| row.drops > 0)
    };
    rows.into_iter().filter_map(left).collect()
}

/// Adds to the rows of netfilter's drops the number of drops caused by connection tracking, according to its counters.
pub fn name_tracking(rows: &[DropRow], traced: &mut [DropRow]) {
    for row in traced.iter_mut().filter(|row| row.reason == "NETFILTER_DROP") {
        let of_space =
            |counter: &&DropRow| TRACKING.contains(&counter.reason.as_str()) && counter.netns_inode == row.netns_inode;
        let told: Vec<String> =
            rows.iter().filter(of_space).map(|counter| format!("{} {}", counter.reason, counter.drops)).collect();
        if !told.is_empty() {
            row.cause = Some(format!("among these of connection tracking: {}", told.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::drops::Socket;

    /// No counter of the kernel shows the losses of a raw socket, and eBPF does not see them; the socket's own count
    /// does, even with a filter.
    #[test]
    fn a_full_raw_socket_has_a_row() {
        let look = |drops: u32| {
            let socket = Socket { protocol: 1, address: [0, 0, 0, 0].into(), port: 0, inode: 7, process: None };
            let raw = vec![Receiver { socket, kind: Kind::Raw, drops }];
            let counted = Counted { counters: Counters::default(), receivers: Arc::default(), raw };
            Look { spaces: BTreeMap::from([(1, counted)]), ..Look::default() }
        };
        let rows = look(5).rows_until(&look(99), true);
        for filtered in [false, true] {
            let told = unseen(rows.clone(), &[], filtered);
            assert_eq!((told.len(), told[0].drops, told[0].reason.as_str()), (1, 94, RAW));
            assert_eq!(told[0].socket.as_ref().map(|socket| socket.inode), Some(7));
        }
        assert!(look(5).rows_until(&look(5), true).is_empty());
    }

    #[test]
    fn what_ebpf_has_seen_is_not_counted_again() {
        let row = |reason: &str, drops: u64, space: u64| DropRow {
            reason: reason.into(),
            drops,
            netns_inode: Some(space),
            ..DropRow::default()
        };
        let counters = vec![
            row("Udp RcvbufErrors", 100, 1),
            row("TcpExt ListenOverflows", 50, 1),
            row("Ip InHdrErrors", 9, 1),
            row("Ip OutNoRoutes", 5, 2),
        ];
        let traced = [row("SOCKET_RCVBUFF", 100, 1), row("TCP_LISTEN_OVERFLOW", 20, 1), row("IP_OUTNOROUTES", 5, 1)];
        let told: Vec<(String, u64)> =
            unseen(counters.clone(), &traced, false).into_iter().map(|row| (row.reason, row.drops)).collect();
        assert_eq!(told, [("TcpExt ListenOverflows".to_owned(), 30), ("Ip OutNoRoutes".to_owned(), 5)]);
        let filtered = unseen(counters, &[], true);
        assert_eq!(filtered.len(), 2, "{filtered:?}");
    }
}
