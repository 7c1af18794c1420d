//! Report of an experiment of forwarding.

use netcliff_core::{Figure, Fingerprint, Provenance};
use serde::{Deserialize, Serialize};

use super::About;
use crate::cost::Predicted;
use crate::report::{Limit, LineShare, SizeReport};
use crate::settings::FrameSize;
use netcliff_stats as stats;

/// A setting that a plan made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Which one.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// The resulting value.
    pub after: String,
}

/// What limited a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The router: a higher load was offered and not forwarded.
    Router,
    /// The CPU that sends, forwards and takes in: the figure is what it does of all three together.
    SharedCpu,
    /// The tester: it cannot offer more, so the router does at least that.
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

/// Limit of a gain if the tester limited one of its throughputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GainLimit {
    /// The set-up's throughput is a lower limit: so is the gain.
    AtLeast,
    /// The first set-up's is: the gain is an upper limit.
    AtMost,
    /// Both are: the gain is unknown.
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

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingSample {
    /// The round, from 1.
    pub round: u32,
    /// The highest load that was forwarded (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<f64>,
    /// The lowest above it that was not (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// What limited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// What the sender reached flat out (pps).
    pub sender_pps: f64,
    /// The throughput that follows from what frames cost the router's CPU at half of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Trials of the search, void ones too.
    pub trials: u64,
    /// Their intended length (s).
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
            missing: size.missing.clone(),
        }
    }
}

/// A set-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetUpReport {
    /// What it is called.
    pub name: String,
    /// How it forwards.
    pub forwarding: String,
    /// The objective of its plan; absent: the kernel's own set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<String>,
    /// How it was set up; absent where it could not be built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// A frame size in a set-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingRow {
    /// The frames.
    pub frame: FrameSize,
    /// The set-up.
    pub set_up: String,
    /// Each round's.
    pub samples: Vec<ForwardingSample>,
    /// Mean throughput over the rounds (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// What limits it: the tester if it did in any round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Mean of the simulated throughput of one server, the router's CPU (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_pps: Option<Figure>,
    /// Where router and tester share a CPU, what is predicted from the times that a frame takes of each where they do not:
    /// mean over the rounds of a set-up that forwards the same way (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled_pps: Option<Figure>,
    /// Shares of lines that the throughput is, in runs of earlier versions; empty since: a veth has no line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_shares: Vec<LineShare>,
    /// Ratio to the first set-up of the same round, less 1, by the logarithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Figure>,
    /// What kind of limit that is; None where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_limit: Option<GainLimit>,
}

/// Report of an experiment of forwarding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForwardingReport {
    /// `forwarding`.
    pub kind: String,
    /// What the experiment shows.
    pub title: String,
    /// Rounds requested.
    pub rounds: u32,
    /// The configuration, by name.
    pub asked: Vec<(String, String)>,
    /// The set-ups; gains are against the first.
    pub set_ups: Vec<SetUpReport>,
    /// A row a frame size and set-up.
    pub rows: Vec<ForwardingRow>,
    /// What was requested and is missing, with the reason.
    pub not_had: Vec<String>,
    /// Warnings: what limits the figures.
    pub warnings: Vec<String>,
    /// What explains a difference to another run.
    pub fingerprint: Fingerprint,
    /// How it was produced.
    pub provenance: Provenance,
    /// True if it was stopped, or rounds are missing.
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
            modelled_pps: None,
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
        let simulated = self.simulated_pps.map(|figure| (figure.value, "simulated"));
        simulated.or(self.modelled_pps.map(|figure| (figure.value, "predicted")))
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
