//! Checks which CPUs take interrupts.

use super::{Aim, Look, Rule, Seen, count, seen};
use crate::{
    inspect::{Inspection, Irq, Port, ProgramMemory},
    procfs::list_of_cpus,
};
use netcliff_core::inspection::Severity;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "irq-one-cpu",
        why: "the queues could spread the work over CPUs, but one CPU does all of it: the host's cliff is that of one CPU",
        source: "Gasparakis and Waskiewicz 2010, Interrupt Affinities and Queues; Documentation/networking/scaling.rst",
        look: Look::Port(one_cpu),
    },
    Rule {
        id: "irq-remote-node",
        why: "the NIC writes into the memory of its own node; a CPU of another node fetches each header across the interconnect",
        source: "Gasparakis and Waskiewicz 2010, Modern Non-Uniform Memory Access computer architectures",
        look: Look::Port(remote_node),
    },
    Rule {
        id: "irq-smt-pair",
        why: "two queues on the two threads of one core share its execution units while other cores serve no queue",
        source: "Gasparakis and Waskiewicz 2010, Designing for SMT systems; docs/theory/queues.md",
        look: Look::Port(smt_pair),
    },
    Rule {
        id: "irqbalance-pinning",
        why: "irqbalance sets affinities again every ten seconds: interrupts pinned by hand are moved, and flows move to CPUs with \
              cold caches under load",
        source: "Gasparakis and Waskiewicz 2010, Identifying the Bottlenecks; irqbalance(1), --banirq and --policyscript",
        look: Look::Port(balanced),
    },
    Rule {
        id: "irq-mask",
        why: "other CPUs than those of the affinity mask take the interrupt: the load is not where the mask puts it",
        source: "Documentation/core-api/irq/irq-affinity.rst; docs/inspect.md",
        look: Look::Port(mask),
    },
    Rule {
        id: "memory-remote-node",
        why: "each packet is copied across the interconnect into the program's memory, and read from there",
        source: "Gasparakis and Waskiewicz 2010, Modern Non-Uniform Memory Access computer architectures",
        look: Look::Port(memory),
    },
];

/// Least number of interrupts since boot from which the CPU that takes them is derived. [`NEARLY_ALL`] is the share of
/// them that this CPU must have.
const ENOUGH_COUNTS: u64 = 1000;
const NEARLY_ALL: f64 = 0.99;

/// Least number of interrupts while watching (a few seconds) that shows which CPU takes them.
const ENOUGH_GROWN: u64 = 100;
/// Memory of a program below which its node does not matter (bytes).
const LITTLE_MEMORY: u64 = 16 << 20;

/// The only CPU that takes an interrupt, `None` if several do. It follows from the counts while watching; otherwise
/// from the mask; otherwise, if the mask allows several CPUs and the kernel chooses one (which it reports only since
/// Linux 4.15), from the counts since boot.
fn taken_by(irq: &Irq) -> Option<u32> {
    if let Some(cpu) = nearly_all(&irq.grown, ENOUGH_GROWN) {
        return Some(cpu);
    }
    if let [cpu] = irq.cpus() {
        return Some(*cpu);
    }
    nearly_all(&irq.counts, ENOUGH_COUNTS)
}

/// The CPU with nearly all counts; `None` if there are fewer than `enough` or they are spread over several CPUs.
fn nearly_all(counts: &BTreeMap<u32, u64>, enough: u64) -> Option<u32> {
    let all: u64 = counts.values().sum();
    let (cpu, most) = counts.iter().max_by_key(|(_, count)| **count)?;
    (all >= enough && *most as f64 >= NEARLY_ALL * all as f64).then_some(*cpu)
}

