//! `netcliff stream`: real transfers on this host, and errors of usage. Faults are tested in `transfer_faults.rs`.

use crate::common::running::{agent, namespaces_of};
use crate::common::{Home, number_at, refusal, refusals};
use crate::schema::printed;
use netcliff_testkit::{Need, has, has_namespaces};
use serde_json::Value;

const SHORT: [&str; 7] = ["stream", "--time", "200ms", "--warmup", "10ms", "--cpu-meter", "procfs"];

#[test]
fn a_sweep_is_measured_kept_and_shown_again() {
    let home = Home::new();
    let args = [&SHORT[..], &["--block", "512B..1KiB", "--repeats", "2", "--save", "--json"]].concat();
    let found = home.json(args);
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| row["block_bytes"].as_u64()).collect::<Vec<_>>(), [Some(512), Some(1024)]);
    for row in rows {
        assert!(row["goodput_bps"]["median"].as_f64().is_some_and(|bps| bps > 0.0), "{row}");
        assert_eq!(row["repeats"], 2);
    }
    assert_eq!(found["partial"], false);
    let again = home.json(["results", "show", "--json"]);
    assert_eq!(again["rows"], found["rows"]);
    let page = home.stdout(["results", "show", "-v"]);
    for part in ["GOODPUT BY THE RECEIVER'S CLOCK", "write 512B", "busiest CPU"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    assert!(home.stdout(["results", "show"]).contains("Highest goodput of 2 configurations, "), "the answer first");
}

