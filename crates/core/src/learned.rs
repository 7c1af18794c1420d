//! [`Learned`]: result of `netcliff learn`, which observes a host under its normal traffic: costs, arrivals, and which
//! part overloads first.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::finding::{Calibration, Cost, EngineFigure, Finding, HostSummary, Missing, Setup};
use crate::outcome::{CpuShares, Figure};
use crate::record::{Fingerprint, Provenance};
use crate::scheme::Scheme;
use crate::written;

/// Kind of a part of the host that can overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A CPU that receives packets, or that the program runs on.
    Cpu,
    /// A thread of the program, which cannot use more than one CPU.
    Thread,
    /// A socket of the program, which fills if the program reads too slowly.
    Socket,
}

/// A part of the host that more of this traffic would overload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearnedPart {
    /// Its kind.
    pub kind: PartKind,
    /// Name of the part: `CPU 1`, `thread 17 of nsd (pid 12)`, `udp 0.0.0.0:53`.
    pub name: String,
    /// Number of the CPU that the part uses; absent: it uses several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Mean packet rate that the part handled (packets/s).
    pub packets_per_s: f64,
    /// Packet rate at which the part overloads with this mix of packets; absent: see `why`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_pps: Option<Figure>,
    /// Mean load divided by the load at the cliff; absent: its cliff is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Figure>,
    /// Load divided by the load at the cliff, in the busiest slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_highest: Option<f64>,
    /// Mean of the time that it was busy, as a share of one CPU.
    pub busy: f64,
    /// Part of `busy` spent in interrupts and softirqs.
    pub softirq: f64,
    /// Part of `busy` spent in the program.
    pub program: f64,
    /// Part of `busy` that does not grow with the load.
    pub fixed: f64,
    /// Costs of a packet in this part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Why the part has no cliff, or how reliable its cliff is, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub why: Option<PartLimit>,
}

/// Words of [`PartLimit::TooFew`], by which its sentence is read from JSON.
const TOO_FEW: &str = "too few";

/// Why a part has no cliff, or how reliable its cliff is, a sentence without the full stop. In JSON it is the sentence
/// alone; what is read from JSON has its kind again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum PartLimit {
    /// The part had too few packets or slices for an estimate. Its sentence contains `too few`.
    TooFew(String),
    /// Anything else.
    Other(String),
}

impl PartLimit {
    /// A CPU with this packet rate (packets/s) had too few packets.
    pub fn few_packets(packets_per_s: f64) -> Self {
        Self::TooFew(format!("only {packets_per_s:.1} packets/s came, {TOO_FEW} to measure the CPU time of one"))
    }

    /// A thread had too few slices or packets.
    pub fn few_slices() -> Self {
        Self::TooFew(format!("{TOO_FEW} slices or packets"))
    }
}

impl fmt::Display for PartLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TooFew(sentence) | Self::Other(sentence)) = self;
        f.write_str(sentence)
    }
}

impl From<String> for PartLimit {
    fn from(sentence: String) -> Self {
        if sentence.contains(TOO_FEW) { Self::TooFew(sentence) } else { Self::Other(sentence) }
    }
}

impl From<PartLimit> for String {
    fn from(limit: PartLimit) -> Self {
        let (PartLimit::TooFew(sentence) | PartLimit::Other(sentence)) = limit;
        sentence
    }
}

/// The index of dispersion for counts at one time scale: variance divided by mean of the number of packets in intervals
/// of that length; 1 for Poisson arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dispersion {
    /// Length of the intervals (s).
    pub scale_s: f64,
    /// Variance divided by mean.
    pub index: f64,
    /// Number of intervals.
    pub intervals: u64,
}

/// Share of a receive queue in all packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLoad {
    /// Interface.
    pub interface: String,
    /// Number of the queue.
    pub queue: u32,
    /// Packets of this queue divided by packets of all queues.
    pub share: f64,
}

/// Traffic during the watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearnedTraffic {
    /// Mean rate received by the watched interfaces (packets/s).
    pub packets_per_s: f64,
    /// Received rate in the slice with the fewest packets (packets/s).
    pub lowest_pps: f64,
    /// Received rate in the slice with the most packets (packets/s).
    pub highest_pps: f64,
    /// Time of the slice with the most packets, seconds since the epoch (UTC).
    pub highest_unix_s: f64,
    /// Mean packet size as the driver counts it (bytes); absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<f64>,
    /// Mean sent rate (packets/s).
    pub sent_pps: f64,
    /// Burstiness by time scale, the shortest scale first.
    pub dispersion: Vec<Dispersion>,
    /// Shares of receive queues whose packets the driver counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueLoad>,
}

