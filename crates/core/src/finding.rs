//! [`Finding`]: the one page of `netcliff find`: a host's cliff predicted, simulated and measured.

mod anew;
mod disturbance;
mod generator;
mod missing;

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::host::Host;
use crate::ledger::TrialLedger;
use crate::outcome::{CpuShares, Figure, Latency, Loss, Outcome};
use crate::record::{Fingerprint, Provenance};
use crate::scheme::Scheme;
use crate::traffic::Traffic;

pub use anew::{CliffReason, WhyCliffsDiffer, listed};
pub use disturbance::{
    Buffer, ClockJump, Disturbance, Drift, LengthBin, MOST_TASKS, PauseBudget, Pauses, Speed, SpeedAt, TaskTime,
};
pub use generator::{GeneratorPart, GeneratorSummary};
pub use missing::{EngineFigure, FigurePath, Missing, WholeFigure};

/// One value from each engine; None: it could not be measured, and [`Finding::missing`] says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByEngine<T> {
    /// Predicted by the model.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The agent whose host it is; absent: it is the host that keeps the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// One calibrated cost or size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Key of the host file it sets: `protocol`, `application`, `ring`.
    pub key: String,
    /// The value with its interval.
    pub figure: Figure,
    /// Unit of the figure: `s`, `s/B` or `packets`.
    pub unit: String,
    /// How it was measured: `regression of NET_RX softirq time on packets and polls (ebpf)`.
    pub how: String,
}

/// What calibration found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Pairs of costs that do not come out by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub correlated: Vec<Correlated>,
}

/// Two costs that come out together from trial to trial. Where one is lower as the other is higher (below 0), the trials hardly tell them
/// apart; where both are higher (above 0), it was the CPU's speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Correlated {
    /// Key of the one.
    pub a: String,
    /// Key of the other.
    pub b: String,
    /// Correlation over resamplings of the trials (-1 to 1).
    pub correlation: f64,
}

/// How much of the predicted cliff rests on a cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffSensitivity {
    /// Key of the cost.
    pub key: String,
    /// Relative change of the cliff over that of the cost: -0.4: a cost 1 % higher puts the cliff 0.4 % lower.
    pub elasticity: f64,
    /// Standard deviation of the cliff that the cost's own uncertainty makes, as a share of it.
    pub spread: f64,
}

/// Latencies at one share of the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suggestion {
    /// The setting as a command or a sentence.
    pub setting: String,
    /// Why it should move the cliff.
    pub why: String,
    /// Cliff that simulation expects with it (pps), where it was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_cliff_pps: Option<Figure>,
    /// Cliff with it over the cliff without it, less 1, both by the same engine (simulation where it answers, else the model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Figure>,
    /// The same for a program; None: it takes more than a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What it gave when it was measured (`--try-suggestions`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// A setting that netcliff can make by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// `net.core.netdev_max_backlog` (packets).
    NetdevMaxBacklog(u32),
    /// SO_RCVBUF of the application's socket (bytes).
    ReceiveBufferBytes(u64),
}

/// A suggestion as measured: the host's own cliff with it and without it, in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Pairs of searches.
    pub rounds: u32,
    /// The cliff without it, median over the rounds (pps).
    pub without_pps: Figure,
    /// The cliff with it (pps).
    pub with_pps: Figure,
    /// With over without, less 1: mean over the rounds of the logarithm, with its Student interval.
    pub gain: Figure,
}

/// One engine at one load of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A setting of the device that a check changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckedSetting {
    /// Its name, as `--check` has it: `rx-usecs`.
    pub name: String,
    /// The value before and after the check.
    pub found: String,
    /// The value given.
    pub requested: String,
    /// The value in force during the check: drivers round.
    pub effective: String,
}

/// Another set-up, which calibration did not see: predicted with this calibration, then measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupCheck {
    /// What differs: `size=512B`, `work=2us`, `backlog=200`.
    pub name: String,
    /// The host that was predicted with.
    pub host: Host,
    /// The scheme that was predicted with.
    pub scheme: Scheme,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// The host's own cliff (pps).
    pub cliff_pps: ByEngine<Figure>,
    /// The cliff with all disturbances in (pps).
    #[serde(default)]
    pub cliff_experienced_pps: ByEngine<Figure>,
    /// Delivered at 1.5 times the measured cliff (pps).
    pub delivered_at_1_5_pps: ByEngine<Figure>,
    /// Delivered at twice the measured cliff (pps).
    pub delivered_at_2_pps: ByEngine<Figure>,
    /// Settings of the device that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<CheckedSetting>,
    /// Loads below the cliff where settings of the device were changed: interrupts and polls of each engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<SweepPoint>,
    /// What limits the prediction, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What "cliff" means in a run: the highest load at which at most `exceed` of the trial time is spent in trials that lose more than
