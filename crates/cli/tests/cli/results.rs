//! `netcliff results`: every kind of run as a page, figure and table; export, import, filters; runs whose process has
//! ended.

use std::path::Path;
use std::process::Stdio;

use crate::common::{Home, refusal};
use netcliff_lab::store::Store;
use serde_json::Value;

const TRANSFERS: &str = "title = \"blocks\"\nkind = \"transfer\"\nrepeats = 2\ntime = \"50ms\"\nwarmup = \"10ms\"\n\
                         [vary]\nblock = [\"1KiB\", \"64KiB\"]\n[figure]\nx = \"block\"\n";

/// Output of `rfc2544` and of an experiment of forwarding, which would take too long to measure here.
const RFC2544: &str = r#"{"kind": "rfc2544", "device": "a router", "tester": "a tester",
    "asked": {"tests": {"throughput": true, "latency": false, "loss": false, "back_to_back": false}, "frames": ["64B"],
        "ipv6": false, "both_ways": false, "flows": 1, "search": "mlr", "trial_s": 1.0, "loss_ratio": 0.0, "width": 0.005,
        "settle_s": 2.0, "rest_s": 5.0, "loss_step": 0.1, "latency_repeats": 20, "burst_repeats": 50},
    "sizes": [{"frame": "64B", "mean_bytes": 64.0, "sender_pps": 1e6, "max_pps": 9.7e5, "limit": "device",
        "throughput": {"found": [{"lower_pps": 4e5, "upper_pps": 4.01e5, "throughput_pps": 4e5, "end": "regular"}],
            "trials": [], "void_trials": 0, "trial_time_s": 9.5},
        "seen": {"trials": 9, "void_trials": 0, "sent": 1000, "duplicates": 0, "reordered": 0, "corrupt": 0}}],
    "limits": [], "notes": [], "provenance": {"version": "0.1.0", "command": "netcliff rfc2544 throughput", "started_unix_s": 5.0}}"#;
const FORWARDING: &str = r#"{"kind": "forwarding", "title": "A router", "rounds": 2, "asked": [["rounds", "2"]],
    "set_ups": [{"name": "plain", "forwarding": "route"}],
    "rows": [{"frame": "64B", "set_up": "plain", "samples": [{"round": 1, "throughput_pps": 4e5, "sender_pps": 1e6, "trials": 3, "trial_time_s": 1.0}], "throughput_pps": {"value": 4e5, "low": 3e5, "high": 5e5, "confidence": 0.95}},
        {"frame": "512B", "set_up": "plain", "samples": [{"round": 1, "throughput_pps": 4e5, "sender_pps": 1e6, "trials": 3, "trial_time_s": 1.0}], "throughput_pps": {"value": 3e5, "low": 2e5, "high": 4e5, "confidence": 0.95}}],
    "not_had": [], "warnings": [], "fingerprint": {}, "partial": false,
    "provenance": {"version": "0.1.0", "command": "netcliff run f.toml", "started_unix_s": 6.0}}"#;

/// A store with a run of each kind that needs no testbed, named by its kind.
fn every_kind(home: &Home) {
    home.stdout(["predict", "--rates", "50kpps,100kpps", "--scheme", "interrupt", "--save", "--name", "predict"]);
    home.stdout([
        "stream",
        "--time",
        "100ms",
        "--warmup",
        "10ms",
        "--cpu-meter",
        "procfs",
        "--save",
        "--name",
        "stream",
    ]);
    home.stdout(["rr", "--testbed", "loopback", "--time", "200ms", "--warm-up", "20ms", "--save", "--name", "rr"]);
    let file = home.file("blocks.toml", TRANSFERS);
    home.stdout(["run", &file, "--testbed", "loopback", "--name", "transfer"]);
    for (name, text) in [("rfc2544", RFC2544), ("forwarding", FORWARDING)] {
        let file = home.file(&format!("{name}.json"), text);
        home.stdout(["results", "import", &file, "--name", name]);
    }
}

