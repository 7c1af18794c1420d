//! Checks how queues share the flows, and how many packets they hold.

use super::{Aim, Look, Rule, Seen, count, seen};
use crate::inspect::{Inspection, Port};
use crate::nic::{classify::HashFields, moderation::Moderation};
use netcliff_core::inspection::{Objective, Severity};
use netcliff_core::quote::shell;
use std::collections::BTreeSet;

/// Size of the smallest frame with preamble, start delimiter and gap (bytes); it gives the highest frame rate of a
/// link.
const SMALLEST_ON_WIRE_BYTES: f64 = 84.0;
/// A queue is overloaded if it has more than this many times the mean number of entries in the RSS table. If 128
/// entries are assigned round robin to up to 16 queues, the fullest queue has at most 1.1 times the mean (14 queues: 10
/// entries, mean 9.1).
const SKEW: f64 = 1.25;

/// Interrupt delay for the latency objective (us): a few packet times, so that a burst still causes one interrupt.
pub(crate) const SHORT_DELAY_US: u32 = 8;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "queues-few",
        why: "each queue is served by one CPU at a time: more queues would spread the receive work over more cores",
        source: "Documentation/networking/scaling.rst, RSS: Suggested Configuration",
        look: Look::Port(few),
    },
    Rule {
        id: "queues-many",
        why: "more queues than CPUs do not spread the work further: a CPU serves several queues, and a poll of each finds fewer packets",
        source: "Documentation/networking/scaling.rst, RSS: Suggested Configuration",
        look: Look::Port(many),
    },
    Rule {
        id: "rss-skew",
        why: "the queue with the most entries reaches its cliff first, and the host with it",
        source: "docs/theory/queues.md; Documentation/networking/scaling.rst, RSS",
        look: Look::Port(skew),
    },
    Rule {
        id: "rss-ports",
        why: "all packets between two hosts have the same hash, so that one queue and its CPU handle all of them while others are \
              idle; with ports hashed, fragments, which have no ports, may go to another queue than the rest of their flow",
        source: "Documentation/networking/scaling.rst, RSS; ethtool(8), rx-flow-hash",
        look: Look::Port(ports_not_hashed),
    },
    Rule {
        id: "ring-small",
        why: "until the CPU polls, arriving frames wait in the ring; a burst at line rate overflows it",
        source: "docs/theory/host.md (ring B); Documentation/networking/napi.rst",
        look: Look::Port(ring),
    },
    Rule {
        id: "coalesce-adaptive",
        why: "adaptive coalescing lengthens the interrupt delay when the packet rate rises, up to 256 us in the kernel's own profiles",
        source: "lib/dim/net_dim.c; Documentation/networking/net_dim.rst",
        look: Look::Port(adaptive),
    },
];

/// The usable CPUs on the port's node; all usable CPUs if the node has none.
pub(crate) fn near_cpus(inspection: &Inspection, port: &Port) -> Vec<u32> {
    let near = port.nic.numa_node.map(|node| inspection.node_cpus(node)).unwrap_or_default();
    let usable = inspection.usable_cpus();
    let local: Vec<u32> = usable.iter().copied().filter(|cpu| near.contains(cpu)).collect();
    if local.is_empty() { usable } else { local }
}

/// Number of cores that the CPUs of [`near_cpus`] belong to.
pub(crate) fn near_cores(inspection: &Inspection, port: &Port) -> usize {
    let cpus = near_cpus(inspection, port);
    cpus.iter().map(|cpu| inspection.core_of(*cpu)).collect::<BTreeSet<Vec<u32>>>().len()
}

fn few(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let queues = port.receive_queues()? as usize;
    let (kind, most) = most_queues(port)?;
    let cores = near_cores(inspection, port);
    let better = cores.min(most as usize);
    if queues >= better {
        return None;
    }
    seen(
        Severity::Warning,
        format!("{} for {}; the device supports {most}", count(queues, "receive queue"), count(cores, "core")),
        [format!("ethtool -L {} {kind} {better}", shell(&port.nic.name))],
    )
}

/// The kind of channels that receive, and the largest number that the device supports.
pub(crate) fn most_queues(port: &Port) -> Option<(&'static str, u32)> {
    let channel = |name: &str| port.nic.channels.get(name).copied().filter(|most| *most > 0);
    channel("combined-max").map(|most| ("combined", most)).or_else(|| channel("rx-max").map(|most| ("rx", most)))
}

