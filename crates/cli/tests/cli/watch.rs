//! `netcliff watch` without a terminal and in one.

use crate::common::Home;
use netcliff_testkit::{Need, has, has_program};

#[test]
fn once_as_json() {
    let home = Home::new();
    let record = home.text("moments.jsonl");
    let moment = home.json(["watch", "--once", "--json", "--interval", "200ms", "--record", &record]);
    let cpus = moment["cpus"].as_array().unwrap();
    assert!(!cpus.is_empty());
    for cpu in cpus {
        let shares = ["user", "system", "irq", "softirq", "steal", "idle"].map(|name| cpu[name].as_f64().unwrap());
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{cpu}");
    }
    assert!(moment["seconds"].as_f64().unwrap() >= 0.2);
    assert!(moment["bottleneck"].as_str().unwrap().len() > 10);
    let line = std::fs::read_to_string(&record).unwrap();
    assert_eq!(line.lines().count(), 1);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), moment);
}

#[test]
fn once_for_people() {
    let home = Home::new();
    let page = home.stdout(["watch", "--once", "--interval", "200ms"]);
    assert!(page.contains("CPU") && page.contains("interface"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn wrong_usage_is_told() {
    let home = Home::new();
    for (args, words) in [
        (&["watch"][..], "--once"),
        (&["watch", "--once", "--if", "nosuch0"], "nosuch0"),
        (&["watch", "--once", "--interval", "1ms"], "100ms"),
        (&["watch", "--once", "--json", "--record", "/nonexistent/x"], "/nonexistent/x"),
    ] {
        let output = home.netcliff(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
}

/// Sort, record, pause, quit, typed into a real pseudo-terminal of 80x24.
#[test]
fn keys_in_a_terminal() {
    let home = Home::new();
    let record = home.text("moments.jsonl");
    let Some(output) = in_terminal(
        &home,
        "= CPU,s=by load,r=recording,p=paused,?=Columns,q",
        &["watch", "--interval", "200ms", "--record", &record],
    ) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let screens: Vec<&str> = text.split('\x0c').collect();
    let [sorted, recording, paused, help, _, end] = screens[..] else { panic!("{} screens: {text}", screens.len()) };
    assert!(sorted.contains("netcliff watch: ") && sorted.contains("by load") && sorted.contains(" CPU"), "{sorted}");
    assert!(sorted.lines().count() <= 24, "{sorted}");
    assert!(recording.contains("recording") && !recording.contains("paused"), "{recording}");
    // All of the first line fits, keys included.
    assert!(paused.contains("paused, recording, by load   ? help, q quit\n"), "{paused}");
    assert!(help.contains("i interrupts, p softirqs") && help.contains("start and stop recording"), "{help}");
    assert_eq!(end.trim(), "exit 0");
    let lines = std::fs::read_to_string(&record).unwrap();
    // At least one interval of 200 ms between the keys; more on a loaded machine.
    assert!((1..=200).contains(&lines.lines().count()), "{lines}");
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// The devices of a testbed are seen from outside, with the namespace they are in and what goes over them.
#[test]
fn devices_of_a_testbed_are_seen_from_outside() {
    if !has(Need::Netns) {
        return;
    }
    let bed = Home::new();
    let args = ["rr", "--testbed", "netns", "--time", "60s", "--repeats", "1"];
    let mut running = crate::common::running::Running::start(&bed, &args);
    running.until("round 1", std::time::Duration::from_secs(30));
    let space = format!("nc-{}-", running.pid());
    let home = Home::new();
    let moving = |moment: &serde_json::Value| {
        let of_bed = |one: &&serde_json::Value| one["namespace"].as_str().is_some_and(|name| name.starts_with(&space));
        let interfaces = moment["interfaces"].as_array().cloned().unwrap_or_default();
        let moving = interfaces.iter().filter(of_bed).filter(|one| one["rx_pps"].as_f64() > Some(10.0));
        moving.count()
    };
    let seen = crate::common::bed::within(std::time::Duration::from_secs(30), || {
        moving(&home.json(["watch", "--all", "--once", "--json", "--interval", "300ms"])) >= 2
    });
    assert!(seen, "both ends of the testbed's link");
    let without = home.json(["watch", "--once", "--json", "--interval", "200ms"]);
    assert_eq!(moving(&without), 0, "{without}");
    let screen = in_terminal(&home, "=nc-,s=by load,q", &["watch", "--all", "--interval", "200ms"]);
    running.signal("INT");
    running.end(std::time::Duration::from_secs(30));
    if let Some(output) = screen {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("all, by load   ? help, q quit"), "{text}{output:?}");
    }
}

/// Types keys into a pseudo-terminal, step by step (terminal.py). `None`, reported, without Python.
fn in_terminal(home: &Home, keys: &str, args: &[&str]) -> Option<std::process::Output> {
    let netcliff = home.command(args);
    let mut python = std::process::Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/common/terminal.py")).arg(keys);
    python.arg(netcliff.get_program()).args(netcliff.get_args());
    for (name, value) in netcliff.get_envs() {
        if let Some(value) = value {
            python.env(name, value);
        }
    }
    has_program("python3").then(|| python.output().expect("python3 runs"))
}

/// A terminal that claims a huge size ends the program by a signal as usual. If the terminal is gone, the program ends
/// within a second or two, with or without the signal for it; it also ends by a signal while nobody reads its output.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    let home = Home::new();
    for how in ["hangup", "no-signal", "unread", "huge"] {
        let Some(told) = terminal_gone(&home, how, &["watch", "--interval", "200ms"]) else { return };
        // The program always ends by itself: with code 1, or with code 0, as after `q`, if the terminal stays.
        let stays = matches!(how, "unread" | "huge");
        let fits = told.starts_with("ended 1 ") || (stays && told.starts_with("ended 0 "));
        assert!(fits, "{how}: {told}");
    }
}

/// If the terminal is gone, nobody answers the question of `tune apply`: nothing is changed, and the program ends.
#[test]
fn a_question_to_a_terminal_that_is_gone_is_a_no() {
    let home = Home::new();
    let Some(told) = terminal_gone(&home, "no-signal", &["tune", "apply", "--objective", "latency"]) else { return };
    // If nothing can be changed, no question is asked.
    assert!(told.starts_with("ended") || told.starts_with("left before"), "{told}");
}

/// How a program ends when its terminal is closed. `None` without Python; a line reports it.
fn terminal_gone(home: &Home, how: &str, args: &[&str]) -> Option<String> {
    if !has_program("python3") {
        return None;
    }
    let netcliff = home.command(args);
    let mut python = std::process::Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/common/terminal_gone.py")).arg(how);
    python.arg(netcliff.get_program()).args(netcliff.get_args());
    python.envs(netcliff.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = python.output().expect("python3 runs");
    Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

/// A watch that is ended by SIGTERM restores the terminal.
#[test]
fn sigterm_gives_the_terminal_back() {
    let home = Home::new();
    let Some(output) = in_terminal(&home, "=netcliff watch,!", &["watch", "--interval", "60s"]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.trim_end().ends_with("exit 0 as it was"), "{text}");
}

/// An interface that is removed has no further figures: no zeros.
#[test]
fn an_interface_that_goes_ends_it() {
    let home = Home::new();
    let space = format!("ncwatch-{}", std::process::id());
    if !has(Need::Netns) {
        return;
    }
    let made = crate::common::bed::ip(&["netns", "add", &space])
        && crate::common::bed::ip(&["-n", &space, "link", "add", "w0", "type", "veth", "peer", "name", "w1"]);
    assert!(made, "the namespace of the test cannot be made");
    let netcliff = home.command(["watch", "--json", "--interval", "100ms", "--if", "w0"]);
    let mut watch = std::process::Command::new("ip");
    watch.args(["netns", "exec", &space]).arg(netcliff.get_program()).args(netcliff.get_args());
    let child = watch.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(crate::common::bed::ip(&["-n", &space, "link", "del", "w0"]));
    let output = ended(child);
    assert!(crate::common::bed::ip(&["netns", "delete", &space]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("w0 is gone"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().count() >= 1, "{output:?}");
}

fn ended(mut child: std::process::Child) -> std::process::Output {
    for _ in 0..100 {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait_with_output().unwrap()
}
