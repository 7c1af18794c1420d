//! Drops according to the kernel's counters: [`Counters`], for the calling thread's network namespace.
//!
//! The counters give places and some reasons, but no flow, process or stack, and mostly do not include what netfilter's
//! rules, tc's filters or TCP dropped; [`limits`] says so in the result. One packet may be in two counters, one of a
//! device and one of a protocol.

use super::{advice, symbols::Symbols};
use crate::{
    nic::ioctl,
    procfs::{self, by_cpu, titled, valued},
    rtnl::{RING_COUNTERS, Rtnl},
    softnet::softnet_stats,
};
use netcliff_core::drops::{DropRow, Drops, Method};
use netcliff_core::ledger::{LedgerRow, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Drop counters of protocols: (table, name, place). Sources of their meaning:
/// Documentation/networking/snmp_counter.rst, net/ipv4/proc.c, net/ipv6/proc.c.
const PROTOCOLS: &[(&str, &str, Place)] = &[
    ("Ip", "InHdrErrors", Place::Ip),
    ("Ip", "InAddrErrors", Place::Ip),
    ("Ip", "InUnknownProtos", Place::Ip),
    ("Ip", "InDiscards", Place::Ip),
    ("Ip", "OutDiscards", Place::Ip),
    ("Ip", "OutNoRoutes", Place::Ip),
    ("Ip", "ReasmFails", Place::Ip),
    ("Ip", "FragFails", Place::Ip),
    ("IpExt", "InNoRoutes", Place::Ip),
    ("IpExt", "InTruncatedPkts", Place::Ip),
    ("IpExt", "InCsumErrors", Place::Ip),
    ("Icmp", "InErrors", Place::Ip),
    ("Udp", "NoPorts", Place::Transport),
    ("Udp", "InCsumErrors", Place::Transport),
    ("Udp", "RcvbufErrors", Place::Socket),
    ("Udp", "MemErrors", Place::Socket),
    ("Udp", "SndbufErrors", Place::Sender),
    ("Tcp", "InErrs", Place::Transport),
    ("Tcp", "InCsumErrors", Place::Transport),
    ("TcpExt", "ListenOverflows", Place::Transport),
    ("TcpExt", "ListenDrops", Place::Transport),
    ("TcpExt", "TCPReqQFullDrop", Place::Transport),
    ("TcpExt", "TCPBacklogDrop", Place::Socket),
    ("TcpExt", "TCPRcvQDrop", Place::Socket),
    ("TcpExt", "TCPZeroWindowDrop", Place::Socket),
    ("TcpExt", "RcvPruned", Place::Socket),
    ("TcpExt", "TCPOFODrop", Place::Socket),
    ("TcpExt", "TCPMinTTLDrop", Place::Transport),
    ("TcpExt", "PFMemallocDrop", Place::Socket),
    ("TcpExt", "IPReversePathFilter", Place::Ip),
];

/// Drop counters of IPv6, whose names include the table.
const PROTOCOLS6: &[(&str, Place)] = &[
    ("Ip6InHdrErrors", Place::Ip),
    ("Ip6InTooBigErrors", Place::Ip),
    ("Ip6InNoRoutes", Place::Ip),
    ("Ip6InAddrErrors", Place::Ip),
    ("Ip6InUnknownProtos", Place::Ip),
    ("Ip6InTruncatedPkts", Place::Ip),
    ("Ip6InDiscards", Place::Ip),
    ("Ip6OutDiscards", Place::Ip),
    ("Ip6OutNoRoutes", Place::Ip),
    ("Udp6NoPorts", Place::Transport),
    ("Udp6InCsumErrors", Place::Transport),
    ("Udp6RcvbufErrors", Place::Socket),
    ("Udp6MemErrors", Place::Socket),
    ("Udp6SndbufErrors", Place::Sender),
];

/// Columns of /proc/net/stat/nf_conntrack (net/netfilter/nf_conntrack_standalone.c) that count dropped packets.
const CONNTRACK: &[&str] = &["drop", "early_drop", "insert_failed"];

/// Echo requests that were received but not answered.
pub(super) const NO_ANSWER: &str = "Icmp echo without an answer";
pub(super) const NO_ANSWER6: &str = "Icmp6 echo without an answer";
/// Places before a device's tap (AF_PACKET), where a tester's sink takes packets: drops after the tap concern only the
/// kernel's copy of a packet.
pub(super) const BEFORE_TAP: &[Place] = &[Place::Sender, Place::Qdisc, Place::Nic, Place::Xdp, Place::Backlog];

/// What a counter counts, and its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    place: Place,
    /// Name of the counter: `Udp RcvbufErrors`, `rx_missed_errors`.
    reason: String,
    /// Where it was read: `/proc/net/snmp`, `eth0`.
    source: String,
}

