//! `netcliff run`: a file becomes records and a figure. A killed run continues without losing or repeating a point.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::running::Running;
use crate::common::{Home, number_at, refusal, refusals};
use netcliff_lab::store::Store;
use serde_json::Value;

/// Two schemes by model and simulator; the model has no answer for the second.
const SMALL: &str = r#"
title = "Small"
engines = ["model", "sim"]
schemes = ["interrupt", "napi:threaded=true"]
names = ["normal", "threaded napi"]
packets = 20_000

[host]
preset = "pentium4-2530mhz"

[traffic]
rates = "20kpps..260kpps:7,127kpps"

[[mark]]
y = "127kpps"
label = "cliff"
source = "eq. (13)"
on = "normal"
tolerance = "5%"
"#;

/// A record without what differs between two runs of one point.
fn essence(record: &Value) -> Value {
    let mut record = record.clone();
    let provenance = record["provenance"].as_object_mut().expect("provenance");
    for key in ["elapsed_s", "started_unix_s", "command"] {
        provenance.remove(key);
    }
    record
}

fn essences(records: &[Value]) -> Vec<Value> {
    records.iter().map(essence).collect()
}

#[test]
fn a_file_becomes_records_and_a_figure() {
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let (html, svg) = (home.text("small.html"), home.text("small.svg"));
    let page = home.stdout(["run", &file, "--html", &html, "--svg", &svg]);
    for part in [
        "Small",
        "normal",
        "threaded napi",
        "STATED VALUES",
        "within the tolerance",
        "POINTS WITHOUT A VALUE",
        "8 points",
        "simulator",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let html = std::fs::read_to_string(home.path("small.html")).unwrap();
    let svg = std::fs::read_to_string(home.path("small.svg")).unwrap();
    assert!(html.contains("</html>") && html.contains("offered load [kpps]") && html.contains("eq. (13)"));
    assert!(!html.contains("http://") || html.matches("http://").count() == html.matches("http://www.w3.org").count());
    assert!(svg.starts_with("<svg") && svg.contains("throughput [kpps]"));
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!((runs[0]["kind"].as_str(), runs[0]["state"].as_str()), (Some("run"), Some("done")));
    assert_eq!(runs[0]["records"], 24, "the model answers one scheme of two");
}

#[test]
fn json_is_one_record_a_line_and_the_number_of_threads_changes_nothing() {
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let one = home.json_lines(["run", &file, "--json", "--threads", "1"]);
    let three = home.json_lines(["run", &file, "--json", "--threads", "3"]);
    assert_eq!(one.len(), 24);
    assert_eq!(essences(&one), essences(&three));
    assert_eq!(one[0]["engine"], "model");
    assert_eq!(one[0]["provenance"]["settings"]["curve"], "normal");
    assert!(number_at(&one[8], "/outcome/throughput_pps") > 0.0);
    let seeded = home.json_lines(["run", &file, "--json", "--engine", "sim", "--seed", "5", "--packets", "5000"]);
    assert_eq!(seeded.len(), 16);
    assert_eq!(seeded[0]["provenance"]["seed"], 5);
    assert_ne!(seeded[0]["outcome"], one[8]["outcome"]);
    let csv = home.stdout(["run", &file, "--csv", "--engine", "model"]);
    assert_eq!(csv.lines().count(), 9);
}

#[test]
fn chosen_points_are_answered_and_the_others_stay_open() {
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let whole = home.json_lines(["run", &file, "--json", "--db", &home.text("whole.db")]);
    // Points 0 to 7 are the first scheme by the model, points 8 to 15 the first scheme by the simulator.
    let some = home.json_lines(["run", &file, "--json", "--points", "9,3"]);
    assert_eq!(essences(&some), [essence(&whole[3]), essence(&whole[9])]);
    let rest = home.json_lines(["run", &file, "--json", "--resume"]);
    assert_eq!(essences(&rest), essences(&whole));
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!((runs.len(), runs[0]["state"].as_str()), (1, Some("done")), "taken up");
    let refused: &[(&[&str], &[&str])] = &[
        (&["run", &file, "--points", "32"], &["--points 32", "32 points", "from 0 to 31"]),
        (&["run", &file, "--points", "1.5"], &["--points", "'1.5'", "whole number"]),
        (&["run", "mlfrr", "--points", "1"], &["--points", "mlfrr", "no experiment of points"]),
    ];
    refusals(&home, 2, refused);
}

/// Enough points to kill the run in the middle: 52 simulated ones of a tenth of a second each. They are below
/// saturation, above which replications are up to 64 times as long.
fn long() -> String {
    SMALL.replace("packets = 20_000", "packets = 400_000").replace("20kpps..260kpps:7", "20kpps..110kpps:25")
}

fn records_in(db: &Path) -> usize {
    let count = |store: Store| store.runs().ok().and_then(|runs| runs.first().map(|run| run.records as usize));
    // `open` would make the store, and remove it again under the run that has just opened it.
    Store::open_to_read(db).ok().and_then(count).unwrap_or(0)
}

fn wait_for_records(db: &Path, wanted: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while records_in(db) < wanted {
        assert!(Instant::now() < deadline, "{} of {wanted} records", records_in(db));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_that_was_killed_goes_on_without_losing_or_repeating_a_point() {
    let home = Home::new();
    let file = home.file("long.toml", long());
    let db = home.path("killed.db");
    let args = ["run", &file, "--db", &home.text("killed.db"), "--threads", "2", "--json"];
    let running = Running::start(&home, &args);
    // The 26 points of the model are there at once; then some of the 52 of the simulator.
    wait_for_records(&db, 30);
    running.signal("KILL");
    let ended = running.end(Duration::from_secs(10));
    assert!(ended.stdout.is_empty());
    let (kept, runs) = {
        let store = Store::open(&db).unwrap();
        let runs = store.runs().unwrap();
        (store.task_records(runs[0].id).unwrap(), runs)
    };
    assert_eq!((runs.len(), runs[0].state.as_str()), (1, "running"));
    assert!((30..78).contains(&kept.len()), "{}", kept.len());

    let output = home.netcliff([&args[..], &["--resume"]].concat()).assert().success().get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("goes on after {} of 104 points", kept.len())), "{said}");
    let resumed: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whole = home.json_lines(["run", &file, "--db", &home.text("whole.db"), "--json"]);
    assert_eq!(whole.len(), 78);
    assert_eq!(essences(&resumed), essences(&whole));

    let store = Store::open(&db).unwrap();
    let after = store.task_records(runs[0].id).unwrap();
    assert_eq!(after.len(), 78);
    assert_eq!(store.records(runs[0].id).unwrap().len(), 78, "none twice");
    for (task, record) in &kept {
        assert_eq!(&after[task], record, "task {task} was run again");
    }
    assert_eq!(store.run(runs[0].id).unwrap().unwrap().state, "done");
    // The run is finished, so another --resume starts a new one.
    let again = home.netcliff([&args[..], &["--resume"]].concat()).assert().success().get_output().clone();
    assert!(String::from_utf8_lossy(&again.stderr).contains("no unfinished run"));
}

#[test]
fn a_stop_keeps_what_was_had_and_another_netcliff_does_not_take_the_run() {
    let home = Home::new();
    let file = home.file("long.toml", long());
    let (db, path) = (home.path("stopped.db"), home.text("stopped.db"));
    let args = ["run", &file, "--db", &path, "--threads", "1"];
    let running = Running::start(&home, &args);
    wait_for_records(&db, 27);
    refusal(&home, &[&args[..], &["--resume"]].concat(), 1, &["run 1", "under way"]).unwrap_or_else(|w| panic!("{w}"));
    running.signal("INT");
    let ended = running.end(Duration::from_secs(5));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("PARTIAL"), "{}", ended.stdout);
    let store = Store::open(&db).unwrap();
    assert_eq!(store.runs().unwrap()[0].state, "interrupted");
    assert!(records_in(&db) >= 27);
    // Other settings are another run.
    let other = [&args[..], &["--resume", "--packets", "1000"]].concat();
    let output = home.netcliff(other).assert().success().get_output().clone();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no unfinished run"));
    assert_eq!(store.runs().unwrap().len(), 2);
}

