//! Which interrupt serves which queue, and on which CPUs.

use crate::{
    files,
    nic::{Nic, message_interrupts},
    procfs,
    rtnl::Rtnl,
    softnet::{self, PerCpu, Row, parse_per_cpu},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Direction of the packets that a queue or an interrupt serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Received packets.
    Receive,
    /// Transmission: the interrupt reports completed frames.
    Transmit,
    /// Both directions.
    Both,
}

/// An interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irq {
    /// The kernel's number of the interrupt.
    pub number: u32,
    /// Name that the driver gave the interrupt.
    pub name: String,
    /// Direction of the queue that the interrupt serves; `None` if it serves no queue.
    pub direction: Option<Direction>,
    /// Number of the queue that the interrupt serves.
    pub queue: Option<u32>,
    /// CPUs that may take the interrupt (`smp_affinity_list`).
    pub allowed: Vec<u32>,
    /// CPUs that take the interrupt (`effective_affinity_list`).
    pub effective: Vec<u32>,
    /// Interrupts since boot by CPU; a CPU without any has no entry.
    pub counts: BTreeMap<u32, u64>,
    /// Interrupts while watching, by CPU; empty if the host was read only once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown: BTreeMap<u32, u64>,
}

impl Irq {
    /// The CPUs that take the interrupt; if these are not known, the CPUs that may take it.
    pub fn cpus(&self) -> &[u32] {
        if self.effective.is_empty() { &self.allowed } else { &self.effective }
    }
}

/// A queue, with the interrupt and the CPUs that serve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuePath {
    /// Receive or transmit.
    pub direction: Direction,
    /// Number of the queue among the queues of its direction.
    pub queue: u32,
    /// NAPI instance that polls the queue.
    pub napi_id: Option<u32>,
    /// Number of the queue's interrupt.
    pub irq: Option<u32>,
    /// CPUs that take the interrupt.
    pub cpus: Vec<u32>,
}

/// Reads `/proc/interrupts` below `root`.
pub(super) fn table(root: &Path, missing: &mut BTreeMap<String, String>) -> PerCpu {
    let read = files::text(&root.join("proc/interrupts"), files::MOST_BYTES).and_then(|text| parse_per_cpu(&text));
    read.unwrap_or_else(|error| {
        missing.insert("interrupts".into(), format!("/proc/interrupts: {error}"));
        PerCpu::default()
    })
}

/// Number, name and counts of a device's interrupts: the interrupts that sysfs lists for the device; if it lists none,
/// the interrupts whose name contains the interface's name.
fn rows<'a>(root: &Path, interface: &str, table: &'a PerCpu) -> Vec<(u32, &'a str, &'a Row)> {
    let device = root.join("sys/class/net").join(interface).join("device");
    let listed: Vec<u32> =
        procfs::numbered(message_interrupts(&device), "").into_iter().map(|(number, _)| number).collect();
    let numbered = table.rows.iter().filter_map(|(name, row)| Some((name.parse::<u32>().ok()?, row)));
    let own = numbered
        .filter(|(number, row)| listed.contains(number) || (listed.is_empty() && carries(&row.description, interface)));
    own.map(|(number, row)| (number, row.description.split_whitespace().next_back().unwrap_or_default(), row)).collect()
}

