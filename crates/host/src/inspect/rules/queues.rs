//! Queues, who is dealt to them, and how much they hold.

use super::{Aim, Look, Rule, Seen, count, seen};
use crate::inspect::{Inspection, Port};
use netcliff_core::inspection::{Objective, Severity};

/// Preamble, start delimiter, gap and the smallest frame (bytes): the most frames a second a link can bring.
const SMALLEST_ON_WIRE_BYTES: f64 = 84.0;
/// Share of the RSS table over its mean from which a queue is called overloaded. With 128 entries no number of queues
/// up to 16 deals worse than 9 to 8 (12.5 %) when entries are dealt in turn.
const SKEW: f64 = 1.25;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "queues-few",
        why: "receive work can be on as many CPUs as there are queues, and more of both are there",
        source: "Documentation/networking/scaling.rst, RSS: Suggested Configuration",
        look: Look::Port(few),
    },
    Rule {
        id: "queues-many",
        why: "more queues than CPUs put several interrupts on a CPU without sharing the work further, and each has less to \
              poll at a time",
        source: "Documentation/networking/scaling.rst, RSS: Suggested Configuration",
        look: Look::Port(many),
    },
    Rule {
        id: "rss-skew",
        why: "the queue that is dealt most reaches its cliff first, and the host with it",
        source: "docs/theory/queues.md; Documentation/networking/scaling.rst, RSS",
        look: Look::Port(skew),
    },
    Rule {
        id: "ring-small",
        why: "while the CPU has not yet polled, the ring alone holds what arrives; a burst at line rate overflows it",
        source: "docs/theory/host.md (ring B); Documentation/networking/napi.rst",
        look: Look::Port(ring),
    },
    Rule {
        id: "coalesce-adaptive",
        why: "adaptive coalescing lengthens the wait whenever the rate rises, up to 256 us in the kernel's own profiles",
        source: "lib/dim/net_dim.c; Documentation/networking/net_dim.rst",
        look: Look::Port(adaptive),
    },
];

/// Cores that the port's queues may use: those of its node, or all.
fn cores(inspection: &Inspection, port: &Port) -> usize {
    let near = port.nic.numa_node.map(|node| inspection.node_cpus(node)).filter(|cpus| !cpus.is_empty());
    let usable = inspection.usable_cpus();
    let cpus = usable.iter().filter(|cpu| near.as_ref().is_none_or(|near| near.contains(cpu)));
    let cores: std::collections::BTreeSet<Vec<u32>> = cpus.map(|cpu| inspection.core_of(*cpu)).collect();
    cores.len()
}

fn few(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let queues = port.receive_queues()? as usize;
    let (kind, most) = most(port)?;
    let cores = cores(inspection, port);
    let better = cores.min(most as usize);
    if queues >= better {
        return None;
    }
    seen(
        Severity::Warning,
        format!("{} for {}; the device has {most}", count(queues, "receive queue"), count(cores, "core")),
        [format!("ethtool -L {} {kind} {better}", port.nic.name)],
    )
}

/// Kind of channel that receives and how many the device has.
fn most(port: &Port) -> Option<(&'static str, u32)> {
    let channel = |name: &str| port.nic.channels.get(name).copied().filter(|most| *most > 0);
    channel("combined-max").map(|most| ("combined", most)).or_else(|| channel("rx-max").map(|most| ("rx", most)))
}

fn many(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let queues = port.receive_queues()? as usize;
    let cpus = inspection.usable_cpus().len();
    let (kind, _) = most(port)?;
    // The driver's own default is at most a queue a CPU.
    if queues <= cpus.max(1) || queues < 2 {
        return None;
    }
    let cores = cores(inspection, port).max(1);
    seen(
        Severity::Note,
        format!("{} for {}", count(queues, "receive queue"), count(cpus, "usable CPU")),
        [format!("ethtool -L {} {kind} {cores}", port.nic.name)],
    )
}

