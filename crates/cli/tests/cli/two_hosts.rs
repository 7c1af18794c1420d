//! Two namespaces of the test as two hosts, with an agent in one and its client in the other. Their devices are changed
//! and always restored. Datagrams in both directions.

use crate::common::bed::{AGENT, Bed, PATIENCE, key, within};
use crate::common::running::Running;
use crate::common::{Home, number_at, refusal};
use crate::schema::printed;
use serde_json::Value;

/// Whether each end's device has the settings of the experiment.
fn is_changed(bed: &Bed) -> [bool; 2] {
    [0, 1].map(|end| {
        let now = bed.offloads(end);
        now.contains("tx-tcp-segmentation: off")
            && now.contains("generic-receive-offload: on")
            && now.trim_end().ends_with("\n4000")
    })
}

const CHANGES: &str = r#"
kind = "transfer"
repeats = 2
time = "300ms"
warmup = "50ms"

[fixed]
tso = "off"
gro = "on"
mtu = "4000"

[vary]
nodelay = ["off", "on"]
gso = ["on", "off"]
lro = ["off", "on"]
rate = ["none", "10Mbit/s"]
"#;

#[test]
fn both_hosts_devices_are_changed_and_left_as_they_were_found() {
    let Some(bed) = Bed::new("both") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let found = [bed.offloads(0), bed.offloads(1)];
    assert!(found.iter().all(|state| state.contains("tcp-segmentation-offload: on") && state.contains("\n1500")));
    let file = near.file("changes.toml", CHANGES);
    let args = ["run", &file, "--to", AGENT, "--key", &key, "--devices", "near0", "--json"];
    {
        let _agent = bed.agent(&far, &key, &[]);
        let refused = Running::of(bed.inside(0, &near, &[], &args)).end(PATIENCE);
        assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("--allow-settings") && refused.stdout.is_empty(), "{}", refused.stderr);
    }
    assert_eq!([bed.offloads(0), bed.offloads(1)], found, "it was refused");
    let _agent = bed.agent(&far, &key, &["--allow-settings", "far0"]);
    let run = Running::of(bed.inside(0, &near, &[], &args));
    assert!(within(PATIENCE, || is_changed(&bed) == [true, true]), "{:?}", is_changed(&bed));
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(4), "nodelay x gso: {report}");
    let not_had = report["not_had"].to_string();
    assert!(not_had.contains("lro: near0 of this host does not have it"), "{not_had}");
    assert!(
        not_had.contains("rate 10Mbit/s: near0 of this host does not have it (the driver names no speeds"),
        "{not_had}"
    );
    assert!(report["asked"].to_string().contains("settings of near0 here"), "{report}");
    assert_eq!([bed.offloads(0), bed.offloads(1)], found, "{}", ended.stderr);
}

/// A run that is long enough to interrupt.
fn long(home: &Home) -> String {
    home.file("long.toml", CHANGES.replace("300ms", "3s").replace("repeats = 2", "repeats = 20"))
}

#[test]
fn a_client_that_vanishes_leaves_the_far_device_as_it_was_found() {
    let Some(bed) = Bed::new("client") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let found = [bed.offloads(0), bed.offloads(1)];
    let _agent = bed.agent(&far, &key, &["--allow-settings", "far0"]);
    let file = long(&near);
    let run =
        Running::of(bed.inside(0, &near, &[], &["run", &file, "--to", AGENT, "--key", &key, "--devices", "near0"]));
    assert!(within(PATIENCE, || is_changed(&bed) == [true, true]), "{:?}", is_changed(&bed));
    run.signal("KILL");
    assert!(within(PATIENCE, || bed.offloads(1) == found[1]), "the agent sets it back: {}", bed.offloads(1));
    // The change of this end's device is in the journal; the next netcliff on this end undoes it.
    assert!(is_changed(&bed)[0]);
    assert!(bed.inside(0, &near, &[], &["tune", "undo"]).status().expect("it runs").success());
    assert_eq!(bed.offloads(0), found[0]);
}

