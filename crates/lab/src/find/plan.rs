//! How long each stage takes, and where a run stands.

use std::time::Instant;

use super::{FindOptions, Observer};
use crate::calibrate;

/// What a trial takes beyond its measured window: set-up, warm-up, drain (s); seen here: 0.25 to 0.35.
const TRIAL_OVERHEAD_S: f64 = 0.3;
/// Trials of one search for the cliff: about three coarse ones and five bisections.
const SEARCH_TRIALS: f64 = 10.0;
/// Model, simulation and suggestions (s).
const COMPUTING_S: f64 = 20.0;
/// Everything before calibration: the sender's ceiling and the rough search (s).
const BEFORE_S: f64 = 8.0;

/// Loads of the sweep as multiples of the cliff.
pub const MULTIPLES: [f64; 11] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.4];

/// Repeats and lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Repeats of each load and of the search.
    pub repeats: u32,
    /// Length of one measurement (s).
    pub trial_s: f64,
    /// Rounds of calibration.
    pub calibration_rounds: u32,
    /// Searches for the cliff; more than repeats when quick, since the cliff is the main figure.
    pub searches: u32,
    /// Relative width at which a search ends.
    pub width: f64,
    /// Arrivals simulated a load.
    pub sim_packets: u64,
    /// Whole run (s).
    pub planned_s: f64,
}

impl Plan {
    /// The plan for these options.
    pub fn new(options: &FindOptions) -> Self {
        let repeats = options.repeats.unwrap_or(if options.quick { 1 } else { 5 });
        let trial_s = options.trial_s.unwrap_or(if options.quick { 0.4 } else { 1.0 });
        let searches = if options.quick { repeats.max(3) } else { repeats };
        let calibration_rounds = if options.quick { 4 } else { repeats.max(5) };
        let each_s = trial_s + TRIAL_OVERHEAD_S;
        let calibration = f64::from(calibration_rounds) * calibrate::TRIALS_A_ROUND as f64 + 2.0;
        let sweep = f64::from(repeats) * MULTIPLES.len() as f64;
        let one_search = f64::from(searches) * SEARCH_TRIALS;
        let checks = options.checks.len() as f64 * (one_search + 2.0 * f64::from(repeats)) * each_s;
        let planned_s = BEFORE_S + (calibration + sweep + one_search) * each_s + COMPUTING_S + checks;
        Self {
            repeats,
            trial_s,
            calibration_rounds,
            searches,
            width: if options.quick { 0.04 } else { 0.02 },
            sim_packets: if options.quick { 1_000_000 } else { 4_000_000 },
            planned_s,
        }
    }
}

/// Where a run stands.
pub struct Progress<'a> {
    started: Instant,
    planned_s: f64,
    /// Told of everything.
    pub observer: &'a mut dyn Observer,
}

impl<'a> Progress<'a> {
    /// A run that starts now.
    pub fn new(plan: &Plan, observer: &'a mut dyn Observer) -> Self {
        Self { started: Instant::now(), planned_s: plan.planned_s, observer }
    }

    /// Time since the start (s).
    pub fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// A trial at this load is under way.
    pub fn trial(&mut self, load_pps: f64) {
        let elapsed_s = self.elapsed_s();
        self.observer.trial(load_pps, elapsed_s, self.planned_s);
    }
}