#[test]
fn wrong_usage_is_named_with_what_is_accepted() {
    let home = Home::new();
    for (args, words) in [
        (&["--block", "0B"][..], &["0B", "1B to 16MiB"][..]),
        (&["--block", "1TiB"], &["1TiB", "such as \"64B\""]),
        (&["--block", "1024GiB"], &["1024GiB", "1B to 16MiB"]),
        (&["--block", "1MiB..1KiB"], &["smaller size first"]),
        (&["--flows", "5000"], &["5000", "1 to 4096"]),
        (&["--flows", "0"], &["'0'", "1 to 4096"]),
        (&["--flows", "x"], &["'x'", "1 to 4096"]),
        (&["--threads", "0"], &["--threads", "'0'", "1 to 8192"]),
        (&["--threads", "2", "--flows", "3", "--path", "write,zerocopy"], &["--threads 2", "--path zerocopy"]),
        (&["--threads", "1", "--bidir", "--receive", "uring"], &["--threads 1", "--receive uring"]),
        (&["--threads", "1", "--flows", "2", "--channel", "pipe"], &["--threads 1", "--channel pipe"]),
        (&["--tos", "300"], &["'300'", "0 to 255"]),
        (&["--address", "localhost"], &["localhost", "127.0.0.1"]),
        (&["--mtu", "9k"], &["'9k'", "68 to 65535"]),
        (&["--interval", "soon"], &["soon", "such as"]),
        (&["--interval", "1e30"], &["1e30", "at most a day"]),
        (&["--send-buffer", "big"], &["big", "1B to 1GiB"]),
        (&["--send-buffer", "64KB"], &["'64KB'", "a size in bytes or with a unit", "1B to 1GiB"]),
        (&["--precision", "0%"], &["0%", "5%"]),
        (&["--precision", "2%"], &["1 repeats", "at least 5"]),
        (&["--precision", "2%", "--method", "lmbench3"], &["lmbench3", "--precision"]),
        (&["--cpu", "0,4000"], &["--cpu 4000: expected"]),
        (&["--cpu", "zero"], &["two CPU numbers"]),
        (&["--cpu", "3-1,0"], &["such as 0-3,4-7"]),
        (&["--cpu", "0+0,0+4000", "--flows", "2"], &["--cpu 4000: expected"]),
        (&["--congestion", "carrier-pigeon"], &["--congestion carrier-pigeon", "this kernel has"]),
        (&["--method", "netperf"], &["lmbench2", "acked"]),
        (&["--method", "lmbench2", "--block", "1KiB"], &["64KiB"]),
        (&["--method", "lmbench3", "--nodelay"], &["TCP_NODELAY"]),
        (&["--path", "sendfile", "--file-size", "0B"], &["0B", "1B"]),
        (&["--paced-by", "sender"], &["--rate"]),
        (&["--mss", "1B"], &["'1B'", "88B to 32767B"]),
        (&["--mss", "1GiB"], &["'1GiB'", "88B to 32767B"]),
        (&["--link", "0bit/s"], &["--link", "more than 0"]),
        (&["--read", "1GiB"], &["--read 1GiB: expected 1 to 16777216 bytes"]),
        (&["--low-water", "1GiB"], &["--low-water 1GiB: expected"]),
        (&["--interval", "1us"], &["--interval 1us: expected 0.001"]),
        (&["--stall", "0s"], &["--stall 0s: expected 0.001"]),
        (&["--bytes", "0B"], &["at least 1B"]),
        (&["--file", "/no/such/file", "--path", "sendfile"], &["--file /no/such/file", "No such file"]),
        (&["--file", "/dev/null", "--path", "sendfile"], &["--file /dev/null", "is a device, not a file"]),
        (&["--file", "/dev/null"], &["--file", "add --path sendfile"]),
        (&["--file-size", "1MiB"], &["--file-size", "add --path sendfile"]),
        (&["--cold"], &["--cold", "add --path sendfile"]),
        (&["--data-to", "x"], &["--data-to", "add --to or --ssh"]),
        (&["--to", ""], &["--to is empty", "HOST:PORT"]),
        (&["--to", "localhost:99999"], &["--to localhost:99999: \"99999\" is not a port", "ADDRESS:PORT"]),
        (&["--to", ":9940"], &["--to :9940: expected a host"]),
        (&["--path", "gso"], &["write, writev"]),
        (&["--channel", "udp", "--block", "100KiB"], &["--block 100KiB: expected 8 to 65507 bytes"]),
        (&["--namespaces", "a", "--address", "127.0.0.1"], &["NEAR,FAR"]),
    ] {
        let out = home.netcliff([&SHORT[..5], &["--repeats", "1"], args].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

/// Refused before a testbed is built and a round announced: nothing but the sentence is printed.
#[test]
fn impossible_settings_are_refused_before_anything_is_made() {
    let home = Home::new();
    for (args, words) in [
        (&["-t", "0"][..], &["--time 0s", "expected 0.001 up to"][..]),
        (&["-t", "0", "--testbed", "best"], &["--time 0s"]),
        (
            &["--congestion", "carrier-pigeon", "--save"],
            &["--congestion carrier-pigeon", "one that this kernel has", "cubic"],
        ),
        (&["--congestion", "carrier-pigeon", "--testbed", "best"], &["--congestion carrier-pigeon"]),
        (&["--channel", "udp", "--block", "100KiB"], &["--block 100KiB"]),
    ] {
        let out = home.netcliff([&["stream"], args].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)) && said.lines().count() == 1, "{args:?}: {said}");
        assert!(out.stdout.is_empty());
    }
    assert_eq!(home.json_lines(["results", "list", "--json"]).len(), 0, "no run is kept");
}

#[test]
fn what_the_kernel_refuses_is_named_and_the_rest_measured() {
    let home = Home::new();
    let args = [&SHORT[..], &["--repeats", "1", "--channel", "pipe", "--path", "write,zerocopy", "--json"]].concat();
    let out = home.netcliff(args).output().expect("it runs");
    assert_eq!(out.status.code(), Some(1));
    let found = printed(&out.stdout, &out.stderr);
    assert_eq!(found["partial"], true);
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1));
    assert!(found["not_had"].to_string().contains("zerocopy") && found["not_had"].to_string().contains("SO_ZEROCOPY"));
}

