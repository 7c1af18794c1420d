//! All stages on a fake host.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::Setup;
use netcliff_core::finding::{EngineFigure, FigurePath, WholeFigure};
use netcliff_core::{EngineKind, Finding, Record, Scheme};
use netcliff_host::inventory::Inventory;
use netcliff_host::nic::Nic;

use super::super::plan::{Plan, Progress};
use super::super::recorder::Recorder;
use super::super::{FindOptions, Observer, Settings, kernel_scheme, scheme, stages};
use super::*;
use crate::calibrate::tests::Exact;
use netcliff_trial::bench::{Observation, SenderCeiling};
use netcliff_trial::trial::TrialError;

/// A finding without results.
pub(crate) fn finding() -> Finding {
    Finding::blank(Setup { socket_buffer_bytes: 4096, ..Setup::default() }, LOSS)
}

pub(crate) fn options() -> FindOptions {
    FindOptions { settings: Settings { quick: true, loss: LOSS, ..Settings::default() }, ..FindOptions::default() }
}

struct Silent;

impl Observer for Silent {
    fn stage(&mut self, _: &str) {}
    fn trial(&mut self, _: f64, _: f64, _: f64) {}
    fn record(&mut self, _: &Record) {}
}

fn run(fake: &mut Fake, options: &FindOptions) -> (Finding, Result<(), Unresolved>) {
    run_under(Scheme::Ideal, fake, options)
}

fn run_under(scheme: Scheme, bench: &mut dyn Bench, options: &FindOptions) -> (Finding, Result<(), Unresolved>) {
    let (plan, stop, mut finding) = (Plan::new(options), AtomicBool::new(false), finding());
    finding.setup.scheme = scheme;
    let mut silent = Silent;
    let progress = RefCell::new(Progress::new(&plan, &mut silent));
    let run = stages::Run {
        options,
        plan: &plan,
        bench: Recorder::new(bench),
        left_out: 0.0,
        timing: Default::default(),
        behind_nic: false,
        behind_known_moderation: false,
        progress: &progress,
        stop: &stop,
        finding: &mut finding,
        idle: None,
    };
    let outcome = { run }.all().map(|_| ());
    (finding, outcome)
}

#[test]
fn a_run_measures_the_cliff_and_does_not_contradict_itself() {
    let (finding, outcome) = run(&mut Fake { livelock: true, ..host(7) }, &options());
    assert_eq!(outcome, Ok(()));
    let cliff = finding.cliff_pps.wire.expect("a cliff");
    assert!(cliff.covers(truth_pps(quick())), "{cliff:?}");
    assert_eq!(finding.cliff_experienced_pps.wire, Some(cliff));
    assert_eq!(finding.contradictions, []);
    assert!(finding.livelock.wire.is_some_and(|share| share.value < 0.6), "{:?}", finding.livelock.wire);
    assert!(
        finding
            .missing
            .iter()
            .any(|missing| missing.figure == FigurePath::Whole(WholeFigure::Calibration)
                && missing.why.contains("no CPU"))
    );
    assert!(!finding.partial);
}

#[test]
fn a_run_whose_trials_fail_in_the_middle_is_partial_and_says_why() {
    let whole = {
        let mut fake = host(7);
        let _ = run(&mut fake, &options());
        fake.trials
    };
    for trials in [1, whole / 2, whole - 1] {
        let (finding, outcome) = run(&mut Fake { dies_after: Some(trials), ..host(7) }, &options());
        assert_eq!(outcome, Ok(()));
        assert!(finding.partial, "after {trials} of {whole} trials");
        let said = |missing: &netcliff_core::finding::Missing| missing.why.contains("the agent is gone");
        assert!(finding.missing.iter().any(said), "{:?}", finding.missing);
    }
}

#[test]
fn a_sender_that_is_too_slow_gives_a_bound_and_no_cliff() {
    let (finding, _) = run(&mut Fake { ceiling_pps: 150e3, ..host(7) }, &options());
    assert_eq!(finding.cliff_pps.wire, None);
    let missing = finding
        .missing
        .iter()
        .find(|missing| missing.figure == EngineFigure::Cliff.by(EngineKind::Wire))
        .expect("a reason");
    assert!(missing.why.contains(">="), "{}", missing.why);
    assert!(finding.searches.unwrap().own.lower_pps.is_some_and(|low| low > 100e3));
}

