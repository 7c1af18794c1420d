//! Faults of transfers and of request/response on this host: each is reported in a sentence, and results so far are
//! stored.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::running::{Running, agent, namespaces_of};
use crate::common::{Home, number_at, refusal};
use crate::schema::printed;
use netcliff_testkit::{Need, has, has_all, has_program, not_applicable, skip};

const PATIENCE: Duration = Duration::from_secs(20);

const SHORT: [&str; 7] = ["stream", "--time", "200ms", "--warmup", "10ms", "--cpu-meter", "procfs"];

/// The namespace of the sender in a running netcliff.
fn sender_of(run: &Running) -> String {
    let names = namespaces_of(run.pid());
    names.into_iter().find(|name| name.ends_with("-snd")).expect("the sender's namespace")
}

/// Cuts the link of a running netcliff, like an unplugged cable. Returns false if the necessary program is missing.
fn cut_link(run: &Running) -> bool {
    let sender = sender_of(run);
    let down = ["-n", sender.as_str(), "link", "set", "veth0", "down"];
    std::process::Command::new("ip").args(down).status().is_ok_and(|status| status.success())
}

#[test]
fn more_flows_than_descriptors_is_a_sentence() {
    let home = Home::new();
    let script = "ulimit -n 64; exec \"$@\"";
    let binary = env!("CARGO_BIN_EXE_netcliff");
    let args = [&SHORT[..], &["--flows", "200", "--repeats", "1", "--wait=60s"]].concat();
    let out = std::process::Command::new("sh")
        .args(["-c", script, "sh", binary])
        .args(args)
        .env("HOME", home.path("home"))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("descriptors") && said.contains("ulimit -n"), "{said}");
}

/// The link between the namespaces is cut in the middle of a transfer, as an unplugged cable would.
#[test]
fn a_link_that_goes_down_ends_the_transfer_in_the_stated_time() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    let long = ["stream", "--testbed", "netns", "--time", "60s", "--warmup", "50ms", "--repeats", "2", "--stall", "1s"];
    let mut run = Running::start(&home, &[&long[..], &["--json", "--cpu-meter", "procfs"]].concat());
    run.until("round 1", PATIENCE);
    std::thread::sleep(Duration::from_secs(2));
    assert!(cut_link(&run), "the link cannot be set down");
    let begin = Instant::now();
    let ended = run.end(PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(10), "it does not wait for its 60 s");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    assert_eq!(report["partial"], true);
    let why = report["rows"][0]["cut_short"].as_str().expect("why");
    assert!(why.contains("nothing moved for 1 s") || why.contains("unreachable"), "{why}");
    assert!(number_at(&report, "/rows/0/receiver_bps/median") > 0.0, "{report}");
}

/// The far end disappears in the middle of request/response, over a connection and over datagrams.
#[test]
fn a_link_that_goes_down_ends_request_response_in_the_stated_time() {
    if !has(Need::Netns) {
        return;
    }
    for transport in ["tcp", "udp"] {
        let home = Home::new();
        let long = ["rr", "--testbed", "netns", "--transport", transport, "--time", "60s", "--warm-up", "50ms"];
        let more = ["--repeats", "2", "--timeout", "500ms", "--json"];
        let mut run = Running::start(&home, &[&long[..], &more].concat());
        run.until("round 1", PATIENCE);
        std::thread::sleep(Duration::from_secs(1));
        assert!(cut_link(&run), "the link cannot be set down");
        let begin = Instant::now();
        let ended = run.end(PATIENCE);
        assert!(begin.elapsed() < Duration::from_secs(10), "{transport}: it does not wait for its 60 s");
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        let report = printed(&ended.stdout, &ended.stderr);
        let why = report["partial"].as_str().expect("why");
        assert!(why.contains("no answer for 0.5 s") || why.contains("unreachable"), "{transport}: {why}");
        assert!(number_at(&report, "/transactions") > 0.0, "{report}");
    }
}

