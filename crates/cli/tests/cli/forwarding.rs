//! `netcliff run` of forwarding: measured through real routers, drawn, stored, refused.

use std::time::Duration;

use crate::common::running::{Ended, Running, namespaces_of};
use crate::common::{Home, entries};
use crate::schema::printed;
use netcliff_testkit::{Need, has};

const PATIENCE: Duration = Duration::from_secs(120);

/// The trials are very short: they show that the command works, not how fast this machine is.
const SMALL: &str = r#"
title = "small"
kind = "forwarding"
rounds = 2
sizes = ["64B", "512B"]
trial = "10ms"
rest = "0s"
width = "40%"

[[set-up]]
name = "plain"
forwarding = "netfilter"
rules = 50

[[set-up]]
name = "tuned"
tune = "throughput"
"#;

#[test]
fn set_ups_are_measured_kept_and_shown_again() {
    if !has(Need::Nftables) {
        return;
    }
    let home = Home::new();
    let (file, page) = (home.file("small.toml", SMALL), home.text("page.html"));
    let args = ["run", &file, "--sizes", "64B", "--json", "--html", &page];
    let run = Running::start(&home, &args);
    let pid = run.pid();
    let Ended { stdout, stderr: said, .. } = run.end(PATIENCE);
    let found = printed(&stdout, &said);
    assert_eq!((&found["kind"], &found["rounds"]), (&"forwarding".into(), &2.into()));
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{found}");
    for row in rows {
        assert_eq!(row["frame"], "64B");
        // A loaded machine may lose frames at any load. Therefore a sample has a figure or a reason why the figure is
        // missing.
        for sample in row["samples"].as_array().expect("samples") {
            assert!(sample["throughput_pps"].as_f64().is_some_and(|pps| pps > 0.0) || sample["missing"][0].is_string());
        }
    }
    let tuned = &found["set_ups"][1]["about"];
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) && tuned.is_object() {
        let steered = tuned["settings"].as_array().expect("settings");
        assert_eq!(steered.len(), 2, "both of the router's ports are steered: {tuned}");
        assert!(steered.iter().all(|change| change["name"].as_str().is_some_and(|name| name.ends_with("rps_cpus"))));
        assert_eq!(tuned["shared"], false, "{tuned}");
    }
    assert_eq!(found["set_ups"][0]["about"]["shared"], true);
    let html = std::fs::read_to_string(page).expect("the page is written");
    assert!(html.contains("as figure 11 of Gasparakis and Waskiewicz 2010") && html.contains("<svg"), "no picture");
    let shown = home.stdout(["results", "show"]);
    for part in ["small", "THROUGHPUT", "AGAINST PLAIN", "SET-UPS"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces are left");
    assert!(entries(&home.state().join("journal")).is_empty(), "the journal is not empty");
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    if !has(Need::Nftables) {
        return;
    }
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let run = ["run", &file, "--sizes", "64B", "--json"];
    let mut first = Running::start(&home, &run);
    // The first round is stored when the second begins.
    first.until("round 2 of 2", PATIENCE);
    first.signal("KILL");
    drop(first);
    let kept = home.json(["results", "show", "1", "--json"]);
    let resumed = Running::start(&home, &[&run[..], &["--resume"]].concat()).end(PATIENCE);
    let said = &resumed.stderr;
    assert!(said.contains("run 1 goes on after 2 searches") && !said.contains("round 1 of 2"), "{said}");
    let found = printed(&resumed.stdout, &resumed.stderr);
    for (row, before) in found["rows"].as_array().expect("rows").iter().zip(kept["rows"].as_array().expect("rows")) {
        let rounds = row["samples"].as_array().expect("samples");
        assert_eq!(rounds.iter().map(|sample| sample["round"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert_eq!(rounds[0], before["samples"][0], "it is the one of the run that was killed");
    }
    let other = Running::start(&home, &[&run[..], &["--resume", "--repeats", "1"]].concat()).end(PATIENCE);
    assert!(other.stderr.contains("no unfinished run"), "other settings are another run: {}", other.stderr);
    assert!(entries(&home.state().join("journal")).is_empty(), "the journal is not empty");
}

#[test]
fn wrong_usage_is_named_with_what_is_accepted() {
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let magic = home.file("magic.toml", SMALL.replace("netfilter", "magic").replace("rules = 50", ""));
    let many = home.file("many.toml", SMALL.replace("rules = 50", "rules = 501"));
    let roofline = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/roofline.toml");
    for (args, words) in [
        (&["run", &file, "--engine", "sim"][..], &["--engine", "--sizes"][..]),
        (&["run", &file, "--threads", "2"], &["--threads"]),
        (&["run", &file, "--sizes", "imix"], &["imix", "64B"]),
        (&["run", &file, "--sizes", "63B"], &["63"]),
        (&["run", &magic], &["magic", "netfilter"]),
        (&["run", &many], &["many.toml: rules = 501", "1 to 500"]),
        (&["run", &file, "--html", "/"], &["cannot write /: is a directory", "name a file"]),
        (&["run", &file, "--svg", "no/such/place.svg"], &["cannot write no/such/place.svg: No such file"]),
        (&["run", &file, "--sizes", "64B,64B"], &["small.toml: frame size = 64B twice", "each size once"]),
        (&["run", &file, "--time", "5ms"], &["small.toml: trial = 5ms", "10ms to"]),
        (&["run", roofline, "--sizes", "64B"], &["--sizes", "forwarding"]),
    ] {
        let out = home.netcliff(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
    }
}