#[test]
fn an_agent_that_is_killed_leaves_a_journal_that_the_next_one_plays_back() {
    let Some(bed) = Bed::new("agent") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let found = [bed.offloads(0), bed.offloads(1)];
    let agent = bed.agent(&far, &key, &["--allow-settings", "far0"]);
    let file = long(&near);
    let run =
        Running::of(bed.inside(0, &near, &[], &["run", &file, "--to", AGENT, "--key", &key, "--devices", "near0"]));
    assert!(within(PATIENCE, || is_changed(&bed) == [true, true]), "{:?}", is_changed(&bed));
    agent.signal("KILL");
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_eq!(bed.offloads(0), found[0], "this end sets its own back");
    assert!(is_changed(&bed)[1], "nobody could");
    drop(agent);
    let _agent = bed.agent(&far, &key, &["--allow-settings", "far0"]);
    assert_eq!(bed.offloads(1), found[1]);
}

#[test]
fn what_may_not_be_changed_is_told() {
    let home = Home::new();
    let file = home.file("changes.toml", CHANGES);
    for (args, code, words) in [
        (&["run", &file, "--devices", "eth0"][..], 2, &["--to or --ssh", "testbed"][..]),
        (&["run", &file, "--to", "h", "--devices", "a,b"], 2, &["a,b", "--allow-settings"]),
        (&["run", &file, "--ssh", "h", "--devices", "a"], 2, &["eth0,eth1"]),
        (&["run", &file, "--ssh", "h", "--devices", "a,$(reboot)"], 2, &["$(reboot)", "such as eth0"]),
        (&["agent", "--allow-settings", "eth0"], 2, &["--allow-settings eth0", "--key FILE"]),
        (&["agent", "--stdio", "--allow-settings", "nothing0"], 1, &["nothing0", "the devices here are"]),
    ] {
        refusal(&home, args, code, words).expect("told");
    }
    assert_eq!(home.path("state/journal").read_dir().map_or(0, Iterator::count), 0, "nothing was changed");
}

/// An experiment to an agent goes through the device whose settings are tried.
#[test]
fn settings_are_tried_between_two_hosts() {
    let Some(bed) = Bed::new("try") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let found = bed.offloads(0);
    let _agent = bed.agent(&far, &key, &[]);
    let file = near.file(
        "short.toml",
        "kind = \"transfer\"\nrepeats = 2\ntime = \"100ms\"\nwarmup = \"50ms\"\n[vary]\nblock = [\"64KiB\"]\n",
    );
    let wish = ["tune", "try", "--objective", "cpu", "--if", "near0", "--mtu", "1400", "--rounds", "2", "--json"];
    let args = [&wish[..], &["--experiment", &file, "--to", AGENT, "--key", &key]].concat();
    let ended = Running::of(bed.inside(0, &near, &[], &args)).end(PATIENCE);
    let tried = printed(&ended.stdout, &ended.stderr);
    assert!(["with", "without"].iter().all(|side| number_at(&tried, &format!("/trial/{side}/1")) > 1e6), "{tried}");
    assert_eq!((&tried["kept"], bed.offloads(0)), (&Value::from(false), found), "{}", ended.stderr);
    let runs = near.json_lines(["results", "list", "--json"]);
    assert!(runs.len() == 4 && runs.iter().all(|run| run.to_string().contains(AGENT)), "{runs:?}");
    for (measured_by, words) in [
        (&["--experiment", "fig-7a"][..], &["fig-7a", "no second host"][..]),
        (&["--", "true"], &["--experiment FILE"]),
    ] {
        let args = [&wish[..], &["--to", AGENT], measured_by].concat();
        refusal(&near, &args, 2, words).expect("told");
    }
}

#[test]
fn datagrams_go_both_ways_between_namespaces_by_name() {
    let Some(bed) = Bed::new("udp") else { return };
    let home = Home::new();
    let [(near, ..), (far, ..)] = bed.ends();
    let ends = format!("{near},{far}");
    let found = home.json([
        "stream",
        "--namespaces",
        &ends,
        "--address",
        "10.99.0.2",
        "--channel",
        "udp",
        "--block",
        "1KiB",
        "--bidir",
        "--rate",
        "4Mbit/s",
        "--repeats",
        "1",
        "--time",
        "200ms",
        "--warmup",
        "10ms",
        "--cpu-meter",
        "procfs",
        "--json",
    ]);
    assert_eq!(found["partial"], false, "{found}");
    let (sent, received) =
        (number_at(&found, "/rows/0/datagrams/sent"), number_at(&found, "/rows/0/datagrams/received"));
    assert!(received > 0.0 && received > 0.8 * sent, "both ways: {sent} {received}");
    assert_eq!(found["rows"][0]["datagrams"]["unreachable"], Value::Null, "{found}");
}
