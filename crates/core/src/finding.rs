//! [`Finding`]: the one page of `netcliff find`: a host's cliff on paper, in simulation and on the wire.

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::host::Host;
use crate::outcome::{CpuShares, Figure, Latency, Loss, Outcome};
use crate::record::{Fingerprint, Provenance};
use crate::scheme::Scheme;
use crate::traffic::Traffic;

/// One value from each engine; None: it could not be had, and [`Finding::missing`] says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ByEngine<T> {
    /// On paper.
    pub model: Option<T>,
    /// In simulation.
    pub sim: Option<T>,
    /// Measured.
    pub wire: Option<T>,
}

impl<T> Default for ByEngine<T> {
    fn default() -> Self {
        Self { model: None, sim: None, wire: None }
    }
}

impl<T> ByEngine<T> {
    /// The value of one engine.
    pub fn get(&self, engine: EngineKind) -> Option<&T> {
        match engine {
            EngineKind::Model => self.model.as_ref(),
            EngineKind::Sim => self.sim.as_ref(),
            EngineKind::Wire => self.wire.as_ref(),
        }
    }

    /// Sets the value of one engine.
    pub fn set(&mut self, engine: EngineKind, value: Option<T>) {
        match engine {
            EngineKind::Model => self.model = value,
            EngineKind::Sim => self.sim = value,
            EngineKind::Wire => self.wire = value,
        }
    }

    /// The engines that have a value, in the order model, sim, wire.
    pub fn present(&self) -> impl Iterator<Item = (EngineKind, &T)> {
        [EngineKind::Model, EngineKind::Sim, EngineKind::Wire]
            .into_iter()
            .filter_map(|engine| self.get(engine).map(|value| (engine, value)))
    }
}

/// What the host is, in words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostSummary {
    /// CPU model and count: `2 x Intel(R) Xeon(R) Processor`.
    pub cpu: String,
    /// Kernel release and preemption: `Linux 6.18.44`.
    pub kernel: String,
    /// Testbed: `netns: sender on CPU 0, host under test on CPU 1`.
    pub testbed: String,
    /// Driver and reception: `veth, RPS to CPU 1 (process_backlog)`.
    pub driver: String,
    /// What limits this run, a sentence each: virtual machine, no root, few cores.
    pub limits: Vec<String>,
}

/// One calibrated cost or size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Key of the host file it sets: `protocol`, `application`, `ring`.
    pub key: String,
    /// The value with its interval.
    pub figure: Figure,
    /// Unit of the figure: `s`, `s/B` or `packets`.
    pub unit: String,
    /// How it was had: `regression of NET_RX softirq time on packets and polls (ebpf)`.
    pub how: String,
}

/// What calibration found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Costs and sizes in the order they are shown.
    pub costs: Vec<Cost>,
    /// The same as a host that model and simulation can use.
    pub host: Host,
    /// How CPU time was accounted: `ebpf`, `procfs`, `soaker`, with its own overhead in words.
    pub cpu_method: String,
    /// Share of the variance of softirq time that the regression explains, if it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
}

/// The load generator measured alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GeneratorSummary {
    /// `AF_PACKET transmit ring, PACKET_QDISC_BYPASS` or what was used instead.
    pub method: String,
    /// Packets/s it can send flat out; None: not measured.
    pub ceiling_pps: Option<Figure>,
    /// 99th percentile of actual minus intended send time at the highest load it kept up with (s).
    pub lateness_p99_s: Option<f64>,
    /// Frame bytes, FCS included.
    pub frame_bytes: u32,
}

/// Latencies at one share of the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Share of the measured (or else simulated) cliff: 0.5, 0.9.
    pub share: f64,
    /// That load (pps).
    pub load_pps: f64,
    /// Latency (s) by engine.
    pub latency_s: ByEngine<Latency>,
}