/// A queue that accepts only a part: the kernel refuses sends, which are counted and repeated.
#[test]
fn sends_refused_for_want_of_buffers_are_counted() {
    if !has_all(&[Need::Netns, Need::Tbf]) || !has_program("tc") {
        return;
    }
    let home = Home::new();
    let udp = ["stream", "--testbed", "netns", "--channel", "udp", "--block", "1KiB", "--time", "500ms"];
    let more = ["--warmup", "2s", "--repeats", "1", "--json", "--cpu-meter", "procfs"];
    let mut run = Running::start(&home, &[&udp[..], &more].concat());
    run.until("round 1", PATIENCE);
    let sender = sender_of(&run);
    let narrow = ["-n", sender.as_str(), "qdisc", "add", "dev", "veth0", "root", "tbf"];
    let narrow = [&narrow[..], &["rate", "10mbit", "burst", "3000", "limit", "3000"]].concat();
    let made = std::process::Command::new("tc").args(narrow).status().is_ok_and(|status| status.success());
    let ended = run.end(PATIENCE);
    assert!(made, "the token bucket cannot be added");
    let report = printed(&ended.stdout, &ended.stderr);
    assert!(number_at(&report, "/rows/0/datagrams/refused") > 0.0, "{report}");
    assert!(number_at(&report, "/rows/0/receiver_bps/median") < 12e6, "{report}");
}

