//! [`Advice`]: result of `netcliff advise`, for JSON and for rendering.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::EngineKind;
use crate::host::Host;
use crate::objective::{Constraint, Goal};
use crate::outcome::{Figure, Interval, Measure};
use crate::record::Provenance;
use crate::scheme::Scheme;
use crate::written;

/// Keys of the three figures of the Pareto front: latency (lower is better), loss (lower), available CPU (higher).
pub const FRONT: [&str; 3] = ["latency_p99_s", "loss_fraction", "cpu_available"];

/// How the search for a setting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// One candidate was picked at the requested confidence.
    Picked,
    /// The allowed number of packets did not suffice to decide between the remaining candidates.
    NotDecided,
    /// Every candidate violates a constraint.
    NoneFeasible,
}

/// Decision of the search about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CandidateStatus {
    /// The candidate is the pick.
    Picked,
    /// Not decided: the candidate may be the best, or may violate a constraint.
    Contends,
    /// Another candidate is better.
    Worse,
    /// The candidate violates a constraint.
    Infeasible,
    /// No engine supports the candidate.
    Unanswered,
}

/// Whether a candidate satisfies a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The candidate satisfies the constraint.
    Met,
    /// The candidate violates the constraint.
    Missed,
    /// The confidence interval contains the bound, so that either is possible.
    NotDecided,
}

/// A constraint, and whether one candidate satisfies it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged {
    /// The constraint.
    pub constraint: Constraint,
    /// Whether the candidate satisfies the constraint.
    pub standing: Standing,
    /// Confidence interval of the candidate's figure, which decided `standing`, in the figure's unit. `None`: the model
    /// computed the figure, or it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// One setting that was compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The setting.
    pub scheme: Scheme,
    /// Engine that computed the figures; `None` if no engine did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineKind>,
    /// The decision of the search about this candidate.
    pub fate: CandidateStatus,
    /// Reason for that decision, one sentence.
    pub why: String,
    /// Figures by key, such as `latency_p99_s`.
    pub figures: BTreeMap<String, Figure>,
    /// Each constraint, and whether this candidate satisfies it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Judged>,
    /// Replications simulated.
    pub replications: u64,
    /// True: on the Pareto front of [`FRONT`].
    pub front: bool,
    /// Shell commands, to be run as root, that configure this scheme on [`Advice::device`]; empty if the device already
    /// has it. `None`: the device was not queried, or does not offer the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Why neither Linux nor the device offers this scheme. `None`: they offer it, or the device was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_offered: Option<String>,
}

impl Candidate {
    /// Returns the candidate's figure for a measure; `None` if it was not measured.
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
    /// Offered traffic.
    pub traffic: written::Traffic,
    /// Figure by which candidates are compared, and whether larger or smaller is better.
    pub goal: Goal,
    /// Bounds that the pick must satisfy.
    pub constraints: Vec<Constraint>,
    /// Probability that the pick is the best, or within `indifference` of it.
    pub confidence: f64,
    /// Smallest difference that counts, in the goal's unit; None: nothing was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indifference: Option<f64>,
    /// Largest relative distance, by the model's figures, from a bound or from the best candidate: candidates beyond it
    /// were not simulated.
    pub margin: f64,
    /// Replications per candidate before one is selected. A candidate that is clearly worse after a quarter of them
    /// gets no more.
    pub first_stage: u64,
    /// Arrivals per replication.
    pub packets_each: u64,
    /// Arrivals simulated in all.
    pub packets: u64,
    /// Largest number of arrivals that the search may simulate.
    pub packets_at_most: u64,
    /// How the search ended.
    pub verdict: Verdict,
    /// The picked scheme. Without a pick: the undecided candidates, or the candidate that is closest to satisfying the
    /// constraints.
    pub advised: Vec<Scheme>,
    /// Schemes shown to differ from the pick by no more than `indifference`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<Scheme>,
    /// All candidates: the advised ones first, then those on the front, then the others, best first.
    pub candidates: Vec<Candidate>,
    /// Notes that a reader must know, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Interface of this host that the commands configure. `None`: the commands contain [`Advice::PLACEHOLDER`]
    /// instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Version, seed, engines and settings that gave this advice.
    pub provenance: Provenance,
}

/// One candidate over several loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overall {
    /// The setting.
    pub scheme: Scheme,
    /// Number of loads at which the candidate violates a constraint.
    pub infeasible: usize,
    /// Largest difference, over the loads, from the best candidate at the same load: for CPU shares as a share of one
    /// CPU, for other figures relative to the best.
    pub shortfall: f64,
    /// Offered load with the largest shortfall (pps).
    pub worst_pps: Option<f64>,
}

impl Advice {
    /// Placeholder for the interface in commands, if the user named no interface.
    pub const PLACEHOLDER: &'static str = "DEV";

    /// Returns the candidate with this scheme; `None` if the scheme was not compared.
    pub fn candidate(&self, scheme: &Scheme) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.scheme == *scheme)
    }

    /// Returns the pick; `None` if the search ended without one.
    pub fn pick(&self) -> Option<&Candidate> {
        match self.verdict {
            Verdict::Picked => self.candidate(self.advised.first()?),
            Verdict::NotDecided | Verdict::NoneFeasible => None,
        }
    }
}
