mod forwarded;

use netcliff_core::Fingerprint;
use proptest::prelude::*;

use super::quantity::{GOODPUT, LATENCY_P99, SYSTEM_US_PER_KIB};
use super::*;
use netcliff_stats::chance::Chance;

fn run(name: &str, points: &[(&str, &[f64])]) -> Measured {
    let point = |(name, values): &(&str, &[f64])| {
        let goodput = Reading::of(GOODPUT, values.iter().map(|value| Some(*value)));
        let latency = Reading::of(LATENCY_P99, values.iter().map(|value| Some(1.0 / value)));
        let cost = Reading::of(SYSTEM_US_PER_KIB, values.iter().map(|value| Some(1e3 / value)));
        MeasuredPoint { name: (*name).to_owned(), figures: [goodput, latency, cost].into_iter().flatten().collect() }
    };
    Measured {
        name: name.to_owned(),
        kind: "stream",
        clock: Some("receiver".to_owned()),
        points: points.iter().map(point).collect(),
        fingerprint: Some(Fingerprint::default()),
        far_fingerprint: None,
        facts: Vec::new(),
        calibrated: Vec::new(),
        provenance: Provenance::default(),
        partial: false,
        others: None,
    }
}

const STEADY: &[f64] = &[100.0, 101.0, 99.0, 100.5, 99.5];
const SLOWER: &[f64] = &[80.0, 81.0, 79.0, 80.5, 79.5];

#[test]
fn a_loss_is_worse_and_fails_the_bar() {
    let found = compare(&run("a", &[("x", STEADY)]), &run("b", &[("x", SLOWER)]), Some(0.05)).expect("the same kind");
    assert!(found.failed);
    for row in &found.rows {
        assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
        assert_eq!(row.bar.is_some(), row.quantity.class == Class::Speed);
        assert!(row.bar.is_none_or(|bar| bar.beyond && bar.shown), "{row:?}");
    }
    let change = found.rows[0].change.expect("a is far from 0");
    assert!((change.value + 0.2).abs() < 1e-3 && change.interval.is_some_and(|ends| ends.high < -0.15), "{change:?}");
    // In the other direction it is better, so nothing fails.
    let back = compare(&run("b", &[("x", SLOWER)]), &run("a", &[("x", STEADY)]), Some(0.05)).expect("the same kind");
    assert!(!back.failed && back.rows.iter().all(|row| row.verdict == Verdict::Better));
    assert_eq!(back.gate.map(|gate| gate.outcome), Some(Outcome::Passed));
}

#[test]
fn what_differs_at_the_far_host_is_told_too() {
    let of = |name: &str, kernel: Option<&str>| {
        let far = kernel.map(|kernel| Fingerprint {
            facts: [("kernel.release".to_owned(), kernel.to_owned())].into_iter().collect(),
        });
        Measured { far_fingerprint: far, ..run(name, &[("x", STEADY)]) }
    };
    let found = compare(&of("a", Some("6.1")), &of("b", Some("6.18")), None).expect("the same kind");
    let (a, b) = (Some("6.1".to_owned()), Some("6.18".to_owned()));
    assert_eq!(found.changed, [Change { name: "far host: kernel.release".to_owned(), a, b, change: None }]);
    assert!(!found.notes.iter().any(|note| note.contains("another host")), "{:?}", found.notes);
    let found = compare(&of("a", Some("6.1")), &of("b", None), None).expect("the same kind");
    assert!(
        found.changed.is_empty() && found.notes.iter().any(|note| note.starts_with("a has a far end on another host"))
    );
    assert!(
        compare(&of("a", None), &of("b", None), None).expect("the same kind").notes.iter().all(|n| !n.contains("far"))
    );
}

#[test]
fn a_run_is_found_by_its_name() {
    assert_eq!(Source::named("new-kernel~2"), Source::Named("new-kernel".to_owned(), 2));
    let dir = tempfile::tempdir().expect("a directory");
    let store = crate::store::Store::open(&dir.path().join("records.db")).expect("a store");
    let missing = Measured::of_store(&store, &Source::named("old")).expect_err("none").to_string();
    assert!(missing.contains("no run old"), "{missing}");
    let store = store.naming(Some("old".to_owned())).naming(Some("the experiment's".to_owned()));
    for started in [1.0, 2.0] {
        let run = store.begin("find", "netcliff find", started).expect("it can be written");
        store.finish(run, false, None).expect("it can be written");
    }
    assert_eq!(store.runs().expect("runs")[0].name.as_deref(), Some("old"));
    for (name, id) in [("old", "run 2"), ("old~1", "run 1")] {
        let empty = Measured::of_store(&store, &Source::named(name)).expect_err("no figures").to_string();
        assert!(empty.contains(id), "{empty}");
    }
}

