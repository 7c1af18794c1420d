//! `advise`: finds the scheme and parameters that serve an objective best on a host under a load.
//!
//! [`advise`] runs these stages, each in its own module:
//!
//! | module | does |
//! | --- | --- |
//! | `candidates` | the default settings to compare |
//! | `screen` | drops candidates that break a constraint or lag behind the best by more than a margin, by the model |
//! | `samples` | simulates replications of the others with common seeds: each candidate gets the same packets |
//! | `judge` | keeps or drops a candidate by the interval of each constrained figure |
//! | [`kn`] | picks the best of those that keep the constraints, with a stated probability of being right |
//! | `race` | runs `samples`, `judge` and `kn` together |
//! | `settings` | the commands that set each setting on a device, or why the device does not offer it |
//! | `front` | the Pareto front of latency, loss and CPU left |
//! | `overall` | the penalty of one setting for several loads |
//!
//! The permitted error, 1 - confidence, is divided between the constraints (one half; Bonferroni over candidates,
//! constraints and looks) and the selection (the other half, over all simulated candidates). Without constraints, the
//! selection gets all of it.

mod candidates;
#[cfg(test)]
mod fake;
mod front;
mod judge;
pub mod kn;
mod overall;
mod race;
mod samples;
mod screen;

use netcliff_core::advice::{Candidate, CandidateStatus, Verdict};
use netcliff_core::{
    Advice, Constraint, Dimension, Engine, EngineFailure, EngineKind, Goal, Host, Load, Point, Provenance, Scheme,
    Traffic, Unsupported, written,
};

pub use candidates::candidates;
pub use overall::overall;
pub use samples::Sampler;
pub use settings::{offered, offered_anywhere, with_commands};

use race::Race;
use samples::Samples;

/// The question: a host under a load, an objective and constraints.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Costs and queue sizes of the host.
    pub host: Host,
    /// Offered traffic.
    pub traffic: Traffic,
    /// Offered load.
    pub load: Load,
    /// Objective: the figure to minimise or maximise.
    pub goal: Goal,
    /// Constraints that the setting must keep.
    pub constraints: Vec<Constraint>,
    /// The settings to choose from.
    pub candidates: Vec<Scheme>,
    /// Confidence and effort.
    pub settings: Settings,
}

/// Indifference zone: the smallest difference that matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Indifference {
    /// A share of the best figure. For a figure that is a share of a CPU: a share of one CPU.
    Share(f64),
    /// A difference in the figure's unit.
    Absolute(f64),
}

/// Two losses that differ by less than this value count as equal. The trials of RFC 2544 do not resolve smaller
/// differences.
const LOSS_ALIKE: f64 = 1e-4;

impl Indifference {
    /// The indifference zone in the unit of the goal, if the best figure is `best`.
    fn at(self, goal: &Goal, best: f64) -> f64 {
        match self {
            Self::Absolute(zone) => zone,
            Self::Share(share) if goal.measure.is_loss() => (share * best).max(LOSS_ALIKE),
            Self::Share(share) if goal.measure.dimension == Dimension::Share => share,
            Self::Share(share) => share * best.abs(),
        }
    }
}

/// Confidence and effort of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Least probability that all constraints are judged correctly and the best is picked.
    pub confidence: f64,
    /// Indifference zone.
    pub indifference: Indifference,
    /// Screening drops a candidate that, by the model, is worse than a bound or the best by more than this margin
    /// (relative).
    pub margin: f64,
    /// Replications of each candidate before the selection, at least 2. Candidates that are clearly worse after a
    /// quarter of them get no more.
    pub first_stage: u64,
    /// Arrivals in a replication.
    pub packets_each: u64,
    /// Largest number of arrivals over all candidates and replications.
    pub packets_at_most: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            indifference: Indifference::Share(0.02),
            margin: 0.25,
            first_stage: 20,
            packets_each: 50_000,
            packets_at_most: 200_000_000,
        }
    }
}

