//! Finds lost packets, and CPUs that did not keep up.

use super::{Aim, Look, Rule, Seen, count, seen};
use crate::inspect::{Growth, Inspection, Port};
use crate::rtnl::RING_COUNTERS;
use netcliff_core::{inspection::Severity, quote::shell};

/// Largest share of lost packets, counted since boot, that is not reported. Any loss during the inspection is reported.
const OLD_LOSS: f64 = 1e-4;

/// Squeezes since boot that are not reported: the start of the host causes some.
const OLD_SQUEEZES: f64 = 10.0;

/// Bounds of the CPU time of one packet in a softirq (us). The lower bound is less than an XDP drop in the driver
/// takes, the upper one more than a bridge with a firewall takes; measured values are 0.1 to 6 us (docs/accuracy.md).
/// If a round's packet limit and time limit meet at a value between them, either limit may end the round.
const FASTEST_PACKET_US: f64 = 0.05;
const SLOWEST_PACKET_US: f64 = 50.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "ring-drops",
        why: "the receive ring was full: reception got too little CPU time, or the ring is too small for the bursts",
        source: "Documentation/networking/statistics.rst (rx_missed_errors, rx_fifo_errors)",
        look: Look::Port(ring),
    },
    Rule {
        id: "softnet-drops",
        why: "a CPU's backlog was full: packets that RPS or a virtual link brought were dropped after the work of receiving \
              them was done",
        source: "net/core/dev.c, enqueue_to_backlog; Documentation/admin-guide/sysctl/net.rst, netdev_max_backlog",
        look: Look::Host(softnet),
    },
    Rule {
        id: "time-squeeze",
        why: "a softirq round ended with packets left: the CPU is at its limit, or the packet budget or time limit of a round is too \
              small for the bursts",
        source: "net/core/dev.c, net_rx_action; Documentation/admin-guide/sysctl/net.rst, netdev_budget",
        look: Look::Host(squeeze),
    },
];

/// A count in words: its growth while watching, or the total since boot.
fn amount(growth: Option<(u64, f64)>, since_boot: u64) -> String {
    match growth {
        Some((grown, seconds)) if grown > 0 => format!("{grown} in {seconds:.1} s"),
        Some((_, seconds)) => format!("{since_boot} since boot, none in the last {seconds:.1} s"),
        None => format!("{since_boot} since boot"),
    }
}

/// The end of a remark about a counter that may be old.
fn advice(rising: bool) -> &'static str {
    if rising { "" } else { "; act only if the count grows" }
}

fn ring(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let name = &port.nic.name;
    // Drivers report one loss under several names, so the largest count is taken, not the sum.
    let total = RING_COUNTERS.iter().map(|counter| inspection.counters.of(name, counter)).max()?;
    let grown = inspection.growth.as_ref().map(|growth| {
        (RING_COUNTERS.iter().map(|counter| growth.of(name, counter)).max().unwrap_or(0), growth.seconds)
    });
    let rising = grown.is_some_and(|(grown, _)| grown > 0);
    let received = inspection.counters.of(name, "rx_packets");
    if !rising && (total as f64) <= OLD_LOSS * received as f64 {
        return None;
    }
    let more = match (port.nic.rings.get("rx"), port.nic.rings.get("rx-max")) {
        (Some(ring), Some(most)) if ring < most => vec![format!("ethtool -G {} rx {most}", shell(name))],
        _ => vec![format!("netcliff tune plan --objective throughput --if={}", shell(name))],
    };
    let severity = if rising { Severity::Fault } else { Severity::Note };
    seen(severity, format!("packets lost at the ring: {}{}", amount(grown, total), advice(rising)), more)
}

/// A softnet counter summed over the CPUs: its value since boot, its growth, and the CPUs.
fn softnet_sum(
    inspection: &Inspection,
    counter: fn(&crate::softnet::SoftnetStat) -> u32,
) -> (u64, Option<(u64, f64)>, Vec<u32>) {
    let sum = |stats: &[crate::softnet::SoftnetStat]| stats.iter().map(|stat| u64::from(counter(stat))).sum();
    let grown = |growth: &Growth| (sum(&growth.softnet), growth.seconds);
    let grew = |growth: &&Growth| growth.softnet.iter().any(|stat| counter(stat) > 0);
    let rising = inspection.growth.as_ref().filter(grew);
    let which = rising.map_or(&inspection.counters.softnet, |growth| &growth.softnet);
    let cpus = which.iter().filter(|stat| counter(stat) > 0).map(|stat| stat.cpu).collect();
    (sum(&inspection.counters.softnet), inspection.growth.as_ref().map(grown), cpus)
}

