//! `netcliff drops`.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netcliff_testkit::{Need, has, has_program};
use serde_json::Value;

use crate::common::Home;
use crate::schema::printed;

/// Sends datagrams to a port of loopback where nobody listens, until `work` returns.
fn while_dropping<T>(port: u16, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            while !stop.load(Ordering::Relaxed) {
                let _ = socket.send_to(b"x", ("127.0.0.1", port));
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("loopback").port()
}

#[test]
fn counters_tell_reasons_and_what_they_cannot() {
    let home = Home::new();
    let text =
        while_dropping(free_port(), || home.stdout(["drops", "--method", "counters", "--once", "--interval", "500ms"]));
    for part in ["method: counters", "Udp NoPorts", "/proc/net/snmp", "WHAT TO DO", "neither flow nor process"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_cannot_be_asked_is_a_sentence() {
    let home = Home::new();
    for (words, part) in [
        (&["--filter", "udp prt 53"][..], "column 5"),
        (&["--filter", ""], "column 1"),
        (&["--interval", "10ms"], "100ms to 60s"),
        (&["--by", "colour"], "flow"),
        (&["--method", "counters", "--by", "flow"], "--by flow with --method counters"),
        (&["--method", "counters", "--filter", "udp"], "--filter with --method counters"),
        (&["--netns", "no-such"], "is no network namespace"),
        (&["--netns", "no-such", "--all"], "--all"),
        (&["--trace", "0"], "1"),
        (&["--once", "--time", "5s"], "--time"),
    ] {
        let refused = home.command([&["drops"], words].concat()).output().expect("it starts");
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(part), "{words:?}: {refused:?}");
    }
}

/// Without the permission to use eBPF, the kernel's counters are shown, with the reason. Options that need eBPF are
/// refused.
#[test]
fn without_the_right_counters_remain() {
    if !has(Need::Root) || !has(Need::Ebpf) || !has_program("setpriv") {
        return;
    }
    let home = Home::new();
    let without = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_netcliff");
        let mut command = std::process::Command::new("setpriv");
        command
            .args(["--inh-caps=-all", "--bounding-set=-all", program, "drops", "--once", "--interval", "100ms"])
            .args(words);
        command.env("HOME", home.command([""]).get_current_dir().expect("a directory"));
        command.output().expect("it starts")
    };
    let shown = without(&[]);
    let text = String::from_utf8_lossy(&shown.stdout).replace("\n    ", " ");
    assert!(shown.status.success() && text.contains("method: counters") && text.contains("CAP_BPF"), "{shown:?}");
    let refused = without(&["--filter", "udp"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && text.contains("CAP_BPF") && text.contains("leave out --filter"),
        "{refused:?}"
    );
}

/// A kernel without BTF, which the test hides by a mount: the kernel's counters are still reported, with the reason.
#[test]
fn without_type_information_counters_remain() {
    if !has(Need::Root) || !has(Need::Ebpf) || !has(Need::Tmpfs) {
        return;
    }
    let home = Home::new();
    let without = |words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_netcliff");
        let mut command = std::process::Command::new("unshare");
        let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
        command.args(["--mount", "sh", "-c", hidden, program]).args(words);
        command.env("HOME", home.command([""]).get_current_dir().expect("a directory"));
        command.output().expect("it starts")
    };
    let shown = without(&["drops", "--once", "--interval", "100ms"]);
    let text = String::from_utf8_lossy(&shown.stdout).replace("\n    ", " ");
    assert!(
        shown.status.success() && text.contains("method: counters") && text.contains("no type information"),
        "{shown:?}"
    );
    let refused = without(&["drops", "--trace", "1"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("no type information"), "{refused:?}");

    let short = [
        "stream",
        "--channel",
        "udp",
        "--time",
        "100ms",
        "--warmup",
        "0s",
        "--repeats",
        "1",
        "--rate",
        "10Mbit/s",
        "--wait",
        "--json",
    ];
    let streamed = without(&short);
    let found = printed(&streamed.stdout, &streamed.stderr);
    let ledger = &found["rows"][0]["ledger"];
    assert_eq!(ledger["method"], "counters", "{found}");
    assert!(ledger["limits"][0].as_str().is_some_and(|why| why.contains("no type information")), "{ledger}");
    assert!(ledger["sent"].as_u64().is_some_and(|sent| sent > 0), "{ledger}");
}

#[test]
fn the_kernels_reasons_by_flow_and_a_packets_path() {
    if !has(Need::Root) || !has(Need::Ebpf) {
        return;
    }
    let home = Home::new();
    let port = free_port();
    let filter = format!("udp and dst host 127.0.0.1 and dst port {port}");
    let words = ["drops", "--once", "--json", "--interval", "500ms", "--by", "flow,stack", "--filter", &filter];
    let text = while_dropping(port, || home.stdout(words));
    let drops = printed(&text, "");
    let row = &drops["rows"][0];
    assert_eq!((&drops["method"], &row["flow"]["destination_port"]), (&"ebpf".into(), &port.into()), "{text}");
    assert!(row["drops"].as_u64().is_some_and(|drops| drops > 10), "{text}");
    assert!(row["stack"][0].as_str().is_some_and(|function| !function.starts_with("bpf_")), "{text}");
    let has_reasons = !drops["limits"].to_string().contains("gives no reasons");
    assert!(!has_reasons || row["reason"] == "NO_SOCKET" && drops["advice"][0]["reason"] == "NO_SOCKET", "{text}");

    let words = ["drops", "--trace", "2", "--json", "--time", "5s", "--filter", &filter];
    let text = while_dropping(port, || home.stdout(words));
    let paths: Vec<Value> = text.lines().map(|line| printed(line, "")).collect();
    assert_eq!(paths.len(), 2, "{text}");
    for path in &paths {
        let steps = path["steps"].as_array().expect("steps");
        // A packet may already have passed the first stages when it is selected; it is followed from there on.
        let least = if steps[0]["place"] == "netif_receive_skb" { 2 } else { 3 };
        assert!(steps.len() >= least && path["ended"] == true && path["flow"]["destination_port"] == port, "{text}");
        assert!(steps.last().is_some_and(|step| step["place"] == "kfree_skb" && step["dropped"].is_string()), "{text}");
        assert!(steps.is_sorted_by_key(|step| step["at_ns"].as_u64()), "{text}");
    }
}
