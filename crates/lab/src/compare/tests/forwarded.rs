//! Experiments of forwarding and tests of a device.

use netcliff_rfc2544::tester::stamps::Stamps;
use serde_json::json;

use super::*;
use netcliff_rfc2544::procedures::{Latency, LatencyRepeat, latency};
use netcliff_rfc2544::report::SizeReport;
use netcliff_rfc2544::settings::{FrameSize, Settings};

/// A report of forwarding with these rounds of one set-up, as `run --json` prints it.
fn forwarded(release: &str, throughputs_pps: &[f64], rps: &str) -> String {
    let samples: Vec<_> = throughputs_pps
        .iter()
        .enumerate()
        .map(|(at, pps)| {
            json!({"round": at + 1, "throughput_pps": pps, "sender_pps": 1e6, "trials": 9, "trial_time_s": 0.5})
        })
        .collect();
    let about = json!({"device": "a router", "tester": "rings", "router_cpus": [1], "shared": false,
        "settings": [{"name": "rtr0 rps_cpus", "before": "0", "after": rps}]});
    let report = json!({"kind": "forwarding", "title": "t", "rounds": 3, "asked": [], "not_had": [], "warnings": [],
        "set_ups": [{"name": "tuned", "forwarding": "route", "tune": "throughput", "about": about}],
        "rows": [{"frame": "64B", "set_up": "tuned", "samples": samples}],
        "fingerprint": {"kernel.release": release}, "partial": false,
        "provenance": {"version": "0", "command": "run", "started_unix_s": 0.0}});
    report.to_string()
}

#[test]
fn rounds_of_forwarding_are_repeats_and_set_ups_are_facts() {
    let read = |release: &str, pps: &[f64], rps: &str| {
        Measured::of_json("f.json", &forwarded(release, pps, rps)).expect("a report of forwarding")
    };
    let (old, new) = (read("6.1", STEADY, "1"), read("6.18", SLOWER, "2"));
    let found = compare(&old, &new, Some(0.05)).expect("the same points");
    let rows: Vec<_> = found.rows.iter().map(|row| (row.point.as_str(), row.quantity.name, row.verdict)).collect();
    assert_eq!((rows, found.failed), (vec![("tuned, 64B", "throughput_pps", Verdict::Worse)], true));
    let changed: Vec<&str> = found.changed.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(changed, ["tuned.rtr0 rps_cpus", "kernel.release"]);
}

#[test]
fn tests_of_a_device_are_compared_size_by_size() {
    let by = |clock: Stamps, latency_s: f64, flows: u32| {
        let repeats = [1.0, 1.01, 0.99].map(|times| {
            let s = latency_s * times;
            let repeat = json!({"tagged_s": s, "p50_s": s, "p999_s": 2.0 * s});
            serde_json::from_value::<LatencyRepeat>(repeat).expect("a repeat")
        });
        let found = latency(1e5, 1.0, repeats.to_vec());
        let size = SizeReport {
            latency: found.map(|latency| Latency { clock, ..latency }),
            ..SizeReport::new(FrameSize::Fixed(64), 1e6, 1e6)
        };
        let report = json!({"kind": "rfc2544", "device": "a router", "tester": "rings", "sizes": [size],
            "asked": Settings { flows, ..Settings::default() }, "limits": [], "notes": [],
            "provenance": Provenance::default()});
        Measured::of_json("r.json", &report.to_string()).expect("a report")
    };
    let of = |latency_s, flows| by(Stamps::Application, latency_s, flows);
    let found = compare(&of(1e-4, 64), &of(2e-4, 1), None).expect("the same size");
    let rows: Vec<_> = found.rows.iter().map(|row| (row.point.as_str(), row.quantity.name)).collect();
    assert_eq!(rows, [("64B", "latency_tagged_s"), ("64B", "latency_p50_s"), ("64B", "latency_p999_s")]);
    assert!(found.rows.iter().all(|row| row.verdict == Verdict::Worse), "{:?}", found.rows);
    let changed: Vec<&str> = found.changed.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(changed, ["asked.flows"]);
    let found = compare(&of(1e-4, 64), &by(Stamps::Kernel, 4e-5, 64), None).expect("the same size");
    let rows: Vec<_> = found.rows.iter().map(|row| row.quantity.name).collect();
    assert_eq!(rows, ["latency_p50_s", "latency_p999_s"], "two clocks are not compared");
    assert!(found.notes.iter().any(|note| note.contains("has no fingerprint")), "{:?}", found.notes);
}

