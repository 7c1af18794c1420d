//! Losses that a device reports, by the names of its counters in ethtool.
//!
//! Whole names are in the row of each driver in `driver`. Counters of one queue and a cloud's limits are recognised by
//! a pattern.

use super::{driver::DRIVERS, ioctl};
use std::collections::BTreeMap;
use std::io;

pub use super::driver::Cause;

/// Cause of the counter with this name in any driver's row: a name means the same in all drivers.
fn named(name: &str) -> Option<Cause> {
    DRIVERS.iter().flat_map(|driver| driver.losses).find(|(known, _)| *known == name).map(|(_, cause)| *cause)
}

/// Cause of the losses that a counter of this name counts; `None` if it counts something else.
fn cause(name: &str) -> Option<Cause> {
    if let Some(cause) = named(name) {
        return Some(cause);
    }
    if name.ends_with("_allowance_exceeded") {
        return Some(Cause::Allowance);
    }
    // Counters of one queue: rx_queue_0_xdp_drops (veth, virtio_net), rx0_xdp_drop (mlx5), rx_queue_0_drops (igb),
    // queue_0_rx_xdp_drop (ena).
    let receive = name.starts_with("rx") || name.contains("_rx_");
    if receive && (name.ends_with("xdp_drops") || name.ends_with("xdp_drop")) {
        return Some(Cause::Xdp);
    }
    (name.starts_with("rx_queue_") && name.ends_with("_drops")).then_some(Cause::NoRoom)
}

/// A device's own counters of loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<String, u64>);

impl Losses {
    /// Reads the counters.
    ///
    /// # Errors
    /// There is no such device, or its driver has no counters (`ethtool -S`) or too many.
    pub fn read(interface: &str) -> io::Result<Self> {
        let (names, values) = ioctl::counters(interface)?;
        Ok(Self::of(names.into_iter().zip(values)))
    }

    fn of(counters: impl Iterator<Item = (String, u64)>) -> Self {
        Self(counters.filter(|(name, _)| cause(name).is_some()).collect())
    }

    /// Counters that increased since `earlier`, with their increase, by name.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let rose = |(name, now): (&String, &u64)| {
            let rose = now.checked_sub(*earlier.0.get(name)?).filter(|rose| *rose > 0)?;
            Some((name.clone(), rose))
        };
        Self(self.0.iter().filter_map(rose).collect())
    }

    /// Adds the losses of another interval.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, lost)| *self.0.entry(name.clone()).or_default() += lost);
    }

    /// Each counter with its cause.
    pub fn each(&self) -> impl Iterator<Item = (&str, Cause, u64)> {
        self.0.iter().filter_map(|(name, lost)| Some((name.as_str(), cause(name)?, *lost)))
    }

    /// Packets lost for this cause. A driver may count a packet under several names, and per queue as well as per
    /// device: returns the largest of the device's counters, or the sum over its queues if that is larger.
    pub fn packets(&self, of: Cause) -> u64 {
        let (mut device, mut queues) = (0, 0);
        for (name, _, lost) in self.each().filter(|(_, cause, _)| *cause == of) {
            if named(name).is_some() || of == Cause::Allowance {
                device = lost.max(device);
            } else {
                queues += lost;
            }
        }
        device.max(queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(counters: &[(&str, u64)]) -> Losses {
        Losses::of(counters.iter().map(|(name, value)| ((*name).to_owned(), *value)))
    }

    #[test]
    fn names_of_drivers() {
        for (name, expected) in [
            ("rx_no_buffer_count", Some(Cause::Waited)),
            ("rx_missed_errors", Some(Cause::NoRoom)),
            ("rx_queue_3_drops", Some(Cause::NoRoom)),
            ("rx_queue_0_xdp_drops", Some(Cause::Xdp)),
            ("rx0_xdp_drop", Some(Cause::Xdp)),
            ("queue_0_rx_xdp_drop", Some(Cause::Xdp)),
            ("pps_allowance_exceeded", Some(Cause::Allowance)),
            ("bw_in_allowance_exceeded", Some(Cause::Allowance)),
            ("rx_crc_errors", Some(Cause::Other)),
            ("tx_queue_0_xdp_xmit", None),
            ("tx0_xdp_drops", None),
            ("rx_packets", None),
        ] {
            assert_eq!(cause(name), expected, "{name}");
        }
    }

    #[test]
    fn a_packet_counts_once() {
        let before =
            losses(&[("rx_missed_errors", 10), ("rx_no_buffer_count", 5), ("rx_queue_0_drops", 0), ("rx_bytes", 9)]);
        let after =
            losses(&[("rx_missed_errors", 14), ("rx_no_buffer_count", 30), ("rx_queue_0_drops", 3), ("rx_bytes", 99)]);
        let mut rose = after.since(&before);
        assert_eq!((rose.packets(Cause::NoRoom), rose.packets(Cause::Waited)), (4, 25));
        assert_eq!((rose.packets(Cause::Xdp), rose.each().count()), (0, 3));
        rose.add(&losses(&[
            ("rx_queue_0_xdp_drops", 4),
            ("rx_queue_1_xdp_drops", 5),
            ("conntrack_allowance_exceeded", 2),
        ]));
        assert_eq!((rose.packets(Cause::Xdp), rose.packets(Cause::Allowance)), (9, 2));
    }
}
