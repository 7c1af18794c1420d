//! The facts of an interface.

use super::{Facts, facts};
use crate::{
    inspect::{
        Direction, Port,
        rules::link::{Lane, lane},
        scheme::PortScheme,
    },
    nic::{Rss, classify::HashFields, netdev::Queue},
    procfs::{cpus_of_mask, list_of_cpus},
};
use netcliff_core::{tuning::describe_rss_table, units::print_bps};
use std::collections::BTreeMap;

/// Most queues shown one by one; of more queues the CPUs are shown together.
const MOST_QUEUES: usize = 8;

pub(super) fn interface(port: &Port, scheme: Option<PortScheme>) -> Facts {
    let nic = &port.nic;
    let not_reported = scheme.as_ref().and_then(|scheme| scheme.beside.clone());
    facts([
        ("driver", Some(driver(port))),
        ("bus", bus(port)),
        ("link", Some(link(port))),
        ("pause", Some(switches(&nic.pause))),
        ("offloads", Some(offloads(port))),
        ("coalescing", Some(coalescing(port))),
        ("per queue", of_queues(port)),
        ("rings", Some(sizes(&nic.rings))),
        ("channels", Some(sizes(&nic.channels))),
        ("RSS", rss(port)),
        ("RSS hash fields", hashed(port)),
        ("flow rules", flow_rules(port)),
        ("data placement", placing(port)),
        ("driver options", module(port)),
        ("interrupts", Some(interrupts(port))),
        ("NAPI", Some(napi(port))),
        ("netcliff scheme", scheme.and_then(as_text)),
        ("not reported", not_reported),
        ("RPS, RFS, XPS", Some(steering(port))),
        ("qdisc", Some(nic.qdiscs.join(", "))),
    ])
}

fn as_text(PortScheme { scheme, why, .. }: PortScheme) -> Option<String> {
    scheme.map(|scheme| scheme.to_string()).or_else(|| why.map(|why| format!("none describes it: {why}")))
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
        let carries = lane(port).map(|Lane { bus_bps, need_bps }| {
            let (carries, needs) = (print_bps(bus_bps), print_bps(need_bps));
            format!(" (carries {carries} of 1518-byte frames, line rate needs {needs})")
        });
        format!(", PCI Express {} x{}{most}{}", slot.generation, slot.lanes, carries.unwrap_or_default())
    });
    let node = nic.numa_node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
    Some(format!("{}{}{node}", nic.bus.as_ref()?, slot.unwrap_or_default()))
}

fn link(port: &Port) -> String {
    let nic = &port.nic;
    let state = if nic.up { nic.operational_state.as_deref().unwrap_or("up") } else { "administratively down" };
    let speed = port.link_bps().map_or("speed not reported".to_owned(), print_bps);
    let supported = nic.speed_supported_mbps.filter(|can| nic.speed_mbps.is_some_and(|has| has < *can));
    let supported = supported.map(|mbps| format!(" of {}", print_bps(f64::from(mbps) * 1e6))).unwrap_or_default();
    let duplex = nic.duplex.as_ref().map(|duplex| format!(", {duplex} duplex")).unwrap_or_default();
    let mtu = nic.mtu_bytes.map(|mtu| format!(", MTU {mtu}")).unwrap_or_default();
    format!("{state}, {speed}{supported}{duplex}{mtu}")
}

fn switches(map: &BTreeMap<String, bool>) -> String {
    map.iter().map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" })).collect::<Vec<_>>().join(", ")
}