#[test]
fn against_an_agent_in_every_direction_and_by_every_method() {
    let home = Home::new();
    let key = home.text("key");
    home.netcliff(["agent", "--make-key", &key]).assert().success();
    let (_agent, address) = agent(&home, &["--key", &key]);
    let to = ["--to", &address, "--key", &key, "--repeats", "1", "--json"];
    let measured = |more: &[&str]| {
        let found = home.json([&SHORT[..], &to, more].concat());
        assert_eq!(found["partial"], false, "{found}");
        assert!(number_at(&found, "/rows/0/goodput_bps/median") > 0.0, "{found}");
        for end in ["sender_cpu", "receiver_cpu"] {
            assert!(number_at(&found, &format!("/rows/0/{end}/us_per_kib/median")) > 0.0, "{end}: {found}");
        }
        found
    };
    let found = measured(&[]);
    assert!(found["asked"].to_string().contains("an agent on this host"), "{found}");
    measured(&["--reverse", "--flows", "2"]);
    measured(&["--bidir"]);
    let found = measured(&["--flows", "8", "--threads", "2", "--bidir"]);
    assert!(found["asked"].to_string().contains("8 flows over 2 threads at either end"), "{found}");
    assert!(found["cpu_methods"].to_string().contains("divided evenly"), "{found}");
    let found = measured(&["--reverse", "--path", "sendfile", "--file-size", "1MiB"]);
    assert_eq!(found["rows"][0]["path"], "sendfile");
    let file = ["stream", "--to", &address, "--key", &key, "--reverse", "--path", "sendfile", "--file", "/etc/hosts"];
    refusal(&home, &file, 2, &["opens no files", "--file-size"]).expect("told");
    measured(&["--channel", "udp", "--block", "1KiB", "--path", "batch"]);
    for method in ["lmbench2", "lmbench3", "ttcp", "acked"] {
        let warm_up: &[&str] = if method.starts_with("lm") { &["--warmup", "50ms"] } else { &[] };
        let args = [&["stream", "--method", method, "--bytes", "4MiB", "--cpu-meter", "procfs"], warm_up, &to].concat();
        let found = home.json(args);
        assert!(number_at(&found, "/rows/0/goodput_bps/median") > 0.0, "{method}: {found}");
    }
    let other = home.text("other");
    home.netcliff(["agent", "--make-key", &other]).assert().success();
    refusal(&home, &["stream", "--to", &address, "--key", &other], 1, &["does not have the same key"]).expect("told");
}

#[test]
fn wrong_usage_of_an_agent() {
    let home = Home::new();
    refusals(
        &home,
        2,
        &[
            (&["stream", "--to", "127.0.0.1", "--channel", "pipe"], &["pipe", "leave --to"]),
            (&["stream", "--to", "127.0.0.1", "--stall", "90s"], &["--stall 90s", "60 s"]),
            (&["stream", "--to", "127.0.0.1", "--address", "127.0.0.1"], &["--to", "--address"]),
            (&["stream", "--to", "127.0.0.1", "--testbed", "netns"], &["--to", "--testbed"]),
            (&["stream", "--testbed", "netns", "--mtu", "9"], &["--mtu", "'9'", "68 to 65535"]),
            (&["stream", "--testbed", "loopback", "--cpu", "0,4000"], &["--cpu 4000: expected", "online CPU"]),
            (&["stream", "--cpu", "0-0,0+4000"], &["--cpu 4000: expected", "online CPU"]),
            (&["stream", "--testbed", "netns", "--ipv6", "--mtu", "1279"], &["--mtu 1279", "1280 to 65535"]),
            (&["stream", "--mtu", "9000"], &["--mtu", "--testbed netns"]),
            (&["stream", "--testbed", "loopback", "--offloads", "off"], &["--offloads", "--testbed netns"]),
            (
                &["stream", "--channel", "udp", "--rate", "1Gbit/s", "--paced-by", "kernel"],
                &["--paced-by kernel", "TCP", "--channel udp"],
            ),
            (&["stream", "--channel", "pipe", "--receive", "uring"], &["--receive uring", "sockets", "--channel pipe"]),
            (
                &["stream", "--channel", "udp", "--path", "single,gso", "--receive", "uring"],
                &["--receive uring", "--path gso", "recvmmsg"],
            ),
            (&["stream", "--channel", "unix", "--receive", "zerocopy"], &["--receive zerocopy", "--channel unix"]),
            (&["stream", "--channel", "udp", "--nodelay"], &["--nodelay is for TCP", "--channel udp"]),
            (&["stream", "--channel", "unix", "--tos", "8"], &["--tos", "--channel unix"]),
            (&["stream", "--channel", "pipe", "--send-buffer", "1MiB"], &["--send-buffer", "--channel pipe"]),
            (&["stream", "--congestion", ""], &["--congestion is empty", "cubic"]),
            (&["stream", "--cpu-meter", "soaker"], &["soaker", "best, ebpf or procfs"]),
            (&["stream", "--block", "1TiB"], &["--block", "1B to 16MiB"]),
            (&["stream", "--threads", "1", "--flows", "2", "--method", "acked"], &["--threads 1", "--method acked"]),
            (&["stream", "--reverse", "--bidir"], &["--reverse", "--bidir"]),
            (&["stream", "--ssh=-oProxyCommand=x"], &["expected a host"]),
            (&["stream", "--method", "lmbench3", "--bidir"], &["says itself who sends"]),
        ],
    );
    let told = ["no-such-host.invalid has no address"];
    refusal(&home, &["stream", "--to", "no-such-host.invalid"], 1, &told).expect("told");
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    refusal(&home, &["stream", "--to", &free.to_string()], 1, &["cannot reach an agent"]).expect("told");
}

