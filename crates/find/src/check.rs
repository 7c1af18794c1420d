//! Set-ups that were not calibrated: predicted with the calibrated costs, then measured.

mod below;
mod device;
mod one;
mod setup;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{ByEngine, CheckedSetting, SetupCheck};
use netcliff_core::finding::{EngineFigure, FigurePath};
use netcliff_core::{EngineKind, Figure, Finding, Outcome};
use netcliff_host::nic::Nic;
use netcliff_host::tune::device::Made;

use super::conclude::Merged;
use super::engines::Predictor;
use super::later::Later;
use super::plan::Plan;
use super::stages::Basis;
use super::{FindOptions, STOPPED, base, conclude, missing, scheme};
use device::Device;
use netcliff_trial::bench::{Bench, Observation};
use netcliff_trial::rig::Between;
use netcliff_trial::trial::{TrialError, TrialShape, TrialSpec};
pub use setup::CheckSetup;

/// Load of the reference trials, as a share of the calibrated set-up's cliff: packets cost nearly as much as at the
/// cliff, and no packet is lost.
const REFERENCE_SHARE: f64 = 0.8;

/// Runs the checks one after the other. A check that fails is in the finding's `missing` with the reason, and the next
/// one runs. After a stop, `missing` has the remaining checks, too.
pub fn all(later: &mut Later<'_, '_>, finding: &mut Finding) {
    for (number, setup) in later.options.checks.iter().enumerate() {
        later.stage(&format!("checking {}", setup.name()));
        let checked = later.on(&setup.rig(later.options), |later, bench, rig| {
            let frame_bytes = setup.frame_bytes(later.options);
            let nic = rig.between().map(|between| scheme::under(between.nic(), frame_bytes));
            let device = rig.between().zip(nic.as_ref()).filter(|_| setup.changes_device());
            let device = device.map(|(between, nic)| device_of(between, nic, bench));
            let settings = rig.settings().iter().map(checked).collect();
            let asked = Asked { options: later.options, plan: later.plan, basis: later.basis, stop: later.stop };
            let (check, unpredicted) = one::one(setup, &asked, bench, device.as_ref(), finding)?;
            Ok((SetupCheck { settings, ..check }, unpredicted))
        });
        match checked {
            Ok((check, unpredicted)) => {
                for (engine, why) in unpredicted {
                    missing(
                        finding,
                        FigurePath::Check(setup.name().to_string(), Some((EngineFigure::Cliff, engine))),
                        why,
                    );
                }
                finding.checks.push(check);
            }
            Err(why) => missing(finding, FigurePath::Check(setup.name().to_string(), None), why),
        }
        if later.is_stopped(finding) {
            return unreached(&later.options.checks[number + 1..], finding, STOPPED);
        }
    }
}

/// Records why these checks were not measured.
pub fn unreached(checks: &[CheckSetup], finding: &mut Finding, why: &str) {
    for check in checks {
        missing(finding, FigurePath::Check(check.name().to_string(), None), why);
    }
}

/// Describes the device under test for the prediction. `nic`: its settings as they apply to the frames of the check.
fn device_of<'a>(between: &Between, nic: &'a Nic, bench: &dyn Bench) -> Device<'a> {
    Device { nic, backlog: between.is_backlog(), ring: bench.ring_slots() }
}

fn checked(made: &Made) -> CheckedSetting {
    let Made { name, found, requested, effective } = made.clone();
    CheckedSetting { name: name.to_owned(), found, requested, effective }
}

/// Inputs of a check.
struct Asked<'a> {
    options: &'a FindOptions,
    plan: &'a Plan,
    basis: &'a Basis,
    stop: &'a AtomicBool,
}

/// A trial of the calibrated set-up below its own cliff. Made while another set-up is measured, it shows the machine's
/// speed.
fn reference(options: &FindOptions, plan: &Plan, finding: &Finding) -> Option<TrialSpec> {
    let cliff = found(finding)?;
    let base = base(options, plan);
    Some(TrialShape { seed: base.seed + 80_000, ..base }.at(REFERENCE_SHARE * cliff.value))
}

/// Returns the measured cliff of the calibrated set-up: the host's own cliff, or else the cliff including disturbances;
/// `None` if neither was measured.
fn found(finding: &Finding) -> Option<Figure> {
    finding.cliff_pps.wire.or(finding.cliff_experienced_pps.wire)
}

fn message(error: TrialError) -> String {
    error.to_string()
}

fn blank(setup: &CheckSetup, computed: &Predictor, shape: &TrialShape, notes: Vec<String>) -> SetupCheck {
    SetupCheck {
        name: setup.name().to_owned(),
        host: computed.host.clone(),
        scheme: computed.scheme.clone(),
        frame_bytes: shape.frame_bytes,
        cliff_pps: ByEngine::default(),
        cliff_experienced_pps: ByEngine::default(),
        delivered_at_1_5_pps: ByEngine::default(),
        delivered_at_2_pps: ByEngine::default(),
        settings: Vec::new(),
        below: Vec::new(),
        notes,
    }
}

/// Predicts the cliff by both engines; returns the engines that cannot, with their reasons.
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

/// Predicts the throughput at a load by both engines.
fn past(computed: &Predictor, load_pps: f64, stop: &AtomicBool, delivered: &mut ByEngine<Figure>) {
    for (engine, outcome) in at(computed, load_pps, stop) {
        delivered.set(engine, outcome.throughput_pps);
    }
}

/// Outcomes of the engines that support this load.
fn at(computed: &Predictor, load_pps: f64, stop: &AtomicBool) -> Vec<(EngineKind, Outcome)> {
    let model = computed.unless_stopped(stop, move |computed, _| computed.model_at(load_pps));
    let sim = computed.unless_stopped(stop, move |computed, _| computed.sim_at(load_pps));
    let both = [(EngineKind::Model, model), (EngineKind::Sim, sim)];
    both.into_iter().filter_map(|(engine, outcome)| Some((engine, outcome?.ok()?))).collect()
}

/// Delivered rate at a load over the plan's repeats; `None` if the sender never kept up.
fn measured(
    bench: &mut dyn Bench,
    shape: &TrialShape,
    rate_pps: f64,
    plan: &Plan,
) -> Result<Option<Figure>, TrialError> {
    let merged = conclude::merge(&repeated(bench, shape, rate_pps, plan, false)?).filter(Merged::was_offered);
    Ok(merged.and_then(|merged| merged.into_point(rate_pps).outcome.throughput_pps))
}

/// Makes the plan's number of trials at a load.
fn repeated(
    bench: &mut dyn Bench,
    shape: &TrialShape,
    rate_pps: f64,
    plan: &Plan,
    metered: bool,
) -> Result<Vec<Observation>, TrialError> {
    let observe = |repeat: u32| {
        let seed = shape.seed + 40_000 + u64::from(repeat);
        bench.observe(&TrialShape { seed, ..shape.clone() }.at(rate_pps), metered)
    };
    (0..plan.repeats).map(observe).collect()
}
