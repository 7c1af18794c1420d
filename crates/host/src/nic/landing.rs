//! Where the packets of a flow arrive: the receive queue of a device, the queue's interrupt, and the CPU.
//!
//! The place is determined from counters that rise while the flow alone is sent. It is not computed from a hash,
//! because the drivers' hash functions differ and RPS has a secret key.

use super::netdev::{self, QueueCounts};
use super::{Nic, message_interrupts, own_counts};
use crate::procfs;
use crate::softnet::{self, SoftnetStat};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Smallest share of the packets sent (for interrupt counters: of all interrupts of the device) by which a counter must
/// increase for the flow to be attributed to it.
const SHARE: f64 = 0.6;

/// A place where packets arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A receive queue, by its number.
    Queue(u32),
    /// The interrupt, by its number, of a queue without packet counter.
    Vector(u32),
    /// The backlog of a CPU.
    Backlog(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(id) => write!(f, "receive queue {id}"),
            Self::Vector(irq) => write!(f, "interrupt {irq}"),
            Self::Backlog(cpu) => write!(f, "backlog of CPU {cpu}"),
        }
    }
}

/// Snapshot of a device's and the CPUs' counters.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    queues: Vec<QueueCounts>,
    vectors: BTreeMap<u32, u64>,
    cpus: Vec<SoftnetStat>,
}

/// Where a flow arrived. A field is `None` if no counter rose clearly enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Landing {
    /// The queue.
    pub place: Option<Place>,
    /// The CPU that did the protocol work.
    pub cpu: Option<u32>,
}

impl Counts {
    /// Reads the counters.
    pub fn read(device: &Nic) -> Self {
        let known = netdev::queue_counts(device.index).ok().filter(|queues| !queues.is_empty());
        let queues = known.or_else(|| own_counts::queue_counts(&device.name).ok()).unwrap_or_default();
        Self { queues, vectors: vectors(&device.name), cpus: softnet::softnet_stats().unwrap_or_default() }
    }

    /// Returns where a flow of `packets` packets arrived that was sent since the snapshot `earlier`. `backlog`: the
    /// packets go through the backlog of a CPU.
    pub fn landing(&self, earlier: &Self, packets: u64, backlog: bool, device: &Nic) -> Landing {
        let cpus = self.cpus.iter().filter_map(|now| {
            let then = earlier.cpus.iter().find(|then| then.cpu == now.cpu)?;
            Some((now.cpu, u64::from(now.since(then).processed)))
        });
        if backlog {
            // The counters of CPUs include packets of other devices: first the CPUs to which RPS steers this device's.
            let steered = steered_cpus(device);
            let cpu =
                most(cpus.clone().filter(|(cpu, _)| steered.contains(cpu)), packets).or_else(|| most(cpus, packets));
            return Landing { place: cpu.map(Place::Backlog), cpu };
        }
        let cpu = most(cpus, packets);
        let queues = self.queues.iter().filter(|queue| queue.receive).filter_map(|now| {
            let then = earlier.queues.iter().find(|then| then.receive && then.id == now.id)?;
            Some((now.id, now.packets.saturating_sub(then.packets)))
        });
        // Interrupts are delayed and also serve transmission: they show the vector, not the number of packets.
        let vectors: Vec<(u32, u64)> = self
            .vectors
            .iter()
            .filter_map(|(irq, now)| Some((*irq, now.saturating_sub(*earlier.vectors.get(irq)?))))
            .collect();
        let interrupts: u64 = vectors.iter().map(|(_, rose)| rose).sum();
        let place = most(queues, packets)
            .map(Place::Queue)
            .or_else(|| (device.rx_queues == Some(1)).then_some(Place::Queue(0)))
            .or_else(|| most(vectors.into_iter(), interrupts.max(2)).map(Place::Vector));
        Landing { place, cpu }
    }
}

/// Returns the counter with the largest increase; `None` if this increase is below [`SHARE`] of `of`.
fn most(rose: impl Iterator<Item = (u32, u64)>, of: u64) -> Option<u32> {
    let (name, most) = rose.max_by_key(|(_, rose)| *rose)?;
    (of > 0 && most as f64 >= SHARE * of as f64).then_some(name)
}