/// `loss` (a search goal of RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffDefinition {
    /// Highest share of packets that a trial may lose without counting against the load.
    pub loss: f64,
    /// Highest share of the trial time at the cliff that may be spent in trials that lose more.
    pub exceed: f64,
    /// Length of a trial (s).
    pub trial_s: f64,
    /// Length of the trials that judge a load (s).
    pub duration_sum_s: f64,
    /// Distance of a search's bounds over the upper one.
    pub width: f64,
}

/// The searches behind a measured cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffSearches {
    /// Of the host's own cliff.
    pub own: CliffBounds,
    /// Of the cliff with all disturbances in.
    pub experienced: CliffBounds,
    /// Trials made, void ones too.
    pub trials: u32,
    /// Trials that say nothing about the host, by reason.
    pub void: Vec<VoidTrials>,
}

/// Bounds of a cliff over several searches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffBounds {
    /// Lower end of the interval over the searches (pps); None: no load tried bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Upper end (pps); None: no load that the sender reached bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Confidence of the interval; 0: not known, since loads over a wider range than the searches' pass or fail by chance.
    pub confidence: f64,
    /// The searches in the order they were made.
    pub searches: Vec<SearchBounds>,
}

/// One search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchBounds {
    /// Load it began at (pps): dithered, so that searches do not share a grid.
    pub start_pps: f64,
    /// Highest load upheld below every load that failed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Lowest load that failed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// How it ended, as in `rfc2544`: `regular`, `above-sender`, `out-of-time`, ...
    pub end: String,
    /// Service demand in its trials, median (s): its cliff times this is a figure without the machine's speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_s: Option<f64>,
}

/// Trials that were void for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VoidTrials {
    /// The reason in words.
    pub why: String,
    /// How many.
    pub trials: u32,
}

/// Whether the host's CPU may halt between packets, and what the other way gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleModes {
    /// That of the run: `awake` (a loop that gives way to all else keeps the CPU from halting) or `as-configured`.
    pub mode: String,
    /// A trial the run's way; None: none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub this: Option<IdleTrial>,
    /// One the other way, at the same load right after; None: none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<IdleTrial>,
}

/// One trial with the CPU halting or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleTrial {
    /// `awake` or `as-configured`.
    pub mode: String,
    /// Offered load (pps).
    pub load_pps: f64,
    /// Share of the packets that were lost.
    pub loss: f64,
    /// 99th percentile of the latency (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Longest latency (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_s: Option<f64>,
}

/// A measured load of the sweep on the wrong side of the measured cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// The load (pps).
    pub load_pps: f64,
    /// What it lost.
    pub loss: f64,
    /// Why it does not fit, as far as the run's own measurements tell.
    pub cause: String,
}

/// What is asked of the host under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setup {
    /// Scheme the kernel runs.
    pub scheme: Scheme,
    /// Traffic without a load of its own (its rate is the cliff's).
    pub traffic: Traffic,
    /// Application work a packet beyond reading it (s).
    pub application_work_s: f64,
    /// Socket receive buffer asked for (bytes).
    pub socket_buffer_bytes: u64,
    /// Repeats of each load of the sweep.
    pub repeats: u32,
    /// Length of a trial of the sweep (s); that of a search is in `definition`.
    pub trial_s: f64,
    /// True for `--quick`.
    pub quick: bool,
}

