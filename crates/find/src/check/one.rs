//! One check: predicted with the calibrated costs, measured, and computed again at the machine's speed during the
//! measurement.

use netcliff_core::finding::{SetupCheck, SweepPoint};
use netcliff_core::{EngineKind, Finding};

use super::device::Device;
use super::setup::{CheckSetup, Predicted};
use super::{Asked, below, blank, found, measured, message, past, predict, reference};
use crate::calibrate::Calibrated;
use crate::cliff::{self, Cliffs, Climb, Question};
use crate::delivery::{self, Timing};
use crate::engines::Predictor;
use crate::later::highest;
use crate::recorder::{Recorder, Stage};
use crate::sureness::{Assessed, Sureness};
use crate::{base, experienced};
use netcliff_trial::bench::{Bench, Counts, Observation};
use netcliff_trial::trial::TrialShape;

/// Engines without a prediction, and why.
type Reasons = Vec<(EngineKind, String)>;

/// Makes one check. Also returns, for each engine without a prediction, the reason.
pub(super) fn one(
    setup: &CheckSetup,
    asked: &Asked<'_>,
    bench: &mut Recorder<'_>,
    device: Option<&Device<'_>>,
    finding: &Finding,
) -> Result<(SetupCheck, Reasons), String> {
    let Asked { options, plan, basis, stop } = *asked;
    let Predicted { mut computed, notes, unpredicted } =
        setup.predicted(options, plan, &basis.calibrated, finding, device);
    let shape = setup.shape(options, plan);
    // Larger frames take more of the socket's memory, so the number of packets that fit is measured, not predicted.
    if let Some(packets) = bench.socket_capacity(&shape).map_err(message)? {
        computed.host.socket_buffer = packets.round() as u64;
    }
    let mut check = blank(setup, &computed, &shape, notes);
    let (is_predicted, socket_buffer) = (unpredicted.is_none(), computed.host.socket_buffer);
    // The prediction precedes the measurement.
    let mut reasons = match unpredicted {
        Some(why) => [EngineKind::Model, EngineKind::Sim].map(|engine| (engine, why.clone())).to_vec(),
        None => predict(&computed, stop, &mut check),
    };
    let expected_pps = expected_pps(asked, finding, &check, is_predicted)?;
    let one = One { setup, asked, device, finding, shape, is_predicted, socket_buffer, expected_pps };
    let mut question = one.question();
    let mut timing = Timing::default();
    bench.calibrated(basis.calibrated.costs, base(options, plan));
    if device.is_some() {
        bench.enter(Stage::Below);
        let climb = Climb::of(bench, &question).map_err(message)?;
        timing = one.timing(&computed, &climb.trials);
        question = climb.narrowed(question);
    }
    bench.enter(Stage::Search);
    let cliffs = cliff::search(bench, &question).map_err(message)?;
    let cliff_pps = one.cliff_pps(&cliffs)?;
    let observed = one.observed_below(bench, cliff_pps.unwrap_or(expected_pps))?;
    let (present, timing) = one.present(bench, timing);
    computed.timing = delivery::curved(&timing);
    check.scheme = computed.sim_point(expected_pps).scheme;
    if let Some(present) = &present {
        computed = Predictor { timing: computed.timing, ..one.computed_with(present) };
        check.host = computed.host.clone();
    }
    let is_known_better = present.is_some() || computed.timing != Timing::default();
    if is_predicted && is_known_better {
        reasons = predict(&computed, stop, &mut check);
    }
    let calibrated = present.as_ref().unwrap_or(&basis.calibrated);
    // Without an interval, no reason is reported here: the run's own prediction reports it.
    if let Assessed::Sure(sure) = Sureness::unless(stop, &computed, &check.cliff_pps, calibrated) {
        sure.widen(&mut check.cliff_pps);
    }
    one.conclude(&cliffs, &computed, bench, &mut check, &mut reasons);
    check.below = one.below(&computed, calibrated, &observed);
    check.notes.extend(cliff_pps.and_then(|cliff_pps| below::losing(&check.below, cliff_pps, options.settings.loss)));
    if let Some(cliff_pps) = cliff_pps {
        one.past(&computed, bench, cliff_pps, &mut check)?;
    }
    Ok((check, reasons))
}