#[test]
fn a_loss_below_the_bar_is_worse_and_passes() {
    let slower: Vec<f64> = STEADY.iter().map(|value| value * 0.96).collect();
    let found = compare(&run("a", &[("x", STEADY)]), &run("b", &[("x", &slower)]), Some(0.08)).expect("the same kind");
    assert_eq!(found.rows[0].verdict, Verdict::Worse);
    assert!(!found.failed && found.rows[0].bar.is_some_and(|bar| !bar.beyond && !bar.shown && bar.within));
    let gate = found.gate.expect("asked for");
    assert_eq!((gate.outcome, gate.figures, gate.tested), (Outcome::Passed, 2, 2));
    // Standard error 0.5 of 100, 8 degrees of freedom, 2.5 % one-sided (two tests), power 80 %: (2.31 + 0.89) x 0.49 %.
    assert!(gate.detectable.is_some_and(|share| (0.014..0.018).contains(&share)), "{gate:?}");
}

#[test]
fn a_loss_that_chance_explains_is_inconclusive() {
    let (wide, wider) = (&[100.0, 140.0, 70.0, 120.0, 80.0][..], &[90.0, 130.0, 60.0, 110.0, 70.0][..]);
    let found = compare(&run("a", &[("x", wide)]), &run("b", &[("x", wider)]), Some(0.05)).expect("the same kind");
    assert_eq!(found.rows[0].verdict, Verdict::NotShown);
    let bar = found.rows[0].bar.expect("a figure of speed");
    assert!(bar.beyond && !bar.shown && !bar.within && !found.failed);
    let gate = found.gate.expect("asked for");
    assert_eq!(gate.outcome, Outcome::Inconclusive);
    assert!(gate.detectable.is_some_and(|share| share > 0.3), "{gate:?}");
    // A run does not pass because its widely spread repeats happen to lie on the good side.
    let back = compare(&run("b", &[("x", wider)]), &run("a", &[("x", wide)]), Some(0.05)).expect("the same kind");
    assert_eq!(back.gate.map(|gate| gate.outcome), Some(Outcome::Inconclusive));
}

/// Compares many pairs of runs that differ by exactly the permitted share. The gate fails at most as often as the level
/// permits, and it passes at most as often.
#[test]
fn at_the_bar_both_answers_are_rare() {
    const RUNS: u32 = 400;
    let mut random = Chance::new(19);
    let (mut failed, mut passed) = (0, 0);
    for _ in 0..RUNS {
        let mut values = |mean: f64| -> Vec<f64> { (0..5).map(|_| mean + 3.0 * random.normal()).collect() };
        let (a, b) = (values(100.0), values(90.0));
        let of = |name, values: &[f64]| {
            let figures = Reading::of(GOODPUT, values.iter().copied().map(Some)).into_iter().collect();
            Measured { points: vec![MeasuredPoint { name: "x".to_owned(), figures }], ..run(name, &[]) }
        };
        match compare(&of("a", &a), &of("b", &b), Some(0.1)).expect("the same point").gate.expect("asked for").outcome {
            Outcome::Failed => failed += 1,
            Outcome::Passed => passed += 1,
            Outcome::Inconclusive => {}
        }
    }
    // Binomial(400, 0.05) exceeds 38 once in 30 000.
    assert!(failed <= 38 && passed <= 38, "{failed} failed, {passed} passed of {RUNS}");
}

#[test]
fn one_repeat_is_shown_and_not_tested() {
    let found = compare(&run("a", &[("x", &[100.0])]), &run("b", &[("x", &[50.0])]), Some(0.05)).expect("same kind");
    assert_eq!(found.rows[0].verdict, Verdict::NotTested);
    assert_eq!(found.rows[0].change.map(|change| change.value), Some(-0.5));
    assert!(!found.failed && found.notes.iter().any(|note| note.contains("fewer than 2 repeats")));
}

