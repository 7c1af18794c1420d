//! Set-ups that calibration did not see: predicted with its costs, then measured.

mod below;
mod device;
mod setup;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{ByEngine, CheckedSetting, SetupCheck};
use netcliff_core::{EngineKind, Figure, Finding, Outcome};
use netcliff_host::tune::device::Made;

use super::cliff::{self, Question};
use super::conclude::Merged;
use super::delivery::Timing;
use super::engines::Predictor;
use super::later::{Later, highest};
use super::plan::Plan;
use super::recorder::{Recorder, Stage};
use super::stages::Basis;
use super::sureness::{Assessed, Sureness};
use super::{FindOptions, base, conclude, delivery, experienced, missing};
use crate::bench::{Bench, Counts, Observation};
use crate::calibrate::Calibrated;
use crate::rig::Between;
use crate::trial::{TrialError, TrialSpec};
use device::Device;
pub use setup::CheckSetup;
use setup::Predicted;

/// Load of the reference trials, as a share of the cliff of the calibrated set-up: their packets cost nearly what those at the cliff do, and none
/// is lost.
const REFERENCE_SHARE: f64 = 0.8;

/// Runs every check; a stop or failure leaves the rest out and says so.
pub fn all(later: &mut Later<'_, '_>, finding: &mut Finding) {
    for setup in &later.options.checks {
        later.stage(&format!("checking {}", setup.name()));
        let checked = later.on(&setup.rig(later.options), |later, bench, rig| {
            let device =
                rig.between().map(|between| device_of(between, bench)).filter(|_| !setup.settings().is_empty());
            let settings = rig.settings().iter().map(checked).collect();
            let asked = Asked { options: later.options, plan: later.plan, basis: later.basis, stop: later.stop };
            let (check, unpredicted) = one(setup, &asked, bench, device.as_ref(), finding)?;
            Ok((SetupCheck { settings, ..check }, unpredicted))
        });
        match checked {
            Ok((check, unpredicted)) => {
                for (engine, why) in unpredicted {
                    missing(finding, &format!("checks.{}.cliff_pps.{engine}", setup.name()), why);
                }
                finding.checks.push(check);
            }
            Err(why) => missing(finding, &format!("checks.{}", setup.name()), why),
        }
        if later.is_stopped(finding) {
            return;
        }
    }
}

fn device_of<'a>(between: &'a Between, bench: &dyn Bench) -> Device<'a> {
    Device { nic: between.nic(), backlog: between.is_backlog(), ring: bench.ring_slots() }
}

fn checked(made: &Made) -> CheckedSetting {
    let Made { name, found, requested, effective } = made.clone();
    CheckedSetting { name: name.to_owned(), found, requested, effective }
}

/// What a check is based on.
struct Asked<'a> {
    options: &'a FindOptions,
    plan: &'a Plan,
    basis: &'a Basis,
    stop: &'a AtomicBool,
}

