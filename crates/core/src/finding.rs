//! [`Finding`]: the result of `netcliff find`: a host's cliff predicted, simulated and measured. [`Settings`]: what it
//! measures, and how precisely.

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
use crate::traffic::{Gaps, Traffic};
use crate::written;

pub use anew::{CliffReason, WhyCliffsDiffer, listed};
pub use disturbance::{
    Buffer, ClockJump, Disturbance, Drift, LengthBin, MOST_TASKS, PauseBudget, Pauses, Speed, SpeedAt, TaskTime,
};
pub use generator::{GeneratorPart, GeneratorSummary};
pub use missing::{EngineFigure, FigurePath, Missing, WholeFigure};

/// One value from each engine. None: it is not available; [`Finding::missing`] gives the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByEngine<T> {
    /// Predicted by the model.
    pub model: Option<T>,
    /// By simulation.
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

/// Description of the host under test, in words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostSummary {
    /// CPU model and count: `2 x Intel(R) Xeon(R) Processor`.
    pub cpu: String,
    /// Kernel release and preemption: `Linux 6.18.44`.
    pub kernel: String,
    /// Testbed and its CPUs: `netns: sender on CPU 0, host under test on CPU 1`.
    pub testbed: String,
    /// Driver and receive path: `veth, RPS to CPU 1 (process_backlog)`.
    pub driver: String,
    /// Limits of the results of this run, one sentence each: virtual machine, no root, few cores.
    pub limits: Vec<String>,
    /// Agent on the host under test; absent: it is the host that ran `find`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// One calibrated cost or size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Key of the host file that has the cost: `protocol`, `application`, `ring`.
    pub key: String,
    /// The value with its interval.
    pub figure: Figure,
    /// Unit of the figure: `s`, `s/B` or `packets`.
    pub unit: String,
    /// How the cost was measured: `regression of NET_RX softirq time on packets and polls (ebpf)`.
    pub how: String,
}

/// Result of the calibration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Costs and sizes in the order they are shown.
    pub costs: Vec<Cost>,
    /// The costs as a host for model and simulation.
    pub host: Host,
    /// How CPU time was measured: `ebpf`, `procfs` or `soaker`, with the method's own overhead in words.
    pub cpu_method: String,
    /// R squared: share of the variance of softirq time that the regression explains. None: no regression was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Pairs of costs whose estimates are strongly correlated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub correlated: Vec<Correlated>,
}

/// Two costs whose estimates vary together. Correlation below 0: the trials hardly distinguish them, and one is too
/// high if the other is too low. Above 0: the CPU's speed changed both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Correlated {
    /// Key of the first cost.
    pub a: String,
    /// Key of the second cost.
    pub b: String,
    /// Correlation of the two estimates over resamplings of the trials (-1 to 1).
    pub correlation: f64,
}

/// How much the predicted cliff depends on one cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffSensitivity {
    /// Key of the cost.
    pub key: String,
    /// Relative change of the cliff divided by the relative change of the cost. -0.4: if the cost is 1 % higher, the
    /// cliff is 0.4 % lower.
    pub elasticity: f64,
    /// Standard deviation of the cliff caused by the uncertainty of this cost, as a share of the cliff.
    pub spread: f64,
}

/// Latencies at a load that is a fixed share of the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyAt {
    /// The load as a share of the measured (or else simulated) cliff: 0.5, 0.9.
    pub share: f64,
    /// The load (pps).
    pub load_pps: f64,
    /// Latency (s) by engine.
    pub latency_s: ByEngine<Latency>,
}

/// A setting that may raise the cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suggestion {
    /// The setting as a command or a sentence.
    pub setting: String,
    /// Why it should move the cliff.
    pub why: String,
    /// Cliff that simulation predicts with the setting (pps); `None`: not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_cliff_pps: Option<Figure>,
    /// Relative gain: cliff with the setting divided by cliff without it, minus 1, both by simulation or both by the
    /// model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Figure>,
    /// The setting in a form that netcliff can apply; `None`: netcliff cannot apply it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Measured effect (`--try-suggestions`); None: not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

