//! The main command on this machine: `netcliff find`, complete, stopped, killed and refused.
//!
//! The runs are as short as possible and the machine may be noisy, so the figures are only checked to be plausible.

use std::time::{Duration, Instant};

use crate::common::running::{Ended, Running, namespaces_of};
use crate::common::{Home, entries, number, number_at};
use crate::schema::printed;
use netcliff_host::testbed::Permission;
use netcliff_testkit::{Need, has, has_namespaces, retried};
use serde_json::Value;

/// Longest permitted duration of a whole short run, in a debug build next to other work.
const WHOLE: Duration = Duration::from_secs(280);
/// Longest wait for an early stage.
const EARLY: Duration = Duration::from_secs(60);
/// Longest permitted time from Ctrl-C to the end.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// The test's turn, because two runs would disturb each other. `None`, reported as skipped, if this machine cannot run
/// it.
fn turn() -> Option<netcliff_testkit::Turn> {
    match has(Need::Cpus) && has_namespaces() {
        false => None,
        true => Some(netcliff_testkit::turn(netcliff_testkit::Shared::Cpus)),
    }
}

/// Named namespaces are made by the host's root only; others vanish with the process.
fn named_namespaces() -> bool {
    Permission::probe() == Permission::Root
}

fn quick(home: &Home, more: &[&str]) -> Running {
    // A small socket buffer, so that the model's chains have few states.
    let short =
        "find --quick --trial 100ms --loss 1e-3 --repeats 1 --searches 3 --socket-buffer 256KiB --seed 3 --json";
    Running::start(home, &short.split(' ').chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Runs to the end and checks that nothing is left behind. Returns the finding.
fn whole(home: &Home, more: &[&str]) -> (Value, Ended) {
    let running = quick(home, more);
    let pid = running.pid();
    let ended = running.end(WHOLE);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}: {}", ended.status, ended.stderr);
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces left behind");
    assert_eq!(entries(&home.state().join("journal")), [""; 0], "a journal left behind");
    let finding = printed(&ended.stdout, &ended.stderr);
    let measured = finding["cliff_pps"]["wire"].is_object() || finding["cliff_pps"]["wire"].is_number();
    assert_eq!(
        ended.status.code(),
        Some(if measured { 0 } else { 1 }),
        "the exit code says whether a cliff was measured"
    );
    assert_eq!(finding["partial"], false);
    (finding, ended)
}

/// True if `missing` gives a reason for one of these figures.
fn explained(finding: &Value, figures: &[String]) -> bool {
    let missing = finding["missing"].as_array().expect("missing is a list");
    missing.iter().any(|entry| {
        assert!(entry["why"].as_str().is_some_and(|why| why.len() > 10), "a reason: {entry}");
        entry["figure"] == "everything measured" || figures.iter().any(|figure| entry["figure"] == figure.as_str())
    })
}

/// Every figure is present and plausible, or is reported as missing with the reason.
fn check_figures(finding: &Value) {
    for name in ["cliff_pps", "peak_pps", "livelock"] {
        for engine in ["model", "sim", "wire"] {
            match number(&finding[name][engine]) {
                Some(value) => assert!(value > 0.0 || name == "livelock", "{name}.{engine} = {value}"),
                None => {
                    let reasons = [name, "sweep", "cliff_pps"].map(|group| format!("{group}.{engine}"));
                    assert!(explained(finding, &reasons), "{name}.{engine}: {}", finding["missing"]);
                }
            }
        }
    }
    for point in finding["sweep"].as_array().expect("sweep is a list") {
        let offered = number(&point["outcome"]["offered_pps"]).unwrap_or(0.0).max(number_at(point, "/load_pps"));
        let delivered = number_at(point, "/outcome/throughput_pps");
        assert!((0.0..=1.01 * offered).contains(&delivered), "{delivered} of {offered} pps: {point}");
        for (share, value) in point["outcome"]["cpu"].as_object().into_iter().flatten() {
            let value = number(value).expect("a share");
            assert!((-1e-9..=1.0 + 1e-9).contains(&value), "{share} = {value}: {point}");
        }
    }
}

fn check_sweep_reaches_twice_the_cliff(finding: &Value) {
    let Some(cliff) = number(&finding["cliff_pps"]["wire"]) else { return };
    let points = finding["sweep"].as_array().expect("sweep is a list").iter().filter(|point| point["engine"] == "wire");
    let highest = points.map(|point| number_at(point, "/load_pps")).fold(0.0, f64::max);
    let enough = highest >= 1.999 * cliff;
    assert!(
        enough || explained(finding, &["sweep.wire".to_owned()]),
        "{highest} of {cliff} pps: {}",
        finding["missing"]
    );
}

fn check_page(path: &std::path::Path) {
    let page = std::fs::read_to_string(path).expect("the page was written");
    assert!(page.trim_end().ends_with("</html>"), "it is whole");
    // The one link leads to the explorer of this host, and nothing is fetched from it.
    let explorer = "href=\"http://127.0.0.1:9941/#";
    assert!(page.matches(explorer).count() <= 1, "the page asks what if once, where it has costs");
    let page = page.replace(explorer, "");
    for outside in ["src=\"http", "href=\"http", "<link", "@import", "url(", "<script src"] {
        // Curves are clipped at the frame of their figure. `url(#...)` refers to this frame, which is a part of the
        // page.
        assert!(!page.replace("url(#", "").contains(outside), "self-contained pages have no {outside}");
    }
}

#[test]
fn a_whole_run() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let (db, page) = (home.text("records.db"), home.path("page.html"));
    let (finding, ended) =
        whole(&home, &["--db", &db, "--html", &page.display().to_string(), "--try-suggestions", "--live"]);
    for key in ["host", "calibration", "cliff_pps", "peak_pps", "livelock", "sweep", "fingerprint", "missing"] {
        assert!(finding.get(key).is_some(), "{key}");
    }
    check_figures(&finding);
    check_sweep_reaches_twice_the_cliff(&finding);
    assert!(finding["calibration"].is_object() || explained(&finding, &["calibration".to_owned()]));
    assert!(finding["host"]["testbed"].as_str().unwrap().starts_with("netns"));
    assert!(finding["fingerprint"]["kernel.release"].is_string(), "{}", finding["fingerprint"]);
    assert_eq!(finding["provenance"]["seed"], 3);
    assert!(finding["provenance"]["command"].as_str().unwrap().starts_with("netcliff find --quick --trial 100ms"));
    check_page(&page);
    let tried = finding["suggestions"].as_array().expect("a list").iter().find_map(|one| one.get("tried"));
    match tried {
        Some(tried) => assert!(tried["rounds"] == 3 && number_at(tried, "/with_pps") > 0.0, "{tried}"),
        None => assert!(explained(&finding, &["suggestions.tried".to_owned()]), "{}", finding["missing"]),
    }
    assert!(ended.stderr.contains(&format!("Report: {}", page.display())), "{}", ended.stderr);
    crate::live::documented_beside(&ended.stderr, "find", &["stage", "trial", "record"]);

    let runs = home.json_lines(["results", "list", "--json", "--db", &db]);
    assert_eq!((&runs[0]["kind"], &runs[0]["state"]), (&"find".into(), &"done".into()));
    assert_eq!(runs[0]["fingerprint_id"], finding["provenance"]["fingerprint_id"]);
    assert!(finding["calibration"].is_null() || runs[0]["records"].as_i64().unwrap() > 10, "{runs:?}");
    assert_eq!(home.json(["results", "show", "--json", "--db", &db]), finding);
    let rows = home.stdout(["results", "show", "--csv", "--db", &db]).lines().count() as i64;
    assert_eq!(rows, runs[0]["records"].as_i64().unwrap() + 1);
    assert!(!home.stdout(["results", "show", "--db", &db]).is_empty());
    assert!(!home.default_db().exists(), "another store was asked for");
    check_headroom(&home, &finding, &db);
}