/// The affinity file of an interrupt of this host, found by the driver's name for the interrupt.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if no interrupt of the interface has that name; another kind if several have it, or if
/// the interface is down.
pub(crate) fn affinity_file(interface: &str, name: &str) -> io::Result<PathBuf> {
    let table = softnet::interrupts()?;
    let rows = rows(Path::new("/"), interface, &table);
    let mut numbers = rows.iter().filter(|(_, known, _)| *known == name).map(|(number, ..)| number);
    match (numbers.next(), numbers.next()) {
        (Some(number), None) => Ok(PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list"))),
        (Some(_), Some(_)) => Err(io::Error::other(format!("several interrupts of {interface} are called {name}"))),
        // A driver registers its interrupts only while the interface is up; the kernel keeps their CPUs.
        (None, _) if Rtnl::new().link(interface)?.flags & libc::IFF_UP as u32 == 0 => {
            Err(io::Error::other(format!("{interface} is down, and its driver names {name} only while it is up")))
        }
        (None, _) => {
            let reason = format!("no interrupt of {interface} is called {name}");
            Err(io::Error::new(io::ErrorKind::NotFound, reason))
        }
    }
}

/// The interrupts of a device of this host, as pairs of name and allowed CPUs. Interrupts without a unique name are
/// left out.
///
/// # Errors
/// `/proc/interrupts` cannot be read.
pub(crate) fn affinities(interface: &str) -> io::Result<Vec<(String, String)>> {
    let table = softnet::interrupts()?;
    let rows = rows(Path::new("/"), interface, &table);
    let own = |name: &str| rows.iter().filter(|(_, other, _)| *other == name).count() == 1;
    let list = |number: u32| procfs::text(format!("/proc/irq/{number}/smp_affinity_list"));
    let named = rows.iter().filter(|(_, name, _)| own(name));
    Ok(named.filter_map(|(number, name, _)| Some(((*name).to_owned(), list(*number)?))).collect())
}

/// The interrupts of a device.
pub(super) fn of_device(root: &Path, nic: &Nic, table: &PerCpu) -> Vec<Irq> {
    let mut irqs: Vec<Irq> = rows(root, &nic.name, table)
        .into_iter()
        .map(|(number, name, row)| {
            let name = name.to_owned();
            let list = |file: &str| {
                let text = procfs::text(root.join(format!("proc/irq/{number}/{file}")));
                text.and_then(|text| procfs::cpu_list(&text)).unwrap_or_default()
            };
            let (direction, queue) = role(&name).map_or((None, None), |(direction, queue)| (Some(direction), queue));
            let counts = table.cpus.iter().copied().zip(row.counts.iter().copied()).filter(|(_, count)| *count > 0);
            Irq {
                number,
                direction,
                queue,
                allowed: list("smp_affinity_list"),
                effective: list("effective_affinity_list"),
                counts: counts.collect(),
                grown: BTreeMap::new(),
                name,
            }
        })
        .collect();
    irqs.sort_by_key(|irq| irq.number);
    // A device with a single interrupt does not name a queue in it: the interrupt serves all queues.
    if let [only] = &mut irqs[..]
        && only.direction.is_none()
    {
        (only.direction, only.queue) = (Some(Direction::Both), Some(0));
    }
    irqs
}

/// Sets the growth of each interrupt's counts up to a later table. A count that went back counts as no growth.
pub(super) fn grow(irqs: &mut [Irq], later: &PerCpu) {
    for irq in irqs {
        let grown = later.cpus.iter().filter_map(|cpu| {
            let now = later.count(&irq.number.to_string(), *cpu)?;
            Some((*cpu, now.saturating_sub(irq.counts.get(cpu).copied().unwrap_or(0)))).filter(|(_, grown)| *grown > 0)
        });
        irq.grown = grown.collect();
    }
}

/// Whether the description contains the interface's name as a whole word: `eth10-rx-0` does not contain `eth1`.
fn carries(description: &str, name: &str) -> bool {
    description.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == name)
}

