//! Steps at the device: channels, rings, coalescing, RSS table, offloads, MTU.

use super::Draft;
use crate::{
    inspect::{Port, rules},
    nic::moderation::Moderation,
    setting::{Group, Setting, rss_table as rss_table_of},
};
use netcliff_core::inspection::Objective;

const GUIDE: &str = "Gasparakis and Waskiewicz 2010";

fn ethtool(port: &Port, group: Group, key: &str) -> Setting {
    Setting::Ethtool { interface: port.nic.name.clone(), group, key: key.to_owned() }
}

/// Proposes a value if the driver reports the setting.
fn propose(draft: &mut Draft<'_>, port: &Port, group: Group, key: &str, new: &str, reason: &str, source: &str) {
    if let Some(old) = crate::setting::figure(&port.nic, group, key) {
        draft.propose(ethtool(port, group, key), &old, new, reason, source);
    }
}

/// Proposes one queue per core of the device's node. Returns whether the number of queues changes.
pub(super) fn channels(draft: &mut Draft<'_>, port: &Port) -> bool {
    let (Some(queues), Some((kind, most))) = (port.receive_queues(), rules::most_queues(port)) else { return false };
    let wanted = (rules::near_cores(draft.inspection, port) as u32).clamp(1, most);
    let left_alone = draft.wants(Objective::Cpu) || draft.wish.channels_as_they_are;
    // Without a usable CPU the proposal would be one queue.
    if left_alone || queues == wanted || draft.inspection.usable_cpus().is_empty() {
        return false;
    }
    let before = draft.steps.len();
    propose(
        draft,
        port,
        Group::Channels,
        kind,
        &wanted.to_string(),
        "a receive queue for each core of the device's node",
        "Documentation/networking/scaling.rst, RSS: Suggested Configuration",
    );
    if draft.steps.len() == before {
        return false;
    }
    draft.note(format!(
        "{}: changing channels drops the link for a moment and resets the RSS table. `tune apply` and `tune try` then also plan \
         RSS, interrupts, XPS, RPS and NAPI of the new queues. If you apply a plan from a file (--plan), run `tune plan` again \
         after it",
        port.nic.name
    ));
    true
}

/// Proposes rings with space for the packets that arrive at line rate between two polls.
pub(super) fn rings(draft: &mut Draft<'_>, port: &Port) {
    if let Some(wanted) = rules::ring_wanted(draft.inspection, port) {
        propose(
            draft,
            port,
            Group::Rings,
            "rx",
            &wanted.to_string(),
            "holds the frames that line rate brings until the CPU polls",
            "docs/inspect.md, ring-small",
        );
    }
}

/// Delay of the receive interrupt (us) for an objective. Latency: short. CPU: long enough for a budget of packets.
/// Throughput: the initial delay of the Intel drivers, which is near DIM's middle profile.
fn delay_us(objective: Objective) -> u32 {
    match objective {
        Objective::Latency => rules::SHORT_DELAY_US,
        Objective::Cpu => 100,
        Objective::Throughput => 50,
    }
}

pub(super) fn coalescing(draft: &mut Draft<'_>, port: &Port) {
    let objective = draft.wish.objective;
    let has = |key: &str| port.nic.coalesce.contains_key(key);
    // A driver that reports only zeros for the delay cannot delay interrupts (virtio without the feature).
    if !has("rx-usecs") || !port.nic.is_physical() {
        return;
    }
    let source = "docs/theory/chains.md (coalescing); lib/dim/net_dim.c";
    let (adaptive, by_word) = match port.nic.moderation() {
        Some(Moderation::Adaptive { word, .. }) => (true, word.is_some()),
        _ => (false, false),
    };
    match objective {
        Objective::Latency if by_word => {}
        Objective::Latency => {
            let reason = "the delay must not grow with the rate";
            propose(draft, port, Group::Coalesce, "adaptive-rx", "0", reason, source);
        }
        // Adaptive coalescing serves both low and high rates and is left on.
        _ if adaptive => return,
        _ => {}
    }
    let reason = match objective {
        Objective::Latency => "a packet waits at most this long for its interrupt",
        Objective::Cpu => "fewer interrupts: more packets share each",
        Objective::Throughput => "interrupts are rare under load, and waits short at low load",
    };
    let usecs = port.nic.coalesce.get("rx-usecs").copied().unwrap_or(0);
    let wanted = port.nic.accepted_delay_us(delay_us(objective));
    // A present delay that serves the objective better is left unchanged.
    let better = match objective {
        Objective::Latency => usecs <= wanted && !by_word,
        Objective::Cpu => usecs >= wanted,
        Objective::Throughput => (wanted / 2..=2 * wanted).contains(&usecs),
    };
    if better {
        return;
    }
    propose(draft, port, Group::Coalesce, "rx-usecs", &wanted.to_string(), reason, source);
    if let Some(step) = draft.steps.last_mut().filter(|_| by_word) {
        let effect =
            format!("not predicted: rx-usecs {usecs} is adaptive to this driver, and how it adapts is not modelled");
        step.proposal.effect = Some(effect);
    }
}