/// Over IPv6 the whole run is made with longer frames, and drops are attributed by IPv6's counters.
#[test]
fn a_whole_run_over_ipv6() {
    let Some(_turn) = turn() else { return };
    if !has(Need::Ipv6) {
        return;
    }
    let home = Home::new();
    let (finding, _) = whole(&home, &["--testbed", "netns", "-6"]);
    check_figures(&finding);
    let setup = &finding["setup"];
    assert_eq!((&setup["ipv6"], &setup["traffic"]["size"]), (&true.into(), &"84B".into()), "{setup}");
    assert_eq!(finding["generator"]["frame_bytes"], 84);
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.starts_with("netns") && testbed.ends_with(", IPv6"), "{testbed}");
    assert!(number(&finding["cliff_pps"]["wire"]).is_none_or(|pps| pps > 1e3), "{}", finding["cliff_pps"]);
    if finding["ledger"].is_object() {
        let ledger = &finding["ledger"];
        let [sent, delivered] = ["/sent", "/delivered"].map(|key| number_at(ledger, key));
        let unexplained = number(&ledger["unexplained"]).unwrap_or(0.0);
        assert!(delivered > 0.0 && unexplained.abs() <= 0.1 * (sent - delivered).max(1000.0), "{ledger}");
    }
    let other = home.json(["results", "show", "--json"]);
    assert_eq!(other["setup"]["ipv6"], true, "the store has it");
}

