//! Doubts about a measured cliff, or the reason why it is absent.

use netcliff_core::finding::EngineFigure;
use netcliff_core::finding::{
    CliffBounds, CliffSearches, Contradiction, Disturbance, LatencyAt, Missing, Pauses, SearchBounds, TaskTime,
    VoidTrials,
};

use netcliff_core::Latency;
use netcliff_core::finding::ByEngine;
use netcliff_core::ledger::{Ledger, TrialLedger};

use super::super::*;
use super::setup;
use crate::terminal::{self, Style};

/// A finding with a number of searches, and of void trials out of 20.
fn finding(searches: usize, void: u32) -> Finding {
    let search =
        SearchBounds { start_pps: 1e5, lower_pps: None, upper_pps: None, end: "regular".into(), demand_s: None };
    let bounds =
        CliffBounds { lower_pps: Some(117e3), upper_pps: None, confidence: 0.0, searches: vec![search; searches] };
    let void = vec![VoidTrials { why: "the sender fell behind".into(), trials: void }];
    let searches = CliffSearches { own: bounds.clone(), experienced: bounds, trials: 20, void };
    Finding { searches: Some(searches), ..Finding::blank(setup(), 1e-4) }
}

fn words(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_bound_of_few_searches_says_how_many_instead_of_no_confidence() {
    for (count, says) in [(1, "(from 1 search)"), (2, "(the range of 2 searches, without a confidence)")] {
        let finding = finding(count, 0);
        let said = searched(&finding).join("; ");
        assert!(said.contains(&format!("the cliff is >= 117 kpps {says}")), "{said}");
        assert!(!said.contains("0 % confidence"), "{said}");
    }
    let mut one = finding(1, 0);
    one.cliff_pps.wire = Some(Figure::between(120e3, 117e3, 123e3, 0.0));
    for said in [verdict(&one), doubts(&one).join("; ")] {
        assert!(said.contains("1 search"), "{said}");
        assert!(!said.contains("0 %"), "{said}");
    }
    // The first line gives the confidence of the measured cliff; the sentence below the figures appears if other
    // figures have an interval.
    assert_eq!(confidences(&one), None);
    one.peak_pps.wire = Some(Figure::between(1e5, 9e4, 1.1e5, 0.95));
    one.cliff_pps.sim = Some(Figure::between(1e5, 9e4, 1.1e5, 0.956));
    one.cliff_experienced_pps.wire = Some(Figure::between(1e5, 9e4, 1.1e5, 0.0));
    let said = confidences(&one).unwrap();
    assert_eq!(
        said,
        "Intervals of cliff (sim), peak (measured): 95.6 % confidence; of cliff (measured), cliff with pauses (measured): from 1 search."
    );
}

#[test]
fn the_largest_cause_of_void_trials_is_named_with_its_remedy() {
    let pauses = |share: f64| Some(Pauses { share, ..Pauses::of(&[1e-3], 10.0, 2.5e-4) });
    let task = |task: &str, total_s| TaskTime { task: task.into(), count: 9, total_s };
    let told = Disturbance {
        measured_s: 10.0,
        other_tasks: pauses(0.12),
        tasks: vec![task("cc1", 0.8), task("rustc", 0.4)],
        host: pauses(0.01),
        sender: pauses(0.02),
        sender_stalls: pauses(0.05),
        ..Disturbance::default()
    };
    let void = |told: Disturbance| {
        let finding = Finding { disturbance: Some(told), ..finding(3, 11) };
        let said = doubts(&finding).join("; ");
        assert!(said.starts_with("11 of 20 trials do not count: "), "{said}");
        said
    };
    let said = void(told.clone());
    assert!(
        said.contains("other programs had the CPU under test for 12 % of the time (cc1 8 %, rustc 4 %): stop them"),
        "{said}"
    );
    let said = void(Disturbance { sender: pauses(0.2), sender_stalls: pauses(0.25), ..told.clone() });
    assert!(
        said.contains("the hypervisor took the sender's CPU for 20 % of the time") && said.contains("repeat"),
        "{said}"
    );
    let said = void(Disturbance { sender_stalls: pauses(0.4), ..told });
    assert!(said.contains("the sender was delayed 38 % of the time") && said.contains("--sender-cpu"), "{said}");
    // Without a measurement, the page gives the trials' own reason.
    let said = void(Disturbance::default());
    assert!(said.contains("the sender fell behind; stop other programs"), "{said}");
    assert!(doubts(&finding(3, 2)).is_empty(), "a few void trials are no doubt");
}

/// The page, the message and the commands that compute with the run agree.
#[test]
fn a_missing_cliff_is_worded_in_one_way() {
    let mut finding = finding(3, 11);
    let why = "it is >= 117kpps: in 3 of 3 searches all trials at higher loads were void: the sender fell behind";
    finding.missing.push(Missing { figure: EngineFigure::Cliff.by(EngineKind::Wire), why: why.into() });
    let said = no_cliff(&finding).unwrap();
    assert_eq!(said, format!("No cliff was measured: {why}"));
    assert_eq!(verdict(&finding), said);
    for page in [terminal::brief(&finding, Style::default()), terminal::finding(&finding, Style::default())] {
        assert!(words(&page).contains(&format!("{said}.")), "{page}");
        assert!(!page.contains("offers no more"), "{page}");
    }
    let caution = caution(&finding, "find run 3", true).unwrap();
    assert!(caution.starts_with(&format!("Caution: find run 3: no cliff was measured: {why}; 11 of 20")), "{caution}");
    finding.cliff_pps.wire = Some(Figure::between(120e3, 117e3, 123e3, 0.95));
    assert_eq!(no_cliff(&finding), None);
}

/// Contradictions count too; a quiet run has no caution.
#[test]
fn only_a_disturbed_run_is_warned_of() {
    let mut quiet = finding(7, 0);
    quiet.cliff_pps.wire = Some(Figure::between(120e3, 117e3, 123e3, 0.95));
    assert_eq!(caution(&quiet, "find run 3", true), None);
    quiet.contradictions = vec![Contradiction { load_pps: 1e5, loss: 0.1, cause: "chance".into() }];
    assert_eq!(
        caution(&quiet, "find run 3", true).unwrap(),
        "Caution: find run 3: the loss at 1 load of the load sweep contradicts the cliff (too high below it, or too low above it)."
    );
    quiet.contradictions.clear();
    quiet.partial = true;
    assert_eq!(caution(&quiet, "find run 3", true).unwrap(), "Caution: find run 3: it was stopped early.");
}

/// If the cliff was not measured, latencies at shares of a cliff say which cliff is meant.
#[test]
fn latency_at_shares_of_a_computed_cliff_says_so() {
    let mut finding = finding(3, 0);
    let p99 = Some(Figure::exact(5e-5));
    let latency_s = ByEngine { sim: Some(Latency { p99, ..Latency::default() }), ..ByEngine::default() };
    finding.latency = vec![LatencyAt { share: 0.9, load_pps: 9e4, latency_s }];
    finding.cliff_pps.sim = Some(Figure::exact(1e5));
    let brief = terminal::brief(&finding, Style::default());
    assert!(
        brief.contains("p99 at 90 %*") && brief.contains("* of the simulated cliff: no cliff was measured"),
        "{brief}"
    );
    let page = terminal::finding(&finding, Style::default());
    assert!(page.contains("at 90 % of the simulated cliff, 90.0 kpps"), "{page}");
    finding.cliff_pps.wire = Some(Figure::exact(1e5));
    let brief = terminal::brief(&finding, Style::default());
    assert!(brief.contains("p99 at 90 % ") && !brief.contains("90 %*"), "{brief}");
}

/// If the p99 falls with the load, other work causes it. That work's share of the CPU and its longest turn are next to
/// the p99.
#[test]
fn a_tail_that_the_load_does_not_explain_is_somebody_elses() {
    let at = |share: f64, p99_s: f64| {
        let latency = Latency { p99: Some(Figure::exact(p99_s)), ..Latency::default() };
        let latency_s = netcliff_core::finding::ByEngine { wire: Some(latency), ..Default::default() };
        LatencyAt { share, load_pps: 1e5 * share, latency_s }
    };
    let tasks = vec![TaskTime { task: "dockerd".into(), count: 9, total_s: 0.7 }];
    let other_tasks = Some(Pauses { share: 0.07, ..Pauses::of(&[2.9e-3], 10.0, 2.5e-4) });
    let disturbance = Some(Disturbance { measured_s: 10.0, other_tasks, tasks, ..Disturbance::default() });
    let finding = |low_s, high_s| Finding {
        latency: vec![at(0.5, low_s), at(0.9, high_s)],
        disturbance: disturbance.clone(),
        ..finding(3, 0)
    };
    let said = doubts(&finding(13.3e-3, 542e-6)).join("; ");
    for part in [
        "p99 is 13.3 ms at 50 % of the rough cliff (50.0 kpps) and 542 us at 90 % (90.0 kpps), which the load does not explain",
        "other tasks had the CPU under test 7 %",
        "up to 2.90 ms",
        "dockerd 7 %",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!doubts(&finding(100e-6, 542e-6)).join("; ").contains("p99"));
    // Commands that compute with the run's costs say what this means for their latencies.
    let caution = caution(&finding(13.3e-3, 542e-6), "find run 3", false).unwrap();
    for part in [
        "find run 3: ",
        "it measured a p99 of 13.3 ms at 50 %",
        "leave out such pauses of the CPU: while they occur, expect",
    ] {
        assert!(caution.contains(part), "{part}: {caution}");
    }
}

/// A measured p99 far from the simulated one has a cause if interruptions, and the queues after them, last for at least
/// 1 % of the time. The figures are of a real run on a virtual machine.
#[test]
fn a_measured_p99_far_from_the_simulated_one_has_a_cause_or_none() {
    let at = |share: f64, sim_s: f64, wire_s: f64| {
        let p99 = |p99_s: f64| Some(Latency { p99: Some(Figure::exact(p99_s)), ..Latency::default() });
        let latency_s = ByEngine { sim: p99(sim_s), wire: p99(wire_s), ..ByEngine::default() };
        LatencyAt { share, load_pps: 330e3 * share, latency_s }
    };
    let pauses = |share: f64| Some(Pauses { share, ..Pauses::of(&[1e-3], 10.0, 2.5e-4) });
    let disturbance = |host, others, stalls| Disturbance {
        measured_s: 33.7,
        host: pauses(host),
        other_tasks: pauses(others),
        sender: pauses(0.0016),
        sender_stalls: pauses(stalls),
        ..Disturbance::default()
    };
    let said = |latency: Vec<LatencyAt>, disturbance: Option<Disturbance>| {
        let mut one = Finding { latency, disturbance, ..finding(3, 0) };
        one.cliff_pps.wire = Some(Figure::exact(330e3));
        doubts(&one).join("; ")
    };
    let real = || vec![at(0.5, 45.1e-6, 580e-6), at(0.9, 145.5e-6, 1.98e-3)];
    assert_eq!(
        said(real(), Some(disturbance(0.000_914, 0.004_62, 0.0131))),
        "the measured p99 is 12.9 times the simulated one at 50 % of the cliff and 13.6 times at 90 %. The simulated p99 leaves \
         interruptions out; in this run other tasks had the CPU under test 0.462 % of the time, the hypervisor 0.0914 %. These interruptions delay \
         your packets, too: while they go on, do not count on the simulated p99. netcliff's own sender was late 1.31 % of the time and then \
         sent bursts, which the simulation does not have: this is an error of the measurement, by which the measured p99 may be too long"
    );
    // The sender alone: an error of the measurement only.
    let late = said(real(), Some(disturbance(0.0, 0.0, 0.0131)));
    assert!(late.contains("at 90 %. netcliff's own sender was late") && !late.contains("your packets"), "{late}");
    // Interruptions of 0.18 % of the time delay 0.36 % of the packets at half of the cliff: not the p99.
    let unknown = "at 90 %: the cause is unknown; expect the measured one";
    assert!(said(real(), Some(disturbance(0.000_1, 0.000_1, 0.001))).ends_with(unknown));
    assert!(said(real(), None).ends_with(unknown));
    // Only commands that compute a p99 warn of it.
    let mut one = Finding { latency: real(), ..finding(3, 0) };
    one.cliff_pps.wire = Some(Figure::exact(330e3));
    assert!(
        caution(&one, "find run 3", true).is_some_and(|said| said.contains("may exceed a computed one by as much"))
    );
    assert_eq!(caution(&one, "find run 3", false), None);
    let shorter = said(vec![at(0.5, 45.1e-6, 15e-6)], None);
    assert!(
        shorter.starts_with(
            "the measured p99 is 0.333 times the simulated one at 50 % of the cliff: the cause is unknown"
        ),
        "{shorter}"
    );
    assert_eq!(said(vec![at(0.5, 31.8e-6, 53.8e-6), at(0.9, 100e-6, 60e-6)], None), "", "both are near each other");
}

/// The pages give the number of void trials, or a doubt does.
#[test]
fn void_trials_are_counted_on_the_page() {
    let none = void_trials(&finding(3, 0)).unwrap();
    assert_eq!(none, "None of 20 trials was void.");
    assert_eq!(void_trials(&finding(3, 1)).unwrap(), "1 of 20 trials was void (does not count).");
    let some = void_trials(&finding(3, 4)).unwrap();
    assert_eq!(some, "4 of 20 trials were void (do not count).");
    assert!(words(&terminal::brief(&finding(3, 4), Style::default())).contains(&some));
    assert_eq!(void_trials(&finding(3, 11)), None);
    assert_eq!(void_trials(&Finding::blank(setup(), 1e-4)), None);
}

/// If the sweep has no trial at twice the cliff, the share delivered comes from the trial that accounts for each
/// packet.
#[test]
fn the_ledgers_trial_goes_before_the_simulation() {
    let mut one = finding(3, 0);
    one.cliff_pps.wire = Some(Figure::exact(342e3));
    one.peak_pps.wire = Some(Figure::exact(340e3));
    one.livelock.sim = Some(Figure::exact(0.513));
    let ledger = Ledger { sent: 1000, delivered: 108, tracing_ns: Some(112), ..Ledger::default() };
    one.ledger = Some(TrialLedger { load_pps: 683e3, ledger });
    let said = livelock(&one).unwrap().text;
    assert!(
        said.starts_with("Receive livelock: at twice the cliff 21.7 %") && said.contains("112 ns a drop"),
        "{said}"
    );
    // The row next to the sentence has the same share, also for results of earlier versions; JSON of a run of this
    // version has it, too.
    assert_eq!(at_twice(&one)[0].cells[2].as_ref().unwrap().value, "21.7 %");
    assert!(
        !not_had(&one)
            .iter()
            .any(|group| group.figures.iter().any(|figure| *figure == EngineFigure::Livelock.by(EngineKind::Wire)))
    );
    one.livelock.wire = one.delivered_in_ledger();
    one.livelock_by_ledger = true;
    assert_eq!(livelock(&one).unwrap().text, said);
    (one.ledger, one.livelock.wire) = (None, None);
    assert!(livelock(&one).unwrap().text.contains("simulated, not measured"));
}

#[test]
fn a_computed_interval_that_fits_nothing_is_a_doubt() {
    let mut one = finding(3, 0);
    one.cliff_experienced_pps.wire = Some(Figure::between(211e3, 124e3, 388e3, 0.94));
    one.cliff_experienced_pps.model = Some(Figure::exact(249e3));
    one.cliff_experienced_pps.sim = Some(Figure::between(89.5e3, 82.6e3, 122.7e3, 0.9));
    let said = doubts(&one).join("; ");
    for part in [
        "the simulated cliff with pauses is 89.5 kpps, but its interval (82.6-122.7) contains neither",
        "neither the measured one, 211 kpps, nor the predicted one, 249 kpps: do not plan with it",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let fitting = [Figure::between(180e3, 170e3, 260e3, 0.9), Figure::between(323e3, 306e3, 339e3, 0.9)];
    for sim in fitting {
        // The second meets the interval of the measurement, though not its value.
        one.cliff_experienced_pps.sim = Some(sim);
        assert!(!doubts(&one).join("; ").contains("contains neither"), "{sim:?}");
    }
}

/// The page's cliff is for the speed of its searches and includes the effect of disturbances. A line for each state
/// names what it includes.
#[test]
fn each_computed_cliff_names_what_it_includes() {
    let mut one = finding(3, 0);
    one.cliff_pps.model = Some(Figure::exact(338e3));
    one.cliff_as_calibrated_pps = Some(ByEngine { model: Some(Figure::exact(331e3)), ..ByEngine::default() });
    one.cliff_undisturbed_pps = Some(ByEngine { model: Some(Figure::exact(345e3)), ..ByEngine::default() });
    let facts = disturbance(&one);
    let told: Vec<&str> =
        facts.iter().filter(|(name, _)| *name == "computed cliff").map(|(_, said)| said.as_str()).collect();
    let expected = [
        "model 331 kpps: with the spread of times as measured",
        "model 345 kpps: with the CPU's speed in the searches and the spread of times as measured",
        "model 338 kpps: with the CPU's speed in the searches, the disturbances that every trial had and the spread of times as measured",
    ];
    assert_eq!(told, expected);
}
