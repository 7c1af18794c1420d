//! What sockets and protocols of a network namespace lost for want of room: [`Losses`].

use super::{programs, sockets};
use crate::nic::counts::titled;
use netcliff_core::watch::{LossMoment, SocketLoss};
use sockets::Sockets;
use std::{collections::BTreeSet, fs};

/// Sockets that are named.
const MOST_SOCKETS: usize = 3;

/// Reason, as metrics have it, and in words. An overflow of the accept queue counts as ListenOverflows and as ListenDrops: the latter has
/// all that listening sockets refused.
const REASONS: [(&str, &str); 7] = [
    (UDP_BUFFER, "receive buffers of UDP sockets"),
    ("udp_memory", "memory of all UDP sockets (net.ipv4.udp_mem)"),
    (LISTEN, "accept queues of listening sockets (connections)"),
    ("tcp_backlog", "backlogs of TCP sockets"),
    ("tcp_receive_buffer", "receive buffers of TCP sockets"),
    ("ip_discards", "IP, for want of memory or room"),
    ("ip6_discards", "IPv6, for want of memory or room"),
];
const UDP_BUFFER: &str = "udp_receive_buffer";
const LISTEN: &str = "listen_queue";

/// Counters since the namespace was made, and the sockets that have their own.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    /// In the order of [`REASONS`].
    counts: [u64; REASONS.len()],
    udp: Sockets,
    listening: Sockets,
}

impl Losses {
    /// Of the calling thread's network namespace; tables that are not there count nothing.
    pub(super) fn now() -> Self {
        let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let counts = counts(&table("snmp"), &table("snmp6"), &table("netstat"));
        Self { counts, udp: sockets::of_udp("thread-self"), listening: sockets::listening() }
    }

    /// By reason, since boot.
    pub(super) fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().map(|(reason, _)| reason).zip(self.counts)
    }

    /// What was lost until a later reading, the greatest first.
    pub(super) fn until(&self, later: &Self, seconds: f64) -> Vec<LossMoment> {
        let grown = self.counts.iter().zip(later.counts).map(|(before, now)| now.saturating_sub(*before));
        let lost = REASONS.iter().zip(grown).filter(|(_, lost)| *lost > 0);
        let mut losses: Vec<LossMoment> = lost
            .map(|((reason, words), lost)| LossMoment {
                reason: (*reason).to_owned(),
                words: (*words).to_owned(),
                per_s: lost as f64 / seconds,
                sockets: match *reason {
                    UDP_BUFFER => losers(&self.udp, &later.udp, seconds),
                    LISTEN => losers(&self.listening, &later.listening, seconds),
                    _ => Vec::new(),
                },
            })
            .collect();
        losses.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
        losses
    }
}

/// In the order of [`REASONS`]; a counter that this kernel lacks is 0.
fn counts(snmp: &str, snmp6: &str, netstat: &str) -> [u64; REASONS.len()] {
    let four = |row: &str, column: &str| titled(snmp, row, column).unwrap_or(0);
    let six = |name: &str| {
        let line = snmp6.lines().find(|line| line.split_ascii_whitespace().next() == Some(name));
        line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    let tcp = |column: &str| titled(netstat, "TcpExt:", column).unwrap_or(0);
    [
        four("Udp:", "RcvbufErrors") + six("Udp6RcvbufErrors"),
        four("Udp:", "MemErrors") + six("Udp6MemErrors"),
        tcp("ListenDrops").max(tcp("ListenOverflows")),
        tcp("TCPBacklogDrop"),
        tcp("TCPRcvQDrop"),
        four("Ip:", "InDiscards") + four("Ip:", "OutDiscards"),
        six("Ip6InDiscards") + six("Ip6OutDiscards"),
    ]
}

/// The sockets that lost most between two readings, with the processes that have them.
fn losers(before: &Sockets, after: &Sockets, seconds: f64) -> Vec<SocketLoss> {
    let lost = |(inode, now): (&u64, &sockets::Socket)| {
        let then = before.get(inode).map_or(0, |then| then.drops);
        let lost = now.drops.saturating_sub(then);
        (lost > 0).then(|| (lost, *inode, now.name.clone()))
    };
    let mut lost: Vec<(u64, u64, String)> = after.iter().filter_map(lost).collect();
    lost.sort_by_key(|one| std::cmp::Reverse(one.0));
    lost.truncate(MOST_SOCKETS);
    let wanted: BTreeSet<u64> = lost.iter().map(|(_, inode, _)| *inode).collect();
    let owners = if wanted.is_empty() { Default::default() } else { sockets::owners(&wanted) };
    let loss = |(lost, inode, socket): (u64, u64, String)| {
        let pid = owners.get(&inode).copied();
        SocketLoss { socket, per_s: lost as f64 / seconds, pid, program: pid.and_then(programs::name) }
    };
    lost.into_iter().map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn one_loss_counts_once_and_both_families_do() {
        let snmp = "Ip: InDiscards OutDiscards\nIp: 1 2\nUdp: InErrors RcvbufErrors MemErrors\nUdp: 50 40 5\n";
        let snmp6 = "Ip6InDiscards                   \t4\nUdp6RcvbufErrors                \t7\n";
        let netstat = "TcpExt: ListenOverflows ListenDrops TCPBacklogDrop\nTcpExt: 860 860 3\n";
        assert_eq!(counts(snmp, snmp6, netstat), [47, 5, 860, 3, 0, 3, 4]);
        assert_eq!(counts("", "", ""), [0; REASONS.len()]);
    }

    /// A socket that nobody reads loses; the loss has its address and this process.
    #[test]
    fn a_full_receive_buffer_has_a_name() {
        let (reader, sender) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = reader.local_addr().unwrap();
        let before = Losses::now();
        for _ in 0..4000 {
            sender.send_to(&[0; 1000], to).unwrap();
        }
        let lost = before.until(&Losses::now(), 1.0);
        let at_buffers = lost.iter().find(|loss| loss.reason == UDP_BUFFER).expect("4 MB fit no buffer");
        let own = at_buffers.sockets.iter().find(|socket| socket.socket == format!("udp {to}"));
        let own = own.unwrap_or_else(|| panic!("{at_buffers:?}"));
        assert!(own.pid == Some(std::process::id()) && own.per_s > 1000.0 && at_buffers.per_s >= own.per_s, "{own:?}");
    }
}