/// The distance to the measured cliff, by `headroom` and for Prometheus. Other programs during the test count as load
/// too.
fn check_headroom(home: &Home, finding: &Value, db: &str) {
    if finding["calibration"].is_null() {
        return;
    }
    // Name the run: on a busy machine its trials may be void, and headroom would not choose it.
    home.stdout(["results", "calibrate", "1", "--db", db]);
    let near = home.json(["headroom", "--json", "--interval", "500ms", "--db", db]);
    let (run, cliff) = (&near["run"], number_at(&near, "/cliff_pps"));
    assert!(*run == 1 && cliff > 0.0 && number_at(&near, "/share") >= 0.0, "{near}");
    assert!(near["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{near}");
    assert!(home.stdout(["headroom", "--interval", "500ms", "--db", db]).contains("% of"), "for people");

    let file = home.text("netcliff.prom");
    home.stdout(["watch", "--once", "--interval", "500ms", "--metrics-file", &file, "--db", db]);
    let text = std::fs::read_to_string(&file).expect("metrics");
    let of_cliff = text.lines().find_map(|line| line.strip_prefix("netcliff_cliff_packets_per_second "));
    let told: f64 = of_cliff.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!((told / cliff - 1.0).abs() < 1e-9 && text.contains("\nnetcliff_host_cliff_ratio "), "{told} {cliff}");
}

/// Tests loopback and `--cpu-meter procfs` in one run, because each run takes the machine for a quarter of a minute.
#[test]
fn on_loopback_without_exact_accounting() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let (finding, _) = whole(&home, &["--testbed", "loopback", "--cpu-meter", "procfs"]);
    check_figures(&finding);
    assert!(finding["host"]["testbed"].as_str().unwrap().starts_with("loopback"));
    let limits = finding["host"]["limits"].to_string();
    assert!(limits.contains("loopback") || limits.contains("127.0.0.1"), "what it costs: {limits}");
    // The page is in the directory of the records.
    let reports = home.default_db().with_file_name("reports");
    check_page(&reports.join(entries(&reports).first().expect("a page in the data directory")));

    assert!(finding["calibration"].is_null());
    assert!(explained(&finding, &["calibration".to_owned()]), "{}", finding["missing"]);
    assert!(number(&finding["cliff_pps"]["wire"]).is_some() || explained(&finding, &["cliff_pps.wire".to_owned()]));
    let wire = finding["sweep"].as_array().unwrap().iter().filter(|point| point["engine"] == "wire").count();
    assert!(wire > 0, "the loads are measured all the same");
}

/// Stops a run by Ctrl-C in a stage. Returns its finding. On a busy machine calibration may fail, and later stages are
/// then missing: in at most one run of ten, so that three in a row are a fault (a false alarm in 1e3 runs).
fn stopped_in(home: &Home, stage: &str, more: &[&str]) -> Value {
    let running = retried(3, &format!("no stage {stage:?}"), || {
        let mut running = quick(home, more);
        running.reaches(stage, WHOLE).then_some(running)
    });
    let pid = running.pid();
    std::thread::sleep(Duration::from_millis(400));
    running.signal("INT");
    let asked = Instant::now();
    let ended = running.end(Duration::from_secs(30));
    let took = asked.elapsed();
    assert_eq!(ended.status.code(), Some(1), "{stage}: {}", ended.stderr);
    assert!(took < STOPPED_WITHIN, "{stage}: {took:?}");
    assert!(ended.stderr.contains("stopping"), "{}", ended.stderr);
    assert_eq!(namespaces_of(pid), [""; 0], "{stage}");
    assert_eq!(entries(&home.state().join("journal")), [""; 0], "{stage}");
    let finding = printed(&ended.stdout, &ended.stderr);
    assert_eq!(finding["partial"], true, "{stage}");
    finding
}