/// Receives the progress of the search.
pub trait Observer {
    /// Reports that a stage begins.
    fn stage(&mut self, name: &str);
    /// Reports that `simulated` of at most `at_most` arrivals are simulated.
    fn packets(&mut self, simulated: u64, at_most: u64);
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// There is nothing to choose from.
    #[error("no candidate: none of the schemes asked for is valid for this host")]
    NoCandidate,
    /// Constraints that exclude each other, or that the load makes impossible.
    #[error("{0}")]
    Impossible(String),
    /// Neither model nor simulator supports any candidate.
    #[error("none of the {count} candidates can be answered, by the model or in simulation; the first because: {why}")]
    Unanswered {
        /// Number of candidates.
        count: usize,
        /// The reason for the first candidate.
        why: String,
    },
    /// The permitted packets are too few for the first stage.
    #[error(
        "{given} packets do not reach for the first stage of {count} candidates, which takes {needed}: allow more, or ask for \
         shorter or fewer replications or fewer candidates"
    )]
    TooFewPackets {
        /// Packets allowed.
        given: u64,
        /// Packets needed.
        needed: u64,
        /// Number of candidates left after the screening.
        count: usize,
    },
    /// An engine failed at one of the points.
    #[error(transparent)]
    Engine(#[from] EngineFailure),
}

/// Selects the best of the candidates. The model `paper` excludes candidates first, and `sampler` simulates the others.
///
/// # Errors
/// See [`AdviseError`]. No feasible candidate, or no decision within the packets allowed, is a [`Verdict`], not an
/// error.
pub fn advise(
    question: &Question,
    paper: &(dyn Engine + Sync),
    sampler: &dyn Sampler,
    observer: &mut dyn Observer,
) -> Result<Advice, AdviseError> {
    check(question)?;
    observer.stage(&format!("{} candidates by the model", question.candidates.len()));
    let mut candidates = screen::screen(question, paper);
    let kept = simulated(question, &mut candidates, sampler)?;
    let mut advice = begun(question, candidates);
    if kept.is_empty() {
        advice.notes.push("every candidate was dropped by the model; nothing was simulated".to_owned());
    } else {
        observer.stage(&format!("{} candidates in simulation", kept.len()));
        let samples = Samples::new(question, sampler, observer);
        Race::new(question, &mut advice, kept, samples)?.run()?;
    }
    finish(&mut advice);
    Ok(advice)
}

/// The point that evaluates a scheme: the question's host, traffic and load, with this scheme.
fn point(question: &Question, scheme: &Scheme) -> Point {
    let Question { host, traffic, load, .. } = question;
    Point { host: host.clone(), scheme: scheme.clone(), traffic: traffic.clone(), load: *load }
}

/// Checks the question itself, before any candidate is evaluated.
fn check(question: &Question) -> Result<(), AdviseError> {
    if question.candidates.is_empty() {
        return Err(AdviseError::NoCandidate);
    }
    if question.host.queues.is_some() {
        return Err(AdviseError::Impossible("advice is for one queue and its core: leave queues out".to_owned()));
    }
    let offered_pps = question.traffic.rate_pps(question.load);
    for one in question.constraints.iter().filter(|one| one.at_least) {
        let most = |other: &&Constraint| !other.at_least && other.measure == one.measure && other.bound < one.bound;
        if let Some(other) = question.constraints.iter().find(most) {
            return Err(AdviseError::Impossible(format!("{one} and {other} exclude each other")));
        }
        let offered = match one.measure.key {
            "throughput_pps" => offered_pps,
            "goodput_bps" => offered_pps.zip(question.traffic.size.mean_bytes()).map(|(n, b)| 8.0 * n * b),
            _ => None,
        };
        if offered.is_some_and(|offered| one.bound > offered) {
            let load = question.load;
            return Err(AdviseError::Impossible(format!("{one} cannot be met: only {load} is offered")));
        }
    }
    Ok(())
}

