//! What a measurement stands on changes in the middle of it: it is named, what was measured is partial, and the exit code says so.

mod common;

use std::time::Duration;

use common::running::{Ended, Running, namespaces_of};
use common::{Home, bed, entries};
use netcliff_testkit::{Need, has};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
/// Into a run, when its link is cut: within its window.
const INTO: Duration = Duration::from_millis(1200);

/// What is done to the link of a testbed, and what is said of it. The kernel sets a link down before it removes it, and whoever looks
/// in between says so.
const CUTS: [(&[&str], &str); 2] =
    [(&["link", "del", "veth0"], "veth0 was "), (&["link", "set", "veth0", "down"], "veth0 was set down")];

/// A run whose link is cut.
fn cut(home: &Home, args: &[&str], reaches: &str, cut: &[&str]) -> Ended {
    let mut run = Running::start(home, args);
    run.until(reaches, PATIENCE);
    std::thread::sleep(INTO);
    let spaces = namespaces_of(run.pid());
    let sender = spaces.iter().find(|name| name.ends_with("-snd")).expect("the sender's namespace");
    assert!(bed::ip(&[&["-n", sender.as_str()], cut].concat()), "the link cannot be cut");
    run.end(PATIENCE)
}

/// The transfer is over before its stall is: only what it stands on tells that it was none.
#[test]
fn a_stream_whose_link_goes_is_partial() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    for channel in ["tcp", "udp"] {
        for (what, told) in CUTS {
            let args =
                ["stream", "--testbed", "netns", "--channel", channel, "--time", "3s", "--repeats", "1", "--json"];
            let ended = cut(&home, &[&args[..], &["--cpu-meter", "procfs"]].concat(), "round 1", what);
            assert_eq!(ended.status.code(), Some(1), "{channel} {what:?}: {}\n{}", ended.stdout, ended.stderr);
            let report: Value = serde_json::from_str(&ended.stdout).expect("what was measured");
            assert_eq!(report["partial"], true);
            let why = report["rows"][0]["cut_short"].as_str().expect("why");
            assert!(why.contains(told), "{channel}: {why}");
        }
    }
}

#[test]
fn request_response_whose_link_goes_is_partial() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    for (what, told) in CUTS {
        let args = ["rr", "--testbed", "netns", "--transport", "udp", "--time", "3s", "--warm-up", "50ms"];
        let ended = cut(&home, &[&args[..], &["--repeats", "1", "--json"]].concat(), "round 1", what);
        assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).expect("what was measured");
        let why = report["partial"].as_str().expect("why");
        assert!(why.contains(told), "{why}");
    }
}

#[test]
fn a_find_whose_link_goes_is_partial_and_says_why() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    for (what, told) in CUTS {
        let args = ["find", "--quick", "--testbed", "netns", "--json"];
        let ended = cut(&home, &args, "rough cliff", what);
        assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        let finding: Value = serde_json::from_str(&ended.stdout).expect("what was found");
        assert_eq!(finding["partial"], true, "{}", ended.stdout);
        let missing = finding["missing"].to_string();
        assert!(missing.contains(told), "{missing}");
    }
}

/// An experiment that is measured on the wire.
#[test]
fn a_run_whose_link_goes_says_why() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    let text = "
title = \"one\"
kind = \"transfer\"
repeats = 1
time = \"3s\"
[vary]
block = [\"64KiB\"]
";
    let file = home.file("one.toml", text);
    for (what, told) in CUTS {
        let run = Running::start(&home, &["run", &file, "--testbed", "netns", "--json"]);
        let spaces = || namespaces_of(run.pid());
        assert!(bed::within(PATIENCE, || spaces().iter().any(|name| name.ends_with("-snd"))));
        std::thread::sleep(INTO);
        let sender = spaces().into_iter().find(|name| name.ends_with("-snd")).expect("the sender's namespace");
        assert!(bed::ip(&[&["-n", sender.as_str()], what].concat()), "the link cannot be cut");
        let ended = run.end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        assert!((ended.stdout + &ended.stderr).contains(told), "{what:?}");
    }
}

/// What `taskset` does, or a CPU that is taken offline: the thread runs elsewhere than the report would say.
#[test]
fn a_thread_that_is_moved_makes_a_stream_partial() {
    let home = Home::new();
    if !has(Need::Cpus) {
        return;
    }
    let args = ["stream", "--testbed", "loopback", "--time", "3s", "--repeats", "1", "--json", "--cpu-meter", "procfs"];
    let mut run = Running::start(&home, &args);
    run.until("round 1", PATIENCE);
    std::thread::sleep(INTO);
    let both = [0, 1].into_iter().fold(CpuSet::new(), |mut set, cpu| {
        set.set(cpu).expect("a small number");
        set
    });
    for thread in entries(format!("/proc/{}/task", run.pid()).as_ref()) {
        let thread = Pid::from_raw(thread.parse().expect("a number"));
        // It may have ended just now.
        let _ = sched_setaffinity(thread, &both);
    }
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).expect("what was measured");
    let why = report["rows"][0]["cut_short"].as_str().expect("why");
    assert!(why.contains("a thread that was pinned to CPU") && why.contains("was moved to 0+1"), "{why}");
}