/// All drop counters at one time.
#[derive(Debug, Clone)]
pub struct Counters {
    at: Instant,
    values: BTreeMap<Name, u64>,
    /// Virtual devices.
    made: BTreeSet<String>,
    /// (echo requests received, answers sent), for IPv4 and IPv6.
    echoes: [(u64, u64); 2],
}

impl Default for Counters {
    fn default() -> Self {
        Self { at: Instant::now(), values: BTreeMap::new(), made: BTreeSet::new(), echoes: [(0, 0); 2] }
    }
}

impl Counters {
    /// Reads the counters; those that the kernel does not have are left out.
    pub fn now() -> Counters {
        let mut counters = Counters::default();
        let root = "/proc/thread-self/net";
        let [snmp, snmp6] = [format!("{root}/snmp"), format!("{root}/snmp6")];
        counters.version4(&procfs::whole(&snmp), "/proc/net/snmp");
        counters.version4(&procfs::whole(format!("{root}/netstat")), "/proc/net/netstat");
        counters.version6(&procfs::whole(&snmp6));
        counters.echoes = echoes(&snmp, &snmp6);
        counters.conntrack(&procfs::whole(format!("{root}/stat/nf_conntrack")));
        for cpu in softnet_stats().unwrap_or_default() {
            counters.add(Place::Backlog, "softnet dropped", "/proc/net/softnet_stat", cpu.dropped.into());
            counters.add(Place::Backlog, "softnet flow_limit", "/proc/net/softnet_stat", cpu.flow_limit.into());
        }
        counters.devices();
        counters
    }

    /// Returns only the counters of losses before a device's tap. A tester's sink takes packets at the tap, so it
    /// already has the packets that the kernel's protocols drop afterwards.
    #[must_use]
    pub fn up_to_tap(mut self) -> Counters {
        self.values.retain(|name, _| BEFORE_TAP.contains(&name.place));
        self
    }

    fn add(&mut self, place: Place, reason: &str, source: &str, value: u64) {
        let name = Name { place, reason: reason.to_owned(), source: source.to_owned() };
        *self.values.entry(name).or_default() += value;
    }

    fn version4(&mut self, text: &str, source: &str) {
        for (table, name, place) in PROTOCOLS {
            if let Some(value) = titled(text, &format!("{table}:"), name) {
                self.add(*place, &format!("{table} {name}"), source, value);
            }
        }
    }

    fn version6(&mut self, text: &str) {
        for (name, place) in PROTOCOLS6 {
            if let Some(value) = valued(text, name) {
                self.add(*place, name, "/proc/net/snmp6", value);
            }
        }
    }

    fn conntrack(&mut self, text: &str) {
        for (name, value) in by_cpu(text).filter(|(name, _)| CONNTRACK.contains(name)) {
            self.add(Place::Netfilter, &format!("conntrack {name}"), "/proc/net/stat/nf_conntrack", value);
        }
    }

    /// Reads rtnetlink's counters of each device and its qdiscs, and the drivers' own counters.
    fn devices(&mut self) {
        let mut netlink = Rtnl::new();
        for link in netlink.links().unwrap_or_default() {
            let name = link.name.as_str();
            if link.kind.is_some() || name == "lo" {
                self.made.insert(name.to_owned());
            }
            if let Some(stats) = link.stats {
                for (reason, value) in [
                    ("rx_dropped", stats.rx_dropped),
                    ("rx_missed_errors", stats.rx_missed_errors),
                    ("rx_fifo_errors", stats.rx_fifo_errors),
                    ("rx_over_errors", stats.rx_over_errors),
                    ("rx_crc_errors", stats.rx_crc_errors),
                    ("rx_nohandler", stats.rx_nohandler),
                    ("tx_dropped", stats.tx_dropped),
                    ("tx_errors", stats.tx_errors),
                    ("tx_fifo_errors", stats.tx_fifo_errors),
                ] {
                    self.add(Place::Nic, reason, name, value);
                }
            }
            for (kind, drops) in netlink.qdisc_drops(link.index).unwrap_or_default() {
                self.add(Place::Qdisc, "qdisc drops", &format!("{name} {kind}"), drops);
            }
            let (names, values) = ioctl::counters(name).unwrap_or_default();
            for (counter, value) in names.iter().zip(values).filter(|(counter, _)| is_of_drops(counter)) {
                let place = if counter.contains("xdp") { Place::Xdp } else { Place::Nic };
                let reason = if place == Place::Xdp { "XDP drops" } else { counter };
                self.add(place, reason, &format!("{name} {counter}"), value);
            }
        }
    }

