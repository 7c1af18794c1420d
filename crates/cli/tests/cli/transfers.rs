//! `netcliff run` of real transfers: measured, drawn, stored, refused.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::running::{agent, namespaces_of};
use crate::common::{Home, number_at, refusal, refusals};
use crate::schema::printed;
use netcliff_testkit::has_namespaces;
use serde_json::Value;

const SMALL: &str = r#"
title = "small"
kind = "transfer"
repeats = 3
time = "100ms"
warmup = "10ms"

[vary]
block = ["1KiB", "64KiB"]
nodelay = ["off", "on"]
tso = ["on", "off"]

[figure]
x = "block"
x_scale = "log"
"#;

/// The effect of a setting on goodput: (before, after).
fn effect(found: &Value, factor: &str) -> (f64, f64) {
    let effects = found["effects"].as_array().expect("effects");
    let of = |effect: &&Value| effect["factor"] == factor && effect["figure"] == "goodput_bps";
    let effect = effects.iter().find(of).unwrap_or_else(|| panic!("no effect of {factor}: {effects:?}"));
    (number_at(effect, "/from_mean"), number_at(effect, "/to_mean"))
}

#[test]
fn on_loopback_what_is_the_devices_is_named_and_the_rest_measured() {
    let home = Home::new();
    let file = home.file("small.toml", SMALL);
    let html = home.text("page.html");
    let found = home.json(["run", &file, "--testbed", "loopback", "--json", "--html", &html]);
    assert_eq!((&found["kind"], &found["partial"]), (&"transfer".into(), &false.into()));
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "2 blocks x 2, TSO left out: {found}");
    for row in rows {
        let samples = row["samples"].as_array().expect("samples");
        assert!(samples.len() == 3 && samples.iter().all(|s| number_at(s, "/goodput_bps") > 0.0), "{row}");
    }
    assert!(
        found["not_had"]
            .as_array()
            .is_some_and(|why| why.iter().any(|why| why.as_str().is_some_and(|w| w.contains("tso"))))
    );
    let page = home.stdout(["results", "show"]);
    for part in ["small", "CONFIGURATIONS", "EFFECTS (RATIO", "nodelay off -> on", "NOT MEASURED"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(std::fs::read_to_string(html).expect("a page").contains("<svg"));
    let csv = home.stdout(["run", &file, "--testbed", "loopback", "--csv", "--repeats", "1", "--time", "200ms"]);
    assert!(csv.starts_with("nodelay,block,repeat,goodput_bps,"), "{csv}");
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let same = home.json(["compare", "1", "2", "--json"]);
    assert_eq!(
        same["rows"].as_array().map(|rows| rows.iter().any(|row| row["point"] == "nodelay on, block 64KiB")),
        Some(true)
    );
}