/// Indices of the candidates to simulate. A candidate that the simulator does not support becomes unanswered, with the
/// reason.
fn simulated(
    question: &Question,
    candidates: &mut [Candidate],
    sampler: &dyn Sampler,
) -> Result<Vec<usize>, AdviseError> {
    let mut kept = Vec::new();
    for (place, candidate) in candidates.iter_mut().enumerate().filter(|(_, c)| c.fate == CandidateStatus::Contends) {
        match sampler.supports(&point(question, &candidate.scheme)) {
            Ok(()) => kept.push(place),
            Err(Unsupported { reason, .. }) => {
                candidate.fate = CandidateStatus::Unanswered;
                candidate.why = reason;
            }
        }
    }
    let answered = candidates.iter().any(|candidate| candidate.fate != CandidateStatus::Unanswered);
    match candidates.first().filter(|_| !answered) {
        Some(first) => Err(AdviseError::Unanswered { count: candidates.len(), why: first.why.clone() }),
        None => Ok(kept),
    }
}

fn begun(question: &Question, candidates: Vec<Candidate>) -> Advice {
    let Settings { confidence, margin, first_stage, packets_each, packets_at_most, .. } = question.settings;
    Advice {
        host: question.host.clone(),
        traffic: written::Traffic::new(question.traffic.clone(), Some(question.load)),
        goal: question.goal,
        constraints: question.constraints.clone(),
        confidence,
        indifference: None,
        margin,
        first_stage,
        packets_each,
        packets: 0,
        packets_at_most,
        verdict: Verdict::NoneFeasible,
        advised: Vec::new(),
        alike: Vec::new(),
        candidates,
        notes: Vec::new(),
        device: None,
        provenance: Provenance::default(),
    }
}

/// Marks the Pareto front, advises the closest candidate if none is feasible, and sorts the candidates.
fn finish(advice: &mut Advice) {
    front::mark(&mut advice.candidates);
    if advice.verdict == Verdict::NoneFeasible {
        advice.advised = judge::closest(&advice.candidates).into_iter().collect();
    }
    let (goal, advised) = (advice.goal, advice.advised.clone());
    let rank = |candidate: &Candidate| {
        let place = advised.iter().position(|scheme| *scheme == candidate.scheme).unwrap_or(advised.len());
        let value = candidate.figure(goal.measure).map_or(f64::INFINITY, |figure| figure.value);
        (
            place,
            candidate.fate == CandidateStatus::Unanswered,
            !candidate.front,
            if goal.maximise { -value } else { value },
        )
    };
    advice.candidates.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal));
    let by_model = advice.candidates.iter().filter(|c| c.engine == Some(EngineKind::Model)).count();
    if by_model > 0 && advice.packets > 0 {
        advice.notes.push(format!(
            "figures of {by_model} candidates are the model's, those of the others means over replications"
        ));
    }
}

#[cfg(test)]
mod tests;

mod settings {
    //! Shell commands that configure a device for each candidate, or the reason why the device cannot be configured so.

    use netcliff_core::{Advice, Scheme};
    use netcliff_host::tune::plan::scheme::{Device, steps};

    /// Checks whether a device can be configured for a scheme.
    ///
    /// # Errors
    /// The reason why not, as a part of a sentence.
    pub fn offered(scheme: &Scheme, device: Device<'_>) -> Result<(), String> {
        steps(scheme, device).map(drop)
    }

    /// Whether some driver can be configured for a scheme. Used if the user names no device.
    pub fn offered_anywhere(scheme: &Scheme) -> bool {
        offered(scheme, Device::Any(Advice::PLACEHOLDER)).is_ok()
    }

    /// Stores, for every candidate, the commands that configure the device for it, or the reason why no command does.
    pub fn with_commands(advice: &mut Advice, device: Device<'_>) {
        advice.device = match device {
            Device::Port(_, port) => Some(port.nic.name.clone()),
            Device::Any(_) => None,
        };
        for candidate in &mut advice.candidates {
            match steps(&candidate.scheme, device) {
                Ok(steps) => candidate.commands = Some(steps.into_iter().map(|step| step.proposal.command).collect()),
                Err(why) => candidate.not_offered = Some(why),
            }
        }
    }
}