    /// Counters that increased until a later reading, as rows; a counter that decreased, or did not exist before, is
    /// left out.
    pub fn until(&self, later: &Counters) -> Vec<LedgerRow> {
        let grown = later.values.iter().filter_map(|(name, now)| {
            let packets = now.saturating_sub(*self.values.get(name)?);
            let Name { place, reason, source } = name.clone();
            (packets > 0).then_some(LedgerRow { place, reason, packets, source })
        });
        grown.chain(self.unanswered(later)).collect()
    }

    /// Sum of the counters of losses at sockets. While the sum does not change, no socket lost a packet that these
    /// counters count.
    pub(super) fn at_sockets(&self) -> u64 {
        let of = |name: &Name| {
            name.reason.starts_with("TcpExt Listen")
                || ["TcpExt TCPReqQFullDrop", "Udp RcvbufErrors", "Udp6RcvbufErrors"].contains(&name.reason.as_str())
        };
        self.values.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum()
    }

    /// True for a virtual device: the kernel frees the packets that it drops at skb:kfree_skb, where eBPF sees them.
    pub(super) fn is_made(&self, device: &str) -> bool {
        self.made.contains(device)
    }

    /// Echo requests without an answer: if the answer has no route, the kernel counts nothing else.
    fn unanswered(&self, later: &Counters) -> Vec<LedgerRow> {
        let names = [(NO_ANSWER, "/proc/net/snmp"), (NO_ANSWER6, "/proc/net/snmp6")];
        let mut rows = Vec::new();
        for ((before, after), (reason, source)) in self.echoes.iter().zip(&later.echoes).zip(names) {
            let came = after.0.saturating_sub(before.0);
            let packets = came.saturating_sub(after.1.saturating_sub(before.1));
            // The two counters are not read at exactly the same time, so in a flood of requests up to 0.1 % is ignored.
            if packets > came / 1000 {
                let (reason, source) = (reason.to_owned(), source.to_owned());
                rows.push(LedgerRow { place: Place::Ip, reason, packets, source });
            }
        }
        rows
    }

    /// The increases as they are shown by `netcliff drops`.
    pub fn drops(&self, later: &Counters, why: Option<&str>) -> Drops {
        let row = |row: LedgerRow| DropRow {
            reason: row.reason,
            place: row.source,
            drops: row.packets,
            ..DropRow::default()
        };
        let mut drops = Drops {
            seconds: later.at.duration_since(self.at).as_secs_f64(),
            method: Method::Counters,
            sampling_factor: 1.0,
            rows: once(self.until(later)).into_iter().map(row).collect(),
            limits: why.map(str::to_owned).into_iter().chain([limits()]).collect(),
            ..Drops::default()
        };
        drops.settle();
        drops.advice = advice(&drops.rows);
        drops
    }
}

