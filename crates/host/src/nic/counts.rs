//! Counters of the devices and of the IP layer of a network namespace.

use super::message_interrupts;
use crate::{
    procfs::{self, titled, valued},
    softnet,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs, io, path::Path};

/// Sums over the devices of a network namespace, counts of its IP layer, and interrupts and softirqs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceCounts {
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets dropped on receive or transmit.
    pub dropped: u64,
    /// Packets that IP received (v4 and v6), after GRO merged some.
    pub ip_packets: u64,
    /// Bytes of the packets that IP received.
    pub ip_bytes: u64,
    /// NET_RX softirqs of all CPUs and all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirqs: Option<u64>,
    /// Interrupts of the devices; `None` if the devices have none, or if they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<u64>,
}

impl DeviceCounts {
    /// Reads the counters of the loopback device of the calling thread's network namespace, or of all other devices.
    ///
    /// # Errors
    /// procfs cannot be read.
    pub fn read(loopback: bool) -> io::Result<Self> {
        let table = |name: &str| procfs::lossy(format!("/proc/thread-self/net/{name}"));
        let mut counts = Self::default();
        counts.add_devices(&table("dev")?, loopback);
        // A kernel without IPv6 has no snmp6.
        counts.add_ip(&table("snmp")?, &table("netstat")?, &table("snmp6").unwrap_or_default());
        let net_rx = softnet::softirqs().ok().and_then(|table| Some(table.rows.get("NET_RX")?.counts.iter().sum()));
        Ok(Self { softirqs: net_rx, ..counts })
    }

    /// Adds the interrupts of the devices that `sys` (`/sys`) shows; these are the devices of the namespace in which
    /// `sys` was mounted.
    #[must_use]
    pub fn and_interrupts(self, sys: &Path) -> Self {
        let own = interrupts_of(sys);
        let table = softnet::interrupts().unwrap_or_default();
        let counts = own.iter().filter_map(|irq| Some(table.rows.get(&irq.to_string())?.counts.iter().sum::<u64>()));
        Self { interrupts: counts.reduce(|sum, count| sum + count), ..self }
    }

    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let of = |count: fn(&Self) -> u64| count(self).saturating_sub(count(earlier));
        let if_known = |count: fn(&Self) -> Option<u64>| count(self)?.checked_sub(count(earlier)?);
        Self {
            tx_packets: of(|c| c.tx_packets),
            tx_bytes: of(|c| c.tx_bytes),
            rx_packets: of(|c| c.rx_packets),
            rx_bytes: of(|c| c.rx_bytes),
            dropped: of(|c| c.dropped),
            ip_packets: of(|c| c.ip_packets),
            ip_bytes: of(|c| c.ip_bytes),
            softirqs: if_known(|c| c.softirqs),
            interrupts: if_known(|c| c.interrupts),
        }
    }

    /// Adds the table of /proc/net/dev: the loopback device only, or all others.
    fn add_devices(&mut self, table: &str, loopback: bool) {
        for line in table.lines() {
            let Some((name, columns)) = line.split_once(':') else { continue };
            if (name.trim() == "lo") != loopback {
                continue;
            }
            let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
            if let [rx_bytes, rx_packets, _, rx_dropped, _, _, _, _, tx_bytes, tx_packets, _, tx_dropped, ..] =
                columns[..]
            {
                self.rx_packets += rx_packets;
                self.rx_bytes += rx_bytes;
                self.tx_packets += tx_packets;
                self.tx_bytes += tx_bytes;
                self.dropped += rx_dropped + tx_dropped;
            }
        }
    }

    /// Adds IPv4's counts of /proc/net/snmp and /proc/net/netstat, and IPv6's of /proc/net/snmp6, which may be empty.
    fn add_ip(&mut self, snmp: &str, netstat: &str, snmp6: &str) {
        let v6 = |name: &str| valued(snmp6, name).unwrap_or(0);
        self.ip_packets += titled(snmp, "Ip:", "InReceives").unwrap_or(0) + v6("Ip6InReceives");
        self.ip_bytes += titled(netstat, "IpExt:", "InOctets").unwrap_or(0) + v6("Ip6InOctets");
    }
}

/// Numbers of the interrupts of all devices.
fn interrupts_of(sys: &Path) -> BTreeSet<u32> {
    let devices = fs::read_dir(sys.join("class/net")).into_iter().flatten().flatten();
    let of = |device: &Path| -> Vec<u32> {
        let messages: Vec<u32> =
            procfs::numbered(message_interrupts(device), "").into_iter().map(|(irq, _)| irq).collect();
        // A device without message-signalled interrupts has one line; 0 is no line.
        let line = || procfs::number(device.join("irq")).filter(|irq| *irq > 0).into_iter().collect();
        if messages.is_empty() { line() } else { messages }
    };
    devices.flat_map(|entry| of(&entry.path().join("device"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 10 1 0 2 0 0 0 0 20 3 0 0 0 0 0 0\n  v0: 7 6 0 1 0 0 0 0 500 5 0 1 0 0 0 0\n";
        let read = |loopback| {
            let mut counts = DeviceCounts::default();
            counts.add_devices(table, loopback);
            counts
        };
        let lo = DeviceCounts { tx_packets: 3, tx_bytes: 20, rx_packets: 1, rx_bytes: 10, dropped: 2, ..read(true) };
        assert_eq!((read(true), read(true).ip_packets), (lo, 0));
        let veth = read(false);
        assert_eq!((veth.tx_packets, veth.tx_bytes, veth.rx_packets, veth.rx_bytes), (5, 500, 6, 7));
        assert_eq!(veth.since(&DeviceCounts { tx_packets: 4, ..DeviceCounts::default() }).tx_packets, 1);
    }

    #[test]
    fn ip_is_counted_by_the_name_of_the_column() {
        let snmp = "Ip: Forwarding InReceives OutRequests\nIp: 1 70 5\nTcp: InReceives\nTcp: 9\n";
        let netstat = "TcpExt: A\nTcpExt: 1\nIpExt: InNoRoutes InOctets\nIpExt: 0 7000\n";
        let mut counts = DeviceCounts::default();
        counts.add_ip(snmp, netstat, "Ip6InReceives      \t3\nIp6InOctets   \t30\n");
        assert_eq!((counts.ip_packets, counts.ip_bytes), (73, 7030));
    }

    #[test]
    fn a_count_is_known_where_both_readings_have_it() {
        let (none, some) = (DeviceCounts::default(), DeviceCounts { interrupts: Some(9), ..DeviceCounts::default() });
        assert_eq!(some.since(&none).interrupts, None);
        assert_eq!(some.since(&DeviceCounts { interrupts: Some(4), ..none }).interrupts, Some(5));
        let here = DeviceCounts::read(true).expect("procfs");
        assert!(here.softirqs.is_some() && here.interrupts.is_none(), "{here:?}");
    }

    #[test]
    fn interrupts_are_those_of_devices_by_message_or_by_line() {
        let sys = std::env::temp_dir().join(format!("netcliff-counts-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = sys.join("class/net").join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("room in /tmp");
            fs::write(path, text).expect("room in /tmp");
        };
        for path in ["eth0/device/msi_irqs/41", "eth0/device/msi_irqs/42", "lo/mtu"] {
            file(path, "");
        }
        file("eth1/device/irq", "11\n");
        file("eth2/device/irq", "0\n");
        let found = interrupts_of(&sys);
        fs::remove_dir_all(&sys).expect("it is ours");
        assert_eq!(found, BTreeSet::from([11, 41, 42]));
    }
}