/// Two namespaces: with offloads, packets at the device are larger than the MTU; without offloads, no packet is.
#[test]
fn between_namespaces_with_offloads_on_and_off() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let bed = ["--testbed", "netns", "--repeats", "1", "--json"];
    let measured = |more: &[&str]| {
        let found = home.json([&SHORT[..], &bed, more].concat());
        assert!(number_at(&found, "/rows/0/goodput_bps/median") > 0.0, "{found}");
        assert!(found["fingerprint"].to_string().contains("nic.veth1.feature"), "{found}");
        found
    };
    let link = |found: &Value| found["asked"].to_string();
    let packet = |found: &Value| number_at(found, "/rows/0/device/bytes_per_packet/median");
    let cubic = |more: &[&str]| measured(&[&["--congestion", "cubic"][..], more].concat());
    let on = cubic(&["--offloads", "on"]);
    assert!(link(&on).contains("MTU 1500, transmit offloads on, received by the CPU's backlog queue"), "{on}");
    assert!(packet(&on) > 3000.0, "{on}");
    let off = cubic(&["--offloads", "off"]);
    assert!(link(&off).contains("transmit offloads off"), "{off}");
    assert!(packet(&off) <= 1514.0 && packet(&off) > 1000.0, "{off}");
    // The receiving side gets the packets that the sending side sent.
    let received = number_at(&off, "/rows/0/device/bytes_per_received/median");
    assert!((received / packet(&off) - 1.0).abs() < 0.05, "{off}");
    let jumbo = cubic(&["--offloads", "off", "--mtu", "9000", "--reverse"]);
    assert!(packet(&jumbo) > 5000.0 && packet(&jumbo) <= 9014.0, "{jumbo}");
    measured(&["--channel", "udp", "--block", "1KiB", "--path", "batch", "--reverse"]);
    // The headers of IPv6 and of TCP with timestamps leave 1428 bytes of a frame.
    let v6 = cubic(&["--offloads", "off", "--ipv6"]);
    let segment = number_at(&v6, "/rows/0/tcp/bytes_per_segment/median");
    assert!((1300.0..=1428.0).contains(&segment) && packet(&v6) <= 1514.0, "{v6}");
    measured(&["--ipv6", "--bidir"]);
    assert!(namespaces_of(std::process::id()).is_empty());
}

