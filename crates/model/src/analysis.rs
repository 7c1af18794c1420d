//! [`analyse`]: cliff, livelock index and sensitivities of a host in one answer.

use netcliff_core::analysis::{Analysis, CostSensitivity};
use netcliff_core::{Engine, EngineFailure, Host, Load, Point, Scheme, Traffic};

/// What to compute beyond the outcome of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Loss fraction that the cliff's load stays within (0 to 1).
    pub loss: f64,
    /// Whether the sensitivities to every cost are wanted; they take some ten times as long as a cliff.
    pub sensitivities: bool,
}

/// Answers `question`; latency and CPU are varied at `traffic`'s load, or, if `load` is None, at half the cliff. The
/// point that was used comes with it.
pub fn analyse(
    engine: &dyn Engine,
    host: &Host,
    scheme: &Scheme,
    traffic: &Traffic,
    load: Option<Load>,
    question: Question,
) -> Result<(Point, Analysis), EngineFailure> {
    let cliff_pps = crate::cliff(engine, host, scheme, traffic, question.loss)?.pps;
    let livelock = crate::livelock_index(engine, host, scheme, traffic, cliff_pps)?;
    let traffic = match load {
        Some(rate) => Traffic { rate, ..traffic.clone() },
        None => traffic.at_pps(0.5 * cliff_pps),
    };
    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic };
    let found = if question.sensitivities { crate::sensitivities(engine, &point, question.loss)? } else { Vec::new() };
    let by_cost = |one: crate::Sensitivity| CostSensitivity {
        cost: one.key.to_owned(),
        cliff: one.cliff,
        latency: one.latency,
        available: one.available,
    };
    let analysis = Analysis {
        cliff_pps,
        loss_target: question.loss,
        livelock,
        step: question.sensitivities.then_some(crate::STEP),
        sensitivities: found.into_iter().map(by_cost).collect(),
    };
    Ok((point, analysis))
}