/// A setting that netcliff can apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// `net.core.netdev_max_backlog` (packets).
    NetdevMaxBacklog(u32),
    /// SO_RCVBUF of the application's socket (bytes).
    ReceiveBufferBytes(u64),
}

/// Measured effect of a suggestion, by searches for the cliff that alternate between without and with the setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Number of pairs of searches.
    pub rounds: u32,
    /// The cliff without it, median over the rounds (pps).
    pub without_pps: Figure,
    /// The cliff with it, median over the rounds (pps).
    pub with_pps: Figure,
    /// Relative gain: mean over the rounds of log(with / without), converted to with / without minus 1, with its
    /// Student interval.
    pub gain: Figure,
}

/// Outcome of one engine at one load of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SweepPoint {
    /// The engine.
    pub engine: EngineKind,
    /// Intended offered load (pps).
    pub load_pps: f64,
    /// Number of repeats behind the outcome (1 for the model).
    pub repeats: u32,
    /// False: the sender did not reach the load, so that losses say nothing about the receiver.
    pub sender_kept_up: bool,
    /// The outcome.
    pub outcome: Outcome,
}

/// A device setting that a check changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckedSetting {
    /// Its name, as in `--check`: `rx-usecs`.
    pub name: String,
    /// The value before and after the check.
    pub found: String,
    /// The value that was requested.
    pub requested: String,
    /// The value during the check, which the driver may have rounded.
    pub effective: String,
}

/// A set-up that was not calibrated: predicted with the calibration of this run, then measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetupCheck {
    /// The difference to the run: `size=512B`, `work=2us`, `backlog=200`.
    pub name: String,
    /// The host used for the prediction.
    pub host: Host,
    /// The scheme used for the prediction.
    pub scheme: Scheme,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32,
    /// The host's own cliff, without disturbances (pps).
    pub cliff_pps: ByEngine<Figure>,
    /// The cliff with all disturbances included (pps).
    #[serde(default)]
    pub cliff_experienced_pps: ByEngine<Figure>,
    /// Delivered rate at 1.5 times the measured cliff (pps).
    pub delivered_at_1_5_pps: ByEngine<Figure>,
    /// Delivered rate at twice the measured cliff (pps).
    pub delivered_at_2_pps: ByEngine<Figure>,
    /// Device settings that the check changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<CheckedSetting>,
    /// If device settings were changed: loads below the cliff, with the interrupts and polls of each engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<SweepPoint>,
    /// Limits of the prediction, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Definition of "cliff" in a run: the highest load at which at most `exceed` of the trial time is spent in trials that
/// lose more than `loss` (a search goal of RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffDefinition {
    /// Highest share of lost packets in a trial that passes.
    pub loss: f64,
    /// Highest share of the trial time at the cliff that may be spent in trials that do not pass.
    pub exceed: f64,
    /// Length of a trial (s).
    pub trial_s: f64,
    /// Total length of the trials that decide on a load (s).
    pub duration_sum_s: f64,
    /// Distance of a search's final bounds, relative to the upper one.
    pub width: f64,
}

/// The searches behind a measured cliff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffSearches {
    /// For the host's own cliff, without disturbances.
    pub own: CliffBounds,
    /// For the cliff with all disturbances included.
    pub experienced: CliffBounds,
    /// Trials made, void ones included.
    pub trials: u32,
    /// Trials that do not count because they say nothing about the host, by reason.
    pub void: Vec<VoidTrials>,
}

/// Bounds of a cliff from several searches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliffBounds {
    /// Lower end of the confidence interval over the searches (pps); `None`: no tested load is known to be below the
    /// cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Upper end of the confidence interval (pps); `None`: no load that the sender reached is known to be above the
    /// cliff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Confidence of the interval. 0: unknown, because loads pass or fail by chance in a wider range than the range of
    /// the searches.
    pub confidence: f64,
    /// The searches in the order they were made.
    pub searches: Vec<SearchBounds>,
}