/// A report with these bounds for each search of 64-byte frames, as `rfc2544 --json` prints it.
fn searched(bounds_pps: &[(f64, f64)], end: &str) -> Measured {
    let one = |lower: f64, upper: f64| {
        // A load that the sender did not reach did not fail, so it is no upper bound.
        let upper = (end == "regular").then_some(upper);
        let found = json!({"lower_pps": lower, "upper_pps": upper, "end": end});
        json!({"found": [found], "trials": [], "void_trials": 0, "trial_time_s": 1.0})
    };
    let mut size = json!({"frame": "64B", "mean_bytes": 64.0, "sender_pps": 1e6, "max_pps": 9.7e5,
        "seen": {"trials": 1, "void_trials": 0, "sent": 1, "duplicates": 0, "reordered": 0, "corrupt": 0}});
    size["throughput"] = one(bounds_pps[0].0, bounds_pps[0].1);
    if bounds_pps.len() > 1 {
        let turn = |(at, (lower, upper)): (usize, &(f64, f64))| {
            let mut turn = one(*lower, *upper);
            turn["round"] = json!(at + 1);
            turn["sender_pps"] = json!(1e6);
            turn["max_pps"] = json!(9.7e5);
            turn
        };
        size["searches"] = bounds_pps.iter().enumerate().map(turn).collect();
    }
    let report = json!({"kind": "rfc2544", "device": "a router", "tester": "rings", "sizes": [size],
        "asked": Settings::default(), "limits": [], "notes": [],
        "provenance": Provenance::default()});
    Measured::of_json("r.json", &report.to_string()).expect("a report")
}

/// Bounds that are 0.5 % apart, from the lower ones (kpps).
fn kpps(lowers: &[f64]) -> Vec<(f64, f64)> {
    lowers.iter().map(|lower| (1e3 * lower, 1.005e3 * lower)).collect()
}

#[test]
fn several_searches_are_the_repeats_of_a_throughput() {
    let (steady, slower) = (searched(&kpps(STEADY), "regular"), searched(&kpps(SLOWER), "regular"));
    let found = compare(&steady, &slower, Some(0.05)).expect("the same size");
    let row = &found.rows[0];
    assert_eq!((row.quantity.name, row.a_repeats, row.b_repeats), ("throughput_pps", Some(5), Some(5)));
    assert_eq!((row.verdict, found.failed), (Verdict::Worse, true), "{row:?}");
    assert!(!found.notes.iter().any(|note| note.contains("without a test")), "{:?}", found.notes);
    let back = compare(&slower, &steady, Some(0.05)).expect("the same size");
    assert_eq!((back.rows[0].verdict, back.failed), (Verdict::Better, false));
}

#[test]
fn one_search_is_not_tested_and_the_note_names_its_option() {
    let found = compare(&searched(&kpps(&[100.0]), "regular"), &searched(&kpps(STEADY), "regular"), Some(0.05));
    let found = found.expect("the same size");
    assert_eq!((found.rows[0].verdict, found.failed), (Verdict::NotTested, false));
    let said = found.notes.join("\n");
    assert!(said.contains("fewer than 2 searches") && said.contains("--searches 5"), "{said}");
    assert!(!said.contains("--repeats"), "{said}");
}

/// Searches on the same grid of loads all give the same value. No difference is shown below the resolution of the
/// searches.
#[test]
fn the_width_of_a_search_is_not_taken_for_a_difference() {
    let [high, low] = [100e3, 90e3].map(|lower| searched(&[(lower, lower + 10e3); 5], "regular"));
    let found = compare(&high, &low, Some(0.05)).expect("the same size");
    assert!(found.rows[0].bar.is_some_and(|bar| bar.beyond && !bar.shown) && !found.failed, "{:?}", found.rows);
    // Values that are two widths apart do show a difference.
    let found = compare(&high, &searched(&[(70e3, 80e3); 5], "regular"), Some(0.05)).expect("the same size");
    assert!(found.failed && found.rows[0].verdict == Verdict::Worse, "{:?}", found.rows);
}

/// If the tester could not send a higher load, the device may forward more than the measured value.
#[test]
fn a_lower_limit_is_not_taken_for_a_loss() {
    let (steady, slower) = (searched(&kpps(STEADY), "regular"), searched(&kpps(SLOWER), "above-sender"));
    let found = compare(&steady, &slower, Some(0.05)).expect("the same size");
    let row = &found.rows[0];
    assert!(row.b_lower_limit && row.verdict == Verdict::NotTested && !found.failed, "{row:?}");
    assert!(found.notes.iter().any(|note| note.starts_with("64B: not tested")), "{:?}", found.notes);
    assert!(!found.notes.iter().any(|note| note.contains("fewer than 2")), "{:?}", found.notes);
    // In the other direction, the difference is at least the observed one.
    let found = compare(&searched(&kpps(SLOWER), "regular"), &searched(&kpps(STEADY), "above-sender"), None);
    assert_eq!(found.expect("the same size").rows[0].verdict, Verdict::Better);
}
