//! An [`Inspection`] condensed to what fits one page: [`sheet`].

use super::{Direction, Inspection, Port};
use crate::procfs::{cpus_of_mask, list_of_cpus};
use netcliff_core::{
    inspection::{Remark, Section, Sheet},
    units::print_bps,
};
use std::collections::BTreeMap;

/// Interfaces that get a section of their own; the others are named.
const MOST_PORTS: usize = 4;
/// Queues shown one by one; of more, the CPUs of all.
const MOST_QUEUES: usize = 8;

/// The page: host, each interface, stack, counters, remarks.
pub fn sheet(inspection: &Inspection, remarks: Vec<Remark>) -> Sheet {
    let ports = inspection.main_ports();
    let mut sections = vec![section("HOST", host(inspection))];
    sections.extend(
        ports.iter().take(MOST_PORTS).map(|port| section(&format!("INTERFACE {}", port.nic.name), interface(port))),
    );
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
    sections.push(section("STACK", stack));
    Sheet { sections, remarks, not_had: not_had(inspection, &ports) }
}

type Facts = Vec<(String, String)>;

fn section(heading: &str, facts: Facts) -> Section {
    Section { heading: heading.to_owned(), facts }
}

/// Facts that are there, by name.
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
        let by = if shared > 1 { format!(" shared by {shared}") } else { String::new() };
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
        return Some("not ours to choose (no cpufreq)".into());
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
        (_, false) => Some(states.join(", ")),
    }
}

/// How many are mitigated, and the names of what is left open.
fn mitigations(all: &BTreeMap<String, String>) -> String {
    let open: Vec<&str> =
        all.iter().filter(|(_, state)| state.starts_with("Vulnerable")).map(|(name, _)| name.as_str()).collect();
    let active = all.values().filter(|state| state.starts_with("Mitigation")).count();
    match (all.len(), open.is_empty()) {
        (0, _) => String::new(),
        (_, true) => format!("{active} in force"),
        (_, false) => format!("{active} in force; open: {}", open.join(", ")),
    }
}

fn interface(port: &Port) -> Facts {
    let nic = &port.nic;
    facts([
        ("driver", Some(driver(port))),
        ("bus", bus(port)),
        ("link", Some(link(port))),
        ("pause", Some(switches(&nic.pause))),
        ("offloads", Some(offloads(port))),
        ("coalescing", Some(coalescing(port))),
        ("rings", Some(sizes(&nic.rings))),
        ("channels", Some(sizes(&nic.channels))),
        ("RSS", rss(port)),
        ("interrupts", Some(interrupts(port))),
        ("NAPI", Some(napi(port))),
        ("RPS, RFS, XPS", Some(steering(port))),
        ("qdisc", Some(nic.qdiscs.join(", "))),
    ])
}

fn driver(port: &Port) -> String {
    let nic = &port.nic;
    let firmware = nic.firmware.as_ref().map(|firmware| format!(", firmware {firmware}")).unwrap_or_default();
    let name = nic.driver.as_deref().or(nic.kind.as_deref()).unwrap_or("none");
    format!("{name}{firmware}")
}

fn bus(port: &Port) -> Option<String> {
    let nic = &port.nic;
    let slot = nic.pcie.map(|slot| {
        let most = nic.pcie_max.filter(|most| *most != slot);
        let most = most.map(|most| format!(" of {} x{}", most.generation, most.lanes)).unwrap_or_default();
        format!(", PCI Express {} x{}{most}", slot.generation, slot.lanes)
    });
    let node = nic.numa_node.map(|node| format!(", node {node}")).unwrap_or_default();
    Some(format!("{}{}{node}", nic.bus.as_ref()?, slot.unwrap_or_default()))
}

fn link(port: &Port) -> String {
    let nic = &port.nic;
    let state = if nic.up { nic.operational_state.as_deref().unwrap_or("up") } else { "down" };
    let speed = port.link_bps().map_or("speed not told".to_owned(), print_bps);
    let supported = nic.speed_supported_mbps.filter(|can| nic.speed_mbps.is_some_and(|has| has < *can));
    let supported = supported.map(|mbps| format!(" of {}", print_bps(f64::from(mbps) * 1e6))).unwrap_or_default();
    let duplex = nic.duplex.as_ref().map(|duplex| format!(", {duplex} duplex")).unwrap_or_default();
    let mtu = nic.mtu_bytes.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    format!("{state}, {speed}{supported}{duplex}{mtu}")
}

