//! Set-ups that calibration did not see: predicted with its costs, then measured.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::SetupCheck;
use netcliff_core::{EngineKind, Figure, Finding, FrameSizes, ParseError, Scheme, Traffic, units};
use netcliff_host::testbed::sysctl::SysctlOverrides;

use super::cliff::{self, Question};
use super::engines::Computed;
use super::idle::HostIdle;
use super::plan::{Plan, Progress};
use super::recorder::{Recorder, Stage};
use super::stages::Basis;
use super::sureness::Sureness;
use super::{FindOptions, base, conclude, experienced, missing, stages, surroundings};
use crate::bench::Bench;
use crate::calibrate::Calibrated;
use crate::rig::{Rig, RigOptions};
use crate::trial::{TrialError, TrialSpec};
use crate::wire_bench::WireBench;

/// One set-up: what differs from the calibrated one. Written `size=512B`, `work=2us`, `backlog=200` or `budget=64`,
/// several joined by commas.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckSetup {
    name: String,
    frame_bytes: Option<u32>,
    work_s: Option<f64>,
    backlog: Option<u32>,
    budget: Option<u32>,
}

impl std::str::FromStr for CheckSetup {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = "expected size=512B, work=2us, backlog=200 or budget=64, several joined by commas";
        let mut setup = Self { name: text.to_owned(), ..Self::default() };
        for item in text.split(',') {
            let (key, value) = item.split_once('=').ok_or_else(|| ParseError::new("--check", text, form))?;
            let named = |error: ParseError| error.within(&format!("--check {key}"));
            let count = || {
                let count = units::parse_count(key, value).map_err(named)?;
                let fits = u32::try_from(count).ok().filter(|count| *count > 0);
                fits.ok_or_else(|| ParseError::new(format!("--check {key}"), value, "expected a whole number above 0"))
            };
            match key {
                "size" => match value.parse::<FrameSizes>().map_err(named)? {
                    FrameSizes::Fixed(bytes) => setup.frame_bytes = Some(bytes),
                    _ => return Err(ParseError::new("--check size", value, "expected one size such as \"512B\"")),
                },
                "work" => setup.work_s = Some(units::parse_time_s(value).map_err(named)?),
                "backlog" => setup.backlog = Some(count()?),
                "budget" => setup.budget = Some(count()?),
                _ => return Err(ParseError::new("--check", text, form)),
            }
        }
        Ok(setup)
    }
}

impl CheckSetup {
    fn rig(&self, options: &FindOptions) -> RigOptions {
        let sysctls = SysctlOverrides {
            netdev_max_backlog: self.backlog,
            netdev_budget: self.budget,
            ..options.rig.sysctls.clone()
        };
        RigOptions { sysctls, ..options.rig.clone() }
    }

    fn computed(&self, options: &FindOptions, plan: &Plan, calibrated: &Calibrated, finding: &Finding) -> Computed {
        let frame_bytes = self.frame_bytes.unwrap_or(options.frame_bytes);
        let extra_s = self.work_s.map_or(0.0, |work_s| work_s - options.work_s);
        let mut host = calibrated.host_for(frame_bytes, extra_s);
        host.ring = self.backlog.map_or(host.ring, u64::from);
        let mut scheme = finding.setup.scheme.clone();
        if let (Scheme::Napi(napi), Some(budget)) = (&mut scheme, self.budget) {
            napi.budget = u64::from(budget);
        }
        let traffic = Traffic { size: FrameSizes::Fixed(frame_bytes), ..finding.setup.traffic.clone() };
        Computed { host, scheme, traffic, loss: options.loss, seed: options.seed, packets: plan.sim_packets }
    }

    fn spec(&self, options: &FindOptions, plan: &Plan) -> TrialSpec {
        let base = base(options, plan);
        TrialSpec {
            frame_bytes: self.frame_bytes.unwrap_or(base.frame_bytes),
            work_s: self.work_s.unwrap_or(base.work_s),
            ..base
        }
    }
}

/// What the checks go by.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub options: &'a FindOptions,
    pub plan: &'a Plan,
    pub basis: &'a Basis,
}

/// Runs every check; a stop or failure leaves the rest out and says so.
pub fn all(
    asked: &Asked<'_>,
    switch: &mut HostIdle,
    stop: &Arc<AtomicBool>,
    progress: &RefCell<Progress<'_>>,
    finding: &mut Finding,
) {
    for setup in &asked.options.checks {
        progress.borrow_mut().observer.stage(&format!("checking {}", setup.name));
        match one(setup, asked, switch, stop, progress, finding) {
            Ok(check) => finding.checks.push(check),
            Err(why) => missing(finding, &format!("checks.{}", setup.name), why),
        }
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            finding.partial = true;
            return;
        }
    }
}