fn many(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let queues = port.receive_queues()? as usize;
    let cpus = inspection.usable_cpus().len();
    let (kind, _) = most_queues(port)?;
    // Drivers use at most one queue per CPU by default.
    if queues <= cpus.max(1) || queues < 2 {
        return None;
    }
    let cores = near_cores(inspection, port).max(1);
    seen(
        Severity::Note,
        format!("{} for {}", count(queues, "receive queue"), count(cpus, "usable CPU")),
        [format!("ethtool -L {} {kind} {cores}", shell(&port.nic.name))],
    )
}

/// The distribution of an RSS table's entries over the queues.
struct Deal {
    queues: usize,
    entries: usize,
    /// Number of the queue with the most entries, and its entries.
    fullest: (usize, usize),
    /// Number of queues without entries.
    unused: usize,
}

fn deal(port: &Port) -> Option<Deal> {
    let table = &port.nic.rss.as_ref()?.indirection;
    let queues = port.receive_queues()? as usize;
    if table.is_empty() || queues < 2 {
        return None;
    }
    let mut entries = vec![0_usize; queues.max(table.iter().max().map_or(0, |most| *most as usize + 1))];
    table.iter().for_each(|queue| entries[*queue as usize] += 1);
    let (fullest, most) = entries.iter().enumerate().max_by_key(|(_, entries)| **entries)?;
    let unused = entries[..queues].iter().filter(|entries| **entries == 0).count();
    Some(Deal { queues, entries: table.len(), fullest: (fullest, *most), unused })
}

impl Deal {
    fn mean(&self) -> f64 {
        self.entries as f64 / self.queues as f64
    }

    fn skewed(&self) -> bool {
        // With fewer entries than queues some queues cannot have any.
        self.fullest.1 as f64 > SKEW * self.mean().max(1.0) || (self.unused > 0 && self.entries >= self.queues)
    }
}

/// Whether one queue has many more entries of the RSS table than the mean, or a queue has none.
pub(crate) fn is_skewed(port: &Port) -> bool {
    deal(port).is_some_and(|deal| deal.skewed())
}

fn skew(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let deal = deal(port).filter(Deal::skewed)?;
    seen(
        if deal.unused > deal.queues / 2 { Severity::Fault } else { Severity::Warning },
        format!(
            "queue {} has {} of {} entries of the RSS table, {:.2} times the mean; {} without any",
            deal.fullest.0,
            deal.fullest.1,
            deal.entries,
            deal.fullest.1 as f64 / deal.mean(),
            count(deal.unused, "queue"),
        ),
        [format!("ethtool -X {} equal {}", shell(&port.nic.name), deal.queues)],
    )
}

/// Kinds of packets that a device with several queues hashes without their ports, with the fields that it hashes.
pub(crate) fn hashed_without_ports(port: &Port) -> Vec<(&str, HashFields)> {
    if port.receive_queues().is_none_or(|queues| queues < 2) {
        return Vec::new();
    }
    let known = port.nic.hash_fields.iter().filter_map(|(flow, fields)| Some((flow.as_str(), fields.parse().ok()?)));
    // For SCTP a device may support no other fields.
    known.filter(|(flow, fields): &(&str, HashFields)| !flow.starts_with("sctp") && !fields.has_ports()).collect()
}

fn ports_not_hashed(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let found = hashed_without_ports(port);
    let (_, first) = found.first()?;
    let flows: Vec<&str> = found.iter().map(|(flow, _)| *flow).collect();
    let udp = if flows.iter().any(|flow| flow.starts_with("udp")) { "UDP 4-tuple not hashed: " } else { "" };
    let set = |(flow, fields): &(&str, HashFields)| {
        format!("ethtool -N {} rx-flow-hash {flow} {}", shell(&port.nic.name), fields.with_ports())
    };
    seen(
        Severity::Warning,
        format!(
            "{udp}the queue of {} is chosen by {} ({first}); the interface has {}",
            flows.join(", "),
            first.in_words(),
            count(port.receive_queues()? as usize, "receive queue"),
        ),
        found.iter().map(set),
    )
}