#[test]
fn points_of_one_only_and_settings_that_changed_are_listed() {
    let mut a = run("a", &[("x", STEADY), ("y", STEADY)]);
    let mut b = run("b", &[("z", STEADY), ("x", STEADY)]);
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    a.facts = vec![fact("congestion", "cubic"), fact("mss", "1448B")];
    b.facts = vec![fact("congestion", "bbr")];
    let facts = |release: &str| Fingerprint { facts: [fact("kernel.release", release)].into() };
    (a.fingerprint, b.fingerprint) = (Some(facts("6.1")), Some(facts("6.18")));
    let found = compare(&a, &b, None).expect("one point in common");
    assert_eq!((found.only_a, found.only_b), (vec!["y".to_owned()], vec!["z".to_owned()]));
    let names: Vec<_> = found.changed.iter().map(|c| (c.name.as_str(), c.a.as_deref(), c.b.as_deref())).collect();
    assert_eq!(
        names,
        [
            ("congestion", Some("cubic"), Some("bbr")),
            ("mss", Some("1448B"), None),
            ("kernel.release", Some("6.1"), Some("6.18"))
        ]
    );
}

#[test]
fn what_cannot_be_compared_is_refused_in_a_sentence() {
    let (a, mut b) = (run("a", &[("x", STEADY)]), run("b", &[("y", STEADY)]));
    let said = |a: &Measured, b: &Measured| compare(a, b, None).expect_err("not comparable").to_string();
    assert!(said(&a, &b).contains("no point is in both: a has x, b has y"), "{}", said(&a, &b));
    b.clock = Some("sender".to_owned());
    assert!(said(&a, &b).contains("receiver's clock and b by the sender's"), "{}", said(&a, &b));
    b.kind = "rr";
    assert!(said(&a, &b).contains("a is of `stream` and b of `rr`"), "{}", said(&a, &b));
}

#[test]
fn sources_are_told_apart() {
    let parsed = |text| Source::parse(text);
    assert_eq!((parsed("last"), parsed("last~2"), parsed("17")), (Source::Last(0), Source::Last(2), Source::Run(17)));
    assert_eq!(parsed("last~x.json"), Source::File("last~x.json".to_owned()));
}

#[test]
fn files_of_other_things_are_named() {
    let said = |text: &str| Measured::of_json("f.json", text).expect_err("not ours").to_string();
    for (text, words) in [
        ("", &["f.json", "nothing"][..]),
        ("{", &["f.json", "not JSON", "line 1"]),
        ("{\"a\":1}", &["f.json", "another kind", "--json"]),
        ("[]", &["another kind"]),
        ("{\"kind\":\"rr\"}", &["cannot be read", "missing field"]),
        (r#"{"kind":"rfc2544"} {"kind":"rfc2544"}"#, &["f.json holds 2 runs", "a file of one"]),
        // A document as in the store, of a run that was stopped before its first row.
        (r#"{"kind":"rr","rows":[],"not_had":["flows 1"],"partial":true}"#, &["holds nothing"]),
    ] {
        assert!(words.iter().all(|word| said(text).contains(word)), "{text}: {}", said(text));
    }
}

/// A computed record, as `predict --json` prints it.
fn predicted(service: f64) -> String {
    let text = r#"{"point":{"host":HOST,"scheme":"ideal","traffic":{"arrivals":"poisson","size":"64B","rate":"100kpps",
        "link":"1Gbit/s"}},"engine":"model","outcome":{"throughput_pps":100000.0,"latency_s":{"mean":MEAN}},
        "provenance":{"version":"0","command":"predict","started_unix_s":0.0}}"#;
    let host = serde_json::to_string(&netcliff_core::Host::pentium4_2530mhz()).expect("a host");
    text.replace("HOST", &host).replace("MEAN", &service.to_string())
}

