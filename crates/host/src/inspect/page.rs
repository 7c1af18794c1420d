//! Condenses an [`Inspection`] to one page: [`sheet`].

mod interface;

use super::{Inspection, Port, scheme};
use crate::procfs::list_of_cpus;
use interface::interface;
use netcliff_core::inspection::{Remark, Section, Sheet};
use std::collections::BTreeMap;

/// Most interfaces with a section each; of the others only the names are shown.
const MOST_PORTS: usize = 4;

/// Sysctls shown on the page if the kernel shows them; in a network namespace some are missing.
const SHOWN: [&str; 9] = [
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.dev_weight",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
];

/// The page: host, each interface, stack, counters and remarks.
pub fn sheet(inspection: &Inspection, remarks: Vec<Remark>) -> Sheet {
    let ports = inspection.main_ports();
    let mut sections = vec![section("HOST".into(), false, host(inspection))];
    sections.extend(ports.iter().take(MOST_PORTS).map(|port| {
        section(format!("INTERFACE {}", port.nic.name), true, interface(port, scheme::of_port(inspection, port)))
    }));
    let others: Vec<&str> = inspection
        .ports
        .iter()
        .map(|port| port.nic.name.as_str())
        .filter(|name| !ports.iter().take(MOST_PORTS).any(|shown| shown.nic.name == *name))
        .collect();
    let mut stack = stack(inspection);
    if !others.is_empty() {
        stack.push(("other links".into(), others.join(", ")));
    }
    sections.push(section("STACK".into(), false, stack));
    Sheet { sections, remarks, not_had: not_had(inspection, &ports), is_root: inspection.host.root }
}

type Facts = Vec<(String, String)>;

fn section(heading: String, is_interface: bool, facts: Facts) -> Section {
    Section { heading, is_interface, facts }
}

/// The facts that have a value, with their names.
fn facts<const N: usize>(all: [(&str, Option<String>); N]) -> Facts {
    let there =
        all.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact.filter(|fact| !fact.is_empty())?)));
    there.collect()
}

fn host(inspection: &Inspection) -> Facts {
    let (cpu, kernel) = (&inspection.host.cpu, &inspection.host.kernel);
    facts([
        ("CPU", cpu.model.clone().map(|model| format!("{model}; {}", topology(inspection)))),
        ("caches", Some(caches(inspection))),
        ("NUMA", (cpu.numa_nodes.len() > 1).then(|| numa(&cpu.numa_nodes))),
        ("isolated", kernel.isolated_cpus.clone().map(|cpus| format!("CPUs {cpus}"))),
        ("frequency", frequency(inspection)),
        ("idle states", idle(inspection)),
        ("mitigations", Some(mitigations(&cpu.mitigations))),
        (
            "kernel",
            kernel.release.clone().map(|release| {
                let hz = kernel.hz.map(|hz| format!(", {hz} Hz")).unwrap_or_default();
                let preemption =
                    kernel.preemption.as_ref().map(|mode| format!(", preemption {mode}")).unwrap_or_default();
                format!("{release}{hz}{preemption}")
            }),
        ),
        ("hypervisor", inspection.host.hypervisor.clone()),
    ])
}

fn topology(inspection: &Inspection) -> String {
    let cpu = &inspection.host.cpu;
    let packages = cpu.packages.unwrap_or(1);
    let smt = match (cpu.smt_siblings.len(), cpu.smt_active) {
        (0, _) => "no SMT".to_owned(),
        (cores, _) => format!("SMT on {cores} core{}", if cores == 1 { "" } else { "s" }),
    };
    format!(
        "{packages} package{}, CPUs {} online, {smt}",
        if packages == 1 { "" } else { "s" },
        list_of_cpus(&cpu.online)
    )
}

fn caches(inspection: &Inspection) -> String {
    let each = inspection.host.cpu.caches.iter().map(|cache| {
        let size = cache.size_bytes.map_or("?".to_owned(), |bytes| match bytes / 1024 {
            kib if kib >= 1024 => format!("{:.0} MiB", kib as f64 / 1024.0),
            kib => format!("{kib} KiB"),
        });
        let shared = cache.shared.iter().map(Vec::len).max().unwrap_or(1);
        let by = if shared > 1 { format!(" shared by {shared} CPUs") } else { String::new() };
        format!("L{} {size}{by}", cache.level)
    });
    each.collect::<Vec<_>>().join(", ")
}

fn numa(nodes: &BTreeMap<u32, String>) -> String {
    nodes.iter().map(|(node, cpus)| format!("node {node}: {cpus}")).collect::<Vec<_>>().join("; ")
}

fn frequency(inspection: &Inspection) -> Option<String> {
    let cpu = &inspection.host.cpu;
    if cpu.governors.is_empty() {
        return Some("chosen by the hardware or the hypervisor (no cpufreq)".into());
    }
    let most = cpu.frequency_max_hz.map(|hz| format!(", up to {:.2} GHz", hz as f64 / 1e9)).unwrap_or_default();
    let boost = cpu.boost.map(|on| if on { ", turbo on" } else { ", turbo off" }).unwrap_or_default();
    let driver = cpu.frequency_driver.as_deref().unwrap_or("?");
    Some(format!("governor {} ({driver}){most}{boost}", cpu.governors.join(", ")))
}

