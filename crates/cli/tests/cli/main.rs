//! Tests of the program as its users meet it. They are one binary, because linking one for each file takes twenty times
//! as long.

mod common;

mod adapt;
mod advise;
mod attack_agent;
mod attack_files;
mod attack_outputs;
mod attack_serve;
mod changed;
mod compare;
mod contracts;
mod corpora;
mod disturbed;
mod drops;
mod far_host;
mod far_service;
mod files;
mod find;
mod find_hosts;
mod find_vm;
mod forwarding;
mod inspect;
mod live;
mod other_runs;
mod results;
mod rfc2544;
mod rfc2544_ports;
mod rr;
mod run;
mod schema;
mod service;
mod sources;
mod stream;
mod surface;
mod theory_pages;
mod transfer_faults;
mod transfers;
mod tune;
mod tutorial;
mod two_hosts;
mod usage;
mod watch;

mod trend {
    //! `netcliff results trend`.

    use serde_json::{Value, json};

    use crate::common::{Home, refusal};

    /// Fills a store with 16 runs named nightly: one measured run with changed figures. The rate is lower from the
    /// ninth run on.
    fn nightly(home: &Home) {
        let args = ["rr", "--testbed", "loopback", "--time", "100ms", "--warm-up", "0s", "--repeats", "2", "--json"];
        let measured = home.json(args);
        let begun = measured["provenance"]["started_unix_s"].as_f64().expect("a time");
        for night in 0..16_u32 {
            let mut run: Value = measured.clone();
            let noise = 1.0 + 0.002 * f64::from(night * 7 % 5);
            let level = if night < 8 { 1.0 } else { 0.8 };
            for repeat in run["repeats"].as_array_mut().expect("repeats") {
                repeat["rate_per_s"] = json!(1e4 * level * noise);
            }
            run["provenance"]["started_unix_s"] = json!(begun + f64::from(night));
            let file = home.file(&format!("{night}.json"), run.to_string());
            home.stdout(["results", "import", &file, "--name", "nightly"]);
        }
    }

    #[test]
    fn a_change_of_level_is_found_and_fails_a_build() {
        let home = Home::new();
        nightly(&home);
        let trend = home.json(["results", "trend", "nightly", "--json"]);
        assert_eq!(trend["runs"].as_array().map(Vec::len), Some(16), "{trend}");
        let series = trend["series"].as_array().expect("series");
        let changed: Vec<&Value> = series.iter().filter(|one| one["changes"].is_array()).collect();
        assert_eq!(changed.len(), 1, "{trend}");
        let change = &changed[0]["changes"][0];
        assert_eq!((&change["run"], &change["better"]), (&json!(9), &json!(false)), "{change}");
        assert!(change["change"].as_f64().is_some_and(|change| (-0.22..-0.18).contains(&change)), "{change}");
        assert!(change["p"].as_f64().is_some_and(|p| p < 0.05), "{change}");

        let svg = home.text("trend.svg");
        let args = ["results", "trend", "nightly", "--fail-if-slower", "5%", "--svg", &svg];
        let failed = home.netcliff(args).assert().code(1).get_output().clone();
        assert!(String::from_utf8_lossy(&failed.stdout).contains("FAILED: slower by"), "{failed:?}");
        assert!(std::fs::read_to_string(&svg).expect("a figure").starts_with("<svg"));
        home.netcliff(["results", "trend", "nightly", "--fail-if-slower", "30%"]).assert().success();
    }

    #[test]
    fn what_has_no_trend_is_a_sentence() {
        let home = Home::new();
        for (args, says) in [
            (&["results", "trend", "nightly"][..], &["nightly"][..]),
            (&["results", "trend"], &["NAME"]),
            (&["results", "trend", "nightly", "--name", "other"], &["--name other", "results trend nightly"]),
        ] {
            refusal(&home, args, 2, says).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
}