#[test]
fn what_no_engine_answers_is_listed_and_the_rest_goes_on() {
    let home = Home::new();
    // The wire cannot run the scheme `interrupt`; whether there is a testbed does not matter for that.
    let text = SMALL.replace("[\"model\", \"sim\"]", "[\"model\", \"wire\"]");
    let file = home.file("wire.toml", text);
    let page = home.stdout(["run", &file]);
    let missing = &page[page.find("POINTS WITHOUT A VALUE").expect("a list of what was not computed or measured")..];
    assert!(missing.contains("normal, measured, 8 points"), "{page}");
    assert!(missing.contains("threaded napi, model (exact), 8 points"), "{page}");
    let states: BTreeMap<String, Value> = home
        .json_lines(["results", "list", "--json"])
        .into_iter()
        .map(|run| (run["kind"].to_string(), run["state"].clone()))
        .collect();
    assert_eq!(states["\"run\""], "done");
}

#[test]
fn formulas_are_drawn_without_a_store() {
    let home = Home::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/mlfrr.toml");
    let page = home.stdout(["run", file, "--html", &home.text("mlfrr.html")]);
    assert!(page.contains("interrupts, eq. (1)") && page.contains("delivered load [kpps]"), "{page}");
    assert!(std::fs::read_to_string(home.path("mlfrr.html")).unwrap().contains("</svg>"));
    let points = home.json_lines(["run", file, "--json"]);
    assert_eq!(points.len(), 4 * 100);
    assert_eq!((points[0]["kind"].as_str(), points[0]["offered_pps"].as_f64()), (Some("mlfrr"), Some(2000.0)));
    let csv = home.stdout(["run", file, "--csv"]);
    assert_eq!(csv.lines().next(), Some("curve,offered_pps,delivered_pps"));
    assert!(!home.default_db().exists(), "nothing is kept");
}