/// In place of an unknown confidence, what a cliff's interval from this number of searches is: `from 1 search`, `the
/// range of 2 searches`.
pub fn without_confidence(searches: usize) -> String {
    if searches == 1 { "from 1 search".to_owned() } else { format!("the range of {searches} searches") }
}

/// Result of one search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchBounds {
    /// Load of the first trial (pps), varied at random so that searches do not try the same loads.
    pub start_pps: f64,
    /// Highest load that passed, below all loads that failed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<f64>,
    /// Lowest load that failed (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Why the search ended, as in `rfc2544`: `regular`, `above-sender`, `out-of-time`, ...
    pub end: String,
    /// Median service demand in the search's trials (CPU seconds per packet). Cliff times demand does not depend on the
    /// machine's speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_s: Option<f64>,
}

/// Trials that were void for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VoidTrials {
    /// The reason in words.
    pub why: String,
    /// Number of such trials.
    pub trials: u32,
}

/// Whether the host's CPU may halt between packets, and the effect of the other mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleModes {
    /// Mode of the run: `awake` (a loop that yields to everything else keeps the CPU from halting) or `as-configured`.
    pub mode: String,
    /// A trial in the run's mode; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub this: Option<IdleTrial>,
    /// A trial in the other mode, right after `this` and at the same load; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<IdleTrial>,
}

/// One trial in one of the two idle modes.
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

/// A measured load of the sweep that contradicts the measured cliff: it failed below the cliff or passed above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contradiction {
    /// The load (pps).
    pub load_pps: f64,
    /// Share of packets lost.
    pub loss: f64,
    /// Reason for the contradiction, as far as the measurements of the run show it.
    pub cause: String,
}

/// Configuration of the host under test and of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setup {
    /// Scheme the kernel runs.
    pub scheme: Scheme,
    /// Traffic. Its load has no meaning, as the cliff is searched.
    #[serde(with = "written::without_load")]
    #[cfg_attr(feature = "schema", schemars(with = "written::Traffic"))]
    pub traffic: Traffic,
    /// Work of the application per packet, besides reading it (s).
    pub application_work_s: f64,
    /// Socket receive buffer that was requested (bytes).
    pub socket_buffer_bytes: u64,
    /// Repeats of each load of the sweep.
    pub repeats: u32,
    /// Length of a trial of the sweep (s); `definition` has the length of a search's trial.
    pub trial_s: f64,
    /// True: shorter run (`--quick`).
    pub quick: bool,
    /// True: UDP over IPv6 (`--ipv6`); absent: over IPv4.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ipv6: bool,
}

/// A short run of 64-byte frames, for findings that no `find` measured.
impl Default for Setup {
    fn default() -> Self {
        Self {
            scheme: Scheme::Ideal,
            traffic: Traffic::default(),
            application_work_s: 0.0,
            socket_buffer_bytes: 1 << 20,
            repeats: 1,
            trial_s: 0.4,
            quick: true,
            ipv6: false,
        }
    }
}

impl Setup {
    /// The configuration of a run with these settings; scheme, traffic, `repeats` and `trial_s` are those of the
    /// default.
    pub fn of(settings: &Settings) -> Self {
        Self {
            application_work_s: settings.work_s,
            socket_buffer_bytes: settings.receive_buffer_bytes,
            quick: settings.quick,
            ipv6: settings.ipv6,
            ..Self::default()
        }
    }

    /// Name and value of the settings that `compare` lists.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("setup.scheme", self.scheme.record()),
            ("setup.arrivals", self.traffic.arrivals.to_string()),
            ("setup.size", self.traffic.size.to_string()),
            ("setup.family", if self.ipv6 { "IPv6" } else { "IPv4" }.to_owned()),
            ("setup.work_s", self.application_work_s.to_string()),
            ("setup.socket_buffer_bytes", self.socket_buffer_bytes.to_string()),
            ("setup.repeats", self.repeats.to_string()),
            ("setup.trial_s", self.trial_s.to_string()),
        ]
    }
}

