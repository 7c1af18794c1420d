//! Assigns CPUs to queues: [`plan`], a pure function of a [`Topology`] and the queues.
//!
//! The designs are from Gasparakis and Waskiewicz (2010), figures 6 to 8. As in the paper, only CPUs of the NIC's own
//! node are used, and no isolated or offline CPUs.

use crate::inspect::{Direction, Inspection, Irq, Port};
use netcliff_core::queues::apart;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// CPUs of a queue's reception and transmit completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// A queue's reception and transmit completions on one CPU, one queue per core: forwarded packets stay in the
    /// core's caches (figure 6).
    Pairing,
    /// A queue's reception and transmit completions on different CPUs, each interrupt on a separate CPU while there are
    /// enough CPUs: context switches are spread (figure 7).
    Spread,
    /// Reception on a core's first thread, transmit completions on its sibling (figure 8).
    Smt,
}

impl Design {
    /// All designs.
    pub const ALL: [Design; 3] = [Design::Pairing, Design::Spread, Design::Smt];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        netcliff_core::Choice::name(self)
    }
}

impl netcliff_core::Choice for Design {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Pairing, "pairing", "Both on one core, one core per queue"),
        (Self::Spread, "spread", "On different CPUs, spread over all of them"),
        (Self::Smt, "smt", "On the two sibling CPUs of one core"),
    ];
}

/// Properties of a machine that the planner needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// CPUs that may be used: online, not isolated.
    pub usable: BTreeSet<u32>,
    /// Threads (CPUs) of each core, in the kernel's order; a CPU that is in no core of this list counts as a core.
    pub cores: Vec<Vec<u32>>,
    /// CPUs of each NUMA node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
}

/// The queues of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Receive queues.
    pub receive: u32,
    /// Transmit queues.
    pub transmit: u32,
    /// NUMA node of the device; `None` if unknown.
    pub node: Option<u32>,
    /// Number of cores of the node assigned to earlier devices: queue 0 goes to the core after them, and to the first
    /// core again after the last.
    pub after: u32,
}

/// The CPU of each queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assignment {
    /// CPU of receive queue 0, 1, ...
    pub receive: Vec<u32>,
    /// CPU of transmit queue 0, 1, ...
    pub transmit: Vec<u32>,
}

impl Topology {
    /// Topology of an inspected host.
    pub fn of(inspection: &Inspection) -> Topology {
        let nodes = inspection.host.cpu.numa_nodes.keys().map(|node| (*node, inspection.node_cpus(*node)));
        Topology {
            usable: inspection.usable_cpus().into_iter().collect(),
            cores: inspection.host.cpu.smt_siblings.clone(),
            nodes: nodes.collect(),
        }
    }

    /// Usable threads of each core that has any, ordered by first thread. Only cores of the device's NUMA node, unless
    /// none of them is usable.
    fn near(&self, node: Option<u32>) -> Vec<Vec<u32>> {
        let near: BTreeSet<u32> = node.and_then(|node| self.nodes.get(&node)).into_iter().flatten().copied().collect();
        let local: BTreeSet<u32> = self.usable.intersection(&near).copied().collect();
        let cpus = if local.is_empty() { &self.usable } else { &local };
        let mut cores: Vec<Vec<u32>> = self
            .cores
            .iter()
            .map(|core| core.iter().copied().filter(|cpu| cpus.contains(cpu)).collect::<Vec<_>>())
            .filter(|core| !core.is_empty())
            .collect();
        let known: BTreeSet<u32> = cores.iter().flatten().copied().collect();
        cores.extend(cpus.difference(&known).map(|cpu| vec![*cpu]));
        cores.sort();
        cores
    }
}

/// Assigns every queue to a usable CPU; assigns nothing only if no CPU is usable.
pub fn plan(topology: &Topology, queues: Queues, design: Design) -> Assignment {
    let mut cores = topology.near(queues.node);
    let turn = queues.after as usize % cores.len().max(1);
    cores.rotate_left(turn);
    // First threads of all cores come before second threads, so that a core is shared only after all cores have work.
    let deepest = cores.iter().map(Vec::len).max().unwrap_or(0);
    let threads: Vec<u32> =
        (0..deepest).flat_map(|n| cores.iter().filter_map(move |core| core.get(n).copied())).collect();
    if threads.is_empty() {
        return Assignment::default();
    }
    let turn = |order: &[u32], queue: u32| order[queue as usize % order.len()];
    let firsts: Vec<u32> = cores.iter().map(|core| core[0]).collect();
    let receive_on: &[u32] = if design == Design::Spread { &threads } else { &firsts };
    let receive: Vec<u32> = (0..queues.receive).map(|queue| turn(receive_on, queue)).collect();
    let core_of = |cpu: u32| cores.iter().find(|core| core.contains(&cpu)).map_or(cpu, |core| core[0]);
    let transmit: Vec<u32> = match design {
        Design::Pairing => (0..queues.transmit).map(|queue| turn(&firsts, queue)).collect(),
        Design::Smt => (0..queues.transmit)
            .map(|queue| {
                let core = &cores[queue as usize % cores.len()];
                core.get(1).copied().unwrap_or(core[0])
            })
            .collect(),
        Design::Spread => apart::completions(&threads, &receive, queues.transmit as usize, core_of),
    };
    Assignment { receive, transmit }
}

/// (interrupt, CPU) for each queue interrupt of a port. `after`: number of cores of its node assigned to earlier ports.
/// An interrupt for both directions goes to the CPU of its queue's reception.
pub fn interrupts(inspection: &Inspection, port: &Port, design: Design, after: u32) -> Vec<(u32, u32)> {
    let irqs: Vec<&Irq> = port.queue_irqs().collect();
    let counted = |transmit: bool| {
        let of = irqs.iter().filter(|irq| (irq.direction == Some(Direction::Transmit)) == transmit);
        of.enumerate().map(|(place, irq)| irq.queue.unwrap_or(place as u32) + 1).max().unwrap_or(0)
    };
    let queues = Queues { receive: counted(false), transmit: counted(true), node: port.nic.numa_node, after };
    let assignment = plan(&Topology::of(inspection), queues, design);
    let (mut receiving, mut transmitting) = (0_u32.., 0_u32..);
    let place = |irq: &Irq| {
        let transmit = irq.direction == Some(Direction::Transmit);
        let turn = if transmit { transmitting.next() } else { receiving.next() };
        let queue = irq.queue.or(turn)?;
        let of = if transmit { &assignment.transmit } else { &assignment.receive };
        Some((irq.number, *of.get(queue as usize)?))
    };
    irqs.into_iter().filter_map(place).collect()
}
