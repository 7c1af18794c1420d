//! Conditions of a run: its disturbances, and the machine's speed, to which the prediction is scaled.

use netcliff_core::finding::ByEngine;
use netcliff_core::finding::{FigurePath, WholeFigure};

use super::delivery::Timing;
use super::engines::Predictor;
use super::stages::Run;
use super::{Halt, delivery, missing};
use crate::calibrate::Calibrated;
use netcliff_trial::bench::Counts;

impl Run<'_, '_> {
    /// Records the disturbances of the run so far.
    pub(super) fn outside(&mut self) {
        self.finding.disturbance = self.bench.disturbance(self.left_out);
        self.finding.speed = self.bench.speed();
        self.finding.drift = self.bench.drift();
        if self.finding.disturbance.as_ref().is_some_and(|found| found.host.is_none()) {
            missing(
                self.finding,
                FigurePath::Whole(WholeFigure::HostPauses),
                "a CPU that halts and is given back late cannot be distinguished from an idle one: --idle awake measures its pauses",
            );
        }
    }

    /// Returns the calibrated host at the speed of the searches' trials; `None` if there are too few trials. If the
    /// moderation is known, also estimates the interrupt latency from these trials.
    pub(super) fn at_present(&mut self, calibrated: &Calibrated) -> Option<Calibrated> {
        let trials = self.bench.at_present();
        let present = calibrated.at_present(&trials, self.options.settings.work_s, self.options.settings.seed);
        if !self.behind_known_moderation {
            return present;
        }
        let computed = |own: &Calibrated| self.computed(own, None);
        let at_speed = |trials: &[Counts]| self.at_speed_of(calibrated, trials);
        let (present, near) = delivery::estimated(calibrated, present, &trials.empty, self.stop, computed, &at_speed);
        self.timing.extend(near);
        present
    }

    /// Interrupt latencies from the calibration's trials; empty if the moderation is unknown.
    pub(super) fn timing_below(&self, calibrated: &Calibrated) -> Timing {
        if !self.behind_known_moderation {
            return Timing::default();
        }
        let at_speed = |trials: &[Counts]| self.at_speed_of(calibrated, trials);
        delivery::of_trials(&self.computed(calibrated, None), &calibrated.quiet, &at_speed, self.stop)
            .unwrap_or_default()
    }

    fn at_speed_of(&self, calibrated: &Calibrated, trials: &[Counts]) -> Option<Predictor> {
        Some(self.computed(&calibrated.at_speed_of(trials, self.options.settings.work_s)?, None))
    }

    /// Repeats the prediction of the cliff for the speed that the machine had when the cliff was measured.
    pub(super) fn predicted_at_present(
        &mut self,
        computed: Predictor,
        present: &Calibrated,
    ) -> Result<Predictor, Halt> {
        let cliff = &self.finding.cliff_pps;
        self.finding.cliff_as_calibrated_pps = Some(ByEngine { wire: None, ..cliff.clone() });
        let near_pps = cliff.model.map(|cliff| cliff.value).or(computed.near_pps);
        let host = present.calibration.host.clone();
        self.finding.searched_host = Some(host.clone());
        let computed = Predictor { host, near_pps, timing: delivery::curved(&self.timing), ..computed };
        self.stage("predicting for the speed at which the cliff was measured");
        self.computed_cliffs(&computed)?;
        Ok(computed)
    }
}