/// Declares a type of settings; the row of a setting has its default.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$of:meta])* pub $field:ident: $kind:ty = $default:expr,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$of])* pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

settings! {
/// What a `find` measures and how precisely, as the command line gives it and as a client sends it to an agent; a
/// service takes what does not belong to netcliff's own receiver. The default is that of `netcliff find` without
/// arguments.
pub struct Settings {
    /// Whether to make fewer and shorter trials (about one minute on two CPUs).
    pub quick: bool = false,
    /// Loss fraction that defines the cliff.
    pub loss: f64 = 1e-4,
    /// Frame size, FCS included (bytes).
    pub frame_bytes: u32 = 64,
    /// Whether UDP is sent over IPv6 instead of IPv4.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ipv6: bool = false,
    /// Arrival process.
    pub arrivals: Gaps = Gaps::Poisson,
    /// Configured CPU time of the application per packet, in addition to reading it (s).
    pub work_s: f64 = 0.0,
    /// Requested receive buffer (bytes).
    pub receive_buffer_bytes: u64 = 1 << 20,
    /// Repeats of each load of the sweep; `None`: by `quick`.
    pub repeats: Option<u32> = None,
    /// Length of one measurement (s); `None`: by `quick`.
    pub trial_s: Option<f64> = None,
    /// Total length of the trials that decide on a load in a search (s); `None`: by `quick`.
    pub duration_sum_s: Option<f64> = None,
    /// Share of the trials at the cliff that may lose more than `loss`; `None`: [`Settings::EXCEED`].
    pub exceed: Option<f64> = None,
    /// Relative width of the bounds at which a search ends; `None`: by `quick`.
    pub width: Option<f64> = None,
    /// Number of searches for the cliff; `None`: six, of a service by `quick`.
    pub searches: Option<u32> = None,
    /// Seed of all random numbers.
    pub seed: u64 = 1,
    /// Loads at which a check of a device's settings is measured besides its cliff (pps); empty: three shares of the
    /// check's cliff.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_loads_pps: Vec<f64> = Vec::new(),
    /// Whether the most promising suggestion is measured, too.
    pub try_suggestions: bool = false,
    /// Command line, for the provenance.
    pub command: String = String::new(),
    /// Start, seconds since the epoch (UTC).
    pub started_unix_s: f64 = 0.0,
}
}

impl Settings {
    /// Default of [`Settings::exceed`].
    pub const EXCEED: f64 = 0.5;
    /// Most loads of a check that a client may request.
    const MOST_LOADS: usize = 1000;

    /// Smallest frame, FCS included (bytes): the headers of Ethernet, IP and UDP, 18 bytes of netcliff's own, and the
    /// FCS. A VLAN tag is not counted.
    pub const fn least_frame_bytes(ipv6: bool) -> u32 {
        if ipv6 { 84 } else { 64 }
    }

    /// Checks what an agent's client may request.
    ///
    /// # Errors
    /// Name and accepted form of a setting that is refused.
    pub fn check(&self) -> Result<(), String> {
        let (loads, most) = (&self.check_loads_pps, Self::MOST_LOADS);
        if loads.len() > most || loads.iter().any(|pps| !pps.is_finite() || *pps <= 0.0) {
            return Err(format!("check_loads_pps: expected up to {most} loads above 0 pps"));
        }
        let least = Self::least_frame_bytes(self.ipv6);
        if self.frame_bytes < least {
            return Err(format!("frame_bytes {}: expected {least} bytes or more", self.frame_bytes));
        }
        Ok(())
    }
}