#[test]
fn many_settings_fit_a_line_of_80_columns() {
    let home = Home::new();
    let vary = r#"design = "one-at-a-time"
[vary]
channel = ["tcp", "mptcp"]
path = ["write", "sendfile"]
congestion = ["cubic", "reno"]
nodelay = ["off", "on"]
flows = ["2", "3"]
threads = ["own", "1"]
block = ["1024B", "65536B"]
"#;
    let file = home.file("wide.toml", format!("{}{vary}", SMALL.split("[vary]").next().unwrap_or_default()));
    let page = home.stdout(["run", &file, "--testbed", "loopback", "--repeats", "2"]);
    for part in ["each: goodput", "path write", "  nodelay on\n", "nodelay off -> on"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let wide: Vec<&str> = page.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

#[test]
fn both_versions_of_ip_are_compared_in_one_run() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let head = SMALL.split("[vary]").next().unwrap_or_default();
    let of = |vary: &str| home.file("ip.toml", format!("{head}[vary]\n{vary}"));
    let file = of("ip = [\"4\", \"6\"]\nchannel = [\"tcp\", \"mptcp\", \"udp\"]\nmtu = [\"1279\", \"1500\"]\n");
    let found = home.json(["run", &file, "--repeats", "1", "--json"]);
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "one MTU is left: {found}");
    let levels: Vec<_> = rows.iter().map(|row| row["levels"].to_string()).collect();
    assert!(levels.contains(&r#"["udp","6","1500"]"#.to_owned()), "{levels:?}");
    assert!(found["not_had"].to_string().contains("IPv6 needs 1280 at least"), "{found}");
    // A limited link carries less payload if the headers are longer.
    let slow = of("ip = [\"4\", \"6\"]\nrate = [\"10Mbit/s\"]\n\n[figure]\ny = \"link_share\"\n");
    let found = home.json(["run", &slow, "--repeats", "1", "--json"]);
    let carries = [0, 1].map(|row| number_at(&found, &format!("/rows/{row}/carries_bps")));
    assert!((carries[1] / carries[0] - 1428.0 / 1448.0).abs() < 1e-9, "{carries:?}");
    let (_agent, address) = agent(&home, &[]);
    refusal(&home, &["run", &of("ip = [\"6\"]\n"), "--to", &address], 2, &["ip", "other version"]).expect("told");
}

#[test]
fn flows_share_threads_where_their_way_of_sending_lets_them() {
    let home = Home::new();
    let vary = "[fixed]\nflows = \"4\"\n\n[vary]\nthreads = [\"own\", \"2\"]\npath = [\"write\", \"zerocopy\"]\n";
    let (head, tail) = (SMALL.split("[vary]").next(), "\n[figure]\nx = \"threads\"\n");
    let file = home.file("shared.toml", format!("{}{vary}{tail}", head.unwrap_or_default()));
    let found = home.json(["run", &file, "--testbed", "loopback", "--repeats", "1", "--json"]);
    let levels: Vec<_> = found["rows"].as_array().expect("rows").iter().map(|row| row["levels"].to_string()).collect();
    assert!(levels.contains(&r#"["write","2"]"#.to_owned()), "{levels:?}");
    assert!(!levels.contains(&r#"["zerocopy","2"]"#.to_owned()), "{levels:?}");
    let not_had = found["not_had"].to_string();
    assert!(not_had.contains("path zerocopy with 4 flows over 2 threads"), "{not_had}");
}

/// In method lmbench3, several windows on one connection are one repeat. CPU time is measured as with other methods.
#[test]
fn the_methods_have_their_cpu() {
    let home = Home::new();
    let vary =
        "[fixed]\nbytes = \"256MiB\"\n\n[vary]\nmethod = [\"lmbench3\", \"ttcp\"]\nblock = [\"65536B\", \"131072B\"]\n";
    let head = SMALL.split("[vary]").next().unwrap_or_default();
    let file = home.file("methods.toml", format!("{head}{vary}"));
    let found = home.json(["run", &file, "--testbed", "loopback", "--repeats", "1", "--json"]);
    for row in found["rows"].as_array().expect("rows") {
        let sample = row["samples"][0].as_object().expect("a repeat");
        for figure in [
            "goodput_bps",
            "sender_cpu",
            "receiver_cpu",
            "receiver_us_per_kib",
            "system_cpus",
            "system_us_per_kib",
            "wire_bps",
        ] {
            assert!(sample.get(figure).and_then(Value::as_f64).is_some_and(|value| value > 0.0), "{figure}: {row}");
        }
    }
}

#[test]
fn between_namespaces_settings_of_the_device_are_varied_and_gone_afterwards() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let file = home.file(
        "device.toml",
        r#"
title = "device"
kind = "transfer"
design = "one-at-a-time"
repeats = 2
time = "300ms"
warmup = "100ms"

[fixed]
tso = "off"

[vary]
rate = ["none", "100Mbit/s"]
mtu = ["1500", "9000"]
lro = ["off", "on"]
rx-usecs = ["0", "50"]
"#,
    );
    let mut command = home.command(["run", &file, "--json"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("starts");
    let pid = child.id();
    let out = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let found = printed(&out.stdout, &out.stderr);
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(3), "baseline, rate, MTU: {found}");
    let not_had = found["not_had"].to_string();
    assert!(not_had.contains("lro") && not_had.contains("rx-usecs"), "{not_had}");
    let (free, held) = effect(&found, "rate");
    assert!(free > 2.0 * held, "{free} {held}");
    let limited =
        found["rows"].as_array().into_iter().flatten().find(|row| row["carries_bps"].is_number()).expect("a row");
    assert!((number_at(limited, "/carries_bps") - 94.148e6).abs() < 1e4, "{limited}");
    // The token bucket limits the rate: full frames at 100 Mbit/s, and the bucket's content at the start.
    for sample in limited["samples"].as_array().expect("samples") {
        assert!(number_at(sample, "/goodput_bps") < 100e6, "{limited}");
    }
    // How much faster large frames are depends on the machine. Their size does not.
    for row in found["rows"].as_array().into_iter().flatten() {
        let jumbo = row["levels"].as_array().is_some_and(|levels| levels.iter().any(|level| level == "9000"));
        let bounds = if jumbo { 4000.0..=8948.0 } else { 500.0..=1448.0 };
        for sample in row["samples"].as_array().expect("samples") {
            assert!(bounds.contains(&number_at(sample, "/bytes_per_segment")), "without TSO: {row}");
        }
    }
    assert_eq!(namespaces_of(pid), Vec::<String>::new(), "nothing is left");
}

#[test]
fn to_an_agent_transfers_are_varied_and_devices_are_not() {
    let home = Home::new();
    let key = home.text("key");
    home.netcliff(["agent", "--make-key", &key]).assert().success();
    let (_agent, address) = agent(&home, &["--key", &key]);
    let file = home.file("small.toml", SMALL);
    let found = home.json(["run", &file, "--to", &address, "--key", &key, "--repeats", "1", "--json"]);
    assert_eq!(found["partial"], false, "{found}");
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "2 blocks x 2, TSO left out: {found}");
    assert!(rows.iter().all(|row| number_at(row, "/samples/0/goodput_bps") > 0.0), "{found}");
    assert!(found["asked"].to_string().contains("an agent on this host"), "{found}");
    let not_had = found["not_had"].to_string();
    assert!(not_had.contains("tso") && not_had.contains("testbed netns"), "{not_had}");
    let slow = home.file("slow.toml", "kind = \"transfer\"\n[vary]\nrate = [\"10Mbit/s\", \"100Mbit/s\"]\n");
    refusal(&home, &["run", &slow, "--to", &address, "--key", &key], 2, &["rate", "testbed netns"]).expect("told");
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let home = Home::new();
    let file = home.file("long.toml", SMALL.replacen("repeats = 3", "repeats = 12", 1));
    let run = ["run", &file, "--testbed", "loopback", "--json"];
    let mut child = home.command(run).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let said = BufReader::new(child.stderr.take().expect("piped"));
    // The first two rounds are stored when the third begins.
    let third = said.lines().map_while(Result::ok).find(|line| line.contains("round 3 of 12"));
    assert!(third.is_some(), "it ended before");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let out = home.netcliff([&run[..], &["--resume"]].concat()).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("run 1 goes on after 8 repeats") && !said.contains("round 2 of"), "{said}");
    let found = printed(&out.stdout, &out.stderr);
    let samples = |row: &Value| row["samples"].as_array().map_or(0, Vec::len);
    assert!(found["rows"].as_array().is_some_and(|rows| rows.iter().all(|row| samples(row) == 12)), "{found}");
    let again = home.netcliff([&run[..], &["--resume", "--repeats", "1"]].concat()).output().expect("it runs");
    assert!(String::from_utf8_lossy(&again.stderr).contains("no unfinished run"), "other settings are another run");
}

#[test]
fn channels_and_paths_are_settings_and_what_does_not_fit_together_is_named() {
    let home = Home::new();
    let text = "kind = \"transfer\"\nrepeats = 1\ntime = \"50ms\"\nwarmup = \"10ms\"\n[fixed]\nblock = \"1KiB\"\n[vary]\n\
                channel = [\"tcp\", \"udp\"]\npath = [\"write\", \"sendfile\", \"batch\"]\n";
    let file = home.file("paths.toml", text);
    let found = home.json(["run", &file, "--testbed", "loopback", "--json"]);
    let rows = found["rows"].as_array().expect("rows");
    let levels: Vec<String> = rows.iter().map(|row| row["levels"].to_string()).collect();
    assert_eq!(levels, [r#"["tcp","write"]"#, r#"["tcp","sendfile"]"#, r#"["udp","batch"]"#]);
    assert!(rows.iter().all(|row| number_at(row, "/samples/0/goodput_bps") > 0.0), "{found}");
    assert!(found["not_had"].to_string().contains("path write over udp"), "{found}");
    let wrong = home.file("wrong.toml", text.replacen("sendfile", "teleport", 1));
    refusal(&home, &["run", &wrong, "--testbed", "loopback"], 2, &["teleport", "sendfile", "uring-zc"]).expect("told");
}

#[test]
fn what_cannot_be_is_wrong_usage() {
    let home = Home::new();
    let file = |name: &str, from: &str, to: &str| home.file(name, SMALL.replacen(from, to, 1));
    let (plain, method) =
        (file("plain.toml", "x", "x"), file("method.toml", "nodelay = [\"off\", \"on\"]", "method = [\"netperf\"]"));
    let key = file("key.toml", "nodelay", "nodeley");
    let nothing = home.file("nothing.toml", "kind = \"transfer\"\n[vary]\nlro = [\"on\", \"off\"]\n");
    let grid = home.file("grid.toml", "engines = [\"model\"]\nschemes = [\"ideal\"]\n[host]\npreset = \"pentium4-2530mhz\"\n[traffic]\nrates = \"1kpps\"\n");
    refusals(
        &home,
        2,
        &[
            (&["run", &plain, "--engine", "model"], &["--engine", "real transfers"]),
            (&["run", &grid, "--to", "localhost"], &["no second host"]),
            (&["run", &plain, "--precision", "5%"], &["3 repeats", "at least 5"]),
            (&["run", &plain, "--max-repeats", "9"], &["without a precision"]),
            (&["run", &plain, "--repeats", "0"], &["1 to 1000"]),
            (&["run", &plain, "--time", "0s"], &["--time 0s: expected 0.001"]),
            (&["run", &plain, "--time", "100000s"], &["--time 100000s", "up to 86400 seconds"]),
            (&["run", &plain, "--max-repeats", "2", "--precision", "2%"], &["--max-repeats"]),
            (&["run", &method, "--testbed", "loopback"], &["method = \"netperf\"", "lmbench2"]),
            (&["run", &key], &["nodeley", "expected one of"]),
            (&["run", &nothing, "--testbed", "loopback"], &["nothing to vary is left", "lro"]),
            (&["run", &grid, "--repeats", "2"], &["kind \"transfer\""]),
        ],
    );
}
