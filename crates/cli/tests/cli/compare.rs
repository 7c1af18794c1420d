//! `netcliff compare`: runs of the store and files, the limit that fails a build, and what cannot be compared.

use crate::common::{Home, refusals};
use crate::schema::printed;
use serde_json::{Value, json};

const SHORT: [&str; 9] = ["--time", "100ms", "--warmup", "10ms", "--cpu-meter", "procfs", "--repeats", "2", "--save"];

/// A stream's report with repeats of these goodputs (bit/s).
fn file(home: &Home, name: &str, goodputs: &[f64]) -> String {
    let samples: Vec<Value> = goodputs.iter().map(|bps| json!({"goodput_bps": bps})).collect();
    let row = json!({"path": "write", "block_bytes": 1024, "repeats": goodputs.len(), "samples": samples,
        "goodput_bps": null, "sender_bps": null, "receiver_bps": null, "sends_per_s": null, "bytes_per_receive": null,
        "sender_cpu": {"busy": null, "us_per_kib": null, "kernel_share": null},
        "receiver_cpu": {"busy": null, "us_per_kib": null, "kernel_share": null}, "system": [],
        "system_us_per_kib": null});
    let provenance = json!({"version": "0", "command": "netcliff stream", "started_unix_s": 0.0});
    let report = json!({"asked": [], "in_force": [["congestion", name]], "clock": "receiver", "rows": [row],
        "not_had": [], "warnings": [], "cpu_methods": [], "fingerprint": {"kernel.release": name},
        "provenance": provenance, "partial": false});
    home.file(name, report.to_string())
}