/// An independent check: the counts of the sender's device, frame by frame, while it sends nothing else. They agree
/// within 5 %, because the device is read slightly before and after the windows.
#[test]
fn datagrams_are_on_the_wire_what_the_device_counts() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let bed = ["--testbed", "netns", "--offloads", "off", "--channel", "udp", "--repeats", "1"];
    // Payload, MTU, frames of a datagram, and whether a frame is shorter than Ethernet's minimum; then more options.
    for (block, mtu, frames, short, family) in [
        ("8B", "1500", 1.0, true, &[][..]),
        ("64B", "1500", 1.0, false, &[]),
        ("1472B", "1500", 1.0, false, &[]),
        ("4000B", "1500", 3.0, false, &[]),
        ("4000B", "1003", 5.0, false, &[]),
        ("65507B", "9000", 8.0, false, &[]),
        ("64B", "1500", 1.0, false, &["--ipv6"]),
        ("1452B", "1500", 1.0, false, &["--ipv6"]),
        ("1472B", "1500", 2.0, false, &["--ipv6"]),
    ] {
        // Enough packets that one more or less at the ends of the window does not matter.
        let rate = if block.len() > 4 { "200Mbit/s" } else { "10Mbit/s" };
        let more = ["--rate", rate, "--path", "single", "--block", block, "--mtu", mtu, "--link", "1Gbit/s", "--json"];
        let (mut apart, mut found) = (f64::INFINITY, Value::Null);
        for _ in 0..4 {
            found = home.json([&SHORT[..], &bed, &more, family].concat());
            let at = |path: &str| number_at(&found, &format!("/rows/0/{path}/median"));
            let (packets, bytes) = (at("device/packets_per_s"), at("device/bytes_per_packet"));
            // The device counts 14 bytes of header, not the check sequence, the preamble and the gap.
            let counted_bps = packets * 8.0 * if short { 84.0 } else { bytes + 24.0 };
            let sends = at("sends_per_s");
            assert_eq!(number_at(&found, "/rows/0/udp/frames_per_datagram"), frames, "{found}");
            apart = (at("udp/wire_bps") / counted_bps - 1.0).abs().max((packets / sends / frames - 1.0).abs());
            if apart < 0.05 {
                break;
            }
        }
        assert!(apart < 0.05, "{block} over {mtu}: {apart}: {found}");
        assert!(number_at(&found, "/rows/0/udp/line_share") < 0.5, "{found}");
        assert_eq!(found["rows"][0]["udp"]["mtu_bytes"].to_string(), mtu);
    }
}

#[test]
fn datagrams_both_ways_between_namespaces() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let args = ["--testbed", "netns", "--channel", "udp", "--bidir", "--rate", "20Mbit/s", "--repeats", "1", "--json"];
    // Two flows of 20 Mbit/s, one in each direction. A delayed sender falls behind, by more in a short window, so each
    // attempt is longer.
    let mut best_bps = 0.0_f64;
    for attempt in 1..=8 {
        let time = format!("{}ms", 200 * attempt);
        let window = ["stream", "--time", &time, "--warmup", "10ms", "--cpu-meter", "procfs"];
        let found = home.json([&window[..], &args].concat());
        assert_eq!(found["partial"], false, "{found}");
        assert_eq!(found["rows"][0]["block_bytes"], 1472);
        best_bps = best_bps.max(number_at(&found, "/rows/0/goodput_bps/median"));
        assert!(best_bps < 45e6, "{found}");
        if best_bps > 25e6 {
            break;
        }
    }
    assert!(best_bps > 25e6, "{best_bps}");
}