/// The check, and why an engine predicted nothing.
fn one(
    setup: &CheckSetup,
    asked: &Asked<'_>,
    bench: &mut Recorder<'_>,
    device: Option<&Device<'_>>,
    finding: &Finding,
) -> Result<(SetupCheck, Vec<(EngineKind, String)>), String> {
    let Asked { options, plan, basis, stop } = *asked;
    let Predicted { mut computed, notes, unpredicted } =
        setup.predicted(options, plan, &basis.calibrated, finding, device);
    let is_predicted = unpredicted.is_none();
    let spec = setup.spec(options, plan);
    // Larger frames take more of the socket's bytes: how many it holds is counted, not predicted.
    if let Some(held) = bench.socket_capacity(&spec).map_err(told)? {
        computed.host.socket_buffer = held.round() as u64;
    }
    let mut check = blank(setup, &computed, &spec, notes);
    // Predicted before it is measured.
    let mut reasons = match unpredicted {
        Some(why) => [EngineKind::Model, EngineKind::Sim].map(|engine| (engine, why.clone())).to_vec(),
        None => predict(&computed, stop, &mut check),
    };
    let predicted = check.cliff_pps.sim.or(check.cliff_pps.model);
    // Where nothing is predicted it is looked for where that of the calibrated set-up is.
    let near = predicted.or_else(|| found(finding).filter(|_| !is_predicted)).map(|cliff| cliff.value);
    let near = near.or_else(|| (!options.check_loads_pps.is_empty()).then_some(basis.capacity_pps));
    let expected_pps = near.ok_or("neither model nor simulator answers it")?;
    // Of the capacity of this set-up only the prediction is known so far.
    let capacity_pps = basis.capacity_pps.min(1.05 * expected_pps);
    let is_timed = is_predicted && device.is_some_and(|device| !device.backlog);
    let socket_buffer = computed.host.socket_buffer;
    let computed_with = |calibrated: &Calibrated| {
        let mut computed = setup.predicted(options, plan, calibrated, finding, device).computed;
        computed.host.socket_buffer = socket_buffer;
        computed
    };
    // Costs are known of the calibrated frame and work.
    let tells_speed = (spec.frame_bytes, spec.work_s) == (options.frame_bytes, options.work_s);
    let at_speed = |trials: &[Counts]| basis.calibrated.at_speed_of(trials, options.work_s).filter(|_| tells_speed);
    let at_speed_of = |trials: &[Counts]| at_speed(trials).map(|own| computed_with(&own));
    let mut timing = Timing::default();
    if is_timed {
        let predicted = below::Predicted { computed: &computed, at_speed_of: &at_speed_of };
        timing = below::timing(&predicted, bench, &spec, expected_pps, asked)?;
    }
    bench.enter(Stage::Search);
    bench.calibrated(basis.calibrated.costs, base(options, plan));
    let reference = reference(options, plan, finding);
    let question = Question { reference, ..plan.question(spec.clone(), highest(finding), expected_pps, capacity_pps) };
    let cliffs = cliff::search(bench, &question).map_err(told)?;
    let trials = bench.at_present();
    let mut present = basis.calibrated.at_present(&trials, options.work_s, options.seed);
    if is_timed {
        let computed = |own: &Calibrated| Predictor { timing: timing.clone(), ..computed_with(own) };
        let (host, near) = delivery::told(&basis.calibrated, present, &trials.empty, stop, computed, &at_speed_of);
        present = host;
        timing.extend(near);
    }
    computed.timing = timing.curved();
    check.scheme = computed.sim_point(expected_pps).scheme;
    if let Some(present) = &present {
        computed = Predictor { timing: computed.timing, ..computed_with(present) };
        check.host = computed.host.clone();
        if is_predicted {
            reasons = predict(&computed, stop, &mut check);
        }
    }
    let calibrated = present.as_ref().unwrap_or(&basis.calibrated);
    // The run's own prediction says why there is no interval; here it is just left out.
    if let Assessed::Sure(sure) = Sureness::unless(stop, &computed, &check.cliff_pps, calibrated) {
        sure.widen(&mut check.cliff_pps);
    }
    let (own, experienced) = (cliffs.own(), cliffs.experienced());
    // A host whose CPU is often away, such as a guest under TCG, has a cliff as experienced only.
    let cliff = own.clone().or_else(|why| experienced.clone().map_err(|_| why));
    // A device is asked its loads without a cliff, too.
    let cliff_pps = match cliff {
        Ok(cliff) => Some(cliff.value),
        Err(why) if device.is_none() => return Err(why),
        Err(_) => None,
    };
    check.cliff_pps.wire = own.map_err(|why| reasons.push((EngineKind::Wire, why))).ok();
    if let Some(measured) = bench.in_searches(plan.goal.final_trial_s).filter(|_| is_predicted) {
        check.cliff_experienced_pps =
            experienced::by_engines(&computed, &check.cliff_pps, &measured, &plan.goal, stop).0;
        experienced::disturbed(&computed, &mut check.cliff_pps, &measured, &plan.goal, capacity_pps);
    }
    check.cliff_experienced_pps.wire = experienced.ok();
    if device.is_some() {
        let at_speed_of = |trials: &[Counts]| {
            let own = at_speed(trials)?.with_full_socket_of(calibrated);
            Some(Predictor { timing: computed.timing.clone(), ..computed_with(&own) })
        };
        let predicted = is_predicted.then_some(below::Predicted { computed: &computed, at_speed_of: &at_speed_of });
        check.below = below::all(predicted, bench, &spec, cliff_pps.unwrap_or(expected_pps), asked).map_err(told)?;
        check.notes.extend(cliff_pps.and_then(|cliff_pps| below::losing(&check.below, cliff_pps, options.loss)));
    }
    let Some(cliff_pps) = cliff_pps else { return Ok((check, reasons)) };
    let highest_pps = highest(finding).pps();
    for (multiple, delivered) in [(1.5, &mut check.delivered_at_1_5_pps), (2.0, &mut check.delivered_at_2_pps)] {
        let load_pps = multiple * cliff_pps;
        if is_predicted {
            past(&computed, load_pps, stop, delivered);
        }
        if load_pps < highest_pps {
            delivered.wire = measured(bench, &spec, load_pps, plan).map_err(told)?;
        }
    }
    Ok((check, reasons))
}

