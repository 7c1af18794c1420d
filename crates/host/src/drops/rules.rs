//! Meanings of the kernel's drop reasons, and remedies: [`advice`]. docs/how-to/drops.md lists them.
//!
//! Rules apply by the running kernel's names of reasons. A rule for a name that this kernel lacks never applies.

use crate::spaces::Spaces;
use netcliff_core::drops::{DropAdvice, DropRow};
use std::collections::BTreeSet;

/// Meaning and remedies of some reasons.
#[derive(Debug)]
pub struct Rule {
    /// Names of reasons without `SKB_DROP_REASON_`; for drops without a reason the name of a counter.
    pub reasons: &'static [&'static str],
    /// What happened.
    pub meaning: &'static str,
    /// Remedies, the most probable first.
    pub remedies: &'static [&'static str],
    /// Documentation of the meaning.
    pub source: &'static str,
}

/// All rules.
pub fn all() -> &'static [Rule] {
    RULES
}

/// Advice for the reasons of these rows, in their order and without repetition. Commands run in the network namespace
/// of the rows.
pub fn advice(rows: &[DropRow]) -> Vec<DropAdvice> {
    let mut found: Vec<(&Rule, Vec<String>, BTreeSet<&str>)> = Vec::new();
    for row in rows {
        // If the kernel gives no reason, the place may show it.
        let at = format!("NOT_SPECIFIED at {}", super::function_of(&row.place));
        let at = Some(at).filter(|_| matches!(row.reason.as_str(), "NOT_SPECIFIED" | "-"));
        let of = |name: &str| RULES.iter().find(|rule| rule.reasons.contains(&name));
        let by_place = at.as_deref().and_then(of).map(|rule| (rule, at.clone().unwrap_or_default()));
        let Some((rule, name)) = by_place.or_else(|| Some((of(&row.reason)?, row.reason.clone()))) else { continue };
        let known = found.iter().position(|(known, ..)| std::ptr::eq(*known, rule));
        let at = known.unwrap_or(found.len());
        if known.is_none() {
            found.push((rule, Vec::new(), BTreeSet::new()));
        }
        let (_, names, spaces) = &mut found[at];
        if !names.contains(&name) {
            names.push(name);
        }
        spaces.extend(row.netns.as_deref());
    }
    let advice_of = |(rule, names, spaces): &(&Rule, Vec<String>, BTreeSet<&str>)| {
        let place = |name: &String| rule.reasons.iter().position(|reason| reason == name);
        let mut names = names.clone();
        names.sort_by_key(place);
        DropAdvice {
            reason: names.join(", "),
            meaning: rule.meaning.to_owned(),
            remedies: rule.remedies.iter().map(|remedy| inside(remedy, spaces)).collect(),
            source: rule.source.to_owned(),
        }
    };
    found.iter().map(advice_of).collect()
}

/// Programs that show or set what each network namespace has of its own.
const OF_A_SPACE: &[&str] = &["ss", "ip", "tc", "nft", "nstat", "ethtool", "bpftool", "tcpdump", "tracepath", "sysctl"];
/// Settings that only the host's own network namespace has.
const OF_THE_HOST: &[&str] =
    &["net.core.netdev_max_backlog", "net.core.rmem_max", "net.ipv4.udp_mem", "net.ipv4.neigh.default.gc_thresh3"];

