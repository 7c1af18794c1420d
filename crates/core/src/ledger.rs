//! [`Ledger`]: accounting of the packets of a trial.
//!
//! sent = delivered + dropped by place and reason + still inside + unexplained. `unexplained` is the rest, so that the
//! sum always holds. It is 0 if every packet is accounted for, and negative if packets were counted twice or belonged
//! to other traffic.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a packet was dropped, in the order of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The sending program or its socket.
    Sender,
    /// A queueing discipline, or a tc filter.
    Qdisc,
    /// A device, its ring or its driver.
    Nic,
    /// An XDP program.
    Xdp,
    /// The backlog of a CPU.
    Backlog,
    /// netfilter or connection tracking.
    Netfilter,
    /// IP: header, route, TTL or neighbour.
    Ip,
    /// UDP or TCP: checksum, or no socket.
    Transport,
    /// The receiving socket.
    Socket,
    /// Another kernel function.
    Kernel,
}

impl Place {
    /// Returns the place of a drop by the kernel's drop `reason` (without `SKB_DROP_REASON_`) or, if the reason does
    /// not determine the place, by the kernel `function` that dropped the packet (`ip_rcv_core`).
    pub fn of(reason: &str, function: &str) -> Place {
        let begins = |word: &str, with: &[&str]| with.iter().any(|prefix| word.starts_with(prefix));
        match reason {
            "CPU_BACKLOG" => return Place::Backlog,
            "XDP" => return Place::Xdp,
            "NETFILTER_DROP" => return Place::Netfilter,
            "NO_SOCKET" | "UDP_CSUM" | "TCP_CSUM" => return Place::Transport,
            "PROTO_MEM" | "SKB_UCOPY_FAULT" => return Place::Socket,
            _ => {}
        }
        if begins(reason, &["QDISC", "TC_", "FQ_", "CAKE", "DUALPI2"]) {
            Place::Qdisc
        } else if begins(reason, &["SOCKET_", "PACKET_SOCK", "UNIX_"]) {
            Place::Socket
        } else if begins(
            reason,
            &["IP_", "ICMP", "NEIGH", "UNICAST_IN", "PKT_TOO_BIG", "IPV6", "FRAG_", "ARP_", "DUP_FRAG"],
        ) {
            Place::Ip
        } else if begins(reason, &["TCP_", "UDP_"]) {
            Place::Transport
        } else if begins(reason, &["DEV_", "FULL_RING", "TAP_", "HDR_TRUNC", "MAC_", "VLAN_", "BRIDGE", "VXLAN"]) {
            Place::Nic
        } else if begins(function, &["veth_xdp", "do_xdp_generic", "bpf_prog_run_generic_xdp", "xdp_"]) {
            Place::Xdp
        } else if begins(function, &["enqueue_to_backlog", "netif_rx", "flush_backlog"]) {
            Place::Backlog
        } else if begins(function, &["veth_", "virtnet", "start_xmit", "tun_"]) {
            Place::Nic
        } else if begins(function, &["nf_", "nft_", "ipt_", "br_nf"]) {
            Place::Netfilter
        } else if begins(
            function,
            &["__dev_queue_xmit", "__dev_xmit_skb", "sch_", "qdisc", "tcf_", "pfifo", "fq_", "tbf_"],
        ) {
            Place::Qdisc
        } else if begins(function, &["ip_", "ip6_", "ipv6_", "icmp", "arp_", "neigh_", "__neigh", "__ip"]) {
            Place::Ip
        } else if begins(function, &["udp", "__udp", "tcp", "__tcp"]) {
            Place::Transport
        } else if begins(function, &["sock_", "__sk", "sk_", "skb_queue_purge", "inet_sock_destruct"]) {
            Place::Socket
        } else {
            Place::Kernel
        }
    }

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Place::Sender => "sender",
            Place::Qdisc => "qdisc",
            Place::Nic => "NIC",
            Place::Xdp => "XDP",
            Place::Backlog => "backlog",
            Place::Netfilter => "netfilter",
            Place::Ip => "IP",
            Place::Transport => "transport",
            Place::Socket => "socket",
            Place::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Packets dropped at one place for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LedgerRow {
    /// Where they were dropped.
    pub place: Place,
    /// The kernel's name of the reason, or the meaning of the counter.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
    /// Source of the count: a kernel function, or the name of a counter.
    pub source: String,
}

/// Accounting of the packets of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// Packets that the sender offered.
    pub sent: u64,
    /// Packets that the receiving program read.
    pub delivered: u64,
    /// Packets that were dropped, by place and reason, in the order of the path.
    pub dropped: Vec<LedgerRow>,
    /// Packets that were in a queue when the trial ended.
    pub inside: u64,
    /// Rest of the sum: 0 if every packet is accounted for, negative if more packets were counted than sent.
    pub unexplained: i64,
    /// Counters that increased during the trial. They count the same drops again, and drops of other traffic, and are
    /// not part of the sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<LedgerRow>,
    /// How the drops were counted, in words.
    pub method: String,
    /// CPU time that counting one drop took on this host (ns), mean of every 17th drop, without the call of the eBPF
    /// program; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing_ns: Option<u64>,
    /// Limits of the ledger, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// [`LedgerRow::reason`] of drops that the kernel counted without running the tracer's eBPF program for them.
pub const NOT_SHOWN: &str = "not shown to the tracer";

/// Offered load of a trial, and its ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialLedger {
    /// Offered load (pps).
    pub load_pps: f64,
    /// Accounting of the trial's packets. In JSON the keys of `Ledger` are next to `load_pps`.
    #[serde(flatten)]
    pub ledger: Ledger,
}