#[test]
fn runs_of_the_store_are_compared_and_a_run_is_like_itself() {
    let home = Home::new();
    for _ in 0..2 {
        home.stdout([&["stream", "--block", "1KiB"][..], &SHORT].concat());
    }
    let found = home.json(["compare", "last~1", "last", "--json"]);
    assert_eq!(
        (&found["kind"], &found["a"]["name"], &found["b"]["name"]),
        (&json!("stream"), &json!("run 1"), &json!("run 2"))
    );
    let rows = found["rows"].as_array().expect("rows");
    assert!(
        rows.iter().any(|row| row["figure"] == "goodput_bps" && row["point"] == "write 1KiB" && row["a_repeats"] == 2)
    );
    assert!(rows.iter().all(|row| row["p"].as_f64().is_none_or(|p| (0.0..=1.0).contains(&p))), "{found}");
    // With a limit of 0 %, a comparison is inconclusive even between a run and itself.
    let same = home.netcliff(["compare", "2", "2", "--json", "--fail-if-slower", "0%"]).output().expect("it runs");
    assert_eq!(same.status.code(), Some(3));
    let same = printed(&same.stdout, &same.stderr);
    assert_eq!((&same["failed"], &same["changed"]), (&json!(false), &json!([])));
    assert_eq!(same["gate"]["outcome"], "inconclusive", "{same}");
    let page = home.stdout(["compare", "1", "2"]);
    assert!(page.contains("OTHER DIFFERENCES") && page.contains("goodput") && page.lines().count() <= 40, "{page}");
    let first = page.split("\n  A ").next().unwrap_or_default().replace('\n', " ");
    assert!(first.contains("2 tested figures") || first.contains("tested figure"), "the answer comes first: {page}");
    assert!(home.stdout(["compare", "1", "2", "-v"]).contains("Holm"));
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn runs_go_by_their_names() {
    let home = Home::new();
    for name in ["old-kernel", "new-kernel", "new-kernel"] {
        home.stdout([&["stream", "--block", "1KiB", "--name", name][..], &SHORT].concat());
    }
    let found = home.json(["compare", "old-kernel", "new-kernel", "--json"]);
    assert_eq!(
        (&found["a"]["name"], &found["b"]["name"]),
        (&json!("run 1 (old-kernel)"), &json!("run 3 (new-kernel)"))
    );
    assert_eq!(home.json(["compare", "new-kernel~1", "last", "--json"])["a"]["name"], "run 2 (new-kernel)");
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!(
        runs.iter().map(|run| run["name"].as_str()).collect::<Vec<_>>(),
        [Some("new-kernel"), Some("new-kernel"), Some("old-kernel")]
    );
    let experiment = home
        .file("tiny.toml", "kind = \"transfer\"\nrepeats = 1\ntime = \"50ms\"\n[vary]\nblock = [\"1KiB\", \"2KiB\"]\n");
    home.stdout(["run", &experiment, "--testbed", "loopback"]);
    home.stdout(["run", &experiment, "--testbed", "loopback", "--name", "other"]);
    home.stdout(["predict", "--rate", "10kpps", "--save"]);
    // On a pipe without a set width, a run is one line.
    let list = home.command(["results", "list"]).env_remove("COLUMNS").output().unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let named = |name: &str, command: &str| {
        list.lines().any(|line| line.contains(&format!(" {name} ")) && line.contains(command))
    };
    assert!(named("tiny", "netcliff run") && named("other", "--name other") && named("old-kernel", "stream"), "{list}");
    assert!(list.lines().nth(1).is_some_and(|line| line.contains("predict   -  ")), "it has no name: {list}");
    let at_80 = home.command(["results", "list"]).env("COLUMNS", "80").output().unwrap();
    let at_80 = String::from_utf8_lossy(&at_80.stdout).into_owned();
    assert!(at_80.lines().all(|line| line.chars().count() <= 80), "{at_80}");
    refusals(
        &home,
        2,
        &[
            (&["compare", "no-such", "last"], &["no-such", "its name"]),
            (&["stream", "--name", "x"], &["--name x", "--save"]),
            (&["stream", "--save", "--name", "17"], &["'17'", "no number"]),
            (&["find", "--no-store", "--name", "x"], &["--no-store"]),
        ],
    );
}

#[test]
fn a_build_fails_on_what_is_shown_to_be_slower() {
    let home = Home::new();
    let a = file(&home, "6.1", &[100e6, 101e6, 99e6, 100.5e6, 99.5e6]);
    let b = file(&home, "6.18", &[80e6, 81e6, 79e6, 80.5e6, 79.5e6]);
    let html = home.text("page.html");
    let failed =
        home.netcliff(["compare", &a, &b, "--fail-if-slower", "5%", "--html", &html]).output().expect("it runs");
    assert_eq!(failed.status.code(), Some(1));
    let page = String::from_utf8_lossy(&failed.stdout);
    for part in ["FAILED", "WORSE", "-20.0 %", "kernel.release: 6.1 -> 6.18", "in_force.congestion: 6.1 -> 6.18"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let html = std::fs::read_to_string(html).expect("the page");
    assert!(html.contains("FAILED") && html.contains("6.18") && !html.contains("http://"), "{html}");
    let once = file(&home, "once", &[10e6]);
    let untested = home.netcliff(["compare", &a, &once, "--fail-if-slower", "5%"]).output().expect("it runs");
    assert_eq!(untested.status.code(), Some(3));
    let untested = String::from_utf8_lossy(&untested.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(untested.contains("INCONCLUSIVE") && untested.contains("--repeats 5"), "{untested}");
    let wide = file(&home, "wide", &[100e6, 180e6, 60e6, 90e6, 140e6]);
    let open = home.netcliff(["compare", &a, &wide, "--fail-if-slower", "5%"]).output().expect("it runs");
    assert_eq!(open.status.code(), Some(3), "an interval from -40 to +70 % passes nothing");
    let open = String::from_utf8_lossy(&open.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(open.contains("with a probability of 80 %"), "the smallest detectable change: {open}");
    // 20 % slower is not shown to be more than 30 %. In the other direction, nothing is slower.
    assert!(home.stdout(["compare", &a, &b, "--fail-if-slower", "30%"]).contains("PASSED"));
    assert!(home.stdout(["compare", &b, &a, "--fail-if-slower", "5%"]).contains("better"));
}

#[test]
fn request_response_is_repeated_kept_and_compared() {
    let home = Home::new();
    let args = ["rr", "--testbed", "loopback", "--time", "300ms", "--warm-up", "20ms", "--repeats", "3", "--save"];
    let sweep = [&args[..], &["--flows", "1,2", "--depth", "1,4", "--json"]].concat();
    let rows = home.json_lines(&sweep);
    let of = |row: &Value| (row["settings"]["flows"].as_u64(), row["settings"]["depth"].as_u64());
    assert_eq!(
        rows.iter().map(of).collect::<Vec<_>>(),
        [(1, 1), (1, 4), (2, 1), (2, 4)].map(|(f, d)| (Some(f), Some(d)))
    );
    for row in &rows {
        let repeats = row["repeats"].as_array().expect("repeats");
        assert_eq!(repeats.len(), 3);
        let counted: u64 = repeats.iter().filter_map(|repeat| repeat["transactions"].as_u64()).sum();
        assert_eq!(row["transactions"].as_u64(), Some(counted));
        let histogram: u64 =
            row["latency"]["counts_ns"].as_array().expect("counts").iter().filter_map(|pair| pair[1].as_u64()).sum();
        assert_eq!(histogram, counted, "the histograms of the repeats add up");
    }
    assert_eq!(home.json_lines(["results", "show", "--json"]), rows, "the store gives it back");
    let page = home.stdout(["results", "show", "-v"]);
    assert!(page.contains("mean of 3 repeats") && page.contains("CONFIGURATION BY CONFIGURATION"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    home.stdout([&args[..], &["--flows", "2"]].concat());
    let found = home.json(["compare", "1", "2", "--json"]);
    assert_eq!(found["only_a"].as_array().map(Vec::len), Some(3));
    let figures: Vec<&str> =
        found["rows"].as_array().expect("rows").iter().filter_map(|row| row["figure"].as_str()).collect();
    assert_eq!(figures[..3], ["rate_per_s", "latency_p50_s", "latency_p99_s"]);
}

#[test]
fn what_cannot_be_compared_is_wrong_usage() {
    let home = Home::new();
    let stream = file(&home, "stream.json", &[1e6, 2e6]);
    let predicted = home.file("p.json", home.stdout(["predict", "--scheme", "ideal", "--rate", "1kpps", "--json"]));
    let text = home.file("text", "hello");
    refusals(
        &home,
        2,
        &[
            (&["compare", &stream, &predicted], &["`stream`", "`run`", "same kind"]),
            (&["compare", &stream, "nowhere.json"], &["nowhere.json", "last~1"]),
            (&["compare", &stream, &text], &["is not JSON", "--json"]),
            (&["compare", "last", &stream], &["no run last", "the store is empty"]),
            (&["compare", "7", &stream], &["no run 7"]),
            (&["compare", &stream, &stream, "--fail-if-slower", "150%"], &["150%", "such as 5%"]),
            (&["compare", &stream, &stream, "--fail-if-slower", "-5%"], &["such as 5%"]),
            (&["compare", &stream], &["<B>"]),
            (&["compare", "", &stream], &["''", "expected a run of the store", "file of JSON"]),
            (&["compare", &stream, &stream, "--html", "/"], &["cannot write /: is a directory", "name a file"]),
        ],
    );
}
