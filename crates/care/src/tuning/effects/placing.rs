//! Steps that assign work to CPUs: interrupts and RPS by the roofline, RFS by the two stages of a flow.
//!
//! A CPU with a share p of the packets is fully loaded when p times the load equals the load that one CPU serves
//! (docs/theory/queues.md). One CPU serves at most the roofline's CPU bound (docs/theory/limits.md): protocol work,
//! reading the packet, and its share of an interrupt as measured near the cliff. All queues are assumed to have equal
//! shares of the packets, so k CPUs serve between one and k times as much as one.

use std::collections::BTreeMap;

use netcliff_core::{Bus, Host, Offload};
use netcliff_host::inspect::Port;
use netcliff_host::tune::{Step, work};
use netcliff_model::limits::{Part, System};

use super::{FRAME_BYTES, Known, Range, file_name, packet_s};

/// Returns the predicted effect of the step. `None` for other steps, and if the CPUs that do the work are unknown.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    if matches!(file_name(&step.setting), Some("rps_flow_cnt" | "rps_sock_flow_entries")) {
        return flow_steering(known, step);
    }
    // A setting of an interrupt, which is identified by its number, does not name its interface.
    let port = known.host.ports.iter().find(|port| work::places(port, step))?;
    let after = work::shares(port, known.steps)?;
    let mut effect = match work::shares(port, &[]) {
        Some(before) => capacity(known, port, &before, &after),
        None => format!(
            "{} {} on the packets of {}, which before are worked on by the CPU that sends them; they serve at most {:.0} kpps",
            cpus(&after),
            if after.len() == 1 { "works" } else { "work" },
            port.nic.name,
            served_kpps(known, &after)
        ),
    };
    effect += &format!(
        " (roofline of `limits`, 64-byte frames that are read there too, an upper bound; costs of {}, ranges from their \
         intervals; an even share of the packets for each queue)",
        known.run
    );
    if file_name(&step.setting) == Some("rps_cpus") {
        effect += &steering(known, step);
    }
    Some(effect)
}

fn capacity(known: &Known<'_>, port: &Port, before: &BTreeMap<u32, f64>, after: &BTreeMap<u32, f64>) -> String {
    let (kpps_before, kpps_after) = (served_kpps(known, before), served_kpps(known, after));
    let name = &port.nic.name;
    if kpps_before.value == kpps_after.value {
        return format!(
            "no change of capacity: {} for the packets of {name} after the change, at most {kpps_after:.0} kpps before and after; \
             what shared caches and the distance to the device change is not known",
            cpus(after)
        );
    }
    format!(
        "{} -> {} for the packets of {name}, at most {kpps_before:.0} -> {kpps_after:.0} kpps",
        cpus(before),
        cpus(after)
    )
}

fn cpus(shares: &BTreeMap<u32, f64>) -> String {
    if shares.len() == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", shares.len()) }
}

/// Load at which the busiest CPU is fully loaded (kpps).
fn served_kpps(known: &Known<'_>, shares: &BTreeMap<u32, f64>) -> Range {
    let busiest = shares.values().copied().fold(0.0, f64::max);
    known.range(|host| 1e-3 * one_cpu_pps(known, host) / busiest)
}

/// The roofline's CPU bound of one CPU with the measured packets per interrupt. The device computes checksums, as it
/// did during calibration.
fn one_cpu_pps(known: &Known<'_>, host: &Host) -> f64 {
    let (cpu, frames_per_interrupt) = (Some(host.clone()), known.packets_per_interrupt);
    let system = System { link_bps: None, bus: Bus::None, memory: None, cpu, cpus: 1, frames_per_interrupt };
    let bound = system.roof(FRAME_BYTES, &[Offload::Checksum]).of(Part::Cpu);
    bound.unwrap_or_else(|| known.one_cpu_pps(host))
}

/// The cost of RPS per packet: the interrupt between CPUs, which `find` calibrates because its testbed uses RPS.
fn steering(known: &Known<'_>, step: &Step) -> String {
    let on = |mask: &str| mask.bytes().any(|digit| !matches!(digit, b'0' | b','));
    let what = match (on(&step.proposal.old), on(&step.proposal.new)) {
        (false, true) => "more",
        (true, false) => "less",
        _ => return String::new(),
    };
    let wait_us = known.range(|host| 1e6 * (host.interrupt_latency_s + host.interrupt_s));
    format!("; a packet that finds its CPU idle waits {wait_us:.1} us {what}, the interrupt between CPUs")
}

/// Predicts the effect of RFS. A flow whose packets arrive on one CPU and are read on another has two stages, and the
/// slower one limits it (as in the suggestions of `find`). RFS moves both stages to the reader's CPU, which then needs
/// the time of both.
fn flow_steering(known: &Known<'_>, step: &Step) -> Option<String> {
    let apart = known.range(|host| 1e-3 / host.service_s(FRAME_BYTES).max(host.application_s.unwrap_or(0.0)));
    let together = known.range(|host| 1e-3 / packet_s(host));
    let on = |value: &str| value.parse::<u64>().ok().map(|entries| entries > 0);
    let sides = match (on(&step.proposal.old)?, on(&step.proposal.new)?) {
        (false, true) => format!("{apart:.0} -> {together:.0} kpps: one CPU does the work of two"),
        (true, false) => format!("{together:.0} -> {apart:.0} kpps: two CPUs share the work"),
        _ => return None,
    };
    Some(format!(
        "a flow that is read on another CPU than its packets come to: at most {sides} (predicted, 64-byte frames, upper bounds; costs of \
         {}, ranges from their intervals); what warm caches save is not calibrated",
        known.run
    ))
}
