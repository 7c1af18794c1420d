//! What the machine around a run did: what disturbed it, and the speed that the prediction is for.

use netcliff_core::finding::ByEngine;

use super::engines::Predictor;
use super::recorder::Stage;
use super::stages::Run;
use super::{Halt, missing};

/// A change of speed below this is not corrected for.
const SPEED_MATTERS: f64 = 0.005;

impl Run<'_, '_> {
    /// What disturbed the run, as far as it came.
    pub(super) fn outside(&mut self) {
        self.finding.disturbance = self.bench.disturbance(self.left_out);
        self.finding.speed = self.bench.speed();
        self.finding.drift = self.bench.drift();
        if self.finding.disturbance.as_ref().is_some_and(|told| told.host.is_none()) {
            missing(
                self.finding,
                "disturbance.host",
                "a CPU that halts and is given back late cannot be distinguished from an idle one: --idle awake measures its pauses",
            );
        }
    }

    /// Predicts once more, for the speed that the CPU had when the cliff was measured, where that was another than in calibration.
    pub(super) fn at_speed_of_searches(&mut self, computed: Predictor) -> Result<Predictor, Halt> {
        let [before, now] = [Stage::Calibration, Stage::Search];
        // The loop sees the clock's speed alone, the costs also what neighbours do to caches and memory.
        let factor = match self.bench.slowness(now) {
            Some(costs) => slower(Some(costs), self.bench.slowness(before)),
            None => slower(self.bench.turns_per_s(before), self.bench.turns_per_s(now)),
        };
        let Some(factor) = factor else { return Ok(computed) };
        let cliff = &self.finding.cliff_pps;
        self.finding.cliff_as_calibrated_pps = Some(ByEngine { wire: None, ..cliff.clone() });
        let near_pps = cliff.model.map(|cliff| cliff.value).or(computed.near_pps);
        let computed = Predictor { near_pps, ..computed }.slowed(factor, self.options.work_s);
        self.stage("predicting for the speed at which the cliff was measured");
        self.computed_cliffs(&computed)?;
        Ok(computed)
    }
}

/// `a` over `b`, how many times as long a CPU takes; None where it makes no difference that the engines' own intervals would not hide,
/// or is not known.
pub fn slower(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let factor = a? / b?;
    ((factor - 1.0).abs() > SPEED_MATTERS).then_some(factor)
}
