//! Packets that sockets and protocols lost for lack of space, by network namespace: [`Losses`].

use crate::{
    process,
    procfs::{by_cpu, titled, valued},
    sockets::{self, Kind, Receiver},
    spaces::{Space, Spaces, inside},
};
use netcliff_core::watch::{LossMoment, SocketLoss};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    sync::{Arc, Mutex, PoisonError},
};

/// Largest number of sockets named.
const MOST_SOCKETS: usize = 3;

/// Reasons: the name in metrics, and a description. An overflow of the accept queue counts as ListenOverflows and as
/// ListenDrops; the latter includes all refusals by listening sockets.
const REASONS: [(&str, &str); 8] = [
    (UDP_BUFFER, "receive buffers of UDP sockets"),
    ("udp_memory", "memory of all UDP sockets (net.ipv4.udp_mem)"),
    (LISTEN, "accept queues of listening sockets (connections)"),
    ("tcp_backlog", "backlogs of TCP sockets"),
    ("tcp_receive_buffer", "receive buffers of TCP sockets"),
    (IP[0], "IPv4 discards (no memory or queue space left)"),
    (IP[1], "IPv6 discards (no memory or queue space left)"),
    ("conntrack", "connection tracking, because its table is full (net.netfilter.nf_conntrack_max)"),
];
const UDP_BUFFER: &str = "udp_receive_buffer";
const LISTEN: &str = "listen_queue";
const IP: [&str; 2] = ["ip_discards", "ip6_discards"];

/// Number of leading [`REASONS`] that are losses at sockets.
const AT_SOCKETS: usize = 3;

/// Losses by namespace: the caller's, and all others if the caller is in the host's.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    own: u64,
    spaces: BTreeMap<u64, Counted>,
    /// Processes of sockets with losses, known from earlier snapshots.
    holders: Arc<Mutex<BTreeMap<u64, u32>>>,
}

/// Counters since a namespace was created, and the sockets with their own counters.
#[derive(Debug, Clone)]
struct Counted {
    /// Name; `None` for the caller's namespace.
    name: Option<String>,
    /// In the order of [`REASONS`].
    counts: [u64; REASONS.len()],
    /// Sockets at the last snapshot at which losses at sockets had increased.
    receivers: Arc<Vec<Receiver>>,
}

impl Losses {
    /// Reads the counters, and the tables of sockets if losses at sockets increased since an earlier snapshot. A
    /// missing table counts as zero.
    pub(super) fn now(spaces: &mut Spaces, before: Option<&Losses>) -> Self {
        let own = spaces.own;
        let wanted = if spaces.in_host() { Vec::new() } else { vec![own] };
        let (all, _) = spaces.read_of(&wanted);
        let known = |inode: &u64| before.and_then(|losses| losses.spaces.get(inode));
        let read = |(inode, space): (u64, Space)| {
            let counted = Counted::now((inode != own).then_some(&space), known(&inode)).ok()?;
            Some((inode, counted))
        };
        let holders = before.map(|losses| Arc::clone(&losses.holders)).unwrap_or_default();
        Self { own, spaces: all.into_iter().filter_map(read).collect(), holders }
    }

    /// Losses in the caller's namespace since it was created, by reason.
    pub(super) fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.spaces.get(&self.own).map_or([0; REASONS.len()], |own| own.counts);
        REASONS.into_iter().map(|(reason, _)| reason).zip(counts)
    }

    /// Losses until a later snapshot, the largest first. Packets lost at qdiscs of the caller's namespace (`at_qdiscs`)
    /// are not counted again here.
    pub(super) fn until(&self, later: &Self, at_qdiscs: u64, seconds: f64) -> Vec<LossMoment> {
        let both = later.spaces.iter().filter_map(|(inode, after)| Some((self.spaces.get(inode)?, after)));
        let mut holders = later.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(before, after): (&Counted, &Counted)| {
            let at_qdiscs = if after.name.is_none() { at_qdiscs } else { 0 };
            before.until(after, at_qdiscs, seconds, &mut holders)
        };
        let mut losses: Vec<LossMoment> = both.flat_map(of).collect();
        losses.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
        losses
    }
}

