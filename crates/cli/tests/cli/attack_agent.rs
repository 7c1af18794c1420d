//! Attacks on an agent from outside: by peers without a key, by other users of its host, and by a client that has the
//! key.
//!
//! These tests take seconds. The long form sends a thousand random requests, for minutes:
//! `cargo test -p netcliff --test cli a_thousand_drawn_orders -- --ignored --nocapture`.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::orders::{AgentRequest, RequestOutcome, carry_out, orders, session, stream};
use crate::common::running::{Running, agent};
use crate::common::{Home, bed, say};
use netcliff_remote::control::Limits;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::Key;
use netcliff_testkit::{Need, has, has_program};
use serde_json::json;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// `--memory` of the agents here, and the memory that they may use in addition (MiB).
const MEMORY_MIB: u64 = 64;
const BESIDE_MIB: u64 = 64;
/// Seeds of the random requests: for the short form of the test and for the long one.
const SEED: u8 = 17;
const LONG_SEED: u8 = 117;
/// Longest time from SIGTERM to the end of an agent, whatever it does, on a busy machine.
const LEAVING: Duration = Duration::from_secs(5);

/// An agent with a key and little memory.
fn keyed(home: &Home) -> (Running, String, Key) {
    let file = bed::key(home);
    let key = Key::read(file.as_ref()).expect("just made");
    let memory = format!("{MEMORY_MIB}MiB");
    let (agent, address) = agent(home, &["--key", &file, "--memory", &memory]);
    (agent, address, key)
}

/// Largest memory that a process has used (KiB).
fn most_kib(agent: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a high-water mark");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn leaves(agent: Running) {
    let begin = Instant::now();
    agent.signal("TERM");
    let ended = agent.end(LEAVING);
    assert_eq!(ended.status.code(), Some(0), "after {:?}: {}", begin.elapsed(), ended.stderr);
}

fn draw(seed: u8, count: usize) {
    let home = Home::new();
    let (agent, address, key) = keyed(&home);
    let mut done = 0;
    let mut session = session(&address, &key);
    for (number, order) in orders(seed, count).iter().enumerate() {
        done += usize::from(carry_out(&mut session, LOOPBACK, order) == RequestOutcome::Done);
        let most_mib = most_kib(&agent) / 1024;
        assert!(most_mib < MEMORY_MIB + BESIDE_MIB, "{most_mib} MiB after order {number} of seed {seed}: {order:?}");
    }
    say(&format!("{count} orders of seed {seed}: {done} carried out, at most {} KiB in memory", most_kib(&agent)));
    // Some random requests are accepted and some are refused.
    assert!(done > count / 20 && done < count, "{done} of {count}");
    leaves(agent);
}

/// A client with the key sends random requests. The agent stays within its memory limit, and ends on SIGTERM.
#[test]
fn drawn_orders_keep_an_agent_within_its_memory() {
    draw(SEED, 150);
}

#[test]
#[ignore = "minutes: a thousand random requests"]
fn a_thousand_drawn_orders_keep_an_agent_within_its_memory() {
    draw(LONG_SEED, 1000);
}

fn transfer(changes: serde_json::Value) -> AgentRequest {
    let mut order = json!({
        "carrier": "tcp", "path": "write", "options": { "no_delay": false, "congestion": null, "send_buffer_bytes": null,
        "receive_buffer_bytes": null, "mss_bytes": null, "tos": null, "pacing_bps": null }, "direction": "send", "flows": 1,
        "block_bytes": 65536, "read_bytes": 65536, "warm_up_s": 0.0, "amount": { "seconds": 600.0 }, "windows": 1,
        "acknowledged": false, "interval_s": null, "stall_s": 5.0, "cpu": null,
    });
    for (key, value) in changes.as_object().expect("an object") {
        order[key] = value.clone();
    }
    ("transfer", order)
}

/// A measurement window for each byte: the agent counts and reports each window. Without a limit, such a test once took
/// 3.8 GiB of memory.
#[test]
fn windows_are_bounded_and_counted() {
    let home = Home::new();
    let (agent, address, key) = keyed(&home);
    let mut session = session(&address, &key);
    let windows = |windows: u32| {
        transfer(json!({ "windows": windows, "amount": { "bytes": 1 }, "block_bytes": 1, "read_bytes": 1 }))
    };
    let refused = session.start("transfer", &windows(u32::MAX).1).expect_err("too many").to_string();
    assert!(refused.contains("windows is 4294967295 of 1 flows: expected at most 16384"), "{refused}");
    let refused = session.start("transfer", &windows(16_384).1).expect_err("too much memory").to_string();
    assert!(refused.contains("no memory") && refused.contains("64MiB"), "{refused}");
    // A number of windows that fits the memory limit: all of them are filled and reported.
    let ready = session.start("transfer", &windows(10_000).1).expect("it fits");
    let mut data = stream(SocketAddr::new(LOOPBACK, ready.ports[0]), &ready.token, 0).expect("it is let in");
    data.set_nonblocking(false).expect("a socket");
    data.read_exact(&mut [0]).expect("all have come");
    data.write_all(&[0; 20_000]).expect("it reads");
    drop(data);
    let last = session.last(Duration::from_secs(20)).expect("it is there").expect("it ends by itself");
    let counted =
        last.report.pointer("/played/sides/0/end/windows").and_then(|all| all.as_array()).expect("its windows");
    assert_eq!(counted.len(), 10_000);
    let most_mib = most_kib(&agent) / 1024;
    assert!(most_mib < MEMORY_MIB + BESIDE_MIB, "{most_mib} MiB");
    leaves(agent);
}

