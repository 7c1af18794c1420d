//! Report of `netcliff rfc2544`.

use netcliff_core::ledger::TrialLedger;
use netcliff_core::{Figure, Fingerprint, Provenance};
use netcliff_packets::latency::LatencyRecord;
use serde::{Deserialize, Serialize};

use super::cost::Predicted;
use super::instruments::Instruments;
use super::missing::MissingFigure;
use super::procedures::{BackToBack, Latency, LossCurve};
use super::settings::{FrameSize, Settings};
use netcliff_mlrsearch::{Found, Goal, Searched};

/// Report of `netcliff rfc2544`, in the form of `--json` and of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rfc2544Report {
    /// Always `rfc2544`.
    pub kind: String,
    /// Description of the device under test, in one line.
    pub device: String,
    /// How frames are sent and received, in one line.
    pub tester: String,
    /// Methods of sending and receiving, and clocks of the timestamps; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruments: Option<Instruments>,
    /// Rate of the slower of the two ports' lines (bit/s); absent if a port has no line rate, as in namespaces, or does
    /// not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_bps: Option<f64>,
    /// The configuration.
    pub asked: Settings,
    /// Results, one for each tested frame size, in the order of the configuration.
    pub sizes: Vec<SizeReport>,
    /// How the set-up limits the result, a sentence each.
    pub limits: Vec<String>,
    /// Deviations from RFC 2544 and other remarks, a sentence each.
    pub notes: Vec<String>,
    /// Why the run ended early; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Facts of this host that explain a difference to another run; absent in reports of earlier versions, for which
    /// only the store has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// How the report was produced: version, command and time.
    pub provenance: Provenance,
}

/// Results for one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeReport {
    /// The frames that were sent.
    pub frame: FrameSize,
    /// Mean frame size (bytes, FCS included).
    pub mean_bytes: f64,
    /// Highest rate of the sender (pps, each way), as last measured for this frame size.
    pub sender_pps: f64,
    /// Highest load to try (pps, each way): the configured one, or slightly less than `sender_pps`.
    pub max_pps: f64,
    /// The search for the throughput; of several searches, the one with the median lower bound. Absent if no search was
    /// completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Searched>,
    /// Mean of the lower bounds of several searches, with its interval (pps, each way); absent if only one search was
    /// requested, or if no search has a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_pps: Option<Figure>,
    /// All searches, in the order of their rounds; empty if only one was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchTurn>,
    /// The search during which the run ended, with its trials and bounds so far. These bounds are not a throughput.
    /// Absent if all searches were completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<SearchTurn>,
    /// Results for each goal; empty if only one was requested. The rest of the report refers to the first goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalReport>,
    /// What limited the throughput; of several searches, the device only if nothing else limited any of them. Absent if
    /// no search found a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Throughput predicted from the CPU times of the device under test; absent if these times could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Throughput as a share of the line's frame rate; empty if the line rate or the throughput is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_shares: Vec<LineShare>,
    /// Latency at the throughput; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Distribution of the latency over all frames of all valid repeats; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_frames: Option<LatencyRecord>,
    /// Frame loss at decreasing loads; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossCurve>,
    /// Longest bursts without loss; absent if they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_to_back: Option<BackToBack>,
    /// What happened to each frame of a separate trial, at twice the throughput or 95 % of `max_pps`, whichever is
    /// lower; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<TrialLedger>,
    /// Counts over all trials of this frame size.
    pub seen: Seen,
    /// How precisely the sender kept its schedule, over the valid trials; absent if no valid trial measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// What could not be measured and why, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub missing: Vec<MissingFigure>,
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
        // If a higher load failed, the throughput is the device's, however the search ended.
        let limited = |found: &Found| found.end.is_lower_limit() && found.upper_pps.is_none();
        self.searched().any(|searched| searched.found.first().is_some_and(limited))
    }

    /// Total length of all trials of the searches (s), also of one that ended early; void trials count with their
    /// requested length.
    pub fn searched_s(&self) -> f64 {
        let unfinished = self.unfinished.iter().map(|turn| &turn.searched);
        self.searched().chain(unfinished).map(|searched| searched.trial_time_s).sum()
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
    /// The goal: trial lengths, permitted loss and width of the bounds.
    pub goal: Goal,
    /// Throughput (pps, each way): the lower bound of the search; of several searches, the mean of the lower bounds
    /// with its interval. Absent if no search has a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_pps: Option<Figure>,
    /// Lowest load that failed (pps, each way); absent if no load failed, or with several searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_pps: Option<f64>,
    /// Conditional throughput of RFC 9971 (pps, each way); absent if the search found none, or with several searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditional_pps: Option<f64>,
    /// What limited the throughput, in any of the searches; absent if no search found a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl GoalReport {
    /// Whether the device can do more than the measured throughput.
    pub fn is_lower_limit(&self) -> bool {
        self.limit.is_some_and(|limit| limit != Limit::Device)
    }
}

/// One search for the throughput of a frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchTurn {
    /// Number of the round, from 1.
    pub round: u32,
    /// Highest rate of the sender (pps, each way), measured just before the search.
    pub sender_pps: f64,
    /// Highest load that the search may try (pps, each way).
    pub max_pps: f64,
    /// What limited the throughput; absent if the search found no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Results of the search, with its valid trials.
    #[serde(flatten)]
    pub searched: Searched,
}

/// What limits a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The device: it did not forward a higher load that was offered.
    Device,
    /// The tester: it cannot offer a higher load, so the device's throughput is at least the measured one.
    Tester,
    /// The configuration: no higher load was requested.
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

/// A throughput as a share of a line's frame rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineShare {
    /// Rate of the line (bit/s).
    pub line_bps: f64,
    /// Frame rate of the line, with preamble and gap (pps).
    pub line_pps: f64,
    /// Throughput divided by `line_pps`.
    pub share: f64,
}

/// Counts over one trial, or over all trials of a frame size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seen {
    /// Number of trials, void ones included.
    pub trials: u64,
    /// Number of void trials, in which the sender or the sink was too slow. They do not count for the results.
    pub void_trials: u64,
    /// Number of frames sent.
    pub sent: u64,
    /// Number of frames that had arrived before.
    pub duplicates: u64,
    /// Number of frames that arrived after a later frame of their stream (RFC 4737).
    pub reordered: u64,
    /// Number of frames that were modified on the path. They also count as lost.
    pub corrupt: u64,
}

/// How precisely the sender kept its schedule, in one trial or over all valid trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pacing {
    /// 99th percentile of the frames' lateness (s), the largest of the trials.
    pub lateness_p99_s: f64,
    /// Median difference between the actual and the scheduled gap to the previous frame (s), the median of the trials.
    pub gap_error_p50_s: f64,
    /// 99th percentile of the same difference (s), the largest of the trials.
    pub gap_error_p99_s: f64,
    /// Number of frames that leave together by design, the largest of the trials; absent if each frame leaves at its
    /// own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_frames: Option<u32>,
    /// Time from the first to the last frame of such a batch by the schedule (s), the longest of the trials. The first
    /// frame of a batch leaves late by this time. Absent if each frame leaves at its own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_s: Option<f64>,
}