/// The result of `netcliff find`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Description of the host under test.
    pub host: HostSummary,
    /// The configuration.
    pub setup: Setup,
    /// Calibrated costs of a packet; `None`: calibration failed, see `missing`.
    pub calibration: Option<Calibration>,
    /// The load generators.
    pub generator: GeneratorSummary,
    /// Counters of the interface under test; only if another host sent the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceAccount>,
    /// How latency was measured; only if another host sent the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_method: Option<String>,
    /// Loss fraction that defines the cliff.
    pub loss_target: f64,
    /// Definition of the cliff; None in findings of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<CliffDefinition>,
    /// The host's own cliff (pps): highest offered load with a loss of at most the target, without disturbances from
    /// outside.
    pub cliff_pps: ByEngine<Figure>,
    /// Cliff by model and simulation with the costs as calibrated (pps). Present if the CPU's speed was different when
    /// the cliff was measured: `cliff_pps` is then for that speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_as_calibrated_pps: Option<ByEngine<Figure>>,
    /// Cliff by model and simulation for a host without disturbances (pps); `cliff_pps` includes the disturbances that
    /// are present in every trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff_undisturbed_pps: Option<ByEngine<Figure>>,
    /// Host for which model and simulation compute `cliff_pps`: the calibrated host with its costs at the CPU's speed
    /// during the searches. `None`: that speed was the calibrated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_host: Option<Host>,
    /// The cliff with all disturbances included (pps).
    #[serde(default)]
    pub cliff_experienced_pps: ByEngine<Figure>,
    /// Costs that the predicted cliff depends on, the largest effect first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<CliffSensitivity>,
    /// The searches behind the measured cliffs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searches: Option<CliffSearches>,
    /// Idle mode of the host's CPU. None in findings of versions before `--idle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleModes>,
    /// Disturbances of the run from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Speed of the host's CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// Change of that speed over the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// How the time of the run was spent; None in findings of versions that did not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_spent: Option<TimeSpent>,
    /// Measured loads of the sweep that contradict the measured cliff, each with its cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Highest delivered rate (pps).
    pub peak_pps: ByEngine<Figure>,
    /// Delivered rate at twice the cliff divided by the peak: 1 without livelock, 0 in full livelock.
    pub livelock: ByEngine<Figure>,
    /// True: the measured `livelock` comes from the trial of `ledger`, because no trial of the sweep at that load
    /// counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub livelock_by_ledger: bool,
    /// Latencies at 50 % and 90 % of the cliff.
    pub latency: Vec<LatencyAt>,
    /// Round trips at 10, 50 and 90 % of the cliff; only if another host sent the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTripsAt>,
    /// Longest pauses of the host's CPU that lose no packets, by load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_budget: Vec<PauseBudget>,
    /// Shares of CPU time at the cliff, for the CPU under test.
    pub cpu_at_cliff: ByEngine<CpuShares>,
    /// Shares of CPU time at twice the cliff, which explain the delivered rate there.
    pub cpu_at_twice: ByEngine<CpuShares>,
    /// How the measured shares were converted to the classes of model and simulation, and which other CPU time they
    /// contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_measured: Option<CpuMeasured>,
    /// Where packets were lost at twice the cliff.
    pub loss_at_twice: ByEngine<Loss>,
    /// Ledger of a trial past the cliff, with the fate of every packet; None: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// Sentence that names the bottleneck.
    pub binding: Option<String>,
    /// Settings that may raise the cliff, the most promising first.
    pub suggestions: Vec<Suggestion>,
    /// Figures that could not be measured, and why.
    pub missing: Vec<Missing>,
    /// Outcomes by engine and rising load.
    pub sweep: Vec<SweepPoint>,
    /// Other set-ups, predicted with this calibration and then measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<SetupCheck>,
    /// Properties of host and software that explain a difference to another host or run.
    pub fingerprint: Fingerprint,
    /// Version, seed, engines and settings of the run.
    pub provenance: Provenance,
    /// True: the run was stopped early; all values present were measured.
    pub partial: bool,
}

/// Largest relative distance from twice the cliff at which the trial of `Finding::ledger` counts as a trial at twice
/// the cliff.
const NEAR_TWICE: f64 = 0.1;