/// One command writes one table. A second run replaces only its own rows. A file that cannot be run has a row with the
/// reason.
#[test]
fn claims_of_several_files_are_one_table() {
    let home = Home::new();
    let (small, page) = (home.file("small.toml", SMALL), home.text("claims.md"));
    let guest = "engines = [\"wire\"]\n[[device]]\ntestbed = \"vm:e1000e\"\nsettings = [\"rx-usecs=no\"]\n[traffic]\n\
                 rates = \"2kpps,5kpps\"\n[[mark]]\nx = \"5kpps\"\ny = \"5kpps\"\nlabel = \"delivers\"\nsource = \"s\"\n\
                 on = \"rx-usecs=no\"\ntolerance = \"5%\"\n";
    // A mark that can never fail is refused before any file is run.
    let guest_file = home.file("guest.toml", guest);
    let binary = home.text("binary.md");
    std::fs::write(&binary, [0xff, 0xfe, 0]).expect("a file");
    refusals(
        &home,
        2,
        &[
            (&["run", &small, &guest_file, "--claims", &page], &["delivers", "what is offered"]),
            (&["run", &small, "mlfrr"], &["2 files", "--claims"]),
            (&["run", &small, "--csv", "out.txt"], &["out.txt is taken for an experiment", "--csv=out.txt"]),
            (&["run", "--csv", &small, "mlfrr"], &["2 files", "--claims"]),
            (&["run", &small, "mlfrr", "--claims", &binary], &["--claims", &binary, "cannot be read"]),
            (&["run", &small, "--claims", "/dev/null"], &["--claims", "/dev/null"]),
        ],
    );
    let guest_file = home.file("guest.toml", guest.replace("x = \"5kpps\"\n", ""));
    std::fs::write(&page, "# Ours\n\nBefore.\n").expect("a page");
    let both = home.command(["run", &small, &guest_file, "mlfrr", "--claims", &page]).output().expect("it runs");
    assert_eq!(both.status.code(), Some(1), "one of them failed");
    let first = std::fs::read_to_string(&page).expect("a page");
    assert!(first.starts_with("# Ours\n\nBefore.\n\nComparisons: "), "{first}");
    assert!(first.contains("\n## `small`\n\nRun 20"), "{first}");
    assert!(first.contains("| cliff (eq. (13))<br>*throughput 127 kpps* | yes: model (exact) "), "{first}");
    let guests = first.split_once("\n## `guest`\n").expect("a section of what was not run").1;
    let row = guests.lines().find(|line| line.starts_with("| delivers")).expect("a row of what was not run");
    assert!(row.contains(" | not run | ") && row.contains("rx-usecs: cannot read \"no\""), "{row}");
    assert!(
        first.contains("\n## `mlfrr`\n") && first.contains(" | no: ") && first.contains(" | a misprint"),
        "{first}"
    );
    home.stdout(["run", "mlfrr", "--claims", &page]);
    assert_eq!(std::fs::read_to_string(&page).expect("a page"), first, "the same rows again");
}
