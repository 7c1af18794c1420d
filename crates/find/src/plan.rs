//! Duration of each stage, and progress of a run.

use std::time::Instant;

use netcliff_core::Finding;

use super::cliff::Question;
use super::spent::Clock;
use super::{FindOptions, Observer};
use crate::calibrate;
use netcliff_mlrsearch::Goal;
use netcliff_mlrsearch::trial::Range;
use netcliff_trial::bench::Highest;
use netcliff_trial::trial::TrialSpec;

/// What a trial takes beyond its measured window and its warm-up: set-up, cool-down, drain (s).
const TRIAL_OVERHEAD_S: f64 = 0.1;
/// Loads that one search tries, repeats of void trials included: of a fake host 3.6 with --quick, 5 with pauses (see
/// [`super::cliff`]'s `DITHER`).
const SEARCH_LOADS: f64 = 5.0;
/// Trials that a restless machine may take more than that.
const RESTLESS: f64 = 1.2;
/// Trials of a climb to the expected cliff ([`super::cliff::Climb`]), from a fifth of it in steps of a fifth, the last load twice.
const CLIMB_TRIALS: f64 = 11.0;
/// Share of the trials that may lose more than the target at the cliff.
const EXCEED: f64 = 0.5;
/// Model, simulation and suggestions (s).
const COMPUTING_S: f64 = 6.0;
/// Everything before calibration: the sender's ceiling, the warm-up and the rough search (s).
const BEFORE_S: f64 = 4.0 + super::rough::WARM_UP_S;

/// Share of the sender's ceiling above which it cannot pace.
pub const PACED_SHARE: f64 = 0.95;
/// Lowest load that is tried (pps): a trial of a second then still has a thousand packets.
const LEAST_PPS: f64 = 1e3;
/// Pairs of searches; a Student interval over them needs a few.
pub const TRIED_ROUNDS: u32 = 5;
pub const TRIED_ROUNDS_QUICK: u32 = 3;
/// Shares of the cliff at which they are measured.
pub const ROUND_TRIP_SHARES: [f64; 3] = [0.1, 0.5, 0.9];
/// Least length of such a trial (s): two hundred answers.
pub const ROUND_TRIP_S: f64 = 1.0;
/// Loads where none are given, as shares of the cliff that was measured with the setting, or else is expected: interrupts a packet fall with the load.
pub const BELOW_SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// Loads of the sweep as multiples of the cliff.
pub const MULTIPLES: [f64; 11] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.4];
/// Length of a trial of the sweep where none is given and no capture is replayed (s): between two trials the machine changes more than a longer one would
/// average out.
const SWEEP_S: f64 = 0.5;
/// Arrivals simulated a load of the sweep, where the cliff may take more.
const SWEEP_PACKETS: u64 = 1_000_000;

/// Repeats and lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Repeats of each load and of the search.
    pub repeats: u32,
    /// Length of one measurement (s).
    pub trial_s: f64,
    /// Length of a trial of the sweep (s).
    pub sweep_s: f64,
    /// Rounds of calibration.
    pub calibration_rounds: u32,
    /// Searches for the cliff.
    pub searches: u32,
    /// No search begins after so many trials of searches.
    pub most_trials: u32,
    /// What a cliff is.
    pub goal: Goal,
    /// Arrivals simulated a load in searches for the cliff.
    pub sim_packets: u64,
    /// The same a load of the sweep.
    pub sweep_packets: u64,
    /// Whole run (s).
    pub planned_s: f64,
}

