//! Facts about the host at the far end: its CPU time, comparison of its facts with those of another run, and the counts
//! of its devices.

use crate::common::bed::{AGENT, Bed, ELSEWHERE, PATIENCE, WITHOUT_METERS, ip, key, measured};
use crate::common::running::Running;
use crate::common::{Home, number_at};
use netcliff_testkit::{Need, has};
use serde_json::{Value, json};

#[test]
fn both_hosts_cpu_time_is_told_by_ticks_and_exactly_or_why_not() {
    let Some(bed) = Bed::new("meter") else { return };
    let home = Home::new();
    let key = key(&home);
    let to = ["--to", AGENT, "--key", &key, "--repeats", "1", "--time", "400ms"];
    let stream = [&["stream", "--block", "64KiB", "--warmup", "50ms"], &to[..]].concat();
    let rr = [&["rr", "--warm-up", "50ms", "--cpu-meter", "best", "--json"], &to[..]].concat();
    {
        let _agent = bed.agent_by(&home, &ELSEWHERE, &key, &[]);
        let found = measured(&bed, &home, &[&stream[..], &["--json"]].concat());
        assert!(found["asked"].to_string().contains("an agent on another host"), "{found}");
        assert!(!found["rows"][0]["far_system"].as_array().expect("its ticks").is_empty(), "{found}");
        let transactions = measured(&bed, &home, &rr);
        let cost = &transactions["cost"];
        assert_eq!(cost["server_host"]["method"], "procfs", "{cost}");
        let far_cpus = |found: &Value| found["far_system"].as_array().map_or(0, Vec::len);
        assert_eq!(far_cpus(&transactions), far_cpus(&found["rows"][0]), "{transactions}");
        assert!(transactions["cpu_methods"].to_string().contains("far system"), "{transactions}");
        let Some(near) = found["rows"][0]["exact"].as_array() else {
            let why = found["not_had"].to_string();
            assert!(why.contains("exact CPU shares of the far end's host: not available"), "{why}");
            return assert!(!has(Need::Ebpf), "eBPF loads here: {why}");
        };
        let far = found["rows"][0]["far_exact"].as_array().expect("the far host's eBPF");
        assert_eq!(far.len(), near.len(), "it is the same machine: {found}");
        for cpu in far {
            let sum: f64 = ["application", "softirq", "interrupt", "other", "idle"]
                .map(|class| number_at(cpu, &format!("/{class}")))
                .iter()
                .sum();
            assert!((sum - 1.0).abs() < 0.05, "{cpu}");
        }
        assert!(far.iter().any(|cpu| number_at(cpu, "/application") > 0.05), "the agent worked: {far:?}");
        assert!(found["cpu_methods"].to_string().contains("far exact"), "{found}");
        for (end, method) in [("client_host", "ebpf"), ("client_ticks", "procfs"), ("server_exact", "ebpf")] {
            assert_eq!(cost[end]["method"], method, "{cost}");
            assert!(number_at(cost, &format!("/{end}/busy_cpus")) > 0.0, "{cost}");
        }
        for exact in ["exact", "far_exact"] {
            assert_eq!(transactions[exact].as_array().map(Vec::len), Some(near.len()), "{transactions}");
        }
        let page = Running::of(bed.inside(0, &home, &[], &[&stream[..], &["-v"]].concat())).end(PATIENCE).stdout;
        let (_, far) = page.split_once("CPUS OF THE FAR END'S HOST").expect("a heading");
        let line = far.lines().find(|line| line.contains("write 64KiB")).expect("a CPU");
        assert!(line.trim_end().ends_with('%'), "the exact share stands beside the ticks: {line}");
    }
    let _agent = bed.agent_by(&home, &WITHOUT_METERS, &key, &[]);
    let found = measured(&bed, &home, &[&stream[..], &["--json"]].concat());
    let why = found["not_had"].to_string();
    assert!(
        why.contains("exact CPU shares of the far end's host: not available")
            && found["rows"][0]["far_exact"].is_null(),
        "{found}"
    );
    let notes = measured(&bed, &home, &rr)["notes"].to_string();
    assert!(notes.contains("exact CPU shares of the far end's host: not available"), "{notes}");
}