#[test]
fn a_loss_below_a_packet_of_a_trial_is_refused_before_it_is_searched() {
    let mut fake = host(7);
    let (finding, outcome) =
        run(&mut fake, &FindOptions { settings: Settings { loss: 1e-7, ..options().settings }, ..options() });
    assert!(outcome.is_err_and(|error| error.to_string().contains("--trial")));
    assert!(finding.searches.is_none() && fake.trials < 30, "{} trials", fake.trials);
}

/// Pauses of 2 ms on average, every 0.1 s: 1 / 0.102 per second and 1.96 % of the time. Their number and total are sums
/// of independent terms; deviations up to ten standard deviations are accepted (false alarm below 1e-20).
#[test]
fn a_run_tells_the_pauses_it_had() {
    let (every_s, mean_s) = (0.1, 2e-3);
    let (finding, _) = run(&mut Fake { pauses: Some(Random { every_s, mean_s }), ..host(3) }, &options());
    let told = finding.disturbance.expect("trials were made");
    let pauses = told.host.expect("the fake tells them");
    let expected = told.measured_s / (every_s + mean_s);
    assert!((pauses.count as f64 - expected).abs() < 10.0 * expected.sqrt(), "{} of {expected}", pauses.count);
    // Exponential: mean and standard deviation are equal; the number is random, too.
    let (total_s, deviation_s) = (expected * mean_s, mean_s * (2.0 * expected).sqrt());
    assert!((pauses.total_s - total_s).abs() < 10.0 * deviation_s, "{} of {total_s}", pauses.total_s);
    let median_s = pauses.p50_s.unwrap();
    assert!((median_s / (mean_s * std::f64::consts::LN_2) - 1.0).abs() < 10.0 / expected.sqrt(), "{median_s}");
    assert!(pauses.p99_s.unwrap() > 2.0 * median_s && pauses.max_s >= pauses.p99_s);
    assert!(told.left_out > 0.02 && told.left_out < 0.6, "{}", told.left_out);
    assert!(told.clock_jumps.is_empty());
    let (own, experienced) = (finding.cliff_pps.wire.unwrap(), finding.cliff_experienced_pps.wire.unwrap());
    assert!(own.value >= experienced.value, "{own:?} {experienced:?}");
}

#[test]
fn a_run_without_pauses_says_that_there_were_none() {
    let (finding, _) = run(&mut host(3), &options());
    let told = finding.disturbance.expect("trials were made");
    assert_eq!((told.host.expect("told").count, told.left_out), (0, 0.0));
    assert_eq!(told.sender, None);
    let (blind, _) = run(&mut Fake { tells_pauses: false, ..host(3) }, &options());
    assert_eq!(blind.disturbance.unwrap().host, None);
    assert!(blind.missing.iter().any(|missing| missing.figure == FigurePath::Whole(WholeFigure::HostPauses)));
}

/// The fake loses 10 % of its speed per 100 trials, which take almost no time. The line is fitted over time, and the
/// trials are not evenly spaced in time, so only its sign and order of magnitude are asserted.
#[test]
fn a_run_tells_its_drift() {
    let mut drifting = Fake { drift: -0.1, ..host(3) };
    let (finding, _) = run(&mut drifting, &options());
    let last = finding.speed.unwrap().trials.last().unwrap().turns_per_s.unwrap();
    assert!((last / (3e6 * (1.0 - 0.1 * f64::from(drifting.trials - 1) / 100.0)) - 1.0).abs() < 1e-9, "{last}");
    let drift = finding.drift.unwrap();
    let whole = -0.1 * f64::from(drifting.trials) / 100.0;
    assert!(drift.share.value < 0.2 * whole && drift.share.value > 4.0 * whole, "{drift:?} of {whole}");
    let (steady, _) = run(&mut host(3), &options());
    assert!(steady.drift.unwrap().share.value.abs() < 1e-12);
}

/// A fake with metered CPU time.
struct Metered(Fake);

