//! The speed of the host, as measured from the costs of trials.

use super::super::recorder::{Recorder, Stage};
use super::*;
use crate::calibrate::Costs;
use crate::fake::Through;

/// A host that is a tenth slower in the searches than in calibration, because its speed drifts in between.
#[test]
fn the_costs_of_each_trial_tell_a_slower_host() {
    let costs = Costs {
        protocol_s: 8e-7,
        poll_s: 1e-6,
        wakeup_s: 1e-6,
        context_switch_s: 1e-6,
        application_s: 1e-6,
        hidden_s: 5e-7,
        hidden_polling_s: 0.0,
        socket_drop_cost: 1.0,
        cold_protocol_s: 0.0,
        cold_application_s: 0.0,
        backlog: true,
    };
    let mut fake = Fake { costs: Some(costs), drift: -0.1, ..host(1) };
    let shape = shape(0.4, 1);
    let spec = shape.clone().at(150e3);
    let mut recorder = Recorder::new(&mut fake);
    recorder.enter(Stage::Calibration);
    for _ in 0..5 {
        recorder.observe(&spec, true).unwrap();
    }
    let untold =
        |recorder: &Recorder<'_>| recorder.speed().unwrap().trials.iter().all(|trial| trial.slowness.is_none());
    assert!(untold(&recorder) && recorder.drift().is_some(), "nothing is calibrated yet");
    recorder.calibrated(costs, shape.clone());
    recorder.enter(Stage::Rough);
    for _ in 5..100 {
        recorder.observe(&spec, true).unwrap();
    }
    recorder.enter(Stage::Search);
    for _ in 0..5 {
        recorder.observe(&spec, true).unwrap();
        // A trial with other frames does not count; a trial with heavy loss does.
        recorder.observe(&TrialShape { frame_bytes: 1518, ..shape.clone() }.at(150e3), true).unwrap();
        recorder.observe(&shape.clone().at(900e3), true).unwrap();
    }
    // Numbers of the trials whose costs count: 0 to 4 (median 2) in calibration; 100, 103, 106, 109, 112 and the second
    // trial after each of these (median 107) in the searches.
    let [first, then] = [2.0, 107.0].map(|number| 1.0 / (1.0 - 0.1 * number / 100.0));
    let told = |stage: &str| {
        let trials = recorder.speed().unwrap().trials;
        let of_stage: Vec<f64> = trials.iter().filter(|at| at.stage == stage).filter_map(|at| at.slowness).collect();
        netcliff_stats::median(&of_stage).unwrap().value
    };
    assert!((told("calibration") / first - 1.0).abs() < 1e-9, "{}", told("calibration"));
    assert!((told("search") / then - 1.0).abs() < 1e-5, "{}", told("search"));
    // All five trials without loss are at one load, so all are used.
    assert_eq!(recorder.at_present().empty.len(), 5);
    let change = recorder.drift().unwrap().search_over_calibration.unwrap();
    assert!((change - (first / then - 1.0)).abs() < 1e-4, "{change}");
    assert_eq!(recorder.speed().unwrap().trials.iter().filter(|trial| trial.slowness.is_some()).count(), 110);
}

#[test]
fn stalls_before_and_behind_the_window_are_not_of_the_trial() {
    let observe = |host: &mut Fake, spec: &TrialSpec, metered| {
        let mut observation = host.observe(spec, metered)?;
        let at = |from_s| Span { from_s, length_s: 2e-3 };
        observation.slots.sender_stalls = vec![at(-0.01), at(-1e-3), at(0.2), at(0.401)];
        Ok(observation)
    };
    let mut bench = Through { host: host(1), observe };
    let mut recorder = Recorder::new(&mut bench);
    recorder.observe(&shape(0.4, 1).at(100e3), true).unwrap();
    assert_eq!(recorder.disturbance(0.0).unwrap().sender_stalls.unwrap().count, 2);
}
