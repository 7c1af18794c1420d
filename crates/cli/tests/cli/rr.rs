//! `netcliff rr` and `netcliff agent` as programs: on one host, against an agent, by ssh, refused, killed.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::common::running::{Ended, Running, agent, signal};
use crate::common::{Home, number_at, refusal, refusals};
use crate::schema::printed;
use netcliff_testkit::has_namespaces;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: [&str; 5] = ["--time", "400ms", "--warm-up", "50ms", "--json"];

fn rr(home: &Home, more: &[&str]) -> Value {
    home.json([&["rr"], more, &SHORT].concat())
}

fn sound(report: &Value) {
    assert_eq!(report["kind"], "rr");
    assert!(report["partial"].is_null(), "{report}");
    assert!(number_at(report, "/transactions") > 0.0 && number_at(report, "/rate_per_s") > 0.0, "{report}");
    let p50 = number_at(report, "/latency/p50_s");
    assert!(p50 > 1e-7 && p50 <= number_at(report, "/latency/max_s"), "{report}");
    assert!(report["latency"]["counts_ns"].as_array().is_some_and(|counts| !counts.is_empty()));
    assert!(number_at(report, "/cost/client_threads/us_per_transaction") > 0.0, "{report}");
}

#[test]
fn both_ends_on_this_host() {
    let home = Home::new();
    for transport in ["tcp", "udp", "unix"] {
        let report = rr(&home, &["--testbed", "loopback", "--transport", transport, "--flows", "2"]);
        sound(&report);
        assert!(number_at(&report, "/one_way/delays/forth/p50_s") > 0.0, "one clock: {report}");
        assert_eq!(report["cost"]["client_host"]["method"], "procfs");
        let cpus = report["system"].as_array().expect("a row a CPU");
        assert!(!cpus.is_empty() && report["far_system"].is_null(), "{report}");
        for cpu in cpus {
            let classes = ["user", "nice", "system", "irq", "softirq", "steal", "idle"];
            let shares = classes.map(|class| number_at(cpu, &format!("/{class}")));
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{cpu}");
        }
        assert!(report["cpu_methods"][0][1].as_str().is_some_and(|method| method.contains("/proc/stat")), "{report}");
    }
    let open = rr(&home, &["--testbed", "loopback", "--rate", "2k"]);
    sound(&open);
    assert!(open["lateness"].is_object());
    let page =
        home.stdout(["rr", "--testbed", "loopback", "--repeats", "2", "--time", "400ms", "--response", "8B", "-v"]);
    let parts = ["TRANSACTIONS", "LATENCY", "one way", "not available", "24B", "a transaction", "procfs"];
    let split = ["CPUS OF THE HOST (/proc/stat, nice in user", "softirq  steal", " mean ", "busiest CPU "];
    for part in parts.into_iter().chain(split) {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn between_namespaces() {
    if !has_namespaces() {
        return;
    }
    for (ip, more) in [("IPv4", &["--transport", "udp"][..]), ("IPv6", &["--ipv6"]), ("IPv6", &["--ipv6", "--crr"])] {
        let report = rr(&Home::new(), &[&["--testbed", "netns"][..], more].concat());
        sound(&report);
        assert!(report["path"].as_str().is_some_and(|path| path.contains("veth") && path.contains(ip)), "{report}");
    }
}

#[test]
fn against_an_agent_with_a_key() {
    let home = Home::new();
    let (key, other) = (home.text("key"), home.text("other"));
    for path in [&key, &other] {
        home.netcliff(["agent", "--make-key", path]).assert().success();
        let mode = std::fs::metadata(path).expect("it was written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let (agent, address) = agent(&home, &["--key", &key]);
    sound(&rr(&home, &["--to", &address, "--key", &key]));
    sound(&rr(&home, &["--to", &address, "--key", &key, "--transport", "udp", "--flows", "3"]));
    let wrong = ["rr", "--to", &address, "--key", &other];
    refusal(&home, &wrong, 1, &["does not have the same key", "copy the key file"]).expect("told");
    refusal(&home, &["rr", "--to", &address], 1, &["demands a key", "--key"]).expect("told");
    // Only the far end can detect this. The message uses the option names of the command line.
    let elsewhere = ["--to", &address, "--key", &key, "--time", "200ms"];
    let cpus = |command| [&[command, "--cpu", "0,4000"][..], &elsewhere].concat();
    for command in ["rr", "stream"] {
        refusal(&home, &cpus(command), 1, &["--cpu 4000: expected the number of an online CPU"]).expect("told");
    }
    let congestion = [&["stream", "--congestion", "pigeons"][..], &elsewhere].concat();
    // Both ends set the congestion control. If this host's kernel lacks it, the other end gets no request.
    refusal(&home, &congestion, 2, &["--congestion pigeons: expected one that this kernel has"]).expect("told");
    let taken = ["agent", "--listen", &address, "--key", &key];
    refusal(&home, &taken, 1, &["another program listens there", &address]).expect("told");
    agent.signal("INT");
    let ended = agent.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("started rr") && ended.stderr.contains("refused"), "{}", ended.stderr);
}

fn partial_since_the_far_end_closed(ended: &Ended) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    assert!(report["partial"].as_str().is_some_and(|why| why.contains("closed")), "{report}");
    assert!(number_at(&report, "/transactions") > 0.0, "{report}");
}

#[test]
fn an_agent_that_is_killed_leaves_a_partial_result() {
    let home = Home::new();
    let (mut agent, address) = agent(&home, &[]);
    let client = Running::start(&home, &["rr", "--to", &address, "--time", "60s", "--warm-up", "50ms", "--json"]);
    agent.until("started rr", PATIENCE);
    std::thread::sleep(Duration::from_secs(1));
    agent.signal("KILL");
    let begin = Instant::now();
    let ended = client.end(PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(10), "it does not wait for its 60 s");
    partial_since_the_far_end_closed(&ended);
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let home = Home::new();
    let client =
        Running::start(&home, &["rr", "--testbed", "loopback", "--time", "60s", "--warm-up", "10ms", "--json"]);
    std::thread::sleep(Duration::from_secs(2));
    client.signal("INT");
    let ended = client.end(PATIENCE);
    let report = printed(&ended.stdout, &ended.stderr);
    assert_eq!((ended.status.code(), &report["partial"]), (Some(1), &Value::from("it was stopped")));
    assert!(number_at(&report, "/transactions") > 0.0, "{report}");
}

/// The process that answers: the one child of a netcliff that has both ends on this host.
fn companion(of: &Running) -> u32 {
    let found = std::cell::Cell::new(None);
    let there = crate::common::bed::within(PATIENCE, || {
        let pids = std::fs::read_dir("/proc").expect("procfs").flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // After the name, which is in parentheses: state and parent, proc_pid_stat(5).
        let parent = |pid: &u32| -> Option<u32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
        };
        found.set(pids.find(|pid| parent(pid) == Some(of.pid())));
        found.get().is_some()
    });
    assert!(there, "the far end has no process");
    found.get().expect("there is one")
}

fn started(home: &Home) -> (Running, u32) {
    let args = ["rr", "--testbed", "loopback", "--time", "60s", "--warm-up", "10ms", "--repeats", "1", "--json"];
    let client = Running::start(home, &args);
    let companion = companion(&client);
    std::thread::sleep(Duration::from_secs(3));
    (client, companion)
}

#[test]
fn a_far_end_of_its_own_that_is_killed_leaves_a_partial_result() {
    let home = Home::new();
    let (client, companion) = started(&home);
    signal(companion, "KILL");
    let ended = client.end(PATIENCE);
    partial_since_the_far_end_closed(&ended);
}

#[test]
fn a_far_end_of_its_own_leaves_with_who_started_it() {
    let home = Home::new();
    let (client, companion) = started(&home);
    client.signal("KILL");
    let _ = client.end(PATIENCE);
    // If no process waits for the dead companion, it stays as a zombie, which has an empty command line.
    let gone = || std::fs::read(format!("/proc/{companion}/cmdline")).map_or(true, |line| line.is_empty());
    assert!(crate::common::bed::within(PATIENCE, gone), "process {companion} still runs");
}

/// A program called ssh that runs its command on this host.
#[test]
fn by_ssh() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_netcliff");
    let ssh = home.file(
        "ssh",
        format!("#!/bin/sh\nwhile [ \"$1\" != netcliff ]; do shift; done\nshift\nexec {program} \"$@\"\n"),
    );
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("own file");
    let path = format!("{}:{}", home.path("").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = home.command([&["rr", "--ssh", "someone@127.0.0.1"][..], &SHORT].concat());
    let output = command.env("PATH", path).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    sound(&printed(&output.stdout, &output.stderr));
}

/// A program named ssh that prints a text and starts no agent: netcliff prints what it waits for, and at the end what
/// ssh printed.
#[test]
fn an_ssh_that_brings_no_agent_is_told() {
    let home = Home::new();
    let with = |script: &str| {
        let ssh = home.file("ssh", format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("own file");
        let path = format!("{}:{}", home.path("").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = home.command([&["rr", "--ssh", "someone@db1"][..], &SHORT].concat());
        let output = command.env("PATH", path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = with("echo 'netcliff is installed here'; exec cat >/dev/null");
    assert!(said.contains("brought \"netcliff is installed here") && said.contains("~/.bashrc"), "{said}");
    let said = with("echo 'db1: Permission denied (publickey).' >&2; exit 255");
    assert!(said.contains("closed the connection; ssh said: db1: Permission denied (publickey)."), "{said}");
    let said = with("echo 'a word' >&2; sleep 5; exit 255");
    assert!(said.contains("waiting for `netcliff agent --stdio` on someone@db1"), "{said}");
    assert!(said.contains("given up after 60 s") && said.contains("ssh said: a word"), "{said}");
    let said = with("exit 1");
    assert!(said.contains("ssh said nothing"), "{said}");
}

/// Without a network, the host's own limits are still reported: its load, its CPUs.
#[test]
fn what_limits_the_host_is_told_of_unix_sockets_too() {
    let home = Home::new();
    let notes = |transport: &str| {
        let found = home.json([&["rr", "--testbed", "loopback", "--transport", transport][..], &SHORT].concat());
        let notes: Vec<String> = serde_json::from_value(found["notes"].clone()).expect("sentences");
        // These differ from run to run: the load, which is read to two digits and to which each run adds; the time that
        // the hypervisor takes; and the drops of the whole host, to which other tests add.
        let varies = ["load average ", "the hypervisor took", "packets found a full backlog"];
        let steady = |note: &String| !varies.iter().any(|part| note.contains(part));
        notes.into_iter().filter(steady).collect::<std::collections::BTreeSet<String>>()
    };
    let (tcp, unix) = (notes("tcp"), notes("unix"));
    let missing: Vec<_> = tcp.difference(&unix).collect();
    assert!(missing.iter().all(|note| note.contains("loopback") || note.contains("server")), "{missing:?}");
}

#[test]
fn repeats_end_when_the_rate_is_known() {
    let home = Home::new();
    // The windows are so long that even a host shared with compilers answers something in each. The transport is not
    // TCP: if parallel tests fill the backlog of loopback, TCP's timers wait longer than a window.
    let args = ["rr", "--testbed", "loopback", "--transport", "unix", "--time", "300ms", "--warm-up", "10ms", "--json"];
    let with = |more: &[&str]| home.json([&args[..], more].concat());
    let rough = with(&["--precision", "99%", "--max-repeats", "20"]);
    let repeats = rough["repeats"].as_array().map_or(0, Vec::len);
    // The run ends after the first repeat at which the rate is known precisely enough. A host shared with compilers may
    // need all repeats.
    assert!((5..=20).contains(&repeats), "{repeats}");
    let half_width = number_at(&rough, "/known/half_width");
    assert!(half_width <= 0.99 || repeats == 20, "{repeats}: {}", rough["known"]);
    let fine = with(&["--precision", "0.000001%", "--max-repeats", "6"]);
    assert_eq!(fine["repeats"].as_array().map(Vec::len), Some(6));
    assert!(fine["notes"].to_string().contains("asked for"), "{}", fine["notes"]);
}

/// The requested rate is far beyond any host: each due request is answered, given up, or never leaves, and all are
/// reported.
#[test]
fn requests_that_never_leave_are_counted() {
    let home = Home::new();
    let asked =
        ["--transport", "unix", "--rate", "5M", "--arrivals", "constant", "--timeout", "100ms", "--repeats", "1"];
    // A slow host answers nothing of it in time, which is exit code 1.
    let out = home.netcliff([&["rr"][..], &asked, &SHORT].concat()).output().expect("it runs");
    let report = printed(&out.stdout, &out.stderr);
    let count = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
    let due = report["window_s"].as_f64().expect("a length") * 5e6;
    let told = (count("transactions") + count("timeouts") + count("unsent")) as f64;
    assert!((told / due - 1.0).abs() < 0.01, "{told} of {due} due: {report}");
    assert!(count("unsent") > 0, "{report}");
}

#[test]
fn wrong_usage() {
    let home = Home::new();
    let open_key = home.file("open", "00".repeat(32));
    std::fs::set_permissions(&open_key, std::fs::Permissions::from_mode(0o644)).expect("own file");
    refusals(
        &home,
        2,
        &[
            (&["rr", "--request", "0B"], &["--request", "'0B'", "1B to 1MiB"]),
            (&["rr", "--response", "1TiB"], &["--response", "'1TiB'", "4MiB"]),
            (&["rr", "--response", "2MiB"], &["--response", "'2MiB'", "1B to 1MiB"]),
            (&["rr", "--transport", "udp", "--request", "4B"], &["--request 4B", "8 to 65507 bytes"]),
            (&["rr", "--flows", "0"], &["--flows", "'0'", "1 to 256"]),
            (&["rr", "--flows", "1,x"], &["--flows", "'x'", "1 to 256"]),
            (&["rr", "--depth", "2.5"], &["--depth", "'2.5'", "1 to 4096"]),
            (&["agent", "--clients", "none"], &["'none'", "1 to 4096"]),
            (&["agent", "--listen", "localhost"], &["localhost", "127.0.0.1:9940"]),
            (&["compare", "1", "2", "--fail-if-slower", "fast"], &["fast", "5%"]),
            (&["rr", "--flows", "100000"], &["--flows", "'100000'", "256"]),
            (&["rr", "--rate", "-1"], &["--rate", "'-1'", "20k"]),
            (&["rr", "--rate", "2k", "--depth", "4"], &["--rate", "--depth", "cannot be used"]),
            (&["rr", "--transport", "udp", "--crr"], &["--crr is for TCP"]),
            (&["rr", "--transport", "udp", "--request", "4B"], &["--request 4B: expected 8 to 65507 bytes"]),
            (&["rr", "--rate", "2000000000k"], &["--rate", "at most 1G"]),
            (&["rr", "--arrivals", "constant"], &["--arrivals", "add --rate"]),
            (&["rr", "--transport", "unix", "--ipv6"], &["--ipv6", "leave it out"]),
            (&["rr", "--ipv6", "--mtu", "1000"], &["--mtu 1000", "1280 to 65535"]),
            (&["rr", "--testbed", "loopback", "--mtu", "9000"], &["--mtu", "--testbed netns"]),
            (&["rr", "--transport", "unix", "--offloads", "off"], &["--offloads", "this run has no such link"]),
            (&["rr", "--timeout", "1us"], &["--timeout 1us: expected 0.001 to 86400 seconds"]),
            (&["rr", "--max-repeats", "2", "--precision", "2%"], &["--max-repeats: at most 2"]),
            (&["rr", "--data-to", "db1"], &["--data-to", "add --to or --ssh"]),
            (&["rr", "--cpu", "1"], &["--cpu", "'1'", "0,1"]),
            (&["rr", "--cpu", "0,0+4000"], &["--cpu 4000: expected", "online CPU"]),
            (&["rr", "--cpu", "3-1,0"], &["--cpu", "'3-1,0'", "0-3,4-7"]),
            (&["rr", "--testbed", "loopback", "--flows", "2", "--cpu", "0+4000,0"], &["--cpu 4000: expected"]),
            (
                &["rr", "--testbed", "loopback", "--flows", "2", "--cpu", "0,0+4000"],
                &["--cpu 4000: expected", "online CPU"],
            ),
            (&["rr", "--time", "0s"], &["--time 0s: expected 0.001"]),
            (&["rr", "--busy-poll=9h"], &["--busy-poll", "9h"]),
            (&["rr", "--to", "127.0.0.1", "--transport", "unix"], &["unix", "leave out --to"]),
            (&["rr", "--ssh=-oProxyCommand=x"], &["expected a host"]),
            (&["agent", "--listen", "0.0.0.0:0"], &["0.0.0.0:0", "--key FILE", "127.0.0.1"]),
            (&["agent", "--listen", "localhost"], &["--listen", "'localhost'"]),
            (&["agent", "--listen", "127.0.0.1:0", "--key", &open_key], &["0644", "chmod 600"]),
            (&["agent", "--key", "/no/such/key"], &["/no/such/key", "--make-key"]),
            (&["agent", "--silence", "0s"], &["--silence", "'0s'", "1s to 300s"]),
            (&["agent", "--memory", "4096"], &["--memory", "'4096'", "at least 1MiB"]),
            (&["agent", "--memory", "1KiB"], &["--memory", "'1KiB'", "at least 1MiB"]),
        ],
    );
    // If no agent is there, this is a failure and not wrong usage.
    let told = ["no-such-host.invalid has no address", "a name that resolves here"];
    refusal(&home, &["rr", "--to", "no-such-host.invalid"], 1, &told).expect("told");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let told = ["cannot reach an agent", "netcliff agent"];
    refusal(&home, &["rr", "--to", &free.to_string()], 1, &told).expect("told");
}

#[test]
fn flows_use_the_cpus_of_a_list_round_robin() {
    let home = Home::new();
    // CPU 0, which always exists, is listed twice. Each flow must find its own far end.
    let short = ["rr", "--testbed", "loopback", "--time", "100ms", "--warm-up", "20ms", "--repeats", "1", "--json"];
    for transport in ["tcp", "udp", "unix"] {
        let spread = home.json([&short[..], &["--flows", "3", "--cpu", "0+0,0+0", "--transport", transport]].concat());
        assert_eq!(spread["partial"], Value::Null, "{spread}");
        assert_eq!(spread["flow_rates_per_s"].as_array().map(Vec::len), Some(3), "{spread}");
        assert_eq!(spread["settings"]["server_cpus"], serde_json::json!([0, 0]));
        assert!(spread["path"].to_string().contains("0+0"), "{spread}");
    }
}
