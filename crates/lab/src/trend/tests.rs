use super::*;
use crate::compare::{MeasuredPoint, Reading};
use netcliff_core::{Dimension, Provenance};

fn run(id: i64, goodput_bps: f64, kernel: &str) -> (RunSummary, Measured) {
    let summary = RunSummary {
        id,
        kind: "stream".into(),
        state: "done".into(),
        name: Some("nightly".into()),
        started_unix_s: id as f64 * 86400.0,
        command: String::new(),
        records: 0,
        fingerprint_id: None,
    };
    let quantity = crate::compare::goodput();
    assert_eq!(quantity.dimension, Dimension::Bps);
    let reading = Reading::of(quantity, [Some(goodput_bps)]).expect("a value");
    let mut fingerprint = Fingerprint::default();
    fingerprint.facts.insert("kernel.release".into(), kernel.into());
    let measured = Measured {
        name: format!("run {id}"),
        kind: "stream",
        clock: None,
        points: vec![MeasuredPoint { name: "tcp".into(), figures: vec![reading] }],
        fingerprint: Some(fingerprint),
        far_fingerprint: None,
        facts: Vec::new(),
        calibrated: Vec::new(),
        provenance: Provenance::default(),
        partial: false,
        others: None,
    };
    (summary, measured)
}

/// 9.9 to 10.1 Gbit/s, then 8 % less from run 11 on, with another kernel.
fn runs(count: i64) -> Vec<(RunSummary, Measured)> {
    let value = |id: i64| (10.0 + 0.1 * ((id * 7 % 5) as f64 / 2.0 - 1.0)) * if id > 10 { 0.92e9 } else { 1e9 };
    (1..=count).map(|id| run(id, value(id), if id > 10 { "6.12" } else { "6.1" })).collect()
}

#[test]
fn a_slower_level_fails_and_names_what_changed() {
    let found = trend("nightly", &runs(20), Vec::new(), Some(0.05)).expect("a trend");
    let series = &found.series[0];
    assert_eq!((series.changes.len(), series.levels.len(), found.failed), (1, 2, true), "{series:?}");
    let change = &series.changes[0];
    assert_eq!((change.after_run, change.run, change.better), (10, 11, false));
    assert!((change.change + 0.08).abs() < 0.005 && change.p <= found.level, "{change:?}");
    assert_eq!(change.changed, ["kernel.release: 6.1 -> 6.12"]);
    // 8 % is less than a share of 10 %, and without a share nothing fails.
    assert!(!trend("nightly", &runs(20), Vec::new(), Some(0.10)).expect("a trend").failed);
    assert!(!trend("nightly", &runs(20), Vec::new(), None).expect("a trend").failed);
}

#[test]
fn what_is_mended_fails_no_more() {
    let mut mended = runs(20);
    mended.extend((21..=30).map(|id| run(id, 10e9 + 1e7 * (id % 3) as f64, "6.13")));
    let found = trend("nightly", &mended, Vec::new(), Some(0.05)).expect("a trend");
    let changes = &found.series[0].changes;
    assert_eq!((changes.len(), changes[1].run, changes[1].better, found.failed), (2, 21, true, false), "{changes:?}");
}

#[test]
fn few_runs_say_so() {
    let found = trend("nightly", &runs(5), Vec::new(), Some(0.05)).expect("a trend");
    assert!(found.series[0].changes.is_empty() && !found.failed);
    assert!(found.notes[0].contains("1 of 1 figures have fewer than 8 runs"), "{:?}", found.notes);
    let error = trend("nightly", &[], Vec::new(), None).expect_err("nothing to look at");
    assert!(error.to_string().contains("nightly"), "{error}");
}
