//! Two namespaces of the test's own as two hosts, an agent in one, its client in the other: their devices changed and, whatever
//! ends, left as they were found; both kernels' CPU time; datagrams both ways.

mod common;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::running::Running;
use common::{Home, number_at, refusal, say};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
const AGENT: &str = "10.99.0.2:9940";

/// Two namespaces joined by a veth pair, `near0` and `far0`.
struct Bed([String; 2]);

impl Bed {
    /// None, told on the terminal, where it cannot be made.
    fn new(name: &str) -> Option<Bed> {
        let bed = Bed(["near", "far"].map(|end| format!("ncdev-{}-{name}-{end}", std::process::id())));
        let [near, far] = &bed.0;
        let pair = ["-n", near, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", far];
        let made = ip(&["netns", "add", near])
            && ip(&["netns", "add", far])
            && ip(&pair)
            && bed.ends().iter().all(|(space, device, address)| {
                ip(&["-n", space, "addr", "add", address, "dev", device])
                    && ip(&["-n", space, "link", "set", "lo", "up"])
                    && ip(&["-n", space, "link", "set", device, "up"])
            });
        if !made || bed.offloads(0).is_empty() {
            say("SKIPPED: no network namespaces here (root, iproute2 and ethtool are needed)");
            return None;
        }
        Some(bed)
    }

    fn ends(&self) -> [(&str, &str, &str); 2] {
        [(&self.0[0], "near0", "10.99.0.1/24"), (&self.0[1], "far0", "10.99.0.2/24")]
    }

    /// A `netcliff` inside one end, started by another program where one is named.
    fn inside(&self, end: usize, home: &Home, program: &[&str], args: &[&str]) -> Command {
        let netcliff = home.command(args);
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.0[end]])
            .args(program)
            .arg(netcliff.get_program())
            .args(netcliff.get_args());
        for (name, value) in netcliff.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Lines of `ethtool -k` and the MTU.
    fn offloads(&self, end: usize) -> String {
        let (space, device, _) = self.ends()[end];
        let said = |args: &[&str]| {
            let output = Command::new("ip").args(["netns", "exec", space]).args(args).stderr(Stdio::null()).output();
            output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        said(&["ethtool", "-k", device]) + &said(&["cat", &format!("/sys/class/net/{device}/mtu")])
    }

    /// Both ends are as the experiment has them.
    fn is_changed(&self) -> [bool; 2] {
        [0, 1].map(|end| {
            let now = self.offloads(end);
            now.contains("tx-tcp-segmentation: off")
                && now.contains("generic-receive-offload: on")
                && now.trim_end().ends_with("\n4000")
        })
    }

    /// The agent at the far end.
    fn agent(&self, home: &Home, key: &str, more: &[&str]) -> Running {
        self.agent_by(home, &[], key, more)
    }

    /// The agent at the far end, started by another program.
    fn agent_by(&self, home: &Home, program: &[&str], key: &str, more: &[&str]) -> Running {
        let args = [&["agent", "--listen", AGENT, "--key", key, "--silence", "1s"], more].concat();
        let mut agent = Running::of(self.inside(1, home, program, &args));
        agent.until("agent listens on", PATIENCE);
        agent
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.0.iter().for_each(|space| _ = ip(&["netns", "delete", space]));
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn within(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    is_so()
}

/// A key that both homes have.
fn key(home: &Home) -> String {
    let key = home.text("key");
    home.netcliff(["agent", "--make-key", &key]).assert().success();
    key
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
    assert!(within(PATIENCE, || bed.is_changed() == [true, true]), "{:?}", bed.is_changed());
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).expect("one object");
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(4), "nodelay x gso: {report}");
    let not_had = report["not_had"].to_string();
    assert!(not_had.contains("lro: near0 of this host does not have it"), "{not_had}");
    assert!(not_had.contains("rate: it needs the testbed netns"), "{not_had}");
    assert!(report["asked"].to_string().contains("settings of near0 here"), "{report}");
    assert_eq!([bed.offloads(0), bed.offloads(1)], found, "{}", ended.stderr);
}

/// What is long enough to be interrupted.
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
    assert!(within(PATIENCE, || bed.is_changed() == [true, true]), "{:?}", bed.is_changed());
    run.signal("KILL");
    assert!(within(PATIENCE, || bed.offloads(1) == found[1]), "the agent sets it back: {}", bed.offloads(1));
    // This end's own is in the journal, which the next netcliff here plays back.
    assert!(bed.is_changed()[0]);
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
    assert!(within(PATIENCE, || bed.is_changed() == [true, true]), "{:?}", bed.is_changed());
    agent.signal("KILL");
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_eq!(bed.offloads(0), found[0], "this end sets its own back");
    assert!(bed.is_changed()[1], "nobody could");
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

/// A program whose own clock makes what it starts look like another host, and takes rights from it.
const ELSEWHERE: [&str; 2] = ["unshare", "--time"];
const WITHOUT_METERS: [&str; 4] = ["unshare", "--time", "setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"];

/// What a client at the near end measures, as JSON.
fn measured(bed: &Bed, home: &Home, args: &[&str]) -> Value {
    let ended = Running::of(bed.inside(0, home, &[], args)).end(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{args:?}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("one object")
}

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
        let Some(near) = found["rows"][0]["exact"].as_array() else {
            let why = found["not_had"].to_string();
            assert!(why.contains("exact CPU shares of the far end's host: not available"), "{why}");
            return say(&format!("SKIPPED: no eBPF here: {why}"));
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
        let page = Running::of(bed.inside(0, &home, &[], &stream)).end(PATIENCE).stdout;
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
