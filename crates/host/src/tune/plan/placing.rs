//! Steps that place work on CPUs: interrupts, XPS, RPS and RFS.

use super::Draft;
use crate::{
    inspect::{Direction, Irq, Port, rules},
    procfs::{cpu_mask, list_of_cpus},
    setting::Setting,
    tune::affinity::{self, Design},
};
use netcliff_core::inspection::Objective;
use std::collections::{BTreeMap, BTreeSet};

/// Number of flows that RFS tracks (net.core.rps_sock_flow_entries): the kernel documentation's value for busy servers.
const RFS_FLOWS: u32 = 32_768;
const SCALING: &str = "Documentation/networking/scaling.rst";

/// Proposes the planner's CPU for each queue's interrupt.
pub(super) fn interrupts(draft: &mut Draft<'_>, port: &Port) {
    let design = design(draft, port);
    let queues = port.queue_irqs().count();
    if queues == 0 {
        return;
    }
    // On a host with one CPU, interrupts need no placement.
    if draft.inspection.host.cpu.online.len() < 2 || draft.inspection.usable_cpus().is_empty() {
        return;
    }
    let before = draft.cores_before(port);
    let placed = affinity::interrupts(draft.inspection, port, design, before);
    let cores = rules::near_cores(draft.inspection, port) as u32;
    if before > 0 && before + port.receive_queues().unwrap_or(0) > cores {
        draft.note(format!(
            "{}: its queues and those of the interfaces before it are more than the {cores} cores of their node, so that they share some: fewer queues for each (ethtool -L) would separate them",
            port.nic.name
        ));
    }
    for (number, cpu) in placed {
        let Some(irq) = port.irqs.iter().find(|irq| irq.number == number) else { continue };
        let reason = match design {
            Design::Pairing => {
                "CPU of the interrupt: a queue's reception and transmit completions on one core, one core per queue"
            }
            Design::Spread => {
                "CPU of the interrupt: a queue's reception and transmit completions on different CPUs, spread over all of them"
            }
            Design::Smt => {
                "CPU of the interrupt: a queue's reception on a core, its transmit completions on the core's second thread"
            }
        };
        let source = "Gasparakis and Waskiewicz 2010, figures 6 to 8; docs/theory/queues.md";
        let setting = interrupt(port, irq);
        draft.propose(setting, &list_of_cpus(&irq.allowed), &cpu.to_string(), reason, source);
    }
    let serves_both = |irq: &crate::inspect::Irq| irq.direction == Some(Direction::Both);
    if draft.wish.design == Some(Design::Spread) && port.queue_irqs().all(serves_both) {
        draft.note(format!(
            "{}: each interrupt serves reception and transmit completions of its queue, so spread cannot separate them: it only uses second threads of cores, too",
            port.nic.name
        ));
    }
    if let Some(pid) = draft.inspection.host.load.irqbalance_pid {
        draft.note(format!(
            "irqbalance (pid {pid}) moves the interrupts of {} again: stop it (systemctl stop irqbalance) or exclude them (--banirq)",
            port.nic.name
        ));
    }
}

/// The setting of an interrupt, by name, or by number if it has no name or shares the name with another interrupt.
fn interrupt(port: &Port, irq: &Irq) -> Setting {
    if irq.name.is_empty() || port.irqs.iter().filter(|other| other.name == irq.name).count() > 1 {
        return Setting::file(format!("/proc/irq/{}/smp_affinity_list", irq.number));
    }
    Setting::Interrupt { interface: port.nic.name.clone(), name: irq.name.clone() }
}

fn design(draft: &Draft<'_>, port: &Port) -> Design {
    let apart = port.queue_irqs().any(|irq| irq.direction == Some(Direction::Transmit));
    let siblings = !draft.inspection.host.cpu.smt_siblings.is_empty();
    draft.wish.design.unwrap_or(if apart && siblings { Design::Smt } else { Design::Pairing })
}