/// How the host was observed, and the cost of observing it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Interfaces whose packets are counted.
    pub interfaces: Vec<String>,
    /// The programs, each with pid: `nsd (pid 12)`.
    pub programs: Vec<String>,
    /// Length of the watch (s).
    pub seconds: f64,
    /// Length of a slice (s).
    pub slice_s: f64,
    /// Number of slices.
    pub slices: u64,
    /// Number of slices with exact CPU times; the costs come from these.
    pub metered: u64,
    /// Number of slices left out because of disturbances.
    pub disturbed: u64,
    /// How CPU time was measured, in words.
    pub method: String,
    /// CPU time of netcliff, as a share of one CPU.
    pub own_cpu: f64,
    /// CPU time of the meter's eBPF programs, as a share of one CPU; absent: the meter has none, or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_cpu: Option<f64>,
}

impl Watched {
    /// Total CPU time of observing the host, as a share of one CPU.
    pub fn overhead(&self) -> f64 {
        self.own_cpu + self.meter_cpu.unwrap_or(0.0)
    }
}

/// The result of `netcliff learn`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Learned {
    /// Always `learn`.
    pub kind: String,
    /// Description of the host.
    pub host: HostSummary,
    /// How it was watched.
    pub watched: Watched,
    /// Traffic during the watch.
    pub traffic: LearnedTraffic,
    /// The parts in the order in which they would overload; parts without a cliff last.
    pub parts: Vec<LearnedPart>,
    /// Costs of the receive CPU that overloads first, as a host for model and simulation; absent: see `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The scheme that the host uses.
    pub scheme: Scheme,
    /// The traffic in the form that model and simulation need: frames of the mean size, at the mean rate.
    pub as_traffic: written::Traffic,
    /// Loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Losses during the watch, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Costs that this traffic does not determine separately, and figures that could not be measured; each with the
    /// traffic that would help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Reasons not to rely on this result, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Properties of host and software that explain a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// Version, seed and settings of the run.
    pub provenance: Provenance,
    /// True: stopped before the requested time.
    pub partial: bool,
}

impl Learned {
    /// The part that overloads first; `None` if no part has a cliff.
    pub fn first(&self) -> Option<&LearnedPart> {
        self.parts.first().filter(|part| part.cliff_pps.is_some())
    }

    /// The receive CPU that overloads first; `None` if none has a cliff.
    pub fn first_cpu(&self) -> Option<&LearnedPart> {
        self.parts.iter().find(|part| part.kind == PartKind::Cpu && part.cliff_pps.is_some())
    }

    /// Rate of the traffic (packets/s of the watched interfaces) at which the first part overloads; `None` if no part
    /// has a cliff.
    pub fn cliff_pps(&self) -> Option<Figure> {
        let first = self.first()?;
        let per_part = (first.packets_per_s > 0.0).then(|| self.traffic.packets_per_s / first.packets_per_s)?;
        Some(first.cliff_pps?.scaled(per_part))
    }

    /// Packets of a part divided by all packets; 1 without packets.
    pub fn share_of(&self, part: &LearnedPart) -> f64 {
        if self.traffic.packets_per_s > 0.0 { part.packets_per_s / self.traffic.packets_per_s } else { 1.0 }
    }

