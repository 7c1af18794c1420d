//! All stages on a fake host.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{ByEngine, GeneratorSummary, HostSummary, Setup};
use netcliff_core::{Finding, Fingerprint, Provenance, Record, Scheme, Traffic};
use netcliff_host::cpu::Preference;

use super::super::plan::{Plan, Progress};
use super::super::{FindOptions, Idle, Observer, stages};
use super::*;
use crate::rig::RigOptions;

/// A finding of nothing.
pub(super) fn finding() -> Finding {
    Finding {
        host: HostSummary::default(),
        setup: Setup {
            scheme: Scheme::Ideal,
            traffic: Traffic::poisson(1.0),
            application_work_s: 0.0,
            socket_buffer_bytes: 4096,
            repeats: 1,
            trial_s: 0.4,
            quick: true,
        },
        calibration: None,
        generator: GeneratorSummary::default(),
        loss_target: LOSS,
        definition: None,
        cliff_pps: ByEngine::default(),
        cliff_experienced_pps: ByEngine::default(),
        searches: None,
        idle: None,
        contradictions: Vec::new(),
        peak_pps: ByEngine::default(),
        livelock: ByEngine::default(),
        latency: Vec::new(),
        cpu_at_cliff: ByEngine::default(),
        cpu_at_twice: ByEngine::default(),
        loss_at_twice: ByEngine::default(),
        binding: None,
        suggestions: Vec::new(),
        missing: Vec::new(),
        sweep: Vec::new(),
        checks: Vec::new(),
        fingerprint: Fingerprint::default(),
        provenance: Provenance::default(),
        partial: false,
    }
}

fn options() -> FindOptions {
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
        bench: fake,
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