fn check_stop_in(stage: &str, more: &[&str]) {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let finding = stopped_in(&home, stage, more);
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!(runs[0]["state"], "partial");
    assert_eq!(home.json(["results", "show", "--json"]), finding);
}

#[test]
fn ctrl_c_before_anything_is_measured() {
    check_stop_in("measuring the sender", &[]);
}

#[test]
fn ctrl_c_while_calibrating() {
    check_stop_in("calibrating", &[]);
}

#[test]
fn ctrl_c_while_simulating() {
    check_stop_in("predicting and simulating", &[]);
}

#[test]
fn ctrl_c_while_measuring_keeps_what_was_measured() {
    // With ticks nothing is calibrated or predicted, so the sweep starts soon.
    check_stop_in("sweeping", &["--cpu-meter", "procfs"]);
}

#[test]
fn the_next_start_cleans_up_after_a_kill() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let mut killed = quick(&home, &["--no-store"]);
    let pid = killed.pid();
    killed.until("rough cliff", EARLY);
    killed.signal("KILL");
    killed.end(EARLY);
    if named_namespaces() {
        assert_eq!(namespaces_of(pid).len(), 2, "a killed run cannot clean up");
    }
    let mut next = quick(&home, &["--no-store"]);
    next.until("measuring the sender", EARLY);
    assert_eq!(namespaces_of(pid), [""; 0], "the next start does");
    let next_pid = next.pid();
    next.signal("INT");
    next.end(EARLY);
    assert_eq!(namespaces_of(next_pid), [""; 0]);
    assert_eq!(entries(&home.state().join("journal")), [""; 0]);
}

#[test]
fn two_at_once_are_one_too_many() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let mut first = quick(&home, &[]);
    first.until("measuring the sender", EARLY);
    let second = quick(&home, &[]).end(EARLY);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(second.stdout, "");
    let names_pid = format!("pid {}", first.pid());
    assert!(second.stderr.contains("another netcliff") && second.stderr.contains(&names_pid), "{}", second.stderr);
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!(runs.len(), 1, "the refused run is not kept: {runs:?}");
    first.signal("INT");
    assert_eq!(first.end(EARLY).status.code(), Some(1));
}

/// Impossible options are refused before the testbed is built, and leave nothing in the store.
#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let home = Home::new();
    for (args, words) in [
        (["--host-cpu", "8000"], ["CPU 8000 cannot be used", "choose one of these"]),
        (["--width", "0%"], ["width = 0%", "above 0%"]),
        (["--exceed", "100%"], ["exceed ratio = 100%", "below 100%"]),
        (["--traffic", "pcap:/no/such"], ["/no/such", "No such file"]),
        (["--traffic", "pcap:/etc/hosts"], ["/etc/hosts", "neither pcap nor pcapng"]),
        (["--ipv6", "--size=64B"], ["frames of 64 B: with headers of IPv6", "84B or more"]),
        (["-6", "--check=size=80B"], ["frames of 80 B: with headers of IPv6", "84B or more"]),
        (["-6", "--testbed=vm:e1000e"], ["--ipv6: a guest has IPv4 only", "--testbed netns"]),
    ] {
        let out = home.netcliff([&["find", "--quick"], &args[..]].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)) && said.lines().count() == 1, "{args:?}: {said}");
        assert!(out.stdout.is_empty());
    }
    assert_eq!(home.json_lines(["results", "list", "--json"]).len(), 0, "no run is kept");
}

#[test]
fn no_store_keeps_nothing() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let mut running = quick(&home, &["--no-store"]);
    running.until("measuring the sender", EARLY);
    running.signal("INT");
    let ended = running.end(EARLY);
    assert_eq!(ended.status.code(), Some(1));
    assert!(!ended.stdout.is_empty(), "the finding is printed");
    assert_eq!(entries(&home.path("data")), [""; 0], "neither a store nor a page");
    assert_eq!(entries(&home.path("")).iter().filter(|name| name.contains("find")).count(), 0, "nor a file elsewhere");
}