fn switches(map: &BTreeMap<String, bool>) -> String {
    map.iter().map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" })).collect::<Vec<_>>().join(", ")
}

/// Offloads that change what a packet costs, by ethtool's short names.
fn offloads(port: &Port) -> String {
    const SHOWN: [(&str, &str); 9] = [
        ("rx-checksum", "rx"),
        ("tx-checksum-ip-generic", "tx"),
        ("tx-tcp-segmentation", "tso"),
        ("tx-generic-segmentation", "gso"),
        ("rx-gro", "gro"),
        ("rx-lro", "lro"),
        ("rx-gro-hw", "hw-gro"),
        ("tx-udp-segmentation", "udp-gso"),
        ("rx-ntuple-filter", "ntuple"),
    ];
    let known: Vec<(&str, bool)> =
        SHOWN.iter().filter_map(|(feature, name)| Some((*name, port.nic.feature(feature)?))).collect();
    let list = |wanted: bool| {
        let names: Vec<&str> = known.iter().filter(|(_, on)| *on == wanted).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    if known.is_empty() { String::new() } else { format!("on: {}; off: {}", list(true), list(false)) }
}

fn coalescing(port: &Port) -> String {
    let mut figures: Vec<String> = port
        .nic
        .coalesce
        .iter()
        .filter(|(_, value)| **value > 0)
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    for (direction, steps) in &port.nic.coalesce_profiles {
        let steps: Vec<String> = steps.iter().map(|step| format!("{}us/{}", step.usecs, step.frames)).collect();
        figures.push(format!("profile {direction} {}", steps.join(" ")));
    }
    if figures.is_empty() && !port.nic.coalesce.is_empty() { "all zero".into() } else { figures.join(", ") }
}

/// `rx 512 of 4096`.
fn sizes(map: &BTreeMap<String, u32>) -> String {
    let each = map.iter().filter(|(name, value)| !name.ends_with("-max") && **value > 0);
    let each = each.map(|(name, value)| match map.get(&format!("{name}-max")) {
        Some(most) => format!("{name} {value} of {most}"),
        None => format!("{name} {value}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn rss(port: &Port) -> Option<String> {
    let rss = port.nic.rss.as_ref()?;
    let hash = match rss.hash_function {
        Some(1) => "Toeplitz",
        Some(2) => "XOR",
        Some(4) => "CRC32",
        _ => "hash not told",
    };
    let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
    rss.indirection.iter().for_each(|queue| *entries.entry(*queue).or_default() += 1);
    let (least, most) = (entries.values().min().copied().unwrap_or(0), entries.values().max().copied().unwrap_or(0));
    let rules = port.nic.ntuple_rules.filter(|rules| *rules > 0).map(|rules| format!(", {rules} ntuple rules"));
    let table = match (rss.indirection.len(), least == most) {
        (0, _) => "no table".to_owned(),
        (all, true) => format!("{all} entries, {most} for each of {} queues", entries.len()),
        (all, false) => format!("{all} entries, {least} to {most} for each of {} queues", entries.len()),
    };
    Some(format!("{hash}, {table}{}", rules.unwrap_or_default()))
}

fn interrupts(port: &Port) -> String {
    let irqs: Vec<&super::Irq> = port.queue_irqs().collect();
    if irqs.is_empty() {
        return if port.nic.is_physical() { "none by name".to_owned() } else { String::new() };
    }
    if irqs.len() > MOST_QUEUES {
        let mut cpus: BTreeMap<String, usize> = BTreeMap::new();
        irqs.iter().for_each(|irq| *cpus.entry(list_of_cpus(irq.cpus())).or_default() += 1);
        let each: Vec<String> = cpus.iter().map(|(cpus, irqs)| format!("{irqs} on CPU {cpus}")).collect();
        return format!("{} for queues: {}", irqs.len(), each.join(", "));
    }
    let one = |irq: &&super::Irq| {
        let direction = match irq.direction {
            Some(Direction::Receive) => "rx",
            Some(Direction::Transmit) => "tx",
            _ => "rx+tx",
        };
        let queue = irq.queue.map(|queue| format!(" {queue}")).unwrap_or_default();
        format!("{direction}{queue}: irq {} on CPU {}", irq.number, list_of_cpus(irq.cpus()))
    };
    irqs.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn napi(port: &Port) -> String {
    let nic = &port.nic;
    let mut parts = Vec::new();
    if !nic.napis.is_empty() {
        parts.push(format!("{} instance{}", nic.napis.len(), if nic.napis.len() == 1 { "" } else { "s" }));
        let threads = nic.napis.iter().filter(|napi| napi.thread_pid.is_some()).count();
        if threads > 0 {
            parts.push(format!("{threads} in threads"));
        }
        let own = |wanted: &dyn Fn(&crate::nic::netdev::Napi) -> Option<u32>| {
            nic.napis.iter().filter_map(wanted).filter(|value| *value > 0).max()
        };
        for (name, value) in [
            ("defer-hard-irqs", own(&|napi| napi.defer_hard_irqs)),
            ("gro-flush-timeout (ns)", own(&|napi| napi.gro_flush_timeout_ns)),
            ("irq-suspend-timeout (ns)", own(&|napi| napi.irq_suspend_timeout_ns)),
        ] {
            parts.extend(value.map(|value| format!("{name} up to {value}")));
        }
    }
    let set = nic.napi_settings.iter().filter(|(_, value)| **value > 0);
    parts.extend(set.map(|(name, value)| format!("{name} {value}")));
    parts.join(", ")
}

fn steering(port: &Port) -> String {
    let used = |masks: &[String]| {
        let sets = masks.iter().filter_map(|mask| cpus_of_mask(mask)).filter(|cpus| !cpus.is_empty());
        let sets: Vec<String> = sets.map(|cpus| list_of_cpus(&cpus)).collect();
        if sets.is_empty() { "off".to_owned() } else { format!("CPUs {}", sets.join(" / ")) }
    };
    let rfs = port.nic.rps_flow_counts.iter().max().copied().unwrap_or(0);
    let rfs = if rfs > 0 { format!("{rfs} flows a queue") } else { "off".to_owned() };
    format!("RPS {}, RFS {rfs}, XPS {}", used(&port.nic.rps_cpus), used(&port.nic.xps_cpus))
}

fn stack(inspection: &Inspection) -> Facts {
    let sysctl = |name: &str| inspection.host.sysctls.get(name).map(String::as_str).unwrap_or("?");
    let network = &inspection.network;
    let sum = |counter: fn(&crate::softnet::SoftnetStat) -> u32| {
        inspection.counters.softnet.iter().map(|stat| u64::from(counter(stat))).sum::<u64>()
    };
    facts([
        (
            "softirq",
            Some(format!(
                "budget {} packets, {} us; weight {}; backlog {} packets a CPU",
                sysctl("net.core.netdev_budget"),
                sysctl("net.core.netdev_budget_usecs"),
                sysctl("net.core.dev_weight"),
                sysctl("net.core.netdev_max_backlog"),
            )),
        ),
        (
            "since boot",
            Some(format!(
                "{} packets processed, {} dropped at a backlog, {} rounds cut short",
                sum(|stat| stat.processed),
                sum(|stat| stat.dropped),
                sum(|stat| stat.time_squeeze),
            )),
        ),
        (
            "sockets",
            Some(format!(
                "rmem_max {}, wmem_max {}, tcp_rmem {}, tcp_wmem {}",
                sysctl("net.core.rmem_max"),
                sysctl("net.core.wmem_max"),
                sysctl("net.ipv4.tcp_rmem"),
                sysctl("net.ipv4.tcp_wmem"),
            )),
        ),
        (
            "TCP",
            Some(format!(
                "{} (available: {})",
                sysctl("net.ipv4.tcp_congestion_control"),
                sysctl("net.ipv4.tcp_available_congestion_control"),
            )),
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

fn netfilter(network: &super::Network) -> String {
    let parts = if network.netfilter.is_empty() { "nothing loaded".to_owned() } else { network.netfilter.join(", ") };
    match (network.conntrack_entries, network.conntrack_max) {
        (Some(entries), Some(most)) => format!("{parts}; {entries} of {most} connections tracked"),
        _ => parts,
    }
}

/// Reasons, each with what it stands for.
fn not_had(inspection: &Inspection, ports: &[&Port]) -> Vec<String> {
    let mut lines: Vec<String> = inspection.missing.values().cloned().collect();
    if !inspection.host.root {
        lines.push("not root: what only root may read is left out".into());
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