fn idle(inspection: &Inspection) -> Option<String> {
    let cpu = &inspection.host.cpu;
    let states = cpu.idle_states.iter().map(|state| {
        let off = if state.disabled { " off" } else { "" };
        state.exit_latency_us.map_or(state.name.clone(), |us| format!("{} {us} us{off}", state.name))
    });
    let states: Vec<String> = states.collect();
    match (&cpu.idle_driver, states.is_empty()) {
        (driver, true) => driver.as_ref().map(|driver| format!("driver {driver}")),
        (_, false) => Some(format!("{} (exit latency)", states.join(", "))),
    }
}

/// The number of mitigated vulnerabilities, and the names of the others.
fn mitigations(all: &BTreeMap<String, String>) -> String {
    let open: Vec<&str> =
        all.iter().filter(|(_, state)| state.starts_with("Vulnerable")).map(|(name, _)| name.as_str()).collect();
    let active = all.values().filter(|state| state.starts_with("Mitigation")).count();
    match (all.len(), open.is_empty()) {
        (0, _) => String::new(),
        (_, true) => format!("{active} of the CPU's vulnerabilities mitigated"),
        (_, false) => format!("{active} of the CPU's vulnerabilities mitigated; open: {}", open.join(", ")),
    }
}

fn stack(inspection: &Inspection) -> Facts {
    // A setting that cannot be read here is listed under NOT READ.
    let sysctl = |before: &str, name: &str, after: &str| {
        inspection.host.sysctls.get(name).map(|value| format!("{before}{value}{after}"))
    };
    let network = &inspection.network;
    let sum = |counter: fn(&crate::softnet::SoftnetStat) -> u32| {
        inspection.counters.softnet.iter().map(|stat| u64::from(counter(stat))).sum::<u64>()
    };
    facts([
        (
            "softirq",
            joined(
                "; ",
                [
                    joined(
                        ", ",
                        [
                            sysctl("budget ", "net.core.netdev_budget", " packets"),
                            sysctl("", "net.core.netdev_budget_usecs", " us"),
                        ],
                    ),
                    sysctl("weight ", "net.core.dev_weight", " packets a poll"),
                    sysctl("backlog ", "net.core.netdev_max_backlog", " packets a CPU"),
                ],
            ),
        ),
        (
            "since boot",
            Some(format!(
                "{} packets processed, {} dropped at a backlog, {} softirq rounds ended with packets left (time_squeeze)",
                sum(|stat| stat.processed),
                sum(|stat| stat.dropped),
                sum(|stat| stat.time_squeeze),
            )),
        ),
        (
            "sockets",
            joined(
                ", ",
                [
                    sysctl("rmem_max ", "net.core.rmem_max", ""),
                    sysctl("wmem_max ", "net.core.wmem_max", ""),
                    sysctl("tcp_rmem ", "net.ipv4.tcp_rmem", ""),
                    sysctl("tcp_wmem ", "net.ipv4.tcp_wmem", ""),
                ],
            ),
        ),
        (
            "TCP",
            joined(
                " ",
                [
                    sysctl("", "net.ipv4.tcp_congestion_control", ""),
                    sysctl("(available: ", "net.ipv4.tcp_available_congestion_control", ")"),
                ],
            ),
        ),
        ("forwarding", Some(if inspection.routes() { "on" } else { "off" }.to_owned())),
        ("netfilter", Some(netfilter(network))),
        ("SELinux", network.selinux.clone().or_else(|| Some("none".into()))),
        (
            "irqbalance",
            Some(inspection.host.load.irqbalance_pid.map_or("not running".into(), |pid| format!("runs (pid {pid})"))),
        ),
    ])
}

/// Joins the known parts; `None` if no part is known.
fn joined<const N: usize>(between: &str, parts: [Option<String>; N]) -> Option<String> {
    let there: Vec<String> = parts.into_iter().flatten().collect();
    (!there.is_empty()).then(|| there.join(between))
}

fn netfilter(network: &super::Network) -> String {
    let parts = if network.netfilter.is_empty() { "nothing loaded".to_owned() } else { network.netfilter.join(", ") };
    match (network.conntrack_entries, network.conntrack_max) {
        (Some(entries), Some(most)) => format!("{parts}; {entries} of {most} connections tracked"),
        _ => parts,
    }
}

/// What could not be read, with reasons.
fn not_had(inspection: &Inspection, ports: &[&Port]) -> Vec<String> {
    let mut lines: Vec<String> = inspection.missing.values().cloned().collect();
    let sysctls = &inspection.host.sysctls;
    let unread: Vec<&str> = SHOWN.iter().copied().filter(|name| !sysctls.contains_key(*name)).collect();
    if !unread.is_empty() {
        lines.push(format!("{}: the kernel does not show them here, as in a network namespace", unread.join(", ")));
    }
    for port in ports.iter().take(MOST_PORTS) {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (topic, reason) in &port.nic.missing {
            by_reason.entry(reason).or_default().push(topic);
        }
        lines.extend(
            by_reason.iter().map(|(reason, topics)| format!("{} {}: {reason}", port.nic.name, topics.join(", "))),
        );
    }
    lines
}