/// The offloads that change the cost of a packet, by ethtool's short names.
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
    // A value of 0 is shown, too: it means that the device delays nothing. A setting that the device does not have is
    // not reported.
    let (switches, figures): (Vec<_>, Vec<_>) =
        port.nic.coalesce.iter().partition(|(name, _)| name.starts_with("adaptive-"));
    let (zero, set): (Vec<_>, Vec<_>) = figures.into_iter().partition(|(_, value)| **value == 0);
    let mut figures: Vec<String> = set.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    figures.extend(switches.into_iter().map(|(name, on)| format!("{name} {}", if *on > 0 { "on" } else { "off" })));
    for (direction, steps) in &port.nic.coalesce_profiles {
        let steps: Vec<String> = steps.iter().map(|step| format!("{}us/{}", step.usecs, step.frames)).collect();
        figures.push(format!("profile {direction} {}", steps.join(" ")));
    }
    let zero: Vec<&str> = zero.into_iter().map(|(name, _)| name.as_str()).collect();
    let zero = (!zero.is_empty()).then(|| format!("zero: {}", zero.join(" ")));
    [figures.join(", ")].into_iter().filter(|set| !set.is_empty()).chain(zero).collect::<Vec<_>>().join("; ")
}

/// The values of coalescing in which the queues differ, one value per queue; `None` if all queues are equal.
fn of_queues(port: &Port) -> Option<String> {
    let each = &port.nic.queue_coalesce;
    let first = each.first().filter(|first| each.iter().any(|other| other != *first))?;
    let keys = first.keys().filter(|key| each.iter().any(|other| other.get(*key) != first.get(*key)));
    let one = |key: &String| {
        let values = each.iter().map(|queue| queue.get(key).map_or("-".to_owned(), u32::to_string));
        format!("{key} {}", values.collect::<Vec<_>>().join(" / "))
    };
    Some(keys.map(one).collect::<Vec<_>>().join(", "))
}

