//! The environment of a measurement changes during it: the change is named, the results are partial, and the exit code
//! shows it.

use std::time::{Duration, Instant};

use crate::common::running::{Ended, Running, namespaces_of};
use crate::common::{Home, bed, entries};
use crate::schema::printed;
use netcliff_testkit::{Need, has};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
/// Time from the start of a run until its link is cut, so that the cut is within the measured window.
const INTO: Duration = Duration::from_millis(1200);

/// Changes of a testbed's link, with the message that each causes.
const CUTS: [(&[&str], &str); 2] =
    [(&["link", "del", "veth0"], "veth0 was removed"), (&["link", "set", "veth0", "down"], "veth0 was set down")];
/// A cut later than this after the start may be after the window of a run of 3 s. The attempt then does not count.
const IN_TIME: Duration = Duration::from_millis(2500);
/// Largest number of attempts. A host that is too busy to cut in time in any of them is not tested.
const ATTEMPTS: usize = 10;

/// A run whose link is cut within its window.
fn cut(home: &Home, args: &[&str], reaches: &str, cut: &[&str]) -> Ended {
    for _ in 0..ATTEMPTS {
        let mut run = Running::start(home, args);
        run.until(reaches, PATIENCE);
        let begun = Instant::now();
        std::thread::sleep(INTO);
        cut_link(run.pid(), cut);
        let in_time = begun.elapsed() < IN_TIME;
        let ended = run.end(PATIENCE);
        if in_time {
            return ended;
        }
    }
    panic!(
        "the link could not be cut within {IN_TIME:?} of a run's begin in {ATTEMPTS} attempts: this host is too busy"
    );
}

/// Applies the change `cut` to a device in the sender's namespace of a run.
fn cut_link(pid: u32, cut: &[&str]) {
    let spaces = namespaces_of(pid);
    let sender = spaces.iter().find(|name| name.ends_with("-snd")).expect("the sender's namespace");
    assert!(bed::ip(&[&["-n", sender.as_str()], cut].concat()), "the link cannot be cut");
}

/// The transfer ends before its stall limit, so only the change of the link shows that it was cut off.
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
            let report = printed(&ended.stdout, &ended.stderr);
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
        let report = printed(&ended.stdout, &ended.stderr);
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
        let finding = printed(&ended.stdout, &ended.stderr);
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
        cut_link(run.pid(), what);
        let ended = run.end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        assert!((ended.stdout + &ended.stderr).contains(told), "{what:?}");
    }
}

/// Each trial depends on the three namespaces of the testbed.
#[test]
fn an_rfc2544_whose_link_goes_says_why() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    for what in ["del", "down", "mtu"] {
        let args =
            ["rfc2544", "throughput", "--frames", "64", "--trial", "2s", "--max", "20kpps", "--rest", "0s", "--json"];
        let run = Running::start(&home, &args);
        // The device under test: it has two ports, the tester's ends have one each.
        let router = || namespaces_of(run.pid()).into_iter().find_map(|space| Some((router_port(&space)?, space)));
        assert!(bed::within(PATIENCE, || router().is_some()), "no testbed");
        // Trials follow each other, so one of them is running then.
        std::thread::sleep(2 * INTO);
        let (device, space) = router().expect("it is there");
        let (change, told): (&[&str], _) = match what {
            "del" => (&["link", "del", &device], format!("{device} was removed")),
            "down" => (&["link", "set", &device, "down"], format!("{device} was set down")),
            // The tester's own ports stay as they are.
            _ => (&["link", "set", &device, "mtu", "1400"], format!("the MTU of {device} went from")),
        };
        assert!(bed::ip(&[&["-n", space.as_str()], change].concat()), "{what}: {device} in {space}");
        let ended = run.end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{what}: {}\n{}", ended.stdout, ended.stderr);
        let all = ended.stdout + &ended.stderr;
        assert!(all.contains("changed during the measurement") && all.contains(&told), "{what}: {all}");
    }
}

/// Name of a port that is up. `None` unless the namespace has two of them.
fn router_port(space: &str) -> Option<String> {
    let listed =
        std::process::Command::new("ip").args(["-n", space, "-o", "link", "show", "type", "veth", "up"]).output();
    let listed = String::from_utf8_lossy(&listed.ok()?.stdout).into_owned();
    if listed.lines().count() != 2 {
        return None;
    }
    Some(listed.split_whitespace().nth(1)?.split(['@', ':']).next()?.to_owned())
}

/// The far end is on another host, so its agent has to report what changes there.
#[test]
fn a_change_at_the_far_end_is_told_by_its_agent() {
    let Some(bed) = bed::Bed::new("changed") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = bed::key(&far);
    // Permit a long silence, because this host may be too busy for heartbeats every second.
    let listening = ["agent", "--listen", bed::AGENT, "--key", &key, "--silence", "30s"];
    let mut agent = Running::of(bed.inside(1, &far, &[], &listening));
    agent.until("agent listens on", PATIENCE);
    let (space, _, address) = bed.ends()[1];
    // The change is not visible at the near end, and is reverted at once. The current repeat continues.
    let change = far.file("change", format!("addr del {address} dev far0\naddr add {address} dev far0\n"));
    let stream = ["stream", "--time", "3s", "--repeats", "1", "--json", "--cpu-meter", "procfs"];
    let rr = ["rr", "--time", "3s", "--warm-up", "50ms", "--repeats", "1", "--json"];
    for (args, place) in [(&stream[..], "/rows/0/cut_short"), (&rr[..], "/partial")] {
        let mut run = Running::of(bed.inside(0, &near, &[], &[args, &["--to", bed::AGENT, "--key", &key]].concat()));
        run.until("round 1", PATIENCE);
        std::thread::sleep(INTO);
        assert!(bed::ip(&["-n", space, "-batch", &change]));
        let ended = run.end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
        let report = printed(&ended.stdout, &ended.stderr);
        let why = report.pointer(place).and_then(Value::as_str).unwrap_or_else(|| panic!("{report}"));
        assert!(why.contains("far host changed during the measurement: far0 lost its address 10.99.0.2"), "{why}");
    }
}

/// `taskset`, or a CPU that is taken offline, moves a thread: it then runs on another CPU than the report would say.
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
        // The thread may have ended just now.
        let _ = sched_setaffinity(thread, &both);
    }
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}\n{}", ended.stdout, ended.stderr);
    let report = printed(&ended.stdout, &ended.stderr);
    let why = report["rows"][0]["cut_short"].as_str().expect("why");
    assert!(why.contains("a thread that was pinned to CPU") && why.contains("was moved to 0+1"), "{why}");
}
