//! Loads below the cliff, for a check of a device: measured, and computed by the engines.
//!
//! The speed of a host can change from one minute to the next: an emulated CPU needed 19 us per packet at three
//! quarters of a cliff that was measured with 9.5 us per packet (docs/accuracy.md). So each load is computed at the
//! speed of its own trials: the costs of packets, polls, interrupts and the application are scaled by the ratio of the
//! trials' CPU time to the time that the calibrated costs predict for the trials' counts. The numbers of interrupts and
//! of packets per poll are predicted by the engines.

use netcliff_core::EngineKind;
use netcliff_core::finding::SweepPoint;
use netcliff_core::note::Note;

use super::super::conclude::{self, Merged};
use super::super::delivery::{self, AtSpeed, Timing};
use super::super::engines::Predictor;
use super::super::plan::BELOW_SHARES;
use super::{Asked, at, repeated};
use crate::calibrate::is_warm;
use netcliff_trial::bench::{Bench, Counts, Observation};
use netcliff_trial::trial::{TrialError, TrialShape};

/// Largest loss of a trial from which latency or speed is estimated: if the ring is full, the number of packets in a
/// poll does not depend on when the poll begins.
const TELLING_LOSS: f64 = 0.01;

/// The predictor for a check, and a function that returns it scaled to the speed of given trials.
pub(super) struct Predicted<'a> {
    pub(super) computed: &'a Predictor,
    pub(super) at_speed_of: AtSpeed<'a>,
}

impl Predicted<'_> {
    /// Computes `load_pps` by the engines that support it, at the speed of the trials `seen` at this load.
    fn points(&self, load_pps: f64, seen: &[Observation], asked: &Asked<'_>) -> Vec<SweepPoint> {
        let trials: Vec<Counts> = seen.iter().filter_map(telling).collect();
        let own = (self.at_speed_of)(&trials);
        let computed = own.as_ref().unwrap_or(self.computed);
        let note = own.as_ref().map(|own| Note::AtSpeed(own.host.protocol_s / self.computed.host.protocol_s));
        let point = |(engine, mut outcome): (EngineKind, netcliff_core::Outcome)| {
            outcome.notes.extend(note.clone());
            SweepPoint { engine, load_pps, repeats: 1, sender_kept_up: true, outcome }
        };
        at(computed, load_pps, asked.stop).into_iter().map(point).collect()
    }
}

/// The counts of a trial, if interrupt latency and speed can be estimated from them; `None` otherwise.
fn telling(seen: &Observation) -> Option<Counts> {
    seen.counts.clone().filter(|_| seen.void().is_none() && seen.loss() <= TELLING_LOSS)
}

/// A load (pps) and the trials at this load.
pub(super) type Observed = (f64, Vec<Observation>);

/// Measures the device at the requested loads, or at shares of its cliff if none were requested.
pub(super) fn observed(
    bench: &mut dyn Bench,
    shape: &TrialShape,
    cliff_pps: f64,
    asked: &Asked<'_>,
) -> Result<Vec<Observed>, TrialError> {
    let mut loads_pps = asked.options.settings.check_loads_pps.clone();
    if loads_pps.is_empty() {
        loads_pps.extend(BELOW_SHARES.map(|share| share * cliff_pps));
    }
    // Metered as in calibration, because numbers of interrupts and polls are compared.
    let observe = |load_pps| Ok((load_pps, repeated(bench, shape, load_pps, asked.plan, true)?));
    loads_pps.into_iter().map(observe).collect()
}

/// Returns the measured and the computed points at these loads. Measured points at which the sender did not keep up are
/// omitted.
pub(super) fn points(observed: &[Observed], predicted: Option<&Predicted<'_>>, asked: &Asked<'_>) -> Vec<SweepPoint> {
    let mut points = Vec::new();
    for (load_pps, seen) in observed {
        points.extend(predicted.into_iter().flat_map(|predicted| predicted.points(*load_pps, seen, asked)));
        if let Some(merged) = conclude::merge(seen).filter(Merged::was_offered) {
            let mut measured = merged.into_point(*load_pps);
            measured.outcome.notes.push(Note::FromStamp);
            points.push(measured);
        }
    }
    points
}

/// Describes the load below the cliff that lost most, if it lost more than `target`. Such a load is possible because
/// the search for the lowest cliff tries only some loads. `None` if no load below the cliff lost more.
pub(super) fn losing(points: &[SweepPoint], cliff_pps: f64, target: f64) -> Option<String> {
    let loss = |point: &SweepPoint| point.outcome.loss_fraction.map_or(0.0, |loss| loss.value);
    let measured = points.iter().filter(|point| point.engine == EngineKind::Wire && point.load_pps < cliff_pps);
    let worst = measured.max_by(|a, b| loss(a).total_cmp(&loss(b))).filter(|worst| loss(worst) > target)?;
    Some(format!(
        "{:.1} % were lost at {:.1} kpps, below the cliff that the search found: this set-up has more than one, or the machine changed",
        100.0 * loss(worst),
        worst.load_pps / 1e3
    ))
}

/// Returns interrupt latencies estimated from `trials` of this set-up; if these give none, the latencies from the
/// calibration, which ran with another moderation.
pub(super) fn timing(predicted: &Predicted<'_>, trials: &[Observation], asked: &Asked<'_>) -> Timing {
    let Predicted { computed, at_speed_of } = predicted;
    // Evaluating a trial takes as long as making it, and half of the trials suffice.
    let trials: Vec<Counts> = trials.iter().filter_map(telling).filter(is_warm).step_by(2).collect();
    let own = delivery::of_trials(computed, &trials, at_speed_of, asked.stop).unwrap_or_default();
    if own.latencies.is_empty() { asked.basis.timing.clone() } else { own }
}
