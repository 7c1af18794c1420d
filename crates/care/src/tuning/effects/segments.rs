//! Steps that change the bytes per packet and the work on each: offloads and MTU.
//!
//! A frame of L bytes costs `protocol` x packets per frame + `per_byte` x passes x L (docs/theory/limits.md). After
//! merging into segments of 64 KiB, `protocol` is paid between once per segment and once per frame. The reported value
//! assumes the share in the table of that page; the reported range is given by these two cases.

use netcliff_core::tuning::Proposal;
use netcliff_core::{Host, Offload};
use netcliff_host::inspect::Port;
use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Step;
use netcliff_model::limits::{GAP_BYTES, Load};

use super::{Known, Range};

/// Ethernet header and FCS (bytes).
const FRAMING_BYTES: f64 = 18.0;
/// IPv4 and TCP headers with timestamps (bytes): RFC 791, 9293, 7323.
const HEADER_BYTES: f64 = 52.0;
const KIB: f64 = 1024.0;

/// How the host processes received bytes.
#[derive(Debug, Clone, Copy)]
struct Reception {
    mtu_bytes: f64,
    gro: bool,
    summed_by_device: bool,
}

/// The predicted effect of the step. `None` for other steps.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    let port = known.port(step)?;
    let now = Reception::of(port)?;
    match &step.setting {
        Setting::Mtu { .. } => {
            let side = |value: &str| Some(Reception { mtu_bytes: value.parse().ok()?, ..now });
            mtu(known, side(&step.proposal.old)?, side(&step.proposal.new)?)
        }
        Setting::Ethtool { group: Group::Features, key, .. } => {
            let side = |value: &str| now.with(key, value == "on");
            match key.as_str() {
                "tx-checksum-ip-generic" => Some(sum(known, &step.proposal)),
                "tx-tcp-segmentation" | "tx-generic-segmentation" => Some(cut(&now, step.proposal.new == "on")),
                _ => Some(costs(known, side(&step.proposal.old)?, side(&step.proposal.new)?)),
            }
        }
        _ => None,
    }
}

impl Reception {
    /// Returns the reception at a port. `None` if the MTU is unknown or too small for TCP.
    fn of(port: &Port) -> Option<Reception> {
        let on = |feature| port.nic.feature(feature).unwrap_or(false);
        let mtu_bytes = f64::from(port.nic.mtu_bytes.filter(|mtu| f64::from(*mtu) > HEADER_BYTES)?);
        Some(Reception { mtu_bytes, gro: on("rx-gro"), summed_by_device: on("rx-checksum") })
    }

    /// Returns the reception with a feature switched. `None` if the feature changes no cost of a receiver.
    fn with(self, feature: &str, on: bool) -> Option<Reception> {
        match feature {
            "rx-gro" => Some(Reception { gro: on, ..self }),
            "rx-checksum" => Some(Reception { summed_by_device: on, ..self }),
            _ => None,
        }
    }

    fn frame_bytes(&self) -> f64 {
        self.mtu_bytes + FRAMING_BYTES
    }

    /// TCP payload of a frame (bytes).
    fn payload_bytes(&self) -> f64 {
        self.mtu_bytes - HEADER_BYTES
    }

    /// Protocol time per KiB of payload (us).
    fn cost_us(&self, known: &Known<'_>) -> Range {
        let sum: &[Offload] = if self.summed_by_device { &[Offload::Checksum] } else { &[] };
        let passes = Load::new(self.frame_bytes(), sum).passes();
        let merged = Load::new(self.frame_bytes(), &[Offload::Gro]);
        let packets: Vec<f64> =
            if self.gro { vec![merged.packets_per_frame, 1.0 / merged.frames_per_segment(), 1.0] } else { vec![1.0] };
        let frame_s = |host: &Host, packets: f64| host.packet_s() * packets + host.bytes_s(passes, self.frame_bytes());
        let all = packets.iter().flat_map(|packets| known.costs.iter().map(move |host| frame_s(host, *packets)));
        Range::over(all).times(1e6 * KIB / self.payload_bytes())
    }
}

/// Describes the protocol costs of bulk TCP that change, with the assumptions.
fn costs(known: &Known<'_>, before: Reception, after: Reception) -> String {
    let merged = if before.gro || after.gro {
        "; GRO: 25 % of a packet's cost for each frame, the rest once a segment of 64 KiB, or (range) all once a frame or a segment"
    } else {
        ""
    };
    let summed = if before.summed_by_device == after.summed_by_device {
        ""
    } else {
        "; a sum reads every byte, half of a copy's work"
    };
    format!(
        "protocol work of a KiB of bulk TCP in full frames {:.3} -> {:.3} us (predicted, docs/theory/limits.md{merged}{summed}; costs of {}, \
         ranges from their intervals)",
        before.cost_us(known),
        after.cost_us(known),
        known.run
    )
}

/// Describes the cost of a checksum in software when sending: the CPU reads every byte.
fn sum(known: &Known<'_>, proposal: &Proposal) -> String {
    let passes = Load::new(FRAMING_BYTES, &[]).passes() - Load::new(FRAMING_BYTES, &[Offload::Checksum]).passes();
    let side = |value: &str| {
        let by_cpu = if value == "on" { 0.0 } else { passes };
        known.range(|host| 1e6 * host.bytes_s(by_cpu, KIB))
    };
    format!(
        "summing a KiB that is sent takes the CPU {:.3} -> {:.3} us (predicted, docs/theory/limits.md: it reads every byte, half of a copy's work; \
         costs of {}, ranges from their intervals)",
        side(&proposal.old),
        side(&proposal.new),
        known.run
    )
}

/// Describes the effect of the MTU: fewer headers on the link, and fewer packets for the CPU.
fn mtu(known: &Known<'_>, before: Reception, after: Reception) -> Option<String> {
    let share = |side: &Reception| {
        let payload = side.payload_bytes();
        (payload > 0.0).then(|| 100.0 * payload / (side.frame_bytes() + GAP_BYTES))
    };
    Some(format!(
        "TCP's payload is at most {:.1} -> {:.1} % of the link; {}",
        share(&before)?,
        share(&after)?,
        costs(known, before, after)
    ))
}

/// Describes the number of segments that the stack handles when it sends. The cost of a segment is not calibrated.
fn cut(now: &Reception, on: bool) -> String {
    let segments = |bytes: f64| (KIB * KIB / bytes).ceil();
    let each = segments(now.payload_bytes());
    let whole = segments(Load::new(now.frame_bytes(), &[]).frames_per_segment() * now.payload_bytes());
    let (before, after) = if on { (each, whole) } else { (whole, each) };
    format!(
        "segments that the stack handles for a MiB of bulk TCP sent: {before:.0} -> {after:.0} (MTU {:.0}, segments of at most 64 KiB); the \
         CPU time is not predicted: `netcliff find` measures what receiving costs, not sending",
        now.mtu_bytes
    )
}
