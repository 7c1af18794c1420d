//! All stages on a fake host.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::Setup;
use netcliff_core::{Finding, Record, Scheme, Traffic};
use netcliff_host::cpu::Preference;

use super::super::plan::{Plan, Progress};
use super::super::recorder::Recorder;
use super::super::{FindOptions, Idle, Observer, stages};
use super::*;
use crate::rig::RigOptions;

/// A finding of nothing.
pub(in crate::find) fn finding() -> Finding {
    let setup = Setup {
        scheme: Scheme::Ideal,
        traffic: Traffic::poisson(1.0),
        application_work_s: 0.0,
        socket_buffer_bytes: 4096,
        repeats: 1,
        trial_s: 0.4,
        quick: true,
    };
    Finding::blank(setup, LOSS)
}

pub(in crate::find) fn options() -> FindOptions {
    FindOptions {
        quick: true,
        loss: LOSS,
        frame_bytes: 64,
        arrivals: Arrivals::Poisson,
        work_s: 0.0,
        receive_buffer_bytes: 1 << 20,
        repeats: None,
        trial_s: None,
        duration_sum_s: None,
        exceed: None,
        width: None,
        searches: None,
        seed: 1,
        idle: Idle::default(),
        cpu: Preference::Best,
        rig: RigOptions::default(),
        checks: Vec::new(),
        try_suggestions: false,
        command: String::new(),
        started_unix_s: 0.0,
    }
}

struct Silent;

impl Observer for Silent {
    fn stage(&mut self, _: &str) {}
    fn trial(&mut self, _: f64, _: f64, _: f64) {}
    fn record(&mut self, _: &Record) {}
}

fn run(fake: &mut Fake, options: &FindOptions) -> (Finding, Result<(), Unresolved>) {
    let (plan, stop, mut finding) = (Plan::new(options), AtomicBool::new(false), finding());
    let mut silent = Silent;
    let progress = RefCell::new(Progress::new(&plan, &mut silent));
    let run = stages::Run {
        options,
        plan: &plan,
        bench: Recorder::new(fake),
        left_out: 0.0,
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
    assert!(finding.missing.iter().any(|missing| missing.figure == "calibration" && missing.why.contains("no CPU")));
    assert!(!finding.partial);
}

#[test]
fn a_sender_that_is_too_slow_gives_a_bound_and_no_cliff() {
    let (finding, _) = run(&mut Fake { ceiling_pps: 150e3, ..host(7) }, &options());
    assert_eq!(finding.cliff_pps.wire, None);
    let missing = finding.missing.iter().find(|missing| missing.figure == "cliff_pps.wire").expect("a reason");
    assert!(missing.why.contains(">="), "{}", missing.why);
    assert!(finding.searches.unwrap().own.lower_pps.is_some_and(|low| low > 100e3));
}

#[test]
fn a_loss_below_a_packet_of_a_trial_is_refused_before_it_is_searched() {
    let mut fake = host(7);
    let (finding, outcome) = run(&mut fake, &FindOptions { loss: 1e-7, ..options() });
    assert!(outcome.is_err_and(|error| error.to_string().contains("--trial")));
    assert!(finding.searches.is_none() && fake.trials < 30, "{} trials", fake.trials);
}

/// Pauses every 0.1 s of 2 ms on average, that is 1 / 0.102 a second and 1.96 % of the time: counts and total are sums of independent
/// terms, of which ten standard deviations are allowed (false alarm below 1e-20).
#[test]
fn a_run_tells_the_pauses_it_had() {
    let (every_s, mean_s) = (0.1, 2e-3);
    let (finding, _) = run(&mut Fake { pauses: Some(Random { every_s, mean_s }), ..host(3) }, &options());
    let told = finding.disturbance.expect("trials were made");
    let pauses = told.host.expect("the fake tells them");
    let expected = told.measured_s / (every_s + mean_s);
    assert!((pauses.count as f64 - expected).abs() < 10.0 * expected.sqrt(), "{} of {expected}", pauses.count);
    // Exponential: mean and standard deviation are the same; the number is random too.
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
    assert!(blind.missing.iter().any(|missing| missing.figure == "disturbance.host"));
}

/// The fake loses 10 % of its speed in 100 trials, and trials take next to no time: the line is over their order only as far as they are
/// evenly spaced, so that its sign and size are asserted, not more.
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
