//! The trials at one load and how they classify it: RFC 9971, appendices A and B.

use super::Goal;
use crate::trial::Trial;

/// Classification of a load by its trials, for a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The load upholds the goal, whatever the results of the missing trials would be.
    Lower,
    /// The load fails the goal, whatever the results of the missing trials would be.
    Upper,
    /// Trials are missing.
    Undecided,
}

/// All trials at one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The load (pps).
    pub pps: f64,
    /// Its trials.
    pub trials: Vec<Trial>,
}

/// Total lengths of the trials at a load (s), by kind. Full: at least as long as the goal's final trial; short:
/// shorter. High: lost more than the goal's loss ratio; low: lost at most that.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    full_high_s: f64,
    full_low_s: f64,
    short_high_s: f64,
    short_low_s: f64,
}

impl Load {
    fn sums(&self, goal: &Goal) -> Sums {
        let mut sums = Sums::default();
        for trial in &self.trials {
            let high = trial.loss_ratio() > goal.loss_ratio;
            let sum = match (trial.duration_s >= goal.final_trial_s, high) {
                (true, true) => &mut sums.full_high_s,
                (true, false) => &mut sums.full_low_s,
                (false, true) => &mut sums.short_high_s,
                (false, false) => &mut sums.short_low_s,
            };
            *sum += trial.duration_s;
        }
        sums
    }

    /// Classifies the load (appendix A). The time of short trials with too much loss counts against the load, after
    /// subtraction of `exceed_ratio / (1 - exceed_ratio)` times the time of the other short trials.
    pub fn class(&self, goal: &Goal) -> Class {
        let sums = self.sums(goal);
        let balanced_s = sums.short_low_s * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        let high_s = sums.full_high_s + (sums.short_high_s - balanced_s).max(0.0);
        let whole_s = (high_s + sums.full_low_s).max(goal.duration_sum_s);
        let allowed_s = whole_s * goal.exceed_ratio;
        // `optimistic`: the goal is upheld if all missing trials lose nothing; `pessimistic`: even if all of them lose.
        let optimistic = high_s <= allowed_s;
        let pessimistic = whole_s - sums.full_low_s <= allowed_s;
        match (optimistic, pessimistic) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// Conditional throughput (pps, appendix B): load times forwarding ratio of one full trial. With the full trials
    /// sorted by rising loss, it is the trial at the quantile `1 - exceed_ratio` of their total time. Missing trials
    /// count as losing everything.
    pub fn conditional_pps(&self, goal: &Goal) -> f64 {
        let mut full: Vec<&Trial> = self.trials.iter().filter(|trial| trial.duration_s >= goal.final_trial_s).collect();
        full.sort_by(|a, b| a.loss_ratio().total_cmp(&b.loss_ratio()));
        let measured_s: f64 = full.iter().map(|trial| trial.duration_s).sum();
        let mut remaining_s = measured_s.max(goal.duration_sum_s) * (1.0 - goal.exceed_ratio);
        let mut loss = 1.0;
        for trial in full {
            if remaining_s <= 0.0 {
                break;
            }
            loss = trial.loss_ratio();
            remaining_s -= trial.duration_s;
        }
        self.pps * (1.0 - if remaining_s > 0.0 { 1.0 } else { loss })
    }
}

/// All loads that were tried, by rising load.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loads(Vec<Load>);

impl Loads {
    /// Adds a trial to the trials of its load.
    pub fn add(&mut self, trial: Trial) {
        match self.0.binary_search_by(|load| load.pps.total_cmp(&trial.load_pps)) {
            Ok(at) => self.0[at].trials.push(trial),
            Err(at) => self.0.insert(at, Load { pps: trial.load_pps, trials: vec![trial] }),
        }
    }

    /// Classifies a load; [`Class::Undecided`] if the load was not tried.
    pub fn class(&self, pps: f64, goal: &Goal) -> Class {
        self.get(pps).map_or(Class::Undecided, |load| load.class(goal))
    }

    /// Returns the trials at a load; `None` if the load was not tried.
    pub fn get(&self, pps: f64) -> Option<&Load> {
        self.0.binary_search_by(|load| load.pps.total_cmp(&pps)).ok().map(|at| &self.0[at])
    }

    /// Returns the relevant bounds (lower, upper) (pps, RFC 9971 4.8.1 and 4.8.2). Upper: the lowest load that fails
    /// the goal. Lower: the highest load that upholds the goal, below the upper bound if there is one. `None`: no such
    /// load.
    pub fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let mut lower = None;
        for load in &self.0 {
            match load.class(goal) {
                Class::Lower => lower = Some(load.pps),
                Class::Upper => return (lower, Some(load.pps)),
                Class::Undecided => {}
            }
        }
        (lower, None)
    }
}