/// Expected cliff (pps): the predicted cliff, or else the cliff of the calibrated set-up.
fn expected_pps(asked: &Asked<'_>, finding: &Finding, check: &SetupCheck, is_predicted: bool) -> Result<f64, String> {
    let predicted = check.cliff_pps.sim.or(check.cliff_pps.model);
    let near = predicted.or_else(|| found(finding).filter(|_| !is_predicted)).map(|cliff| cliff.value);
    let near =
        near.or_else(|| (!asked.options.settings.check_loads_pps.is_empty()).then_some(asked.basis.capacity_pps));
    near.ok_or_else(|| "neither model nor simulator answers it".to_owned())
}

/// A check while it runs.
struct One<'a> {
    setup: &'a CheckSetup,
    asked: &'a Asked<'a>,
    device: Option<&'a Device<'a>>,
    finding: &'a Finding,
    shape: TrialShape,
    is_predicted: bool,
    /// Measured capacity of the socket (packets).
    socket_buffer: u64,
    expected_pps: f64,
}

impl One<'_> {
    /// Estimated capacity of this set-up (pps): the capacity of the calibrated set-up, but at most 5 % above the
    /// expected cliff.
    fn capacity_pps(&self) -> f64 {
        self.asked.basis.capacity_pps.min(1.05 * self.expected_pps)
    }

    /// The predictor with these costs.
    fn computed_with(&self, calibrated: &Calibrated) -> Predictor {
        let Asked { options, plan, .. } = *self.asked;
        let mut computed = self.setup.predicted(options, plan, calibrated, self.finding, self.device).computed;
        computed.host.socket_buffer = self.socket_buffer;
        computed
    }

    /// Returns the costs at the speed of `trials`; `None` for another frame size or work than calibrated, or if the
    /// trials give no estimate.
    fn at_speed(&self, trials: &[Counts]) -> Option<Calibrated> {
        let options = self.asked.options;
        let tells =
            (self.shape.frame_bytes, self.shape.work_s) == (options.settings.frame_bytes, options.settings.work_s);
        self.asked.basis.calibrated.at_speed_of(trials, options.settings.work_s).filter(|_| tells)
    }

    fn computed_at_speed(&self, trials: &[Counts]) -> Option<Predictor> {
        self.at_speed(trials).map(|own| self.computed_with(&own))
    }

    /// True if interrupt latencies are estimated: for a device that is predicted and does not use a CPU's backlog,
    /// which has no NIC interrupts.
    fn is_timed(&self) -> bool {
        self.is_predicted && self.device.is_some_and(|device| !device.backlog)
    }

    /// Interrupt latencies estimated from trials below the cliff; if these give none, the latencies from the
    /// calibration. Empty if latencies are not estimated.
    fn timing(&self, computed: &Predictor, below: &[Observation]) -> Timing {
        if !self.is_timed() {
            return Timing::default();
        }
        let at_speed_of = |trials: &[Counts]| self.computed_at_speed(trials);
        let predicted = below::Predicted { computed, at_speed_of: &at_speed_of };
        below::timing(&predicted, below, self.asked)
    }

    /// The search for the cliff around its expected load.
    fn question(&self) -> Question {
        let Asked { options, plan, .. } = *self.asked;
        let highest = highest(self.finding);
        let question = plan.question(self.shape.clone(), highest, self.expected_pps, self.capacity_pps());
        Question { reference: reference(options, plan, self.finding), ..question }
    }

    /// Returns the costs at the speed of the search (`None` if it has too few trials), and all known interrupt
    /// latencies.
    fn present(&self, bench: &Recorder<'_>, mut timing: Timing) -> (Option<Calibrated>, Timing) {
        let Asked { options, basis, stop, .. } = *self.asked;
        let near = bench.at_present();
        let trials = if self.is_timed() { bench.near_and_below() } else { near.clone() };
        let present = basis.calibrated.at_present(&trials, options.settings.work_s, options.settings.seed);
        if !self.is_timed() {
            return (present, timing);
        }
        // This predictor uses the latencies estimated before the search.
        let computed = |own: &Calibrated| Predictor { timing: timing.clone(), ..self.computed_with(own) };
        let at_speed_of = |trials: &[Counts]| self.computed_at_speed(trials);
        let (present, estimates) =
            delivery::estimated(&basis.calibrated, present, &near.empty, stop, computed, &at_speed_of);
        timing.extend(estimates);
        (present, timing)
    }

    /// The host's own cliff, or else the cliff including disturbances (pps). Only the latter can be measured if the
    /// host's CPU is often paused from outside, as in a guest under TCG. `None`: neither was measured, but the check is
    /// of a NIC, whose loads below the cliff are useful without a cliff.
    fn cliff_pps(&self, cliffs: &Cliffs) -> Result<Option<f64>, String> {
        match cliffs.own().or_else(|why| cliffs.experienced().map_err(|_| why)) {
            Ok(cliff) => Ok(Some(cliff.value)),
            Err(why) if self.device.is_none() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// Adds the measured cliffs, and the engines' cliffs including disturbances.
    fn conclude(
        &self,
        cliffs: &Cliffs,
        computed: &Predictor,
        bench: &Recorder<'_>,
        check: &mut SetupCheck,
        reasons: &mut Reasons,
    ) {
        let Asked { plan, stop, .. } = *self.asked;
        check.cliff_pps.wire = cliffs.own().map_err(|why| reasons.push((EngineKind::Wire, why))).ok();
        if let Some(measured) = bench.in_searches(plan.goal.final_trial_s).filter(|_| self.is_predicted) {
            check.cliff_experienced_pps =
                experienced::by_engines(computed, &check.cliff_pps, &measured, &plan.goal, stop).0;
            experienced::disturbed(computed, &mut check.cliff_pps, &measured, &plan.goal, self.capacity_pps());
        }
        check.cliff_experienced_pps.wire = cliffs.experienced().ok();
    }

    /// Measures a device at loads below `cliff_pps`.
    fn observed_below(&self, bench: &mut Recorder<'_>, cliff_pps: f64) -> Result<Vec<below::Observed>, String> {
        if self.device.is_none() {
            return Ok(Vec::new());
        }
        bench.enter(Stage::Below);
        let observed = below::observed(bench, &self.shape, cliff_pps, self.asked).map_err(message);
        bench.enter(Stage::Search);
        observed
    }

    /// Points of device and engines at these loads.
    fn below(&self, computed: &Predictor, calibrated: &Calibrated, observed: &[below::Observed]) -> Vec<SweepPoint> {
        let at_speed_of = |trials: &[Counts]| {
            let own = self.at_speed(trials)?.with_full_socket_of(calibrated);
            Some(Predictor { timing: computed.timing.clone(), ..self.computed_with(&own) })
        };
        let predicted = below::Predicted { computed, at_speed_of: &at_speed_of };
        below::points(observed, self.is_predicted.then_some(&predicted), self.asked)
    }

    /// Measures and computes the rate delivered beyond the cliff.
    fn past(
        &self,
        computed: &Predictor,
        bench: &mut Recorder<'_>,
        cliff_pps: f64,
        check: &mut SetupCheck,
    ) -> Result<(), String> {
        let Asked { plan, stop, .. } = *self.asked;
        let highest_pps = highest(self.finding).pps();
        for (multiple, delivered) in [(1.5, &mut check.delivered_at_1_5_pps), (2.0, &mut check.delivered_at_2_pps)] {
            let load_pps = multiple * cliff_pps;
            if self.is_predicted {
                past(computed, load_pps, stop, delivered);
            }
            if load_pps < highest_pps {
                delivered.wire = measured(bench, &self.shape, load_pps, plan).map_err(message)?;
            }
        }
        Ok(())
    }
}