/// A user who may not choose every congestion control gets the list of those that he may choose.
#[test]
fn a_socket_option_without_permission_is_named() {
    use std::os::unix::process::CommandExt;
    let list = |which: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let allowed = list("allowed");
    let Some(forbidden) = list("available").into_iter().find(|name| !allowed.contains(name)) else {
        return not_applicable("every user may choose every congestion control here");
    };
    if !has(Need::Root) {
        return;
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_netcliff"));
    command.args(SHORT).args(["--repeats", "1", "--congestion", &forbidden]).current_dir("/").uid(65_534).gid(65_534);
    let out = match command.env_clear().output() {
        Err(why) => return skip(Need::Kernel, format!("another user cannot run this program: {why}")),
        Ok(out) => out,
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains(&forbidden) && said.contains("without root one of") && said.contains(&allowed[0]), "{said}");
}

/// A cpuset with one CPU, which is removed when this value is dropped.
struct OneCpu(std::path::PathBuf);

impl OneCpu {
    /// Makes a set with only this CPU. `None` if this is not possible.
    fn new(cpu: &str) -> Option<Self> {
        let text = |path: &Path| std::fs::read_to_string(path).ok();
        let (first, second) = (Path::new("/sys/fs/cgroup/cpuset"), Path::new("/sys/fs/cgroup"));
        let enabled = || text(&second.join("cgroup.subtree_control")).is_some_and(|on| on.contains("cpuset"));
        let root = if first.join("cpuset.cpus").exists() { first } else { enabled().then_some(second)? };
        let mems = ["cpuset.mems", "cpuset.mems.effective"].iter().find_map(|name| text(&root.join(name)));
        let set = Self(root.join(format!("netcliff-test-{}", std::process::id())));
        std::fs::create_dir(&set.0).ok()?;
        std::fs::write(set.0.join("cpuset.cpus"), cpu).ok()?;
        std::fs::write(set.0.join("cpuset.mems"), mems?).ok()?;
        Some(set)
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // Its last process may still be ending.
        let deadline = Instant::now() + Duration::from_secs(2);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A CPU that exists, and that this process may not use.
#[test]
fn a_cpu_that_is_not_allowed_is_named() {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let Some(set) = (cpus > 1).then_some("0").and_then(OneCpu::new) else {
        return skip(Need::Kernel, "no second CPU, or no cpuset can be made here");
    };
    let (home, binary) = (Home::new(), env!("CARGO_BIN_EXE_netcliff"));
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", set.0.display());
    let stream = [&SHORT[..], &["--repeats", "1", "--cpu", "0,1"]].concat();
    let rr = vec!["rr", "--testbed", "loopback", "--repeats", "1", "--time", "100ms", "--cpu", "0,1"];
    for args in [stream, rr] {
        let out = std::process::Command::new("sh")
            .args(["-c", &script, "sh", binary])
            .args(&args)
            .env("HOME", home.path("home"))
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&out.stderr);
        if said.contains("cgroup.procs") {
            return skip(Need::Kernel, &said);
        }
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("--cpu 1: expected") && said.contains("this process may use"), "{args:?}: {said}");
    }
}

#[test]
fn an_agent_that_is_killed_leaves_a_partial_result() {
    let home = Home::new();
    let (mut agent, address) = agent(&home, &[]);
    let long = ["stream", "--to", &address, "--time", "60s", "--warmup", "50ms", "--repeats", "2", "--json"];
    let client = Running::start(&home, &[&long[..], &["--cpu-meter", "procfs"]].concat());
    agent.until("started transfer", PATIENCE);
    std::thread::sleep(Duration::from_secs(1));
    agent.signal("KILL");
    let begin = Instant::now();
    let ended = client.end(PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(12), "it does not wait for its 60 s");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    assert_eq!(report["partial"], true);
    assert!(report["rows"][0]["cut_short"].as_str().is_some_and(|why| why.contains("far end")), "{report}");
    assert!(number_at(&report, "/rows/0/sender_bps/median") > 0.0, "{report}");
}

#[test]
fn an_agent_outlives_a_client_that_is_killed() {
    let home = Home::new();
    let (mut agent, address) = agent(&home, &[]);
    for direction in ["--reverse", "--direction=send"] {
        let long = ["stream", "--to", &address, "--time", "60s", "--cpu-meter", "procfs", direction];
        let client = Running::start(&home, &long);
        agent.until("started transfer", PATIENCE);
        std::thread::sleep(Duration::from_millis(300));
        client.signal("KILL");
        agent.until("ended early", PATIENCE);
        // The client can no longer report what was moved.
        let line = agent.said().last().cloned().expect("it said so");
        let bytes = line.split("until then ").nth(1).and_then(|rest| rest.split(' ').next());
        assert!(bytes.and_then(|bytes| bytes.parse().ok()).is_some_and(|bytes: u64| bytes > 0), "{line}");
    }
    let found = home.json([&SHORT[..], &["--to", &address, "--repeats", "1", "--json"]].concat());
    assert_eq!(found["partial"], false, "{found}");
}

#[test]
fn the_tests_of_an_agent_share_its_memory() {
    let home = Home::new();
    let (_agent, address) = agent(&home, &["--memory", "2MiB"]);
    let to = [&SHORT[..], &["--repeats", "1", "--to", &address]].concat();
    let told = ["no memory for this test", "of the 2MiB of all tests of this agent", "--memory"];
    refusal(&home, &[&to[..], &["--block", "16MiB"]].concat(), 1, &told).expect("told");
    home.netcliff([&to[..], &["--block", "64KiB"]].concat()).assert().success();
}

/// One of ten senders dies: the run ends with a sentence that names it, and the results so far are stored.
#[test]
fn a_sender_that_dies_is_named_among_ten() {
    let home = Home::new();
    let agents: Vec<_> = (0..10).map(|_| agent(&home, &[])).collect();
    let to: Vec<&str> = agents.iter().flat_map(|(_, address)| ["--to", address.as_str()]).collect();
    let long = ["stream", "--reverse", "--time", "60s", "--warmup", "50ms", "--repeats", "1", "--cpu-meter", "procfs"];
    let mut run = Running::start(&home, &[&long[..], &to, &["--json"]].concat());
    run.until("round 1", PATIENCE);
    std::thread::sleep(Duration::from_secs(1));
    agents[4].0.signal("KILL");
    let begin = Instant::now();
    let ended = run.end(PATIENCE);
    assert!(begin.elapsed() < Duration::from_secs(15), "it does not wait for its 60 s");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    let why = report["rows"][0]["cut_short"].as_str().expect("why");
    assert!(why.contains(&agents[4].1), "{why}");
    assert!(number_at(&report, "/rows/0/many/agents/0/received_bytes") > 0.0, "{report}");
}

/// If one of several agents does not answer, it is named before anything is measured.
#[test]
fn an_agent_that_is_not_there_is_named_among_several() {
    let home = Home::new();
    let (_agent, address) = agent(&home, &[]);
    for command in ["stream", "rr"] {
        let args = [command, "--to", &address, "--to", "127.0.0.1:1"];
        refusal(&home, &args, 1, &["--to 127.0.0.1:1"]).expect("told");
    }
}
