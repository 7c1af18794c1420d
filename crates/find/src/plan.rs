//! Duration of each stage, and progress of a run.

use std::time::Instant;

use netcliff_core::Finding;
use netcliff_core::finding::CliffDefinition;

use super::cliff::Question;
use super::spent::Clock;
use super::{FindOptions, Observer, Settings};
use crate::calibrate;
use netcliff_mlrsearch::Goal;
use netcliff_mlrsearch::trial::Range;
use netcliff_trial::bench::Highest;
use netcliff_trial::trial::TrialShape;

/// Additional time of a trial besides its window and warm-up: set-up, cool-down, drain (s).
const TRIAL_OVERHEAD_S: f64 = 0.1;
/// Number of loads that one search tries; a repeat after a void trial counts as another load. A fake host needs 3.6
/// with --quick, 5 with pauses (see `DITHER` of [`super::cliff`]).
const SEARCH_LOADS: f64 = 5.0;
/// Factor for the additional trials on a noisy machine.
const RESTLESS: f64 = 1.2;
/// Number of trials of an ascending search up to the expected cliff ([`super::cliff::Climb`]): from a fifth of it, each
/// load 20 % higher than the one before, the last load twice.
const CLIMB_TRIALS: f64 = 11.0;
/// Time for model, simulation and suggestions (s).
const COMPUTING_S: f64 = 6.0;
/// Time before calibration: the sender's maximum, the warm-up and the rough search (s).
const BEFORE_S: f64 = 4.0 + super::rough::WARM_UP_S;

/// Share of the sender's maximum above which the sender cannot keep the intended gaps between frames.
pub const PACED_SHARE: f64 = 0.95;
/// Lowest load that is tried (pps): a trial of one second then still has a thousand packets.
const LEAST_PPS: f64 = 1e3;
/// Number of pairs of searches with and without a suggestion; a Student interval over the pairs needs several.
pub const TRIED_ROUNDS: u32 = 5;
pub const TRIED_ROUNDS_QUICK: u32 = 3;
/// Loads at which round trips are measured, as shares of the cliff.
pub const ROUND_TRIP_SHARES: [f64; 3] = [0.1, 0.5, 0.9];
/// Shortest trial for round trips (s): long enough for two hundred answers.
pub const ROUND_TRIP_S: f64 = 1.0;
/// Default loads below a check's cliff, as shares of the cliff with the checked setting, measured or else expected.
/// Several are used because the number of interrupts per packet falls with the load.
pub const BELOW_SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// Loads of the sweep as multiples of the cliff.
pub const MULTIPLES: [f64; 11] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.4];
/// Default length of a trial of the sweep without a capture (s). Longer trials would not help: the machine's speed
/// changes more from one trial to the next than a longer trial averages out.
const SWEEP_S: f64 = 0.5;
/// Arrivals simulated per load of the sweep; searches for the cliff may use more.
const SWEEP_PACKETS: u64 = 1_000_000;

/// Numbers of repeats, and lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Repeats of each load of the sweep.
    pub repeats: u32,
    /// Length of one measurement (s).
    pub trial_s: f64,
    /// Length of a trial of the sweep (s).
    pub sweep_s: f64,
    /// Rounds of the calibration.
    pub calibration_rounds: u32,
    /// Number of searches for the cliff.
    pub searches: u32,
    /// Number of trials after which no further search begins.
    pub most_trials: u32,
    /// The goal that defines the cliff.
    pub goal: Goal,
    /// Arrivals simulated per load in searches for the cliff.
    pub sim_packets: u64,
    /// Arrivals simulated per load of the sweep.
    pub sweep_packets: u64,
    /// Expected duration of the whole run (s).
    pub planned_s: f64,
}

