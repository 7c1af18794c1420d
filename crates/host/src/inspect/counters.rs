//! Counters of the receive path, and what grew between two readings.

use crate::{
    procfs,
    softnet::{SoftnetStat, parse_softnet},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

/// Counters of an interface (`/sys/class/net/*/statistics`) that are kept: packets, and what became of those that did
/// not pass.
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

/// Counters at one time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Time since boot (s).
    pub uptime_s: Option<f64>,
    /// By CPU.
    pub softnet: Vec<SoftnetStat>,
    /// By interface and name.
    pub interfaces: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What grew between two readings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Growth {
    /// Time between them (s).
    pub seconds: f64,
    /// By CPU.
    pub softnet: Vec<SoftnetStat>,
    /// By interface and name.
    pub interfaces: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Reading {
    /// Reads what is below `root`, of these interfaces.
    pub fn read(root: &Path, interfaces: &[String]) -> Reading {
        let softnet = fs::read_to_string(root.join("proc/net/softnet_stat")).unwrap_or_default();
        let statistics = |name: &String| {
            let dir = root.join("sys/class/net").join(name).join("statistics");
            let read = |counter: &&str| Some(((*counter).to_owned(), procfs::number(dir.join(counter))?));
            let counters: BTreeMap<String, u64> = STATISTICS.iter().filter_map(read).collect();
            (!counters.is_empty()).then(|| (name.clone(), counters))
        };
        Reading {
            uptime_s: procfs::text(root.join("proc/uptime")).and_then(|text| text.split(' ').next()?.parse().ok()),
            softnet: parse_softnet(&softnet).unwrap_or_default(),
            interfaces: interfaces.iter().filter_map(statistics).collect(),
        }
    }

    /// What grew until a later reading; a counter that went back (its driver was reloaded) did not grow.
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
        }
    }

    /// A counter of an interface; 0 where the kernel does not show it.
    pub fn of(&self, interface: &str, counter: &str) -> u64 {
        look_up(&self.interfaces, interface, counter)
    }
}

impl Growth {
    /// What a counter of an interface grew by.
    pub fn of(&self, interface: &str, counter: &str) -> u64 {
        look_up(&self.interfaces, interface, counter)
    }
}

fn look_up(interfaces: &BTreeMap<String, BTreeMap<String, u64>>, interface: &str, counter: &str) -> u64 {
    interfaces.get(interface).and_then(|counters| counters.get(counter)).copied().unwrap_or(0)
}