#[test]
fn every_kind_of_run_has_a_page_a_table_and_comes_back_from_a_file() {
    let home = Home::new();
    every_kind(&home);
    for kind in ["predict", "stream", "rr", "transfer", "rfc2544", "forwarding"] {
        let page = home.text("page.html");
        let told = home.netcliff(["results", "show", kind, "--html", &page]).output().unwrap();
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success() && said.contains(&format!("page written to {page}")), "{said}");
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains("</html>") && html.contains("<h1>"), "{kind}: {html}");
        let csv = home.stdout(["results", "show", kind, "--csv"]);
        assert!(csv.lines().count() > 1 && csv.lines().next().unwrap().contains(','), "{kind}: {csv}");
        for args in [&["results", "show", kind][..], &["results", "show", kind, "-v"]] {
            assert!(!home.stdout(args).is_empty(), "{kind}");
        }
        let svg = home.text("figure.svg");
        if kind == "stream" {
            refusal(&home, &["results", "show", kind, "--svg", &svg], 2, &["no figure", "--html"]).unwrap();
        } else {
            let told = home.netcliff(["results", "show", kind, "--svg", &svg]).output().unwrap();
            let said = String::from_utf8_lossy(&told.stderr);
            assert!(told.status.success() && said.contains(&format!("figure written to {svg}")), "{said}");
            assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"), "{kind}");
        }
        // Export; a second export is refused, and is done with --force. Then import the file.
        let json = home.text(&format!("{kind}-out.json"));
        home.stdout(["results", "export", kind, "-o", &json]);
        refusal(&home, &["results", "export", kind, "-o", &json], 2, &[&json, "--force"]).unwrap();
        home.stdout(["results", "export", kind, "-o", &json, "--force"]);
        let other = home.text(&format!("{kind}.db"));
        home.stdout(["results", "import", &json, "--db", &other]);
        let values = |db: &[&str]| home.json_lines([&["results", "show", "--json"], db].concat());
        let (there, here) = (values(&["--db", &other]), home.json_lines(["results", "show", kind, "--json"]));
        assert_eq!(there, here, "{kind}");
        let summary = |db: &[&str]| {
            let runs = home.json_lines([&["results", "list", "--json", "--name", kind], db].concat());
            let of = |key: &str| runs[0][key].as_str().map(str::to_owned);
            (runs.len(), of("name"), of("kind"), of("state"))
        };
        assert_eq!(summary(&["--db", &other]), summary(&[]), "{kind}: name, kind and state go with it");
        home.stdout(["results", "import", &json, "--db", &other, "--name", "mine"]);
        let renamed = home.json_lines(["results", "list", "--json", "--db", &other, "--name", "mine"]);
        assert_eq!(renamed.len(), 1, "{kind}: --name comes first");
        home.stdout(["compare", &json, &json]);
    }
}

#[test]
fn all_runs_go_to_a_directory() {
    let home = Home::new();
    for name in ["one", "two"] {
        home.stdout(["predict", "--rate", "50kpps", "--save", "--name", name]);
    }
    let dir = home.text("runs");
    let written = home.stdout(["results", "export", "--all", "-o", &dir]);
    assert_eq!(written.lines().count(), 2, "{written}");
    assert!(Path::new(&dir).join("1-predict-one.json").exists() && written.contains("2-predict-two.json"), "{written}");
    refusal(&home, &["results", "export", "--all", "-o", &dir], 2, &["1-predict-one.json", "--force"]).unwrap();
    refusal(&home, &["results", "export", "-o", &dir], 2, &["RUN"]).unwrap();
    let junk = home.file("junk.json", "{\"a\": 1}");
    refusal(&home, &["results", "import", &junk], 2, &[&junk, "another kind", "--json"]).unwrap();
}