/// Finds interrupts that, while watching, were taken by CPUs other than those that the kernel reports.
fn mask(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let seconds = inspection.growth.as_ref()?.seconds;
    let astray = |irq: &&Irq| {
        let all: u64 = irq.grown.values().sum();
        let cpus = irq.cpus();
        let outside: u64 = irq.grown.iter().filter(|(cpu, _)| !cpus.contains(cpu)).map(|(_, count)| count).sum();
        all >= ENOUGH_GROWN && !cpus.is_empty() && outside as f64 > (1.0 - NEARLY_ALL) * all as f64
    };
    let found: Vec<&Irq> = port.queue_irqs().filter(astray).collect();
    let first = found.first()?;
    let took = first.grown.iter().map(|(cpu, count)| format!("CPU {cpu} {count}")).collect::<Vec<_>>().join(", ");
    let more = match found.len() {
        1 => String::new(),
        n => format!("; the same for {} more", n - 1),
    };
    seen(
        Severity::Warning,
        format!(
            "interrupt {} ({}) belongs on CPU {} by its affinity; interrupts taken in {seconds:.1} s: {took}{more}",
            first.number,
            first.name,
            list_of_cpus(first.cpus()),
        ),
        found.iter().map(|irq| {
            format!("grep . /proc/irq/{0}/smp_affinity_list /proc/irq/{0}/effective_affinity_list", irq.number)
        }),
    )
}

/// Finds programs with most of their memory on other nodes than the device, if all hardware interfaces of the page are
/// on one node.
fn memory(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let node = port.nic.numa_node?;
    if inspection.main_ports().iter().any(|other| other.nic.numa_node.is_some_and(|other| other != node)) {
        return None;
    }
    let away = |program: &&ProgramMemory| {
        program.away_from(node) >= LITTLE_MEMORY && 2 * program.away_from(node) > program.all_bytes()
    };
    let found: Vec<&ProgramMemory> = inspection.programs.iter().filter(away).collect();
    let one = |program: &&ProgramMemory| {
        let share = 100.0 * program.away_from(node) as f64 / program.all_bytes() as f64;
        format!("{} (pid {}) has {share:.0} % of its {} MiB", program.name, program.pid, program.all_bytes() >> 20)
    };
    if found.is_empty() {
        return None;
    }
    let others: Vec<String> =
        inspection.host.cpu.numa_nodes.keys().filter(|other| **other != node).map(u32::to_string).collect();
    let moved = found.iter().map(|program| format!("migratepages {} {} {node}", program.pid, others.join(",")));
    seen(
        Severity::Warning,
        format!(
            "{} on other NUMA nodes than node {node} of the device",
            found.iter().map(one).collect::<Vec<_>>().join("; ")
        ),
        moved.chain([format!("# and start each with numactl --cpunodebind={node} --membind={node}")]),
    )
}

/// Each queue interrupt that a single CPU takes, with that CPU.
fn placed(port: &Port) -> Vec<(&Irq, u32)> {
    port.queue_irqs().filter_map(|irq| Some((irq, taken_by(irq)?))).collect()
}

/// Commands that assign the interrupts to these CPUs in turn; a queue's receive and transmit interrupts go to the same
/// CPU.
fn pin(irqs: &[&Irq], cpus: &[u32]) -> Vec<String> {
    let place = |(place, irq): (usize, &&Irq)| {
        let turn = irq.queue.map_or(place, |queue| queue as usize);
        let cpu = cpus.get(turn % cpus.len().max(1))?;
        Some(format!("echo {cpu} > /proc/irq/{}/smp_affinity_list", irq.number))
    };
    irqs.iter().enumerate().filter_map(place).collect()
}

/// The best CPUs for a port: usable CPUs on its node, first one per core.
fn best_cpus(inspection: &Inspection, port: &Port) -> Vec<u32> {
    let mut cpus = super::near_cpus(inspection, port);
    cpus.sort_by_key(|cpu| (inspection.core_of(*cpu).iter().position(|one| one == cpu), *cpu));
    cpus
}