fn skew(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let table = &port.nic.rss.as_ref()?.indirection;
    let queues = port.receive_queues()? as usize;
    if table.is_empty() || queues < 2 {
        return None;
    }
    let mut entries = vec![0_usize; queues.max(table.iter().max().map_or(0, |most| *most as usize + 1))];
    table.iter().for_each(|queue| entries[*queue as usize] += 1);
    let mean = table.len() as f64 / queues as f64;
    let (fullest, most) = entries.iter().enumerate().max_by_key(|(_, entries)| **entries)?;
    let unused = entries[..queues].iter().filter(|entries| **entries == 0).count();
    // A table shorter than the queues cannot reach them all.
    if (*most as f64) <= SKEW * mean.max(1.0) && (unused == 0 || table.len() < queues) {
        return None;
    }
    seen(
        if unused > queues / 2 { Severity::Fault } else { Severity::Warning },
        format!(
            "queue {fullest} has {most} of {} entries, {:.2} times the mean; {} without any",
            table.len(),
            *most as f64 / mean,
            count(unused, "queue"),
        ),
        [format!("ethtool -X {} equal {queues}", port.nic.name)],
    )
}

/// The longest wait from a frame's arrival to the poll that takes it, idle CPU (s): the interrupt's delay and the wake-up
/// from the deepest idle state; with deferred interrupts the flush timeout.
pub(super) fn poll_delay_s(inspection: &Inspection, port: &Port) -> (f64, String) {
    let figure = |map: &str| port.nic.coalesce.get(map).copied().unwrap_or(0);
    let high = if figure("adaptive-rx") == 1 { figure("rx-usecs-high") } else { 0 };
    let usecs = f64::from(figure("rx-usecs").max(high));
    let idle = inspection.host.cpu.idle_states.iter().filter(|state| !state.disabled);
    let exit = idle.filter_map(|state| state.exit_latency_us).max().unwrap_or(0) as f64;
    let deferred = port.nic.napi_settings.get("napi_defer_hard_irqs").is_some_and(|polls| *polls > 0);
    let flush_ns = port.nic.napi_settings.get("gro_flush_timeout").copied().filter(|_| deferred).unwrap_or(0);
    let flush = flush_ns as f64 / 1e3;
    let mut parts = vec![format!("rx-usecs {usecs:.0}")];
    if exit > 0.0 {
        parts.push(format!("wake-up {exit:.0} us"));
    }
    if flush > 0.0 {
        parts.push(format!("gro_flush_timeout {flush:.0} us"));
    }
    ((usecs + exit + flush) * 1e-6, parts.join(" + "))
}

fn ring(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let (ring, most) = (*port.nic.rings.get("rx")?, *port.nic.rings.get("rx-max")?);
    let (delay_s, how) = poll_delay_s(inspection, port);
    let line_pps = port.link_bps()? / (8.0 * SMALLEST_ON_WIRE_BYTES);
    let burst = (line_pps * delay_s).ceil();
    if f64::from(ring) >= burst || ring >= most {
        return None;
    }
    let wanted = (burst as u32).max(1).next_power_of_two().min(most);
    seen(
        Severity::Warning,
        format!(
            "{ring} slots; {how} is {:.0} us, in which a line of {:.2} M 64-byte frames/s brings {burst:.0}",
            delay_s * 1e6,
            line_pps / 1e6
        ),
        [format!("ethtool -G {} rx {wanted}", port.nic.name)],
    )
}

fn adaptive(_: &Inspection, port: &Port, aim: &Aim) -> Option<Seen> {
    if aim.objective != Some(Objective::Latency) || port.nic.coalesce.get("adaptive-rx") != Some(&1) {
        return None;
    }
    seen(
        Severity::Warning,
        "adaptive-rx is on, and latency is wanted".to_owned(),
        [format!("ethtool -C {} adaptive-rx off rx-usecs 8", port.nic.name)],
    )
}