#[test]
fn what_was_asked_is_told() {
    let home = Home::new();
    let args = ["--repeats", "1", "--rate", "80Mbit/s", "--tos", "8", "--path", "sendfile", "--cold", "--json"];
    let found = home.json([&SHORT[..], &args].concat());
    let asked = found["asked"].to_string();
    for part in ["80Mbit/s a flow, by the kernel", "\"tos\",\"8\"", "dropped from the page cache", "after a warm-up of"]
    {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}

#[test]
fn what_held_a_sender_back_is_told() {
    let home = Home::new();
    let narrow = ["--receive-buffer", "4KiB", "--repeats", "1"];
    let found = home.json([&SHORT[..], &narrow, &["--json"]].concat());
    let share = found["rows"][0]["tcp"]["receiver_limited"]["median"].as_f64().expect("the kernel tells");
    assert!((0.1..=1.0).contains(&share), "{found}");
    let page = home.stdout([&SHORT[..], &narrow, &["-v"]].concat());
    assert!(page.contains("held back by the receiver's window"), "{page}");
}

#[test]
fn datagrams_without_room_in_the_socket_are_told_apart_from_others_that_were_lost() {
    let home = Home::new();
    let narrow = ["--channel", "udp", "--path", "batch", "--receive-buffer", "4KiB", "--repeats", "1"];
    let found = home.json([&SHORT[..], &narrow, &["--json"]].concat());
    let counts = &found["rows"][0]["datagrams"];
    let (lost, dropped) = (counts["lost"].as_u64(), counts["dropped"].as_u64());
    assert!(lost > Some(0) && dropped > Some(0), "{counts}");
    assert!(found["warnings"].to_string().contains("no room in the receiver's socket"), "{found}");
    let page = home.stdout([&SHORT[..], &narrow, &["-v"]].concat());
    assert!(page.contains("in the receiver's socket, which was"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn a_damaged_journal_of_a_run_that_died_is_told_beside_the_figures() {
    let home = Home::new();
    home.netcliff(["tune", "undo"]).assert().success();
    std::fs::write(home.state().join("journal/999999999-1.jsonl"), "garbage\nmore\n").expect("a file");
    let args = ["--testbed", "loopback", "--repeats", "1", "--json"];
    let found = home.json([&SHORT[..], &args].concat());
    assert!(found.to_string().contains("is damaged"), "{found}");
    assert!(!home.json([&SHORT[..], &args].concat()).to_string().contains("is damaged"), "it was put aside");
}

#[test]
fn flows_use_the_cpus_of_a_list_round_robin() {
    let home = Home::new();
    let found = home.json([&SHORT[..], &["--flows", "3", "--repeats", "1", "--cpu", "0+0,0", "--json"]].concat());
    assert!(found["asked"].to_string().contains("near 0+0, far 0"), "{found}");
    assert!(number_at(&found, "/rows/0/goodput_bps/median") > 0.0, "{found}");
}

#[test]
fn rings_and_mapped_pages_by_name() {
    let home = Home::new();
    let args = ["--repeats", "1", "--path", "uring,uring-zc", "--receive", "uring", "--json"];
    if !has(Need::Uring) {
        return;
    }
    let found = home.json([&SHORT[..], &args].concat());
    assert!(number_at(&found, "/rows/0/goodput_bps/median") > 0.0, "{found}");
    let mapped = home.json([&SHORT[..], &["--repeats", "1", "--receive", "zerocopy", "--json"]].concat());
    let row = "/rows/0/mapped";
    assert!(
        number_at(&mapped, &format!("{row}/mapped_bytes")) + number_at(&mapped, &format!("{row}/copied_bytes")) > 0.0
    );
    let paced = ["--channel", "udp", "--block", "1KiB", "--rate", "50Mbit/s", "--repeats", "1", "--json"];
    let paced = home.json([&SHORT[..], &paced].concat());
    assert!(number_at(&paced, "/rows/0/pacing/rate_error/median") <= 0.01, "{paced}");
    let page = home.stdout(
        [&SHORT[..], &["-v", "--repeats", "1", "--channel", "udp", "--block", "1KiB", "--rate", "50Mbit/s"]].concat(),
    );
    assert!(page.contains("paced to 50") && page.contains("late by"), "{page}");
}

/// Latency idle, loaded and recovering, by both transports, on this host and against an agent.
#[test]
fn requests_beside_a_transfer_are_told_by_phase() {
    let home = Home::new();
    let (_agent, address) = agent(&home, &[]);
    let to = ["--to", address.as_str()];
    for (probe, far) in [("--probe", &[][..]), ("--probe=tcp", &to)] {
        let asked = [probe, "--probe-every", "5ms", "--probe-around", "100ms", "--repeats", "1"];
        let args = [&SHORT[..], &asked, far].concat();
        let found = home.json([&args[..], &["--json"]].concat());
        let row = &found["rows"][0]["probe"];
        for phase in ["idle", "loaded", "recovering"] {
            assert!(number_at(row, &format!("/{phase}/sent")) >= 3.0, "{probe} {phase}: {row}");
            let [p50, p99, max] = ["p50_s", "p99_s", "max_s"].map(|key| number_at(row, &format!("/{phase}/{key}")));
            assert!(p50 > 0.0 && p50 <= p99 && p99 <= max, "{probe} {phase}: {row}");
            assert!(number_at(row, &format!("/{phase}/round_trips_per_minute")) > 60.0, "{row}");
        }
        assert!(row["grew"].as_str().is_some_and(|grew| !grew.is_empty()), "{row}");
        assert!(row["over_time"].as_array().is_some_and(|points| points.len() >= 10), "{row}");
        assert!(row["queues"].is_array(), "{row}");
        let page = home.stdout([&args[..], &["-v"]].concat());
        for part in ["LATENCY UNDER LOAD", "idle", "loaded", "recovering", "Queue that grew", "0 s: the windows open"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }
    refusals(
        &home,
        2,
        &[
            (&["stream", "--probe", "--channel", "pipe"], &["--probe", "tcp, mptcp or udp"]),
            (&["stream", "--probe", "--probe-every", "1us"], &["--probe-every 1us", "1ms to 1s"]),
            (&["stream", "--probe-around", "1s"], &["--probe"]),
            (&["stream", "--probe", "--probe-every", "1ms", "-t", "1200s"], &["--probe-every", "ask less often"]),
            (&["stream", "--to", "a", "--to", "b", "--probe"], &["--to a, b", "--probe"]),
            (&["stream", "--to", "a", "--to", "b", "--method", "ttcp"], &["--to a, b", "--method ttcp"]),
            (&["stream", "--to", "a", "--burst", "64KiB", "--every", "1ms"], &["--burst", "--reverse"]),
            (&["stream", "--to", "a", "-R", "--burst", "64KiB"], &["--every"]),
            (
                &["stream", "--to", "a", "-R", "--burst", "3KiB", "--block", "2KiB", "--every", "1ms"],
                &["--burst", "whole blocks"],
            ),
            (&["stream", "--cpu", "0,rx+x"], &["rx+N"]),
            (&["stream", "--cpu", "rx+1"], &["0,rx+1"]),
            (&["stream", "--channel", "pipe", "--cpu", "0,rx"], &["--cpu rx", "no packets"]),
            (&["stream", "--flows", "2", "--threads", "1", "--cpu", "0,rx"], &["--threads 1", "cpu rx"]),
            (&["stream", "--channel", "unix", "--receive", "trunc"], &["--receive", "TCP"]),
            (&["stream", "--channel", "udp", "--path", "gro-rx", "--receive", "trunc"], &["--receive", "UDP_GRO"]),
        ],
    );
}

/// Ten agents send to this host: they start together, each one's data is received, and the sum is correct.
#[test]
fn ten_senders_to_one_start_together_and_add_up() {
    let home = Home::new();
    let agents: Vec<_> = (0..10).map(|_| agent(&home, &[])).collect();
    let to: Vec<&str> = agents.iter().flat_map(|(_, address)| ["--to", address.as_str()]).collect();
    let burst = ["--burst", "64KiB", "--every", "20ms"];
    for more in [&[][..], &burst] {
        let short = ["stream", "--time", "200ms", "--warmup", "50ms", "--cpu-meter", "procfs", "--reverse"];
        let found = home.json([&short[..], &to, &["--repeats", "1", "--json"], more].concat());
        assert_eq!(found["partial"], false, "{found}");
        let many = &found["rows"][0]["many"];
        let rows = many["agents"].as_array().expect("agents");
        assert_eq!(rows.len(), 10);
        for (row, (_, address)) in rows.iter().zip(&agents) {
            assert_eq!(row["agent"], address.as_str());
            assert!(number_at(row, "/sent_bytes") > 0.0, "{row}");
            assert_eq!(row["sent_bytes"], row["received_bytes"], "{row}");
            assert!(row["retransmissions"].is_u64(), "{row}");
        }
        let jain = number_at(many, "/jain");
        assert!((0.1..=1.0 + 1e-9).contains(&jain), "{many}");
        // Within a millisecond on a machine that is not busy with other tests (docs/accuracy.md).
        assert!(number_at(many, "/start_skew_s/max") < 0.5, "{many}");
        assert_eq!(many["clock_error_s"], 0.0);
        if !more.is_empty() {
            assert!(number_at(many, "/incast/whole") >= 2.0, "{many}");
            assert_eq!(many["incast"]["flows"], 10);
            assert!(number_at(many, "/incast/until_last_byte_s/median") > 0.0, "{many}");
        }
    }
    let page = home.stdout([&["rr", "--time", "200ms", "--repeats", "1"], &to[..]].concat());
    assert!(page.contains("AGENTS") && page.contains("Jain's index") && page.contains(&agents[9].1), "{page}");
}