/// The header fields that choose the receive queue, such as `sdfn tcp4 tcp6; sd udp4 udp6`.
fn hashed(port: &Port) -> Option<String> {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    port.nic.hash_fields.iter().for_each(|(flow, fields)| kinds.entry(fields).or_default().push(flow));
    let one = |(fields, flows): (&&str, &Vec<&str>)| {
        let flows = flows.join(" ");
        match fields.parse::<HashFields>().map(HashFields::in_words) {
            Ok("nothing") => format!("none for {flows}"),
            words => format!("{flows} by {} ({fields})", words.unwrap_or("unknown")),
        }
    };
    (!kinds.is_empty()).then(|| kinds.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// Most flow rules shown one by one.
const MOST_RULES: usize = 6;

fn flow_rules(port: &Port) -> Option<String> {
    let rules = &port.nic.flow_rules;
    let mut shown: Vec<String> =
        rules.iter().take(MOST_RULES).map(|rule| format!("{}: {}", rule.location, rule.rule)).collect();
    let more = rules.len().saturating_sub(MOST_RULES);
    shown.extend((more > 0).then(|| format!("{more} more")));
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// How the device places received packets: headers in separate buffers (header split), and hints to CPU caches (TPH).
fn placing(port: &Port) -> Option<String> {
    let nic = &port.nic;
    if !nic.is_physical() {
        return None;
    }
    let switch = |on: bool| if on { "on" } else { "off" };
    let split = nic.header_split.map(|on| format!("header split {}", switch(on)));
    let hints = nic.tph.map(|on| format!("TPH {}", switch(on)));
    // Intel's own packages of ixgbe and igb have these parameters; the kernel's drivers do not.
    let by_parameter = |prefix: &str, what: &str| {
        let found = nic.module_parameters.iter().find(|(name, _)| name.starts_with(prefix));
        found.map(|(name, value)| format!("{what} by {name}={value}"))
    };
    let (low_latency, direct) = (by_parameter("LLI", "low-latency interrupts"), by_parameter("DCA", "DCA"));
    let said: Vec<String> = [split, hints, direct, low_latency].into_iter().flatten().collect();
    Some(match said.is_empty() {
        true => "the driver reports none of header split, TPH, DCA, low-latency interrupts".to_owned(),
        false => said.join(", "),
    })
}

/// Most parameters of the driver's module that are shown.
const MOST_PARAMETERS: usize = 8;

fn module(port: &Port) -> Option<String> {
    let parameters = &port.nic.module_parameters;
    let mut shown: Vec<String> =
        parameters.iter().take(MOST_PARAMETERS).map(|(name, value)| format!("{name}={value}")).collect();
    let more = parameters.len().saturating_sub(MOST_PARAMETERS);
    shown.extend((more > 0).then(|| format!("{more} more")));
    (!shown.is_empty()).then(|| shown.join(" "))
}

/// Ring sizes, such as `rx 512 of 4096`.
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
        _ => "hash not reported",
    };
    let rules = port.nic.ntuple_rules.filter(|rules| *rules > 0).map(|rules| format!(", {rules} ntuple rules"));
    let table = if rss.indirection.is_empty() {
        "no indirection table reported".to_owned()
    } else {
        describe_rss_table(&rss.indirection)
    };
    let key = key(rss).map(|key| format!(", {key}")).unwrap_or_default();
    Some(format!("{hash}{key}, {table}{}", rules.unwrap_or_default()))
}

/// The first bytes of the hash key, enough to distinguish two keys.
fn key(rss: &Rss) -> Option<String> {
    const SHOWN: usize = 16;
    let bytes = rss.key_bytes.or(rss.key.as_ref().map(|key| key.len() / 2)).filter(|bytes| *bytes > 0)?;
    match &rss.key {
        Some(key) if key.len() > SHOWN => Some(format!("key {}.. ({bytes} bytes)", &key[..SHOWN])),
        Some(key) => Some(format!("key {key}")),
        None => Some(format!("key of {bytes} bytes")),
    }
}

fn interrupts(port: &Port) -> String {
    let irqs: Vec<&crate::inspect::Irq> = port.queue_irqs().collect();
    if irqs.is_empty() {
        return if port.nic.is_physical() { "none named after a queue".to_owned() } else { String::new() };
    }
    if irqs.len() > MOST_QUEUES {
        let mut cpus: BTreeMap<String, usize> = BTreeMap::new();
        irqs.iter().for_each(|irq| *cpus.entry(place(irq)).or_default() += 1);
        let each: Vec<String> = cpus.iter().map(|(cpus, irqs)| format!("{irqs} on {cpus}")).collect();
        return format!("{} for queues: {}", irqs.len(), each.join(", "));
    }
    let one = |irq: &&crate::inspect::Irq| {
        let direction = match irq.direction {
            Some(Direction::Receive) => "rx",
            Some(Direction::Transmit) => "tx",
            _ => "rx+tx",
        };
        let queue = irq.queue.map(|queue| format!(" {queue}")).unwrap_or_default();
        format!("{direction}{queue}: irq {} on {}", irq.number, place(irq))
    };
    irqs.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The CPUs that take an interrupt.
fn place(irq: &crate::inspect::Irq) -> String {
    match list_of_cpus(irq.cpus()) {
        cpus if cpus.is_empty() => "an unknown CPU".to_owned(),
        cpus => format!("CPU {cpus}"),
    }
}

/// The NAPI instance of each queue, by the kernel's ids.
fn napi_ids(port: &Port) -> Option<String> {
    let served: Vec<(&Queue, u32)> = port.nic.queues.iter().filter_map(|queue| Some((queue, queue.napi_id?))).collect();
    let one =
        |(queue, napi): &(&Queue, u32)| format!("{} {}: {napi}", if queue.receive { "rx" } else { "tx" }, queue.id);
    let more = served.len().saturating_sub(MOST_QUEUES);
    let mut shown: Vec<String> = served.iter().take(MOST_QUEUES).map(one).collect();
    shown.extend((more > 0).then(|| format!("{more} more")));
    (!shown.is_empty()).then(|| format!("ids of {}", shown.join(", ")))
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
    [parts.join(", ")].into_iter().filter(|said| !said.is_empty()).chain(napi_ids(port)).collect::<Vec<_>>().join("; ")
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