/// Proposes that a CPU transmits by the queue whose completions it processes.
pub(super) fn transmit_steering(draft: &mut Draft<'_>, port: &Port) {
    let queues = port.nic.xps_cpus.len();
    let usable = draft.inspection.usable_cpus();
    if queues < 2 || usable.is_empty() {
        return;
    }
    let planned = planned_cpus(draft, port, Direction::Transmit);
    let completes: Vec<Option<u32>> = (0..queues as u32).map(|queue| planned.get(&queue).copied()).collect();
    let mut sets: Vec<BTreeSet<u32>> = completes.iter().map(|cpu| cpu.iter().copied().collect()).collect();
    let taken: BTreeSet<u32> = completes.iter().flatten().copied().collect();
    // Siblings use their core's queue; CPUs without a queue are spread over the queues.
    for (turn, cpu) in usable.iter().filter(|cpu| !taken.contains(cpu)).enumerate() {
        let core = draft.inspection.core_of(*cpu);
        let home = completes.iter().position(|of| of.is_some_and(|of| core.contains(&of))).unwrap_or(turn % queues);
        sets[home].insert(*cpu);
    }
    for (queue, cpus) in sets.iter().enumerate() {
        let cpus: Vec<u32> = cpus.iter().copied().collect();
        let setting = Setting::file(format!("/sys/class/net/{}/queues/tx-{queue}/xps_cpus", port.nic.name));
        let reason = "a CPU sends on the queue whose transmit completions it handles";
        let old = if port.nic.xps_cpus[queue].is_empty() { "0" } else { &port.nic.xps_cpus[queue] };
        draft.propose(setting, old, &cpu_mask(&cpus), reason, SCALING);
    }
}

/// Planned CPU of each queue's interrupt in a direction.
fn planned_cpus(draft: &Draft<'_>, port: &Port, direction: Direction) -> BTreeMap<u32, u32> {
    let planned: BTreeMap<u32, u32> =
        affinity::interrupts(draft.inspection, port, design(draft, port), draft.cores_before(port))
            .into_iter()
            .collect();
    let paths = port.queues.iter().filter(|path| path.direction == direction);
    paths.filter_map(|path| Some((path.queue, *planned.get(&path.irq?)?))).collect()
}

/// Proposes RPS and RFS if the objective is throughput and the device has fewer queues than its node has cores, or no
/// interrupts that could be placed; otherwise proposes them off.
pub(super) fn receive_steering(draft: &mut Draft<'_>, port: &Port) {
    let nic = &port.nic;
    let near = rules::near_cpus(draft.inspection, port);
    let few = nic.rps_cpus.len() < rules::near_cores(draft.inspection, port);
    // Packets of a virtual device are processed on the CPU that sends them, usable or not.
    let anywhere = near.len() < draft.inspection.host.cpu.online.len() && !nic.is_physical() && port.irqs.is_empty();
    let on = draft.wants(Objective::Throughput) && (few || anywhere) && !near.is_empty();
    let busy: BTreeSet<u32> = planned_cpus(draft, port, Direction::Receive).into_values().collect();
    let others: Vec<u32> = near.iter().copied().filter(|cpu| !busy.contains(cpu)).collect();
    let mask = if on { cpu_mask(if others.is_empty() { &near } else { &others }) } else { "0".to_owned() };
    let reason = if on && !few {
        "the device raises no interrupts: packets that it receives are processed on the CPU that sends them, unless RPS moves them"
    } else if on {
        "fewer queues than cores: protocol work goes to the CPUs that take no interrupt of this device"
    } else {
        "without RPS no packet costs an interrupt between CPUs and its delay"
    };
    for (queue, old) in nic.rps_cpus.iter().enumerate() {
        let setting = Setting::file(format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", nic.name));
        draft.propose(setting, old, &mask, reason, SCALING);
    }
    if on {
        flow_steering(draft, port);
        return;
    }
    for (queue, old) in nic.rps_flow_counts.iter().enumerate() {
        draft.propose(flow_table(port, queue), &old.to_string(), "0", reason, SCALING);
    }
}

fn flow_table(port: &Port, queue: usize) -> Setting {
    Setting::file(format!("/sys/class/net/{}/queues/rx-{queue}/rps_flow_cnt", port.nic.name))
}

/// Proposes RFS. Its table of flows (net.core.rps_sock_flow_entries) belongs to the whole host and is not shown in
/// other network namespaces.
fn flow_steering(draft: &mut Draft<'_>, port: &Port) {
    let nic = &port.nic;
    let table = "net.core.rps_sock_flow_entries";
    let Some(old) = draft.inspection.host.sysctls.get(table).filter(|_| !nic.rps_flow_counts.is_empty()) else {
        return;
    };
    let reason = "RFS: protocol work is done on the CPU where the application reads";
    // One step serves all interfaces.
    if !draft.steps.iter().any(|step| step.setting == Setting::sysctl(table)) {
        draft.propose(Setting::sysctl(table), old, &RFS_FLOWS.to_string(), reason, SCALING);
    }
    let each = RFS_FLOWS / nic.rps_flow_counts.len() as u32;
    for (queue, old) in nic.rps_flow_counts.iter().enumerate() {
        draft.propose(flow_table(port, queue), &old.to_string(), &each.to_string(), reason, SCALING);
    }
}