impl Ledger {
    /// Makes a ledger from `rows`. Packets that were neither delivered nor dropped nor inside a queue count as
    /// unexplained. Rows with equal place, reason and source are merged; rows of 0 packets are left out.
    pub fn balance(sent: u64, delivered: u64, inside: u64, rows: impl IntoIterator<Item = LedgerRow>) -> Ledger {
        let dropped = together(rows);
        let known: u64 = delivered + inside + dropped.iter().map(|row| row.packets).sum::<u64>();
        Ledger { sent, delivered, dropped, inside, unexplained: sent as i64 - known as i64, ..Ledger::default() }
    }

    /// Accounts for `drops`: drops that the kernel counted on this host without running the tracer's eBPF program for
    /// them. A drop has up to `packets_each` packets (segments of a large packet). If the drops suffice for all
    /// unexplained packets, these become a row [`NOT_SHOWN`]; otherwise they stay unexplained. A sentence in `limits`
    /// says which.
    #[must_use]
    pub fn with_not_shown(mut self, drops: u64, packets_each: u64, source: &str) -> Ledger {
        let unexplained = u64::try_from(self.unexplained).unwrap_or(0);
        if drops == 0 || unexplained == 0 {
            return self;
        }
        let mut limit = format!(
            "the kernel counted {drops} drops on this host without running the tracer's program for them, so that where and why is not known: "
        );
        if drops.saturating_mul(packets_each) >= unexplained {
            self.unexplained = 0;
            let row = LedgerRow {
                place: Place::Kernel,
                reason: NOT_SHOWN.to_owned(),
                packets: unexplained,
                source: source.to_owned(),
            };
            self.dropped = together(self.dropped.into_iter().chain([row]));
            limit += &format!("{unexplained} packets are taken to be the trial's, since they complete its sum");
        } else {
            limit += "they may be among the unexplained";
        }
        self.limits.push(limit);
        self
    }

    /// Number of dropped packets with the reason [`NOT_SHOWN`].
    pub fn not_shown_packets(&self) -> u64 {
        self.dropped.iter().filter(|row| row.reason == NOT_SHOWN).map(|row| row.packets).sum()
    }

    /// Number of dropped packets.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().map(|row| row.packets).sum()
    }

    /// Returns the sum of two ledgers, with the `method` of `self` and the larger `tracing_ns`.
    #[must_use]
    pub fn and(self, other: Ledger) -> Ledger {
        let rows = self.dropped.into_iter().chain(other.dropped);
        let sum =
            Ledger::balance(self.sent + other.sent, self.delivered + other.delivered, self.inside + other.inside, rows);
        let mut limits = self.limits;
        limits.extend(other.limits.into_iter().filter(|limit| !limits.contains(limit)).collect::<Vec<_>>());
        Ledger {
            counters: together(self.counters.into_iter().chain(other.counters)),
            method: self.method,
            tracing_ns: self.tracing_ns.max(other.tracing_ns),
            limits,
            ..sum
        }
    }
}

