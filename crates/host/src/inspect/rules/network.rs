//! Checks what the stack does with each packet, and how much a socket's buffers hold.

use super::{Aim, Look, Rule, Seen, seen};
use crate::inspect::{Inspection, Known, Port};
use netcliff_core::{inspection::Severity, quote::shell, units::print_bps};

/// Fill of the connection table from which the kernel may soon refuse connections (share).
const NEARLY_FULL: f64 = 0.9;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gro-off",
        why: "each TCP segment passes the stack alone instead of merged into up to 64 KiB: most of the CPU time of bulk TCP",
        source: "docs/theory/limits.md (offload gro); Documentation/networking/segmentation-offloads.rst",
        look: Look::Port(gro),
    },
    Rule {
        id: "conntrack-router",
        why: "each packet is looked up in the connection table, on a router and on a server alike; a full table drops packets of new flows",
        source: "Gasparakis and Waskiewicz 2010, Identifying the Bottlenecks; Documentation/networking/nf_conntrack-sysctl.rst",
        look: Look::Host(conntrack),
    },
    Rule {
        id: "socket-bdp",
        why: "a connection has at most one buffer of bytes in flight per round trip: a buffer below rate times round trip limits its rate",
        source: "RFC 7323, section 1.1; Documentation/networking/ip-sysctl.rst, tcp_rmem and tcp_wmem",
        look: Look::Port(sockets),
    },
    Rule {
        id: "mtu-path",
        why: "an MTU on the path is smaller than the sender's: each fragment costs as much as a packet, and a lost fragment loses the \
              whole packet; packets that must not be fragmented are lost until the sender learns the smaller MTU",
        source: "RFC 1191, section 3; RFC 8900, section 3; Documentation/networking/snmp_counter.rst",
        look: Look::Host(path),
    },
    Rule {
        id: "mtu-narrow",
        why: "larger packets are fragmented, or refused and sent again: UDP datagrams that fill the interface's MTU are fragmented or \
              lost on these paths; TCP has already adapted",
        source: "RFC 1191, section 3; RFC 8899, section 1.1; Documentation/networking/ip-sysctl.rst, ip_no_pmtu_disc",
        look: Look::Host(narrow),
    },
    Rule {
        id: "selinux",
        why: "with labelled networking each packet is checked against the policy, which costs CPU time per packet",
        source: "Gasparakis and Waskiewicz 2010, Identifying the Bottlenecks",
        look: Look::Host(selinux),
    },
];

fn gro(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    if port.nic.feature("rx-gro") != Some(false) {
        return None;
    }
    // A veth without GRO has no NAPI instance, which most set-ups intend.
    let severity = if port.nic.is_physical() { Severity::Warning } else { Severity::Note };
    seen(severity, "generic receive offload is off", [format!("ethtool -K {} gro on", shell(&port.nic.name))])
}

fn conntrack(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let network = &inspection.network;
    if !network.netfilter.iter().any(|part| part == "nf_conntrack") {
        return None;
    }
    let entries = network.conntrack_entries?;
    let most = network.conntrack_max.unwrap_or(0);
    let full = most > 0 && entries as f64 >= NEARLY_FULL * most as f64;
    let routes = inspection.routes();
    let severity = match (full, entries) {
        (true, _) => Severity::Fault,
        // On a server the lookup is a small part of a packet's cost; only a nearly full table matters.
        (false, _) if !routes => return None,
        (false, 0) => Severity::Note,
        (false, _) => Severity::Warning,
    };
    let mut commands = vec!["nft add rule raw prerouting notrack  # for traffic that needs no state".to_owned()];
    if full {
        commands.insert(0, format!("sysctl -w net.netfilter.nf_conntrack_max={}", most * 2));
    }
    let forwards = if routes { "forwarding is on and " } else { "" };
    seen(
        severity,
        format!("{forwards}conntrack is loaded; its table has {entries} of at most {most} connections"),
        commands,
    )
}