/// The one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What the host is.
    pub host: HostSummary,
    /// The configuration.
    pub setup: Setup,
    /// What its packets cost; None: calibration failed, see `missing`.
    pub calibration: Option<Calibration>,
    /// The load generator alone.
    pub generator: GeneratorSummary,
    /// What the interface under test counted, where the load came from another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceAccount>,
    /// How latency is taken, where the load came from another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_method: Option<String>,
    /// Loss fraction that defines the cliff.
    pub loss_target: f64,
    /// What a cliff is in this run; None in findings of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<CliffDefinition>,
    /// The host's own cliff (pps): highest offered load with loss at or below the target, without disturbances from outside.
    pub cliff_pps: ByEngine<Figure>,
    /// What model and simulation gave for it with the costs as calibrated (pps), where the CPU's speed was another when the cliff was
    /// measured and `cliff_pps` is for that speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_as_calibrated_pps: Option<ByEngine<Figure>>,
    /// What model and simulation gave for a host that nothing disturbs (pps); `cliff_pps` has what disturbances leave behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_undisturbed_pps: Option<ByEngine<Figure>>,
    /// The calibrated host at the speed of the searches, which model and simulation are for; None: as calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_host: Option<Host>,
    /// The same with all disturbances in (pps).
    #[serde(default)]
    pub cliff_experienced_pps: ByEngine<Figure>,
    /// What the predicted cliff rests on, the most telling cost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<CliffSensitivity>,
    /// The searches behind the measured cliffs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searches: Option<CliffSearches>,
    /// Whether the host's CPU may halt; None in findings of versions that let it as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleModes>,
    /// What disturbed the run from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// How fast the host's CPU was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// How that changed over the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Where the time of the run went; None in findings of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_spent: Option<TimeSpent>,
    /// Measured loads of the sweep that contradict the measured cliff, each with its cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Highest delivered load (pps).
    pub peak_pps: ByEngine<Figure>,
    /// Delivered load at twice the cliff over the peak: 1 flat, 0 livelock.
    pub livelock: ByEngine<Figure>,
    /// True if the measured one is of the ledger's trial: no trial of the sweep at that load counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub livelock_by_ledger: bool,
    /// Latencies at 50 % and 90 % of the cliff.
    pub latency: Vec<LatencyAt>,
    /// Round trips at 10, 50 and 90 % of the cliff, where the load came from another host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTripsAt>,
    /// Pauses of the host's CPU that lose nothing, by load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_budget: Vec<PauseBudget>,
    /// CPU split of the host under test's CPU at the cliff.
    pub cpu_at_cliff: ByEngine<CpuShares>,
    /// CPU split at twice the cliff: why it falls there.
    pub cpu_at_twice: ByEngine<CpuShares>,
    /// How the measured split was brought to the rows of the engines, and what it has beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_measured: Option<CpuMeasured>,
    /// Where packets were lost at twice the cliff.
    pub loss_at_twice: ByEngine<Loss>,
    /// Where every packet of a trial past the cliff went; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// The bottleneck, one sentence.
    pub binding: Option<String>,
    /// The most promising settings to try.
    pub suggestions: Vec<Suggestion>,
    /// Figures that could not be measured, and why.
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

/// Distance from twice the cliff within which the ledger's trial is at twice the cliff (share).
const NEAR_TWICE: f64 = 0.1;

impl Finding {
    /// Share of the measured peak that the ledger's trial delivered; None: that trial was not at twice the measured cliff.
    pub fn delivered_in_ledger(&self) -> Option<Figure> {
        let (trial, cliff, peak) = (self.ledger.as_ref()?, self.cliff_pps.wire?, self.peak_pps.wire?);
        let near = (trial.load_pps / (2.0 * cliff.value) - 1.0).abs() <= NEAR_TWICE;
        let delivered_pps = trial.load_pps * trial.ledger.delivered as f64 / trial.ledger.sent as f64;
        let share = delivered_pps / peak.value;
        (near && share.is_finite()).then(|| Figure::exact(share))
    }

    /// A finding without figures of such a host and question.
    pub fn blank(setup: Setup, loss_target: f64) -> Self {
        Self {
            host: HostSummary::default(),
            setup,
            calibration: None,
            generator: GeneratorSummary::default(),
            device: None,
            latency_method: None,
            loss_target,
            definition: None,
            cliff_pps: ByEngine::default(),
            cliff_as_calibrated_pps: None,
            cliff_undisturbed_pps: None,
            searched_host: None,
            cliff_experienced_pps: ByEngine::default(),
            sensitivity: Vec::new(),
            searches: None,
            idle: None,
            disturbance: None,
            speed: None,
            drift: None,
            time_spent: None,
            contradictions: Vec::new(),
            peak_pps: ByEngine::default(),
            livelock: ByEngine::default(),
            livelock_by_ledger: false,
            latency: Vec::new(),
            round_trips: Vec::new(),
            pause_budget: Vec::new(),
            cpu_at_cliff: ByEngine::default(),
            cpu_at_twice: ByEngine::default(),
            cpu_measured: None,
            loss_at_twice: ByEngine::default(),
            ledger: None,
            binding: None,
            suggestions: Vec::new(),
            missing: Vec::new(),
            sweep: Vec::new(),
            checks: Vec::new(),
            fingerprint: Fingerprint::default(),
            provenance: Provenance::default(),
            partial: false,
        }
    }

