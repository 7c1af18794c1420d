//! Where a search for the lowest load that loses begins. Loss need not rise with the load: behind a NIC an application can starve beside softirqs that run
//! on interrupts, and lose nothing at a higher load, where ksoftirqd polls on. A search that begins there skips the loads below that lose, which RFC 9971
//! asks for.

use super::Question;
use crate::bench::{Bench, Observation};
use crate::find::reading;
use crate::rfc2544::trial::Answer;
use crate::trial::{TrialError, TrialSpec};

/// The first load and the bound of the last, over the expected cliff, and each over the one before.
const FIRST: f64 = 0.2;
const LAST: f64 = 4.0;
const STEP: f64 = 1.2;
/// A load loses if so many trials in a row do: one may have been disturbed. So many that are void are made again.
const TRIALS: u32 = 2;
const VOID_REPEATS: u32 = 2;

/// Trials at rising loads.
#[derive(Debug)]
pub struct Climb {
    /// The middle between the lowest load that loses more than the target and the load before; where none does, the expected cliff (pps).
    pub start_pps: f64,
    pub trials: Vec<Observation>,
}

impl Climb {
    /// Climbs to the first load that loses.
    ///
    /// # Errors
    /// A trial failed.
    pub fn of(bench: &mut dyn Bench, question: &Question) -> Result<Self, TrialError> {
        let range = question.range;
        let mut climb = Self { start_pps: question.near_pps, trials: Vec::new() };
        let mut load_pps = (FIRST * question.near_pps).max(range.min_pps);
        while load_pps <= range.max_pps.min(LAST * question.near_pps) {
            if climb.loses(bench, question, load_pps)? {
                climb.start_pps = load_pps / STEP.sqrt();
                break;
            }
            load_pps *= STEP;
        }
        Ok(climb)
    }

    /// True if the trials of a load lose more than the target.
    fn loses(&mut self, bench: &mut dyn Bench, question: &Question, rate_pps: f64) -> Result<bool, TrialError> {
        let (mut lost, mut void) = (0, 0);
        while lost < TRIALS && void <= VOID_REPEATS {
            let seed = question.base.seed + 30_000 + self.trials.len() as u64;
            let seen = bench.observe(&TrialSpec { rate_pps, seed, ..question.base.clone() }, true)?;
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