/// Counts each loss once: subtracts from a counter the losses that another counter counts, too; of several counters of
/// one loss at a device, uses the largest.
pub(super) fn once(rows: Vec<LedgerRow>) -> Vec<LedgerRow> {
    let of = |reason: &str| rows.iter().filter(|row| row.reason == reason).map(|row| row.packets).sum::<u64>();
    // net/ipv4/tcp_input.c, tcp_conn_request: each of these losses is also a ListenDrop. net/core/dev.c,
    // enqueue_to_backlog: each packet over the flow limit also counts as dropped.
    let parts = |reason: &str| match reason {
        "TcpExt ListenDrops" => of("TcpExt ListenOverflows") + of("TcpExt TCPReqQFullDrop"),
        "softnet flow_limit" => of("softnet dropped"),
        "Tcp InErrs" => of("Tcp InCsumErrors"),
        _ => 0,
    };
    let ring = |row: &LedgerRow| {
        let driver = ["missed", "no_buf", "nobuf", "no_dma", "overrun", "out_of_buffer", "fifo"];
        row.place == Place::Nic
            && (RING_COUNTERS.contains(&row.reason.as_str()) || driver.iter().any(|part| row.reason.contains(part)))
    };
    let device = |row: &LedgerRow| row.source.split(' ').next().unwrap_or_default().to_owned();
    let mut kept: Vec<LedgerRow> = Vec::new();
    for row in &rows {
        let packets = row.packets.saturating_sub(parts(&row.reason));
        // Drivers count one loss at the ring, or in an XDP program, by several names: the largest counts.
        let same = |known: &&mut LedgerRow| {
            device(known) == device(row)
                && (ring(known) && ring(row) || known.place == Place::Xdp && row.place == Place::Xdp)
        };
        match kept.iter_mut().find(same) {
            Some(known) if known.packets >= packets => {}
            Some(known) => *known = row.clone(),
            None if packets > 0 => kept.push(LedgerRow { packets, ..row.clone() }),
            None => {}
        }
    }
    kept
}

/// What counters cannot show, as a sentence.
pub fn limits() -> String {
    "counters tell neither flow nor process nor function, and not what rules of netfilter, filters of tc and most of TCP drop; one packet \
     may be in a device's and in a protocol's; the backlog's are of the whole host"
        .to_owned()
}

/// Returns (echo requests, answers) of IPv4 and of IPv6; reads them again if an answer was under way.
fn echoes(snmp: &str, snmp6: &str) -> [(u64, u64); 2] {
    /// Most attempts: the kernel answers a request within the softirq that received it, so a few suffice.
    const TRIES: u32 = 5;
    let read = || {
        let (text, text6) = (procfs::whole(snmp), procfs::whole(snmp6));
        let of = |name: &str| titled(&text, "Icmp:", name).unwrap_or(0);
        let of6 = |name: &str| valued(&text6, name).unwrap_or(0);
        [(of("InEchos"), of("OutEchoReps")), (of6("Icmp6InEchos"), of6("Icmp6OutEchoReplies"))]
    };
    let mut last = read();
    for _ in 0..TRIES {
        let next = read();
        if next == last {
            break;
        }
        last = next;
    }
    last
}

/// True if a driver's counter counts lost packets, judging by its name.
fn is_of_drops(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let lost = ["drop", "discard", "missed", "no_buf", "nobuf", "no_dma", "overrun", "out_of_buffer"]
        .iter()
        .any(|part| name.contains(part));
    lost && !["packets_dropped_ok", "byte"].iter().any(|part| name.contains(part))
}

/// The kernel's symbols; if they are not readable the reason is in the result's limits.
pub fn symbols() -> Symbols {
    Symbols::read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(place: Place, reason: &str, packets: u64, source: &str) -> LedgerRow {
        LedgerRow { place, reason: reason.into(), packets, source: source.into() }
    }

    #[test]
    fn one_loss_has_one_name() {
        let rows = once(vec![
            counter(Place::Transport, "TcpExt ListenOverflows", 860, "/proc/net/netstat"),
            counter(Place::Transport, "TcpExt ListenDrops", 870, "/proc/net/netstat"),
            counter(Place::Transport, "TcpExt TCPReqQFullDrop", 10, "/proc/net/netstat"),
            counter(Place::Nic, "rx_missed_errors", 50, "eth0"),
            counter(Place::Nic, "rx_no_buffer_count", 49, "eth0 rx_no_buffer_count"),
            counter(Place::Nic, "rx_fifo_errors", 50, "eth0"),
            counter(Place::Nic, "rx_fifo_errors", 7, "eth1"),
            counter(Place::Backlog, "softnet dropped", 30, "/proc/net/softnet_stat"),
            counter(Place::Backlog, "softnet flow_limit", 30, "/proc/net/softnet_stat"),
        ]);
        let told: Vec<(&str, u64)> = rows.iter().map(|row| (row.reason.as_str(), row.packets)).collect();
        assert_eq!(
            told,
            [
                ("TcpExt ListenOverflows", 860),
                ("TcpExt TCPReqQFullDrop", 10),
                ("rx_missed_errors", 50),
                ("rx_fifo_errors", 7),
                ("softnet dropped", 30)
            ]
        );
    }
}
