//! Trials at rising loads before a search for the lowest load with losses. Loss need not rise with the load: with a NIC
//! an application can starve behind softirqs that run on interrupts, but lose nothing at a higher load, where ksoftirqd
//! polls. A search that begins at the higher load would miss the lower loads with losses, but RFC 9971 asks for the
//! lowest load with losses (the relevant upper bound).

use super::Question;
use crate::reading;
use netcliff_mlrsearch::trial::{Answer, Range};
use netcliff_trial::bench::{Bench, Observation};
use netcliff_trial::trial::{TrialError, TrialShape};

/// First load, relative to the expected cliff.
const FIRST: f64 = 0.2;
/// Upper limit of the loads, relative to the expected cliff.
const LAST: f64 = 4.0;
/// Ratio of consecutive loads.
const STEP: f64 = 1.2;
/// Number of valid trials that must lose at a load for the load to count as losing, because one of them may have been
/// disturbed.
const TRIALS: u32 = 2;
/// Number of void trials at a load that are repeated.
const VOID_REPEATS: u32 = 2;

/// Trials at rising loads.
#[derive(Debug)]
pub struct Climb {
    /// The lowest load that loses more than the target (pps); `None`: no load does.
    pub losing_pps: Option<f64>,
    pub trials: Vec<Observation>,
}

impl Climb {
    /// Makes trials at rising loads until a load counts as losing.
    pub fn of(bench: &mut dyn Bench, question: &Question) -> Result<Self, TrialError> {
        let range = question.range;
        let mut climb = Self { losing_pps: None, trials: Vec::new() };
        let mut load_pps = (FIRST * question.near_pps).max(range.min_pps);
        while load_pps <= range.max_pps.min(LAST * question.near_pps) {
            if climb.loses(bench, question, load_pps)? {
                climb.losing_pps = Some(load_pps);
                break;
            }
            load_pps *= STEP;
        }
        Ok(climb)
    }

    /// Returns `question` limited to loads up to the lowest losing load, beginning halfway (geometric mean) between
    /// this load and the load tried before. If a host loses in one trial but not in the next, a search that continued
    /// from a passed trial would end at a higher cliff. Unchanged if no load loses.
    #[must_use]
    pub fn narrowed(&self, question: Question) -> Question {
        let Some(losing_pps) = self.losing_pps.filter(|pps| *pps > question.range.min_pps) else { return question };
        Question {
            near_pps: losing_pps / STEP.sqrt(),
            range: Range { max_pps: losing_pps, ..question.range },
            known: self.trials.iter().filter(|seen| seen.spec.rate_pps == losing_pps).cloned().collect(),
            ..question
        }
    }

    /// True if [`TRIALS`] valid trials of a load lose more than the target; false as soon as one loses no more, or if
    /// too many trials are void.
    fn loses(&mut self, bench: &mut dyn Bench, question: &Question, rate_pps: f64) -> Result<bool, TrialError> {
        let (mut lost, mut void) = (0, 0);
        while lost < TRIALS && void <= VOID_REPEATS {
            let seed = question.base.seed + 30_000 + self.trials.len() as u64;
            let seen = bench.observe(&TrialShape { seed, ..question.base.clone() }.at(rate_pps), true)?;
            let answer = reading::read(&seen, question.capacity_pps).own;
            self.trials.push(seen);
            match answer {
                Answer::Valid(trial) if trial.loss_ratio() <= question.goal.loss_ratio => return Ok(false),
                Answer::Valid(_) => lost += 1,
                Answer::Void { .. } => void += 1,
            }
        }
        Ok(lost == TRIALS)
    }
}