#[test]
fn runs_are_listed_by_what_they_are() {
    let home = Home::new();
    home.stdout(["predict", "--rate", "50kpps", "--save", "--name", "one"]);
    home.stdout(["simulate", "--rate", "50kpps", "--packets", "10000", "--save", "--name", "two"]);
    let ids = |more: &[&str]| -> Vec<i64> {
        let runs = home.json_lines([&["results", "list", "--json"], more].concat());
        runs.iter().filter_map(|run: &Value| run["id"].as_i64()).collect()
    };
    assert_eq!(ids(&[]), [2, 1]);
    assert_eq!(ids(&["--kind", "predict"]), [1]);
    assert_eq!(ids(&["--named", "two"]), [2]);
    assert_eq!(ids(&["--name", "two"]), [2]);
    assert!(ids(&["--kind", "transfer"]).is_empty());
    refusal(&home, &["results", "list", "--kind", "transfers"], 2, &["transfers", "forwarding, transfer, stream"])
        .unwrap();
    refusal(&home, &["results", "show", "--name", "two"], 2, &["--name two", "results show"]).unwrap();
    // For a kind without records, the list shows `-` as their number.
    let file = home.file("rfc2544.json", RFC2544);
    home.stdout(["results", "import", &file]);
    let listed = home.stdout(["results", "list", "--kind", "rfc2544"]);
    let cells: Vec<&str> = listed.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(cells[3..7], ["rfc2544", "-", "done", "-"], "{listed}");
    home.stdout(["results", "rm", "3"]);
    assert!(ids(&["--state", "partial"]).is_empty());
    assert_eq!(ids(&["--state", "done", "--last", "1"]), [2]);
    assert_eq!(ids(&["--since", "1h"]), [2, 1]);
    assert_eq!(ids(&["--since", "2020-01-01"]), [2, 1]);
    assert!(ids(&["--since", "2999-01-01 10:00"]).is_empty());
    assert!(ids(&["--host", "no such machine"]).is_empty());
    refusal(&home, &["results", "list", "--since", "soon"], 2, &["soon", "2026-11-22", "7d"]).unwrap();
    refusal(&home, &["results", "list", "--state", "well"], 2, &["well", "interrupted"]).unwrap();
}

/// A killed run stays in state `running`. It can be removed, and `gc` removes it if it has no results.
#[test]
fn what_a_killed_run_left_can_be_removed() {
    let home = Home::new();
    let db = home.default_db();
    let store = || Store::open(&db).unwrap();
    let under_way = store();
    let run = under_way.begin("find", "netcliff find", 1.0).unwrap();
    refusal(&home, &["results", "rm", &run.to_string()], 2, &["goes on"]).unwrap();
    // A run in progress without a result is not reported as one that will never have a result.
    let out = home.text("out.json");
    for args in [&["results", "export", "1", "-o", &out][..], &["results", "show", "1"]] {
        let said = home.netcliff(args).output().unwrap();
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(
            said.contains("run 1 (find) goes on and has no result yet") && !said.contains("holds nothing"),
            "{said}"
        );
    }
    let said = home.netcliff(["results", "export", "--all", "-o", &home.text("all")]).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("not written: run 1 (find) goes on"), "{said:?}");
    // A killed process releases the lock of its run.
    drop(under_way);
    let listed = home.json_lines(["results", "list", "--json", "--state", "running"]);
    assert_eq!(listed.len(), 1, "it is still said to run");
    let said = home.netcliff(["results", "gc", "--dry-run"]).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("would remove run 1"), "{said:?}");
    home.stdout(["results", "rm", &run.to_string()]);
    assert!(home.json_lines(["results", "list", "--json"]).is_empty());
    // A real one, killed while it simulates.
    let args = ["simulate", "--rate", "50kpps", "--packets", "1000000000", "--save"];
    let mut child = home.command(args).stderr(Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while store().runs().unwrap().is_empty() && begun.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    refusal(&home, &["results", "rm", "last"], 2, &["goes on"]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    home.stdout(["results", "gc"]);
    assert!(home.json_lines(["results", "list", "--json"]).is_empty());
}
