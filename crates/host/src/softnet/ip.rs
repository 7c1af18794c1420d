//! Packets that IPv4 refused on their way in.

use crate::nic::counts::titled;
use std::{fs, io};

/// Counts of a network namespace (packets).
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

    /// What happened since an earlier reading.
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