/// CPUs to which RPS may steer packets of a device. Each queue has a mask of CPUs, in hexadecimal groups of 32.
pub fn steered_cpus(device: &Nic) -> BTreeSet<u32> {
    let mut cpus = BTreeSet::new();
    for mask in &device.rps_cpus {
        for (place, digit) in (0..).zip(mask.chars().rev().filter_map(|digit| digit.to_digit(16))) {
            cpus.extend((0..4).filter(|bit| digit & (1 << bit) != 0).map(|bit| 4 * place + bit));
        }
    }
    cpus
}

/// Interrupt counts of a device by interrupt number, summed over all CPUs: of its message-signalled interrupts, or of
/// its interrupt line if no other device shares the line.
pub fn vectors(interface: &str) -> BTreeMap<u32, u64> {
    let device = Path::new("/sys/class/net").join(interface).join("device");
    let table = softnet::interrupts().unwrap_or_default();
    let count = |irq: u32| Some((irq, table.rows.get(&irq.to_string())?.counts.iter().sum()));
    let messages: BTreeMap<u32, u64> =
        procfs::numbered(message_interrupts(&device), "").into_iter().filter_map(|(irq, _)| count(irq)).collect();
    if !messages.is_empty() {
        return messages;
    }
    let wire = procfs::text(device.join("irq")).and_then(|text| text.trim().parse::<u32>().ok());
    let alone = wire.filter(|irq| table.rows.get(&irq.to_string()).is_some_and(|row| is_alone(&row.description)));
    alone.and_then(count).into_iter().collect()
}

/// Whether a row of /proc/interrupts has one handler. The row ends with the handlers' names, separated by commas.
fn is_alone(description: &str) -> bool {
    !description.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(queues: &[u64], vectors: &[u64], cpus: &[u32]) -> Counts {
        let queue = |(id, packets): (u32, &u64)| QueueCounts { id, receive: true, packets: *packets, drops: None };
        Counts {
            queues: (0..).zip(queues).map(queue).collect(),
            vectors: (40..).zip(vectors.iter().copied()).collect(),
            cpus: (0..)
                .zip(cpus)
                .map(|(cpu, &processed)| SoftnetStat { cpu, processed, ..Default::default() })
                .collect(),
        }
    }

    #[test]
    fn a_wire_that_devices_share_is_told() {
        assert!(is_alone("IO-APIC 11-fasteoi eth0"));
        assert!(!is_alone("IO-APIC 11-fasteoi virtio0, eth0"));
    }

    #[test]
    fn a_flow_is_where_most_of_its_packets_were_counted() {
        let device = Nic { rx_queues: Some(4), ..Nic::default() };
        let before = counts(&[5, 5, 5], &[7, 7, 7], &[100, 100]);
        let landing = |after: &Counts, backlog| after.landing(&before, 100, backlog, &device);
        let after = counts(&[7, 104, 5], &[8, 60, 9], &[110, 199]);
        assert_eq!(landing(&after, false), Landing { place: Some(Place::Queue(1)), cpu: Some(1) });
        assert_eq!(landing(&after, true), Landing { place: Some(Place::Backlog(1)), cpu: Some(1) });
        // Without counters of queues: the interrupt that rose most.
        let vectors = counts(&[], &[8, 60, 9], &[150, 150]);
        assert_eq!(landing(&vectors, false), Landing { place: Some(Place::Vector(41)), cpu: None });
        // If spread over several queues: no place.
        let spread = counts(&[55, 55, 5], &[30, 30, 7], &[150, 150]);
        assert_eq!(landing(&spread, false), Landing::default());
        let one = Nic { rx_queues: Some(1), ..Nic::default() };
        assert_eq!(counts(&[], &[], &[]).landing(&before, 100, false, &one).place, Some(Place::Queue(0)));
        assert_eq!(Place::Backlog(1).to_string(), "backlog of CPU 1");
        // RPS steers to CPU 1, and CPU 0 receives more packets of other devices.
        let busy = counts(&[], &[], &[900, 199]);
        assert_eq!(landing(&busy, true).cpu, Some(0));
        let steered = Nic { rps_cpus: vec!["2".to_owned()], ..Nic::default() };
        assert_eq!(busy.landing(&before, 100, true, &steered).cpu, Some(1));
        // RFS may take a flow to a CPU outside the mask.
        assert_eq!(counts(&[], &[], &[200, 100]).landing(&before, 100, true, &steered).cpu, Some(0));
    }
}
