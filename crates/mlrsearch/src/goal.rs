//! The goal of a search.

use netcliff_core::{Invalid, units};
use serde::{Deserialize, Serialize};

/// A search goal of RFC 9971 (section 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Goal {
    /// Length of a full trial (s). Shorter trials count less in the classification of a load.
    pub final_trial_s: f64,
    /// Length of the shortest trials (s).
    pub initial_trial_s: f64,
    /// Total length of the full trials that classify a load (s).
    pub duration_sum_s: f64,
    /// Highest share of frames that a trial may lose without counting against the load.
    pub loss_ratio: f64,
    /// Highest share of the trial time at a lower bound that may be spent in trials that lose more than `loss_ratio`.
    pub exceed_ratio: f64,
    /// Distance of the bounds, divided by the upper one, at which the search ends.
    pub width: f64,
}

impl Goal {
    /// Goal of RFC 2544's throughput (RFC 9971 6.10.1): one trial of `trial_s` (s) loses at most `loss_ratio`. Shorter
    /// trials, down to 1 s, only find the loads that are worth a full trial.
    pub fn rfc2544(trial_s: f64, loss_ratio: f64, width: f64) -> Self {
        let initial_trial_s = trial_s.min(1.0);
        Self { final_trial_s: trial_s, initial_trial_s, duration_sum_s: trial_s, loss_ratio, exceed_ratio: 0.0, width }
    }

    /// Goal for devices that share their CPU with other work, as FD.io's CSIT uses it: 21 trials of one second, half of
    /// which may lose more than `loss_ratio`.
    pub fn typical(loss_ratio: f64, width: f64) -> Self {
        Self { final_trial_s: 1.0, initial_trial_s: 1.0, duration_sum_s: 21.0, loss_ratio, exceed_ratio: 0.5, width }
    }

    /// Returns this goal with full trials of `trial_s` (s); its other durations change by the same factor.
    #[must_use]
    pub fn with_trials_of(self, trial_s: f64) -> Self {
        let longer = trial_s / self.final_trial_s;
        let [initial_trial_s, duration_sum_s] = [self.initial_trial_s, self.duration_sum_s].map(|of| of * longer);
        Self { final_trial_s: trial_s, initial_trial_s, duration_sum_s, ..self }
    }

    /// Refuses invalid values.
    ///
    /// # Errors
    /// The initial trial is not above 0 or longer than the final trial, the duration sum is below the final trial, or a
    /// ratio or the width is out of its range.
    pub fn check(&self) -> Result<(), Invalid> {
        let (time, share) = (units::print_time_s, units::print_share);
        let bad = |name: &str, value: String, range: &str| Err(Invalid::new(name, value, range));
        if !(self.initial_trial_s > 0.0 && self.initial_trial_s <= self.final_trial_s) {
            return bad("initial trial", time(self.initial_trial_s), "above 0 s and at most the final trial");
        }
        if !(self.final_trial_s.is_finite() && self.duration_sum_s >= self.final_trial_s) {
            return bad("duration sum", time(self.duration_sum_s), "at least the final trial");
        }
        if !(0.0..1.0).contains(&self.loss_ratio) {
            return bad("loss ratio", share(self.loss_ratio), "from 0% to below 100%");
        }
        if !(0.0..1.0).contains(&self.exceed_ratio) {
            return bad("exceed ratio", share(self.exceed_ratio), "from 0% to below 100%");
        }
        if !(self.width > 0.0 && self.width < 1.0) {
            return bad("width", share(self.width), "above 0% and below 100%");
        }
        Ok(())
    }

    /// Splits the goal into stages of growing cost; the last stage is the goal itself. Duration sums grow by equal
    /// factors, widths halve. The last stage but one already has the goal's width, because a trial of the last stage
    /// costs more than all before.
    pub(super) fn stages(&self) -> Vec<Self> {
        let growth = self.duration_sum_s / self.initial_trial_s;
        let steps = (growth.ln() / STAGE_GROWTH.ln()).round().max(0.0) as i32;
        (0..=steps)
            .map(|step| {
                let share = f64::from(step) / f64::from(steps.max(1));
                let sum = if step == steps { self.duration_sum_s } else { self.initial_trial_s * growth.powf(share) };
                Self {
                    final_trial_s: sum.min(self.final_trial_s),
                    duration_sum_s: sum,
                    width: (self.width * 2f64.powi((steps - 1 - step).max(0))).min(0.5),
                    ..*self
                }
            })
            .collect()
    }
}

/// Factor between the duration sums of one stage and the next. Of 2, 3, 4, 6 and 8, this factor takes the least trial
/// time over the devices of bench/rfc2544 (`cargo run --release -p netcliff-mlrsearch --example searches`).
const STAGE_GROWTH: f64 = 4.0;