impl Bench for Metered {
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        let observed = self.0.observe(spec, metered)?;
        // The socket of the other fake host ([`Exact`]) is full at 490 kpps, but not at 470 kpps.
        let rate_pps = if observed.loss() > 0.05 { 490e3 } else { spec.rate_pps.min(470e3) };
        let counts = Exact::default().observe(&spec.shape.clone().at(rate_pps), metered)?.counts;
        Ok(Observation { counts, ..observed })
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        self.0.ceiling(frame_bytes)
    }

    fn socket_capacity(&mut self, shape: &TrialShape) -> Result<Option<f64>, TrialError> {
        self.0.socket_capacity(shape)
    }

    fn ring_slots(&self) -> Option<u64> {
        self.0.ring_slots()
    }

    fn cpu_method(&self) -> Result<String, String> {
        Exact::default().cpu_method()
    }
}

/// The first prediction, the simulation and all points of the sweep include a NIC's moderation, because it is part of
/// the scheme.
#[test]
fn a_device_that_holds_interrupts_back_is_predicted_and_simulated_as_it_does() {
    let nic = Nic {
        name: "eth0".to_owned(),
        driver: Some("igb".to_owned()),
        bus: Some("0000:01:00.0".to_owned()),
        coalesce: [("rx-usecs".to_owned(), 50)].into(),
        ..Nic::default()
    };
    let (scheme, left_out) = scheme::of_device(&Inventory::default(), &nic, false, Some(64));
    assert_eq!(scheme.to_string(), "napi:weight=64,budget=300,budget_time=2ms,min_gap=50us");
    assert_eq!(left_out, Vec::<String>::new());
    let (finding, outcome) = run_under(scheme, &mut Metered(host(7)), &options());
    assert_eq!(outcome, Ok(()));
    assert!(finding.cliff_pps.wire.is_some() && finding.cliff_pps.sim.is_some(), "{:?}", finding.missing);
    let (model, sim) = (finding.cliff_pps.model.expect("a cliff").value, finding.cliff_pps.sim.expect("a cliff").value);
    assert!((model / sim - 1.0).abs() < 0.15, "{model} {sim}");
    // No engine has more than one interrupt per 50 us; the model's Markov chain of a gap is an approximation, with an
    // error of at most 2 % here.
    let by = |engine| finding.sweep.iter().filter(move |point| point.engine == engine);
    for (engine, bound) in [(EngineKind::Model, 20.4e3), (EngineKind::Sim, 20.1e3)] {
        let most = by(engine).filter_map(|point| point.outcome.interrupts_per_s).map(|figure| figure.value);
        let most = most.fold(0.0, f64::max);
        assert!((1e3..bound).contains(&most), "{engine}: {most}");
    }
}

/// A setting that no scheme can express is listed in the limits, and the scheme is NAPI without it.
#[test]
fn a_device_that_adapts_is_found_without_its_moderation_which_is_said() {
    let nic = Nic {
        name: "eth0".to_owned(),
        driver: Some("e1000e".to_owned()),
        bus: Some("0000:01:00.0".to_owned()),
        coalesce: [("rx-usecs".to_owned(), 3)].into(),
        ..Nic::default()
    };
    let (scheme, left_out) = scheme::of_device(&Inventory::default(), &nic, false, Some(64));
    assert_eq!(scheme.to_string(), "napi:weight=64,budget=300,budget_time=2ms");
    assert!(left_out.len() == 1 && left_out[0].contains("eth0: rx-usecs 3 is e1000e's word"), "{left_out:?}");
    // An adaptive `rx-usecs` that depends only on the frame length has a fixed value if that length is known.
    let nic = Nic { driver: Some("igb".to_owned()), speed_mbps: Some(1000), ..nic };
    let (scheme, told) = scheme::of_device(&Inventory::default(), &nic, false, Some(64));
    assert_eq!(scheme.to_string(), "napi:weight=64,budget=300,budget_time=2ms,min_gap=49us");
    assert!(told.len() == 1 && told[0].contains("where all frames have 64 bytes it comes to rx-usecs 49"), "{told:?}");
    let (scheme, told) = scheme::of_device(&Inventory::default(), &nic, false, None);
    assert!(!scheme.to_string().contains("gap") && told[0].contains("igb's word"), "{scheme} {told:?}");
    let veth = Nic { kind: Some("veth".to_owned()), driver: Some("veth".to_owned()), ..Nic::default() };
    let (scheme, left_out) = scheme::of_device(&Inventory::default(), &veth, true, Some(64));
    assert_eq!((scheme, left_out), (kernel_scheme(&Inventory::default(), true), Vec::new()));
}