impl Plan {
    /// The plan for these options.
    pub fn new(options: &FindOptions) -> Self {
        let repeats = options.repeats.unwrap_or(if options.quick { 1 } else { 5 });
        let trial_s = options.trial_s.unwrap_or(if options.quick { 0.4 } else { 1.0 });
        // The interval over 6 searches has 97 % confidence, over 5, if the trials run out, 94 %.
        let searches = options.searches.unwrap_or(6);
        let goal = goal(options, trial_s);
        let calibration_rounds = if options.quick { 4 } else { repeats.max(5) };
        let sweep_s = match (options.trial_s, &options.capture) {
            (None, None) => trial_s.min(SWEEP_S),
            _ => trial_s,
        };
        let whole_s = |trial_s: f64| 1.1 * trial_s + TRIAL_OVERHEAD_S;
        let each_s = whole_s(trial_s);
        let calibration = f64::from(calibration_rounds) * calibrate::TRIALS_A_ROUND as f64 + 2.0;
        let calibration_s = calibration * whole_s(trial_s.min(calibrate::LEAST_TRIAL_S));
        let all_of_sweep_s = f64::from(repeats) * MULTIPLES.len() as f64 * whole_s(sweep_s);
        // A trial that agrees with the first of a load ends it early.
        let of_a_load = 1.0 + 0.5 * (goal.duration_sum_s / goal.final_trial_s - 1.0);
        let one_search = f64::from(searches) * SEARCH_LOADS * of_a_load;
        let between = options.rig.between.is_some();
        let (climb, below) = if between { (CLIMB_TRIALS, BELOW_SHARES.len() as f64) } else { (0.0, 0.0) };
        let trips_s = ROUND_TRIP_SHARES.len() as f64 * (ROUND_TRIP_S.max(trial_s) + TRIAL_OVERHEAD_S);
        let check = climb + one_search + (2.0 + below) * f64::from(repeats);
        let checks = options.checks.len() as f64 * check * each_s;
        let rounds = if options.quick { TRIED_ROUNDS_QUICK } else { TRIED_ROUNDS };
        let tries =
            if options.try_suggestions { 2.0 * f64::from(rounds) * SEARCH_LOADS * of_a_load * each_s } else { 0.0 };
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

    /// The searches of this plan, for trials like `base` up to the highest load, begun at `near_pps`.
    pub fn question(&self, base: TrialSpec, highest: Highest, near_pps: f64, capacity_pps: f64) -> Question {
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

/// Arrivals simulated a load: a hundred (four hundred without --quick) are lost at the target loss, within what takes seconds.
fn sim_packets(options: &FindOptions) -> u64 {
    let (losses, least, most) = if options.quick { (100.0, 250e3, 1e6) } else { (400.0, 1e6, 4e6) };
    (losses / options.loss).clamp(least, most) as u64
}

/// The goal of the searches: one trial judges a load with --quick, the majority of three without.
fn goal(options: &FindOptions, trial_s: f64) -> Goal {
    let trials = if options.quick { 1.0 } else { 3.0 };
    Goal {
        final_trial_s: trial_s,
        initial_trial_s: trial_s,
        duration_sum_s: options.duration_sum_s.unwrap_or(trials * trial_s),
        loss_ratio: options.loss,
        exceed_ratio: options.exceed.unwrap_or(EXCEED),
        width: options.width.unwrap_or(if options.quick { 0.04 } else { 0.02 }),
    }
}

/// Progress of a run.
pub struct Progress<'a> {
    started: Instant,
    planned_s: f64,
    /// Where the seconds go.
    pub clock: Clock,
    /// Receives the progress.
    pub observer: &'a mut dyn Observer,
}

impl<'a> Progress<'a> {
    /// A run that starts now.
    pub fn new(plan: &Plan, observer: &'a mut dyn Observer) -> Self {
        Self { started: Instant::now(), planned_s: plan.planned_s, clock: Clock::default(), observer }
    }

    /// Time since the start (s).
    pub fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// A stage begins.
    pub fn stage(&mut self, name: &str) {
        self.clock.enter(name);
        self.observer.stage(name);
    }

    /// A trial at this load is under way.
    pub fn trial(&mut self, load_pps: f64) {
        let elapsed_s = self.elapsed_s();
        self.observer.trial(load_pps, elapsed_s, self.planned_s);
    }
}

/// Loads that a search for the cliff may try.
pub fn range(highest: Highest) -> Range {
    let max_pps = highest.paced_pps(PACED_SHARE);
    Range { min_pps: LEAST_PPS.min(0.5 * max_pps), max_pps }
}

/// The highest load that could be offered; None before that was measured.
pub(super) fn highest(finding: &Finding) -> Option<Highest> {
    let ceiling_pps = finding.generator.ceiling_pps?.value;
    Some(Highest { ceiling_pps, most_pps: finding.generator.max_rate_pps })
}
