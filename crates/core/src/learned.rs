//! [`Learned`]: what `netcliff learn` found by watching a host at work: costs, arrivals, and which part gives out first.

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::finding::{Calibration, Cost, EngineFigure, Finding, HostSummary, Missing, Setup};
use crate::outcome::{CpuShares, Figure};
use crate::record::{Fingerprint, Provenance};
use crate::scheme::Scheme;
use crate::traffic::Traffic;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A CPU that takes packets, or that the program runs on.
    Cpu,
    /// A thread of the program, which cannot have more than one CPU.
    Thread,
    /// A socket of the program, which fills while the program does not read.
    Socket,
}

/// A part of the host that more of this traffic would use up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearnedPart {
    /// What it is.
    pub kind: PartKind,
    /// `CPU 1`, `thread 17 of nsd (pid 12)`, `udp 0.0.0.0:53`.
    pub name: String,
    /// Number of the CPU; absent: no single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Packets that it took (packets/s), mean of the watch.
    pub packets_per_s: f64,
    /// Packets/s at which it gives out if this mix comes faster; absent: `why`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_pps: Option<Figure>,
    /// Load over that at the cliff, mean of the watch; absent: no cliff is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Figure>,
    /// The same in the busiest slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_highest: Option<f64>,
    /// Its time that was used, as a share of one CPU, mean of the watch.
    pub busy: f64,
    /// Of that, interrupts and softirqs.
    pub softirq: f64,
    /// Of that, the program.
    pub program: f64,
    /// Of that, what does not grow with the load.
    pub fixed: f64,
    /// What a packet costs there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// Why there is no cliff, or what limits it, a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The index of dispersion for counts at one time scale: variance over mean of the packets in intervals of that length; 1 for Poisson arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dispersion {
    /// Length of the intervals (s).
    pub scale_s: f64,
    /// Variance over mean.
    pub index: f64,
    /// Intervals.
    pub intervals: u64,
}

/// Packets of a receive queue as a share of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueLoad {
    /// Interface.
    pub interface: String,
    /// Number of the queue.
    pub queue: u32,
    /// Its packets over those of all queues.
    pub share: f64,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearnedTraffic {
    /// Received by the watched interfaces (packets/s), mean.
    pub packets_per_s: f64,
    /// The same in the slice with the least.
    pub lowest_pps: f64,
    /// The same in the slice with most.
    pub highest_pps: f64,
    /// When that was, seconds since the epoch (UTC).
    pub highest_unix_s: f64,
    /// Mean size as the driver counts it (bytes); absent without packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<f64>,
    /// Sent (packets/s), mean.
    pub sent_pps: f64,
    /// Burstiness by time scale, the shortest first.
    pub dispersion: Vec<Dispersion>,
    /// Shares of receive queues, where drivers count them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueLoad>,
}

/// How it was watched, and what that cost.
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
    /// Slices.
    pub slices: u64,
    /// Slices with exact CPU time, from which the costs are.
    pub metered: u64,
    /// Slices left out because something else disturbed them.
    pub disturbed: u64,
    /// How CPU time was accounted, in words.
    pub method: String,
    /// CPU time of this program, as a share of one CPU.
    pub own_cpu: f64,
    /// CPU time of the meter's programs in the kernel, as a share of one CPU; absent: it has none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_cpu: Option<f64>,
}

impl Watched {
    /// All that watching cost, as a share of one CPU.
    pub fn overhead(&self) -> f64 {
        self.own_cpu + self.meter_cpu.unwrap_or(0.0)
    }
}

/// What `netcliff learn` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Learned {
    /// `learn`.
    pub kind: String,
    /// What the host is.
    pub host: HostSummary,
    /// How it was watched.
    pub watched: Watched,
    /// What came.
    pub traffic: LearnedTraffic,
    /// The parts, the one that gives out first in front; those without a cliff last.
    pub parts: Vec<LearnedPart>,
    /// Costs of the receive CPU that gives out first, as a host for model and simulation; absent: `missing` has why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The scheme that it runs.
    pub scheme: Scheme,
    /// Traffic of the mean size; its rate is the mean of the watch.
    pub as_traffic: Traffic,
    /// Loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Lost during the watch, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Costs that this traffic cannot separate, and figures that could not be measured, each with what wider traffic would separate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What speaks against relying on it, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Everything that explains a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
    /// True: stopped before its time.
    pub partial: bool,
}

impl Learned {
    /// The part that gives out first; `None` if no part has a cliff.
    pub fn first(&self) -> Option<&LearnedPart> {
        self.parts.first().filter(|part| part.cliff_pps.is_some())
    }

    /// The receive CPU that gives out first, of those with a cliff.
    pub fn first_cpu(&self) -> Option<&LearnedPart> {
        self.parts.iter().find(|part| part.kind == PartKind::Cpu && part.cliff_pps.is_some())
    }

    /// The traffic's rate at which the first part gives out (packets/s of the watched interfaces); `None` if no part has a cliff.
    pub fn cliff_pps(&self) -> Option<Figure> {
        let first = self.first()?;
        let per_part = (first.packets_per_s > 0.0).then(|| self.traffic.packets_per_s / first.packets_per_s)?;
        Some(first.cliff_pps?.scaled(per_part))
    }

    /// The record as a finding, for commands that compute with one: costs, and the cliff of the first receive CPU by the model. Nothing in it was
    /// measured with a load, so that it never is a host's calibration by itself. `None` if it has no costs.
    pub fn finding(&self) -> Option<Finding> {
        let calibration = self.calibration.clone()?;
        let setup = Setup {
            scheme: self.scheme.clone(),
            traffic: self.as_traffic.clone(),
            application_work_s: 0.0,
            socket_buffer_bytes: 1 << 20,
            repeats: 1,
            trial_s: self.watched.slice_s,
            quick: true,
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
            // In proportion to the load: packets that share a poll make it less.
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
            as_traffic: Traffic::poisson(200e3),
            loss_target: 1e-4,
            lost: Vec::new(),
            missing: Vec::new(),
            cautions: Vec::new(),
            fingerprint: Fingerprint::default(),
            provenance: Provenance::default(),
            partial: false,
        }
    }

    /// Half of the traffic comes to the CPU that gives out first: the traffic's cliff is twice that CPU's.
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
        let text = serde_json::to_string(&learned).unwrap();
        assert_eq!(serde_json::from_str::<Learned>(&text).unwrap(), learned);
    }
}
