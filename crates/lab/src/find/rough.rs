//! A rough estimate of where the host loses much and of what it serves: start of calibration and search.

use netcliff_wire::verdict::Void;

use crate::bench::Bench;
use crate::rfc2544::search::Goal;
use crate::rfc2544::search::mlr::{self, Mlr};
use crate::rfc2544::trial::{Answer, Range, Trial};
use crate::trial::{TrialError, TrialSpec};

/// One short trial judges a load, and what it loses is far past any noise.
const GOAL: Goal = Goal {
    final_trial_s: 0.15,
    initial_trial_s: 0.15,
    duration_sum_s: 0.15,
    loss_ratio: 0.02,
    exceed_ratio: 0.5,
    width: 0.2,
};
/// Load before the first trial (s): a host that did nothing is slow at first, by its clock and caches, or by an emulator that translates code when
/// it runs for the first time.
pub const WARM_UP_S: f64 = 2.0;
/// Trial time after which the search ends with what it has (s).
const AT_MOST_S: f64 = 4.0;

/// Estimates from a few short trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rough {
    /// Where loss becomes gross (pps), to a fifth.
    pub cliff_pps: f64,
    /// Most that was delivered (pps).
    pub capacity_pps: f64,
}

/// Searches these loads.
pub fn search(bench: &mut dyn Bench, base: &TrialSpec, range: Range) -> Result<Rough, TrialError> {
    bench.observe(&TrialSpec { seconds: WARM_UP_S, rate_pps: range.max_pps, ..base.clone() }, false)?;
    let mut number = 0;
    let mut ask = |seconds: f64, rate_pps: f64| -> Result<Answer, TrialError> {
        number += 1;
        let spec = TrialSpec { seconds, rate_pps, seed: base.seed + number, ..base.clone() };
        let observation = bench.observe(&spec, false)?;
        // Only a starting point: a sender that was held up does not void it, one that did not reach the load does.
        let trial =
            Trial { load_pps: rate_pps, duration_s: seconds, sent: observation.sent, lost: observation.sides.lost };
        let too_slow = observation.void().filter(|void| matches!(void, Void::SenderTooSlow { .. }));
        Ok(Answer::of(trial, too_slow.as_ref()))
    };
    let mlr = Mlr { goals: vec![GOAL], range, start_pps: None, at_most_s: Some(AT_MOST_S) };
    let searched = mlr::search(&mlr, &mut ask)?;
    let (lower, upper) = searched.found.first().map_or((None, None), |found| (found.lower_pps, found.upper_pps));
    let cliff_pps = match (lower, upper) {
        (Some(lower), Some(upper)) => (lower * upper).sqrt(),
        (Some(bound), None) | (None, Some(bound)) => bound,
        (None, None) => searched.trials.last().map_or(range.min_pps, |trial| trial.forwarding_pps()),
    };
    let served = searched.trials.iter().map(|trial| trial.forwarding_pps());
    Ok(Rough { cliff_pps, capacity_pps: served.fold(cliff_pps, f64::max) })
}
