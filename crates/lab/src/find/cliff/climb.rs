//! Where a search for the lowest load that loses begins. Loss need not rise with the load: behind a NIC an application can starve beside softirqs that run
//! on interrupts, and lose nothing at a higher load, where ksoftirqd polls on. A search that begins there skips the loads below that lose, which RFC 9971
//! asks for.

use super::Question;
use crate::bench::Bench;
use crate::find::reading;
use crate::rfc2544::trial::Answer;
use crate::trial::{TrialError, TrialSpec};

/// The first load and the bound of the last, over the expected cliff, and each over the one before.
const FIRST: f64 = 0.2;
const LAST: f64 = 4.0;
const STEP: f64 = 1.2;
/// A load loses if so many trials in a row do: one may have been disturbed.
const TRIALS: u64 = 2;

/// The middle between the lowest of rising loads that loses more than the target and the load before; where none does, the expected cliff (pps).
///
/// # Errors
/// A trial failed.
pub fn start_pps(bench: &mut dyn Bench, question: &Question) -> Result<f64, TrialError> {
    let range = question.range;
    let mut load_pps = (FIRST * question.near_pps).max(range.min_pps);
    let mut seed = question.base.seed + 30_000;
    while load_pps <= range.max_pps.min(LAST * question.near_pps) {
        if loses(bench, question, load_pps, seed)? {
            return Ok(load_pps / STEP.sqrt());
        }
        load_pps *= STEP;
        seed += TRIALS;
    }
    Ok(question.near_pps)
}

/// True if each trial of a load loses more than the target, their seeds from `seed` on.
fn loses(bench: &mut dyn Bench, question: &Question, rate_pps: f64, seed: u64) -> Result<bool, TrialError> {
    for seed in seed..seed + TRIALS {
        let seen = bench.observe(&TrialSpec { rate_pps, seed, ..question.base.clone() }, true)?;
        match reading::read(&seen, question.capacity_pps).own {
            Answer::Valid(trial) if trial.loss_ratio() > question.goal.loss_ratio => {}
            Answer::Valid(_) | Answer::Void { .. } => return Ok(false),
        }
    }
    Ok(true)
}
