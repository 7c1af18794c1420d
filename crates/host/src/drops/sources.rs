//! Drops that eBPF does not see, from counters: [`Look`] reads the counters in each network namespace, and
//! [`Subtraction`] returns the drops that are in no row of eBPF.
//!
//! In these cases no packet is freed at skb:kfree_skb: a full accept queue, a full NIC ring, an XDP program in the
//! driver, an answer without a route. Sources: net/ipv4/tcp_input.c (tcp_conn_request), net/ipv4/icmp.c (icmp_reply),
//! net/ipv4/udp.c (udp_sendmsg).

use super::counters::{Counters, NO_ANSWER, NO_ANSWER6, once};
use super::function_of;
use crate::{
    sockets::{self, Kind, Receiver},
    spaces::{MOST_SPACES, Spaces, inside},
};
use netcliff_core::drops::{DropRow, Method};
use netcliff_core::ledger::{LedgerRow, Place};
use std::{collections::BTreeMap, sync::Arc};

/// Counters that may be in no row of eBPF, with the reasons by which eBPF would see their drops, and the first words of
/// the functions that drop them: kernels that give no reason show only these.
const UNSEEN: &[(&str, &[&str], &[&str])] = &[
    ("TcpExt ListenOverflows", &["TCP_LISTEN_OVERFLOW"], &[]),
    ("TcpExt TCPReqQFullDrop", &[], &[]),
    ("TcpExt ListenDrops", &[], &[]),
    ("Ip OutNoRoutes", &["IP_OUTNOROUTES"], &[]),
    ("Ip6OutNoRoutes", &["IP_OUTNOROUTES"], &[]),
    (NO_ANSWER, &[], &[]),
    (NO_ANSWER6, &[], &[]),
    ("softnet dropped", &["CPU_BACKLOG"], &["enqueue_to_backlog", "netif_rx"]),
    ("Udp RcvbufErrors", &["SOCKET_RCVBUFF"], UDP_QUEUES),
    ("Udp6RcvbufErrors", &["SOCKET_RCVBUFF"], UDP_QUEUES),
    ("Udp MemErrors", &["PROTO_MEM"], UDP_QUEUES),
    ("Udp6MemErrors", &["PROTO_MEM"], UDP_QUEUES),
    ("XDP drops", &["XDP"], &["veth_xdp", "do_xdp_generic", "bpf_prog_run_generic_xdp"]),
    (RAW, &["SOCKET_RCVBUFF"], &["raw_rcv", "rawv6_rcv"]),
];
/// First words of the functions that drop datagrams at a full socket. Sources: net/ipv4/udp.c, net/ipv6/udp.c.
const UDP_QUEUES: &[&str] = &["udp_queue_rcv", "__udp_queue_rcv", "udpv6_queue_rcv", "__udpv6_queue_rcv"];
/// Reasons of drops for which the kernel gives none: before Linux 5.17, and later at places without one.
const NO_REASON: [&str; 2] = ["-", "NOT_SPECIFIED"];
/// Name of the row for packet copies that were lost because a raw socket's receive buffer was full. Since Linux 6.10 most
/// of them are never made, so that eBPF does not see them; before, it sees all of them.
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
    /// Number of namespaces beyond [`MOST_SPACES`], which were not read.
    left_out: usize,
    /// Number of namespaces that could not be entered.
    refused: usize,
    /// Why the first of these could not be entered.
    refusal: Option<String>,
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
                Err(error) => {
                    look.refused += 1;
                    look.refusal.get_or_insert_with(|| error.to_string());
                }
            }
        }
        look
    }

    /// What limits the counters, one sentence each. `traced`: eBPF sees the drops of all namespaces.
    pub fn limits(&self, traced: bool) -> Vec<String> {
        let missing =
            if traced { "losses that only counters show are missing there" } else { "losses there are missing" };
        let spaces = |count: usize| match count {
            1 => "1 network namespace".to_owned(),
            count => format!("{count} network namespaces"),
        };
        let left_out = (self.left_out > 0).then(|| {
            format!(
                "counters of {} were not read, because netcliff reads {MOST_SPACES} at most; {missing}; `--netns NAME` reads one",
                spaces(self.left_out)
            )
        });
        let refused = self
            .refusal
            .as_ref()
            .map(|error| format!("counters of {} could not be read: {error}; {missing}", spaces(self.refused)));
        let ended =
            (!self.ended.is_empty()).then(|| format!("no longer there: network namespace {}", self.ended.join(", ")));
        left_out.into_iter().chain(refused).chain(ended).collect()
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

/// Subtracts the drops that eBPF traced from counters, interval after interval.
///
/// Counters are read before the tracer, so that a traced drop may only be counted in the next interval. What was traced
/// but not counted is therefore subtracted in the next interval.
#[derive(Debug, Default)]
pub struct Subtraction {
    /// Drops that were traced but not counted yet, by reason and namespace.
    ahead: BTreeMap<(&'static str, Option<u64>), u64>,
}

/// A counter of [`UNSEEN`].
type Known = (&'static str, &'static [&'static str], &'static [&'static str]);

fn known(row: &DropRow) -> Option<&'static Known> {
    UNSEEN.iter().find(|(reason, ..)| *reason == row.reason)
}

/// Whether eBPF shows drops that this counter counts as `traced`.
fn is_seen_as((_, reasons, functions): &Known, traced: &DropRow) -> bool {
    let function = function_of(&traced.place);
    reasons.contains(&traced.reason.as_str())
        || NO_REASON.contains(&traced.reason.as_str()) && functions.iter().any(|known| function.starts_with(known))
}

fn is_in(space: Option<u64>, other: Option<u64>) -> bool {
    space.is_none() || other.is_none() || space == other
}

fn is_of_socket(row: &DropRow, traced: &DropRow) -> bool {
    let inode = |row: &DropRow| row.socket.as_ref().map(|socket| socket.inode).filter(|inode| *inode != 0);
    inode(row).is_some_and(|own| inode(traced) == Some(own))
}

/// Moves as much as possible of `from` out of both.
fn take(from: &mut u64, of: &mut u64) {
    let both = (*from).min(*of);
    (*from, *of) = (*from - both, *of - both);
}

impl Subtraction {
    /// Returns the rows of counters of an interval minus the drops that eBPF traced: each traced drop is subtracted once.
    /// `filtered`: eBPF counted only some packets, so that nothing can be subtracted.
    pub fn unseen(&mut self, counted: Vec<DropRow>, traced: &[DropRow], filtered: bool) -> Vec<DropRow> {
        if filtered {
            return counted.into_iter().filter(is_never_filtered).collect();
        }
        let whole: Vec<u64> = counted.iter().map(|row| row.drops).collect();
        let mut rows = counted;
        let mut left: Vec<u64> = traced.iter().map(|row| row.drops).collect();
        let mut subtract = |row: &mut DropRow, is_of: &dyn Fn(&DropRow, &DropRow) -> bool| {
            let Some(known) = known(row) else { return };
            for (other, left) in traced.iter().zip(&mut left) {
                if is_seen_as(known, other) && is_in(row.netns_inode, other.netns_inode) && is_of(row, other) {
                    take(&mut row.drops, left);
                }
            }
        };
        // First the drops of a socket from its own row. Then the others, as far as possible from rows without a socket.
        // A raw socket gets copies of packets, whose drops are those of this socket only.
        rows.iter_mut().for_each(|row| subtract(row, &is_of_socket));
        for has_socket in [false, true] {
            for row in rows.iter_mut().filter(|row| row.socket.is_some() == has_socket && row.reason != RAW) {
                subtract(row, &|_, _| true);
                for ((reason, space), ahead) in &mut self.ahead {
                    if known(row).is_some_and(|(_, reasons, _)| reasons.first() == Some(reason))
                        && is_in(row.netns_inode, *space)
                    {
                        take(&mut row.drops, ahead);
                    }
                }
            }
        }
        self.carry(traced, &left);
        let shown = rows.into_iter().zip(whole).filter_map(|(row, whole)| {
            let drops = match known(&row) {
                Some(_) => row.drops,
                None if !is_ring(&row) => return None,
                None if may_be_freed(&row) => row.drops.saturating_sub(at_device(&row, traced)),
                None => row.drops,
            };
            let is_skew = drops < whole && drops as f64 <= SKEW * whole as f64;
            (drops > 0 && !is_skew).then_some(DropRow { drops, ..row })
        });
        shown.collect()
    }

    /// Stores what was traced but not counted, for the next interval. Drops from before this interval are forgotten: at most
    /// those of this interval can be ahead of the counters. `left`: the drops of each traced row that were not
    /// subtracted.
    fn carry(&mut self, traced: &[DropRow], left: &[u64]) {
        let before = std::mem::take(&mut self.ahead);
        // Counters with a reason in common have one entry.
        for group in UNSEEN.iter().filter(|(counter, ..)| *counter != RAW) {
            let Some(reason) = group.1.first() else { continue };
            let mut all: BTreeMap<Option<u64>, (u64, u64)> = BTreeMap::new();
            for (row, left) in traced.iter().zip(left).filter(|(row, _)| is_seen_as(group, row)) {
                let sum = all.entry(row.netns_inode).or_default();
                (sum.0, sum.1) = (sum.0 + row.drops, sum.1 + left);
            }
            for (space, (drops, left)) in all {
                let earlier = before.get(&(*reason, space)).copied().unwrap_or(0);
                self.ahead.insert((*reason, space), drops.min(left + earlier));
            }
        }
    }
}

/// Whether a counter is shown next to a filter, too: eBPF may not see its drops, whatever the filter.
fn is_never_filtered(row: &DropRow) -> bool {
    match known(row) {
        Some((counter, reasons, _)) => {
            reasons.is_empty() || *counter == RAW || counter.starts_with("TcpExt") || counter.contains("NoRoutes")
        }
        None => is_ring(row) && !may_be_freed(row),
    }
}

/// Whether a counter counts losses in a device.
fn is_ring(row: &DropRow) -> bool {
    row.device.is_some() && row.reason != "qdisc drops"
}

/// Whether the packets that a device's counter counts may have been freed where eBPF sees it.
fn may_be_freed(row: &DropRow) -> bool {
    ["rx_dropped", "tx_dropped", "tx_errors", "rx_nohandler"].contains(&row.reason.as_str())
}

/// Traced drops at the device of a row.
fn at_device(row: &DropRow, traced: &[DropRow]) -> u64 {
    let here = |other: &&DropRow| other.device == row.device && other.netns_inode == row.netns_inode;
    traced.iter().filter(here).map(|row| row.drops).sum()
}

/// Adds to the rows of netfilter's drops the number of drops caused by connection tracking, according to its counters.
pub fn name_tracking(rows: &[DropRow], traced: &mut [DropRow]) {
    for row in traced.iter_mut().filter(|row| row.reason == "NETFILTER_DROP") {
        let of_space =
            |counter: &&DropRow| TRACKING.contains(&counter.reason.as_str()) && counter.netns_inode == row.netns_inode;
        let causes: Vec<String> =
            rows.iter().filter(of_space).map(|counter| format!("{} {}", counter.reason, counter.drops)).collect();
        if !causes.is_empty() {
            row.cause = Some(format!("among these of connection tracking: {}", causes.join(", ")));
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
            let left = Subtraction::default().unseen(rows.clone(), &[], filtered);
            assert_eq!((left.len(), left[0].drops, left[0].reason.as_str()), (1, 94, RAW));
            assert_eq!(left[0].socket.as_ref().map(|socket| socket.inode), Some(7));
        }
        assert!(look(5).rows_until(&look(5), true).is_empty());
    }

    fn row(reason: &str, drops: u64, space: u64) -> DropRow {
        DropRow { reason: reason.into(), drops, netns_inode: Some(space), ..DropRow::default() }
    }

    fn of_socket(inode: u64, row: DropRow) -> DropRow {
        let socket = Socket { protocol: 17, address: [0, 0, 0, 0].into(), port: 9000, inode, process: None };
        DropRow { socket: Some(socket), ..row }
    }

    /// What is shown of counters next to traced drops: (counter, drops).
    fn shown(subtraction: &mut Subtraction, counted: Vec<DropRow>, traced: &[DropRow]) -> Vec<(String, u64)> {
        subtraction.unseen(counted, traced, false).into_iter().map(|row| (row.reason, row.drops)).collect()
    }

    #[test]
    fn what_ebpf_has_seen_is_not_counted_again() {
        let counters = vec![
            row("Udp RcvbufErrors", 100, 1),
            row("TcpExt ListenOverflows", 50, 1),
            row("Ip InHdrErrors", 9, 1),
            row("Ip OutNoRoutes", 5, 2),
        ];
        let traced = [row("SOCKET_RCVBUFF", 100, 1), row("TCP_LISTEN_OVERFLOW", 20, 1), row("IP_OUTNOROUTES", 5, 1)];
        let left = shown(&mut Subtraction::default(), counters.clone(), &traced);
        assert_eq!(left, [("TcpExt ListenOverflows".to_owned(), 30), ("Ip OutNoRoutes".to_owned(), 5)]);
        let filtered = Subtraction::default().unseen(counters, &[], true);
        assert_eq!(filtered.len(), 2, "{filtered:?}");
    }

    /// A traced drop is subtracted once: from the row of its socket if it is known, and from one of several counters.
    #[test]
    fn a_traced_drop_is_subtracted_once() {
        let overflows = |inode, drops| of_socket(inode, row("TcpExt ListenOverflows", drops, 1));
        let traced = [of_socket(8, row("TCP_LISTEN_OVERFLOW", 20, 1)), row("TCP_LISTEN_OVERFLOW", 5, 1)];
        let left = Subtraction::default().unseen(vec![overflows(7, 30), overflows(8, 20)], &traced, false);
        let left: Vec<_> = left.iter().map(|row| (row.socket.as_ref().map(|socket| socket.inode), row.drops)).collect();
        assert_eq!(left, [(Some(7), 25)]);
        let routes = vec![row("Ip OutNoRoutes", 5, 1), row("Ip6OutNoRoutes", 7, 1)];
        let left = shown(&mut Subtraction::default(), routes, &[row("IP_OUTNOROUTES", 5, 1)]);
        assert_eq!(left.iter().map(|(_, drops)| drops).sum::<u64>(), 7, "{left:?}");
    }

    /// Kernels without reasons, and places without one: the function shows what the counter counts.
    #[test]
    fn a_traced_drop_without_a_reason_is_known_by_its_function() {
        for reason in NO_REASON {
            let at = |place: &str, drops| DropRow { place: place.to_owned(), ..row(reason, drops, 1) };
            let traced = [
                at("__udp_queue_rcv_skb+0x5b", 40),
                at("udpv6_queue_rcv_one_skb.part.0+0x8", 30),
                at("enqueue_to_backlog+0x3c", 20),
                at("raw_rcv+0x10", 6),
                at("tcp_v4_rcv+0x1", 9),
            ];
            let counted = vec![
                row("Udp RcvbufErrors", 40, 1),
                row("Udp6RcvbufErrors", 30, 1),
                DropRow { netns_inode: None, ..row("softnet dropped", 20, 1) },
                row("TcpExt ListenDrops", 9, 1),
            ];
            let left = shown(&mut Subtraction::default(), counted, &traced);
            assert_eq!(left, [("TcpExt ListenDrops".to_owned(), 9)], "{reason}");
        }
    }

    /// Before Linux 6.10 eBPF sees the losses of a raw socket.
    #[test]
    fn a_raw_sockets_losses_are_subtracted_for_this_socket_only() {
        let counted = || vec![of_socket(7, row(RAW, 94, 1)), row("Udp RcvbufErrors", 10, 1)];
        let traced = [of_socket(7, row("SOCKET_RCVBUFF", 94, 1)), of_socket(8, row("SOCKET_RCVBUFF", 10, 1))];
        assert_eq!(shown(&mut Subtraction::default(), counted(), &traced), []);
        let left = shown(&mut Subtraction::default(), counted(), &traced[1..]);
        assert_eq!(left, [(RAW.to_owned(), 94)], "eBPF saw only another socket's");
    }

    /// The tracer is read after the counters: what it is ahead by is subtracted once, and no later loss is hidden.
    #[test]
    fn a_drop_between_the_two_readings_is_shown_once() {
        let mut subtraction = Subtraction::default();
        let counted = |drops| if drops > 0 { vec![row("Udp RcvbufErrors", drops, 1)] } else { Vec::new() };
        let traced = |drops| [row("SOCKET_RCVBUFF", drops, 1)];
        for (interval, (counter, tracer)) in
            [(0, 1000), (1000, 0), (500, 700), (700, 600), (100, 0)].into_iter().enumerate()
        {
            assert_eq!(shown(&mut subtraction, counted(counter), &traced(tracer)), [], "interval {interval}");
        }
        assert_eq!(shown(&mut subtraction, counted(50), &[]), [("Udp RcvbufErrors".to_owned(), 50)]);
        // What was ahead an interval ago is no longer.
        assert_eq!(shown(&mut subtraction, counted(0), &traced(80)), []);
        assert_eq!(shown(&mut subtraction, counted(0), &[]), []);
        assert_eq!(shown(&mut subtraction, counted(80), &[]), [("Udp RcvbufErrors".to_owned(), 80)]);
    }
}
