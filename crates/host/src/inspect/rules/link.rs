//! Checks the link, the slot, and the size of frames.

use super::{Aim, Look, Rule, Seen, seen};
use crate::inspect::{Inspection, Port};
use crate::nic::is_paravirtual;
use netcliff_core::{Bus, inspection::Severity, parts::bus, quote::shell, units::print_bps};

/// Preamble, start delimiter and gap of a frame (bytes), IEEE 802.3.
const GAP_BYTES: f64 = 20.0;
/// Longest frame of a usual network, with FCS (bytes): the slot's overhead is smallest for it.
const FRAME_BYTES: f64 = 1518.0;

/// Operational states in which an interface that is administratively up carries nothing.
const CARRIES_NOTHING: [&str; 3] = ["not-present", "down", "lower-layer-down"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "link-down",
        why: "without a link the interface neither receives nor sends packets",
        source: "RFC 2863 (ifAdminStatus, ifOperStatus); Documentation/networking/operstates.rst",
        look: Look::Port(down),
    },
    Rule {
        id: "link-speed",
        why: "the link runs slower than the device supports: by the cable, the port of the far end or what an end advertises",
        source: "Gasparakis and Waskiewicz 2010, General Networking Resources",
        look: Look::Port(speed),
    },
    Rule {
        id: "link-duplex",
        why: "in half duplex a port cannot receive while it sends; a far end in full duplex then causes late collisions and loss",
        source: "IEEE 802.3 clause 4; Gasparakis and Waskiewicz 2010, General Networking Resources",
        look: Look::Port(duplex),
    },
    Rule {
        id: "pcie-narrow",
        why: "the PCI Express slot carries less than the link: the NIC loses frames even if the CPUs are idle",
        source: "Neugebauer et al., Understanding PCIe performance, SIGCOMM 2018, section 3; docs/theory/limits.md",
        look: Look::Port(slot),
    },
    Rule {
        id: "mtu-mismatch",
        why: "packets that fit one interface of the path do not fit the next: they are fragmented, refused with an ICMP \
              message, or, in a bridge, dropped without a message",
        source: "RFC 1191; net/bridge/br_forward.c (is_skb_forwardable)",
        look: Look::Port(mtu),
    },
];

fn is_made_up(port: &Port) -> bool {
    port.nic.driver.as_deref().is_some_and(is_paravirtual)
}

/// A link that is down is a warning if the page is about this interface only; among several it may be a spare one.
fn down(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let (nic, name) = (&port.nic, shell(&port.nic.name));
    let severity = if inspection.main_ports().len() == 1 { Severity::Warning } else { Severity::Note };
    if !nic.up {
        return seen(severity, "the link is administratively down", [format!("ip link set dev {name} up")]);
    }
    let state = nic.operational_state.as_deref().filter(|state| CARRIES_NOTHING.contains(state))?;
    if let Some(far) = port.far_end.as_ref().filter(|far| !far.is_up) {
        return seen(
            severity,
            format!("the far end of the veth pair, {} in netns {}, is administratively down", far.name, far.netns),
            [format!("ip link set dev {} up  # in netns {}", shell(&far.name), far.netns)],
        );
    }
    let look = match nic.is_physical() {
        true => format!("ethtool {name}  # look at the cable, its plugs and the port of the far end"),
        false => format!("ip -d link show dev {name}  # look at the interfaces that it depends on"),
    };
    seen(severity, format!("no carrier (operational state {state})"), [look])
}

fn speed(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    if is_made_up(port) {
        return None;
    }
    let (has, can) = (port.nic.speed_mbps?, port.nic.speed_supported_mbps?);
    let bps = |mbps: u32| print_bps(f64::from(mbps) * 1e6);
    (has < can).then(|| {
        let name = shell(&port.nic.name);
        seen(
            Severity::Warning,
            format!("the link runs at {}, the device supports {}", bps(has), bps(can)),
            [format!("ethtool -s {name} autoneg on"), format!("ethtool {name}  # what the far end advertises")],
        )
    })?
}

fn duplex(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    if port.nic.duplex.as_deref() != Some("half") {
        return None;
    }
    let how = if port.nic.autoneg == Some(false) { "set by hand" } else { "negotiated" };
    seen(Severity::Fault, format!("half duplex, {how}"), [format!("ethtool -s {} autoneg on", shell(&port.nic.name))])
}

/// A speed in Mbit/s, rounded for display.
fn whole_mbps(bps: f64) -> f64 {
    (bps / 1e6).round() * 1e6
}