fn one(
    setup: &CheckSetup,
    asked: &Asked<'_>,
    switch: &mut HostIdle,
    stop: &Arc<AtomicBool>,
    progress: &RefCell<Progress<'_>>,
    finding: &Finding,
) -> Result<SetupCheck, String> {
    let Asked { options, plan, basis } = *asked;
    let Basis { calibrated, capacity_pps, calibrated_at } = basis;
    let mut computed = setup.computed(options, plan, calibrated, finding);
    let spec = setup.spec(options, plan);
    let rig = Rig::build(&setup.rig(options), Arc::clone(stop)).map_err(|error| error.to_string())?;
    let watch = |load_pps: f64, _: u64, _: u64| progress.borrow_mut().trial(load_pps);
    let mut bench = WireBench::new(&rig, options.cpu, Box::new(watch));
    switch.follow(bench.host_heartbeat())?;
    let mut bench = Recorder::new(&mut bench);
    let text = |error: TrialError| error.to_string();
    // Larger frames take more of the socket's bytes: how many it holds is counted, not predicted.
    if let Some(held) = bench.socket_capacity(&spec).map_err(text)? {
        computed.host.socket_buffer = held.round() as u64;
    }
    let mut check = SetupCheck {
        name: setup.name.clone(),
        host: computed.host.clone(),
        scheme: computed.scheme.clone(),
        frame_bytes: spec.frame_bytes,
        cliff_pps: Default::default(),
        cliff_experienced_pps: Default::default(),
        delivered_at_1_5_pps: Default::default(),
        delivered_at_2_pps: Default::default(),
    };
    // Predicted before it is measured.
    predict(&computed, stop, &mut check);
    let expected_pps =
        check.cliff_pps.sim.or(check.cliff_pps.model).ok_or("neither model nor simulator answers it")?.value;
    let ceiling_pps = finding.generator.ceiling_pps.map_or(f64::INFINITY, |figure| figure.value);
    let question = Question {
        base: spec.clone(),
        goal: plan.goal,
        range: stages::range(ceiling_pps),
        near_pps: expected_pps,
        // Nothing is known yet of what this set-up serves but what is predicted.
        capacity_pps: capacity_pps.min(1.05 * expected_pps),
        searches: plan.searches,
        most_trials: plan.most_trials,
    };
    bench.enter(Stage::Search);
    let cliffs = cliff::search(&mut bench, &question).map_err(text)?;
    if let Some(factor) = surroundings::slower(*calibrated_at, bench.turns_per_s(Stage::Search)) {
        computed = computed.slowed(factor, spec.work_s);
        predict(&computed, stop, &mut check);
    }
    sure(&computed, calibrated, stop, &mut check);
    let cliff = cliffs.own()?;
    check.cliff_pps.wire = Some(cliff);
    if let Some(measured) = bench.in_searches(plan.goal.final_trial_s) {
        predict_experienced(&computed, measured, plan, stop, &mut check);
    }
    check.cliff_experienced_pps.wire = cliffs.experienced().ok();
    for (multiple, delivered) in [(1.5, &mut check.delivered_at_1_5_pps), (2.0, &mut check.delivered_at_2_pps)] {
        let load_pps = multiple * cliff.value;
        let model = computed.unless_stopped(stop, move |computed, _| computed.model_at(load_pps));
        let sim = computed.unless_stopped(stop, move |computed, _| computed.sim_at(load_pps));
        for (engine, outcome) in [(EngineKind::Model, model), (EngineKind::Sim, sim)] {
            delivered.set(engine, outcome.and_then(|outcome| outcome.ok()?.throughput_pps));
        }
        if load_pps < ceiling_pps {
            delivered.set(EngineKind::Wire, measured(&mut bench, &spec, load_pps, plan).map_err(text)?);
        }
    }
    Ok(check)
}

/// Both engines' cliffs.
fn predict(computed: &Computed, stop: &AtomicBool, check: &mut SetupCheck) {
    let model = computed.unless_stopped(stop, |computed, _| computed.model_cliff());
    check.cliff_pps.model = model.and_then(Result::ok);
    let sim = computed.unless_stopped(stop, Computed::sim_cliff);
    check.cliff_pps.sim = sim.and_then(|cliff| cliff.ok().flatten());
}

/// Gives both the interval that the trials of calibration leave open.
fn sure(computed: &Computed, calibrated: &Calibrated, stop: &AtomicBool, check: &mut SetupCheck) {
    let Some(cliff) = check.cliff_pps.model.filter(|_| !calibrated.resampled.is_empty()) else { return };
    let (host, resampled) = (calibrated.calibration.host.clone(), calibrated.resampled.clone());
    let sure = computed.unless_stopped(stop, move |computed, _| Sureness::of(computed, cliff.value, &host, &resampled));
    if let Some(Ok(sure)) = sure {
        check.cliff_pps.model = Some(sure.around(cliff));
        check.cliff_pps.sim = check.cliff_pps.sim.map(|cliff| sure.around(cliff));
    }
}

/// The same with the pauses that the searches' trials had.
fn predict_experienced(
    computed: &Computed,
    measured: experienced::Measured,
    plan: &Plan,
    stop: &AtomicBool,
    check: &mut SetupCheck,
) {
    let goal = plan.goal;
    let model = check.cliff_pps.model.and_then(|own| experienced::on_paper(computed, &own, &measured, &goal));
    let sim = check.cliff_pps.sim.and_then(|own| {
        computed.unless_stopped(stop, move |computed, unwanted| {
            experienced::in_simulation(computed, &own, &measured, &goal, unwanted)
        })
    });
    check.cliff_experienced_pps.model = model;
    check.cliff_experienced_pps.sim = sim.and_then(|cliff| cliff.ok().flatten());
}

/// Delivered at a load over the plan's repeats; None if the sender never kept up.
fn measured(bench: &mut dyn Bench, spec: &TrialSpec, rate_pps: f64, plan: &Plan) -> Result<Option<Figure>, TrialError> {
    let mut seen = Vec::new();
    for repeat in 0..plan.repeats {
        let seed = spec.seed + 40_000 + u64::from(repeat);
        seen.push(bench.observe(&TrialSpec { rate_pps, seed, ..spec.clone() }, false)?);
    }
    Ok(conclude::merge(&seen)
        .filter(conclude::Merged::was_offered)
        .and_then(|merged| merged.into_point(rate_pps).outcome.throughput_pps))
}