impl Counted {
    fn now(space: Option<&Space>, before: Option<&Counted>) -> io::Result<Counted> {
        let table = |name: &str| match space {
            Some(space) => space.table(name),
            None => Ok(fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()),
        };
        // Connection tracking may be absent, and IPv6 switched off.
        let conntrack = table("stat/nf_conntrack").unwrap_or_default();
        let counts = counts(&table("snmp")?, &table("snmp6").unwrap_or_default(), &table("netstat")?, &conntrack);
        let same = before.filter(|before| before.counts[..AT_SOCKETS] == counts[..AT_SOCKETS]);
        let receivers = match (same, space) {
            (Some(before), _) => Arc::clone(&before.receivers),
            (None, None) => Arc::new(sockets::receivers()),
            (None, Some(space)) => Arc::new(inside(&space.path, sockets::receivers)?),
        };
        Ok(Counted { name: space.map(|space| space.name.clone()), counts, receivers })
    }

    fn until(&self, later: &Self, at_qdiscs: u64, seconds: f64, holders: &mut BTreeMap<u64, u32>) -> Vec<LossMoment> {
        let grown = std::array::from_fn(|at| later.counts[at].saturating_sub(self.counts[at]));
        let grown = once_each(grown, at_qdiscs);
        let lost = REASONS.iter().zip(grown).filter(|(_, lost)| *lost > 0);
        let mut losers = |kind| losers(kind, &self.receivers, &later.receivers, seconds, holders);
        let loss = |((reason, words), lost): (&(&str, &str), u64)| LossMoment {
            reason: (*reason).to_owned(),
            words: (*words).to_owned(),
            namespace: later.name.clone(),
            per_s: lost as f64 / seconds,
            sockets: match *reason {
                UDP_BUFFER => losers(Kind::Udp),
                LISTEN => losers(Kind::Listening),
                _ => Vec::new(),
            },
        };
        lost.map(loss).collect()
    }
}

/// Increases of [`REASONS`] without packets that IP counts a second time: packets of this host that connection tracking
/// or a qdisc refused.
fn once_each(mut grown: [u64; REASONS.len()], at_qdiscs: u64) -> [u64; REASONS.len()] {
    let is = |wanted: &str, at: usize| REASONS[at].0 == wanted;
    let tracked: u64 = (0..grown.len()).filter(|at| is("conntrack", *at)).map(|at| grown[at]).sum();
    let mut elsewhere = tracked + at_qdiscs;
    for at in (0..grown.len()).filter(|at| IP.iter().any(|ip| is(ip, *at))) {
        let there = elsewhere.min(grown[at]);
        grown[at] -= there;
        elsewhere -= there;
    }
    grown
}

/// Values in the order of [`REASONS`]; a counter that this kernel lacks is 0.
fn counts(snmp: &str, snmp6: &str, netstat: &str, conntrack: &str) -> [u64; REASONS.len()] {
    let four = |row: &str, column: &str| titled(snmp, row, column).unwrap_or(0);
    let six = |name: &str| valued(snmp6, name).unwrap_or(0);
    let tcp = |column: &str| titled(netstat, "TcpExt:", column).unwrap_or(0);
    [
        four("Udp:", "RcvbufErrors") + six("Udp6RcvbufErrors"),
        four("Udp:", "MemErrors") + six("Udp6MemErrors"),
        tcp("ListenDrops").max(tcp("ListenOverflows")),
        tcp("TCPBacklogDrop"),
        tcp("TCPRcvQDrop"),
        four("Ip:", "InDiscards") + four("Ip:", "OutDiscards"),
        six("Ip6InDiscards") + six("Ip6OutDiscards"),
        by_cpu(conntrack).filter(|(name, _)| *name == "drop").map(|(_, dropped)| dropped).sum(),
    ]
}