/// Longest wait on an idle CPU from a frame's arrival to its poll (s), and its parts in words: the interrupt's delay,
/// the wake-up from the deepest idle state and, with deferred interrupts, the flush timeout.
pub(super) fn poll_delay_s(inspection: &Inspection, port: &Port) -> (f64, String) {
    let figure = port.nic.coalesce.get("rx-usecs").copied().unwrap_or(0);
    let (usecs, of) = match port.nic.moderation() {
        Some(Moderation::Adaptive { small_frames_us, word: Some(word), .. }) => {
            (small_frames_us.unwrap_or(word), format!("rx-usecs {word} (adaptive) up to"))
        }
        Some(Moderation::Adaptive { small_frames_us, .. }) => {
            (small_frames_us.unwrap_or(0).max(figure), "rx-usecs".to_owned())
        }
        Some(Moderation::Fixed(_)) | None => (figure, "rx-usecs".to_owned()),
    };
    let usecs = f64::from(usecs);
    let idle = inspection.host.cpu.idle_states.iter().filter(|state| !state.disabled);
    let exit = idle.filter_map(|state| state.exit_latency_us).max().unwrap_or(0) as f64;
    let deferred = port.nic.napi_settings.get("napi_defer_hard_irqs").is_some_and(|polls| *polls > 0);
    let flush_ns = port.nic.napi_settings.get("gro_flush_timeout").copied().filter(|_| deferred).unwrap_or(0);
    let flush = flush_ns as f64 / 1e3;
    let mut parts = vec![format!("{of} {usecs:.0}")];
    if exit > 0.0 {
        parts.push(format!("wake-up {exit:.0} us"));
    }
    if flush > 0.0 {
        parts.push(format!("gro_flush_timeout {flush:.0} us"));
    }
    ((usecs + exit + flush) * 1e-6, parts.join(" + "))
}

/// The highest rate of 64-byte frames on the link (frames/s); `None` if the speed is not known.
fn line_pps(port: &Port) -> Option<f64> {
    Some(port.link_bps()? / (8.0 * SMALLEST_ON_WIRE_BYTES))
}

/// The frames that arrive at line rate before a poll.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    /// Number of 64-byte frames.
    pub packets: f64,
    /// Longest wait for a poll (s).
    pub delay_s: f64,
    /// The parts of the wait, such as `rx-usecs 50 + wake-up 133 us`.
    pub how: String,
}

impl Burst {
    /// The burst of a port; `None` if the link does not report its speed.
    pub fn of(inspection: &Inspection, port: &Port) -> Option<Burst> {
        let (delay_s, how) = poll_delay_s(inspection, port);
        Some(Burst { packets: (line_pps(port)? * delay_s).ceil(), delay_s, how })
    }
}

/// Ring size that holds the burst between two polls; `None` if the ring is already large enough, or the device supports
/// no larger one.
pub(crate) fn ring_wanted(inspection: &Inspection, port: &Port) -> Option<u32> {
    let (ring, most) = (*port.nic.rings.get("rx")?, *port.nic.rings.get("rx-max")?);
    let burst = Burst::of(inspection, port)?.packets;
    let small = f64::from(ring) < burst && ring < most;
    small.then(|| (burst as u32).max(1).checked_next_power_of_two().unwrap_or(most).min(most))
}

fn ring(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let (wanted, ring) = (ring_wanted(inspection, port)?, *port.nic.rings.get("rx")?);
    let Burst { packets: burst, delay_s, how } = Burst::of(inspection, port)?;
    let line_pps = line_pps(port)?;
    seen(
        Severity::Warning,
        format!(
            "ring of {ring} slots; a frame may wait {:.0} us for its poll ({how}), in which line rate, {:.2} M 64-byte frames/s, brings {burst:.0}",
            delay_s * 1e6,
            line_pps / 1e6
        ),
        [format!("ethtool -G {} rx {wanted}", shell(&port.nic.name))],
    )
}

fn adaptive(_: &Inspection, port: &Port, aim: &Aim) -> Option<Seen> {
    let name = shell(&port.nic.name);
    let delay_us = port.nic.accepted_delay_us(SHORT_DELAY_US);
    let (evidence, command) = match port.nic.moderation()? {
        _ if aim.objective != Some(Objective::Latency) => return None,
        Moderation::Fixed(_) => return None,
        Moderation::Adaptive { word: None, .. } => {
            ("adaptive-rx is on".to_owned(), format!("ethtool -C {name} adaptive-rx off rx-usecs {delay_us}"))
        }
        Moderation::Adaptive { word: Some(word), most_us, .. } => {
            let driver = port.nic.driver.as_deref().unwrap_or("this driver");
            let most = most_us.map(|most| format!(", up to {most} us")).unwrap_or_default();
            let evidence = format!("rx-usecs {word} is no delay: to {driver} it means adaptive{most}");
            (evidence, format!("ethtool -C {name} rx-usecs {delay_us}"))
        }
    };
    seen(Severity::Warning, format!("{evidence}, and the objective is latency"), [command])
}