/// A setting worth trying.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The setting as a command or a sentence.
    pub setting: String,
    /// Why it should move the cliff.
    pub why: String,
    /// Cliff that simulation expects with it (pps), where it was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_cliff_pps: Option<Figure>,
}

/// A figure that could not be had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Which figure: `cliff_pps.wire`.
    pub figure: String,
    /// Why, as a sentence.
    pub why: String,
}

/// One engine at one load of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Who answered.
    pub engine: EngineKind,
    /// Intended offered load (pps).
    pub load_pps: f64,
    /// Number of repeats behind the outcome (1 for the model).
    pub repeats: u32,
    /// False: the sender did not reach the load, so that no loss may be read as the receiver's.
    pub sender_kept_up: bool,
    /// What was found.
    pub outcome: Outcome,
}

/// Another set-up, which calibration did not see: predicted with this calibration, then measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetupCheck {
    /// What differs: `size=512B`, `work=2us`, `backlog=200`.
    pub name: String,
    /// The host that was predicted with.
    pub host: Host,
    /// The scheme that was predicted with.
    pub scheme: Scheme,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// The cliff (pps).
    pub cliff_pps: ByEngine<Figure>,
    /// Delivered at 1.5 times the measured cliff (pps).
    pub delivered_at_1_5_pps: ByEngine<Figure>,
    /// Delivered at twice the measured cliff (pps).
    pub delivered_at_2_pps: ByEngine<Figure>,
}

/// What is asked of the host under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Scheme the kernel runs.
    pub scheme: Scheme,
    /// Traffic without a load of its own (its rate is the cliff's).
    pub traffic: Traffic,
    /// Application work a packet beyond reading it (s).
    pub application_work_s: f64,
    /// Socket receive buffer asked for (bytes).
    pub socket_buffer_bytes: u64,
    /// Repeats of each load.
    pub repeats: u32,
    /// Length of one measurement (s).
    pub trial_s: f64,
    /// True for `--quick`.
    pub quick: bool,
}

/// The one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What the host is.
    pub host: HostSummary,
    /// What was asked of it.
    pub setup: Setup,
    /// What its packets cost; None: calibration failed, see `missing`.
    pub calibration: Option<Calibration>,
    /// The load generator alone.
    pub generator: GeneratorSummary,
    /// Loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Highest offered load with loss at or below the target (pps).
    pub cliff_pps: ByEngine<Figure>,
    /// Highest delivered load (pps).
    pub peak_pps: ByEngine<Figure>,
    /// Delivered load at twice the cliff over the peak: 1 flat, 0 livelock.
    pub livelock: ByEngine<Figure>,
    /// Latencies at 50 % and 90 % of the cliff.
    pub latency: Vec<LatencyAt>,
    /// CPU split of the host under test's CPU at the cliff.
    pub cpu_at_cliff: ByEngine<CpuShares>,
    /// CPU split at twice the cliff: why it falls there.
    pub cpu_at_twice: ByEngine<CpuShares>,
    /// Where packets were lost at twice the cliff.
    pub loss_at_twice: ByEngine<Loss>,
    /// What binds, one sentence.
    pub binding: Option<String>,
    /// The most promising settings to try.
    pub suggestions: Vec<Suggestion>,
    /// Figures that could not be had, and why.
    pub missing: Vec<Missing>,
    /// One outcome an engine and load, by engine and rising load.
    pub sweep: Vec<SweepPoint>,
    /// Other set-ups, predicted with this calibration and measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<SetupCheck>,
    /// Everything that explains a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
    /// True: stopped early; what is there was measured.
    pub partial: bool,
}

impl Finding {
    /// The outcomes of one engine by rising load.
    pub fn curve(&self, engine: EngineKind) -> Vec<&SweepPoint> {
        let mut points: Vec<&SweepPoint> = self.sweep.iter().filter(|point| point.engine == engine).collect();
        points.sort_by(|a, b| a.load_pps.total_cmp(&b.load_pps));
        points
    }
}
