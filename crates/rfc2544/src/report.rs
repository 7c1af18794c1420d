//! Report of `netcliff rfc2544`.

use netcliff_core::ledger::TrialLedger;
use netcliff_core::{Figure, Fingerprint, Provenance};
use netcliff_packets::latency::LatencyRecord;
use serde::{Deserialize, Serialize};

use super::cost::Predicted;
use super::instruments::Instruments;
use super::procedures::{BackToBack, Latency, LossCurve};
use super::settings::{FrameSize, Settings};
use netcliff_mlrsearch::{Found, Goal, Searched};

/// The report, as `--json` prints it and the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rfc2544Report {
    /// `rfc2544`.
    pub kind: String,
    /// The device under test, in a line.
    pub device: String,
    /// How frames are sent and received, in a line.
    pub tester: String,
    /// How frames were sent, received and stamped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruments: Option<Instruments>,
    /// Rate of the slower of the lines that frames went over (bit/s); absent where a device has none, as in namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bps: Option<f64>,
    /// The configuration.
    pub asked: Settings,
    /// One a frame size, in order.
    pub sizes: Vec<SizeReport>,
    /// How the set-up limits the result, a sentence each.
    pub limits: Vec<String>,
    /// Where the run departs from RFC 2544, and what else a reader must know, a sentence each.
    pub notes: Vec<String>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Everything that explains a difference to another run; reports of older versions have it in the store only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// How it was produced.
    pub provenance: Provenance,
}

/// Results for one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeReport {
    /// The frames.
    pub frame: FrameSize,
    /// Mean size (bytes, FCS included).
    pub mean_bytes: f64,
    /// Rate of the sender flat out (pps, each way), in its last measurement.
    pub sender_pps: f64,
    /// Highest load tried (pps, each way), likewise.
    pub max_pps: f64,
    /// Throughput: the search, of several the one whose lower bound is in the middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Searched>,
    /// Mean of the lower bounds of several searches, with its interval (pps, each way).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// Every search in its round; empty if one was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchTurn>,
    /// The search during which the run ended, with its trials and bounds so far, which are no throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<SearchTurn>,
    /// Results for each goal, if several were requested; the rest of the report uses the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalReport>,
    /// What limited the throughput, in any of the searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The throughput that follows from what frames cost the device's CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Share of the line's frame rate that the throughput is; empty where the device has no line, as a veth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_shares: Vec<LineShare>,
    /// Latency at the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Distribution of the latency over all frames of all repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_frames: Option<LatencyRecord>,
    /// Frame loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossCurve>,
    /// Bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_to_back: Option<BackToBack>,
    /// Where every frame of a trial above the throughput went; absent: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// Counts of the sink besides loss, over all trials.
    pub seen: Seen,
    /// How well the schedule was kept, over the valid trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// What could not be measured and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl SizeReport {
    /// An empty report for a frame size.
    pub fn new(frame: FrameSize, sender_pps: f64, max_pps: f64) -> Self {
        Self {
            frame,
            mean_bytes: frame.mean_bytes(),
            sender_pps,
            max_pps,
            throughput: None,
            throughput_pps: None,
            searches: Vec::new(),
            unfinished: None,
            goals: Vec::new(),
            limit: None,
            predicted: None,
            line_shares: Vec::new(),
            latency: None,
            latency_frames: None,
            loss: None,
            back_to_back: None,
            ledger: None,
            seen: Seen::default(),
            pacing: None,
            missing: Vec::new(),
        }
    }

    /// The throughput (pps, each way): the lower bound of the search, or the mean of several searches' lower bounds.
    /// `None` if the search has no lower bound.
    pub fn forwarded_pps(&self) -> Option<f64> {
        Some(self.forwarded()?.value)
    }

    /// The throughput (pps, each way), with an interval if there were several searches.
    pub fn forwarded(&self) -> Option<Figure> {
        let of_one = || Some(Figure::exact(self.throughput.as_ref()?.bounds()?.0));
        self.throughput_pps.or_else(of_one)
    }

    /// Lower and upper bound of each search that has a lower one (pps, each way).
    pub fn bounds(&self) -> Vec<(f64, Option<f64>)> {
        self.searched().filter_map(Searched::bounds).collect()
    }

    /// Whether a search ended at the highest load, so that the throughput is a lower limit.
    pub fn is_lower_limit(&self) -> bool {
        // If a higher load failed, that is the device's limit, however the search ended.
        let limited = |found: &Found| found.end.is_lower_limit() && found.upper_pps.is_none();
        self.searched().any(|searched| searched.found.first().is_some_and(limited))
    }

    /// Total length of all trials of the searches (s).
    pub fn searched_s(&self) -> f64 {
        self.searched().map(|searched| searched.trial_time_s).sum()
    }

    /// All searches, whether there was one or several.
    fn searched(&self) -> impl Iterator<Item = &Searched> {
        // With several searches, `throughput` is a copy of one of them.
        let one = self.throughput.as_ref().filter(|_| self.searches.is_empty());
        self.searches.iter().map(|turn| &turn.searched).chain(one)
    }
}

/// Results for one of several goals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoalReport {
    /// The goal.
    pub goal: Goal,
    /// Throughput (pps, each way): the lower bound, of several searches the mean of theirs with its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<Figure>,
    /// The lowest load that failed (pps), of one search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// RFC 9971's conditional throughput (pps), of one search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditional_pps: Option<f64>,
    /// What limited it, in any of the searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl GoalReport {
    /// Whether the device can do more than the measured throughput.
    pub fn is_lower_limit(&self) -> bool {
        self.limit.is_some_and(|limit| limit != Limit::Device)
    }
}

/// One of several searches of a frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchTurn {
    /// The round, from 1.
    pub round: u32,
    /// Rate of the sender flat out just before (pps, each way).
    pub sender_pps: f64,
    /// Highest load tried (pps, each way).
    pub max_pps: f64,
    /// What limited the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The results, with every trial.
    #[serde(flatten)]
    pub searched: Searched,
}

/// What limits a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The device: a higher load was offered and not forwarded.
    Device,
    /// The tester: it cannot offer more, so the device does at least that.
    Tester,
    /// No higher load was requested.
    Asked,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Tester => "tester",
            Self::Asked => "asked",
        })
    }
}

/// A share of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineShare {
    /// The line (bit/s).
    pub line_bps: f64,
    /// Frames a second it carries (pps).
    pub line_pps: f64,
    /// Throughput over that; above 1 the line would limit.
    pub share: f64,
}

/// Counts over all trials of a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seen {
    /// Trials, void ones too.
    pub trials: u64,
    /// Trials in which the sender or the sink was too slow.
    pub void_trials: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that came more than once.
    pub duplicates: u64,
    /// Frames that came behind a later one of their stream.
    pub reordered: u64,
    /// Frames that were not as they were sent; they count as lost.
    pub corrupt: u64,
}

/// Accuracy of a constant load's schedule.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pacing {
    /// 99th percentile of a frame's lateness, the worst of the trials (s).
    pub lateness_p99_s: f64,
    /// Median over frames of the distance between a gap and the intended one, the median of the trials (s).
    pub gap_error_p50_s: f64,
    /// 99th percentile of that, the worst of the trials (s).
    pub gap_error_p99_s: f64,
    /// Frames that left together by design, the most of the trials; absent: each frame left at its own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_frames: Option<u32>,
    /// Time between the first and the last frame of such a batch by the schedule, the longest of the trials (s): so late its first
    /// frame is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_s: Option<f64>,
}