/// A remedy whose commands enter the network namespace of the drops, or that says so if there are several.
fn inside(remedy: &str, spaces: &BTreeSet<&str>) -> String {
    let is_command = |part: &str| {
        OF_A_SPACE.contains(&part.split(' ').next().unwrap_or_default())
            && !OF_THE_HOST.iter().any(|setting| part.contains(setting))
    };
    // Commands are in backquotes.
    let has_command = remedy.split('`').skip(1).step_by(2).any(is_command);
    if spaces.is_empty() || !has_command {
        return remedy.to_owned();
    }
    let entered = spaces.first().filter(|_| spaces.len() == 1).and_then(|space| entering(space));
    let Some(entered) = entered else { return format!("{remedy} (in the network namespace of the row)") };
    let part = |(at, part): (usize, &str)| {
        if at % 2 == 1 && is_command(part) { format!("{entered}{part}") } else { part.to_owned() }
    };
    remedy.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// The words before a command that run it in the network namespace of this name ([`DropRow::netns`]); empty for
/// netcliff's own. `None` if the name is neither one of `ip netns` nor a process.
pub(super) fn entering(netns: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match netns {
        "this" => return Some(String::new()),
        "host" if Spaces::default().in_host() => return Some(String::new()),
        "host" => return Some("nsenter -t 1 -n ".to_owned()),
        _ => {}
    }
    if let Some((_, process)) = netns.strip_suffix(')').and_then(|named| named.rsplit_once(" ("))
        && is_number(process)
    {
        return Some(format!("nsenter -t {process} -n "));
    }
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    // `--netns` takes a number as a process.
    (!netns.is_empty() && is_plain(netns) && !is_number(netns)).then(|| format!("ip netns exec {netns} "))
}

const RULES: &[Rule] = &[
    Rule {
        reasons: &["CPU_BACKLOG", "softnet dropped", "softnet flow_limit"],
        meaning: "a CPU's backlog was full: RPS, a virtual link or loopback brought packets faster than its softirq took them",
        remedies: &[
            "find out whether that CPU is at its limit: `netcliff watch`",
            "spread flows over more CPUs: `netcliff tune plan --objective throughput`",
            "for bursts only: `sysctl -w net.core.netdev_max_backlog=4000`",
        ],
        source: "net/core/dev.c, enqueue_to_backlog",
    },
    Rule {
        reasons: &["SOCKET_RCVBUFF", "Udp RcvbufErrors", "Udp6RcvbufErrors"],
        meaning: "the receiving socket's buffer was full: the program reads more slowly than packets come, or reads too seldom",
        remedies: &[
            "see which socket: `ss -uamp` (in skmem, the number after d counts its drops)",
            "give the program more CPU, or several sockets with SO_REUSEPORT",
            "for bursts only: a larger SO_RCVBUF, and `sysctl -w net.core.rmem_max=8388608`",
        ],
        source: "net/ipv4/udp.c, __udp_enqueue_schedule_skb; socket(7), SO_RCVBUF",
    },
    Rule {
        reasons: &["SOCKET_BACKLOG", "TcpExt TCPBacklogDrop"],
        meaning: "segments came while the program held the socket, and its backlog filled",
        remedies: &["larger buffers: `sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'`", "read more at once"],
        source: "net/ipv4/tcp_ipv4.c, tcp_add_backlog",
    },
    Rule {
        reasons: &["NO_SOCKET", "Udp NoPorts", "Udp6NoPorts"],
        meaning: "no program listens at the port; the sender gets an ICMP message or a reset",
        remedies: &[
            "see who sends: `netcliff drops --by flow`",
            "start the service, or drop earlier by nft or XDP what is not wanted",
        ],
        source: "net/ipv4/udp.c, __udp4_lib_rcv; net/ipv4/tcp_ipv4.c, tcp_v4_rcv",
    },
    Rule {
        reasons: &[
            "UDP_CSUM",
            "TCP_CSUM",
            "IP_CSUM",
            "ICMP_CSUM",
            "SKB_CSUM",
            "Udp InCsumErrors",
            "Tcp InCsumErrors",
            "IpExt InCsumErrors",
        ],
        meaning: "the checksum was wrong: the packet was damaged on the way, or sent with an offload that nobody did",
        remedies: &[
            "look at errors of link and cable: `ethtool -S DEVICE`",
            "if they come from a virtual machine or a tunnel: `ethtool -K DEVICE tx-checksumming off` at the sender",
        ],
        source: "net/ipv4/udp.c, udp_queue_rcv_one_skb; Documentation/networking/checksum-offloads.rst",
    },
    Rule {
        reasons: &["NETFILTER_DROP"],
        meaning: "a rule of nftables or iptables dropped it, or connection tracking had no room or called it invalid",
        remedies: &[
            "which rule: `nft list ruleset` with counters, `nft monitor trace` after `meta nftrace set 1`",
            "whether the table is full: `sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max`",
        ],
        source: "net/netfilter/core.c, nf_hook_slow",
    },
    Rule {
        reasons: &["IP_INHDR", "IPV6_BAD_EXTHDR", "Ip InHdrErrors", "Ip6InHdrErrors"],
        meaning: "the IP header was bad, or its TTL (hop limit) ran out while this host forwarded it: often a routing loop",
        remedies: &["follow the route: `tracepath ADDRESS`", "see the packets: `netcliff drops --by flow`"],
        source: "net/ipv4/ip_forward.c, ip_forward; net/ipv4/ip_input.c, ip_rcv_core",
    },
    Rule {
        reasons: &[
            "IP_INNOROUTES",
            "IP_OUTNOROUTES",
            "IpExt InNoRoutes",
            "Ip OutNoRoutes",
            "Ip6InNoRoutes",
            "Ip6OutNoRoutes",
        ],
        meaning: "there is no route to the destination",
        remedies: &[
            "see what the kernel would do: `ip route get ADDRESS`",
            "see who sends: `netcliff drops --by flow`",
        ],
        source: "net/ipv4/ip_input.c, ip_rcv_finish_core; net/ipv4/route.c",
    },
    Rule {
        reasons: &["IP_INADDRERRORS", "IP_INVALID_DEST", "Ip InAddrErrors", "Ip6InAddrErrors"],
        meaning: "the packet is not for this host, and this host does not forward",
        remedies: &["to forward: `sysctl -w net.ipv4.ip_forward=1`", "else see who sends: `netcliff drops --by flow`"],
        source: "net/ipv4/route.c, ip_error; include/net/dropreason-core.h",
    },
    Rule {
        reasons: &["IP_RPFILTER", "TcpExt IPReversePathFilter"],
        meaning: "the route to the source leads through another interface, and reverse path filtering is on",
        remedies: &[
            "see that route: `ip route get SOURCE`",
            "where routes differ on purpose: `sysctl -w net.ipv4.conf.all.rp_filter=2`",
        ],
        source: "net/ipv4/fib_frontend.c, fib_validate_source; Documentation/networking/ip-sysctl.rst, rp_filter",
    },
    Rule {
        reasons: &["IP_INVALID_SOURCE", "IP_LOCAL_SOURCE", "IP_LOCALNET", "MAC_INVALID_SOURCE", "LOCAL_MAC"],
        meaning: "the source address cannot come from there: forged, a loop, or this host's own",
        remedies: &[
            "see the packets: `netcliff drops --by flow`",
            "look for an address or a bridge that is there twice: `ip -br address`",
        ],
        source: "net/ipv4/fib_frontend.c, __fib_validate_source; include/net/dropreason-core.h",
    },
    Rule {
        reasons: &["OTHERHOST", "UNICAST_IN_L2_MULTICAST"],
        meaning: "the frame was for another host's hardware address: harmless with a capture or a bridge that floods",
        remedies: &["see whether a device is promiscuous: `ip -d link`", "if a switch floods: its table of addresses"],
        source: "net/ipv4/ip_input.c, ip_rcv_core",
    },
    Rule {
        reasons: &[
            "QDISC_DROP",
            "QDISC_OVERLIMIT",
            "QDISC_CONGESTED",
            "FQ_BAND_LIMIT",
            "FQ_FLOW_LIMIT",
            "FQ_HORIZON_LIMIT",
            "CAKE_FLOOD",
            "DUALPI2_STEP_DROP",
            "qdisc drops",
        ],
        meaning: "a queueing discipline dropped it: its queue was full, it shapes, or it manages delay",
        remedies: &[
            "which: `tc -s qdisc`; a device without a carrier drops all: `ip link`",
            "if it shapes on purpose nothing; else pace the sender, or more queue: `tc qdisc change dev DEVICE root fq limit 20000`",
        ],
        source: "net/core/dev.c, __dev_xmit_skb; include/net/sch_generic.h",
    },
    Rule {
        reasons: &["TC_INGRESS", "TC_EGRESS"],
        meaning: "a filter of tc, often an eBPF program of a container network, dropped it",
        remedies: &["which: `tc filter show dev DEVICE ingress` and `egress`, `bpftool net`"],
        source: "net/core/dev.c, sch_handle_ingress, sch_handle_egress",
    },
    Rule {
        reasons: &["XDP", "XDP drops"],
        meaning: "an XDP program dropped it",
        remedies: &["which: `ip -d link show dev DEVICE`, `bpftool net`"],
        source: "net/core/dev.c, do_xdp_generic; drivers' xdp_drop counters",
    },
    Rule {
        reasons: &["NEIGH_FAILED", "NEIGH_CREATEFAIL", "NEIGH_QUEUEFULL", "NEIGH_DEAD", "NEIGH_HH_FILLFAIL"],
        meaning: "the next hop's hardware address was not found: nobody answers ARP or neighbour discovery, or the table is full",
        remedies: &[
            "see the neighbours: `ip neigh`",
            "if dmesg says `neighbour table overflow`: `sysctl -w net.ipv4.neigh.default.gc_thresh3=8192`",
        ],
        source: "net/core/neighbour.c, neigh_invalidate, __neigh_event_send",
    },
    Rule {
        reasons: &["PROTO_MEM", "Udp MemErrors", "Udp6MemErrors"],
        meaning: "a protocol's memory limit for the whole host was reached",
        remedies: &[
            "see it: `cat /proc/net/sockstat`",
            "more: `sysctl -w net.ipv4.udp_mem=...` or `net.ipv4.tcp_mem`; programs that do not read hold it",
        ],
        source: "net/ipv4/udp.c, __udp_enqueue_schedule_skb; Documentation/networking/ip-sysctl.rst, udp_mem",
    },
    Rule {
        reasons: &["SOCKET_FILTER"],
        meaning: "a socket's own filter (SO_ATTACH_FILTER, or a cgroup's) refused it: wanted, in most cases",
        remedies: &["see the socket's filter: `ss -0pb`"],
        source: "net/core/filter.c, sk_filter_trim_cap",
    },
    Rule {
        reasons: &["UNHANDLED_PROTO", "rx_nohandler", "rx_dropped"],
        meaning: "nobody here takes the protocol of the frame (LLDP, spanning tree, a VLAN that is not set up), or the device is passive in a bond",
        remedies: &["see what it is: `tcpdump -eni DEVICE not ip and not ip6 and not arp`"],
        source: "net/core/dev.c, __netif_receive_skb_core",
    },
    Rule {
        reasons: &["TCP_LISTEN_OVERFLOW", "TcpExt ListenOverflows", "TcpExt ListenDrops", "TcpExt TCPReqQFullDrop"],
        meaning: "a server's queue of connections that wait to be accepted was full",
        remedies: &[
            "which: `ss -ltn` (Recv-Q against Send-Q)",
            "more: `sysctl -w net.core.somaxconn=8192` and a larger backlog in listen()",
        ],
        source: "net/ipv4/tcp_ipv4.c, tcp_v4_syn_recv_sock; listen(2)",
    },
    Rule {
        reasons: &[
            "TCP_OVERWINDOW",
            "TCP_OLD_DATA",
            "TCP_OLD_SEQUENCE",
            "TCP_INVALID_SEQUENCE",
            "TCP_INVALID_END_SEQUENCE",
            "TCP_ZEROWINDOW",
            "TCP_RFC7323_PAWS",
            "TCP_RFC7323_PAWS_ACK",
            "TCP_TOO_OLD_ACK",
            "TCP_ACK_UNSENT_DATA",
            "TCP_OFOMERGE",
            "TCP_INVALID_ACK_SEQUENCE",
            "TCP_OLD_ACK",
        ],
        meaning: "TCP got a segment that it had, or that is outside its window: a retransmission that was not needed, or a reader that is slow",
        remedies: &["see the connection: `ss -ti`", "zero windows: the program reads too slowly"],
        source: "net/ipv4/tcp_input.c, tcp_data_queue, tcp_sequence",
    },
    Rule {
        reasons: &["TCP_FLAGS", "TCP_RESET", "TCP_CLOSE", "TCP_ABORT_ON_DATA", "TCP_INVALID_SYN", "SOCKET_CLOSE"],
        meaning: "the segment came for a connection that is closed or was reset: common when clients go away",
        remedies: &["see which: `netcliff drops --by flow`, `nstat -az TcpExtTCPAbort*`"],
        source: "net/ipv4/tcp_input.c, tcp_rcv_state_process",
    },
    Rule {
        reasons: &["QUEUE_PURGE"],
        meaning: "a queue was emptied with packets in it: a socket or device was closed before they were read",
        remedies: &["none, if the program ended; else it closes sockets with data unread"],
        source: "net/core/skbuff.c, skb_queue_purge_reason",
    },
    Rule {
        reasons: &["FULL_RING", "DEV_READY", "DEV_HDR", "NOMEM", "tx_dropped"],
        meaning: "a device could not take it: its ring was full, it was down, or there was no memory",
        remedies: &[
            "see the device: `ip -s -s link`",
            "a tun or tap device's queue: its program reads too slowly; `ip link set DEVICE txqueuelen 5000`",
        ],
        source: "drivers/net/tun.c, tun_net_xmit; net/core/dev.c",
    },
    Rule {
        reasons: &["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"],
        meaning: "the NIC had no room in its receive ring, or the bus was too slow: the CPU took packets too late",
        remedies: &[
            "a larger ring: `ethtool -g DEVICE`, `ethtool -G DEVICE rx 4096`",
            "what limits the CPU: `netcliff watch`, `netcliff inspect`",
        ],
        source: "Documentation/networking/statistics.rst",
    },
    Rule {
        reasons: &["Icmp echo without an answer", "Icmp6 echo without an answer"],
        meaning: "pings came and this host sent no answer: it has no route back to the sender, or it is set to ignore them",
        remedies: &[
            "the route to the sender: `ip route get SENDER`",
            "if answers are off: `sysctl net.ipv4.icmp_echo_ignore_all`",
        ],
        source: "net/ipv4/icmp.c, icmp_reply",
    },
    Rule {
        reasons: &[
            "NOT_SPECIFIED at ip6_mc_input",
            "NOT_SPECIFIED at ip_mc_output",
            "NOT_SPECIFIED at ip6_mc_find_dev_rcu",
            "NOT_SPECIFIED at ip_rcv_finish_core",
        ],
        meaning: "a multicast packet for a group that no program here joined (neighbour discovery and MLD send such all the time): harmless",
        remedies: &["which groups are joined: `ip maddress`"],
        source: "net/ipv6/ip6_input.c, ip6_mc_input; net/ipv4/route.c, ip_route_input_rcu",
    },
    Rule {
        reasons: &["NOT_SPECIFIED at __udp4_lib_rcv", "NOT_SPECIFIED at __udp6_lib_rcv"],
        meaning: "a broadcast or multicast datagram to a port where no program here listens: harmless",
        remedies: &["which ports have listeners: `ss -uln`; which packets: `netcliff drops --by flow`"],
        source: "net/ipv4/udp.c, __udp4_lib_mcast_deliver",
    },
    Rule {
        reasons: &["PACKET_SOCK_ERROR"],
        meaning: "the socket of a capture program (tcpdump, a DHCP client) was full: it lost its copy, and the packet itself went on",
        remedies: &[
            "a larger buffer there: `tcpdump -B 65536`; a narrower filter; write to a file instead of a terminal",
        ],
        source: "net/packet/af_packet.c, packet_rcv",
    },
    Rule {
        reasons: &["raw sockets' receive buffers"],
        meaning: "a raw socket (ping, a routing daemon) was full: it lost its copy, and the packet itself went on",
        remedies: &["a larger receive buffer there (SO_RCVBUF), or fewer such sockets: `ss -wamp`"],
        source: "net/ipv4/raw.c, raw_v4_input",
    },
    Rule {
        reasons: &[
            "NOT_SPECIFIED at __dev_forward_skb2",
            "NOT_SPECIFIED at __dev_forward_skb",
            "NOT_SPECIFIED at veth_xmit",
        ],
        meaning: "the far end of a veth pair did not take the frame: it is longer than that end's MTU, or that end is down",
        remedies: &["both ends: `ip -d link show DEVICE`, and the peer in its namespace; the same MTU at both"],
        source: "net/core/dev.c, __dev_forward_skb2; include/linux/netdevice.h, __is_skb_forwardable",
    },
    Rule {
        reasons: &[
            "BRIDGE_INGRESS_STP_STATE",
            "NO_TX_TARGET",
            "NOT_SPECIFIED at br_dev_queue_push_xmit",
            "NOT_SPECIFIED at br_forward",
            "NOT_SPECIFIED at br_handle_frame",
            "NOT_SPECIFIED at br_handle_frame_finish",
        ],
        meaning: "a bridge did not pass the frame on: it is longer than the MTU of the port, the port does not forward (STP), no other port takes it, or it is a link-local address",
        remedies: &["ports with MTU and state: `bridge -d link`", "its addresses: `bridge fdb show`"],
        source: "net/bridge/br_forward.c, br_dev_queue_push_xmit; net/bridge/br_input.c",
    },
    Rule {
        reasons: &["PKT_TOO_BIG", "Ip FragFails", "Ip6InTooBigErrors"],
        meaning: "the packet is longer than the MTU of the way and may not be cut",
        remedies: &["find the MTU of the path: `tracepath ADDRESS`; ICMP must pass for the sender to learn of it"],
        source: "net/ipv4/ip_forward.c; RFC 1191",
    },
    Rule {
        reasons: &["TCP_OFO_QUEUE_PRUNE", "TCP_OFO_DROP", "TcpExt PruneCalled", "TcpExt OfoPruned", "TcpExt RcvPruned"],
        meaning: "TCP emptied its queue of segments out of order: the receive buffer was full, or memory for TCP",
        remedies: &[
            "the program that reads too slowly: `ss -tmpi`",
            "larger buffers: `sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216'`; memory: `cat /proc/net/sockstat`",
        ],
        source: "net/ipv4/tcp_input.c, tcp_prune_ofo_queue",
    },
    Rule {
        reasons: &[
            "TCP_AUTH_HDR",
            "TCP_MD5NOTFOUND",
            "TCP_MD5UNEXPECTED",
            "TCP_MD5FAILURE",
            "TCP_AONOTFOUND",
            "TCP_AOUNEXPECTED",
            "TCP_AOKEYNOTFOUND",
            "TCP_AOFAILURE",
        ],
        meaning: "a signed TCP segment (MD5 or AO, as BGP uses) has no signature, a wrong one, or one that is not expected",
        remedies: &["the same key at both ends", "who sends: `netcliff drops --by flow`"],
        source: "net/ipv4/tcp.c, tcp_inbound_hash; RFC 2385, RFC 5925",
    },
    Rule {
        reasons: &["XFRM_POLICY", "PSP_INPUT", "PSP_OUTPUT"],
        meaning: "IPsec or PSP does not let it pass: a policy wants it encrypted, or its association is not known",
        remedies: &["policies: `ip xfrm policy`", "counters: `cat /proc/net/xfrm_stat`"],
        source: "net/xfrm/xfrm_policy.c, __xfrm_policy_check",
    },
    Rule {
        reasons: &["DUP_FRAG", "FRAG_REASM_TIMEOUT", "FRAG_TOO_FAR", "Ip ReasmFails"],
        meaning: "fragments could not be joined: one is lost or twice there, or memory for fragments was full",
        remedies: &[
            "datagrams below the MTU of the path: `tracepath ADDRESS`",
            "memory for fragments: `sysctl net.ipv4.ipfrag_high_thresh`, `nstat -az IpReasm*`",
        ],
        source: "net/ipv4/ip_fragment.c, ip_frag_queue",
    },
    Rule {
        reasons: &["VXLAN_INVALID_HDR", "VXLAN_VNI_NOT_FOUND", "VXLAN_ENTRY_EXISTS", "IP_TUNNEL_ECN", "TUNNEL_TXINFO"],
        meaning: "a tunnel does not take the packet: its network is not set up here, or its header is not valid",
        remedies: &["tunnels and their networks: `ip -d link show type vxlan`, `bridge fdb show`"],
        source: "drivers/net/vxlan/vxlan_core.c, vxlan_rcv",
    },
    Rule {
        reasons: &[
            "IPV6_NDISC_FRAG",
            "IPV6_NDISC_HOP_LIMIT",
            "IPV6_NDISC_BAD_CODE",
            "IPV6_NDISC_BAD_OPTIONS",
            "IPV6_NDISC_NS_OTHERHOST",
            "ARP_PVLAN_DISABLE",
        ],
        meaning: "a message of neighbour discovery or ARP is not valid, or is for another host",
        remedies: &["see it: `tcpdump -eni DEVICE icmp6 or arp`"],
        source: "net/ipv6/ndisc.c, ndisc_rcv",
    },
    Rule {
        reasons: &["BPF_CGROUP_EGRESS", "SECURITY_HOOK"],
        meaning: "an eBPF program of a control group, or a security module, does not let it pass",
        remedies: &["programs: `bpftool cgroup tree`", "a security module's log: `dmesg`, `ausearch -m avc`"],
        source: "net/ipv4/ip_output.c, ip_finish_output; security/security.c",
    },
    Rule {
        reasons: &["IPV6DISABLED"],
        meaning: "IPv6 is off at the device",
        remedies: &["`sysctl net.ipv6.conf.DEVICE.disable_ipv6`"],
        source: "net/ipv6/ip6_input.c, ip6_rcv_core",
    },
    Rule {
        reasons: &["IP_NOPROTO", "INVALID_PROTO", "PKT_TOO_SMALL", "HDR_TRUNC", "SKB_UCOPY_FAULT", "SKB_GSO_SEG"],
        meaning: "the packet is too short for its headers, or nothing here takes its protocol",
        remedies: &["see it: `netcliff drops --by flow`, `tcpdump -vvni DEVICE`"],
        source: "net/ipv4/ip_input.c, ip_protocol_deliver_rcu; include/net/dropreason-core.h",
    },
    Rule {
        reasons: &["TCP_RFC7323_TW_PAWS", "TCP_RFC7323_TSECR", "TCP_FASTOPEN", "TCP_MINTTL"],
        meaning: "a TCP segment failed a check of its time stamp, of fast open, or of the smallest TTL",
        remedies: &["see the connection: `ss -ti`", "addresses that several hosts share (NAT) mix their time stamps"],
        source: "net/ipv4/tcp_minisocks.c; RFC 7323, RFC 5082",
    },
    Rule {
        reasons: &["TAP_FILTER", "TAP_TXFILTER", "MAC_IEEE_MAC_CONTROL"],
        meaning: "a device's filter does not let the frame pass, or it is a frame of flow control",
        remedies: &["filters of a tap: its program's; pause frames: `ethtool -a DEVICE`"],
        source: "drivers/net/tun.c, tun_net_xmit",
    },
    Rule {
        reasons: &["TC_COOKIE_ERROR", "TC_CHAIN_NOTFOUND", "TC_RECLASSIFY_LOOP", "RECURSION_LIMIT"],
        meaning: "filters of tc, or devices upon devices, form a loop or name a chain that is not there",
        remedies: &["filters: `tc filter show dev DEVICE`", "devices upon devices: `ip -d link`"],
        source: "net/sched/cls_api.c, tcf_classify; net/core/dev.c, __dev_queue_xmit",
    },
    Rule {
        reasons: &["PFMEMALLOC"],
        meaning: "the host was short of memory, and the packet is of no use for freeing some",
        remedies: &["free memory: `vmstat 1`; `sysctl -w vm.min_free_kbytes=...` higher"],
        source: "net/core/filter.c, sk_filter_trim_cap",
    },
    Rule {
        reasons: &["CAN_RX_INVALID_FRAME", "CANFD_RX_INVALID_FRAME", "CANXL_RX_INVALID_FRAME"],
        meaning: "a frame of a CAN bus is not valid",
        remedies: &["see the bus: `ip -d -s link show DEVICE`"],
        source: "net/can/af_can.c",
    },
    Rule {
        reasons: &["UNIX_DISCONNECT", "UNIX_SKIP_OOB"],
        meaning: "a Unix socket was disconnected with data in its queue, or its urgent data were not read",
        remedies: &["none, if the programs end; else see them: `ss -xp`"],
        source: "net/unix/af_unix.c",
    },
    Rule {
        reasons: &["NOT_SPECIFIED", "-"],
        meaning: "the kernel gives no reason here: the place alone tells",
        remedies: &["look the function up at its source; `netcliff drops --by stack` shows who called it"],
        source: "include/net/dropreason-core.h",
    },
];