fn processed(inspection: &Inspection) -> u64 {
    inspection.counters.softnet.iter().map(|stat| u64::from(stat.processed)).sum()
}

/// A counter that is too high.
pub(crate) struct Pressure {
    /// Growth while watching if the counter grew, otherwise the value since boot.
    pub(crate) count: u64,
    pub(crate) rising: bool,
}

impl Pressure {
    fn of((total, grown, _): &(u64, Option<(u64, f64)>, Vec<u32>), few: f64) -> Option<Pressure> {
        let grown = grown.map(|(grown, _)| grown).filter(|grown| *grown > 0);
        (grown.is_some() || *total as f64 > few)
            .then(|| Pressure { count: grown.unwrap_or(*total), rising: grown.is_some() })
    }
}

/// Packets lost at the backlogs; `None` if too few to report.
pub(crate) fn backlog_losses(inspection: &Inspection) -> Option<Pressure> {
    let few = OLD_LOSS * processed(inspection) as f64;
    Pressure::of(&softnet_sum(inspection, |stat| stat.dropped), few)
}

/// Softirq rounds that ended with packets left; `None` if too few to report.
pub(crate) fn squeezes(inspection: &Inspection) -> Option<Pressure> {
    // A squeeze is counted at most once per budget of packets. It is reported if more than one budget in ten ended in a
    // squeeze.
    let budget = inspection.sysctl("net.core.netdev_budget")?;
    let few = (0.1 * processed(inspection) as f64 / budget.max(1) as f64).max(OLD_SQUEEZES);
    Pressure::of(&softnet_sum(inspection, |stat| stat.time_squeeze), few)
}

fn softnet(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let (total, grown, cpus) = softnet_sum(inspection, |stat| stat.dropped);
    let rising = backlog_losses(inspection)?.rising;
    // If the sysctl cannot be read (in a network namespace other than the host's), it cannot be set either.
    let backlog = inspection.sysctl("net.core.netdev_max_backlog")?;
    seen(
        if rising { Severity::Fault } else { Severity::Note },
        format!(
            "packets lost at the backlog, all interfaces: {} (CPU {}; netdev_max_backlog {backlog}){}",
            amount(grown, total),
            crate::procfs::list_of_cpus(&cpus),
            advice(rising)
        ),
        [format!("sysctl -w net.core.netdev_max_backlog={}", backlog * 2)],
    )
}

fn squeeze(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let (total, grown, cpus) = softnet_sum(inspection, |stat| stat.time_squeeze);
    let rising = squeezes(inspection)?.rising;
    let budget = inspection.sysctl("net.core.netdev_budget")?;
    let usecs = inspection.sysctl("net.core.netdev_budget_usecs")?;
    // Duration of a round that uses the whole budget: compared with the time limit, it shows which limit ends a round
    // first, or that either may.
    let least_us = budget as f64 * FASTEST_PACKET_US;
    let most_us = budget as f64 * SLOWEST_PACKET_US;
    let [by_count, by_time] = [least_us <= usecs as f64, most_us >= usecs as f64];
    let remedies = [
        by_count.then(|| format!("sysctl -w net.core.netdev_budget={}", budget * 2)),
        by_time.then(|| format!("sysctl -w net.core.netdev_budget_usecs={}", usecs * 2)),
    ];
    let binds = match (by_count, by_time) {
        (false, _) => "; only the time limit can end a round",
        (_, false) => "; only the packet budget can end a round",
        _ => "",
    };
    seen(
        if rising { Severity::Warning } else { Severity::Note },
        format!(
            "softirq rounds cut short, all interfaces: {} ({}; limits of a round: {budget} packets, {usecs} us{binds})\
             {}",
            amount(grown, total),
            count(cpus.len(), "CPU"),
            advice(rising),
        ),
        remedies.into_iter().flatten(),
    )
}