fn one_cpu(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let placed = placed(port);
    let receiving: Vec<_> =
        placed.iter().filter(|(irq, _)| irq.direction != Some(crate::inspect::Direction::Transmit)).collect();
    let cpus: BTreeSet<u32> = receiving.iter().map(|(_, cpu)| *cpu).collect();
    let best = best_cpus(inspection, port);
    if receiving.len() < 2 || cpus.len() != 1 || best.len() < 2 || receiving.len() < port.queue_irqs().count() / 2 {
        return None;
    }
    let irqs: Vec<&Irq> = port.queue_irqs().collect();
    let allowed: BTreeSet<u32> = receiving.iter().flat_map(|(irq, _)| irq.allowed.iter().copied()).collect();
    let although = match allowed.len() {
        0 | 1 => String::new(),
        _ => format!(" by their counts, although their masks allow {}", list_of_cpus(&Vec::from_iter(allowed))),
    };
    seen(
        Severity::Fault,
        format!(
            "{} all on CPU {}{although}; {} could share them",
            count(receiving.len(), "queue interrupt"),
            list_of_cpus(&cpus.into_iter().collect::<Vec<_>>()),
            count(best.len(), "CPU"),
        ),
        pin(&irqs, &best),
    )
}

fn remote_node(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let near = inspection.node_cpus(port.nic.numa_node?);
    let best = best_cpus(inspection, port);
    // A node without usable CPUs cannot take interrupts.
    if inspection.host.cpu.numa_nodes.len() < 2 || !best.iter().any(|cpu| near.contains(cpu)) {
        return None;
    }
    let far: Vec<&Irq> = placed(port).into_iter().filter(|(_, cpu)| !near.contains(cpu)).map(|(irq, _)| irq).collect();
    if far.is_empty() {
        return None;
    }
    seen(
        Severity::Warning,
        format!(
            "{} of {} on CPUs outside the device's NUMA node, node {}",
            far.len(),
            count(port.queue_irqs().count(), "queue interrupt"),
            port.nic.numa_node?,
        ),
        pin(&far, &best),
    )
}

fn smt_pair(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let mut cores: BTreeMap<Vec<u32>, BTreeSet<u32>> = BTreeMap::new();
    for (irq, cpu) in placed(port) {
        // Transmit interrupts do not count: figure 8 of Gasparakis and Waskiewicz (2010) puts a queue's transmit
        // interrupt on the sibling of the CPU that takes its receive interrupt.
        if irq.direction != Some(crate::inspect::Direction::Transmit) {
            cores.entry(inspection.core_of(cpu)).or_default().insert(cpu);
        }
    }
    let shared: Vec<&Vec<u32>> = cores.iter().filter(|(_, used)| used.len() > 1).map(|(core, _)| core).collect();
    let best = best_cpus(inspection, port);
    let idle = best.iter().filter(|cpu| !cores.contains_key(&inspection.core_of(**cpu))).count();
    if shared.is_empty() || idle == 0 {
        return None;
    }
    let names: Vec<String> = shared.iter().map(|core| list_of_cpus(core)).collect();
    let irqs: Vec<&Irq> = port.queue_irqs().collect();
    seen(
        Severity::Warning,
        format!(
            "two queues are served by the threads of one core (CPUs {}), while other cores serve no queue",
            names.join(" and ")
        ),
        pin(&irqs, &best),
    )
}

fn balanced(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let pid = inspection.host.load.irqbalance_pid?;
    let online = inspection.host.cpu.online.len();
    let pinned: Vec<&Irq> =
        port.queue_irqs().filter(|irq| !irq.allowed.is_empty() && irq.allowed.len() < online).collect();
    if pinned.is_empty() {
        return None;
    }
    let ban: Vec<String> = pinned.iter().map(|irq| format!("--banirq={}", irq.number)).collect();
    seen(
        Severity::Warning,
        format!(
            "irqbalance runs (pid {pid}) and {} pinned",
            count(pinned.len(), "queue interrupt") + if pinned.len() == 1 { " is" } else { " are" }
        ),
        ["systemctl stop irqbalance".to_owned(), format!("# or start it with {}", ban.join(" "))],
    )
}
