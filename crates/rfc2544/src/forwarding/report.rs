//! Report of an experiment of forwarding.

use netcliff_core::{Figure, Fingerprint, Provenance};
use serde::{Deserialize, Serialize};

use super::About;
use crate::cost::Predicted;
use crate::report::{Limit, LineShare, SizeReport};
use crate::settings::FrameSize;
use netcliff_stats as stats;

/// A setting that a tuning plan changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Name of the setting.
    pub name: String,
    /// Value before the change.
    pub before: String,
    /// Value in effect after the change.
    pub after: String,
}

/// What limited a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The router: it did not forward a higher load that was offered.
    Router,
    /// The CPU that router and tester share. The throughput is the rate at which this CPU sends, forwards and receives
    /// each frame.
    SharedCpu,
    /// The tester: it could not offer a higher load, so the router's throughput is at least the measured one.
    Tester,
}

impl Bound {
    fn of(limit: Limit, shared: bool) -> Self {
        match (limit, shared) {
            (Limit::Device, _) => Self::Router,
            (_, true) => Self::SharedCpu,
            (_, false) => Self::Tester,
        }
    }

    /// The name on screens.
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::SharedCpu => "shared CPU",
            Self::Tester => "tester",
        }
    }
}

/// Whether a gain is a lower or an upper limit, because the tester limited one of its two throughputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GainLimit {
    /// A lower limit: the tester limited the throughput of this set-up.
    AtLeast,
    /// An upper limit: the tester limited the throughput of the first set-up.
    AtMost,
    /// Neither: the tester limited both throughputs, so the gain is unknown.
    Open,
}

impl GainLimit {
    fn of(base: Bound, own: Bound) -> Option<Self> {
        match (base == Bound::Tester, own == Bound::Tester) {
            (false, false) => None,
            (false, true) => Some(Self::AtLeast),
            (true, false) => Some(Self::AtMost),
            (true, true) => Some(Self::Open),
        }
    }
}

