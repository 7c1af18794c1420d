//! Screens the candidates by the model, before any is simulated.

use std::collections::BTreeMap;

use netcliff_core::advice::{Candidate, CandidateStatus, FRONT, Judged, Standing};
use netcliff_core::{Constraint, Dimension, Engine, EngineFailure, EngineKind, Figure, Measure, Outcome, Scheme};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::{Question, point};

/// The figures that are stored for every candidate: those of front, goal and constraints, and a few others.
pub(super) fn measures(question: &Question) -> Vec<Measure> {
    let keys = FRONT.iter().copied().chain(["latency_mean_s", "throughput_pps"]);
    let known = keys.filter_map(|key| key.parse().ok());
    let asked = question.constraints.iter().map(|constraint| constraint.measure).chain([question.goal.measure]);
    let mut all: Vec<Measure> = Vec::new();
    for measure in known.chain(asked) {
        if !all.contains(&measure) {
            all.push(measure);
        }
    }
    all
}

/// Distance within which a figure counts as near `value` (in its unit): a share of `value`, or of 1 - `value` for a CPU
/// share above one half.
fn slack(measure: Measure, value: f64, margin: f64) -> f64 {
    let cpu = measure.dimension == Dimension::Share && !measure.is_loss();
    margin * if cpu { value.min(1.0 - value).max(0.0) } else { value.abs() }
}

/// Screens all candidates by the model. Each candidate gets the model's figures, if the model supports it, and a
/// status: infeasible or worse than the best (both by more than the margin), or still contending.
pub(super) fn screen(question: &Question, paper: &(dyn Engine + Sync)) -> Vec<Candidate> {
    let answers: Vec<Result<Outcome, EngineFailure>> = question
        .candidates
        .par_iter()
        .map(|scheme| {
            let point = point(question, scheme);
            paper.supports(&point)?;
            paper.evaluate(&point)
        })
        .collect();
    let mut all: Vec<Candidate> =
        question.candidates.iter().zip(answers).map(|(scheme, answer)| by_model(question, scheme, answer)).collect();
    drop_worse(question, &mut all);
    all
}

fn by_model(question: &Question, scheme: &Scheme, answer: Result<Outcome, EngineFailure>) -> Candidate {
    let mut candidate = Candidate {
        scheme: scheme.clone(),
        engine: None,
        fate: CandidateStatus::Contends,
        why: String::new(),
        figures: BTreeMap::new(),
        constraints: Vec::new(),
        replications: 0,
        front: false,
        commands: None,
        not_offered: None,
    };
    match answer {
        Err(failure) => candidate.why = failure.to_string(),
        Ok(outcome) => {
            candidate.engine = Some(EngineKind::Model);
            let had = |measure: Measure| measure.of(&outcome).map(|figure| (measure.key.to_owned(), figure));
            candidate.figures = measures(question).into_iter().filter_map(had).collect();
            judge(question, &mut candidate);
        }
    }
    candidate
}

/// Marks the candidate infeasible if a figure is further than the margin beyond its bound.
fn judge(question: &Question, candidate: &mut Candidate) {
    for constraint in &question.constraints {
        let Some(figure) = candidate.figure(constraint.measure) else { continue };
        let standing = if constraint.met_by(figure.value) { Standing::Met } else { Standing::Missed };
        candidate.constraints.push(Judged { constraint: *constraint, standing, interval: None });
        if far_beyond(constraint, figure, question.settings.margin) {
            candidate.fate = CandidateStatus::Infeasible;
            candidate.why = format!("breaks {constraint} by the model by more than the margin");
        }
    }
}

fn far_beyond(constraint: &Constraint, figure: Figure, margin: f64) -> bool {
    let slack = slack(constraint.measure, constraint.bound, margin);
    !constraint.met_by(if constraint.at_least { figure.value + slack } else { figure.value - slack })
}

fn far_within(constraint: &Constraint, figure: Figure, margin: f64) -> bool {
    let slack = slack(constraint.measure, constraint.bound, margin);
    constraint.met_by(if constraint.at_least { figure.value - slack } else { figure.value + slack })
}

/// Drops candidates that are worse than the best feasible one by more than the margin.
fn drop_worse(question: &Question, all: &mut [Candidate]) {
    let (goal, margin) = (question.goal, question.settings.margin);
    let sure = |candidate: &Candidate| {
        candidate.fate == CandidateStatus::Contends
            && question.constraints.iter().all(|constraint| {
                candidate.figure(constraint.measure).is_some_and(|figure| far_within(constraint, figure, margin))
            })
    };
    let values = all.iter().filter(|one| sure(one)).filter_map(|one| one.figure(goal.measure)).map(|f| f.value);
    let Some(best) = values.reduce(|a, b| if goal.better(b, a) { b } else { a }) else { return };
    let slack = slack(goal.measure, best, margin).max(question.settings.indifference.at(&goal, best));
    let limit = if goal.maximise { best - slack } else { best + slack };
    for candidate in all.iter_mut().filter(|one| one.fate == CandidateStatus::Contends) {
        if candidate.figure(goal.measure).is_some_and(|figure| goal.better(limit, figure.value)) {
            candidate.fate = CandidateStatus::Worse;
            candidate.why = "worse than the best by the model by more than the margin".to_owned();
        }
    }
}