fn sockets(inspection: &Inspection, port: &Port, aim: &Aim) -> Option<Seen> {
    let link_bps = port.link_bps()?;
    let needed = (link_bps * aim.rtt_s / 8.0).ceil() as u64;
    let limits = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
    let small: Vec<(&str, u64)> = limits
        .into_iter()
        .filter_map(|name| Some((name, inspection.sysctl(name)?)))
        .filter(|(_, most)| *most < needed)
        .collect();
    if small.is_empty() {
        return None;
    }
    let names: Vec<String> = small.iter().map(|(name, most)| format!("{name} {most}")).collect();
    let set = |(name, _): &(&str, u64)| {
        let first = inspection.host.sysctls.get(*name).map(String::as_str).unwrap_or_default();
        let first: Vec<&str> = first.split(' ').take(2).collect();
        format!("sysctl -w {name}={}", shell(&format!("{} {needed}", first.join(" "))))
    };
    seen(
        Severity::Warning,
        format!(
            "{} times a round trip of {:.3} ms is {needed} bytes in flight; largest buffers allowed: {}",
            print_bps(link_bps),
            aim.rtt_s * 1e3,
            names.join(", ")
        ),
        small.iter().map(set),
    )
}

/// Reports only counters that grow: a fragment long ago says nothing about the paths in use.
fn path(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let growth = inspection.growth.as_ref()?;
    let grown = |name: &str| growth.ip.get(name).copied().unwrap_or(0);
    let kinds = [
        ("FragFails", "packets lost because they were too long"),
        ("FragCreates", "fragments made"),
        ("ReasmReqds", "fragments received"),
    ];
    let counts: Vec<String> = kinds
        .iter()
        .filter(|(name, _)| grown(name) > 0)
        .map(|(name, what)| format!("{} {what} ({name})", grown(name)))
        .collect();
    if counts.is_empty() {
        return None;
    }
    let severity = if grown("FragFails") > 0 { Severity::Fault } else { Severity::Warning };
    seen(
        severity,
        format!("in {:.1} s {}", growth.seconds, counts.join(", ")),
        [
            "tracepath DESTINATION  # where the path narrows, and to what".to_owned(),
            "sysctl -w net.ipv4.tcp_mtu_probing=1".to_owned(),
        ],
    )
}

/// MTU of standard Ethernet (bytes). An interface with a larger MTU is meant for a network segment that carries it.
const STANDARD_MTU: u32 = 1500;
/// Most paths that are named.
const MOST_NAMED: usize = 3;

fn narrow(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let paths = &inspection.network.narrow_paths;
    let named = paths.iter().take(MOST_NAMED).map(|path| {
        let by = path.interface.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
        let how = match path.known {
            Known::Route => "the route says so",
            Known::Discovery => "learned by path MTU discovery",
            Known::Connections => "its TCP connections use that",
        };
        format!(
            "MTU {} instead of {} bytes on the path to {}{by} ({how})",
            path.mtu_bytes, path.interface_mtu_bytes, path.destination
        )
    });
    let named: Vec<String> = named.collect();
    let more = if paths.len() > MOST_NAMED { format!("; {} more", paths.len() - MOST_NAMED) } else { String::new() };
    // Paths that leave a site often have a smaller MTU. On an interface with jumbo frames even a path in its own
    // segment may have one.
    let jumbo = paths.iter().any(|path| path.interface_mtu_bytes > STANDARD_MTU);
    let first = paths.first()?;
    seen(
        if jumbo { Severity::Warning } else { Severity::Note },
        named.join("; ") + &more,
        [format!(
            "tracepath -n {}  # where the path narrows",
            shell(first.destination.split('/').next().unwrap_or_default())
        )],
    )
}

fn selinux(inspection: &Inspection, _: &Aim) -> Option<Seen> {
    let enforcing = inspection.network.selinux.as_deref() == Some("enforcing");
    enforcing.then(|| seen(Severity::Note, "SELinux is enforcing", []))?
}