    /// The outcomes of one engine by rising load.
    pub fn curve(&self, engine: EngineKind) -> Vec<&SweepPoint> {
        let mut points: Vec<&SweepPoint> = self.sweep.iter().filter(|point| point.engine == engine).collect();
        points.sort_by(|a, b| a.load_pps.total_cmp(&b.load_pps));
        points
    }
}

/// What was moved between the rows of the measured split, and what it has beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuMeasured {
    /// Time of each interrupt that was moved to the interrupt row from the application or idle time it hit (s).
    pub hidden_s: f64,
    /// Time of each interrupt that was moved there from the softirq it hit (s); None: a finding of before 27 November 2026.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_softirq_s: Option<f64>,
    /// Time of each poll that was moved to the poll row from NET_RX softirqs (s).
    pub poll_s: f64,
    /// By rising load.
    pub besides: Vec<CpuBesides>,
}

/// Shares of one CPU that no row of model and simulation has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuBesides {
    /// Offered load (pps).
    pub load_pps: f64,
    /// Other tasks, other softirqs than NET_RX, behind a NIC also the interrupts of the timer and of other CPUs.
    pub other: Figure,
    /// The meter itself, contained in the other rows; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Figure>,
}

impl CpuMeasured {
    /// At one load.
    pub fn at(&self, load_pps: f64) -> Option<&CpuBesides> {
        self.besides.iter().find(|besides| (besides.load_pps / load_pps - 1.0).abs() < 1e-6)
    }
}

/// What the device under test counted while trials ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceAccount {
    /// The device.
    pub interface: String,
    /// Packets of all trials that it received.
    pub received: u64,
    /// The driver's counters of loss that rose, by ethtool's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<DeviceLoss>,
    /// Its interrupts, one entry a vector that rose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<DeviceVector>,
}

/// One counter of loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceLoss {
    /// Its name: `rx_missed_errors`.
    pub counter: String,
    /// By how much it rose.
    pub packets: u64,
    /// What it means: `no room`, `waited for a buffer`, `dropped by XDP`, `beyond the cloud's allowance` or `other`.
    pub cause: String,
}

/// One interrupt of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceVector {
    /// Its number in /proc/interrupts.
    pub irq: u32,
    /// How often it came while trials ran, their time before and after the measured window included.
    pub interrupts: u64,
}

/// Round trips at one load, in a trial of their own: from the intended send time of a frame to the kernel's receive timestamp of the application's answer, both by
/// the clock of the host that sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTripsAt {
    /// Share of the measured (or else simulated) cliff: 0.1, 0.5, 0.9.
    pub share: f64,
    /// That load (pps).
    pub load_pps: f64,
    /// Answers that the application sent, warm-up included.
    pub answers: u64,
    /// Those to frames of the measured window that arrived: the sample.
    pub samples: u64,
    /// Shortest (s).
    pub min_s: f64,
    /// Median (s).
    pub p50_s: f64,
    /// 90th percentile (s).
    pub p90_s: f64,
    /// 99th percentile (s).
    pub p99_s: f64,
    /// Longest (s).
    pub max_s: f64,
}

/// Where the time of a run went (s). The three add up to the time of its stages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSpent {
    /// The windows of trials, which count.
    pub measured_s: f64,
    /// The rest of trials: set-up, warm-up, cool-down, and the wait for the last packets.
    pub waited_s: f64,
    /// Everything else: model, simulation, fits.
    pub computed_s: f64,
    /// The time of each stage, in order.
    pub stages: Vec<StageTime>,
}

/// Where the time of a stage went (s).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageTime {
    /// The stage, as progress names it.
    pub stage: String,
    /// Its trials.
    pub trials: u32,
    /// As in [`TimeSpent`].
    pub measured_s: f64,
    /// As in [`TimeSpent`].
    pub waited_s: f64,
    /// As in [`TimeSpent`].
    pub computed_s: f64,
}

impl TimeSpent {
    /// Adds up stages.
    pub fn of(stages: Vec<StageTime>) -> Self {
        let sum = |of: fn(&StageTime) -> f64| stages.iter().map(of).sum();
        Self {
            measured_s: sum(|stage| stage.measured_s),
            waited_s: sum(|stage| stage.waited_s),
            computed_s: sum(|stage| stage.computed_s),
            stages,
        }
    }
}
