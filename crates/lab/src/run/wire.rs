//! Tasks on the wire: real packets on the testbed, one point after the other.

use std::time::Instant;

use netcliff_core::experiment::Task;
use netcliff_core::finding::Settings;
use netcliff_core::note::Note;
use netcliff_core::{
    Arrivals, EngineFailure, EngineKind, FrameSizes, Napi, Outcome, Point, Provenance, Scheme, Unsupported,
};

use super::{Answer, Plan};
use netcliff_trial::bench::Bench;
use netcliff_trial::trial::{TrialError, TrialShape, TrialSpec};

/// Length of a measured window (s), as in `find` without --quick.
const TRIAL_S: f64 = 1.0;
/// Frame sizes that the testbed supports (bytes, FCS included).
const FRAMES_BYTES: std::ops::RangeInclusive<u32> = 64..=9018;

/// Measures the tasks with the indices `pending` on `bench` and passes each answer to `each`. Returns false if the run
/// was stopped.
pub fn measure(
    plan: &Plan,
    pending: &[usize],
    bench: &mut dyn Bench,
    provenance: &Provenance,
    mut each: impl FnMut(usize, Answer),
) -> bool {
    for index in pending {
        let task = &plan.tasks[*index];
        let started = Instant::now();
        let found = match spec(task, plan.seed) {
            Err(unsupported) => Err(unsupported.into()),
            Ok(spec) => match bench.observe(&spec, true) {
                Err(TrialError::Stopped) => return false,
                Err(error) => Err(EngineFailure::Failed(Box::new(error))),
                Ok(observation) => {
                    let was_void = observation.void().is_some();
                    Ok(outcome(observation.outcome, was_void))
                }
            },
        };
        each(*index, plan.finished(task, found, provenance, started));
    }
    true
}

fn outcome(mut outcome: Outcome, was_void: bool) -> Outcome {
    outcome.notes.push(Note::ThisHost);
    if was_void {
        outcome.notes.push(Note::VoidTrial);
    }
    outcome
}

/// The trial of a task, or why the testbed does not support it.
fn spec(task: &Task, seed: u64) -> Result<TrialSpec, Unsupported> {
    let decline = |reason: String| Unsupported::new(EngineKind::Wire, reason);
    let Point { scheme, traffic, .. } = &task.point;
    let kernels = Napi { backlog: true, ..Napi::default() };
    if !matches!(scheme, Scheme::Napi(napi) if *napi == kernels || *napi == Napi::default()) {
        return Err(decline(format!(
            "the testbed runs this kernel's NAPI, not {scheme}; use the scheme napi, or the engines model and sim"
        )));
    }
    let arrivals = match &traffic.arrivals {
        Arrivals::Poisson => netcliff_packets::schedule::Arrivals::Poisson,
        Arrivals::Constant => netcliff_packets::schedule::Arrivals::Constant,
        other => return Err(decline(format!("the sender offers poisson and constant arrivals, not {other}"))),
    };
    let frame_bytes = match traffic.size {
        FrameSizes::Fixed(bytes) if FRAMES_BYTES.contains(&bytes) => bytes,
        ref other => {
            let (low, high) = (FRAMES_BYTES.start(), FRAMES_BYTES.end());
            return Err(decline(format!("the sender offers one frame size from {low}B to {high}B, not {other}")));
        }
    };
    let rate_pps = task.point.rate_pps().ok_or_else(|| decline("the offered rate is not known".to_owned()))?;
    let settings = Settings { arrivals, frame_bytes, seed, ..Settings::default() };
    Ok(TrialShape::of(&settings, TRIAL_S).at(rate_pps))
}