/// Sockets with the largest losses between two snapshots, with their processes.
fn losers(
    kind: Kind,
    before: &[Receiver],
    after: &[Receiver],
    seconds: f64,
    holders: &mut BTreeMap<u64, u32>,
) -> Vec<SocketLoss> {
    let mut lost: Vec<(&Receiver, u64)> =
        sockets::lost(before, after).filter(|(receiver, _)| receiver.kind == kind).collect();
    lost.sort_by_key(|one| std::cmp::Reverse(one.1));
    lost.truncate(MOST_SOCKETS);
    holders.retain(|_, pid| process::name(*pid) != "?");
    let inodes = lost.iter().map(|(receiver, _)| receiver.socket.inode);
    let unknown: BTreeSet<u64> = inodes.filter(|inode| !holders.contains_key(inode)).collect();
    if !unknown.is_empty() {
        holders.extend(sockets::holders(&unknown));
    }
    let loss = |(receiver, lost): (&Receiver, u64)| {
        let pid = holders.get(&receiver.socket.inode).copied();
        let program = pid.map(process::name);
        SocketLoss { socket: receiver.socket.to_string(), per_s: lost as f64 / seconds, pid, program }
    };
    lost.into_iter().map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_testkit::{Need, has};
    use std::{net::UdpSocket, process::Command};

    #[test]
    fn one_loss_counts_once_and_both_families_do() {
        let snmp = "Ip: InDiscards OutDiscards\nIp: 1 2\nUdp: InErrors RcvbufErrors MemErrors\nUdp: 50 40 5\n";
        let snmp6 = "Ip6InDiscards                   \t4\nUdp6RcvbufErrors                \t7\n";
        let netstat = "TcpExt: ListenOverflows ListenDrops TCPBacklogDrop\nTcpExt: 860 860 3\n";
        assert_eq!(counts(snmp, snmp6, netstat, "entries drop\n01 0a\n01 10\n"), [47, 5, 860, 3, 0, 3, 4, 26]);
        // A datagram refused by the full connection table counts at IP, too, like one refused by a qdisc.
        assert_eq!(once_each([47, 5, 860, 3, 0, 20, 9, 26], 1), [47, 5, 860, 3, 0, 0, 2, 26]);
        assert_eq!(counts("", "", "", ""), [0; REASONS.len()]);
    }

    /// A socket that is not read loses packets; the loss names its address and this process.
    #[test]
    fn a_full_receive_buffer_has_a_name() {
        let (reader, sender) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = reader.local_addr().unwrap();
        let mut spaces = Spaces::default();
        let before = Losses::now(&mut spaces, None);
        for _ in 0..4000 {
            sender.send_to(&[0; 1000], to).unwrap();
        }
        let lost = before.until(&Losses::now(&mut spaces, Some(&before)), 0, 1.0);
        let at_buffers = lost.iter().find(|loss| loss.reason == UDP_BUFFER).expect("4 MB fit no buffer");
        let own = at_buffers.sockets.iter().find(|socket| socket.socket == format!("udp {to}"));
        let own = own.unwrap_or_else(|| panic!("{at_buffers:?}"));
        assert!(own.pid == Some(std::process::id()) && own.per_s > 1000.0 && at_buffers.per_s >= own.per_s, "{own:?}");
    }

    /// On the host, losses of containers are reported with their namespace; the table of sockets is read again only if
    /// counters increased.
    #[test]
    fn losses_of_another_namespace_have_its_name() {
        let mut spaces = Spaces::default();
        if !has(Need::Netns) || !spaces.in_host() {
            return;
        }
        let name = format!("ncloss-{}", std::process::id());
        let ip = |args: &[&str]| Command::new("ip").args(args).status().is_ok_and(|status| status.success());
        assert!(ip(&["netns", "add", &name]) && ip(&["-n", &name, "link", "set", "lo", "up"]));
        let path = format!("/run/netns/{name}");
        let bind = || [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
        let [reader, sender] = inside(path.as_ref(), bind).unwrap();
        let before = Losses::now(&mut spaces, None);
        let idle = Losses::now(&mut spaces, Some(&before));
        let to = reader.local_addr().unwrap();
        for _ in 0..4000 {
            sender.send_to(&[0; 1000], to).unwrap();
        }
        let lost = idle.until(&Losses::now(&mut spaces, Some(&idle)), 0, 1.0);
        assert!(ip(&["netns", "delete", &name]));
        let there = lost.iter().find(|loss| loss.namespace.as_deref() == Some(&name)).expect("a loss in it");
        assert_eq!((there.reason.as_str(), there.sockets[0].socket.clone()), (UDP_BUFFER, format!("udp {to}")));
        assert!(there.sentence().contains(&format!("UDP sockets in {name}: ")), "{}", there.sentence());
        let receivers = |losses: &Losses| {
            let space = losses.spaces.values().find(|space| space.name.as_deref() == Some(&name));
            Arc::clone(&space.expect("the namespace").receivers)
        };
        assert!(Arc::ptr_eq(&receivers(&before), &receivers(&idle)));
    }
}
