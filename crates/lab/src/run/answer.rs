//! Evaluates one task by the model or in simulation.

use std::collections::BTreeMap;
use std::time::Instant;

use netcliff_core::experiment::Task;
use netcliff_core::{Engine, EngineFailure, EngineKind, Fidelity, Outcome, Provenance, Record, Unsupported};
use netcliff_model::ModelEngine;
use netcliff_sim::{Effort, Executor, LocalExecutor};

use super::Plan;

/// Result of a task.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The record of the task.
    Had(Box<Record>),
    /// The engine does not support this point; with the reason.
    Declined(String),
    /// The engine failed; with the reason.
    Failed(String),
}

/// Whether the model has an outcome of a task's point with another fidelity than the task's. False if the task is not
/// the model's.
pub fn has_other_fidelity(task: &Task) -> bool {
    let own = task.answerer.fidelity.unwrap_or(Fidelity::Exact);
    let has = |fidelity: Fidelity| fidelity != own && ModelEngine::new(fidelity).supports(&task.point).is_ok();
    task.answerer.engine == EngineKind::Model && [Fidelity::Exact, Fidelity::Paper].into_iter().any(has)
}

impl Plan {
    /// Evaluates a task by the model or in simulation. A task for the wire is declined here; see [`super::measure`].
    pub fn answer(&self, task: &Task, provenance: &Provenance) -> Answer {
        let gave_up = || Answer::Failed(EngineFailure::Interrupted.to_string());
        self.answer_at(task, provenance, &LocalExecutor).unwrap_or_else(gave_up)
    }

    /// Like [`Plan::answer`], but computes the replications at `place`. `None` if `place` gave them up.
    pub fn answer_at(&self, task: &Task, provenance: &Provenance, place: &dyn Executor) -> Option<Answer> {
        let started = Instant::now();
        let found = match task.answerer.engine {
            EngineKind::Model => {
                ModelEngine::new(task.answerer.fidelity.unwrap_or(Fidelity::Exact)).evaluate(&task.point)
            }
            EngineKind::Sim => self.sim.at(place).evaluate(&task.point),
            EngineKind::Wire => Err(Unsupported::new(EngineKind::Wire, "it is measured after the rest").into()),
        };
        let gave_up = matches!(found, Err(EngineFailure::Interrupted));
        (!gave_up).then(|| self.finished(task, found, provenance, started))
    }

    /// Converts the result of a task into its record, or into the reason why it has no result.
    pub(super) fn finished(
        &self,
        task: &Task,
        found: Result<Outcome, EngineFailure>,
        provenance: &Provenance,
        started: Instant,
    ) -> Answer {
        match found {
            Ok(outcome) => {
                let elapsed_s = Some(started.elapsed().as_secs_f64());
                let sampled = task.answerer.engine != EngineKind::Model;
                let provenance = Provenance {
                    elapsed_s,
                    seed: sampled.then_some(self.seed),
                    settings: self.settings(task),
                    ..provenance.clone()
                };
                let engine = task.answerer.engine;
                Answer::Had(Box::new(Record { point: task.point.clone(), engine, outcome, provenance }))
            }
            Err(EngineFailure::Unsupported(unsupported)) => Answer::Declined(unsupported.reason),
            Err(other) => Answer::Failed(other.to_string()),
        }
    }

    fn settings(&self, task: &Task) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::from([
            ("experiment".to_owned(), self.id.clone()),
            ("curve".to_owned(), task.curve.clone()),
            ("task".to_owned(), task.index.to_string()),
        ]);
        settings.extend(task.point.digests());
        if let Some(fidelity) = task.answerer.fidelity {
            settings.insert("fidelity".to_owned(), fidelity.to_string());
        }
        if task.answerer.engine == EngineKind::Sim {
            match self.sim.effort {
                Effort::Packets(packets) | Effort::Exactly(packets) => {
                    settings.insert("packets".to_owned(), packets.to_string());
                }
                Effort::Precision { relative, packets_at_most, figures } => {
                    settings.insert("precision".to_owned(), netcliff_core::units::print_share(relative));
                    settings.insert("precision_for".to_owned(), figures.to_string());
                    settings.insert("packets_at_most".to_owned(), packets_at_most.to_string());
                }
            }
        }
        settings
    }
}