/// Result of one search, for one set-up and one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingSample {
    /// Number of the round, from 1.
    pub round: u32,
    /// Highest load that was forwarded (pps); absent if the search found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// Lowest load above the throughput that was not forwarded (pps); absent if the search found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// What limited the throughput; absent if the search found no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Highest rate of the sender (pps).
    pub sender_pps: f64,
    /// Throughput predicted from the CPU times of the router at half the measured throughput; absent if these times
    /// could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Number of trials of the search, void ones included.
    pub trials: u64,
    /// Total length of the trials of the search (s).
    pub trial_time_s: f64,
    /// What could not be measured and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl ForwardingSample {
    pub(super) fn of(round: u32, size: &SizeReport, about: &About) -> Self {
        let searched = size.throughput.as_ref();
        let first = searched.and_then(|searched| searched.found.first());
        Self {
            round,
            throughput_pps: size.forwarded_pps(),
            upper_pps: first.and_then(|found| found.upper_pps),
            bound: size.limit.map(|limit| Bound::of(limit, about.shared)),
            sender_pps: size.sender_pps,
            predicted: size.predicted,
            trials: size.seen.trials,
            trial_time_s: searched.map_or(0.0, |searched| searched.trial_time_s),
            missing: size.missing.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A set-up of the router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetUpReport {
    /// Name of the set-up.
    pub name: String,
    /// How the set-up forwards frames.
    pub forwarding: String,
    /// Objective of the tuning plan; absent: no plan, the kernel's own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// Description of the set-up; absent if it could not be built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// Results for one frame size in one set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingRow {
    /// The frames that were sent.
    pub frame: FrameSize,
    /// Name of the set-up.
    pub set_up: String,
    /// Results of the searches, one for each round.
    pub samples: Vec<ForwardingSample>,
    /// Mean throughput over the rounds (pps); absent if no search found one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// What limited the throughput: the tester if it did so in any round, else the shared CPU if it did so in any
    /// round; absent if no search found a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Mean over the rounds of the simulated throughput (pps), with the router's CPU as the only server; absent if none
    /// was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_pps: Option<Figure>,
    /// Predicted throughput of a CPU that router and tester share (pps): mean over the rounds, from this CPU's work at a
    /// quarter and half of the throughput. Absent if the CPU is not shared, or if its work could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled_pps: Option<Figure>,
    /// Throughput as a share of the line rate, in reports of earlier versions; now always empty, because a veth has no
    /// line rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_shares: Vec<LineShare>,
    /// Ratio of the throughput to that of the first set-up, minus 1: geometric mean over the rounds. Absent for the
    /// first set-up, and if no round has both throughputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Figure>,
    /// Whether `gain` is a lower or an upper limit; absent if it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_limit: Option<GainLimit>,
}

/// Report of an experiment of forwarding: throughput by frame size and set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingReport {
    /// Always `forwarding`.
    pub kind: String,
    /// What the experiment shows.
    pub title: String,
    /// Number of rounds requested.
    pub rounds: u32,
    /// The configuration, as pairs of name and value.
    pub asked: Vec<(String, String)>,
    /// The set-ups. Gains are relative to the first one.
    pub set_ups: Vec<SetUpReport>,
    /// One row for each frame size and set-up.
    pub rows: Vec<ForwardingRow>,
    /// Requested results that are missing, with the reason, a sentence each.
    pub not_had: Vec<String>,
    /// Warnings: conditions that limit the results, a sentence each.
    pub warnings: Vec<String>,
    /// Facts of this host that explain a difference to another run.
    pub fingerprint: Fingerprint,
    /// How the report was produced: version, command and time.
    pub provenance: Provenance,
    /// True if the run was stopped, or if rounds are missing.
    pub partial: bool,
}

impl ForwardingRow {
    pub(super) fn of(
        frame: FrameSize,
        set_up: &str,
        samples: Vec<ForwardingSample>,
        base: Option<&[ForwardingSample]>,
    ) -> Self {
        let values = |read: &dyn Fn(&ForwardingSample) -> Option<f64>| -> Option<Figure> {
            stats::mean(&samples.iter().filter_map(read).collect::<Vec<f64>>()).map(Figure::not_negative)
        };
        let throughput_pps = values(&|sample| sample.throughput_pps);
        let simulated_pps = values(&|sample| sample.predicted?.simulated_pps);
        let bound = |samples: &[ForwardingSample]| samples.iter().filter_map(|sample| sample.bound).max();
        Self {
            frame,
            set_up: set_up.to_owned(),
            throughput_pps,
            bound: bound(&samples),
            gain_limit: base.and_then(|base| GainLimit::of(bound(base)?, bound(&samples)?)),
            simulated_pps,
            modelled_pps: values(&|sample| {
                sample
                    .predicted
                    .filter(|predicted| predicted.simulated_pps.is_none())
                    .map(|predicted| predicted.server_pps)
            }),
            line_shares: Vec::new(),
            gain: base.and_then(|base| gain(base, &samples)),
            samples,
        }
    }

    /// Mean time of a frame on the router's CPU, as measured in the rounds (s). `None` if it was not measured.
    pub fn frame_s(&self) -> Option<f64> {
        let times: Vec<f64> = self.samples.iter().filter_map(|sample| Some(sample.predicted?.frame_s)).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }

    /// The predicted throughput (pps), and how it was predicted: simulated if possible.
    pub fn predicted_pps(&self) -> Option<(f64, &'static str)> {
        let simulated = self.simulated_pps.map(|figure| (figure.value, "sim"));
        simulated.or(self.modelled_pps.map(|figure| (figure.value, "model")))
    }

    /// Ratio of measured to predicted throughput, minus 1. `None` if the tester limited the throughput, or nothing was
    /// predicted.
    pub fn off(&self) -> Option<f64> {
        let reached = matches!(self.bound, Some(Bound::Router | Bound::SharedCpu));
        let (predicted_pps, _) = self.predicted_pps()?;
        self.throughput_pps.filter(|_| reached).map(|measured| measured.value / predicted_pps - 1.0)
    }

    /// Frame size (bytes).
    pub fn bytes(&self) -> f64 {
        self.frame.mean_bytes()
    }
}

/// Geometric mean of the ratio of throughputs over the rounds that both have, minus 1.
fn gain(base: &[ForwardingSample], samples: &[ForwardingSample]) -> Option<Figure> {
    let ratio = |sample: &ForwardingSample| {
        let same = base.iter().find(|base| base.round == sample.round)?;
        Some((sample.throughput_pps? / same.throughput_pps?).ln())
    };
    Some(stats::mean(&samples.iter().filter_map(ratio).collect::<Vec<f64>>())?.mapped(f64::exp_m1))
}
