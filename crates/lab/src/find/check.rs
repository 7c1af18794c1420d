//! Set-ups that calibration did not see: predicted with its costs, then measured.

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{ByEngine, SetupCheck};
use netcliff_core::{EngineKind, Figure, Finding, FrameSizes, ParseError, Scheme, Traffic, units};
use netcliff_host::testbed::sysctl::SysctlOverrides;

use super::cliff::{self, Question};
use super::engines::Predictor;
use super::later::{Later, ceiling_pps};
use super::plan::Plan;
use super::recorder::{Recorder, Stage};
use super::sureness::{Assessed, Sureness};
use super::{FindOptions, base, conclude, experienced, missing};
use crate::bench::Bench;
use crate::calibrate::Calibrated;
use crate::rig::RigOptions;
use crate::trial::{TrialError, TrialSpec};

/// Load of the reference trials, as a share of the cliff of the calibrated set-up: their packets cost nearly what those at the cliff do, and none
/// is lost.
const REFERENCE_SHARE: f64 = 0.8;

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
    /// As it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn rig(&self, options: &FindOptions) -> RigOptions {
        let sysctls = SysctlOverrides {
            netdev_max_backlog: self.backlog,
            netdev_budget: self.budget,
            ..options.rig.sysctls.clone()
        };
        RigOptions { sysctls, ..options.rig.clone() }
    }

    fn computed(&self, options: &FindOptions, plan: &Plan, calibrated: &Calibrated, finding: &Finding) -> Predictor {
        let frame_bytes = self.frame_bytes.unwrap_or(options.frame_bytes);
        let extra_s = self.work_s.map_or(0.0, |work_s| work_s - options.work_s);
        let mut host = calibrated.host_for(frame_bytes, extra_s);
        host.ring = self.backlog.map_or(host.ring, u64::from);
        let mut scheme = finding.setup.scheme.clone();
        if let (Scheme::Napi(napi), Some(budget)) = (&mut scheme, self.budget) {
            napi.budget = u64::from(budget);
        }
        let traffic = Traffic { size: FrameSizes::Fixed(frame_bytes), ..finding.setup.traffic.clone() };
        let near_pps = finding.cliff_pps.model.map(|cliff| cliff.value);
        let (times, loss, seed, packets) = (calibrated.times(), options.loss, options.seed, plan.sim_packets);
        Predictor { host, times, scheme, traffic, loss, seed, packets, near_pps }
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

/// Runs every check; a stop or failure leaves the rest out and says so.
pub fn all(later: &mut Later<'_, '_>, finding: &mut Finding) {
    for setup in &later.options.checks {
        later.stage(&format!("checking {}", setup.name));
        let checked = later.on(&setup.rig(later.options), |later, bench| one(setup, later, bench, finding));
        match checked {
            Ok(check) => finding.checks.push(check),
            Err(why) => missing(finding, &format!("checks.{}", setup.name), why),
        }
        if later.is_stopped(finding) {
            return;
        }
    }
}

fn one(
    setup: &CheckSetup,
    later: &Later<'_, '_>,
    bench: &mut Recorder<'_>,
    finding: &Finding,
) -> Result<SetupCheck, String> {
    let (plan, basis, stop) = (later.plan, later.basis, later.stop);
    let mut computed = setup.computed(later.options, plan, &basis.calibrated, finding);
    let spec = setup.spec(later.options, plan);
    // Larger frames take more of the socket's bytes: how many it holds is counted, not predicted.
    if let Some(held) = bench.socket_capacity(&spec).map_err(told)? {
        computed.host.socket_buffer = held.round() as u64;
    }
    let mut check = blank(setup, &computed, &spec);
    // Predicted before it is measured.
    predict(&computed, stop, &mut check);
    let expected_pps =
        check.cliff_pps.sim.or(check.cliff_pps.model).ok_or("neither model nor simulator answers it")?.value;
    // Of the capacity of this set-up only the prediction is known so far.
    let capacity_pps = basis.capacity_pps.min(1.05 * expected_pps);
    bench.enter(Stage::Search);
    bench.calibrated(basis.calibrated.costs, base(later.options, plan));
    let reference = reference(later.options, plan, finding);
    let question =
        Question { reference, ..plan.question(spec.clone(), ceiling_pps(finding), expected_pps, capacity_pps) };
    let cliffs = cliff::search(bench, &question).map_err(told)?;
    let present = basis.calibrated.at_present(&bench.at_present(), later.options.work_s, later.options.seed);
    if let Some(present) = &present {
        let socket_buffer = computed.host.socket_buffer;
        computed = setup.computed(later.options, plan, present, finding);
        computed.host.socket_buffer = socket_buffer;
        check.host = computed.host.clone();
        predict(&computed, stop, &mut check);
    }
    let calibrated = present.as_ref().unwrap_or(&basis.calibrated);
    // The run's own prediction says why there is no interval; here it is just left out.
    if let Assessed::Sure(sure) = Sureness::unless(stop, &computed, &check.cliff_pps, calibrated) {
        sure.widen(&mut check.cliff_pps);
    }
    let cliff = cliffs.own()?;
    check.cliff_pps.wire = Some(cliff);
    if let Some(measured) = bench.in_searches(plan.goal.final_trial_s) {
        check.cliff_experienced_pps =
            experienced::by_engines(&computed, &check.cliff_pps, &measured, &plan.goal, stop).0;
        experienced::disturbed(&computed, &mut check.cliff_pps, &measured, &plan.goal, capacity_pps);
    }
    check.cliff_experienced_pps.wire = cliffs.experienced().ok();
    let highest_pps = ceiling_pps(finding);
    for (multiple, delivered) in [(1.5, &mut check.delivered_at_1_5_pps), (2.0, &mut check.delivered_at_2_pps)] {
        let load_pps = multiple * cliff.value;
        past(&computed, load_pps, stop, delivered);
        if load_pps < highest_pps {
            delivered.wire = measured(bench, &spec, load_pps, plan).map_err(told)?;
        }
    }
    Ok(check)
}

/// A trial of the calibrated set-up, below its own cliff: how fast the machine is while another set-up is measured.
fn reference(options: &FindOptions, plan: &Plan, finding: &Finding) -> Option<TrialSpec> {
    let cliff = finding.cliff_pps.wire?;
    let base = base(options, plan);
    Some(TrialSpec { rate_pps: REFERENCE_SHARE * cliff.value, seed: base.seed + 80_000, ..base })
}

fn told(error: TrialError) -> String {
    error.to_string()
}

fn blank(setup: &CheckSetup, computed: &Predictor, spec: &TrialSpec) -> SetupCheck {
    SetupCheck {
        name: setup.name.clone(),
        host: computed.host.clone(),
        scheme: computed.scheme.clone(),
        frame_bytes: spec.frame_bytes,
        cliff_pps: ByEngine::default(),
        cliff_experienced_pps: ByEngine::default(),
        delivered_at_1_5_pps: ByEngine::default(),
        delivered_at_2_pps: ByEngine::default(),
    }
}

/// Both engines' cliffs.
fn predict(computed: &Predictor, stop: &AtomicBool, check: &mut SetupCheck) {
    let model = computed.unless_stopped(stop, |computed, _| computed.model_cliff());
    check.cliff_pps.model = model.and_then(Result::ok);
    let sim = computed.unless_stopped(stop, Predictor::sim_cliff);
    check.cliff_pps.sim = sim.and_then(|cliff| cliff.ok().flatten());
}

/// Both engines' throughput at a load.
fn past(computed: &Predictor, load_pps: f64, stop: &AtomicBool, delivered: &mut ByEngine<Figure>) {
    let model = computed.unless_stopped(stop, move |computed, _| computed.model_at(load_pps));
    let sim = computed.unless_stopped(stop, move |computed, _| computed.sim_at(load_pps));
    for (engine, outcome) in [(EngineKind::Model, model), (EngineKind::Sim, sim)] {
        delivered.set(engine, outcome.and_then(|outcome| outcome.ok()?.throughput_pps));
    }
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