impl Finding {
    /// Delivered rate in the trial of `ledger` divided by the measured peak; `None`: that trial was not at twice the
    /// measured cliff, or one of these figures is missing.
    pub fn delivered_in_ledger(&self) -> Option<Figure> {
        let (trial, cliff, peak) = (self.ledger.as_ref()?, self.cliff_pps.wire?, self.peak_pps.wire?);
        let near = (trial.load_pps / (2.0 * cliff.value) - 1.0).abs() <= NEAR_TWICE;
        let delivered_pps = trial.load_pps * trial.ledger.delivered as f64 / trial.ledger.sent as f64;
        let share = delivered_pps / peak.value;
        (near && share.is_finite()).then(|| Figure::exact(share))
    }

    /// A finding with this configuration and without any figures.
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

/// How the measured shares of CPU time were converted to the classes of model and simulation, and what else they
/// contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuMeasured {
    /// CPU time per interrupt (s) that was moved to the interrupt share from the application or idle time it
    /// interrupted.
    pub hidden_s: f64,
    /// CPU time per interrupt (s) that was moved to the interrupt share from the softirq it interrupted. None in
    /// findings before 27 November 2026.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_softirq_s: Option<f64>,
    /// CPU time per poll (s) that was moved to the poll share from NET_RX softirqs.
    pub poll_s: f64,
    /// CPU time of classes that model and simulation do not have, by rising load.
    pub besides: Vec<CpuBesides>,
}

/// CPU time of classes that model and simulation do not have, as shares of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuBesides {
    /// Offered load (pps).
    pub load_pps: f64,
    /// Other tasks and softirqs other than NET_RX; with a NIC also the interrupts of timers and of other CPUs.
    pub other: Figure,
    /// CPU time of the meter itself, which the other shares contain; `None`: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Figure>,
}

impl CpuMeasured {
    /// The shares at this load; None: not measured there.
    pub fn at(&self, load_pps: f64) -> Option<&CpuBesides> {
        self.besides.iter().find(|besides| (besides.load_pps / load_pps - 1.0).abs() < 1e-6)
    }
}

/// Counters of the device under test during trials.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceAccount {
    /// The interface.
    pub interface: String,
    /// Packets received in all trials.
    pub received: u64,
    /// The driver's loss counters that increased, named as by ethtool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<DeviceLoss>,
    /// Its interrupt vectors that increased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<DeviceVector>,
}

/// A loss counter of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceLoss {
    /// Its name: `rx_missed_errors`.
    pub counter: String,
    /// Increase of the counter (packets).
    pub packets: u64,
    /// Meaning: `no room`, `waited for a buffer`, `dropped by XDP`, `beyond the cloud's allowance` or `other`.
    pub cause: String,
}

/// One interrupt vector of the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceVector {
    /// Its number in /proc/interrupts.
    pub irq: u32,
    /// Number of interrupts during trials, including the time before and after the measured window.
    pub interrupts: u64,
}

/// Round-trip times at one load, measured in a separate trial: from the intended send time of a frame to the kernel's
/// receive timestamp of the application's answer, both on the clock of the sending host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTripsAt {
    /// The load as a share of the measured (or else simulated) cliff: 0.1, 0.5, 0.9.
    pub share: f64,
    /// The load (pps).
    pub load_pps: f64,
    /// Answers that the application sent, warm-up included.
    pub answers: u64,
    /// Number of round trips: answers to frames of the measured window that arrived.
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

/// How the time of a run was spent (s). The three parts add up to the time of its stages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSpent {
    /// Measured windows of trials.
    pub measured_s: f64,
    /// Other parts of trials: set-up, warm-up, cool-down, and the wait for the last packets.
    pub waited_s: f64,
    /// Everything else: model, simulation, fits.
    pub computed_s: f64,
    /// The time of each stage, in order.
    pub stages: Vec<StageTime>,
}

/// How the time of a stage was spent (s).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageTime {
    /// Name of the stage, as in the progress display.
    pub stage: String,
    /// Number of its trials.
    pub trials: u32,
    /// As in [`TimeSpent`].
    pub measured_s: f64,
    /// As in [`TimeSpent`].
    pub waited_s: f64,
    /// As in [`TimeSpent`].
    pub computed_s: f64,
}

impl TimeSpent {
    /// Sums over the stages.
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