const EXPERIMENT: &str = r#"
kind = "transfer"
repeats = 2
time = "100ms"
warmup = "20ms"

[fixed]
block = "64KiB"

[vary]
nodelay = ["off", "on"]
"#;

/// The differences that a comparison names.
fn changed(bed: &Bed, home: &Home, a: &str, b: &str) -> Value {
    let found = measured(bed, home, &["compare", a, b, "--json"]);
    assert!(!found["rows"].as_array().expect("rows").is_empty(), "the points are the same: {found}");
    found["changed"].clone()
}

#[test]
fn what_differs_at_the_far_host_is_told_by_a_comparison() {
    let Some(bed) = Bed::new("facts") else { return };
    let home = Home::new();
    let key = key(&home);
    let file = home.file("small.toml", EXPERIMENT);
    let to = ["--to", AGENT, "--key", &key, "--json"];
    let rr = [&["rr", "--repeats", "2", "--time", "300ms", "--warm-up", "20ms", "--save"], &to[..]].concat();
    let run = [&["run", &file], &to[..]].concat();
    let once = || {
        let _agent = bed.agent_by(&home, &ELSEWHERE, &key, &[]);
        [&rr, &run].map(|args| measured(&bed, &home, args))
    };
    let runs = once();
    for found in &runs {
        let (near, far) = (&found["fingerprint"], &found["far_fingerprint"]);
        assert_eq!((&near["nic.path.name"], &far["nic.path.name"]), (&json!("near0"), &json!("far0")), "{found}");
        assert_eq!((&near["nic.path.mtu_bytes"], &far["nic.path.kind"]), (&json!("1500"), &json!("veth")));
        assert_eq!(near["kernel.release"], far["kernel.release"], "it is the same machine");
    }
    let far = bed.ends()[1];
    assert!(ip(&["-n", far.0, "link", "set", far.1, "mtu", "1400"]), "it is ours");
    once();
    let mtu = json!({"name": "far host: nic.path.mtu_bytes", "a": "1500", "b": "1400"});
    for (a, b) in [("1", "3"), ("2", "4")] {
        let changed = changed(&bed, &home, a, b);
        let told: Vec<&Value> = changed
            .as_array()
            .into_iter()
            .flatten()
            // The state is ignored, because a new link may be reported as up only later.
            .filter(|change| {
                change["name"].as_str().is_some_and(|name| name.contains("nic.") && !name.ends_with(".state"))
            })
            .collect();
        assert_eq!(told, [&mtu], "{changed}");
    }
    // An agent on this host reports no other host.
    let _agent = bed.agent(&home, &key, &[]);
    assert_eq!(measured(&bed, &home, &rr)["far_fingerprint"], Value::Null);
}

#[test]
fn the_far_end_counts_at_its_own_devices() {
    let Some(bed) = Bed::new("counts") else { return };
    let home = Home::new();
    let key = key(&home);
    let _agent = bed.agent_by(&home, &ELSEWHERE, &key, &[]);
    let stream = ["stream", "--to", AGENT, "--key", &key, "--block", "64KiB", "--repeats", "1", "--time", "300ms"];
    let stream = [&stream[..], &["--warmup", "50ms", "--cpu-meter", "procfs", "--json"]].concat();
    for reverse in [&[][..], &["--reverse"]] {
        let found = measured(&bed, &home, &[&stream[..], reverse].concat());
        let device = &found["rows"][0]["device"];
        for figure in
            ["packets_per_s", "bytes_per_packet", "received_per_s", "bytes_per_received", "bytes_per_ip_packet"]
        {
            assert!(number_at(device, &format!("/{figure}/median")) > 0.0, "{figure}: {device}");
        }
        assert!(number_at(device, "/packets_per_softirq/median") > 0.0, "{device}");
        assert_eq!(device["packets_per_interrupt"], Value::Null, "veth has none: {device}");
        // The rate that one side sends arrives at the other, each in its own window.
        let (sent, received) =
            (number_at(device, "/packets_per_s/median"), number_at(device, "/received_per_s/median"));
        assert!(received > 0.5 * sent && received < 2.0 * sent, "{sent} {received}");
    }
}
