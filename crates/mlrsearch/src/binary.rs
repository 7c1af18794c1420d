//! RFC 2544's search (26.1): the highest rate at which a trial loses no more than allowed, by bisection from the
//! maximum.

use super::{End, Found, Searched};
use crate::trial::{Answer, Range, Request, Tester};

/// Parameters of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binary {
    /// Length of a trial (s); RFC 2544 requires at least 60.
    pub trial_s: f64,
    /// Highest share of frames that a trial may lose; RFC 2544 requires 0.
    pub loss_ratio: f64,
    /// Distance of the bounds, divided by the upper one, at which the search ends.
    pub width: f64,
}

/// Bisects between the loads of `range`, starting at the highest. `ask` makes a trial; its arguments are length (s) and
/// load (pps).
///
/// # Errors
/// The errors of `ask`.
pub fn search<E>(
    goal: Binary,
    range: Range,
    ask: &mut dyn FnMut(f64, f64) -> Result<Answer, E>,
) -> Result<Searched, E> {
    let mut whole = |request: Request| ask(request.duration_s, request.load_pps);
    let mut tester = Tester::new(range, &mut whole);
    let (mut lower, mut upper): (Option<f64>, Option<f64>) = (None, None);
    let mut throughput = None;
    let end = loop {
        let ceiling = tester.range.max_pps;
        let load = match (lower, upper) {
            _ if tester.too_slow() => break if lower.is_some() { tester.at_highest } else { End::SenderTooSlow },
            (Some(passed), Some(failed)) if failed - passed <= goal.width * failed => break End::Regular,
            // No load that the sender reaches has failed: the highest comes next, unless it has passed already.
            (passed, failed) if failed.is_none_or(|failed| failed > ceiling) => match passed {
                Some(passed) if passed >= ceiling => break tester.at_highest,
                _ => ceiling,
            },
            (None, Some(failed)) if failed <= range.min_pps => break End::BelowMinimum,
            (None, Some(failed)) if failed * (1.0 - goal.width) <= range.min_pps => range.min_pps,
            (passed, failed) => f64::midpoint(passed.unwrap_or(range.min_pps), failed.unwrap_or(ceiling)),
        };
        let Some(trial) = tester.trial(goal.trial_s, load)? else { continue };
        if trial.loss_ratio() > goal.loss_ratio {
            upper = Some(load);
        } else {
            lower = Some(load);
            throughput = Some(trial.forwarding_pps());
        }
    };
    let found = Found { lower_pps: lower, upper_pps: upper, throughput_pps: throughput, end };
    Ok(Searched {
        found: vec![found],
        trials: tester.trials,
        void_trials: tester.void_trials,
        trial_time_s: tester.spent_s,
    })
}