fn together(rows: impl IntoIterator<Item = LedgerRow>) -> Vec<LedgerRow> {
    let mut all: Vec<LedgerRow> = Vec::new();
    for row in rows.into_iter().filter(|row| row.packets > 0) {
        let same = |known: &&mut LedgerRow| {
            (known.place, &known.reason, &known.source) == (row.place, &row.reason, &row.source)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.packets += row.packets,
            None => all.push(row),
        }
    }
    all.sort_by(|a, b| a.place.cmp(&b.place).then(b.packets.cmp(&a.packets)).then_with(|| a.reason.cmp(&b.reason)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: [Place; 4] = [Place::Sender, Place::Backlog, Place::Ip, Place::Socket];

    fn rows() -> impl Strategy<Value = Vec<LedgerRow>> {
        let row = (0..4usize, 0..3u8, 0..1000u64).prop_map(|(place, reason, packets)| LedgerRow {
            place: PLACES[place],
            reason: format!("R{reason}"),
            packets,
            source: "here".into(),
        });
        prop::collection::vec(row, 0..20)
    }

    fn ledgers() -> impl Strategy<Value = Ledger> {
        (0..20_000u64, 0..10_000u64, 0..100u64, rows())
            .prop_map(|(sent, delivered, inside, rows)| Ledger::balance(sent, delivered, inside, rows))
    }

    fn is_balanced(ledger: &Ledger) -> bool {
        let known = ledger.delivered + ledger.dropped_packets() + ledger.inside;
        ledger.sent as i64 == known as i64 + ledger.unexplained
    }

    proptest! {
        #[test]
        fn packets_are_conserved(sent in 0..20_000u64, delivered in 0..10_000u64, inside in 0..100u64, rows in rows()) {
            let total: u64 = rows.iter().map(|row| row.packets).sum();
            let ledger = Ledger::balance(sent, delivered, inside, rows);
            prop_assert!(is_balanced(&ledger));
            prop_assert_eq!(ledger.dropped_packets(), total, "putting rows together loses none");
            prop_assert!(ledger.dropped.iter().all(|row| row.packets > 0));
            prop_assert!(ledger.dropped.is_sorted_by_key(|row| row.place), "along the way");
        }

        #[test]
        fn ledgers_add_up(one in ledgers(), other in ledgers()) {
            let (unexplained, dropped) =
                (one.unexplained + other.unexplained, one.dropped_packets() + other.dropped_packets());
            let sum = one.and(other);
            prop_assert!(is_balanced(&sum));
            prop_assert_eq!((sum.unexplained, sum.dropped_packets()), (unexplained, dropped));
        }
    }

    #[test]
    fn drops_that_the_tracer_was_not_shown_complete_the_sum_or_are_only_named() {
        let short = || Ledger::balance(100, 90, 0, rows_of(&[("R", 6)]));
        for drops in [4, 9] {
            let ledger = short().with_not_shown(drops, 1, "perf");
            assert!(is_balanced(&ledger) && ledger.unexplained == 0, "{ledger:?}");
            assert!(ledger.dropped.iter().any(|row| row.reason == NOT_SHOWN && row.packets == 4), "{ledger:?}");
            assert_eq!(ledger.not_shown_packets(), 4);
            assert!(ledger.limits[0].contains(&format!("counted {drops} drops")), "{ledger:?}");
        }
        let too_few = short().with_not_shown(3, 1, "perf");
        assert_eq!((too_few.unexplained, too_few.dropped_packets()), (4, 6));
        assert!(too_few.limits[0].contains("may be among the unexplained"), "{too_few:?}");
        // Up to two segments per drop.
        let segments = short().with_not_shown(2, 2, "perf");
        assert_eq!((segments.unexplained, segments.not_shown_packets()), (0, 4));
        for whole in [short().with_not_shown(0, 1, "perf"), Ledger::balance(9, 9, 0, []).with_not_shown(5, 1, "perf")] {
            assert!(whole.limits.is_empty(), "{whole:?}");
        }
        assert_eq!(Ledger::balance(9, 10, 0, []).with_not_shown(5, 1, "perf").unexplained, -1);
    }

    fn rows_of(rows: &[(&str, u64)]) -> Vec<LedgerRow> {
        let row = |(reason, packets): &(&str, u64)| LedgerRow {
            place: Place::Ip,
            reason: (*reason).to_owned(),
            packets: *packets,
            source: "here".to_owned(),
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn places_of_reasons_and_of_functions() {
        for (reason, function, place) in [
            ("CPU_BACKLOG", "enqueue_to_backlog", Place::Backlog),
            ("SOCKET_RCVBUFF", "__udp_enqueue_schedule_skb", Place::Socket),
            ("UDP_CSUM", "__udp4_lib_rcv", Place::Transport),
            ("NETFILTER_DROP", "nf_hook_slow", Place::Netfilter),
            ("IP_INNOROUTES", "ip_rcv_finish", Place::Ip),
            ("QDISC_DROP", "__dev_queue_xmit", Place::Qdisc),
            ("XDP", "do_xdp_generic", Place::Xdp),
            ("NOT_SPECIFIED", "veth_xdp_rcv_skb", Place::Xdp),
            ("NOT_SPECIFIED", "ip_forward", Place::Ip),
            ("-", "netif_rx_internal", Place::Backlog),
            ("NOT_SPECIFIED", "mystery", Place::Kernel),
        ] {
            assert_eq!(Place::of(reason, function), place, "{reason} {function}");
        }
    }
}