/// Proposes an RSS table over all queues, round robin.
pub(super) fn rss_table(draft: &mut Draft<'_>, port: &Port) {
    let Some(old) = rss_table_of(&port.nic).filter(|_| rules::is_skewed(port)) else { return };
    let queues = port.receive_queues().unwrap_or(1).max(1);
    let entries = old.split(',').zip(0..).map(|(_, entry): (&str, u32)| (entry % queues).to_string());
    draft.propose(
        Setting::RssTable { interface: port.nic.name.clone() },
        &old,
        &entries.collect::<Vec<_>>().join(","),
        "gives every queue the same share of the flows",
        "docs/theory/queues.md",
    );
}

/// Proposes to hash ports, too, unless fragments arrive: fragments have no ports, and could overtake other packets of
/// their flow.
pub(super) fn hash_fields(draft: &mut Draft<'_>, port: &Port) {
    let found = rules::hashed_without_ports(port);
    let fragments = draft.inspection.counters.ip.get("ReasmReqds").copied().unwrap_or(0);
    if fragments > 0 && found.iter().any(|(flow, _)| flow.starts_with("udp")) {
        draft.note(format!(
            "{}: UDP is hashed without ports; not changed, since {fragments} fragments have come, which have none and could overtake \
             the rest: `netcliff tune set hash-udp4=sdfn --if {0}` does it all the same",
            port.nic.name
        ));
    }
    for (flow, fields) in found.into_iter().filter(|(flow, _)| fragments == 0 || !flow.starts_with("udp")) {
        draft.propose(
            Setting::HashFields { interface: port.nic.name.clone(), flow: flow.to_owned() },
            &fields.to_string(),
            &fields.with_ports().to_string(),
            "spreads flows between the same two hosts over several queues",
            "docs/inspect.md, rss-ports; Documentation/networking/scaling.rst",
        );
    }
}

pub(super) fn offloads(draft: &mut Draft<'_>, port: &Port) {
    let limits = "docs/theory/limits.md (offloads)";
    if draft.inspection.routes() {
        let reason = "this host forwards packets, and merged segments cannot be forwarded unchanged";
        let source = format!("{GUIDE}, Receive Side Coalescing");
        propose(draft, port, Group::Features, "rx-lro", "off", reason, &source);
    }
    if draft.wants(Objective::Latency) || !port.nic.is_physical() {
        return;
    }
    for (feature, reason) in [
        ("rx-gro", "segments pass the stack merged, which saves most of the receive CPU time of bulk TCP"),
        ("tx-tcp-segmentation", "the device cuts the segments: the stack handles up to 64 KiB at a time"),
        ("tx-generic-segmentation", "segments are cut only just before the driver"),
        ("rx-checksum", "the device computes checksums: the CPU does not read each byte for them"),
        ("tx-checksum-ip-generic", "the device computes checksums: the CPU does not read each byte for them"),
    ] {
        propose(draft, port, Group::Features, feature, "on", reason, limits);
    }
}

pub(super) fn mtu(draft: &mut Draft<'_>, port: &Port) {
    let (Some(wanted), Some(mtu)) = (draft.wish.mtu_bytes, port.nic.mtu_bytes) else { return };
    draft.propose(
        Setting::Mtu { interface: port.nic.name.clone() },
        &mtu.to_string(),
        &wanted.to_string(),
        "as requested by --mtu; every device of the network segment needs the same MTU",
        &format!("{GUIDE}, General Networking Resources"),
    );
}
