//! `netcliff stream`: real transfers on this host, and what is refused.

mod common;

use common::Home;
use serde_json::Value;

const SHORT: [&str; 7] = ["stream", "--time", "200ms", "--warmup", "10ms", "--cpu-meter", "procfs"];

#[test]
fn a_sweep_is_measured_kept_and_shown_again() {
    let home = Home::new();
    let args = [&SHORT[..], &["--block", "512B..1KiB", "--repeats", "2", "--save", "--json"]].concat();
    let found: Value = serde_json::from_str(&home.stdout(args)).expect("one object");
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["block_bytes"].as_u64()).collect::<Vec<_>>(), [Some(512), Some(1024)]);
    for row in rows {
        assert!(row["goodput_bps"]["median"].as_f64().is_some_and(|bps| bps > 0.0), "{row}");
        assert_eq!(row["repeats"], 2);
    }
    assert_eq!(found["partial"], false);
    let again: Value = serde_json::from_str(&home.stdout(["results", "show", "--json"])).expect("one object");
    assert_eq!(again["rows"], found["rows"]);
    let page = home.stdout(["results", "show"]);
    assert!(page.contains("GOODPUT BY THE RECEIVER'S CLOCK") && page.contains("write 512B"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn wrong_usage_is_named_with_what_is_accepted() {
    let home = Home::new();
    for (args, words) in [
        (&["--block", "0B"][..], &["0B", "1B to 16MiB"][..]),
        (&["--block", "1TiB"], &["1TiB", "such as \"64B\""]),
        (&["--block", "1024GiB"], &["1024GiB", "1B to 16MiB"]),
        (&["--block", "1MiB..1KiB"], &["smaller size first"]),
        (&["--flows", "5000"], &["flows is 5000", "1 to 4096"]),
        (&["--flows", "0"], &["flows is 0"]),
        (&["--cpu", "0,4000"], &["cpu is 4000"]),
        (&["--cpu", "zero"], &["two CPU numbers"]),
        (&["--congestion", "carrier-pigeon"], &["carrier-pigeon", "this kernel has"]),
        (&["--method", "netperf"], &["lmbench2", "acked"]),
        (&["--method", "lmbench2", "--block", "1KiB"], &["64KiB"]),
        (&["--method", "lmbench3", "--nodelay"], &["TCP_NODELAY"]),
        (&["--path", "sendfile"], &["--file"]),
        (&["--path", "gso"], &["write, writev"]),
        (&["--channel", "udp", "--block", "100KiB"], &["8 to 65507 bytes"]),
        (&["--namespaces", "a", "--address", "127.0.0.1"], &["NEAR,FAR"]),
    ] {
        let out = home.netcliff([&SHORT[..5], &["--repeats", "1"], args].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn more_flows_than_descriptors_is_a_sentence() {
    let home = Home::new();
    let script = "ulimit -n 64; exec \"$@\"";
    let binary = env!("CARGO_BIN_EXE_netcliff");
    let args = [&SHORT[..], &["--flows", "200", "--repeats", "1"]].concat();
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

#[test]
fn what_the_kernel_refuses_is_named_and_the_rest_measured() {
    let home = Home::new();
    let args = [&SHORT[..], &["--repeats", "1", "--channel", "pipe", "--path", "write,zerocopy", "--json"]].concat();
    let out = home.netcliff(args).output().expect("it runs");
    assert_eq!(out.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(found["partial"], true);
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1));
    assert!(found["not_had"].to_string().contains("zerocopy") && found["not_had"].to_string().contains("SO_ZEROCOPY"));
}