#[test]
fn computed_figures_are_shown_and_not_tested() {
    let read = |mean: f64| Measured::of_json("p", &predicted(mean)).expect("a record");
    let found = compare(&read(2e-5), &read(3e-5), Some(0.1)).expect("the same point");
    let verdicts: Vec<_> = found.rows.iter().map(|row| (row.quantity.name, row.verdict)).collect();
    assert_eq!(verdicts, [("throughput_pps", Verdict::Computed), ("latency_mean_s", Verdict::Computed)]);
    assert!(found.rows.iter().all(|row| row.p.is_none() && row.bar.is_none()) && !found.failed);
    assert!((found.rows[1].change.expect("numbers").value - 0.5).abs() < 1e-12);
    assert_eq!(found.gate.map(|gate| (gate.outcome, gate.figures)), Some((Outcome::Inconclusive, 0)));
}

#[test]
fn one_trial_of_find_is_no_repeat() {
    use super::quantity::PEAK;
    use netcliff_core::Figure;
    let of = |name, pps| {
        let figures = vec![Reading::of_figure(PEAK, &Figure::exact(pps), Some(1)).expect("a number")];
        Measured { points: vec![MeasuredPoint { name: "peak wire".to_owned(), figures }], ..run(name, &[]) }
    };
    let found = compare(&of("a", 424e3), &of("b", 443e3), None).expect("the same point");
    assert_eq!((found.rows[0].verdict, found.rows[0].p), (Verdict::NotTested, None));
}

#[test]
fn a_calibration_that_moved_is_told() {
    let of = |name, interrupt_s: f64| {
        let cost = |key: &str, value, unit: &str| Calibrated { key: key.to_owned(), value, unit: unit.to_owned() };
        Measured {
            calibrated: vec![cost("interrupt", interrupt_s, "s"), cost("ring", 1000.0, "packets")],
            ..run(name, &[("x", STEADY)])
        }
    };
    let found = compare(&of("a", 6e-6), &of("b", 8e-6), None).expect("the same point");
    let changed: Vec<_> = found.changed.iter().map(|c| (c.name.as_str(), c.a.as_deref(), c.b.as_deref())).collect();
    assert_eq!(changed, [("calibration.interrupt", Some("6us"), Some("8us"))]);
    assert!(found.changed[0].change.is_some_and(|change| (change - 1.0 / 3.0).abs() < 1e-12));
    assert!(found.notes.iter().any(|note| note.contains("interrupt by +33 %")), "{:?}", found.notes);
    let steady = compare(&of("a", 6e-6), &of("b", 6.1e-6), None).expect("the same point");
    assert!(!steady.notes.iter().any(|note| note.contains("calibration")), "{:?}", steady.notes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_does_not_differ_from_itself(
        points in proptest::collection::vec(proptest::collection::vec(1.0..1e9f64, 1..8), 1..6)
    ) {
        let names: Vec<String> = (0..points.len()).map(|n| format!("p{n}")).collect();
        let pairs: Vec<(&str, &[f64])> = names.iter().map(String::as_str).zip(points.iter().map(Vec::as_slice)).collect();
        let found = compare(&run("a", &pairs), &run("b", &pairs), Some(0.0)).expect("the same points");
        prop_assert!(!found.failed && found.changed.is_empty() && found.only_a.is_empty());
        for row in found.rows {
            prop_assert!(matches!(row.verdict, Verdict::NotShown | Verdict::NotTested));
            prop_assert!(row.p.is_none_or(|p| p > 0.999));
        }
    }
}

#[test]
fn what_an_experiment_is_drawn_by_is_compared_too() {
    use super::quantity::drawn;
    use netcliff_core::experiment::TransferMeasure;
    let kernel = drawn(TransferMeasure::SenderKernelShare).expect("no figure of all transfers");
    assert_eq!((kernel.name, kernel.class, kernel.better), ("sender_kernel_share", Class::Cost, Better::Less));
    let share = drawn(TransferMeasure::LinkShare).expect("likewise");
    assert_eq!((share.name, share.class, share.better), ("link_share", Class::Speed, Better::More));
    assert_eq!(drawn(TransferMeasure::Goodput), None);
}

#[test]
fn other_programs_that_limited_a_run_are_named() {
    let others = Some("other programs on CPUs 0, 1 (about 59 %)".to_owned());
    let b = Measured { others, ..run("b", &[("x", SLOWER)]) };
    let found = compare(&run("a", &[("x", STEADY)]), &b, None).expect("the same kind");
    let said = found.notes.iter().find(|note| note.contains("other programs")).expect("a note");
    assert_eq!(said, "b was limited by other programs on CPUs 0, 1 (about 59 %): repeat it on a quiet machine");
}