/// Messages that need a hundred times their length in memory when they are parsed, and messages that are long.
#[test]
fn messages_are_small_when_they_are_read() {
    let home = Home::new();
    let (mut agent, address, key) = keyed(&home);
    let limits = Limits { message_bytes: 4 << 20, ..Limits::default() };
    for (text, told) in [
        (format!("[{}0]", "{\"\":0},".repeat(8000)), "more than 4096 values"),
        (format!("[{}0]", "[],".repeat(20_000)), "more than 4096 values"),
        (format!("[{}0]", "0,".repeat(400_000)), "at most 65536 are taken"),
    ] {
        let asked: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut session = Session::connect(&address, Some(&key), "0", limits).expect("the agent is there");
        assert!(session.start("transfer", &asked).is_err());
        agent.until(told, Duration::from_secs(10));
    }
    // The other sessions of the agent are not affected.
    assert!(session(&address, &key).start("transfer", &transfer(json!({})).1).is_ok());
    let most_kib = most_kib(&agent);
    assert!(most_kib / 1024 < BESIDE_MIB, "{most_kib} KiB");
    leaves(agent);
}

/// Tests that wait for events that never come: for a flow, for a block that is due in a thousand years, for data to
/// end.
#[test]
fn an_agent_leaves_whatever_its_clients_wait_for() {
    let home = Home::new();
    let (agent, address, key) = keyed(&home);
    let slow = json!({ "no_delay": false, "congestion": null, "send_buffer_bytes": null, "receive_buffer_bytes": null,
        "mss_bytes": null, "tos": null, "pacing_bps": 1, "paced_by_sender": true });
    let asked = [
        transfer(json!({ "stall_s": 60.0 })),
        transfer(json!({ "direction": "receive", "options": slow })),
        transfer(json!({ "direction": "receive", "options": slow, "flows": 4, "threads": 1 })),
        transfer(
            json!({ "direction": "receive", "options": slow, "amount": { "bytes": 1_u64 << 40 }, "warm_up_s": 0.1 }),
        ),
        transfer(json!({ "direction": "both", "flows": 2 })),
    ];
    let mut held = Vec::new();
    for (number, (kind, settings)) in asked.iter().enumerate() {
        let mut session = session(&address, &key);
        let ready = session.start(kind, settings).expect("it is in range");
        let flows =
            settings["flows"].as_u64().expect("a number") as u32 * if settings["direction"] == "both" { 2 } else { 1 };
        let target = SocketAddr::new(LOOPBACK, ready.ports[0]);
        // No flow connects to the first test.
        let data: Vec<TcpStream> =
            (0..flows).filter_map(|flow| (number > 0).then(|| stream(target, &ready.token, flow)).flatten()).collect();
        held.push((session, data));
    }
    // Clients that have not completed the handshake.
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    std::thread::sleep(Duration::from_millis(700));
    leaves(agent);
    drop((held, silent));
}

/// Every user can connect to loopback: an agent without a key serves only its own user and root.
#[test]
fn an_agent_without_a_key_serves_its_own_user_only() {
    if !has_program("bash") {
        return;
    }
    let home = Home::new();
    let (mut agent, address) = agent(&home, &[]);
    let port = address.rsplit(':').next().expect("a port");
    let hello = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'netcliff\\0\\2\\0\\0' >&3; head -c 12 <&3");
    let mut bash = Command::new("bash");
    bash.args(["-c", &hello]).current_dir("/").stdin(Stdio::null());
    let own = bash.output().expect("bash");
    assert_eq!(own.stdout, b"netcliff\0\x02\0\0", "{own:?}");
    if !has(Need::Root) {
        return;
    }
    let other = bash.uid(65_534).gid(65_534).output().expect("bash");
    assert_eq!(other.stdout, b"netcliff\0\x02\0\x02", "{other:?}");
    agent.until("of user 65534: without a key this agent serves user 0 and root", Duration::from_secs(10));
    leaves(agent);
}
