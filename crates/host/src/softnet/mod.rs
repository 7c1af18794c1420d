//! Counters of the receive path: softnet_stat, UDP drops, interrupts, softirqs.
//!
//! All counters start at boot (or when the namespace is created); the `since` methods return the increase between two
//! snapshots.

mod irq;
mod udp;

#[cfg(test)]
mod tests;

pub use crate::procfs::{titled, valued};
pub use ip::IpDrops;
pub use irq::{PerCpu, Row, interrupts, parse_per_cpu, softirqs};
pub use udp::{UdpCounters, parse_snmp};

use serde::{Deserialize, Serialize};
use std::{fs, io};

/// One CPU's line of `/proc/net/softnet_stat` (net/core/net-procfs.c). The kernel prints the low 32
/// bits of each counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SoftnetStat {
    /// CPU number; the line number if the kernel (before 5.14) does not print it.
    pub cpu: u32,
    /// Packets processed by `__netif_receive_skb_core`; a packet that RPS steered counts on the CPU to which it was
    /// steered.
    pub processed: u32,
    /// Packets dropped because the backlog was full.
    pub dropped: u32,
    /// Softirq rounds that ended with work left: budget or time used up.
    pub time_squeeze: u32,
    /// Number of times that RPS on another CPU woke this CPU.
    pub received_rps: u32,
    /// Packets dropped by the flow limit.
    pub flow_limit: u32,
    /// Packets now in the backlog, both queues.
    pub backlog_len: Option<u32>,
    /// Packets now in the backlog's input queue.
    pub input_len: Option<u32>,
    /// Packets now in the backlog's process queue.
    pub process_len: Option<u32>,
}

impl SoftnetStat {
    /// Increase since an earlier snapshot of the same CPU, correct across one 32-bit overflow; lengths are the present
    /// values.
    #[must_use]
    pub fn since(&self, earlier: &SoftnetStat) -> SoftnetStat {
        SoftnetStat {
            processed: self.processed.wrapping_sub(earlier.processed),
            dropped: self.dropped.wrapping_sub(earlier.dropped),
            time_squeeze: self.time_squeeze.wrapping_sub(earlier.time_squeeze),
            received_rps: self.received_rps.wrapping_sub(earlier.received_rps),
            flow_limit: self.flow_limit.wrapping_sub(earlier.flow_limit),
            ..*self
        }
    }
}

/// All CPUs' softnet counters.
///
/// # Errors
/// When `/proc/net/softnet_stat` cannot be read or has another form.
pub fn softnet_stats() -> io::Result<Vec<SoftnetStat>> {
    parse_softnet(&fs::read_to_string("/proc/thread-self/net/softnet_stat")?)
}

/// Parses the text of `softnet_stat`.
///
/// # Errors
/// When a line has fewer than nine hexadecimal fields.
pub fn parse_softnet(text: &str) -> io::Result<Vec<SoftnetStat>> {
    text.lines().zip(0..).map(|(line, number)| parse_softnet_line(line, number)).collect()
}

fn parse_softnet_line(line: &str, number: u32) -> io::Result<SoftnetStat> {
    let bad = || {
        let reason = format!("softnet_stat line {line:?}: nine or more hexadecimal fields expected");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    };
    let fields: Vec<u32> = line
        .split_whitespace()
        .map(|field| u32::from_str_radix(field, 16))
        .collect::<Result<_, _>>()
        .map_err(|_| bad())?;
    let [processed, dropped, time_squeeze, ..] = fields[..] else { return Err(bad()) };
    if fields.len() < 9 {
        return Err(bad());
    }
    let field = |index: usize| fields.get(index).copied();
    Ok(SoftnetStat {
        cpu: field(12).unwrap_or(number),
        processed,
        dropped,
        time_squeeze,
        received_rps: field(9).unwrap_or(0),
        flow_limit: field(10).unwrap_or(0),
        backlog_len: field(11),
        input_len: field(13),
        process_len: field(14),
    })
}

mod ip {
    //! Packets that IPv4 rejected on receive.

    use crate::procfs::titled;
    use std::{fs, io};

    /// Counters of a network namespace (packets).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct IpDrops {
        /// Reverse path filtering (TcpExt IPReversePathFilter).
        pub reverse_path: u64,
        /// Invalid addresses (Ip InAddrErrors).
        pub martian: u64,
    }

    impl IpDrops {
        /// The counters of the calling thread's network namespace.
        ///
        /// # Errors
        /// procfs cannot be read.
        pub fn read() -> io::Result<Self> {
            let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            Ok(Self::of(&table("snmp")?, &table("netstat")?))
        }

        fn of(snmp: &str, netstat: &str) -> Self {
            Self {
                reverse_path: titled(netstat, "TcpExt:", "IPReversePathFilter").unwrap_or(0),
                martian: titled(snmp, "Ip:", "InAddrErrors").unwrap_or(0),
            }
        }

        /// Increase since an earlier snapshot.
        #[must_use]
        pub fn since(&self, earlier: &Self) -> Self {
            Self {
                reverse_path: self.reverse_path.saturating_sub(earlier.reverse_path),
                martian: self.martian.saturating_sub(earlier.martian),
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn counts_are_read_by_name() {
            let netstat = "TcpExt: A IPReversePathFilter\nTcpExt: 1 70\nIpExt: InNoRoutes\nIpExt: 3\n";
            let snmp = "Ip: Forwarding InAddrErrors\nIp: 1 4\n";
            let drops = IpDrops::of(snmp, netstat);
            assert_eq!(drops, IpDrops { reverse_path: 70, martian: 4 });
            assert_eq!(drops.since(&IpDrops { reverse_path: 60, martian: 0 }).reverse_path, 10);
            IpDrops::read().expect("procfs");
        }
    }
}
