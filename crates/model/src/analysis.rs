//! [`analyse`]: computes cliff, livelock index and sensitivities of a host together.

use netcliff_core::analysis::{Analysis, CostSensitivity};
use netcliff_core::{Engine, EngineFailure, Host, Load, Point, Scheme, Traffic};

/// What to compute besides the outcome of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// Loss fraction (0 to 1) that defines the cliff.
    pub loss: f64,
    /// True: compute the sensitivities to all costs too, which takes about ten times as long as a cliff.
    pub sensitivities: bool,
}

/// Computes cliff, livelock index and, if wanted, sensitivities of a host. Latency and CPU are evaluated at `load` or,
/// if it is `None`, at half the cliff. Also returns the point at that load.
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
    let load = load.unwrap_or(Load::Pps(0.5 * cliff_pps));
    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic: traffic.clone(), load };
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