impl Plan {
    /// The plan for these options.
    pub fn new(options: &FindOptions) -> Self {
        let repeats = options.settings.repeats.unwrap_or(if options.settings.quick { 1 } else { 5 });
        let trial_s = options.settings.trial_s.unwrap_or(if options.settings.quick { 0.4 } else { 1.0 });
        // With 6 searches the interval has a confidence of 97 %; with 5, if the trials run out, 94 %.
        let searches = options.settings.searches.unwrap_or(6);
        let goal = goal(options, trial_s);
        let calibration_rounds = if options.settings.quick { 4 } else { repeats.max(5) };
        let sweep_s = match (options.settings.trial_s, &options.capture) {
            (None, None) => trial_s.min(SWEEP_S),
            _ => trial_s,
        };
        let whole_s = |trial_s: f64| 1.1 * trial_s + TRIAL_OVERHEAD_S;
        let each_s = whole_s(trial_s);
        let calibration = f64::from(calibration_rounds) * calibrate::TRIALS_A_ROUND as f64 + 2.0;
        let calibration_s = calibration * whole_s(trial_s.min(calibrate::LEAST_TRIAL_S));
        let all_of_sweep_s = f64::from(repeats) * MULTIPLES.len() as f64 * whole_s(sweep_s);
        // A second trial with the same result as a load's first one decides on the load early.
        let of_a_load = 1.0 + 0.5 * (goal.duration_sum_s / goal.final_trial_s - 1.0);
        let one_search = f64::from(searches) * SEARCH_LOADS * of_a_load;
        let between = options.rig.between.is_some();
        let (climb, below) = if between { (CLIMB_TRIALS, BELOW_SHARES.len() as f64) } else { (0.0, 0.0) };
        let trips_s = ROUND_TRIP_SHARES.len() as f64 * (ROUND_TRIP_S.max(trial_s) + TRIAL_OVERHEAD_S);
        let check = climb + one_search + (2.0 + below) * f64::from(repeats);
        let checks = options.checks.len() as f64 * check * each_s;
        let rounds = if options.settings.quick { TRIED_ROUNDS_QUICK } else { TRIED_ROUNDS };
        let tries = if options.settings.try_suggestions {
            2.0 * f64::from(rounds) * SEARCH_LOADS * of_a_load * each_s
        } else {
            0.0
        };
        let trips_s = if between { trips_s } else { 0.0 };
        let planned_s = BEFORE_S
            + calibration_s
            + all_of_sweep_s
            + (climb + one_search) * each_s
            + trips_s
            + COMPUTING_S
            + checks
            + tries;
        let sim_packets = sim_packets(options);
        Self {
            repeats,
            trial_s,
            sweep_s,
            calibration_rounds,
            searches,
            most_trials: (RESTLESS * one_search).ceil() as u32,
            goal,
            sim_packets,
            sweep_packets: sim_packets.min(SWEEP_PACKETS),
            planned_s,
        }
    }

    /// The definition of the cliff in the finding.
    pub fn definition(&self) -> CliffDefinition {
        let Goal { final_trial_s: trial_s, duration_sum_s, loss_ratio: loss, exceed_ratio: exceed, width, .. } =
            self.goal;
        CliffDefinition { loss, exceed, trial_s, duration_sum_s, width }
    }

    /// The searches of this plan, with trials like `base`, up to the highest load, beginning close to `near_pps`.
    pub fn question(&self, base: TrialShape, highest: Highest, near_pps: f64, capacity_pps: f64) -> Question {
        Question {
            reference: None,
            base,
            goal: self.goal,
            range: range(highest),
            limited: highest.is_limited(),
            near_pps,
            capacity_pps,
            searches: self.searches,
            most_trials: self.most_trials,
            known: Vec::new(),
        }
    }
}

/// Number of arrivals simulated per load: enough for about 100 lost packets (without --quick 400) at the target loss,
/// within limits that keep the computation to some seconds.
fn sim_packets(options: &FindOptions) -> u64 {
    let (losses, least, most) = if options.settings.quick { (100.0, 250e3, 1e6) } else { (400.0, 1e6, 4e6) };
    (losses / options.settings.loss).clamp(least, most) as u64
}

/// The goal of the searches, with defaults for settings that are not given: with --quick one trial decides on a load,
/// otherwise the majority of three.
fn goal(options: &FindOptions, trial_s: f64) -> Goal {
    let trials = if options.settings.quick { 1.0 } else { 3.0 };
    Goal {
        final_trial_s: trial_s,
        initial_trial_s: trial_s,
        duration_sum_s: options.settings.duration_sum_s.unwrap_or(trials * trial_s),
        loss_ratio: options.settings.loss,
        exceed_ratio: options.settings.exceed.unwrap_or(Settings::EXCEED),
        width: options.settings.width.unwrap_or(if options.settings.quick { 0.04 } else { 0.02 }),
    }
}

/// Progress of a run.
pub struct Progress<'a> {
    started: Instant,
    planned_s: f64,
    /// Counts how time is spent.
    pub clock: Clock,
    /// Receives the progress.
    pub observer: &'a mut dyn Observer,
}

impl<'a> Progress<'a> {
    /// Begins a run now.
    pub fn new(plan: &Plan, observer: &'a mut dyn Observer) -> Self {
        Self { started: Instant::now(), planned_s: plan.planned_s, clock: Clock::default(), observer }
    }

    /// Time since the start (s).
    pub fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Begins a stage.
    pub fn stage(&mut self, name: &str) {
        self.clock.enter(name);
        self.observer.stage(name);
    }

    /// Reports that a trial at this load has begun.
    pub fn trial(&mut self, load_pps: f64) {
        let elapsed_s = self.elapsed_s();
        self.observer.trial(load_pps, elapsed_s, self.planned_s);
    }
}

/// Range of loads that a search for the cliff may try.
pub fn range(highest: Highest) -> Range {
    let max_pps = highest.paced_pps(PACED_SHARE);
    Range { min_pps: LEAST_PPS.min(0.5 * max_pps), max_pps }
}

/// The highest load that can be offered; `None` until it has been measured.
pub(super) fn highest(finding: &Finding) -> Option<Highest> {
    let ceiling_pps = finding.generator.ceiling_pps?.value;
    Some(Highest { ceiling_pps, most_pps: finding.generator.max_rate_pps })
}