/// What a port's slot can carry, and what its link needs at line rate, both for frames of 1518 bytes.
pub(in crate::inspect) struct Lane {
    /// The slot's capacity (bit/s).
    pub bus_bps: f64,
    /// The link's need (bit/s).
    pub need_bps: f64,
}

/// Capacity of the port's slot and need of its link; `None` if the slot or the link's speed is not reported, or if a
/// hypervisor invented them.
pub(in crate::inspect) fn lane(port: &Port) -> Option<Lane> {
    if is_made_up(port) {
        return None;
    }
    let slot = port.nic.pcie?;
    let link_bps = f64::from(port.nic.speed_supported_mbps.or(port.nic.speed_mbps)?) * 1e6;
    let pcie = Bus::pcie(slot.generation, slot.lanes).ok()?;
    // Assumes eight frames per interrupt and descriptors in batches, as docs/theory/limits.md does; counts the bits of
    // frames without the gaps between them.
    let bus_bps = bus::typical_share(&pcie) * 8.0 * FRAME_BYTES / bus::seconds_per_frame(&pcie, FRAME_BYTES, 8.0);
    let need_bps = link_bps * FRAME_BYTES / (FRAME_BYTES + GAP_BYTES);
    Some(Lane { bus_bps: whole_mbps(bus_bps), need_bps: whole_mbps(need_bps) })
}

fn slot(_: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let (Lane { bus_bps, need_bps }, slot) = (lane(port)?, port.nic.pcie?);
    if bus_bps >= need_bps {
        return None;
    }
    let widest = port
        .nic
        .pcie_max
        .filter(|widest| *widest != slot)
        .map(|widest| format!("; the device can use generation {} x{}", widest.generation, widest.lanes));
    seen(
        Severity::Fault,
        format!(
            "PCI Express generation {} x{} carries {} of 1518-byte frames, line rate needs {}{}",
            slot.generation,
            slot.lanes,
            print_bps(bus_bps),
            print_bps(need_bps),
            widest.unwrap_or_default(),
        ),
        [],
    )
}

fn mtu(inspection: &Inspection, port: &Port, _: &Aim) -> Option<Seen> {
    let (nic, own) = (&port.nic, port.nic.mtu_bytes?);
    if let Some(far) = port.far_end.as_ref().filter(|far| far.mtu_bytes != own) {
        let (name, most, at) =
            if far.mtu_bytes < own { (&far.name, own, &far.netns) } else { (&nic.name, far.mtu_bytes, &"this".into()) };
        return seen(
            Severity::Warning,
            format!(
                "MTU {own} here, {} at {} in netns {} (the far end of the veth pair)",
                far.mtu_bytes, far.name, far.netns
            ),
            [format!("ip link set dev {} mtu {most}  # in netns {at}", shell(name))],
        );
    }
    let others = inspection.ports.iter().map(|other| &other.nic).filter(|other| other.index != nic.index && other.up);
    let differs = |other: &&crate::nic::Nic| match other.mtu_bytes {
        // Of a veth pair only the end with the larger MTU is reported. Below a VLAN a larger MTU is correct.
        Some(mtu) if other.lower == Some(nic.index) => mtu > own,
        Some(mtu) => mtu < own && (same_segment(nic, other) || (inspection.routes() && routed(nic, other))),
        None => false,
    };
    let small = others.into_iter().find(differs)?;
    let (mtu, relation) = (small.mtu_bytes?, relation(nic, small));
    let (name, least) = if mtu < own { (&small.name, own) } else { (&nic.name, mtu) };
    seen(
        Severity::Warning,
        format!("MTU {own} here, {mtu} at {} ({relation})", small.name),
        [format!("ip link set dev {} mtu {least}", shell(name))],
    )
}

fn same_segment(nic: &crate::nic::Nic, other: &crate::nic::Nic) -> bool {
    (nic.master.is_some() && nic.master == other.master) || nic.lower == Some(other.index)
}

/// Whether both interfaces are hardware, so that a router may forward between them.
fn routed(nic: &crate::nic::Nic, other: &crate::nic::Nic) -> bool {
    nic.is_physical() && other.is_physical() && nic.master.is_none() && other.master.is_none()
}

fn relation(nic: &crate::nic::Nic, other: &crate::nic::Nic) -> &'static str {
    if nic.lower == Some(other.index) || other.lower == Some(nic.index) {
        "above and below each other"
    } else if nic.master.is_some() && nic.master == other.master {
        "ports of one bridge or bond"
    } else {
        "this host routes between them"
    }
}
