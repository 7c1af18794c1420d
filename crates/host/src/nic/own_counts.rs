//! Counters of queues under the drivers' own names, for devices that do not report to the kernel's netdev family.
//!
//! The names are in each driver's row in `driver`.

use super::{driver::DRIVERS, ioctl, netdev::QueueCounts};
use std::{collections::BTreeMap, io};

/// Counters of each queue of an interface of the thread's namespace; empty if no counter of the driver has a known
/// name.
///
/// # Errors
/// There is no such device, or its driver has no counters (`ethtool -S`) or too many.
pub fn queue_counts(interface: &str) -> io::Result<Vec<QueueCounts>> {
    let (names, values) = ioctl::counters(interface)?;
    Ok(queues(names.iter().map(String::as_str).zip(values)))
}

fn queues<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> Vec<QueueCounts> {
    let mut all: BTreeMap<(bool, u32), (Option<u64>, Option<u64>)> = BTreeMap::new();
    for (name, value) in counters {
        let Some((receive, id, what)) = parse(name) else { continue };
        // Receive queues first.
        let (packets, drops) = all.entry((!receive, id)).or_default();
        *(if what == What::Packets { packets } else { drops }) = Some(value);
    }
    let counts = all.into_iter().filter_map(|((transmit, id), (packets, drops))| {
        Some(QueueCounts { id, receive: !transmit, packets: packets?, drops })
    });
    counts.collect()
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Packets,
    Drops,
}

fn what(word: &str) -> Option<What> {
    match word {
        "packets" | "pkts" | "cnt" => Some(What::Packets),
        "drops" | "dropped" => Some(What::Drops),
        _ => None,
    }
}

/// Parses a counter's name: whether it is of a receive queue, the queue, and what it counts. `None` if no pattern fits.
fn parse(name: &str) -> Option<(bool, u32, What)> {
    DRIVERS.iter().flat_map(|driver| driver.queue_counters).find_map(|pattern| parse_by(pattern, name))
}

/// Parses a name by a driver's pattern; `None` if it does not fit.
fn parse_by(pattern: &str, name: &str) -> Option<(bool, u32, What)> {
    let (mut pattern, mut name) = (pattern, name);
    let (mut receive, mut id, mut counted) = (None, None, None);
    while !pattern.is_empty() {
        if let Some(rest) = pattern.strip_prefix("WAY") {
            let (word, tail) = name.split_at_checked(2)?;
            receive = Some(received(word)?);
            (pattern, name) = (rest, tail);
        } else if let Some(rest) = pattern.strip_prefix("ID") {
            let (digits, tail) =
                name.split_at(name.len() - name.trim_start_matches(|c: char| c.is_ascii_digit()).len());
            id = Some(digits.parse().ok()?);
            (pattern, name) = (rest, tail);
        } else if let Some(rest) = pattern.strip_prefix("WHAT") {
            let (word, tail) = name.split_at(name.find('[').unwrap_or(name.len()));
            counted = Some(what(word)?);
            (pattern, name) = (rest, tail);
        } else {
            let (first, rest) = pattern.split_at(1);
            (pattern, name) = (rest, name.strip_prefix(first)?);
        }
    }
    if name.is_empty() { Some((receive?, id?, counted?)) } else { None }
}

fn received(way: &str) -> Option<bool> {
    match way {
        "rx" => Some(true),
        "tx" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers() {
        for (name, expected) in [
            ("rx_queue_0_packets", Some((true, 0, What::Packets))),
            ("tx_queue_11_packets", Some((false, 11, What::Packets))),
            ("rx_queue_3_drops", Some((true, 3, What::Drops))),
            ("rx-12.packets", Some((true, 12, What::Packets))),
            ("tx-0.packets", Some((false, 0, What::Packets))),
            ("rx7_packets", Some((true, 7, What::Packets))),
            ("rx_packets[2]", Some((true, 2, What::Packets))),
            ("queue_5_tx_cnt", Some((false, 5, What::Packets))),
            ("rx_packets", None),
            ("rx_queue_0_bytes", None),
            ("rx_queue_0_xdp_packets", None),
            ("rx_1024_to_1518_packets", None),
            ("rx_size_64", None),
            ("r", None),
            ("queue_", None),
            ("", None),
        ] {
            assert_eq!(parse(name), expected, "{name}");
        }
    }

    #[test]
    fn counters_are_put_together_by_queue() {
        let counters = [
            ("tx0_packets", 5),
            ("rx1_packets", 7),
            ("rx0_packets", 9),
            ("rx1_drops", 2),
            ("rx9_drops", 1),
            ("rx0_bytes", 4),
        ];
        let queue = |receive, id, packets, drops| QueueCounts { id, receive, packets, drops };
        let expected = [queue(true, 0, 9, None), queue(true, 1, 7, Some(2)), queue(false, 0, 5, None)];
        assert_eq!(queues(counters.into_iter()), expected);
    }
}
