//! Tests the affinity planner: the example machines of Gasparakis and Waskiewicz (2010), and properties that hold for
//! every machine.

use crate::inspect::common::{base, captured};
use netcliff_host::{
    inspect::{Direction, Inspection},
    tune::affinity::{Assignment, Design, Queues, Topology, interrupts, plan},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A machine without SMT.
fn flat(cpus: u32) -> Topology {
    Topology { usable: (0..cpus).collect(), cores: Vec::new(), nodes: BTreeMap::from([(0, (0..cpus).collect())]) }
}

fn four_queues() -> Queues {
    Queues { receive: 4, transmit: 4, node: Some(0), after: 0 }
}

/// Figure 6: receive queue n and transmit queue n on core n, so that forwarded packets stay in one cache.
#[test]
fn figure_6_cache_coherency() {
    let assignment = plan(&flat(4), four_queues(), Design::Pairing);
    assert_eq!(assignment, Assignment { receive: vec![0, 1, 2, 3], transmit: vec![0, 1, 2, 3] });
}

/// Figure 7: no two interrupts on one core.
#[test]
fn figure_7_interrupt_spread() {
    let assignment = plan(&flat(8), four_queues(), Design::Spread);
    assert_eq!(assignment, Assignment { receive: vec![0, 1, 2, 3], transmit: vec![4, 5, 6, 7] });
}

/// With N CPUs and N queues the two interrupts of a queue are on different CPUs, and each CPU has the same number of
/// interrupts as with pairing.
#[test]
fn figure_7_on_as_many_cpus_as_queues() {
    let assignment = plan(&flat(4), four_queues(), Design::Spread);
    assert_eq!(assignment, Assignment { receive: vec![0, 1, 2, 3], transmit: vec![1, 0, 3, 2] });
    assert_ne!(assignment, plan(&flat(4), four_queues(), Design::Pairing));
    // Second threads of cores are used only when all cores have work, and then not the second thread of the queue's own
    // core.
    let cores = (0..4).map(|core| vec![core, core + 4]).collect();
    let assignment = plan(&Topology { cores, ..flat(8) }, four_queues(), Design::Spread);
    assert_eq!(assignment, Assignment { receive: vec![0, 1, 2, 3], transmit: vec![5, 4, 7, 6] });
}

/// Several devices of a node use different cores as long as there are enough cores.
#[test]
fn devices_get_cores_of_their_own() {
    let two =
        |cores| [0, 4].map(|after| plan(&flat(cores), Queues { after, ..four_queues() }, Design::Pairing).receive);
    assert_eq!(two(8), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(two(6), [[0, 1, 2, 3], [4, 5, 0, 1]]);
}

/// The captured igb has an interrupt for each of four receive and four transmit queues, and four CPUs.
#[test]
fn an_igb_is_spread_otherwise_than_paired() {
    let igb = captured(include_str!("../../fixtures/igb.tree"));
    let dir = igb.lay();
    let host = Inspection::of_capture(dir.path()).unwrap();
    for port in host.ports.iter().filter(|port| port.queue_irqs().count() > 1) {
        let (paired, spread) =
            (interrupts(&host, port, Design::Pairing, 0), interrupts(&host, port, Design::Spread, 0));
        assert_ne!(paired, spread, "{}", port.nic.name);
        let on = |direction: Direction, queue: u32| {
            let irq =
                port.queue_irqs().find(|irq| irq.direction == Some(direction) && irq.queue == Some(queue)).unwrap();
            spread.iter().find(|(number, _)| *number == irq.number).unwrap().1
        };
        for queue in 0..4 {
            assert_ne!(on(Direction::Receive, queue), on(Direction::Transmit, queue), "{} {queue}", port.nic.name);
        }
    }
}

/// Figure 8: a quad-core with the physical cores 0 to 3 and their second threads 4 to 7. A queue's two interrupts are
/// on one physical core and its sibling.
#[test]
fn figure_8_smt() {
    let cores = (0..4).map(|core| vec![core, core + 4]).collect();
    let quad = Topology { cores, ..flat(8) };
    let assignment = plan(&quad, four_queues(), Design::Smt);
    assert_eq!(assignment, Assignment { receive: vec![0, 1, 2, 3], transmit: vec![4, 5, 6, 7] });
    // The two designs for machines without SMT use the physical cores first here.
    assert_eq!(plan(&quad, four_queues(), Design::Pairing).receive, [0, 1, 2, 3]);
    // The result is the same if siblings have neighbouring numbers.
    let beside = Topology { cores: (0..4).map(|core| vec![2 * core, 2 * core + 1]).collect(), ..flat(8) };
    let assignment = plan(&beside, four_queues(), Design::Smt);
    assert_eq!(assignment, Assignment { receive: vec![0, 2, 4, 6], transmit: vec![1, 3, 5, 7] });
}

#[test]
fn a_captured_router_is_planned_on_the_node_of_its_nic() {
    let dir = base().lay();
    let host = Inspection::of_capture(dir.path()).unwrap();
    let port = host.port("eth1").unwrap();
    assert_eq!(interrupts(&host, port, Design::Pairing, 0), [(50, 0), (51, 1), (52, 2), (53, 3)]);
    let isolated = base().file("sys/devices/system/cpu/isolated", "0-1,8-9\n").lay();
    let host = Inspection::of_capture(isolated.path()).unwrap();
    let port = host.port("eth1").unwrap();
    assert_eq!(interrupts(&host, port, Design::Pairing, 0), [(50, 2), (51, 3), (52, 2), (53, 3)]);
    assert_eq!(interrupts(&host, port, Design::Spread, 0), [(50, 2), (51, 3), (52, 10), (53, 11)]);
}

/// Generates machines of nodes x cores x threads, numbered in one of the two ways that kernels use, with some CPUs
/// offline or isolated.
fn machines() -> impl Strategy<Value = Topology> {
    let shape = (1..4_u32, 1..9_u32, 1..4_u32, any::<bool>());
    shape.prop_flat_map(|(nodes, cores, threads, beside)| {
        let all = (nodes * cores * threads) as usize;
        prop::collection::vec(prop::bool::weighted(0.8), all).prop_map(move |usable| {
            let cpu = |core: u32, thread: u32| {
                if beside { core * threads + thread } else { thread * nodes * cores + core }
            };
            let core = |core: u32| (0..threads).map(|thread| cpu(core, thread)).collect::<Vec<_>>();
            let node = |node: u32| (node * cores..(node + 1) * cores).flat_map(core).collect::<Vec<_>>();
            Topology {
                usable: (0..).zip(&usable).filter(|(_, usable)| **usable).map(|(cpu, _)| cpu).collect(),
                cores: if threads > 1 { (0..nodes * cores).map(core).collect() } else { Vec::new() },
                nodes: (0..nodes).map(|n| (n, node(n))).collect(),
            }
        })
    })
}

fn queues() -> impl Strategy<Value = Queues> {
    (0..40_u32, 0..40_u32, prop::option::of(0..4_u32), 0..9_u32).prop_map(|(receive, transmit, node, after)| Queues {
        receive,
        transmit,
        node,
        after,
    })
}

fn loads(cpus: &[u32]) -> BTreeMap<u32, usize> {
    let mut loads = BTreeMap::new();
    cpus.iter().for_each(|cpu| *loads.entry(*cpu).or_default() += 1);
    loads
}

/// Difference between the largest and the smallest number of queues on one of these CPUs.
fn spread(cpus: &[u32]) -> usize {
    let loads = loads(cpus);
    loads.values().max().unwrap_or(&0) - loads.values().min().unwrap_or(&0)
}

proptest! {
    #[test]
    fn every_queue_is_served_by_a_usable_cpu_of_the_nearest_node(
        machine in machines(), queues in queues(), design in prop::sample::select(Design::ALL.to_vec())
    ) {
        let assignment = plan(&machine, queues, design);
        if machine.usable.is_empty() {
            prop_assert_eq!(assignment, Assignment::default());
            return Ok(());
        }
        prop_assert_eq!(assignment.receive.len(), queues.receive as usize);
        prop_assert_eq!(assignment.transmit.len(), queues.transmit as usize);
        let near: BTreeSet<u32> = queues.node.and_then(|node| machine.nodes.get(&node)).into_iter().flatten().copied().collect();
        let local: BTreeSet<u32> = machine.usable.intersection(&near).copied().collect();
        let allowed = if local.is_empty() { &machine.usable } else { &local };
        prop_assert!(assignment.receive.iter().chain(&assignment.transmit).all(|cpu| allowed.contains(cpu)));
        // The numbers of queues of two CPUs in use differ by one at most.
        prop_assert!(spread(&assignment.receive) <= 1, "{assignment:?}");
        prop_assert!(spread(&assignment.transmit) <= 1 || design == Design::Smt, "{assignment:?}");
    }

    #[test]
    fn designs_are_what_they_say(machine in machines(), queues in queues()) {
        let both = Queues { transmit: queues.receive, ..queues };
        let core_of = |cpu: u32| machine.cores.iter().position(|core| core.contains(&cpu)).map_or((1, cpu), |core| (0, core as u32));
        let pairing = plan(&machine, both, Design::Pairing);
        prop_assert_eq!(&pairing.receive, &pairing.transmit);
        let smt = plan(&machine, both, Design::Smt);
        for (receive, transmit) in smt.receive.iter().zip(&smt.transmit) {
            prop_assert_eq!(core_of(*receive), core_of(*transmit), "siblings");
        }
        let spread_out = plan(&machine, both, Design::Spread);
        let all: Vec<u32> = spread_out.receive.iter().chain(&spread_out.transmit).copied().collect();
        let cpus: BTreeSet<u32> = plan(&machine, Queues { receive: 1000, ..both }, Design::Spread).receive.into_iter().collect();
        let apart = spread_out.receive.iter().zip(&spread_out.transmit).all(|(receive, transmit)| receive != transmit);
        prop_assert!(apart || cpus.len() < 2, "{spread_out:?}");
        prop_assert!(spread(&all) <= 1, "{all:?}");
        // A core gets a second interrupt only when every core that may be used has one.
        let cores: BTreeSet<_> = all.iter().map(|cpu| core_of(*cpu)).collect();
        let doubled = loads(&all).len() > cores.len();
        let possible: BTreeSet<_> = plan(&machine, Queues { receive: 1000, ..both }, Design::Spread)
            .receive.iter().map(|cpu| core_of(*cpu)).collect();
        prop_assert!(!doubled || cores == possible, "{all:?}");
    }

    /// If all cores are alike, the plans for two nodes differ only by the number of the node's first core.
    #[test]
    fn symmetric_where_the_machine_is(cores in 1..9_u32, receive in 1..20_u32, design in prop::sample::select(Design::ALL.to_vec())) {
        let machine = Topology {
            usable: (0..2 * cores).collect(),
            cores: Vec::new(),
            nodes: BTreeMap::from([(0, (0..cores).collect()), (1, (cores..2 * cores).collect())]),
        };
        let on = |node| plan(&machine, Queues { receive, transmit: receive, node: Some(node), after: 0 }, design);
        let (first, second) = (on(0), on(1));
        let moved = |cpus: &[u32]| cpus.iter().map(|cpu| cpu + cores).collect::<Vec<_>>();
        prop_assert_eq!(moved(&first.receive), second.receive);
        prop_assert_eq!(moved(&first.transmit), second.transmit);
    }
}
