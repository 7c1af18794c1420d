//! [`Advice`]: what `netcliff advise` found, ready for JSON and for rendering.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::host::Host;
use crate::measure::Measure;
use crate::objective::{Constraint, Goal};
use crate::outcome::{Figure, Interval};
use crate::record::Provenance;
use crate::scheme::Scheme;
use crate::traffic::Traffic;

/// The three figures of the Pareto front, by their key: the first two and the last are better when lower, lower, higher.
pub const FRONT: [&str; 3] = ["latency_p99_s", "loss_fraction", "cpu_available"];

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// One candidate was picked at the confidence asked for.
    Picked,
    /// The packets allowed did not decide between the candidates that contend.
    NotDecided,
    /// Every candidate breaks a constraint.
    NoneFeasible,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CandidateStatus {
    /// It is the pick.
    Picked,
    /// Not decided: whether it is best, or whether it keeps the constraints.
    Contends,
    /// Another one is better.
    Worse,
    /// It breaks a constraint.
    Infeasible,
    /// No engine answers it.
    Unanswered,
}

/// Whether a constraint is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is kept.
    Met,
    /// It is broken.
    Missed,
    /// The interval lies on both sides of the bound.
    NotDecided,
}

/// A constraint with how one candidate stands to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    /// The constraint.
    pub constraint: Constraint,
    /// Kept or not.
    pub standing: Standing,
    /// The interval it was judged by, in the figure's unit; None: computed, or not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// One setting that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The setting.
    pub scheme: Scheme,
    /// Who gave the figures; None: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineKind>,
    /// What became of it.
    pub fate: CandidateStatus,
    /// Why, a sentence.
    pub why: String,
    /// Figures by key, such as `latency_p99_s`.
    pub figures: BTreeMap<String, Figure>,
    /// How it stands to the constraints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Judged>,
    /// Replications simulated.
    pub replications: u64,
    /// True: on the Pareto front of [`FRONT`].
    pub front: bool,
    /// Shell commands that set it on [`Advice::device`], as root; empty: it works so already. None: not looked up, or not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Why no setting of Linux, or of the device, makes it so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_offered: Option<String>,
}

impl Candidate {
    /// A figure, where it was measured.
    pub fn figure(&self, measure: Measure) -> Option<Figure> {
        self.figures.get(measure.key).copied()
    }
}

/// The settings advised for one host and one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// Costs and sizes.
    pub host: Host,
    /// What is offered.
    pub traffic: Traffic,
    /// What was wanted.
    pub goal: Goal,
    /// What had to hold.
    pub constraints: Vec<Constraint>,
    /// Probability that the pick is the best, or within `indifference` of it.
    pub confidence: f64,
    /// Smallest difference worth telling apart, in the goal's unit; None: nothing was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indifference: Option<f64>,
    /// Candidates further from bound or best than this by the model were not simulated (relative).
    pub margin: f64,
    /// Replications of a candidate before one is selected; those clearly worse after a quarter of them take no more.
    pub first_stage: u64,
    /// Arrivals of a replication.
    pub packets_each: u64,
    /// Arrivals simulated.
    pub packets: u64,
    /// Arrivals allowed.
    pub packets_at_most: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// The pick; those not decided between; or the one that comes closest to the constraints.
    pub advised: Vec<Scheme>,
    /// Shown to be within the indifference of the pick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<Scheme>,
    /// Every candidate: the advised first, then the front, then by the goal.
    pub candidates: Vec<Candidate>,
    /// What the reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The device that the commands set: an interface of this host. None: [`Advice::PLACEHOLDER`] stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// How it was produced.
    pub provenance: Provenance,
}

/// One candidate over several loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overall {
    /// The setting.
    pub scheme: Scheme,
    /// Loads at which it breaks a constraint.
    pub infeasible: usize,
    /// Largest shortfall from the best of a load: of one CPU for CPU shares, else relative to the best.
    pub shortfall: f64,
    /// The load of that shortfall (pps).
    pub worst_pps: Option<f64>,
}

impl Advice {
    /// What stands for the device in commands where none was named.
    pub const PLACEHOLDER: &'static str = "DEV";

    /// The candidate of a scheme.
    pub fn candidate(&self, scheme: &Scheme) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.scheme == *scheme)
    }

    /// The pick, where there is one.
    pub fn pick(&self) -> Option<&Candidate> {
        match self.verdict {
            Verdict::Picked => self.candidate(self.advised.first()?),
            Verdict::NotDecided | Verdict::NoneFeasible => None,
        }
    }
}
