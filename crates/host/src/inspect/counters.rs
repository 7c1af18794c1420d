//! Counters of the receive path, and their growth between two readings.

use crate::{
    procfs::{self, titled, valued},
    softnet::{SoftnetStat, parse_softnet},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// The counters of an interface (`/sys/class/net/*/statistics`) that are read: packets that passed, and those that were
/// lost.
pub(super) const STATISTICS: &[&str] = &[
    "rx_packets",
    "rx_bytes",
    "rx_dropped",
    "rx_errors",
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_nohandler",
    "tx_packets",
    "tx_bytes",
    "tx_dropped",
    "tx_errors",
    "tx_fifo_errors",
    "collisions",
];

/// Counters of IP (`Ip` in /proc/net/snmp and /proc/net/snmp6) that grow when packets are longer than an MTU on their
/// path.
const TOO_LONG: [&str; 3] = ["FragFails", "FragCreates", "ReasmReqds"];

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// Time since boot (s).
    pub uptime_s: Option<f64>,
    /// One entry per CPU.
    pub softnet: Vec<SoftnetStat>,
    /// By interface, then by counter name.
    pub interfaces: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counters of IP by name, the sum of IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ip: BTreeMap<String, u64>,
}

/// The growth of the counters between two readings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// Time between the readings (s).
    pub seconds: f64,
    /// One entry per CPU.
    pub softnet: Vec<SoftnetStat>,
    /// By interface, then by counter name.
    pub interfaces: BTreeMap<String, BTreeMap<String, u64>>,
    /// Counters of IP by name, the sum of IPv4 and IPv6.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ip: BTreeMap<String, u64>,
}

impl Reading {
    /// Reads the counters of these interfaces below `root`.
    pub fn read(root: &Path, interfaces: &[String]) -> Reading {
        let softnet = procfs::whole(root.join("proc/net/softnet_stat"));
        let statistics = |name: &String| {
            let dir = procfs::interface(&root.join("sys/class/net"), name).join("statistics");
            let read = |counter: &&str| Some(((*counter).to_owned(), procfs::number(dir.join(counter))?));
            let counters: BTreeMap<String, u64> = STATISTICS.iter().filter_map(read).collect();
            (!counters.is_empty()).then(|| (name.clone(), counters))
        };
        Reading {
            uptime_s: procfs::text(root.join("proc/uptime")).and_then(|text| text.split(' ').next()?.parse().ok()),
            softnet: parse_softnet(&softnet).unwrap_or_default(),
            interfaces: interfaces.iter().filter_map(statistics).collect(),
            ip: too_long(root),
        }
    }

    /// The growth from this reading to a later one. A counter that went back (its driver was reloaded) counts as no
    /// growth.
    pub fn until(&self, later: &Reading) -> Growth {
        let softnet = later.softnet.iter().filter_map(|now| {
            let then = self.softnet.iter().find(|then| then.cpu == now.cpu)?;
            Some(now.since(then))
        });
        let interfaces = later.interfaces.iter().filter_map(|(name, now)| {
            let then = self.interfaces.get(name)?;
            let grown = now
                .iter()
                .filter_map(|(counter, value)| Some((counter.clone(), value.saturating_sub(*then.get(counter)?))));
            Some((name.clone(), grown.collect()))
        });
        Growth {
            seconds: self.uptime_s.zip(later.uptime_s).map_or(0.0, |(then, now)| now - then),
            softnet: softnet.collect(),
            interfaces: interfaces.collect(),
            ip: later
                .ip
                .iter()
                .filter_map(|(name, now)| Some((name.clone(), now.saturating_sub(*self.ip.get(name)?))))
                .collect(),
        }
    }

    /// A counter of an interface; 0 if the kernel does not report it.
    pub fn of(&self, interface: &str, counter: &str) -> u64 {
        look_up(&self.interfaces, interface, counter)
    }
}

impl Growth {
    /// The growth of a counter of an interface; 0 if the kernel does not report it.
    pub fn of(&self, interface: &str, counter: &str) -> u64 {
        look_up(&self.interfaces, interface, counter)
    }
}

/// The counters in [`TOO_LONG`], the sum of IPv4 and IPv6.
fn too_long(root: &Path) -> BTreeMap<String, u64> {
    let text = |file: &str| procfs::whole(root.join(file));
    let (four, six) = (text("proc/net/snmp"), text("proc/net/snmp6"));
    let sum = |name: &&str| match (titled(&four, "Ip:", name), valued(&six, &format!("Ip6{name}"))) {
        (None, None) => None,
        (four, six) => Some(((*name).to_owned(), four.unwrap_or(0) + six.unwrap_or(0))),
    };
    TOO_LONG.iter().filter_map(sum).collect()
}

fn look_up(interfaces: &BTreeMap<String, BTreeMap<String, u64>>, interface: &str, counter: &str) -> u64 {
    interfaces.get(interface).and_then(|counters| counters.get(counter)).copied().unwrap_or(0)
}