/// A trial of the calibrated set-up, below its own cliff: how fast the machine is while another set-up is measured.
fn reference(options: &FindOptions, plan: &Plan, finding: &Finding) -> Option<TrialSpec> {
    let cliff = found(finding)?;
    let base = base(options, plan);
    Some(TrialSpec { rate_pps: REFERENCE_SHARE * cliff.value, seed: base.seed + 80_000, ..base })
}

/// The cliff of the calibrated set-up: its own, else the one as experienced.
fn found(finding: &Finding) -> Option<Figure> {
    finding.cliff_pps.wire.or(finding.cliff_experienced_pps.wire)
}

fn told(error: TrialError) -> String {
    error.to_string()
}

fn blank(setup: &CheckSetup, computed: &Predictor, spec: &TrialSpec, notes: Vec<String>) -> SetupCheck {
    SetupCheck {
        name: setup.name().to_owned(),
        host: computed.host.clone(),
        scheme: computed.scheme.clone(),
        frame_bytes: spec.frame_bytes,
        cliff_pps: ByEngine::default(),
        cliff_experienced_pps: ByEngine::default(),
        delivered_at_1_5_pps: ByEngine::default(),
        delivered_at_2_pps: ByEngine::default(),
        settings: Vec::new(),
        below: Vec::new(),
        notes,
    }
}

/// Both engines' cliffs; returns why one has none.
fn predict(computed: &Predictor, stop: &AtomicBool, check: &mut SetupCheck) -> Vec<(EngineKind, String)> {
    let model = computed.unless_stopped(stop, |computed, _| computed.model_cliff().map(Some));
    let sim = computed.unless_stopped(stop, Predictor::sim_cliff);
    let mut reasons = Vec::new();
    for (engine, cliff) in [(EngineKind::Model, model), (EngineKind::Sim, sim)] {
        let cliff = cliff.and_then(|cliff| cliff.map_err(|error| reasons.push((engine, error.to_string()))).ok());
        check.cliff_pps.set(engine, cliff.flatten());
    }
    reasons
}

/// Both engines' throughput at a load.
fn past(computed: &Predictor, load_pps: f64, stop: &AtomicBool, delivered: &mut ByEngine<Figure>) {
    for (engine, outcome) in at(computed, load_pps, stop) {
        delivered.set(engine, outcome.throughput_pps);
    }
}

/// What the engines that have an answer say of a load.
fn at(computed: &Predictor, load_pps: f64, stop: &AtomicBool) -> Vec<(EngineKind, Outcome)> {
    let model = computed.unless_stopped(stop, move |computed, _| computed.model_at(load_pps));
    let sim = computed.unless_stopped(stop, move |computed, _| computed.sim_at(load_pps));
    let both = [(EngineKind::Model, model), (EngineKind::Sim, sim)];
    both.into_iter().filter_map(|(engine, outcome)| Some((engine, outcome?.ok()?))).collect()
}

/// Delivered at a load over the plan's repeats; None if the sender never kept up.
fn measured(bench: &mut dyn Bench, spec: &TrialSpec, rate_pps: f64, plan: &Plan) -> Result<Option<Figure>, TrialError> {
    let merged = conclude::merge(&repeated(bench, spec, rate_pps, plan, false)?).filter(Merged::was_offered);
    Ok(merged.and_then(|merged| merged.into_point(rate_pps).outcome.throughput_pps))
}

/// The plan's repeats of a load.
fn repeated(
    bench: &mut dyn Bench,
    spec: &TrialSpec,
    rate_pps: f64,
    plan: &Plan,
    metered: bool,
) -> Result<Vec<Observation>, TrialError> {
    let observe = |repeat: u32| {
        let seed = spec.seed + 40_000 + u64::from(repeat);
        bench.observe(&TrialSpec { rate_pps, seed, ..spec.clone() }, metered)
    };
    (0..plan.repeats).map(observe).collect()
}