/// Direction and number from a driver's name for an interrupt: `eth0-TxRx-3` (ixgbe, i40e, ice, igb), `eth0-rx-0`,
/// `eth0-tx-0`, `virtio2-input.0`, `virtio2-output.0`, `mlx5_comp3@pci:0000:01:00.0`, `mlx4-3@...`, `eth0-fp-2` (bnx2x),
/// `eth0-q3`, `ena-mgmnt` (none), `eth0-Tx-Rx-1`.
fn role(name: &str) -> Option<(Direction, Option<u32>)> {
    let lower = name.to_lowercase();
    let head = lower.split('@').next().unwrap_or_default();
    let words: Vec<&str> = head.split(['-', '.', '_', ':']).collect();
    let number = || {
        let digits: String =
            head.chars().rev().take_while(char::is_ascii_digit).collect::<Vec<_>>().into_iter().rev().collect();
        digits.parse().ok()
    };
    let has = |stem: &str| words.iter().any(|word| word.trim_end_matches(|digit: char| digit.is_ascii_digit()) == stem);
    let direction = if has("txrx") || has("rxtx") || (has("tx") && has("rx")) || has("fp") || has("comp") {
        Direction::Both
    } else if has("rx") || has("input") {
        Direction::Receive
    } else if has("tx") || has("output") {
        Direction::Transmit
    } else if words.len() > 1 && words.last().is_some_and(|last| last.strip_prefix('q').is_some_and(is_number)) {
        Direction::Both
    } else {
        return None;
    };
    Some((direction, number()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The queues as the kernel reports them (netlink family netdev). Their interrupts are found by NAPI instance,
/// otherwise by the driver's names.
pub(super) fn queue_paths(nic: &Nic, irqs: &[Irq]) -> Vec<QueuePath> {
    let mut paths: Vec<QueuePath> = if nic.queues.is_empty() { by_name(irqs) } else { by_napi(nic, irqs) };
    paths.sort_by_key(|path| (path.direction, path.queue));
    paths
}

fn by_napi(nic: &Nic, irqs: &[Irq]) -> Vec<QueuePath> {
    let paths = nic.queues.iter().map(|queue| {
        let direction = if queue.receive { Direction::Receive } else { Direction::Transmit };
        let napi = nic.napis.iter().find(|napi| Some(napi.id) == queue.napi_id);
        let named = || irqs.iter().find(|irq| serves(irq, direction, queue.id)).map(|irq| irq.number);
        let irq = napi.and_then(|napi| napi.irq).or_else(named);
        let cpus = irqs.iter().find(|one| Some(one.number) == irq).map(|irq| irq.cpus().to_vec()).unwrap_or_default();
        QueuePath { direction, queue: queue.id, napi_id: queue.napi_id, irq, cpus }
    });
    paths.collect()
}

fn serves(irq: &Irq, direction: Direction, queue: u32) -> bool {
    irq.queue == Some(queue) && irq.direction.is_some_and(|serves| serves == direction || serves == Direction::Both)
}

fn by_name(irqs: &[Irq]) -> Vec<QueuePath> {
    let mut paths = Vec::new();
    for irq in irqs {
        let (Some(direction), Some(queue)) = (irq.direction, irq.queue) else { continue };
        let each: &[Direction] = match direction {
            Direction::Both => &[Direction::Receive, Direction::Transmit],
            Direction::Receive => &[Direction::Receive],
            Direction::Transmit => &[Direction::Transmit],
        };
        paths.extend(each.iter().map(|direction| QueuePath {
            direction: *direction,
            queue,
            napi_id: None,
            irq: Some(irq.number),
            cpus: irq.cpus().to_vec(),
        }));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drivers_call_their_interrupts() {
        use Direction::{Both, Receive, Transmit};
        for (name, expected) in [
            ("eth0-TxRx-3", Some((Both, Some(3)))),
            ("i40e-enp3s0f0-TxRx-12", Some((Both, Some(12)))),
            ("mlx5_comp7@pci:0000:3b:00.0", Some((Both, Some(7)))),
            ("eth1-rx-0", Some((Receive, Some(0)))),
            ("eth1-tx-11", Some((Transmit, Some(11)))),
            ("eth0-Tx-Rx-1", Some((Both, Some(1)))),
            ("virtio2-input.0", Some((Receive, Some(0)))),
            ("virtio2-output.5", Some((Transmit, Some(5)))),
            ("eth0-fp-2", Some((Both, Some(2)))),
            ("gve-q4", Some((Both, Some(4)))),
            ("virtio2-config", None),
            ("ena-mgmnt@pci:0000:00:05.0", None),
            ("eth0", None),
            ("mlx5_async@pci:0000:3b:00.0", None),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    #[test]
    fn an_interface_is_not_in_a_longer_name() {
        assert!(carries("PCI-MSI 1-edge eth1-rx-0", "eth1"));
        assert!(!carries("PCI-MSI 1-edge eth10-rx-0", "eth1"));
    }
}