    /// Converts the result to a finding, for commands that need one: the costs, and the model's cliff of the receive
    /// CPU that overloads first. No load was sent to measure the cliff, so that such a finding is never chosen as a
    /// host's calibration. `None` if the result has no costs.
    pub fn finding(&self) -> Option<Finding> {
        let calibration = self.calibration.clone()?;
        let setup = Setup {
            scheme: self.scheme.clone(),
            traffic: self.as_traffic.clone().shape(),
            trial_s: self.watched.slice_s,
            ..Setup::default()
        };
        let why = "it follows from live traffic by the model, and nothing was sent";
        let unmeasured = Missing { figure: EngineFigure::Cliff.by(EngineKind::Wire), why: why.to_owned() };
        let mut finding = Finding {
            host: self.host.clone(),
            calibration: Some(calibration),
            fingerprint: self.fingerprint.clone(),
            provenance: self.provenance.clone(),
            partial: self.partial,
            missing: self.missing.iter().cloned().chain([unmeasured]).collect(),
            ..Finding::blank(setup, self.loss_target)
        };
        if let Some((part, cliff)) = self.first_cpu().and_then(|part| Some((part, part.cliff_pps?))) {
            finding.cliff_pps.model = Some(cliff);
            // The softirq time at the cliff is computed in proportion to the load. It is an upper bound, because at
            // higher load more packets share a poll.
            let share = part.share.map_or(0.0, |share| share.value);
            if share > 0.0 {
                let softirq = (part.softirq / share).min(1.0);
                finding.cpu_at_cliff.model =
                    Some(CpuShares { protocol: Some(Figure::exact(softirq)), ..CpuShares::default() });
            }
        }
        Some(finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::traffic::{Load, Traffic};

    fn example() -> Learned {
        let part = |kind, packets_per_s: f64, cliff: Option<f64>| LearnedPart {
            kind,
            name: "CPU 1".into(),
            cpu: Some(1),
            packets_per_s,
            cliff_pps: cliff.map(|cliff| Figure::between(cliff, 0.8 * cliff, 1.2 * cliff, 0.9)),
            share: cliff.map(|cliff| Figure::exact(packets_per_s / cliff)),
            share_highest: None,
            busy: 0.4,
            softirq: 0.2,
            program: 0.1,
            fixed: 0.01,
            costs: Vec::new(),
            why: None,
        };
        let calibration = Calibration {
            costs: Vec::new(),
            host: Host::pentium4_2530mhz(),
            cpu_method: "ebpf".into(),
            r_squared: None,
            correlated: Vec::new(),
        };
        Learned {
            kind: "learn".into(),
            host: HostSummary::default(),
            watched: Watched {
                interfaces: vec!["eth0".into()],
                programs: Vec::new(),
                seconds: 10.0,
                slice_s: 0.25,
                slices: 40,
                metered: 40,
                disturbed: 0,
                method: "ebpf".into(),
                own_cpu: 0.002,
                meter_cpu: Some(0.003),
            },
            traffic: LearnedTraffic {
                packets_per_s: 200e3,
                lowest_pps: 150e3,
                highest_pps: 250e3,
                highest_unix_s: 0.0,
                mean_bytes: Some(64.0),
                sent_pps: 0.0,
                dispersion: Vec::new(),
                queues: Vec::new(),
            },
            parts: vec![part(PartKind::Cpu, 100e3, Some(400e3)), part(PartKind::Cpu, 1.0, None)],
            calibration: Some(calibration),
            scheme: "napi".parse().unwrap(),
            as_traffic: written::Traffic::new(Traffic::default(), Some(Load::Pps(200e3))),
            loss_target: 1e-4,
            lost: Vec::new(),
            missing: Vec::new(),
            cautions: Vec::new(),
            fingerprint: Fingerprint::default(),
            provenance: Provenance::default(),
            partial: false,
        }
    }

    /// Half of the traffic comes to the CPU that overloads first: the traffic's cliff is twice that CPU's.
    #[test]
    fn the_traffic_s_cliff_is_that_of_the_first_part_by_its_share() {
        let learned = example();
        let cliff = learned.cliff_pps().expect("a part with a cliff");
        assert_eq!(cliff.value, 800e3);
        assert!((learned.watched.overhead() - 0.005).abs() < 1e-12);
        let none = Learned { parts: learned.parts[1..].to_vec(), ..learned };
        assert_eq!((none.first(), none.cliff_pps()), (None, None));
    }

    #[test]
    fn as_a_finding_it_has_the_model_s_cliff_and_no_measured_one() {
        let learned = example();
        let finding = learned.finding().expect("it has costs");
        assert_eq!(finding.cliff_pps.model.map(|cliff| cliff.value), Some(400e3));
        assert!(
            finding.cliff_pps.wire.is_none()
                && finding.missing.iter().any(|one| one.figure == EngineFigure::Cliff.by(EngineKind::Wire))
        );
        let protocol = finding.cpu_at_cliff.model.and_then(|shares| shares.protocol).expect("of the CPU");
        assert!((protocol.value - 0.8).abs() < 1e-12);
        assert!(Learned { calibration: None, ..learned.clone() }.finding().is_none());
        let parts = [Some(PartLimit::few_slices()), Some(PartLimit::Other("bursts".into()))]
            .map(|why| LearnedPart { why, ..learned.parts[0].clone() });
        let learned = Learned { parts: parts.to_vec(), ..learned };
        let text = serde_json::to_string(&learned).unwrap();
        assert_eq!(serde_json::from_str::<Learned>(&text).unwrap(), learned);
    }
}
